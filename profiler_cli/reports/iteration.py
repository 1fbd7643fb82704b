"""The iteration report: every kernel launch of the aggregated iterations.

The long name is, as in DLProf, that of the last launch of the short name in the op.
"""

from __future__ import annotations

from typing import Final

from profiler_cli.reports.columns import Column, Format
from profiler_cli.reports.table import TableReport

ITERATION: Final = TableReport(
    name="iteration",
    suffix="iteration",
    title="Iteration Report",
    view="view_kernel_launches",
    columns=(
        Column("Iteration", "iter_value", Format.NUMBER),
        Column("Op ID", "op_node_id", Format.NAME),
        Column("Op Name", "op_node_name", Format.NAME),
        Column("Direction", "direction", Format.WORD, pytorch_only=True),
        Column("Op Type", "op_node_type", Format.NAME),
        Column("Kernel Name", "kernel_name", Format.NAME),
        Column("Device ID", "device_id", Format.NUMBER),
        Column("GPU Start Time (ns)", "kernel_timestamp", Format.NUMBER),
        Column("GPU Duration (ns)", "kernel_duration", Format.NUMBER),
        Column("API Call Start (ns)", "api_start", Format.NUMBER),
        Column("API Call Time (ns)", "api_duration", Format.NUMBER),
        Column("Uses TC", "uses_tc", Format.FLAG),
        Column("Grid X", "grid_x", Format.NUMBER),
        Column("Grid Y", "grid_y", Format.NUMBER),
        Column("Grid Z", "grid_z", Format.NUMBER),
        Column("Block X", "block_x", Format.NUMBER),
        Column("Block Y", "block_y", Format.NUMBER),
        Column("Block Z", "block_z", Format.NUMBER),
        Column("Data Types", "data_type", Format.WORD),
        Column("Input Shapes", "input_shapes", Format.NAME),
        Column("Parameters", "parameters", Format.NAME),
        Column("Output Shapes", "output_shapes", Format.NAME),
        Column("Long Kernel Name", "last_long_kernel_name", Format.NAME),
        Column("Stream ID", "stream_id", Format.NUMBER, extended=True),
        Column("Process ID", "process_id", Format.NUMBER, extended=True),
        Column("Launched Kernel Name", "long_kernel_name", Format.NAME, extended=True),
        Column("Stack Trace", "stack_trace", Format.NAME, extended=True),
    ),
    order_by=("iter_value", "op_node_name", "kernel_name", "kernel_timestamp", "row_id"),
)
