"""The op type report: the ops of each type together."""

from __future__ import annotations

from typing import Final

from profiler_cli.reports.columns import EFFICIENCY, OP_TIMES, Column, Format
from profiler_cli.reports.table import TableReport

OP_TYPE: Final = TableReport(
    name="op_type",
    suffix="op_type",
    title="Op Type Summary Report",
    view="view_op_type_summary",
    columns=(
        Column("Op Type", "op_node_type", Format.NAME),
        Column("# Ops", "num_nodes", Format.NUMBER),
        Column("# Calls", "num_calls", Format.NUMBER),
        *OP_TIMES,
        *EFFICIENCY,
    ),
    order_by=("op_node_type",),
)
