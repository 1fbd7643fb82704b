"""The kernel report: every pair of op and kernel name with its times."""

from __future__ import annotations

from typing import Final

from profiler_cli.reports.columns import Column, Format, time_columns
from profiler_cli.reports.table import TableReport

# GPU time is the sum of kernel durations; copies and sets are no kernels.
KERNEL: Final = TableReport(
    name="kernel",
    suffix="kernel",
    title="Kernel Report",
    view="view_kernel_metrics",
    columns=(
        Column("Kernel Name", "kernel_name", Format.NAME),
        Column("Op ID", "op_node_id", Format.NAME),
        Column("Op Name", "op_node_name", Format.NAME),
        Column("Direction", "direction", Format.WORD, pytorch_only=True),
        Column("Uses TC", "uses_tc", Format.FLAG),
        *time_columns("GPU Time", "gpu_time", "Avg"),
        *time_columns("API Time", "api_time", "Avg"),
    ),
    order_by=("op_node_name", "kernel_name", "op_node_id", "row_id"),
)
