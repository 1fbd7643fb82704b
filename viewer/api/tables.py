"""Lists over the tables of an aggregation: pages, distinct values, exports, the HTML report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from io import BytesIO
from tempfile import SpooledTemporaryFile
from typing import IO, Any, ClassVar

from django.http import FileResponse
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from aggregator.errors import InvalidValueError
from aggregator.tables.declared.ops import OPS
from aggregator.tables.declared.timeline import TIMELINE_EVENTS
from aggregator.tables.request import parse_list_query
from aggregator.tables.spec import Column, TableSpec
from aggregator.tables.sql import distinct_values, iter_all
from aggregator.texts import say
from viewer.api.replies.shared import DistinctValues, Export
from viewer.api.schema import (
    DOMAIN,
    ResourceView,
    get_view,
    list_parameters,
    query,
    reply,
    selection_parameters,
    table_page,
)
from viewer.api.scope import Scope, environment, open_event_scope, open_scope
from viewer.api.structs import reference
from viewer.errors import ViewerError
from viewer.exports.formats import FORMATS

_DISTINCT_VALUES = 200
_SPOOLED_BYTES = 4 * 1024 * 1024


class TableView(ResourceView):
    """One page of a table."""

    spec: ClassVar[TableSpec] = OPS
    query_names = None

    def parameters(self) -> Iterable[OpenApiParameter]:
        """The domain, and those of every list."""
        return (DOMAIN, *list_parameters(self.spec))

    def replies(self) -> Any:
        """The shape of the list."""
        return table_page(self.spec)

    def get(self, request: Request, **parts: Any) -> Response:
        """Rows in order, filtered."""
        wanted = parse_list_query(self.spec, request.query_params.dict(), besides=["domain"])
        with _opened(self.spec, request, parts) as scope:
            return Response(scope.data.page(self.spec, wanted))


@get_view(table_page(OPS), DOMAIN)
def TopOpsView(request: Request, **parts: Any) -> dict[str, Any]:
    """Ten rows of the ops table."""
    with open_scope(request, parts) as scope:
        return scope.data.top_ops()


class DistinctView(ResourceView):
    """Values of a column, to choose a filter from."""

    spec: ClassVar[TableSpec] = OPS
    query_names = None

    def parameters(self) -> Iterable[OpenApiParameter]:
        """The column, and the filters of the table."""
        column = query("column", f"One of {', '.join(self.spec.by_name)}.")
        return (DOMAIN, column, *selection_parameters(self.spec))

    def replies(self) -> Any:
        """Values with their counts."""
        return reply(DistinctValues)

    def get(self, request: Request, **parts: Any) -> Response:
        """Values among the rows that pass the filters, most frequent first."""
        params = request.query_params.dict()
        wanted = parse_list_query(self.spec, params, besides=["domain", "column"])
        column = _column(self.spec, params.get("column", ""))
        with _opened(self.spec, request, parts) as scope:
            table = scope.data.resolve(self.spec)
            rows = distinct_values(table, wanted, column, scope.database, _DISTINCT_VALUES + 1)
        values = [{"value": value, "count": count} for value, count in rows[:_DISTINCT_VALUES]]
        is_truncated = len(rows) > _DISTINCT_VALUES
        return Response({"column": column.name, "is_truncated": is_truncated, "results": values})


class ExportView(ResourceView):
    """The whole filtered table as a file."""

    spec: ClassVar[TableSpec] = OPS
    query_names = None

    def parameters(self) -> Iterable[OpenApiParameter]:
        """The format, the columns, and the filters of the table."""
        return (
            DOMAIN,
            query("format", "Kind of file.", enum=list(FORMATS), default="csv"),
            query("columns", "Columns in order, separated by commas; all if left out."),
            *list_parameters(self.spec),
        )

    def replies(self) -> Any:
        """A file of each format; JSON is one document with the rows."""
        return {
            (200, form.content_type.partition(";")[0]): reference(Export) if name == "json" else str
            for name, form in FORMATS.items()
        }

    def get(self, request: Request, **parts: Any) -> FileResponse:
        """All rows in order.

        They are written to a temporary file first, a few in memory at a time: so a slow client
        does not block writers of the database, and a query that fails is an error instead of half
        a file.
        """
        params = request.query_params.dict()
        wanted = parse_list_query(self.spec, params, besides=["domain", "format", "columns"])
        export = FORMATS.get(params.get("format", "csv"))
        if export is None:
            raise InvalidValueError(
                say("There is no export format {format!r}.", format=params["format"]),
                hint=say("Known: {names}.", names=", ".join(FORMATS)),
            )
        names = _columns(self.spec, params.get("columns", ""))
        limit = environment().export_timeout_s
        with _opened(self.spec, request, parts, limit) as scope:
            header = scope.header(self.spec.name, self.spec.title, names)
            records = iter_all(scope.data.resolve(self.spec), wanted, scope.database)
            rows = (tuple(record[name] for name in names) for record in records)
            return spooled(
                lambda file: export.write(header, rows, file),
                f"{header.file_stem}.{export.suffix}",
                export.content_type,
            )


def _opened(
    spec: TableSpec, request: Request, parts: dict[str, Any], limit_s: float | None = None
) -> AbstractContextManager[Scope]:
    """Return the database that has the rows of a table."""
    if spec is TIMELINE_EVENTS:
        return open_event_scope(request, parts)
    return open_scope(request, parts, time_limit_s=limit_s)


def spooled(write: Callable[[IO[bytes]], None], name: str, content_type: str) -> FileResponse:
    """A file to download; it is written in full before the first byte is sent.

    Raises:
        ViewerError: The temporary folder is full.
    """
    file: IO[bytes] = SpooledTemporaryFile(max_size=_SPOOLED_BYTES)  # noqa: SIM115
    try:
        write(file)
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        if size <= _SPOOLED_BYTES:
            # The web server asks each file for its descriptor, which would put it on the disk.
            file = BytesIO(file.read())
    except BaseException as error:
        with suppress(OSError):  # it writes what is left
            file.close()
        if not isinstance(error, OSError):
            raise
        raise ViewerError(
            say(
                "The file cannot be written to the temporary folder: {error}.",
                error=error.strerror or error,
            ),
            "STORAGE_FULL",
            hint=say("Make room in it, then try again."),
        ) from error
    return FileResponse(file, as_attachment=True, filename=name, content_type=content_type)


def _columns(spec: TableSpec, raw: str) -> tuple[str, ...]:
    names = [name.strip() for name in raw.split(",") if name.strip()] or list(spec.by_name)
    return tuple(dict.fromkeys(_column(spec, name).name for name in names))


def _column(spec: TableSpec, name: str) -> Column:
    if name not in spec.by_name:
        raise InvalidValueError(
            say("{title} has no column {name!r}.", title=spec.title, name=name),
            known=list(spec.by_name),
        )
    return spec.by_name[name]
