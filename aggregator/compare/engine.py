"""Compares two sides: rows that partition the step, judged and put in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import isnan, lcm
from typing import Final

import numpy as np

from aggregator.compare.captures import CaptureData
from aggregator.compare.headline import headline
from aggregator.compare.limits import are_other_programs, limits, without_loop
from aggregator.compare.matching import Op, Target, Targets, match_ops
from aggregator.compare.ranks import slow_rank
from aggregator.compare.result import (
    Change,
    Comparison,
    Judgement,
    Match,
    Row,
    Side,
    Verdict,
)
from aggregator.compare.setup import batch_sizes, differences
from aggregator.compare.statistics import SAME_PCT, RowVerdicts, Unit, judge_rows, judge_step
from aggregator.metrics.ownership import BUSY_CLASSES, CLASSES, LAUNCHING, UNKNOWN
from aggregator.metrics.ownership_host import FIRST_CALL, REASONS
from aggregator.profile.arrays import Float64, Int64

SYNCHRONIZING: Final = "blocking CUDA calls"
"""Cause of the time that calls which wait for the GPU, or for its memory, own."""


@dataclass
class _Cells:
    """A row in the making: the columns of each capture that add up to it."""

    reason: str
    cause: str
    kind: int
    target: Target
    base: list[list[int]] = field(default_factory=list)
    new: list[list[int]] = field(default_factory=list)


@dataclass(frozen=True)
class _Times:
    """The rows of one side, mean over the GPUs."""

    samples: list[Float64]  # An array (iterations, rows) per capture. Unit: ns.
    total_ns: list[int]  # Of each row, over all iterations and GPUs.
    count: int  # What the totals are divided by.


def compare(
    base: Sequence[CaptureData], new: Sequence[CaptureData], *, is_one_capture: bool = False
) -> Comparison:
    """Compare two sides; at least one capture each."""
    sides = Side(tuple(run.capture for run in base)), Side(tuple(run.capture for run in new))
    targets = match_ops(_all_ops(base), _all_ops(new))
    cells = list(_collect(base, new, targets).values())
    times = (
        _times(base, [cell.base for cell in cells]),
        _times(new, [cell.new for cell in cells]),
    )
    is_device = np.array([cell.kind < BUSY_CLASSES for cell in cells])
    doubts = judge_rows(
        times[0].samples, times[1].samples, is_device, is_one_capture=is_one_capture
    )
    differences_ns = _differences(times)
    judgements = _judgements(doubts, _within_a_tick(differences_ns, times, _tick_ns((*base, *new))))
    samples = batch_sizes(base, new)
    # A step of another batch counts as if it had the samples of the base.
    scale = 1.0 if samples is None else samples[0] / samples[1]
    if samples is not None:
        scaled = [part * scale for part in times[1].samples]
        doubts = judge_rows(times[0].samples, scaled, is_device, is_one_capture=is_one_capture)
    judgement = _without_contradiction(
        sides, _judge_step(sides, doubts, scale, is_one_capture=is_one_capture), scale
    )
    uncut = without_loop((*base, *new))
    if uncut:  # other work may be in what counts as a step
        judgement = Judgement(Verdict.CANNOT_TELL)
        judgements = [judgement] * len(judgements)
    else:
        judgements = _of_whole_ops(cells, times, judgements, is_one_capture=is_one_capture)
    rows = _rows(cells, times, judgements, _changed_kernels(base, new, targets))
    order = sorted(
        range(len(rows)),
        key=lambda row: (-abs(differences_ns[row]), rows[row].kind, rows[row].module, rows[row].op),
    )
    comparison = Comparison(
        base=sides[0],
        new=sides[1],
        judgement=judgement,
        classes=_changes(times, [row.kind for row in rows], CLASSES),
        causes=_changes(times, [cell.cause for cell in cells]),
        rows=tuple(rows[row] for row in order),
        setup=differences(base, new),
        headline="",
        notes=limits(base, new, rows),
        samples=samples,
        are_other_programs=are_other_programs(base, new, rows),
    )
    slow = slow_rank(
        [data.ranks for data in base],
        [data.ranks for data in new],
        float(comparison.base.step_ns),
        float(comparison.difference_ns),
    )
    return headline(comparison, uncut, slow=slow, is_one_capture=is_one_capture)


def _all_ops(captures: Sequence[CaptureData]) -> list[Op]:
    """Ops of all captures, each once."""
    found: dict[tuple[str, str], Op] = {}
    for data in captures:
        for op in data.ops:
            found.setdefault(op.key, op)
    return list(found.values())


def _collect(
    base: Sequence[CaptureData], new: Sequence[CaptureData], targets: Targets
) -> dict[tuple[int, str, Target], _Cells]:
    """The rows, with the owners of each capture that belong to them."""
    cells: dict[tuple[int, str, Target], _Cells] = {}
    groups = [{name for data in side for name in data.groups} for side in (base, new)]
    for is_new, side in enumerate((base, new)):
        known = targets.new if is_new else targets.base
        for number, data in enumerate(side):
            owned = data.ownership
            columns = zip(
                owned.kind.tolist(),
                owned.reason.tolist(),
                owned.op.tolist(),
                owned.group.tolist(),
                strict=True,
            )
            for column, (kind, reason, op, group) in enumerate(columns):
                if op >= 0:
                    target = known[data.ops[op].key]
                else:
                    name = data.groups[group] if group >= 0 else ""
                    target = _of_group(name, groups[not is_new], is_new=bool(is_new))
                key = (kind, owned.reasons[reason], target)
                if key not in cells:
                    cells[key] = _Cells(owned.reasons[reason], _cause(kind, reason), kind, target)
                place = cells[key].new if is_new else cells[key].base
                while len(place) <= number:
                    place.append([])
                place[number].append(column)
    return cells


def _of_group(name: str, others: set[str], *, is_new: bool) -> Target:
    if not name or name in others:
        return Target(Match.SAME, f"/{name}/" if name else "/", "", "", "")
    only = Match.ONLY_NEW if is_new else Match.ONLY_BASE
    return Target(only, f"/{name}/", "", "", "")


def _cause(kind: int, reason: int) -> str:
    """What the GPU did or waited for, whichever part of the iteration it was in."""
    if kind < BUSY_CLASSES or kind == UNKNOWN:
        return CLASSES[kind]
    if reason >= FIRST_CALL:
        return SYNCHRONIZING
    return REASONS[reason] or CLASSES[LAUNCHING]


def _times(side: Sequence[CaptureData], columns: list[list[list[int]]]) -> _Times:
    summed = [_summed(data, columns, number) for number, data in enumerate(side)]
    common = lcm(*(data.capture.devices for data in side))
    total = np.zeros(len(columns), dtype=np.int64)
    for data, part in zip(side, summed, strict=True):
        total += part.sum(axis=1) * (common // data.capture.devices)
    return _Times(
        [part.T / data.capture.devices for data, part in zip(side, summed, strict=True)],
        total.tolist(),
        common * sum(len(data.capture.lengths_ns) for data in side),
    )


def _summed(data: CaptureData, columns: list[list[list[int]]], number: int) -> Int64:
    """Times of all rows in the iterations of a capture: an array (rows, iterations)."""
    parts = [place[number] if len(place) > number else [] for place in columns]
    counts = np.array([len(part) for part in parts], dtype=np.int64)
    owned_ns = np.ascontiguousarray(data.ownership.owned_ns.T)
    result = np.zeros((len(columns), owned_ns.shape[1]), dtype=np.int64)
    held = np.flatnonzero(counts)
    source = np.array([column for part in parts for column in part], dtype=np.int64)
    if len(source):
        heads = np.cumsum(counts[held]) - counts[held]
        result[held] = np.add.reduceat(owned_ns[source], heads, axis=0)
    return result


def _differences(times: tuple[_Times, _Times]) -> list[int]:
    """New - base of each row, in units of one nanosecond by the product of both counts."""
    base, new = times
    return [
        after * base.count - before * new.count
        for before, after in zip(base.total_ns, new.total_ns, strict=True)
    ]


def _judgements(doubts: RowVerdicts, is_within_a_tick: Sequence[bool]) -> list[Judgement]:
    """The judgements of rows.

    Rounding to the ticks of the trace's clock always goes the same way: no verdict on what it can
    make.
    """
    columns = (
        *(doubts.low_ns, doubts.high_ns),
        *(doubts.within_pct, doubts.q_value, doubts.mann_whitney_p),
    )
    values = ((None if isnan(value) else value for value in column.tolist()) for column in columns)
    return [
        Judgement(
            verdict=Verdict.CANNOT_TELL if within and verdict is not Verdict.SAME else verdict,
            interval_ns=None if low is None or high is None else (low, high),
            within_pct=within_pct,
            q_value=q,
            mann_whitney_p=p,
            covers_runs=doubts.unit is not Unit.SINGLE,
        )
        for verdict, within, low, high, within_pct, q, p in zip(
            doubts.verdicts, is_within_a_tick, *values, strict=True
        )
    ]


def _of_whole_ops(
    cells: list[_Cells],
    times: tuple[_Times, _Times],
    judgements: list[Judgement],
    *,
    is_one_capture: bool,
) -> list[Judgement]:
    """The judgements of rows, whose verdict is that of all GPU time of their op.

    Work that moves between classes, such as to Tensor Cores, makes no op slower.
    """
    rows: dict[Target, list[int]] = {}
    for number, cell in enumerate(cells):
        if cell.kind < BUSY_CLASSES and cell.target.op:
            rows.setdefault(cell.target, []).append(number)
    groups = [numbers for numbers in rows.values() if len(numbers) > 1]
    if not groups:
        return judgements
    sides = [
        [
            np.stack([part[:, numbers].sum(axis=1) for numbers in groups], axis=1)
            for part in side.samples
        ]
        for side in times
    ]
    is_device = np.ones(len(groups), dtype=bool)
    found = judge_rows(sides[0], sides[1], is_device, is_one_capture=is_one_capture).verdicts
    result = list(judgements)
    for numbers, verdict in zip(groups, found, strict=True):
        for number in numbers:
            if result[number].verdict in (Verdict.FASTER, Verdict.SLOWER):
                result[number] = replace(result[number], verdict=verdict)
    return result


def _tick_ns(captures: Sequence[CaptureData]) -> int:
    """Resolution of the coarsest clock: traces of torch.profiler often have whole microseconds."""
    return max(int(np.gcd.reduce(data.ownership.owned_ns, axis=None)) for data in captures)


def _within_a_tick(
    differences_ns: list[int], times: tuple[_Times, _Times], tick_ns: int
) -> list[bool]:
    tick = tick_ns * times[0].count * times[1].count
    return [abs(difference) <= tick for difference in differences_ns]


def _judge_step(
    sides: tuple[Side, Side], doubts: RowVerdicts, scale: float, *, is_one_capture: bool
) -> Judgement:
    lengths = [
        [capture.lengths_ns[:, None].astype(np.float64) * factor for capture in side.captures]
        for side, factor in zip(sides, (1.0, scale), strict=True)
    ]
    judged = judge_step(lengths[0], lengths[1], doubts, is_one_capture=is_one_capture)
    return _judgements(judged, [False])[0]


def _without_contradiction(
    sides: tuple[Side, Side], judgement: Judgement, scale: float
) -> Judgement:
    """The judgement of the profiled step, unless the step without profiling went the other way."""
    base, new = sides
    if base.unprofiled_ns is None or new.unprofiled_ns is None:
        return judgement
    changed = new.unprofiled_ns * scale - base.unprofiled_ns
    is_known = abs(changed) * 100 > SAME_PCT * base.unprofiled_ns
    is_other = (
        (judgement.verdict is Verdict.FASTER and changed > 0)
        or (judgement.verdict is Verdict.SLOWER and changed < 0)
        or judgement.verdict is Verdict.SAME
    )
    return replace(judgement, verdict=Verdict.CANNOT_TELL) if is_known and is_other else judgement


def _rows(
    cells: list[_Cells],
    times: tuple[_Times, _Times],
    judgements: list[Judgement],
    kernels: dict[Target, tuple[tuple[str, ...], tuple[str, ...]]],
) -> list[Row]:
    rows = []
    base, new = times
    for number, cell in enumerate(cells):
        target = cell.target
        before, after = kernels.get(target, ((), ())) if cell.kind < BUSY_CLASSES else ((), ())
        rows.append(
            Row(
                kind=CLASSES[cell.kind],
                reason=cell.reason,
                **vars(target),
                base_ns=Fraction(base.total_ns[number], base.count),
                new_ns=Fraction(new.total_ns[number], new.count),
                judgement=judgements[number],
                base_samples=tuple(part[:, number] for part in base.samples),
                new_samples=tuple(part[:, number] for part in new.samples),
                base_kernels=before,
                new_kernels=after,
            )
        )
    return rows


def _changed_kernels(
    base: Sequence[CaptureData], new: Sequence[CaptureData], targets: Targets
) -> dict[Target, tuple[tuple[str, ...], tuple[str, ...]]]:
    """The kernels of both sides of ops and modules that do not run the same ones."""
    found: list[dict[Target, set[str]]] = [{}, {}]
    for kernels, side, known in zip(found, (base, new), (targets.base, targets.new), strict=True):
        for data in side:
            for op, names in data.kernels.items():
                kernels.setdefault(known[data.ops[op].key], set()).update(names)
    return {
        target: (tuple(sorted(found[0][target])), tuple(sorted(found[1][target])))
        for target in found[0].keys() & found[1].keys()
        if found[0][target] != found[1][target]
    }


def _changes(
    times: tuple[_Times, _Times], names: Sequence[str], order: Sequence[str] = ()
) -> tuple[Change, ...]:
    """Sums of rows by name, in the given order, else the largest difference first."""
    sums = dict.fromkeys(order, (0, 0))
    base, new = times
    for name, before, after in zip(names, base.total_ns, new.total_ns, strict=True):
        sum_before, sum_after = sums.get(name, (0, 0))
        sums[name] = (sum_before + before, sum_after + after)
    changes = [
        Change(name, Fraction(before, base.count), Fraction(after, new.count))
        for name, (before, after) in sums.items()
    ]
    if not order:
        changes.sort(key=lambda item: (-abs(item.difference_ns), item.name))
    return tuple(changes)
