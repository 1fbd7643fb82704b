"""The HTML report: one file with the viewer's page and the data of the run inside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from aggregator.html_report.report import ReportRequest, write_html_report
from profiler_cli.reports.table import RowsListener

if TYPE_CHECKING:
    from profiler_cli.reports.source import ReportSource


class HtmlReport:
    """All panels and the first rows of all tables, for a browser without a viewer."""

    name = "html"
    suffix = "report"
    per_domain = False
    own_format = "html"

    def write(
        self, source: ReportSource, file_format: str, stream: BinaryIO, on_rows: RowsListener
    ) -> None:
        """Write the whole file; it holds every domain that reports were asked for."""
        request = ReportRequest(source.database, source.aggr_id, source.domains)
        write_html_report(request, stream, on_rows)


HTML = HtmlReport()
