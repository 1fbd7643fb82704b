"""The Tensor Core report: every op that could use Tensor Cores, and whether its kernels did."""

from __future__ import annotations

from typing import Final

from profiler_cli.reports.columns import Column, Format
from profiler_cli.reports.table import TableReport

# GPU time is the sum of kernel durations; counts are of different kernel names, not of launches.
TENSOR: Final = TableReport(
    name="tensor",
    suffix="tensor_core",
    title="Tensor Core Report",
    view="view_tensor_core_ops",
    columns=(
        Column("Op ID", "op_node_id", Format.NAME),
        Column("Op Name", "op_node_name", Format.NAME),
        Column("Direction", "direction", Format.WORD, pytorch_only=True),
        Column("Op Type", "op_node_type", Format.NAME),
        Column("Uses TC", "using_tc", Format.FLAG),
        Column("Total GPU Time (ns)", "gpu_time", Format.NUMBER),
        Column("TC GPU Time (ns)", "tc_gpu_time", Format.NUMBER),
        Column("Non-TC GPU Time (ns)", "non_tc_gpu_time", Format.NUMBER),
        Column("TC Utilization (%)", "tc_utilization", Format.DECIMAL),
        Column("Total Kernel Count", "kernel_count", Format.NUMBER),
        Column("TC Kernel Count", "tc_kernel_count", Format.NUMBER),
        Column("TC Kernel Names", "tc_kernel_names", Format.NAME),
        Column("Non-TC Kernel Count", "non_tc_kernel_count", Format.NUMBER),
        Column("Non-TC Kernel Names", "non_tc_kernel_names", Format.NAME),
    ),
    order_by=("op_node_id",),
)
