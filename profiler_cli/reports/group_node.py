"""The group report: every prefix of the ops' names, and the whole model."""

from __future__ import annotations

from typing import Final

from profiler_cli.reports.columns import EFFICIENCY, OP_TIMES, Column, Format
from profiler_cli.reports.table import TableReport

GROUP_NODE: Final = TableReport(
    name="group_node",
    # "node" became "op" in DLProf 1.7; the token of the command line stayed.
    suffix="group_op",
    title="Group Op Report",
    view="view_group_metrics",
    columns=(
        Column("Name", "group_name", Format.NAME),
        Column("Num Calls Aggregated", "num_calls", Format.NUMBER),
        Column("Num TC Eligible Ops", "num_tc_eligible_ops", Format.NUMBER),
        Column("Num Ops Using TC", "num_ops_using_tc", Format.NUMBER),
        *OP_TIMES,
        *EFFICIENCY,
    ),
    order_by=("group_name",),
    extended_view="view_group_summary",
)
