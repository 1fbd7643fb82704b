"""Lists over the tables of an aggregation: pages, distinct values, exports."""

from __future__ import annotations

from tempfile import SpooledTemporaryFile
from typing import Any, ClassVar

from django.http import FileResponse
from rest_framework.request import Request
from rest_framework.response import Response

from aggregator.errors import InvalidValueError
from aggregator.query.request import ListQuery, check_parameters, parse_list_query
from aggregator.query.spec import TableSpec
from aggregator.query.sql import bind, count_rows, distinct_values, iter_all, read_page
from aggregator.resources.ops import OPS, TOP_OPS
from aggregator.resources.profile import display_name
from aggregator.texts import say
from viewer.api.base import ResourceView
from viewer.api.documents import (
    DOMAIN,
    Parameter,
    Schema,
    array,
    list_parameters,
    record,
    selection_parameters,
    table_schema,
    value,
)
from viewer.api.scope import Place, environment, open_scope
from viewer.exports.catalogue import FORMATS
from viewer.exports.formats import ExportHeader

_DISTINCT_VALUES = 200
_DOCUMENT: Schema = record(
    {
        "profile": value("string"),
        "table": value("string"),
        "aggregation_id": value("integer"),
        "domain": value("string"),
        "columns": array(value("string")),
        "results": array({"type": "object", "additionalProperties": True}),
    }
)
_SPOOLED_BYTES = 4 * 1024 * 1024


class TableView(ResourceView):
    """One page of a table."""

    spec: ClassVar[TableSpec] = OPS

    def parameters(self, method: str) -> tuple[Parameter, ...]:
        """Those of every list, and the domain."""
        return (DOMAIN, *list_parameters(self.spec))

    def reply(self, method: str) -> Schema:
        """The list's shape."""
        return table_schema(self.spec)

    def get(self, request: Request, **parts: Any) -> Response:
        """Rows in order, filtered."""
        query = parse_list_query(self.spec, request.query_params.dict(), besides=["domain"])
        with open_scope(Place(**parts), request.query_params.get("domain")) as scope:
            table = bind(self.spec, scope.database, scope.params)
            count = count_rows(table, query, scope.database)
            rows = read_page(table, query, scope.database)
        return Response(envelope(query, count, rows) | {"unknown": table.unknown})


class TopOpsView(ResourceView):
    """The ops with most GPU time; a panel, so that it takes no paging."""

    spec: ClassVar[TableSpec] = OPS

    def parameters(self, method: str) -> tuple[Parameter, ...]:
        """The domain only."""
        return (DOMAIN,)

    def reply(self, method: str) -> Schema:
        """The list's shape."""
        return table_schema(self.spec)

    def get(self, request: Request, **parts: Any) -> Response:
        """Ten rows of the ops table."""
        check_parameters(request.query_params.dict(), ["domain"])
        query = parse_list_query(self.spec, {"page_size": str(TOP_OPS)})
        with open_scope(Place(**parts), request.query_params.get("domain")) as scope:
            table = bind(self.spec, scope.database, scope.params)
            rows = read_page(table, query, scope.database)
        return Response(envelope(query, len(rows), rows) | {"unknown": table.unknown})


class DistinctView(ResourceView):
    """Values of a column, to choose a filter from."""

    spec: ClassVar[TableSpec] = OPS

    def parameters(self, method: str) -> tuple[Parameter, ...]:
        """The column, and the filters of the table."""
        column = Parameter("column", f"One of {', '.join(self.spec.by_name)}.")
        return (DOMAIN, column, *selection_parameters(self.spec))

    def reply(self, method: str) -> Schema:
        """Values with their counts."""
        any_value = {"type": ["string", "number", "boolean", "null"]}
        item = record({"value": any_value, "count": value("integer")})
        truncated = value("boolean", "Whether there are more values than are listed.")
        return record(
            {"column": value("string"), "is_truncated": truncated, "results": array(item)}
        )

    def get(self, request: Request, **parts: Any) -> Response:
        """Values among the rows that pass the filters, commonest first."""
        query = parse_list_query(
            self.spec, request.query_params.dict(), besides=["domain", "column"]
        )
        name = request.query_params.get("column", "")
        column = self.spec.by_name.get(name)
        if column is None:
            raise InvalidValueError(
                say("{title} has no column {name!r}.", title=self.spec.title, name=name),
                known=list(self.spec.by_name),
            )
        with open_scope(Place(**parts), request.query_params.get("domain")) as scope:
            table = bind(self.spec, scope.database, scope.params)
            limit = _DISTINCT_VALUES + 1
            rows = distinct_values(table, query, column, scope.database, limit)
        values = [{"value": value, "count": count} for value, count in rows[:_DISTINCT_VALUES]]
        truncated = len(rows) > _DISTINCT_VALUES
        return Response({"column": name, "is_truncated": truncated, "results": values})


class ExportView(ResourceView):
    """The whole filtered table as a file."""

    spec: ClassVar[TableSpec] = OPS
    media_type = "text/csv"

    def parameters(self, method: str) -> tuple[Parameter, ...]:
        """The format, the columns, and the filters of the table."""
        formats = (("type", "string"), ("enum", list(FORMATS)), ("default", "csv"))
        return (
            DOMAIN,
            Parameter("format", "Kind of file.", formats),
            Parameter("columns", "Columns by comma, in the order wanted; all if left out."),
            *list_parameters(self.spec),
        )

    def reply(self, method: str) -> Schema:
        """A file."""
        return value("string")

    def replies(self, method: str) -> dict[str, Schema]:
        """A file of each format; JSON is one document with the rows."""
        return {
            form.content_type.partition(";")[0]: _DOCUMENT if name == "json" else self.reply(method)
            for name, form in FORMATS.items()
        }

    def get(self, request: Request, **parts: Any) -> FileResponse:
        """All rows in order.

        They are written to a temporary file first, a few in memory at a time: a slow client then
        does not keep the database from being written to, and a query that fails is an error, not
        half a file.
        """
        params = request.query_params.dict()
        query = parse_list_query(self.spec, params, besides=["domain", "format", "columns"])
        export = FORMATS.get(params.get("format", "csv"))
        if export is None:
            raise InvalidValueError(
                say("There is no export format {format!r}.", format=params["format"]),
                hint=say("Known: {names}.", names=", ".join(FORMATS)),
            )
        names = _columns(self.spec, params.get("columns", ""))
        place = Place(**parts)
        limit = environment().export_timeout_s
        with open_scope(place, params.get("domain"), time_limit_s=limit) as scope:
            table = bind(self.spec, scope.database, scope.params)
            header = ExportHeader(
                profile=display_name(scope.served.path, scope.database),
                table=self.spec.name,
                title=self.spec.title,
                aggregation_id=place.aggregation,
                domain=scope.domain,
                columns=names,
            )
            records = iter_all(table, query, scope.database)
            rows = (tuple(record[name] for name in names) for record in records)
            # Closed by the reply.
            file = SpooledTemporaryFile(max_size=_SPOOLED_BYTES)  # noqa: SIM115
            export.write(header, rows, file)
        file.seek(0)
        return FileResponse(
            file,
            as_attachment=True,
            filename=f"{header.file_stem}.{export.suffix}",
            content_type=export.content_type,
        )


def envelope(query: ListQuery, count: int, results: list[dict[str, Any]]) -> dict[str, Any]:
    """The shape of every list."""
    return {
        "count": count,
        "page": query.page,
        "page_size": query.page_size,
        "ordering": query.ordering_text,
        "results": results,
    }


def _columns(spec: TableSpec, raw: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in raw.split(",") if name.strip()) or tuple(spec.by_name)
    for name in names:
        if name not in spec.by_name:
            raise InvalidValueError(
                say("{title} has no column {name!r}.", title=spec.title, name=name),
                known=list(spec.by_name),
            )
    return tuple(dict.fromkeys(names))
