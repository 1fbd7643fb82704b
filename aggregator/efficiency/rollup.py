"""What ops achieved beside what the GPU can do: rates, the bound, the ideal time, what is left.

The *ideal time* of a counted call is the longer of two: its operations at the peak of their
precision, its bytes at the peak bandwidth (the roofline model of Williams, Waterman and Patterson).
Calls one after another add up. Only executions with known numbers enter, numerator and denominator
alike; how much of the GPU time that is stands beside every result.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aggregator.flops.peaks import Peaks
from aggregator.flops.units import LINK, NETWORK, CostUnit, InstanceCosts
from aggregator.metrics.statistics import GroupOrder, Groups
from aggregator.profile import Bool, Int64, Integers

Floats = npt.NDArray[np.float64]
_LONGEST_NS = 1e17
"""Three years: no session lasts as long."""


@dataclass(frozen=True)
class CostColumns:
    """Costs as columns, one row per cost; sums of their parts.

    Attributes:
        flops: Operations, where all are known.
        has_flops: Whether all are known.
        num_bytes: Bytes, where all are known. Unit: bytes.
        has_bytes: Whether all are known.
        matrix_flops: Operations of matrix products among the known ones.
        ideal_ns: Ideal time. Unit: ns.
        has_ideal: Whether the ideal time of every part is known.
        compute_ns: Part of the ideal time that operations bound. Unit: ns.
        memory_ns: Part that memory bounds. Unit: ns.
        link_ns: Part that the bus bounds. Unit: ns.
        matrix_ns: Matrix operations at their peak. Unit: ns.
    """

    flops: Int64
    has_flops: Bool
    num_bytes: Int64
    has_bytes: Bool
    matrix_flops: Int64
    ideal_ns: Floats
    has_ideal: Bool
    compute_ns: Floats
    memory_ns: Floats
    link_ns: Floats
    matrix_ns: Floats


def cost_columns(costs: InstanceCosts, peaks: Peaks) -> CostColumns:
    """Sum the parts of every cost up, with a GPU's peaks."""
    times = [_unit_times(unit, peaks) for unit in costs.units]
    compute, memory, link, matrix = (
        np.array([time[column] for time in times], dtype=np.float64) for column in range(4)
    )
    has_ideal = np.array([time[4] for time in times], dtype=bool)
    flops = np.array([unit.flops or 0 for unit in costs.units], dtype=np.int64)
    moved = np.array([unit.num_bytes or 0 for unit in costs.units], dtype=np.int64)
    is_matrix = np.array([unit.is_matrix for unit in costs.units], dtype=bool)
    has_flops = np.array([unit.flops is not None for unit in costs.units], dtype=bool)
    has_bytes = np.array([unit.num_bytes is not None for unit in costs.units], dtype=bool)
    part = _Parts(costs)
    compute, memory, link = part.total(compute), part.total(memory), part.total(link)
    return CostColumns(
        flops=part.count(flops),
        has_flops=part.all(has_flops),
        num_bytes=part.count(moved),
        has_bytes=part.all(has_bytes),
        matrix_flops=part.count(np.where(is_matrix, flops, 0)),
        ideal_ns=compute + memory + link,
        has_ideal=part.all(has_ideal),
        compute_ns=compute,
        memory_ns=memory,
        link_ns=link,
        matrix_ns=part.total(matrix),
    )


class _Parts:
    def __init__(self, costs: InstanceCosts) -> None:
        self._unit = costs.part_unit
        self._calls = costs.part_calls
        self._order = GroupOrder.of(costs.part_cost)

    def count(self, values: Int64) -> Int64:
        return self._order.sum(values[self._unit] * self._calls)

    def total(self, values: Floats) -> Floats:
        if not len(self._order.heads):
            return np.empty(0, dtype=np.float64)
        weighted = (values[self._unit] * self._calls)[self._order.order]
        result: Floats = np.add.reduceat(weighted, self._order.heads)
        return result

    def all(self, values: Bool) -> Bool:
        result: Bool = self._order.minimum(values[self._unit].astype(np.int64)) > 0
        return result


def _unit_times(unit: CostUnit, peaks: Peaks) -> tuple[float, float, float, float, bool]:
    """Compute, memory and bus time of the ideal, time of matrix work, whether it is known. ns."""
    *times, known = _told_times(unit, peaks)
    # A peak of next to nothing is damage: what would take years has no ideal time.
    if not all(abs(time) < _LONGEST_NS for time in times):
        return 0.0, 0.0, 0.0, 0.0, False
    compute, memory, link, matrix = times
    return compute, memory, link, matrix, known


def _told_times(unit: CostUnit, peaks: Peaks) -> tuple[float, float, float, float, bool]:
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
    # Work that is no matrix product hardly ever computes for longer than it moves data.
    known = (has_memory and (has_compute or not unit.is_matrix)) or (unit.is_matrix and has_compute)
    matrix = compute if unit.is_matrix else 0.0
    if compute > memory:
        return compute, 0.0, 0.0, matrix, known
    return 0.0, memory, 0.0, matrix, known


@dataclass(frozen=True)
class Efficiency:
    """Sums per op and per iteration.

    Attributes:
        op: Row of the op; ops that ran nothing on a GPU are left out.
        ops: Sums by op; times in ns.
        iteration: Number of the iteration.
        iterations: The same by iteration.
        peaks: What they were worked out with.
    """

    op: Int64
    ops: dict[str, Int64]
    iteration: Int64
    iterations: dict[str, Int64]
    peaks: Peaks


@dataclass(frozen=True)
class CostPairs:
    """Instances that ran something on a GPU, joined where group and cost are the same.

    Attributes:
        group: Op, or iteration; ascending.
        cost: What each of them costs.
        calls: Number of instances.
        gpu_time_ns: Sum of their GPU times. Unit: ns.
    """

    group: Int64
    cost: Int64
    calls: Int64
    gpu_time_ns: Int64


def cost_pairs(group: Integers, cost: Integers, gpu_time_ns: Int64) -> CostPairs:
    """Join instances; those with a cost of -1 ran nothing and are left out."""
    rows = np.flatnonzero(cost >= 0)
    group, cost = group[rows], cost[rows]
    width = int(cost.max(initial=0)) + 1
    pairs = Groups(group.astype(np.int64) * width + cost)
    return CostPairs(
        pairs.groups // width, pairs.groups % width, pairs.counts, pairs.sum(gpu_time_ns[rows])
    )


def compute_efficiency(
    costs: InstanceCosts, peaks: Peaks, by_op: CostPairs, by_iteration: CostPairs
) -> Efficiency:
    """Add up the instances of a window.

    Args:
        costs: What the cost numbers mean.
        peaks: The GPU's.
        by_op: The instances by op.
        by_iteration: The same by iteration.
    """
    columns = cost_columns(costs, peaks)
    op, ops = _sums(columns, by_op)
    iteration, iterations = _sums(columns, by_iteration)
    return Efficiency(op=op, ops=ops, iteration=iteration, iterations=iterations, peaks=peaks)


def _sums(columns: CostColumns, pairs: CostPairs) -> tuple[Int64, dict[str, Int64]]:
    groups = GroupOrder.of(pairs.group)
    sums = {name: groups.sum(values) for name, values in _pair_values(columns, pairs).items()}
    return groups.groups, sums


def _pair_values(columns: CostColumns, pairs: CostPairs) -> dict[str, Int64]:
    """Sums of the instances of each pair; what is unknown of it is 0 with no GPU time beside it."""
    cost, calls, gpu_time = pairs.cost, pairs.calls, pairs.gpu_time_ns
    flops, moved, ideal = columns.has_flops[cost], columns.has_bytes[cost], columns.has_ideal[cost]

    def whole(times: Floats, known: Bool) -> Int64:
        result: Int64 = np.where(known, np.rint(times[cost]), 0).astype(np.int64) * calls
        return result

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
        "gpu_time": gpu_time,
    }


def unit_calls(costs: InstanceCosts, by_op: CostPairs) -> tuple[Int64, Int64, Int64]:
    """How often each unit was called in each op.

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
