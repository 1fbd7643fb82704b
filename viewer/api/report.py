"""The aggregation as one HTML file."""

from __future__ import annotations

from tempfile import SpooledTemporaryFile
from typing import Any

from django.http import FileResponse
from rest_framework.request import Request

from aggregator.html_report.report import ReportRequest, write_html_report
from aggregator.query.request import check_parameters
from aggregator.resources.profile import display_name, domains
from viewer.api.base import ResourceView
from viewer.api.documents import Parameter, Schema, value
from viewer.api.scope import Place, open_scope
from viewer.exports.formats import ExportHeader

_SPOOLED_BYTES = 4 * 1024 * 1024
_DOMAIN = Parameter("domain", "NVTX domain that is shown first; the default domain if left out.")


class ReportView(ResourceView):
    """Every panel and the first rows of every table, for a browser without this server."""

    media_type = "text/html"

    def parameters(self, method: str) -> tuple[Parameter, ...]:
        """The domain only."""
        return (_DOMAIN,)

    def reply(self, method: str) -> Schema:
        """A file."""
        return value("string")

    def get(self, request: Request, **parts: Any) -> FileResponse:
        """The whole file; it is written before it is sent, so that an error is no half of it."""
        check_parameters(request.query_params.dict(), ["domain"])
        place = Place(**parts)
        with open_scope(place, request.query_params.get("domain")) as scope:
            names = sorted(domains(scope.database), key=lambda name: name != scope.domain)
            name = scope.served.name or display_name(scope.served.path, scope.database)
            header = ExportHeader(
                profile=name,
                table="report",
                title="Report",
                aggregation_id=place.aggregation,
                domain=scope.domain,
                columns=(),
            )
            wanted = ReportRequest(
                scope.served.path, place.aggregation, tuple(names), scope.served.id, name
            )
        # Closed by the reply.
        file = SpooledTemporaryFile(max_size=_SPOOLED_BYTES)  # noqa: SIM115
        write_html_report(wanted, file)
        file.seek(0)
        return FileResponse(
            file,
            as_attachment=True,
            filename=f"{header.file_stem}.html",
            content_type="text/html; charset=utf-8",
        )
