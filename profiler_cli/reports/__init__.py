"""The reports of ``dlprof``: one file each.

A report is written from the views of a finished database, for one aggregation and one domain. To
add one, write its file, list it here and in ``profiler_cli.options.REPORT_TOKENS`` (or
``EXTRA_REPORT_TOKENS``, for one that DLProf did not have).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Final, Protocol

from profiler_cli.reports.advice import ADVICE
from profiler_cli.reports.detail import DETAIL
from profiler_cli.reports.expert_systems import EXPERT_SYSTEMS
from profiler_cli.reports.group_node import GROUP_NODE
from profiler_cli.reports.html import HTML
from profiler_cli.reports.iteration import ITERATION
from profiler_cli.reports.kernel import KERNEL
from profiler_cli.reports.op_type import OP_TYPE
from profiler_cli.reports.summary import SUMMARY
from profiler_cli.reports.tensor import TENSOR

if TYPE_CHECKING:
    from profiler_cli.reports.source import ReportSource
    from profiler_cli.reports.table import RowsListener


class Report(Protocol):
    """One kind of report."""

    @property
    def name(self) -> str:
        """Its token in ``--reports``."""

    @property
    def suffix(self) -> str:
        """Its part of the file name."""

    @property
    def per_domain(self) -> bool:
        """Whether each domain has a report of its own."""

    @property
    def own_format(self) -> str:
        """The only format it comes in; empty: those of ``--formats``."""

    def write(
        self, source: ReportSource, file_format: str, stream: BinaryIO, on_rows: RowsListener
    ) -> None:
        """Write the whole report into a stream, as ``csv`` or ``json``."""


REPORTS: Final[dict[str, Report]] = {
    report.name: report
    for report in (
        SUMMARY,
        DETAIL,
        KERNEL,
        ITERATION,
        TENSOR,
        OP_TYPE,
        GROUP_NODE,
        EXPERT_SYSTEMS,
        ADVICE,
        HTML,
    )
}
