"""Pages of tables that may have millions of rows: which rows first, then those rows.

The ordinary way joins and sorts every row in full to show fifty of them. Here a narrow view says
which rows pass the filters and in which order; names are compared once for each distinct one. The
last pages are read from the end. For a page far from both ends all row ids are put in order once
and kept while the file stays as it is.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from aggregator.tables.connection import Bindings, Params, Queryable
from aggregator.tables.counts import QueryCache
from aggregator.tables.request import Filter, ListQuery, OrderTerm
from aggregator.tables.spec import Column, KeyView, LookupView

Value = str | int | float | None

_ALIAS = "s"
#: Rows that are skipped anew each time; beyond it the whole order is made, and kept.
MOST_SKIPPED = 20_000
_KEPT_IDS = 16_000_000  # Of eight bytes each.
_pages: QueryCache[Sequence[int]] = QueryCache(100_000, weight=len)
_orders: QueryCache[Sequence[int]] = QueryCache(_KEPT_IDS, weight=len)


@dataclass(frozen=True)
class NarrowTable:
    """A table's narrow view, with the values of its parameters."""

    narrow: KeyView
    columns: dict[str, Column]
    params: Params

    def count(self, query: ListQuery, database: Queryable) -> int:
        """Return the rows that pass the filters."""
        where, params = self._where(query)
        sql = f"SELECT COUNT(*) FROM {self._from()} WHERE {where}"  # noqa: S608
        return database.count(sql, params)

    def page(self, query: ListQuery, database: Queryable) -> Sequence[int]:
        """Return ids of the rows of a page, in order."""
        count = self.count(query, database)
        offset = (query.page - 1) * query.page_size
        length = min(query.page_size, count - offset)
        if length <= 0:
            return ()
        behind = count - offset - length
        if min(offset, behind) > MOST_SKIPPED:
            return self.in_order(query, database)[offset : offset + length]
        if offset <= behind:
            return self._read(query, database, length, offset)
        return self._read(query, database, length, behind, backwards=True)[::-1]

    def in_order(self, query: ListQuery, database: Queryable) -> Sequence[int]:
        """Return ids of all rows that pass the filters, in order."""
        sql, params = self._ids(query, backwards=False)
        read = database.iter_rows
        return _orders.get(
            database.state, sql, params, lambda: array("q", (row[0] for row in read(sql, params)))
        )

    def _read(
        self,
        query: ListQuery,
        database: Queryable,
        limit: int,
        offset: int,
        *,
        backwards: bool = False,
    ) -> Sequence[int]:
        sql, params = self._ids(query, backwards=backwards)
        sql = f"{sql} LIMIT :_limit OFFSET :_offset"
        params |= {"_limit": limit, "_offset": offset}
        return _pages.get(
            database.state, sql, params, lambda: tuple(row[0] for row in database.rows(sql, params))
        )

    def _ids(self, query: ListQuery, *, backwards: bool) -> tuple[str, dict[str, Value]]:
        where, params = self._where(query)
        order, joined = self._order(query.ordering, backwards=backwards)
        row_id = f"{_ALIAS}.{self.narrow.row_id}"
        source = self._from(joined)
        return f"SELECT {row_id} FROM {source} WHERE {where} ORDER BY {order}", params  # noqa: S608

    def _from(self, joined: Iterable[str] = ()) -> str:
        return " ".join([f"{self.narrow.view} {_ALIAS}", *joined])

    def _where(self, query: ListQuery) -> tuple[str, dict[str, Value]]:
        params: dict[str, Value] = dict(self.params)
        conditions = [self.narrow.where]
        if query.search:
            params["_search"] = contains(query.search)
            conditions.append(self._found())
        for index, condition in enumerate(query.filters):
            column = self._column(condition.column)
            sql = condition_sql(replace(condition, column=column), f"_f{index}", params)
            conditions.append(self._of_rows(_alias_of(column), sql))
        return " AND ".join(conditions), params

    def _found(self) -> str:
        by_alias: dict[str, list[str]] = {}
        for column in self.columns.values():
            if column.is_searched:
                sql = self._column(column).sql
                like = f"{sql} LIKE :_search ESCAPE '\\'"
                by_alias.setdefault(_alias_of(self._column(column)), []).append(like)
        found = [self._of_rows(alias, " OR ".join(any_)) for alias, any_ in by_alias.items()]
        return f"({' OR '.join(found) or '0'})"

    def _of_rows(self, alias: str, condition: str) -> str:
        part = self._part(alias)
        if part is None:
            return f"({condition})"
        keys = f"SELECT {alias}.{part.key} FROM {part.view} {alias} WHERE {condition}"  # noqa: S608
        return f"{_ALIAS}.{part.key} IN ({keys})"

    def _order(self, terms: Iterable[OrderTerm], *, backwards: bool) -> tuple[str, list[str]]:
        """ORDER BY, and the joins that it needs; the row id comes last, as the last term does."""
        order, joined, descending = [], [], False
        for index, term in enumerate(terms):
            descending = term.descending
            sql, join = self._place(term, f"r{index}")
            joined += join
            order.append(f"{sql} {_direction(descending=descending != backwards)}")
        row_id = f"{_ALIAS}.{self.narrow.row_id}"
        if not order or not order[-1].startswith(f"{row_id} "):
            order.append(f"{row_id} {_direction(descending=descending != backwards)}")
        return ", ".join(order), joined

    def _place(self, term: OrderTerm, alias: str) -> tuple[str, list[str]]:
        """What a term sorts by. The texts of a part are sorted first, its rows by their places."""
        name = term.column.name
        column = self._column(term.column)
        sql = self.narrow.orders.get(name, column.sql)
        part = self._part(_alias_of(column))
        if part is None:
            return sql, []
        # Unknown values come last in either direction: they are given the last place.
        last = f"{sql} IS NULL {_direction(descending=term.descending)}"
        places = (
            f"SELECT {part.key}, DENSE_RANK() OVER (ORDER BY {last}, {sql}) AS place "  # noqa: S608
            f"FROM {part.view} {part.alias}"
        )
        key = f"{alias}.{part.key} = {_ALIAS}.{part.key}"
        return f"{alias}.place", [f"JOIN ({places}) {alias} ON {key}"]

    def _column(self, column: Column) -> Column:
        return replace(column, sql=self.narrow.sql[column.name])

    def _part(self, alias: str) -> LookupView | None:
        return next((part for part in self.narrow.parts if part.alias == alias), None)


def _alias_of(column: Column) -> str:
    return column.references[0][0]


def _direction(*, descending: bool) -> str:
    return "DESC" if descending else "ASC"


def condition_sql(condition: Filter, prefix: str, params: Bindings) -> str:
    """Return a filter as SQL: compares its column's expression.

    ``params`` gets its values, under names that begin with ``prefix``.
    """
    sql = condition.column.sql
    value = condition.values[0]
    params[prefix] = value
    match condition.operator:
        case "gte":
            return f"{sql} >= :{prefix}"
        case "lte":
            return f"{sql} <= :{prefix}"
        case "icontains":
            params[prefix] = contains(str(value))
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


def contains(value: str) -> str:
    r"""The pattern of LIKE for a text that is contained, with ``\`` as escape."""
    escaped = value.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
