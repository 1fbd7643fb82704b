"""Waterfall, icicle and distributions of a comparison as SVG, for the report in one file."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from html import escape
from itertools import pairwise

import numpy as np

from aggregator.compare.document import CompareModule
from aggregator.compare.exact import rounded_pairs
from aggregator.compare.result import Comparison, Row, Samples

WIDTH = 960
_BAR = 24
_LABEL = 220
_DEPTH = 7
_LEAST_WIDTH = 2.0


@dataclass
class Module:
    """A module or op: the sums of the rows in it."""

    name: str
    base_ns: Fraction = Fraction()
    new_ns: Fraction = Fraction()
    parts: dict[str, Module] = field(default_factory=dict)

    @property
    def weight_ns(self) -> Fraction:
        """Width in the picture: the mean of both sides, which adds up over the parts."""
        return (self.base_ns + self.new_ns) / 2

    def add(self, path: list[str], base_ns: Fraction, new_ns: Fraction) -> None:
        """Add a row at the end of a path."""
        self.base_ns += base_ns
        self.new_ns += new_ns
        if path:
            part = self.parts.setdefault(path[0], Module(path[0]))
            part.add(path[1:], base_ns, new_ns)


def waterfall(comparison: Comparison) -> str:
    """From the base step, class by class, to the new step."""
    changes = [change for change in comparison.classes if change.base_ns or change.new_ns]
    shown_as = rounded_pairs([(change.base_ns, change.new_ns) for change in changes])
    edges = [comparison.base.step_ns]
    for change in changes:
        edges.append(edges[-1] + change.difference_ns)
    widest = max([*edges, comparison.new.step_ns, Fraction(1)])
    scale = (WIDTH - _LABEL - 110) / float(widest)
    base, new = (sum(column) for column in zip(*shown_as, strict=True)) if shown_as else (0, 0)
    bars = [("base step", Fraction(), edges[0], "total", f"{base / 1e3:.3f}")]
    for change, (start, stop), pair in zip(changes, pairwise(edges), shown_as, strict=True):
        kind = "slower" if stop > start else "faster"
        bars.append((change.name, start, stop, kind, f"{(pair[1] - pair[0]) / 1e3:+.3f}"))
    bars.append(("new step", Fraction(), edges[-1], "total", f"{new / 1e3:.3f}"))
    parts = []
    for number, (name, start, stop, kind, shown) in enumerate(bars):
        y = number * _BAR
        low, high = sorted((float(start) * scale, float(stop) * scale))
        parts.append(
            f'<text class="name" x="{_LABEL - 8}" y="{y + 16}">{escape(name)}</text>'
            f'<rect class="{kind}" x="{_LABEL + low:.2f}" y="{y + 4}" height="{_BAR - 8}"'
            f' width="{max(high - low, 1):.2f}"/>'
            f'<text x="{_LABEL + high + 6:.2f}" y="{y + 16}">{shown} ms</text>'
        )
    return _svg(len(bars) * _BAR, "Waterfall of the step by class", parts)


def module_tree(comparison: Comparison) -> Module:
    """All rows by module and op."""
    root = Module("step")
    for row in comparison.rows:
        root.add(row.path, row.base_ns, row.new_ns)
    return root


def module_sums(comparison: Comparison) -> list[CompareModule]:
    """Path and times of the modules that are wide enough to be drawn, the whole step first."""
    root = module_tree(comparison)
    least_ns = root.weight_ns * Fraction(_LEAST_WIDTH) / WIDTH
    found: list[CompareModule] = []

    def add(module: Module, path: str, depth: int) -> None:
        if module.weight_ns < least_ns or depth > _DEPTH:
            return
        base_ns, new_ns = float(module.base_ns), float(module.new_ns)
        found.append(CompareModule(path=path, base_ns=base_ns, new_ns=new_ns))
        for part in module.parts.values():
            add(part, f"{path}{part.name}/", depth + 1)

    add(root, "/", 0)
    return found


def icicle(comparison: Comparison) -> str:
    """Modules side by side, as wide as their time, colored by how they changed."""
    root = module_tree(comparison)
    largest = max((abs(part.new_ns - part.base_ns) for part in root.parts.values()), default=0)
    parts: list[str] = []
    scale = WIDTH / float(root.weight_ns or 1)
    _boxes(root, 0.0, 0, scale, float(largest) or 1.0, parts)
    return _svg(min(_depth(root), _DEPTH) * _BAR, "Modules by time, colored by change", parts)


def _depth(module: Module) -> int:
    return 1 + max((_depth(part) for part in module.parts.values()), default=0)


def _boxes(
    module: Module, x: float, depth: int, scale: float, largest: float, parts: list[str]
) -> None:
    width = float(module.weight_ns) * scale
    if width < _LEAST_WIDTH or depth >= _DEPTH:
        return
    change = float(module.new_ns - module.base_ns)
    kind = "slower" if change > 0 else "faster"
    opacity = min(abs(change) / largest, 1.0)
    title = (
        f"{module.name}: {float(module.base_ns) / 1e6:.3f} -> {float(module.new_ns) / 1e6:.3f} ms"
        f" ({change / 1e6:+.3f} ms)"
    )
    letters = int(width / 6.5)
    label = module.name if len(module.name) <= letters else module.name[: max(letters - 1, 0)]
    y = depth * _BAR
    frame = f'x="{x:.2f}" y="{y}" width="{max(width - 1, 0.5):.2f}" height="{_BAR - 1}"'
    parts.append(
        f'<g><title>{escape(title)}</title><rect class="box" {frame}/>'
        f'<rect class="{kind}" {frame} fill-opacity="{opacity:.3f}"/>'
        f'<text x="{x + 4:.2f}" y="{y + 16}">{escape(label)}</text></g>'
    )
    for part in sorted(module.parts.values(), key=lambda item: (-item.weight_ns, item.name)):
        _boxes(part, x, depth + 1, scale, largest, parts)
        x += float(part.weight_ns) * scale


def distributions(row: Row) -> str:
    """Every iteration of both sides as a mark on one axis, and the means."""
    sides = (row.base_samples, row.new_samples)
    values = [_joined(side) for side in sides]
    both = np.concatenate(values)
    low, high = float(both.min(initial=np.inf)), float(both.max(initial=0))
    scale = (WIDTH - 320) / ((high - low) or 1.0)
    parts = []
    for number, (name, side) in enumerate(zip(("base", "new"), values, strict=True)):
        y = number * _BAR
        parts.append(f'<text class="name" x="60" y="{y + 16}">{name}</text>')
        parts += [
            f'<circle class="{name}" cx="{72 + (value - low) * scale:.1f}" cy="{y + 12}" r="3"/>'
            for value in side.tolist()
        ]
        if len(side):
            at = 72 + (float(side.mean()) - low) * scale
            parts.append(
                f'<line class="mean" x1="{at:.1f}" x2="{at:.1f}" y1="{y + 3}" y2="{y + 21}"/>'
                f'<text x="{WIDTH - 230}" y="{y + 16}">mean {side.mean() / 1e6:.3f} ms</text>'
            )
    return _svg(2 * _BAR, "Times of the iterations", parts)


def _joined(side: tuple[Samples, ...]) -> Samples:
    return np.concatenate(side) if side else np.empty(0)


def _svg(height: int, title: str, parts: list[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">'
        f"{''.join(parts)}</svg>"
    )
