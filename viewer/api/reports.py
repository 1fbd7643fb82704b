"""The report of an aggregation in one file."""

from __future__ import annotations

from typing import Any

from django.http import FileResponse
from rest_framework.request import Request

from aggregator.html_report.report import ReportRequest, write_html_report
from aggregator.tables.declared.profile import domains
from viewer.api.schema import get_view, query
from viewer.api.scope import open_scope
from viewer.api.tables import spooled


@get_view(
    {(200, "text/html"): str},
    query("domain", "NVTX domain to show first; the default domain if left out."),
)
def ReportView(request: Request, **parts: Any) -> FileResponse:
    """The whole file; it is written before it is sent, so that an error is no half of it."""
    with open_scope(request, parts) as scope:
        header, served = scope.header("report", "Report"), scope.served
        names = sorted(domains(scope.database), key=lambda name: name != header.domain)
        wanted = ReportRequest(
            served.path, header.aggregation_id, tuple(names), served.id, header.profile
        )
    return spooled(
        lambda file: write_html_report(wanted, file),
        f"{header.file_stem}.html",
        "text/html; charset=utf-8",
    )
