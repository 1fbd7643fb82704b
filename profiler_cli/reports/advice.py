"""The advice report: our own advice with what it could win, one row each; open questions last."""

from __future__ import annotations

from typing import Final

from profiler_cli.reports.columns import Column, Format
from profiler_cli.reports.table import TableReport

ADVICE: Final = TableReport(
    name="advice",
    suffix="advice",
    title="Advice",
    view="view_advice",
    columns=(
        Column("Place", "place", Format.NUMBER),
        Column("Advice", "advice_name", Format.WORD),
        Column("Status", "status", Format.WORD),
        Column("Severity", "severity", Format.WORD),
        Column("Could Win (%)", "gain_pct", Format.DECIMAL),
        Column("Certainty", "certainty", Format.WORD),
        Column("Problem", "problem", Format.NAME),
        Column("Recommendation", "recommendation", Format.NAME),
        Column("Reasoning", "reasoning", Format.NAME),
        Column("Data Needed", "needs", Format.NAME),
        Column("Frameworks", "frameworks", Format.WORD),
        Column("Evidence", "evidence", Format.NAME),
        Column("Proof Query", "proof_query", Format.NAME),
        Column("Proof Column", "proof_column", Format.WORD),
        Column("Proof Value", "proof_value", Format.NUMBER),
    ),
    order_by=("place",),
    per_domain=False,
)
