"""Metrics of (op, kernel) pairs: plain sums of the launches in the window."""

from __future__ import annotations

from aggregator.metrics.model import RollupInput
from aggregator.metrics.statistics import Groups
from aggregator.metrics.window import Window
from aggregator.profile import Int64


def compute_kernel_metrics(data: RollupInput, window: Window) -> dict[str, Int64]:
    """Columns ``op_kernel, calls, gpu_time_{sum,min,max}, api_time_{sum,min,max}``. Unit: ns."""
    rows = window.rows(data.kernels.api_start_ns)
    pairs = Groups(data.kernels.op_kernel[rows])
    return {
        "op_kernel": pairs.groups,
        "calls": pairs.counts,
        **pairs.statistics("gpu_time", data.kernels.duration_ns[rows]),
        **pairs.statistics("api_time", data.kernels.api_duration_ns[rows]),
    }
