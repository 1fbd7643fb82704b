"""From a table's declaration and a request to SQL.

Identifiers come from the declarations only; every value of a request is a bound parameter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from aggregator.errors import DatabaseBusyError
from aggregator.profile.profile import DEFAULT_DOMAIN
from aggregator.system.sqlite_uri import as_text
from aggregator.tables.connection import Bindings, Params, ProfileDatabase, Queryable, Row
from aggregator.tables.counts import QueryCache
from aggregator.tables.narrow import NarrowTable, condition_sql, contains
from aggregator.tables.request import ListQuery, OrderTerm
from aggregator.tables.spec import (
    NOT_MEASURED,
    Column,
    Join,
    Kind,
    Record,
    RowsOfOtherTable,
    Source,
    TableSpec,
)
from aggregator.texts import say

_UNKNOWN = "NULL"
_GROUP = "g"  # Alias of the rows of groups.
#: Read in one transaction: a fraction of a second, with the writing of them to a file.
_ROWS_PER_PART = 5_000
#: Values of columns, which every row of a table has to be looked at for.
_distinct: QueryCache[list[Row]] = QueryCache(50_000, weight=len)


@dataclass(frozen=True)
class Groups:
    """How rows of the source become rows of the table."""

    selected: str  # The columns of the table, over the source.
    by: str  # What the rows of a group have in common.


@dataclass(frozen=True)
class BoundTable:
    """A table as one database can answer it."""

    spec: TableSpec  # The declaration in use (the fallback, if the database has no other).
    columns: dict[str, Column]  # Its columns; an unknown one reads NULL.
    # Reason of each column that the database cannot fill; ``*`` if it is all of them.
    unknown: dict[str, str]
    params: Params  # Values of the source's named parameters.
    source_sql: str
    has_row_id: bool
    texts: Mapping[str, str]  # The database's sentences, if the table shows any.
    # Where the rows of a page are found, if not in the main view.
    narrow: NarrowTable | None = None
    groups: Groups | None = None  # Of a table whose rows sum rows of the source.
    # The tables whose filters this one can follow, by the parameter.
    among: Mapping[str, BoundTable] = field(default_factory=dict)

    @cached_property
    def plain_types(self) -> tuple[tuple[str, Column, frozenset[type]], ...]:
        """Name of each column, and what SQLite gives for its values; anything else is converted."""
        return tuple((name, column, _plain(column)) for name, column in self.columns.items())

    @property
    def is_absent(self) -> bool:
        """Whether the database has no such table at all."""
        return "*" in self.unknown


def resolve_columns(spec: TableSpec, database: Queryable, params: Params) -> BoundTable:
    """Fit a table to what a database has."""
    if not database.has(spec.source.view):
        if spec.fallback is not None:
            return resolve_columns(spec.fallback, database, params)
        return BoundTable(
            spec, dict(spec.by_name), _all_unknown(spec), params, "", has_row_id=False, texts={}
        )
    unknown = _unknown(spec, database)
    columns = {
        column.name: replace(column, sql=_UNKNOWN) if column.name in unknown else column
        for column in spec.columns
    }
    row_id_column = spec.row_id.partition(".")[2]
    groups = _groups(spec, columns)
    return BoundTable(
        spec=spec,
        columns=columns if groups is None else _of_groups(columns),
        unknown=unknown,
        params=params,
        source_sql=_from(spec.source, database),
        has_row_id=not spec.grouped_by and database.has(spec.source.view, row_id_column),
        texts=database.texts if any(column.is_sentence for column in spec.columns) else {},
        narrow=_narrow(spec, database, params),
        groups=groups,
        among={ref.parameter: resolve_columns(ref.table, database, params) for ref in spec.among},
    )


def _groups(spec: TableSpec, columns: Mapping[str, Column]) -> Groups | None:
    if not spec.grouped_by:
        return None
    by = ", ".join(columns[name].sql for name in spec.grouped_by)
    return Groups(_selected(columns), by)


def _of_groups(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Return the columns as the filters and the order of groups read them."""
    return {
        name: column if column.sql == _UNKNOWN else replace(column, sql=f'{_GROUP}."{name}"')
        for name, column in columns.items()
    }


def count_rows(table: BoundTable, query: ListQuery, database: Queryable) -> int:
    """Return the rows that pass the filters."""
    if table.is_absent:
        return 0
    if table.narrow is not None:
        return table.narrow.count(query, database)
    source, params = _from_where(table, query)
    # A view of several parts is computed with all its columns when it is counted itself.
    sql = f"SELECT COUNT(*) FROM (SELECT 1 {source} LIMIT -1)"  # noqa: S608
    return database.count(sql, params)


def read_counted_page(
    table: BoundTable, query: ListQuery, database: Queryable
) -> tuple[int, list[Record]]:
    """Return how many rows pass the filters, and those of the page asked for."""
    if table.is_absent or not (table.groups or table.spec.source.is_summed):
        return count_rows(table, query, database), read_page(table, query, database)
    offset = (query.page - 1) * query.page_size
    counted = _rows(
        table, query, database, limit=query.page_size, offset=offset, also=", COUNT(*) OVER ()"
    )
    rows = list(counted)
    # Behind the last page no row says how many there are.
    count = int(rows[0][-1]) if rows else count_rows(table, query, database)
    return count, [to_record(table, row[:-1]) for row in rows]


def read_page(table: BoundTable, query: ListQuery, database: Queryable) -> list[Record]:
    """Return the rows of the page asked for."""
    if table.narrow is not None:
        return _read_rows(table, table.narrow.page(query, database), database)
    offset = (query.page - 1) * query.page_size
    return list(iter_rows(table, query, database, limit=query.page_size, offset=offset))


def _read_rows(table: BoundTable, ids: Sequence[int], database: Queryable) -> list[Record]:
    if not ids:
        return []
    row_id = table.spec.row_id
    wanted = ", ".join(str(int(key)) for key in ids)
    sql = (
        f"SELECT {row_id}, {_selected(table.columns)} {table.source_sql} "
        f"WHERE {table.spec.source.where} AND {row_id} IN ({wanted})"
    )
    found = {row[0]: to_record(table, row[1:]) for row in database.rows(sql, table.params)}
    return [found[key] for key in ids if key in found]


def iter_rows(
    table: BoundTable, query: ListQuery, database: Queryable, *, limit: int = -1, offset: int = 0
) -> Iterator[Record]:
    """Yield the rows that pass the filters, in order; ``limit`` -1 means all of them."""
    if table.is_absent:
        return
    for row in _rows(table, query, database, limit=limit, offset=offset):
        yield to_record(table, row)


def iter_all(table: BoundTable, query: ListQuery, database: ProfileDatabase) -> Iterator[Record]:
    """Yield all rows that pass the filters, in order, however many; a writer can commit in between.

    The rows of an aggregation never change. One that was deleted meanwhile is an error.

    Raises:
        DatabaseBusyError: The rows went, or a writer did not end.
    """
    if table.narrow is None or table.is_absent:
        yield from iter_rows(table, query, database)
        return
    ids = table.narrow.in_order(query, database)
    for first in range(0, len(ids), _ROWS_PER_PART):
        if first:
            database.let_go()
        part = ids[first : first + _ROWS_PER_PART]
        rows = _read_rows(table, part, database)
        if len(rows) < len(part):
            raise DatabaseBusyError(
                say("Rows of the table went while they were read."),
                hint=say("Look whether the aggregation is still there, and try again."),
            )
        yield from rows


def _rows(
    table: BoundTable,
    query: ListQuery,
    database: Queryable,
    *,
    limit: int,
    offset: int,
    also: str = "",
) -> Iterator[Row]:
    source, params = _from_where(table, query)
    sql = (
        f"SELECT {_selected(table.columns)}{also} {source} "
        f"ORDER BY {_order_by(table, query)} LIMIT :_limit OFFSET :_offset"
    )
    return database.iter_rows(sql, {**params, "_limit": limit, "_offset": offset})


def read_columns(
    table: BoundTable, query: ListQuery, database: Queryable
) -> dict[str, Sequence[Any]]:
    """Return all rows that pass the filters, in order, by columns: no object is made for a row."""
    rows = () if table.is_absent else _rows(table, query, database, limit=-1, offset=0)
    values: Iterable[Sequence[Any]] = zip(*rows, strict=True)
    by_name = dict(zip(table.columns, values, strict=False))
    return {
        name: [
            value if type(value) in _plain(column) else _converted(column, value)
            for value in by_name.get(name, ())
        ]
        for name, column in table.columns.items()
    }


def distinct_values(
    table: BoundTable, query: ListQuery, column: Column, database: Queryable, limit: int
) -> list[Row]:
    """Return the values of a column and how many rows have each, commonest first."""
    if table.is_absent:
        return []
    source, params = _from_where(table, query)
    expression = table.columns[column.name].sql
    sql = f"SELECT {expression}, COUNT(*) {source} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT :_limit"
    params = {**params, "_limit": limit}
    return _distinct.get(database.state, sql, params, lambda: database.rows(sql, params))


def to_record(table: BoundTable, row: Row) -> Record:
    """Return a row as the API shows it: each value is of its column's kind."""
    record: Record = {
        name: value if type(value) in plain else _converted(column, value)
        for (name, column, plain), value in zip(table.plain_types, row, strict=True)
    }
    if table.texts:
        for name, column in table.columns.items():
            if column.is_sentence:
                record[name] = table.texts.get(record[name], record[name])
    return record


_TEXT: frozenset[type] = frozenset({str, type(None)})
#: What SQLite gives for a value of a kind.
_PLAIN: dict[Kind, frozenset[type]] = {
    Kind.TEXT: _TEXT,
    Kind.CHOICE: _TEXT,
    Kind.IDENTIFIER: _TEXT | {int},
    Kind.NUMBER: frozenset({int, type(None)}),
    Kind.BOOLEAN: frozenset({type(None)}),
}


def _plain(column: Column) -> frozenset[type]:
    is_real = column.kind is Kind.NUMBER and not column.integer
    return frozenset({type(None)}) if is_real else _PLAIN[column.kind]


def as_number(value: Any, *, integer: bool) -> int | float | None:
    """A finite number, else None; of the kind, whole or real, that the column is declared as."""
    if isinstance(value, int):
        return value if integer else float(value)
    if not isinstance(value, float) or not math.isfinite(value):
        return None
    return round(value) if integer else value


def _converted(column: Column, value: Any) -> Any:
    """A value as its column's kind; what a damaged database holds instead of it is unknown."""
    if column.kind is Kind.BOOLEAN:
        return bool(value)
    if column.kind is Kind.NUMBER:
        return as_number(value, integer=column.integer)
    return as_text(value)


def _selected(columns: Mapping[str, Column]) -> str:
    return ", ".join(f'{column.sql} AS "{name}"' for name, column in columns.items())


def _narrow(spec: TableSpec, database: Queryable, params: Params) -> NarrowTable | None:
    """The narrow view, where the database has it; it holds the rows of the default domain only."""
    narrow = spec.narrow
    if narrow is None or params.get("domain") != DEFAULT_DOMAIN:
        return None
    views = (narrow.view, *(part.view for part in narrow.parts))
    if not all(database.has(view) for view in views):
        return None
    return NarrowTable(narrow, spec.by_name, params)


def _all_unknown(spec: TableSpec) -> dict[str, str]:
    reason = spec.columns[0].reason
    return {"*": reason} | {column.name: reason for column in spec.columns}


def _unknown(spec: TableSpec, database: Queryable) -> dict[str, str]:
    unknown: dict[str, str] = {}
    for column in spec.columns:
        if not _is_known(column, spec.source, database):
            unknown[column.name] = column.reason
        elif column.measured and not database.is_measured(column.measured):
            unknown[column.name] = NOT_MEASURED[column.measured]
    return unknown


def _is_known(column: Column, source: Source, database: Queryable) -> bool:
    views = source.aliases
    return all(database.has(views[alias], name) for alias, name in column.references)


def _from(source: Source, database: Queryable) -> str:
    joins = [
        f"{'' if join.has_all else 'LEFT '}JOIN {_joined(join)} {join.alias} ON {join.on}"
        for join in source.joins
        if database.has(join.view)
    ]
    return " ".join([f"FROM {source.view} {source.alias}", *joins])


def _joined(join: Join) -> str:
    """Return what is joined: the view, or a copy of it, for which SQLite makes an index.

    It makes one where it expects many rows: of an equality it expects ten, so the plus hides it.
    """
    if not join.is_copied:
        return join.view
    rows = f"SELECT * FROM {join.view} WHERE +aggr_id = :aggr_id"  # noqa: S608
    return f"(WITH copy AS MATERIALIZED ({rows}) SELECT * FROM copy)"  # noqa: S608


def _from_where(table: BoundTable, query: ListQuery, stem: str = "_") -> tuple[str, Bindings]:
    """FROM and WHERE of the rows that pass the filters, and the values of their parameters."""
    params: Bindings = dict(table.params)
    source = [table.spec.source.where, *_followed(table, query, params)]
    conditions = _conditions(table, query, stem, params)
    if table.groups is None:
        return f"{table.source_sql} WHERE {' AND '.join([*source, *conditions])}", params
    rows = (
        f"SELECT {table.groups.selected} {table.source_sql} "
        f"WHERE {' AND '.join(source)} GROUP BY {table.groups.by}"
    )
    return f"FROM ({rows}) AS {_GROUP} WHERE {' AND '.join(conditions) or '1'}", params


def _conditions(table: BoundTable, query: ListQuery, stem: str, params: Bindings) -> Iterator[str]:
    if query.search:
        params[f"{stem}search"] = contains(query.search)
        looked_in = [column for column in table.columns.values() if column.is_searched]
        matches = [f"{column.sql} LIKE :{stem}search ESCAPE '\\'" for column in looked_in]
        yield f"({' OR '.join(matches) or '0'})"
    for index, condition in enumerate(query.filters):
        asked = replace(condition, column=table.columns[condition.column.name])
        yield condition_sql(asked, f"{stem}f{index}", params)


def _followed(table: BoundTable, query: ListQuery, params: Bindings) -> Iterator[str]:
    """Yield the conditions that the rows belong to chosen ones of other tables."""
    for among in table.spec.among:
        if (followed := query.among.get(among.parameter)) is not None:
            other = table.among[among.parameter]
            yield _among(among, other, followed, params)


def _among(among: RowsOfOtherTable, other: BoundTable, query: ListQuery, params: Bindings) -> str:
    """Return the condition that a row belongs to those of another table that pass its filters."""
    if other.is_absent:
        return "0"
    source, more = _from_where(other, query, f"_{among.parameter}_")
    params |= more
    selected = ", ".join(other.columns[name].sql for name in among.columns)
    rows = f"SELECT {selected} {source}"
    return f"{among.sql} IN ({among.values.format(rows=rows)})"


def _order_by(table: BoundTable, query: ListQuery) -> str:
    terms = [_order_term(table, term) for term in query.ordering]
    if table.has_row_id:
        # In the last term's direction, so that the index (column, row id) can be walked either way.
        descending = bool(query.ordering) and query.ordering[-1].descending
        terms.append(f"{table.spec.row_id} {'DESC' if descending else 'ASC'}")
    else:
        asked = {term.column.name for term in query.ordering}
        terms += [table.columns[name].sql for name in table.spec.key if name not in asked]
    # A bare number in ORDER BY would be read as a column's position, a bare NULL is no expression.
    return ", ".join(term for term in terms if term.split(" ")[0] != _UNKNOWN) or "1"


def _order_term(table: BoundTable, term: OrderTerm) -> str:
    column = table.columns[term.column.name]
    direction = "DESC" if term.descending else "ASC"
    last = " NULLS LAST" if column.nullable and column.sql != _UNKNOWN else ""
    return f"{column.sql} {direction}{last}"
