"""Rows that are not in a profile's database (profiles, jobs), asked with the very same rules."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aggregator.tables.connection import Params, Queryable, Row
from aggregator.tables.request import ListQuery
from aggregator.tables.spec import Source, TableSpec
from aggregator.tables.sql import count_rows, read_page, resolve_columns

#: The source of a table whose rows are handed over as records.
RECORDS = Source(view="records", where="1")


def query_records(
    spec: TableSpec, query: ListQuery, records: Sequence[Mapping[str, Any]]
) -> tuple[int, list[str]]:
    """Filter, sort and page records by the columns of a table over ``RECORDS`` with an ``id``.

    Returns how many pass the filters, and the ids of those on the page, in order.
    """
    database = _MemoryDatabase(spec, records)
    try:
        table = resolve_columns(spec, database, {})
        ids = [str(row["id"]) for row in read_page(table, query, database)]
        return count_rows(table, query, database), ids
    finally:
        database.close()


class _MemoryDatabase(Queryable):
    def __init__(self, spec: TableSpec, records: Sequence[Mapping[str, Any]]) -> None:
        names = [name for column in spec.columns for _, name in column.references]
        self._names = frozenset(names)
        self._connection = sqlite3.connect(":memory:")
        declared = ", ".join(f'"{name}"' for name in names)
        marks = ", ".join("?" for _ in names)
        self._connection.execute(f"CREATE TABLE records ({declared})")
        self._connection.executemany(
            f"INSERT INTO records VALUES ({marks})",  # noqa: S608
            [tuple(record.get(name) for name in names) for record in records],
        )

    def has(self, view: str, column: str = "") -> bool:
        return view == RECORDS.view and (not column or column in self._names)

    def iter_rows(self, sql: str, params: Params | None = None) -> Iterator[Row]:
        yield from self._connection.execute(sql, dict(params or {}))

    def close(self) -> None:
        self._connection.close()
