"""Our own advice, and the questions that a profile does not answer."""

from __future__ import annotations

from aggregator.query.spec import (
    Source,
    TableSpec,
    choice,
    identifier,
    number,
    real,
    sentence,
    text,
)
from aggregator.texts import say

ADVICE = TableSpec(
    name="advice",
    title=say("Advice"),
    source=Source(view="view_advice", where="t.aggr_id = :aggr_id"),
    columns=(
        identifier("place", "t.place", "What could win most comes first.", integer=True),
        identifier("advice", "t.advice_name", "Stable name of the advice."),
        choice("status", "t.status", "found, or unknown: the profile does not tell."),
        choice("severity", "NULLIF(t.severity, '')", "high, medium or low.", nullable=True),
        real(
            "gain_pct",
            "t.gain_pct",
            "Share of the steps' time that acting on it could win; null: not known.",
            nullable=True,
        ),
        choice("certainty", "NULLIF(t.certainty, '')", "sure, likely or possible.", nullable=True),
        sentence("problem", "t.problem", "What is wrong, or why it cannot be judged."),
        sentence("recommendation", "NULLIF(t.recommendation, '')", "What to do."),
        sentence("reasoning", "NULLIF(t.reasoning, '')", "Where the number comes from."),
        sentence("needs", "NULLIF(t.needs, '')", "What data would make it sure."),
        text("frameworks", "t.frameworks", "Frameworks that it applies to."),
        text(
            "drill_down",
            "NULLIF(t.drill_down, '')",
            "JSON: the view that shows all of it, with its filters.",
            nullable=True,
        ),
        text("evidence", "t.evidence", "JSON list: ops, kernels, iterations, GPUs, settings."),
        text(
            "proof_query",
            "NULLIF(t.proof_query, '')",
            "SQL over the public views whose one row proves it.",
            nullable=True,
        ),
        text("proof_column", "NULLIF(t.proof_column, '')", "Column of that row.", nullable=True),
        number("proof_value", "t.proof_value", "What the column says.", nullable=True),
    ),
    default_ordering=("place",),
    key=("place",),
)
