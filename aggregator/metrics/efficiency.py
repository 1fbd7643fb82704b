"""Efficiency of ops: achieved rates, the limiting resource and the ideal time on this GPU.

The *ideal time* of a counted call is the longer of two: its operations at the peak of their
precision, its bytes at the peak bandwidth (the roofline model of Williams, Waterman and Patterson).
Calls one after another add up. Only executions with known numbers enter, numerator and denominator
alike; the GPU time that they cover is part of every result. Rates and intensity have one set of
executions: those whose operations and bytes are known, and that move no data over the bus or
between GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aggregator.costs.peaks import Peaks
from aggregator.costs.units import LINK, NETWORK, CostUnit, InstanceCosts
from aggregator.metrics.statistics import GroupOrder, Groups
from aggregator.profile.arrays import Bool, Int64, Integers

Floats = npt.NDArray[np.float64]
_LONGEST_NS = 1e17
"""Three years: longer than any session."""


@dataclass(frozen=True)
class CostColumns:
    """Costs as columns, one row per cost; sums of their parts."""

    flops: Int64  # Operations, where all are known.
    has_flops: Bool  # Whether all are known.
    num_bytes: Int64  # Bytes, where all are known. Unit: bytes.
    has_bytes: Bool  # Whether all are known.
    matrix_flops: Int64  # Operations of matrix products among the known ones; a lower bound.
    has_ideal: Bool  # Whether the ideal time of every part is known.
    compute_ns: Floats  # Part of the ideal time that operations bound. Unit: ns.
    memory_ns: Floats  # Part that memory bounds. Unit: ns.
    link_ns: Floats  # Part that the bus bounds. Unit: ns.
    matrix_ns: Floats  # Known matrix operations at their peak. Unit: ns.
    is_local: Bool  # Whether no part moves data over the bus or between GPUs.
    shows_matrix: Bool  # Whether no part may have matrix products that are not counted.


def cost_columns(costs: InstanceCosts, peaks: Peaks) -> CostColumns:
    """Sum the parts of every cost up, with a GPU's peaks."""
    times = [_unit_times(unit, peaks) for unit in costs.units]
    part = _Parts(costs)
    compute, memory, link, matrix = (part.total([t[column] for t in times]) for column in range(4))
    return CostColumns(
        flops=part.count([unit.flops or 0 for unit in costs.units]),
        has_flops=part.all([unit.flops is not None for unit in costs.units]),
        num_bytes=part.count([unit.num_bytes or 0 for unit in costs.units]),
        has_bytes=part.all([unit.num_bytes is not None for unit in costs.units]),
        matrix_flops=part.count([(unit.flops or 0) * unit.is_matrix for unit in costs.units]),
        has_ideal=part.all([time[4] for time in times]),
        compute_ns=compute,
        memory_ns=memory,
        link_ns=link,
        matrix_ns=matrix,
        is_local=part.all([unit.precision not in _AWAY for unit in costs.units]),
        shows_matrix=part.all([not unit.hides_matrix for unit in costs.units]),
    )


_AWAY = (LINK, NETWORK)


class _Parts:
    """Sums the values of units over the parts of each cost."""

    def __init__(self, costs: InstanceCosts) -> None:
        self._unit = costs.part_unit
        self._calls = costs.part_calls
        self._order = GroupOrder.of(costs.part_cost)

    def count(self, values: list[int]) -> Int64:
        return self._order.sum(np.array(values, dtype=np.int64)[self._unit] * self._calls)

    def total(self, values: list[float]) -> Floats:
        if not len(self._order.heads):
            return np.empty(0, dtype=np.float64)
        weighted = np.array(values, dtype=np.float64)[self._unit] * self._calls
        result: Floats = np.add.reduceat(weighted[self._order.order], self._order.heads)
        return result

    def all(self, values: list[bool]) -> Bool:
        result: Bool = self._order.minimum(np.array(values, dtype=np.int64)[self._unit]) > 0
        return result


def _unit_times(unit: CostUnit, peaks: Peaks) -> tuple[float, float, float, float, bool]:
    *times, known = _known_times(unit, peaks)
    # An absurdly low peak in a damaged file gives times of years: they count as unknown.
    if not all(abs(time) < _LONGEST_NS for time in times):
        return 0.0, 0.0, 0.0, 0.0, False
    compute, memory, link, matrix = times
    return compute, memory, link, matrix, known


def _known_times(unit: CostUnit, peaks: Peaks) -> tuple[float, float, float, float, bool]:
    if unit.precision == LINK:
        known = unit.num_bytes is not None and peaks.link is not None
        return 0.0, 0.0, (unit.num_bytes or 0) / (peaks.link or 1.0), 0.0, known
    if unit.precision == NETWORK:
        return 0.0, 0.0, 0.0, 0.0, False
    rate = peaks.rate(unit.precision)
    # FLOP over TFLOP/s is 1e-12 s, bytes over GB/s 1e-9 s.
    compute = (unit.flops or 0) / rate / 1e3 if rate else 0.0
    memory = (unit.num_bytes or 0) / peaks.bandwidth if peaks.bandwidth else 0.0
    has_memory = unit.num_bytes is not None and peaks.bandwidth is not None
    has_compute = unit.flops is not None and rate is not None
    # Work other than matrix products is rarely bound by computing.
    known = (has_memory and (has_compute or not unit.is_matrix)) or (unit.is_matrix and has_compute)
    matrix = compute if unit.is_matrix else 0.0
    if compute > memory:
        return compute, 0.0, 0.0, matrix, known
    return 0.0, memory, 0.0, matrix, known


@dataclass(frozen=True)
class Efficiency:
    """Sums per op and per iteration."""

    op: Int64  # Row of the op; ops that ran nothing on a GPU are left out.
    ops: dict[str, Int64]  # Sums by op; times in ns.
    iteration: Int64  # Number of the iteration.
    iterations: dict[str, Int64]  # The same by iteration.
    peaks: Peaks  # Peak rates that they were computed with.


@dataclass(frozen=True)
class CostPairs:
    """Instances that ran something on a GPU, joined where group, flags and cost are the same."""

    group: Int64  # Op, or iteration; ascending.
    flags: Int64  # Sums of ``APART`` and ``AGAIN``.
    cost: Int64  # Cost of each of them.
    calls: Int64  # Number of instances.
    gpu_time_ns: Int64  # Sum of their GPU times. Unit: ns.


APART, AGAIN = 1, 2
"""Instances of ``collective_ops``, and those that a checkpoint recomputes: operations of the
hardware, but not of the model."""


def cost_pairs(group: Integers, flags: Integers, cost: Integers, gpu_time_ns: Int64) -> CostPairs:
    """Group instances; those with a cost of -1, which ran nothing, are left out."""
    rows = np.flatnonzero(cost >= 0)
    key, cost = 4 * group[rows].astype(np.int64) + flags[rows], cost[rows]
    width = int(cost.max(initial=0)) + 1
    pairs = Groups(key * width + cost)
    key = pairs.groups // width
    return CostPairs(
        key // 4, key % 4, pairs.groups % width, pairs.counts, pairs.sum(gpu_time_ns[rows])
    )


def compute_efficiency(
    costs: InstanceCosts, peaks: Peaks, by_op: CostPairs, by_iteration: CostPairs
) -> Efficiency:
    """Add up the instances of a window, joined by op and by iteration, with a GPU's peak rates."""
    columns = cost_columns(costs, peaks)
    op, ops = _sums(columns, by_op)
    iteration, iterations = _sums(columns, by_iteration)
    return Efficiency(op=op, ops=ops, iteration=iteration, iterations=iterations, peaks=peaks)


def collective_ops(costs: InstanceCosts, op: Integers, cost: Integers, gpu_time_ns: Int64) -> Bool:
    """Return whether each op spends most of its GPU time in executions that move data between GPUs.

    Such an op is not on the roofline: the few executions without a collective would stand for all.
    ``op``, ``cost`` and ``gpu_time_ns`` are those of its instances.
    """
    network = np.array([unit.precision == NETWORK for unit in costs.units], dtype=bool)
    has = np.zeros(costs.count + 1, dtype=bool)  # the last row is for a cost of -1
    has[costs.part_cost[network[costs.part_unit]]] = True
    count = int(op.max(initial=-1)) + 1
    between = np.bincount(op, weights=np.where(has[cost], gpu_time_ns, 0), minlength=count)
    result: Bool = 2 * between > np.bincount(op, weights=gpu_time_ns, minlength=count)
    return result


def _sums(columns: CostColumns, pairs: CostPairs) -> tuple[Int64, dict[str, Int64]]:
    groups = GroupOrder.of(pairs.group)
    sums = {name: groups.sum(values) for name, values in _pair_values(columns, pairs).items()}
    return groups.groups, sums


def _pair_values(columns: CostColumns, pairs: CostPairs) -> dict[str, Int64]:
    """Return the sums of the instances of each pair; unknown ones are 0 and have no GPU time."""
    cost, calls, gpu_time = pairs.cost, pairs.calls, pairs.gpu_time_ns

    def whole(times: Floats, known: Bool | None) -> Int64:
        ns = np.rint(times[cost]) if known is None else np.where(known, np.rint(times[cost]), 0)
        return ns.astype(np.int64) * calls

    flops, moved, ideal = columns.has_flops[cost], columns.has_bytes[cost], columns.has_ideal[cost]
    local, is_again = columns.is_local[cost], (pairs.flags & AGAIN) > 0
    ideal &= (pairs.flags & APART) == 0
    roofline = flops & moved & local & ((pairs.flags & APART) == 0)
    matrix_flops, matrix_ns = columns.matrix_flops[cost] * calls, whole(columns.matrix_ns, None)

    parts = {
        "compute_time": whole(columns.compute_ns, ideal),
        "memory_time": whole(columns.memory_ns, ideal),
        "link_time": whole(columns.link_ns, ideal),
    }
    return {
        "calls": calls,
        "known_calls": np.where(flops | moved, calls, 0),
        "flops": np.where(flops, columns.flops[cost] * calls, 0),
        "flops_gpu_time": np.where(flops, gpu_time, 0),
        "flops_calls": np.where(flops, calls, 0),
        "matrix_flops": np.where(flops, columns.matrix_flops[cost] * calls, 0),
        "bytes": np.where(moved, columns.num_bytes[cost] * calls, 0),
        "bytes_gpu_time": np.where(moved, gpu_time, 0),
        "bytes_calls": np.where(moved, calls, 0),
        "known_gpu_time": np.where(flops | moved, gpu_time, 0),
        "ideal_time": parts["compute_time"] + parts["memory_time"] + parts["link_time"],
        "ideal_gpu_time": np.where(ideal, gpu_time, 0),
        "ideal_calls": np.where(ideal, calls, 0),
        **parts,
        "matrix_ideal_time": whole(columns.matrix_ns, flops),
        "roofline_flops": np.where(roofline, columns.flops[cost] * calls, 0),
        "roofline_bytes": np.where(roofline, columns.num_bytes[cost] * calls, 0),
        "roofline_gpu_time": np.where(roofline, gpu_time, 0),
        "roofline_calls": np.where(roofline, calls, 0),
        "link_gpu_time": np.where(local, 0, gpu_time),
        "hardware_flops": matrix_flops,
        "hardware_ideal_time": matrix_ns,
        "model_flops": np.where(is_again, 0, matrix_flops),
        "model_ideal_time": np.where(is_again, 0, matrix_ns),
        "matrix_known_gpu_time": np.where(columns.shows_matrix[cost], gpu_time, 0),
        "gpu_time": gpu_time,
    }


def unit_calls(costs: InstanceCosts, by_op: CostPairs) -> tuple[Int64, Int64, Int64]:
    """Count the calls of each unit in each op.

    Returns:
        Op, row of the unit and calls, sorted by op.
    """
    bounds = np.searchsorted(costs.part_cost, np.arange(costs.count + 1))
    low, length = bounds[by_op.cost], np.diff(bounds)[by_op.cost]
    offset = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
    part = np.repeat(low, length) + offset
    width = max(len(costs.units), 1)
    key = np.repeat(by_op.group, length) * width + costs.part_unit[part]
    summed = GroupOrder.of(key)
    calls = summed.sum(costs.part_calls[part] * np.repeat(by_op.calls, length))
    return summed.groups // width, summed.groups % width, calls
