"""The detail report: every op with its times."""

from __future__ import annotations

from typing import Final

from profiler_cli.reports.columns import EFFICIENCY, OP_TIMES, Column, Format
from profiler_cli.reports.table import TableReport

# GPU time of an op is the union of its device work, copies and sets included.
DETAIL: Final = TableReport(
    name="detail",
    suffix="detailed",
    # DLProf's title, also when only some iterations are aggregated.
    title="All Iterations",
    view="view_op_metrics",
    columns=(
        Column("Op ID", "op_node_id", Format.NAME),
        Column("Op Name", "op_node_name", Format.NAME),
        Column("Direction", "direction", Format.WORD, pytorch_only=True),
        Column("Op Type", "op_node_type", Format.NAME),
        Column("No. Calls", "num_calls", Format.NUMBER),
        Column("TC Eligible", "tc_eligible", Format.FLAG),
        Column("Using TC", "using_tc", Format.FLAG),
        *OP_TIMES,
        Column("Data Type", "data_type", Format.WORD),
        Column("Stack Trace", "stack_trace", Format.NAME, pytorch_only=True),
        Column("Module Path", "module_path", Format.NAME, extended=True),
        Column("Mapped GPU Time (ns)", "mapped_gpu_time_sum", Format.NUMBER, extended=True),
        Column("Kernel Calls", "kernel_calls", Format.NUMBER, extended=True),
        Column("Kernel Time (ns)", "kernel_time", Format.NUMBER, extended=True),
        Column("TC Kernel Time (ns)", "tc_kernel_time", Format.NUMBER, extended=True),
        Column("FLOPs per Call", "flops_per_call", Format.NUMBER, extended=True),
        Column("TC Possible", "tc_fit_text", Format.WORD, extended=True),
        Column("TC Possible Reason", "tc_fit_reason", Format.NAME, extended=True),
        *EFFICIENCY,
    ),
    order_by=("op_node_id", "row_id"),
)
