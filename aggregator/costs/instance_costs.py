"""Cost of every execution of an op: the calls that it makes, each counted by a formula."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from aggregator.correlate.op_table import OpTable
from aggregator.correlate.work import CorrelatedWork
from aggregator.costs.call_outputs import find_outputs
from aggregator.costs.call_units import NO_SIZES, CallDescriber
from aggregator.costs.counted_calls import KERNEL, CountedCalls, find_counted_calls
from aggregator.costs.counted_ranges import NestedRanges
from aggregator.costs.kernel_table import kernel_table
from aggregator.costs.units import CostUnit, InstanceCosts
from aggregator.frameworks.meaning import RangeMeaning
from aggregator.profile.arrays import NO_ROW, Bool, Codes, Int32, Int64, ordered, row_codes
from aggregator.profile.profile import Kernels, Profile

_SAME_SIZES, _USUAL_SIZES = 0.9, 0.5
"""Share of known executions that must agree: of those with the same kernels, of all of an op."""
_NUMBER = re.compile(r"\[\d+\]$")
_NEIGHBORS = (3, 1, 0)
"""Executions on each side that are compared: more are more certain, and differ more often."""


def compute_costs(
    profile: Profile,
    meaning: RangeMeaning,
    nested: NestedRanges | None,
    work: CorrelatedWork,
) -> InstanceCosts:
    """Count all device work; ``nested``: ranges of the profile and of its captures."""
    kernels = kernel_table(profile)
    calls = find_counted_calls(profile, meaning, nested, work, kernels)
    outputs = find_outputs(profile, meaning, work.instances, calls)
    describer = CallDescriber(profile, meaning, work.instances, kernels, nested)
    unit, units = _units(describer, calls, outputs)
    return _join(unit, units, calls.instance, len(work.instances))


def _units(
    describer: CallDescriber, calls: CountedCalls, outputs: tuple[Int64, list[tuple[int, ...]]]
) -> tuple[Int64, tuple[CostUnit, ...]]:
    """Unit of each call, and the distinct units; a formula is evaluated once per distinct call."""
    output, output_shapes = outputs
    columns = (
        calls.name,
        calls.shapes,
        describer.types_code(calls.types),
        output,
        np.where(calls.kind == KERNEL, np.minimum(calls.gradients, 2), 0),
        calls.multiplies,
        calls.uses_tc,
        calls.kind,
        calls.detail,
        calls.communicates,
        np.where(calls.kind == KERNEL, 0, calls.num_bytes),
        describer.context(calls.instance, calls.position),
        calls.step,
        calls.experts,
    )
    first, inverse = row_codes(*columns)
    units = []
    for row in first.tolist():
        shape = output_shapes[int(output[row])] if output[row] >= 0 else None
        units.append(describer.unit(calls, row, shape))
    # Calls that are stored with the same values share a unit.
    rows: dict[CostUnit, int] = {}
    number = np.array([rows.setdefault(unit, len(rows)) for unit in units], dtype=np.int64)
    joined: Int64 = number[inverse] if len(number) else np.empty(0, dtype=np.int64)
    return joined, tuple(rows)


def _join(
    unit: Int64, units: tuple[CostUnit, ...], instance: Int64, num_instances: int
) -> InstanceCosts:
    """Instances with the same multiset of units share a cost."""
    of_instance = np.full(num_instances, NO_ROW, dtype=np.int32)
    if not len(unit):
        return InstanceCosts(of_instance=of_instance)
    order = ordered(instance, unit)
    pair_unit, pair_instance = unit[order], instance[order]
    new = (np.diff(pair_unit) != 0) | (np.diff(pair_instance) != 0)
    heads = np.flatnonzero(np.concatenate([[True], new]))
    calls = np.diff(np.concatenate([heads, [len(order)]]))
    pair_unit, pair_instance = pair_unit[heads], pair_instance[heads]
    # A hash of the multiset: the sum of random numbers per unit; the seed is fixed.
    numbers = np.random.default_rng(20).integers(1, 1 << 62, size=(2, len(units)), dtype=np.int64)
    with np.errstate(over="ignore"):
        weight = numbers[0][pair_unit] * calls + numbers[1][pair_unit] * calls * calls
    starts = np.flatnonzero(np.concatenate([[True], np.diff(pair_instance) != 0]))
    total = np.add.reduceat(weight, starts)
    _, first, inverse = np.unique(total, return_index=True, return_inverse=True)
    of_instance[pair_instance[starts]] = inverse.ravel()
    stops = np.concatenate([starts[1:], [len(pair_unit)]])
    rows = [np.arange(starts[row], stops[row]) for row in first.tolist()]
    return InstanceCosts(
        units=units,
        part_cost=np.repeat(np.arange(len(rows)), [len(part) for part in rows]),
        part_unit=pair_unit[np.concatenate(rows)],
        part_calls=calls[np.concatenate(rows)],
        of_instance=of_instance,
        count=len(rows),
    )


def complete_costs(
    costs: InstanceCosts, table: OpTable, kernels: Kernels, instance: Int32
) -> InstanceCosts:
    """Give executions without recorded sizes the cost of those that have them.

    Markers write sizes in the first steps only, because that takes most of their time. Executions
    in one place of the model have the same sizes if all known ones there have, or if they run the
    same kernels with the same grids, the more certainly if their neighbors do, too: some kernels
    have one grid for all sizes. The others get the most common cost of their op. If no cost is that
    of half the known executions of an op, its sizes vary, and the others stay unknown.

    Args:
        costs: Costs of all executions.
        table: The ops, and the op of each execution.
        kernels: The kernels of the profile.
        instance: Execution of each kernel, or ``NO_ROW``.
    """
    no_sizes = np.array([unit.reason == NO_SIZES for unit in costs.units], dtype=bool)
    if not no_sizes.any():
        return costs
    incomplete = np.zeros(costs.count, dtype=bool)
    incomplete[costs.part_cost[no_sizes[costs.part_unit]]] = True
    cost = costs.of_instance
    known = (cost >= 0) & ~incomplete[np.maximum(cost, 0)]
    wanted = (cost >= 0) & ~known
    op = table.op_of_instance
    place = _places(table)[op]
    cost = _filled(cost, known, wanted, place, 1.0)
    wanted &= cost == costs.of_instance
    if wanted.any():
        work = _work_codes(kernels, instance, len(op))
        for distance in _NEIGHBORS:
            same = row_codes(place, _with_neighbors(place, work, distance))[1]
            filled = _filled(cost, known, wanted, same, _SAME_SIZES)
            wanted, cost = wanted & (filled == cost), filled
        cost = _filled(cost, known, wanted, op, _USUAL_SIZES)
    return replace(costs, of_instance=cost)


def _places(table: OpTable) -> Int32:
    """Place in the model of each op; repeated calls, which differ by a number only, share one."""
    codes: Codes[tuple[str, str, str]] = Codes()
    names = ((_NUMBER.sub("", op.op_name), op.op_type, op.direction) for op in table.ops)
    return np.fromiter((codes.code(name) for name in names), dtype=np.int32, count=len(table.ops))


def _with_neighbors(place: Int32, work: Int64, most: int) -> Int64:
    """A hash of places and kernels from ``most`` executions before to as many after."""
    with np.errstate(over="ignore"):
        own = (work.view(np.uint64) + place.astype(np.uint64)) * np.uint64(0x94D049BB133111EB)
        own ^= own >> np.uint64(31)
        total = own.copy()
        for distance in range(1, min(most, len(own) - 1) + 1):
            # Another factor for each distance: the same neighbors in another order are others.
            total[distance:] += own[:-distance] * np.uint64(2 * distance + 1)
            total[:-distance] += own[distance:] * np.uint64(4 * most + 2 * distance + 1)
    return total.view(np.int64)


def _filled(cost: Int32, known: Bool, wanted: Bool, group: Int32, least: float) -> Int32:
    """Give wanted executions the most common cost of their group, if ``least`` of it have it."""
    width = int(cost.max(initial=0)) + 1
    pair, calls = np.unique(group[known].astype(np.int64) * width + cost[known], return_counts=True)
    pair_group, pair_cost = pair // width, pair % width
    order = np.lexsort((calls, pair_group))
    count = int(group.max(initial=-1)) + 1
    total = np.bincount(pair_group, weights=calls, minlength=count)
    of_group = np.full(count, NO_ROW, dtype=np.int64)
    usual = order[calls[order] >= least * total[pair_group[order]]]
    of_group[pair_group[usual]] = pair_cost[usual]  # the last, most common one remains
    take = wanted & (of_group[group] >= 0)
    return np.where(take, of_group[group], cost).astype(np.int32)


def _work_codes(kernels: Kernels, instance: Int32, num_instances: int) -> Int64:
    number = kernels.long_name.astype(np.uint64)
    with np.errstate(over="ignore"):
        for column in (*kernels.grid.T, *kernels.block.T):
            number = number * np.uint64(0x9E3779B97F4A7C15) + column.astype(np.uint64)
        number = (number ^ (number >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        number ^= number >> np.uint64(32)
        order = ordered(instance)
        order = order[int(np.searchsorted(instance[order], 0)) :]
        result = np.zeros(num_instances, dtype=np.uint64)
        if len(order):
            owner = instance[order]
            heads = np.flatnonzero(np.concatenate([[True], np.diff(owner) != 0]))
            result[owner[heads]] = np.add.reduceat(number[order], heads)
    return result.view(np.int64)
