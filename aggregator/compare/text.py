"""A comparison as text for the console."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from aggregator.compare.exact import rounded
from aggregator.compare.result import Change, Comparison, Match, Row, Side, Verdict

MOST_ROWS: Final = 20
MEAN_STEP: Final = "mean step, as profiled"
_UNIT_NS: Final = 1_000  # Times are shown in ms with three digits.
_NAME: Final = 60
_MARKS: Final = {
    Match.SAME: "",
    Match.ALIGNED: "aligned",
    Match.MODULE: "whole module",
    Match.ONLY_BASE: "only in base",
    Match.ONLY_NEW: "only in new",
}


def to_text(comparison: Comparison, most_rows: int = MOST_ROWS) -> str:
    """The comparison as lines; each column of times adds up as displayed."""
    lines = [str(comparison.headline)]
    lines += filter(None, [interval_text(comparison)])
    lines += [f"Note: {note}" for note in comparison.notes]
    lines += ["", *_sides(comparison)]
    if comparison.setup:
        lines += ["", "What else differs"]
        lines += [
            f"  {setting.key}: {setting.base or 'not recorded'} -> {setting.new or 'not recorded'}"
            for setting in comparison.setup
        ]
    lines += ["", *_changes("class", comparison.classes)]
    lines += ["", *_changes("cause", comparison.causes)]
    return "\n".join([*lines, "", *_rows(comparison.rows, most_rows)]) + "\n"


def interval_text(comparison: Comparison) -> str:
    """Say the interval of the difference, for each sample where the batches differ; or nothing."""
    interval, samples = comparison.judgement.interval_ns, comparison.samples
    if interval is None or comparison.are_other_programs:
        return ""
    low, high = (bound / 1e6 / (samples[0] if samples else 1) for bound in interval)
    unit = "ms per sample" if samples else "ms"
    return f"95 % interval of the difference: {low:+.3f} to {high:+.3f} {unit}."


def _sides(comparison: Comparison) -> list[str]:
    return [_side("base", comparison.base), _side("new ", comparison.new)]


def _side(title: str, side: Side) -> str:
    names = ", ".join(f"{run.name} (iterations {run.first} to {run.last})" for run in side.captures)
    mean, median = float(side.step_ns) / 1e6, side.median_ns / 1e6
    count = f"{side.iterations} steps as profiled"
    line = f"{title}: mean {mean:.3f} ms, median {median:.3f} ms, {count}"
    if side.unprofiled_ns is not None:
        origin = "as given" if side.basis == "given" else "without profiling"
        line += f"; {side.unprofiled_ns / 1e6:.3f} ms {origin}"
    return f"{line}: {names}"


def _times(changes: Sequence[Change | Row]) -> list[tuple[int, int]]:
    """Both columns in units, each with the rounded sum as its sum."""
    columns = (
        rounded([change.base_ns for change in changes], _UNIT_NS),
        rounded([change.new_ns for change in changes], _UNIT_NS),
    )
    return list(zip(*columns, strict=True))


def _line(pair: tuple[int, int], name: str, verdict: str = "") -> str:
    base, new = pair
    return f"{base / 1e3:12.3f} {new / 1e3:12.3f} {(new - base) / 1e3:+12.3f}  {name}{verdict}"


def _head(title: str) -> str:
    return f"{'base ms':>12} {'new ms':>12} {'difference':>12}  {title}"


def _changes(title: str, changes: Sequence[Change]) -> list[str]:
    pairs = _times(changes)
    lines = [_head(title)]
    lines += [_line(pair, row.name) for pair, row in zip(pairs, changes, strict=True) if any(pair)]
    return [*lines, _line(_sum(pairs), MEAN_STEP)]


def _sum(pairs: Iterable[tuple[int, int]]) -> tuple[int, int]:
    listed = list(pairs)
    return sum(base for base, _ in listed), sum(new for _, new in listed)


def _rows(rows: Sequence[Row], most: int) -> list[str]:
    pairs = _times(rows)
    lines = [_head("op: class, verdict")]
    shown = list(zip(pairs, rows, strict=True))
    lines += [_line(pair, _name(row), _verdict(row)) for pair, row in shown[:most]]
    if len(shown) > most:
        rest = _sum(pair for pair, _ in shown[most:])
        lines.append(_line(rest, f"{len(shown) - most} other rows"))
    return [*lines, _line(_sum(pairs), MEAN_STEP)]


def _name(row: Row) -> str:
    name = f"{row.module}{row.op}"
    if len(name) > _NAME:
        name = f"...{name[3 - _NAME :]}"
    direction = f" ({row.direction})" if row.direction else ""
    return f"{name}{direction}: {row.kind}{f', {row.reason}' if row.reason else ''}"


def _verdict(row: Row) -> str:
    details: list[str] = []
    if row.judgement.verdict is Verdict.SAME and row.judgement.within_pct is not None:
        details.append(f"same within {row.judgement.within_pct:.1f} %")
    else:
        details.append(str(row.judgement.verdict))
    details += [mark for mark in (_MARKS[row.match],) if mark]
    if row.base_name:
        details.append(f"was {row.base_name}")
    if row.base_kernels != row.new_kernels:
        details.append("other kernels")
    return f" [{', '.join(details)}]"
