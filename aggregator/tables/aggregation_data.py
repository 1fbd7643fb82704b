"""Reads one aggregation: what the REST API, the HTML report and the notebook client all use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

from aggregator.errors import DatabaseError
from aggregator.system.sqlite_uri import as_text
from aggregator.tables.connection import ProfileDatabase
from aggregator.tables.counts import QueryCache
from aggregator.tables.declared.ops import OPS, TOP_OPS
from aggregator.tables.declared.timeline import EVENTS_VIEW
from aggregator.tables.events_view import provide_events
from aggregator.tables.owners import VIEWS as OWNER_VIEWS
from aggregator.tables.owners import provide_owners
from aggregator.tables.request import ListQuery, parse_list_query
from aggregator.tables.spec import (
    NOT_IN_DATABASE,
    NOT_MEASURED,
    Field,
    ObjectSpec,
    Record,
    TableSpec,
)
from aggregator.tables.sql import (
    BoundTable,
    as_number,
    iter_rows,
    read_columns,
    read_counted_page,
    read_page,
    resolve_columns,
)
from aggregator.texts import say

Read = TypeVar("Read", bound=Callable[..., Any])
_read_values: QueryCache[Mapping[str, Any]] = QueryCache(16)
_NO_ROW = say("Nothing was aggregated for this domain.")


@dataclass(frozen=True)
class AggregationData:
    """An aggregation and NVTX domain of an open database."""

    database: ProfileDatabase  # The database.
    # Values of the named parameters of sources: ``aggr_id``, ``domain``, and for some tables
    # ``iteration`` and ``op_id``.
    params: Mapping[str, str | int]

    def narrowed(self, params: Mapping[str, str | int]) -> AggregationData:
        """Return the same aggregation with further parameters: an iteration, an op."""
        return replace(self, params={**self.params, **params})

    def resolve(self, spec: TableSpec) -> BoundTable:
        """Return a table as this database can answer it."""
        if spec.source.view in OWNER_VIEWS:
            provide_owners(self.database, int(self.params["aggr_id"]))
        if spec.source.view == EVENTS_VIEW:
            provide_events(self.database)
        return resolve_columns(spec, self.database, self.params)

    def page(self, spec: TableSpec, query: ListQuery) -> Record:
        """Return one page of a table, as the API replies it."""
        table = self.resolve(spec)
        count, rows = read_counted_page(table, query, self.database)
        return list_reply(query, count, rows) | {"unknown": table.unknown}

    def top_ops(self) -> Record:
        """Return the ops with the most GPU time, as one page."""
        query = parse_list_query(OPS, {"page_size": str(TOP_OPS)})
        table = self.resolve(OPS)
        rows = read_page(table, query, self.database)
        return list_reply(query, len(rows), rows) | {"unknown": table.unknown}

    def rows(
        self, spec: TableSpec, params: Mapping[str, str] | None = None, limit: int = -1
    ) -> list[Record]:
        """Return all rows of a table, or at most ``limit`` of them.

        ``params`` are ordering, search and filters, as in the query string of the API.
        """
        query = parse_list_query(spec, params or {})
        return list(iter_rows(self.resolve(spec), query, self.database, limit=limit))

    def columns(self, spec: TableSpec) -> dict[str, Sequence[Any]]:
        """Return a whole table by columns.

        Raises:
            DatabaseError: A value is missing in a column that is never null.
        """
        table = self.resolve(spec)
        columns = read_columns(table, parse_list_query(spec, {}), self.database)
        for name, column in table.columns.items():
            if not column.nullable and name not in table.unknown and None in columns[name]:
                raise DatabaseError(
                    say("The database is damaged: {name} is missing in some rows.", name=name),
                    hint=say("Make it anew with dlprof, or run an integrity check with sqlite3."),
                )
        return columns

    def read_object(self, spec: ObjectSpec) -> Record:
        """Return an object; under ``unknown`` the reason of each field that is null."""
        values: Record = {}
        unknown: dict[str, str] = {}
        stored = [field for field in spec.fields if field.derived is None]
        for view, which in dict.fromkeys((field.view, field.where) for field in stored):
            fields = [field for field in stored if (field.view, field.where) == (view, which)]
            missing = {field.name: why for field in fields if (why := self._why_missing(field))}
            known = [field for field in fields if field.name not in missing]
            columns = [field.total.format(column=field.column) for field in known]
            row = self._object_row(view, columns, which)
            values |= {
                field.name: self._typed(field, value)
                for field, value in zip(known, row or (), strict=False)
            }
            unknown |= missing | {
                field.name: field.when_null
                for field in known
                if field.when_null and row and values[field.name] is None
            }
            if row is None:
                unknown |= self._why_no_row(known)
        read = self._read_values(spec)
        values |= {name: value for name, value in read.items() if name not in unknown}
        for field in spec.fields:
            if field.derived is not None:
                values[field.name] = field.derived(values)
                if values[field.name] is None:
                    unknown[field.name] = field.when_null or _NO_ROW
        reply = _nest({field.name: values.get(field.name) for field in spec.fields})
        return reply | {"unknown": unknown}

    def _read_values(self, spec: ObjectSpec) -> Mapping[str, Any]:
        read, aggr = spec.read, int(self.params["aggr_id"])
        if read is None or not self.database.is_ours:
            return {}
        return _read_values.get(
            self.database.state,
            spec.name,
            {"aggr": aggr},
            lambda: self.database.read_with(lambda connection: read(connection, aggr)),
        )

    def _why_missing(self, field: Field) -> str:
        """Return why the database does not have a value; empty if it does."""
        if not self.database.has(field.view, field.column):
            return NOT_IN_DATABASE
        if field.measured and not self.database.is_measured(field.measured):
            return NOT_MEASURED[field.measured]
        return ""

    def _why_no_row(self, fields: Sequence[Field]) -> dict[str, str]:
        """Return why values are unknown where the view has no row for them."""
        said = {"": ""}
        for view in {field.reason_view for field in fields} - {""}:
            row = self._object_row(view, ["reason"], "") if self.database.has(view) else None
            text = as_text((row or (None,))[0]) or ""
            said[view] = self.database.texts.get(text, text)
        return {
            field.name: said[field.reason_view] or field.when_null or _NO_ROW for field in fields
        }

    def _object_row(self, view: str, columns: list[str], which: str) -> tuple[Any, ...] | None:
        if not columns:
            return ()
        where = " AND ".join(filter(None, ["aggr_id = :aggr_id", which]))
        if self.database.has(view, "domain_name"):
            where += " AND domain_name = :domain"
        sql = f"SELECT {', '.join(columns)} FROM {view} WHERE {where} LIMIT 1"  # noqa: S608
        return next(iter(self.database.rows(sql, self.params)), None)

    def _typed(self, field: Field, value: Any) -> Any:
        if field.type == "string":
            text = as_text(value)
            return text if text is None else self.database.texts.get(text, text)
        number = as_number(value, integer=field.type == "integer")
        return round(100.0 - number, 6) if field.is_rest and number is not None else number


def remembered(most: int, *parameters: str) -> Callable[[Read], Read]:
    """Keep what a function reads of an aggregation, as long as the file stays as it is.

    Args:
        most: How many results are kept.
        parameters: Those of the aggregation that the result depends on; none named: all.
    """
    cache: QueryCache[Any] = QueryCache(most)

    def decorate(read: Read) -> Read:
        takes = signature(read)

        @wraps(read)
        def known(data: AggregationData, **options: Any) -> Any:
            bound = takes.bind(data, **options)
            bound.apply_defaults()
            asked = {name: data.params[name] for name in parameters or data.params}
            asked |= list(bound.arguments.items())[1:]
            name = read.__name__
            return cache.get(data.database.state, name, asked, lambda: read(data, **options))

        return cast("Read", known)

    return decorate


def list_reply(query: ListQuery, count: int, results: list[Record]) -> Record:
    """Return the shape of every list."""
    return {
        "count": count,
        "page": query.page,
        "page_size": query.page_size,
        "ordering": query.ordering_text,
        "results": results,
    }


def _nest(values: Record) -> Record:
    """Return the fields by name; a dot in a name makes a nested object."""
    reply: Record = {}
    for path, value in values.items():
        head, _, tail = path.partition(".")
        if tail:
            reply.setdefault(head, {})[tail] = value
        else:
            reply[head] = value
    return reply
