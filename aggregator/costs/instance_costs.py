"""Cost of every execution of an op: the calls that it makes, each counted by a formula."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from aggregator.correlate.range_tree import RangeTree
from aggregator.correlate.work import CorrelatedWork
from aggregator.costs.call_outputs import find_outputs
from aggregator.costs.call_units import NO_SIZES, CallDescriber
from aggregator.costs.counted_calls import KERNEL, CountedCalls, find_counted_calls
from aggregator.costs.kernel_table import kernel_table
from aggregator.costs.units import CostUnit, InstanceCosts
from aggregator.frameworks.meaning import RangeMeaning
from aggregator.profile.arrays import Int32, Int64, ordered, row_codes
from aggregator.profile.profile import Profile


def compute_costs(
    profile: Profile,
    meaning: RangeMeaning,
    nested: tuple[RangeTree, Int32] | None,
    work: CorrelatedWork,
) -> InstanceCosts:
    """Count all device work; ``nested``: ranges, and the innermost one of each API call."""
    kernels = kernel_table(profile)
    calls = find_counted_calls(profile, meaning, nested, work, kernels)
    outputs = find_outputs(profile, meaning, work.instances, calls)
    describer = CallDescriber(profile, meaning, work.instances, kernels)
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
    of_instance = np.full(num_instances, -1, dtype=np.int32)
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


def complete_costs(costs: InstanceCosts, op: Int32) -> InstanceCosts:
    """Give executions without recorded sizes the most common cost of their op.

    Markers write sizes in the first steps only, because that takes most of their time. If no cost
    is that of half the known executions of an op, its sizes vary, and the others stay unknown.
    """
    no_sizes = np.array([unit.reason == NO_SIZES for unit in costs.units], dtype=bool)
    if not no_sizes.any():
        return costs
    incomplete = np.zeros(costs.count, dtype=bool)
    incomplete[costs.part_cost[no_sizes[costs.part_unit]]] = True
    cost = costs.of_instance
    has = cost >= 0
    known = has & ~incomplete[np.maximum(cost, 0)]
    num_ops = int(op.max(initial=-1)) + 1
    pair, calls = np.unique(
        op[known].astype(np.int64) * costs.count + cost[known], return_counts=True
    )
    pair_op, pair_cost = pair // costs.count, pair % costs.count
    order = np.lexsort((calls, pair_op))
    total = np.bincount(pair_op, weights=calls, minlength=num_ops)
    of_op = np.full(num_ops, -1, dtype=np.int64)
    usual = order[2 * calls[order] >= total[pair_op[order]]]
    of_op[pair_op[usual]] = pair_cost[usual]  # the last, most common one remains
    take = has & ~known & (of_op[op] >= 0)
    return replace(costs, of_instance=np.where(take, of_op[op], cost).astype(np.int32))
