"""One aggregation: computes all metrics of a request from the columns of a profile.

This module holds the breakdown of each iteration and the totals; ``op_metrics`` the tables of ops.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from aggregator.metrics.model import LEVELS, RollupInput
from aggregator.metrics.op_metrics import (
    GroupMetrics,
    OpMetrics,
    compute_group_metrics,
    compute_kernel_metrics,
    compute_op_metrics,
)
from aggregator.metrics.statistics import percent
from aggregator.metrics.window import Window, open_window
from aggregator.options import AggregationRequest
from aggregator.profile.arrays import Bool, Int64, Integers
from aggregator.profile.intervals import uncovered_between
from aggregator.system.progress import NullProgress, Progress


@dataclass(frozen=True)
class IterationTimes:
    """Breakdown of every iteration of the profile."""

    # Name of the part -> time per iteration, mean over the visible GPUs. The parts of an iteration,
    # ``other`` among them, add up to its length. Unit: ns.
    parts: dict[str, Int64]
    kernels: Int64  # Kernels launched per iteration.
    tc_kernels: Int64  # Of them those that use Tensor Cores.
    kernel_bounds: Int64  # First kernel row of each iteration, plus the total.
    kernel_busy_ns: Int64  # Shape (devices, iterations): time in which a kernel ran. Unit: ns.
    busy_ns: Int64  # The same of all work: kernels, graphs, copies and sets. Unit: ns.
    # Time in which a kernel moved data between GPUs, mean over visible GPUs. Unit: ns.
    communication_ns: Int64
    exposed_communication_ns: Int64  # Of it the time in which no kernel computed. Unit: ns.


@dataclass(frozen=True)
class Rollup:
    """All metrics of one domain in one aggregation."""

    window: Window
    times: IterationTimes
    ops: OpMetrics
    kernels: dict[str, Int64]
    groups: GroupMetrics
    totals: dict[str, int | float]
    device_utilization_pct: list[float]


def roll_up(
    inputs: tuple[RollupInput, ...], request: AggregationRequest, progress: Progress
) -> list[Rollup]:
    """Aggregate every domain; the default one comes first.

    Raises:
        UsageError, IterationRangeError, KeyNodeNotFoundError, AmbiguousKeyNodeError: The request
            does not fit the profile.
    """
    window = open_window(inputs, request)
    progress.phase("aggregate", len(inputs) * STEPS)
    return [_roll_up_domain(data, window, progress) for data in inputs]


STEPS = 4
"""Steps of progress per domain."""


def roll_up_part(
    inputs: tuple[RollupInput, ...], rollups: list[Rollup], first: int, last: int
) -> list[Rollup]:
    """Aggregate a part of the iterations that ``rollups`` have; both bounds are inclusive."""
    window = replace(rollups[0].window, first=first, last=last)
    return [
        _roll_up_domain(data, window, NullProgress(), rollup.times)
        for data, rollup in zip(inputs, rollups, strict=True)
    ]


def _roll_up_domain(
    data: RollupInput, window: Window, progress: Progress, times: IterationTimes | None = None
) -> Rollup:
    times = times or compute_iteration_times(data, window)
    progress.advance(1)
    ops = compute_op_metrics(data, window)
    progress.advance(1)
    kernels = compute_kernel_metrics(data, window)
    groups = compute_group_metrics(data, window, ops)
    progress.advance(1)
    totals = compute_model_metrics(data, window, ops, times)
    progress.advance(1)
    return Rollup(
        window=window,
        times=times,
        ops=ops,
        kernels=kernels,
        groups=groups,
        totals=totals,
        device_utilization_pct=device_utilization_pct(data, window, times),
    )


def compute_iteration_times(data: RollupInput, window: Window) -> IterationTimes:
    """Clip the busy time to the iterations, by priority.

    Per device each level covers what it adds to the union of the levels before it; a GPU that ran
    nothing counts as ``other``, as DLProf counts it.
    """
    iterations = window.iterations
    edges = iterations.edges_ns
    num_devices = max(len(data.devices), 1)
    cumulative = np.zeros((num_devices, len(LEVELS) + 1, len(iterations)), dtype=np.int64)
    for device, levels in enumerate(data.busy):
        for level, busy in enumerate(levels, start=1):
            cumulative[device, level] = np.diff(busy.covered_before(edges))
    added = np.diff(cumulative, axis=1).sum(axis=0) // num_devices
    parts = {name: added[level] for level, name in enumerate(LEVELS)}
    parts["other"] = iterations.length_ns - added.sum(axis=0)
    communication, exposed = _communication(data, edges, num_devices)
    bounds = window.row_bounds(data.kernels.api_start_ns)
    uses_tc = np.concatenate([[0], np.cumsum(data.op_kernels.uses_tc[data.kernels.code])])
    return IterationTimes(
        parts=parts,
        kernels=np.diff(bounds),
        tc_kernels=np.diff(uses_tc[bounds]),
        kernel_bounds=bounds,
        kernel_busy_ns=cumulative[:, LEVELS.index("graph") + 1],
        busy_ns=cumulative[:, LEVELS.index("memory") + 1],
        communication_ns=communication,
        exposed_communication_ns=exposed,
    )


def _communication(data: RollupInput, edges: Int64, num_devices: int) -> tuple[Int64, Int64]:
    """Return the time of communication per iteration, and the part that no computation covered."""
    total = np.zeros(len(edges) - 1, dtype=np.int64)
    exposed = total.copy()
    for computing, moving in data.collectives:
        total += np.diff(moving.covered_before(edges))
        exposed += uncovered_between(moving, computing, edges)
    return total // num_devices, exposed // num_devices


def device_utilization_pct(data: RollupInput, window: Window, times: IterationTimes) -> list[float]:
    """Share of the window in which a kernel ran, per visible GPU. Copies and sets do not count."""
    wall = window.wall_ns
    busy = times.kernel_busy_ns[:, window.inside].sum(axis=1)
    return [percent(int(value), wall) for value in busy[: len(data.devices)]]


def compute_model_metrics(
    data: RollupInput, window: Window, ops: OpMetrics, times: IterationTimes
) -> dict[str, int | float]:
    """Return the totals of the window by column name of ``model_metrics``."""
    wall = window.wall_ns
    inside = window.inside
    utilization = device_utilization_pct(data, window, times)
    used = [value for value, is_used in zip(utilization, data.devices.used, strict=True) if is_used]
    parts = {
        f"{name}_duration_pct": percent(int(times.parts[name][inside].sum()), wall)
        for name in (*LEVELS, "other")
    }
    return {
        "wall_time": wall,
        "tc_utilization": _tc_utilization(data, ops),
        "gpu_utilization": _mean(utilization),
        "used_gpu_utilization": _mean(used),
        **parts,
        "communication_pct": percent(int(times.communication_ns[inside].sum()), wall),
        "exposed_communication_pct": percent(
            int(times.exposed_communication_ns[inside].sum()), wall
        ),
        "total_iterations": int((~window.iterations.is_between).sum()),
        "profiled_iterations": window.count,
        "iter_avg": wall / window.count,
        "iter_std_dev": round(float(np.std(window.iterations.length_ns[inside])), 6),
        **_op_totals(data, ops),
        **_kernel_totals(data, window),
    }


def _mean(values: list[float]) -> float:
    return round(sum(values) / len(values), 6) if values else 0.0


def _tc_utilization(data: RollupInput, ops: OpMetrics) -> float:
    """Tensor Core kernel time over kernel time of the ops that use, or could use, Tensor Cores.

    Source: a 4-GPU run of DLProf; kernels only, summed (not flattened).
    """
    counted = data.ops.eligible[ops.op] | ops.using_tc
    kernel_time = int(ops.columns["kernel_time"][counted].sum())
    return percent(int(ops.columns["tc_kernel_time"].sum()), kernel_time)


def _op_totals(data: RollupInput, ops: OpMetrics) -> dict[str, int | float]:
    """Return sums over ops; an op belongs to one of: using Tensor Cores, eligible only, other."""
    eligible = data.ops.eligible[ops.op]
    parts: dict[str, Bool] = {
        "all": np.ones(len(ops.op), dtype=bool),
        "tc": ops.using_tc,
        "eligible": eligible & ~ops.using_tc,
        "other": ~eligible & ~ops.using_tc,
    }
    result: dict[str, int | float] = {}
    for name, rows in parts.items():
        result[f"ops_{name}_gpu_time"] = int(ops.columns["gpu_time_sum"][rows].sum())
        result[f"ops_{name}_cpu_time"] = int(ops.columns["cpu_time_sum"][rows].sum())
        result[f"ops_{name}_count"] = int(rows.sum())
    return result


def _kernel_totals(data: RollupInput, window: Window) -> dict[str, int | float]:
    """Return the sums over launches; counts are distinct names, as in DLProf's summary."""
    rows = window.rows(data.kernels.api_start_ns)
    pair = data.kernels.code[rows]
    uses_tc = data.op_kernels.uses_tc[pair]
    kernels = (
        data.kernels.duration_ns[rows],
        data.kernels.api_duration_ns[rows],
        data.op_kernels.name[pair],
    )
    memory_rows = window.rows(data.memory.api_start_ns)
    memory = (
        data.memory.duration_ns[memory_rows],
        data.memory.api_duration_ns[memory_rows],
        data.memory.code[memory_rows],
    )
    parts = {
        "tc": _totals(*(column[uses_tc] for column in kernels)),
        "memory": _totals(*memory),
        "other": _totals(*(column[~uses_tc] for column in kernels)),
    }
    parts["all"] = {key: sum(part[key] for part in parts.values()) for key in parts["tc"]}
    return {
        f"kernels_{part}_{key}": value
        for part, totals in parts.items()
        for key, value in totals.items()
    }


def _totals(duration_ns: Integers, api_duration_ns: Integers, name: Integers) -> dict[str, int]:
    return {
        "gpu_time": int(duration_ns.sum()),
        "cpu_time": int(api_duration_ns.sum()),
        "count": len(np.unique(name)),
    }
