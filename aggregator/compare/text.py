"""A comparison as text for the console."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final, TypeAlias

import numpy as np

from aggregator.compare.exact import rounded_pairs
from aggregator.compare.result import Change, Comparison, Match, Row, Samples, Side, Verdict
from aggregator.metrics.ownership import BUSY_CLASSES, CLASSES

MOST_ROWS: Final = 20
Pair: TypeAlias = tuple[int, int]
"""Times of both sides as they are shown. Unit: us."""
ShownRow: TypeAlias = tuple[Row, Pair]
GPU_TIME: Final = "GPU time"
"""Kind of a row that joins several classes of work."""
MEAN_STEP: Final = "mean step, as profiled"
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
    lines += ["", _side("base", comparison.base), _side("new ", comparison.new)]
    if comparison.setup:
        lines += ["", "What else differs"]
        lines += [
            f"  {setting.key}: {setting.base or 'not recorded'} -> {setting.new or 'not recorded'}"
            for setting in comparison.setup
        ]
    lines += ["", *_changes("class", comparison.classes)]
    lines += ["", *_changes("cause", comparison.causes)]
    return "\n".join([*lines, "", *_rows(joined_rows(comparison.rows), most_rows)]) + "\n"


def interval_text(comparison: Comparison) -> str:
    """Say the interval of the difference, for each sample where the batches differ; or nothing."""
    interval, samples = comparison.judgement.interval_ns, comparison.samples
    if interval is None or comparison.are_other_programs:
        return ""
    low, high = (bound / 1e6 / (samples[0] if samples else 1) for bound in interval)
    unit = "ms per sample" if samples else "ms"
    text = f"95 % interval of the difference: {low:+.3f} to {high:+.3f} {unit}"
    judgement = comparison.judgement
    if judgement.covers_runs or judgement.verdict is Verdict.CANNOT_TELL:  # The headline says so.
        return f"{text}."
    return f"{text}; with one capture per side, changes from run to run are not in it."


def _side(title: str, side: Side) -> str:
    names = ", ".join(f"{run.name} (iterations {run.first} to {run.last})" for run in side.captures)
    mean, median = float(side.step_ns) / 1e6, side.median_ns / 1e6
    count = f"{side.iterations} steps as profiled"
    line = f"{title}: mean {mean:.3f} ms, median {median:.3f} ms, {count}"
    if side.unprofiled_ns is not None:
        origin = "as given" if side.basis == "given" else "without profiling"
        line += f"; {side.unprofiled_ns / 1e6:.3f} ms {origin}"
    return f"{line}: {names}"


def _line(pair: Pair, name: str, verdict: str = "") -> str:
    base, new = pair
    return f"{base / 1e3:12.3f} {new / 1e3:12.3f} {(new - base) / 1e3:+12.3f}  {name}{verdict}"


def _head(title: str) -> str:
    return f"{'base ms':>12} {'new ms':>12} {'difference':>12}  {title}"


def _changes(title: str, changes: Sequence[Change]) -> list[str]:
    return [_head(title), *(_line(pair, name) for name, pair in change_lines(changes))]


def change_lines(changes: Sequence[Change]) -> list[tuple[str, Pair]]:
    """Name and shown times of each part of the step that has time, and of the whole step."""
    pairs = rounded_pairs([(change.base_ns, change.new_ns) for change in changes])
    lines = [(row.name, pair) for row, pair in zip(changes, pairs, strict=True) if any(pair)]
    return [*lines, (MEAN_STEP, sum_of_pairs(pairs))]


def sum_of_pairs(pairs: Iterable[Pair]) -> Pair:
    """Return the sums of both columns."""
    listed = list(pairs)
    return sum(base for base, _ in listed), sum(new for _, new in listed)


def rest_lines(shown: Sequence[ShownRow], most: int) -> list[tuple[str, Pair]]:
    """Name and times of the rows that are not shown; none if all are."""
    rest = [pair for _, pair in shown[most:]]
    return [(f"{len(rest)} other rows", sum_of_pairs(rest))] if rest else []


def _rows(shown: Sequence[ShownRow], most: int) -> list[str]:
    lines = [_line(pair, row_name(row, _NAME), _verdict(row)) for row, pair in shown[:most]]
    lines += [_line(pair, name) for name, pair in rest_lines(shown, most)]
    total = _line(sum_of_pairs(pair for _, pair in shown), MEAN_STEP)
    return [_head("op: class, verdict"), *lines, total]


def joined_rows(rows: Sequence[Row]) -> list[ShownRow]:
    """Join the rows of the GPU time of each op, as the page and the table of ops have it.

    Returns:
        The rows with their times as they are shown, in us: those add up to the step.
    """
    groups: dict[tuple[str | int, ...], list[ShownRow]] = {}
    times = rounded_pairs([(row.base_ns, row.new_ns) for row in rows])
    for number, (row, pair) in enumerate(zip(rows, times, strict=True)):
        is_gpu_time = bool(row.op) and row.kind in CLASSES[:BUSY_CLASSES]
        key = (row.module, row.op, row.direction) if is_gpu_time else (number,)
        groups.setdefault(key, []).append((row, pair))
    joined = [
        parts[0]
        if len(parts) == 1
        else (_sum_of([row for row, _ in parts]), sum_of_pairs(p for _, p in parts))
        for parts in groups.values()
    ]
    return sorted(joined, key=lambda shown: -abs(shown[0].difference_ns))


def _sum_of(parts: Sequence[Row]) -> Row:
    """Return the sum of some rows, with the verdict of the largest that changes as all do."""
    base_ns = sum((row.base_ns for row in parts), Fraction())
    new_ns = sum((row.new_ns for row in parts), Fraction())
    fitting = (row for row in parts if row.difference_ns * (new_ns - base_ns) > 0)
    return replace(
        parts[0],
        kind=GPU_TIME,
        base_ns=base_ns,
        new_ns=new_ns,
        judgement=next(fitting, parts[0]).judgement,
        base_samples=_summed([row.base_samples for row in parts]),
        new_samples=_summed([row.new_samples for row in parts]),
    )


def _summed(samples: Sequence[tuple[Samples, ...]]) -> tuple[Samples, ...]:
    """Return the sums of rows, run by run."""
    return tuple(np.sum(runs, axis=0) for runs in zip(*samples, strict=True))


def row_name(row: Row, most: int = 0) -> str:
    """Op or module, direction, class and reason in one line; a path longer than ``most`` is cut."""
    name = f"{row.module}{row.op}"
    if most and len(name) > most:
        name = f"...{name[3 - most :]}"
    direction = f" ({row.direction})" if row.direction else ""
    return f"{name}{direction}: {row.kind}{f', {row.reason}' if row.reason else ''}"


def _verdict(row: Row) -> str:
    within = row.judgement.within_pct
    is_same = row.judgement.verdict is Verdict.SAME and within is not None
    details = [f"same within {within:.1f} %" if is_same else str(row.judgement.verdict)]
    details += filter(None, [_MARKS[row.match]])
    if row.base_name:
        details.append(f"was {row.base_name}")
    if row.base_kernels != row.new_kernels:
        details.append("other kernels")
    return f" [{', '.join(details)}]"
