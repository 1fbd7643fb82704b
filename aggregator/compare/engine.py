"""Compares two sides: rows that partition the step, judged and put in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import lcm
from typing import Final

import numpy as np

from aggregator.compare.captures import CaptureData
from aggregator.compare.headline import headline, limits
from aggregator.compare.matching import Op, Target, Targets, match_ops
from aggregator.compare.result import (
    Change,
    Comparison,
    Judgement,
    Match,
    Row,
    Side,
    Verdict,
)
from aggregator.compare.setup import differences
from aggregator.compare.statistics import Doubts, Unit, judge_rows, judge_step
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


def compare(
    base: Sequence[CaptureData], new: Sequence[CaptureData], *, is_one_capture: bool = False
) -> Comparison:
    """Compare two sides; at least one capture each.

    Args:
        base: Captures of the base.
        new: Captures of the new side.
        is_one_capture: Both sides are parts of the same run.
    """
    sides = Side(tuple(one.capture for one in base)), Side(tuple(one.capture for one in new))
    targets = match_ops(_all_ops(base), _all_ops(new))
    cells = list(_collect(base, new, targets).values())
    samples = [
        _samples(base, [one.base for one in cells]),
        _samples(new, [one.new for one in cells]),
    ]
    totals = [_totals(base, [one.base for one in cells]), _totals(new, [one.new for one in cells])]
    is_device = np.array([one.kind < BUSY_CLASSES for one in cells])
    doubts = judge_rows(samples[0], samples[1], is_device, is_one_capture=is_one_capture)
    tick = _tick_ns((*base, *new))
    judgements = [
        _beyond_a_tick(one, after - before, tick)
        for one, before, after in zip(_judgements(doubts), *totals, strict=True)
    ]
    rows = _rows(cells, totals, samples, judgements, _changed_kernels(base, new, targets))
    step = _judge_step(sides, doubts, is_one_capture=is_one_capture)
    comparison = Comparison(
        base=sides[0],
        new=sides[1],
        judgement=step,
        classes=_changes(rows, [row.kind for row in rows], CLASSES),
        causes=_changes(rows, [one.cause for one in cells]),
        rows=tuple(sorted(rows, key=_by_size)),
        setup=differences(base, new),
        headline="",
        notes=limits(base, new),
    )
    return headline(comparison)


def _by_size(row: Row) -> tuple[float, str, str, str]:
    return -abs(float(row.difference_ns)), row.kind, row.module, row.op


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


def _samples(side: Sequence[CaptureData], columns: list[list[list[int]]]) -> list[Float64]:
    """Times of all rows, mean over the GPUs: an array (iterations, rows) per capture."""
    return [
        _summed(data, columns, number) / data.capture.devices for number, data in enumerate(side)
    ]


def _summed(data: CaptureData, columns: list[list[list[int]]], number: int) -> Int64:
    result = np.zeros((len(data.ownership.owned_ns), len(columns)), dtype=np.int64)
    source, row = [], []
    for place, parts in enumerate(columns):
        if len(parts) > number:
            source += parts[number]
            row += [place] * len(parts[number])
    np.add.at(result.T, np.array(row, dtype=np.int64), data.ownership.owned_ns[:, source].T)
    return result


def _totals(side: Sequence[CaptureData], columns: list[list[list[int]]]) -> list[Fraction]:
    """Mean time per iteration of all rows, exactly."""
    common = lcm(*(data.capture.devices for data in side))
    iterations = sum(len(data.capture.lengths_ns) for data in side)
    total = np.zeros(len(columns), dtype=np.int64)
    for number, data in enumerate(side):
        total += _summed(data, columns, number).sum(axis=0) * (common // data.capture.devices)
    return [Fraction(value, common * iterations) for value in total.tolist()]


def _judgements(doubts: Doubts) -> list[Judgement]:
    columns = (
        doubts.low_ns,
        doubts.high_ns,
        doubts.within_pct,
        doubts.q_value,
        doubts.mann_whitney_p,
    )
    return [
        Judgement(
            verdict=verdict,
            interval_ns=None if np.isnan([low, high]).any() else (low, high),
            within_pct=_known(within),
            q_value=_known(q),
            mann_whitney_p=_known(p),
            covers_runs=doubts.unit is not Unit.SINGLE,
        )
        for verdict, low, high, within, q, p in zip(
            doubts.verdicts, *(column.tolist() for column in columns), strict=True
        )
    ]


def _tick_ns(captures: Sequence[CaptureData]) -> int:
    """Resolution of the coarsest clock: traces of torch.profiler often have whole microseconds."""
    return max(int(np.gcd.reduce(data.ownership.owned_ns, axis=None)) for data in captures)


def _beyond_a_tick(judgement: Judgement, difference_ns: Fraction, tick_ns: int) -> Judgement:
    """No verdict on what rounding to the clock's ticks can make: it always rounds the same way."""
    if abs(difference_ns) > tick_ns or judgement.verdict is Verdict.SAME:
        return judgement
    return replace(judgement, verdict=Verdict.CANNOT_TELL)


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


def _judge_step(sides: tuple[Side, Side], doubts: Doubts, *, is_one_capture: bool) -> Judgement:
    """Judge the step by its own samples and by the rows that changed beyond doubt."""
    lengths = [
        [capture.lengths_ns[:, None].astype(np.float64) for capture in side.captures]
        for side in sides
    ]
    return _judgements(judge_step(lengths[0], lengths[1], doubts, is_one_capture=is_one_capture))[0]


def _rows(
    cells: list[_Cells],
    totals: list[list[Fraction]],
    samples: list[list[Float64]],
    judgements: list[Judgement],
    kernels: dict[Target, tuple[tuple[str, ...], tuple[str, ...]]],
) -> list[Row]:
    rows = []
    for number, cell in enumerate(cells):
        target = cell.target
        before, after = kernels.get(target, ((), ())) if cell.kind < BUSY_CLASSES else ((), ())
        rows.append(
            Row(
                kind=CLASSES[cell.kind],
                reason=cell.reason,
                module=target.module,
                op=target.op,
                op_type=target.op_type,
                direction=target.direction,
                match=target.match,
                base_ns=totals[0][number],
                new_ns=totals[1][number],
                judgement=judgements[number],
                base_samples=tuple(part[:, number] for part in samples[0]),
                new_samples=tuple(part[:, number] for part in samples[1]),
                base_name=target.base_name,
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
    rows: Sequence[Row], names: Sequence[str], order: Sequence[str] = ()
) -> tuple[Change, ...]:
    """Sums of rows by name, in the given order, else the largest difference first."""
    sums = {name: (Fraction(), Fraction()) for name in order}
    for row, name in zip(rows, names, strict=True):
        base, new = sums.get(name, (Fraction(), Fraction()))
        sums[name] = (base + row.base_ns, new + row.new_ns)
    changes = [Change(name, *pair) for name, pair in sums.items()]
    if not order:
        changes.sort(key=lambda one: (-abs(one.difference_ns), one.name))
    return tuple(changes)
