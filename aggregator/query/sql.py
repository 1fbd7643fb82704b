"""From a table's declaration and a request to SQL.

Identifiers come from the declarations only; every value of a request is a bound parameter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from aggregator.query.connection import Params, Queryable, Row
from aggregator.query.request import Filter, ListQuery, OrderTerm
from aggregator.query.spec import NOT_MEASURED, Column, Kind, Source, TableSpec

_UNKNOWN = "NULL"


@dataclass(frozen=True)
class BoundTable:
    """A table as one database can answer it.

    Attributes:
        spec: The declaration in use (the fallback, if the database has no other).
        columns: Its columns; an unknown one reads NULL.
        unknown: Reason of each column that the database cannot fill; ``*`` if it is all of them.
        params: Values of the source's named parameters.
        texts: The database's sentences, if the table shows any.
    """

    spec: TableSpec
    columns: dict[str, Column]
    unknown: dict[str, str]
    params: Params
    source_sql: str
    has_row_id: bool
    texts: Mapping[str, str]

    @property
    def is_absent(self) -> bool:
        """Whether the database has no such table at all."""
        return "*" in self.unknown


def bind(spec: TableSpec, database: Queryable, params: Params) -> BoundTable:
    """Fit a table to what a database has."""
    if not database.has(spec.source.view):
        if spec.fallback is not None:
            return bind(spec.fallback, database, params)
        return BoundTable(
            spec, dict(spec.by_name), _all_unknown(spec), params, "", has_row_id=False, texts={}
        )
    unknown = _unknown(spec, database)
    columns = {
        column.name: replace(column, sql=_UNKNOWN) if column.name in unknown else column
        for column in spec.columns
    }
    row_id_column = spec.row_id.partition(".")[2]
    return BoundTable(
        spec=spec,
        columns=columns,
        unknown=unknown,
        params=params,
        source_sql=_from(spec.source, database),
        has_row_id=database.has(spec.source.view, row_id_column),
        texts=_texts(spec, database),
    )


def count_rows(table: BoundTable, query: ListQuery, database: Queryable) -> int:
    """Rows that pass the filters."""
    if table.is_absent:
        return 0
    where, params = _where(table, query)
    sql = f"SELECT COUNT(*) {table.source_sql} WHERE {where}"
    return database.count(sql, params)


def read_page(table: BoundTable, query: ListQuery, database: Queryable) -> list[dict[str, Any]]:
    """The rows of the page asked for."""
    offset = (query.page - 1) * query.page_size
    return list(iter_rows(table, query, database, limit=query.page_size, offset=offset))


def iter_rows(
    table: BoundTable,
    query: ListQuery,
    database: Queryable,
    *,
    limit: int = -1,
    offset: int = 0,
) -> Iterator[dict[str, Any]]:
    """Rows that pass the filters, in order; ``limit`` -1 means all of them."""
    if table.is_absent:
        return
    where, params = _where(table, query)
    selected = ", ".join(f'{column.sql} AS "{name}"' for name, column in table.columns.items())
    sql = (
        f"SELECT {selected} {table.source_sql} WHERE {where} "
        f"ORDER BY {_order_by(table, query)} LIMIT :_limit OFFSET :_offset"
    )
    for row in database.iter_rows(sql, {**params, "_limit": limit, "_offset": offset}):
        yield to_record(table, row)


def distinct_values(
    table: BoundTable, query: ListQuery, column: Column, database: Queryable, limit: int
) -> list[Row]:
    """Values of a column and how many rows have each, commonest first."""
    if table.is_absent:
        return []
    where, params = _where(table, query)
    expression = table.columns[column.name].sql
    sql = (
        f"SELECT {expression}, COUNT(*) {table.source_sql} WHERE {where} "
        "GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT :_limit"
    )
    return database.rows(sql, {**params, "_limit": limit})


def to_record(table: BoundTable, row: Row) -> dict[str, Any]:
    """A row as the API shows it: booleans are booleans, everything else is as stored."""
    record: dict[str, Any] = {
        name: bool(value) if column.kind is Kind.BOOLEAN and value is not None else value
        for (name, column), value in zip(table.columns.items(), row, strict=True)
    }
    if table.texts:
        for name, column in table.columns.items():
            if column.is_sentence:
                record[name] = table.texts.get(record[name], record[name])
    return record


def _texts(spec: TableSpec, database: Queryable) -> Mapping[str, str]:
    return database.texts if any(column.is_sentence for column in spec.columns) else {}


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
        f"LEFT JOIN {join.view} {join.alias} ON {join.on}"
        for join in source.joins
        if database.has(join.view)
    ]
    return " ".join([f"FROM {source.view} {source.alias}", *joins])


def _where(table: BoundTable, query: ListQuery) -> tuple[str, dict[str, Any]]:
    params: dict[str, Any] = dict(table.params)
    conditions = [table.spec.source.where]
    if query.search:
        params["_search"] = _contains(query.search)
        looked_in = [column for column in table.columns.values() if column.is_searched]
        matches = [f"{column.sql} LIKE :_search ESCAPE '\\'" for column in looked_in]
        conditions.append(f"({' OR '.join(matches) or '0'})")
    for index, condition in enumerate(query.filters):
        conditions.append(_condition(table, condition, f"_f{index}", params))
    return " AND ".join(conditions), params


def _condition(table: BoundTable, condition: Filter, prefix: str, params: dict[str, Any]) -> str:
    sql = table.columns[condition.column.name].sql
    value = condition.values[0]
    params[prefix] = value
    match condition.operator:
        case "gte":
            return f"{sql} >= :{prefix}"
        case "lte":
            return f"{sql} <= :{prefix}"
        case "icontains":
            params[prefix] = _contains(str(value))
            return f"{sql} LIKE :{prefix} ESCAPE '\\'"
        case "startswith":
            return f"substr({sql}, 1, length(:{prefix})) = :{prefix}"
        case "in":
            del params[prefix]
            names = [f"{prefix}_{index}" for index in range(len(condition.values))]
            params.update(zip(names, condition.values, strict=True))
            return f"{sql} IN ({', '.join(f':{name}' for name in names)})"
        case _:
            return f"{sql} = :{prefix}"


def _contains(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


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
