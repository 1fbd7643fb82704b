"""Advice, and questions that a profile does not answer."""

from __future__ import annotations

from aggregator.tables.spec import (
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
        identifier("place", "Position: what could save most comes first.", integer=True),
        identifier("advice", "Stable name of the advice.", "t.advice_name"),
        choice("status", "found, or unknown: the profile does not contain the data."),
        choice("severity?", "high, medium or low.", "NULLIF(t.severity, '')"),
        number("gain_ns?", "Time of a step that it could save; null: unknown, or per sample."),
        real("gain_pct?", "Share of the iteration time that it could save; null: unknown."),
        number("most_ns?", "What it saves at most, where gain_ns is the least."),
        real("most_pct?", "Share that it saves at most, where gain_pct is the least or unknown."),
        choice(
            "gain_source?",
            "replay: the steps were replayed with the change; corrected: also without the costs of "
            "profiling; estimate: a formula.",
            "NULLIF(t.gain_source, '')",
        ),
        choice(
            "gain_bound?",
            "at_most, or at_least: the time of the CPU as profiled limits it.",
            "NULLIF(t.gain_bound, '')",
        ),
        choice("certainty?", "sure, likely or possible.", "NULLIF(t.certainty, '')"),
        sentence("problem?", "The problem, or why it cannot be judged."),
        sentence("recommendation?", "What to do.", "NULLIF(t.recommendation, '')"),
        sentence("reasoning?", "How the number was computed.", "NULLIF(t.reasoning, '')"),
        sentence("needs?", "Data that would make it certain.", "NULLIF(t.needs, '')"),
        text("frameworks", "Frameworks that it applies to."),
        text(
            "drill_down?",
            "JSON: the view that shows all of it, with its filters.",
            "NULLIF(t.drill_down, '')",
        ),
        text("evidence", "JSON list: ops, kernels, iterations, GPUs, settings."),
        text(
            "proof_query?",
            "SQL on the public views that proves it in one row.",
            "NULLIF(t.proof_query, '')",
        ),
        text("proof_column?", "Column of that row.", "NULLIF(t.proof_column, '')"),
        number("proof_value?", "Value of the column."),
    ),
    default_ordering=("place",),
    key=("place",),
)
