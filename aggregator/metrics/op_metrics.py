"""Metrics of ops: sums over the instances that start, and the kernels launched, in the window."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aggregator.metrics.model import RollupInput
from aggregator.metrics.statistics import Groups
from aggregator.metrics.window import Window
from aggregator.profile import Bool, Int64


@dataclass(frozen=True)
class OpMetrics:
    """One row per op that has instances or kernels in the window.

    Attributes:
        op: Row of the op.
        using_tc: Whether any kernel uses Tensor Cores.
        columns: ``num_calls``, ``kernel_calls``, ``kernel_time``, ``tc_kernel_time`` and
            ``<metric>_{sum,min,max}`` for cpu_time, gpu_time, cpu_overhead and gpu_idle. Unit: ns.
    """

    op: Int64
    using_tc: Bool
    columns: dict[str, Int64]


def compute_op_metrics(data: RollupInput, window: Window) -> OpMetrics:
    """Roll op instances and kernels up to ops."""
    rows = window.rows(data.instances.start_ns)
    instances = Groups(data.instances.op[rows])
    kernel_rows = window.rows(data.kernels.api_start_ns)
    pair = data.kernels.op_kernel[kernel_rows]
    kernels = Groups(data.op_kernels.op[pair])
    duration = data.kernels.duration_ns[kernel_rows]
    uses_tc = data.op_kernels.uses_tc[pair]
    ops = np.union1d(instances.groups, kernels.groups)
    metrics = {
        "cpu_time": data.instances.cpu_time_ns[rows],
        "gpu_time": data.instances.gpu_time_ns[rows],
        "cpu_overhead": data.instances.cpu_overhead_ns[rows],
        "gpu_idle": data.instances.gpu_idle_ns[rows],
    }
    columns = {
        "num_calls": _spread(ops, instances, instances.counts),
        "kernel_calls": _spread(ops, kernels, kernels.counts),
        "kernel_time": _spread(ops, kernels, kernels.sum(duration)),
        "tc_kernel_time": _spread(ops, kernels, kernels.sum(np.where(uses_tc, duration, 0))),
    }
    for name, values in metrics.items():
        for column, result in instances.statistics(name, values).items():
            columns[column] = _spread(ops, instances, result)
    tc_launches = _spread(ops, kernels, kernels.sum(uses_tc.astype(np.int64)))
    return OpMetrics(ops, tc_launches > 0, columns)


def _spread(ops: Int64, groups: Groups, values: Int64) -> Int64:
    """Values of some ops laid out over all; the others have none: 0."""
    result = np.zeros(len(ops), dtype=np.int64)
    result[np.searchsorted(ops, groups.groups)] = values
    return result
