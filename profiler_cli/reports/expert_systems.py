"""The expert systems report: what is wrong and what to change, as a file and for the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aggregator.dldb.guarded import few_rows
from profiler_cli.reports.columns import Column, Format
from profiler_cli.reports.table import TableReport

if TYPE_CHECKING:
    from profiler_cli.reports.source import ReportSource

EXPERT_SYSTEMS: Final = TableReport(
    name="expert_systems",
    suffix="expert_systems",
    title="Expert Systems Feedback",
    view="view_expert_systems",
    columns=(
        Column("Problem", "problem", Format.NAME),
        Column("Recommendation", "recommendation", Format.NAME),
    ),
    # The detectors' own order, as DLProf's.
    order_by=(),
    per_domain=False,
)


def format_feedback(source: ReportSource) -> str:
    """The report as DLProf writes it to standard output after each run."""
    chunks = source.iter_chunks(
        "view_expert_systems", ("problem", "recommendation"), per_domain=False
    )
    issues = few_rows(row for rows in chunks for row in rows)
    count = f"{len(issues)} issue" if len(issues) == 1 else f"{len(issues)} issues"
    caution = "Note that expert systems is still experimental as are all recommended changes"
    lines = [f"Expert Systems Feedback: {count} detected. {caution}"]
    for problem, recommendation in issues:
        lines += ["", "Problem detected: ", f"  {problem}"]
        lines += ["Recommended change: ", f"  {recommendation}"]
    return "\n".join(lines) + "\n"
