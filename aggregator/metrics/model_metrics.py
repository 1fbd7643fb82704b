"""Totals of an aggregation: the performance summary, op and kernel summaries, utilisations."""

from __future__ import annotations

import numpy as np

from aggregator.metrics.iteration_times import IterationTimes, device_utilization_pct
from aggregator.metrics.model import LEVELS, RollupInput
from aggregator.metrics.op_metrics import OpMetrics
from aggregator.metrics.statistics import percent
from aggregator.metrics.window import Window
from aggregator.profile import Bool


def compute_model_metrics(
    data: RollupInput, window: Window, ops: OpMetrics, times: IterationTimes
) -> dict[str, int | float]:
    """Totals of the window by column name of ``model_metrics``."""
    wall = window.stop_ns - window.start_ns
    inside = slice(window.first, window.last + 1)
    length = (window.iterations.stop_ns - window.iterations.start_ns)[inside]
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
        "total_iterations": len(window.iterations),
        "profiled_iterations": window.count,
        "iter_avg": wall / window.count,
        "iter_std_dev": round(float(np.std(length)), 6),
        **_op_totals(data, ops),
        **_kernel_totals(data, window),
    }


def _mean(values: list[float]) -> float:
    return round(sum(values) / len(values), 6) if values else 0.0


def _tc_utilization(data: RollupInput, ops: OpMetrics) -> float:
    """Tensor Core kernel time over kernel time of the ops that use, or could use, Tensor Cores.

    Source: a 4-GPU run of DLProf; kernels only, summed (not flattened).
    """
    counted = data.ops.tc_eligible[ops.op] | ops.using_tc
    kernel_time = int(ops.columns["kernel_time"][counted].sum())
    return percent(int(ops.columns["tc_kernel_time"].sum()), kernel_time)


def _op_totals(data: RollupInput, ops: OpMetrics) -> dict[str, int | float]:
    """Sums over ops; an op belongs to one of: using Tensor Cores, eligible only, other."""
    eligible = data.ops.tc_eligible[ops.op]
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
    """Sums over launches; counts are distinct names, as in DLProf's summary."""
    rows = window.rows(data.kernels.api_start_ns)
    pair = data.kernels.op_kernel[rows]
    tc = data.op_kernels.uses_tc[pair]
    duration = data.kernels.duration_ns[rows]
    api = data.kernels.api_duration_ns[rows]
    name = data.op_kernels.name[pair]
    memory_rows = window.rows(data.memory.api_start_ns)
    memory = {
        "gpu_time": int(data.memory.duration_ns[memory_rows].sum()),
        "cpu_time": int(data.memory.api_duration_ns[memory_rows].sum()),
        "count": len(np.unique(data.memory.name[memory_rows])),
    }
    tc_part = {
        "gpu_time": int(duration[tc].sum()),
        "cpu_time": int(api[tc].sum()),
        "count": len(np.unique(name[tc])),
    }
    other = {
        "gpu_time": int(duration[~tc].sum()),
        "cpu_time": int(api[~tc].sum()),
        "count": len(np.unique(name[~tc])),
    }
    result: dict[str, int | float] = {}
    for key in ("gpu_time", "cpu_time", "count"):
        result[f"kernels_all_{key}"] = tc_part[key] + memory[key] + other[key]
        result[f"kernels_tc_{key}"] = tc_part[key]
        result[f"kernels_memory_{key}"] = memory[key]
        result[f"kernels_other_{key}"] = other[key]
    return result
