"""Rows of long tables as columns: from the pages of the file where they can be taken from there.

What is long was written before any aggregation, so a transaction that adds one does not matter.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from aggregator.dldb.page_columns import page_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aggregator.profile import Bool, Int64, Integers

FETCHED_ROWS = 65536


def window_columns(
    connection: sqlite3.Connection,
    table: str,
    names: Sequence[str],
    rows: tuple[int, int],
    values: Sequence[int] | None = None,
) -> list[Int64]:
    """Integer columns of the rows ``low <= id < high``, in order.

    Args:
        connection: The database.
        table: A table whose row ids are 1, 2, 3 and so on.
        names: Columns; none may be NULL.
        rows: Bounds of the row ids.
        values: Only rows whose first column has one of these values; None: all.
    """
    low, high = rows
    path = connection.execute("PRAGMA database_list").fetchone()[2]
    if path and high - low > FETCHED_ROWS:
        window = _Window(low, high, values)
        with page_columns(Path(path)) as pages:
            found = pages.read(table, names, only=window.wanted)
        if found is not None:
            return found
    select = ", ".join(f'"{name}"' for name in names)
    marks = ", ".join("?" for _ in values or ())
    among = "" if values is None else f' AND "{names[0]}" IN ({marks})'
    query = f"SELECT {select} FROM {table} WHERE id >= ? AND id < ?{among} ORDER BY id"
    cursor = connection.execute(query, (low, high, *(values or ())))
    parts = [np.empty((0, len(names)), dtype=np.int64)]
    while fetched := cursor.fetchmany(FETCHED_ROWS):
        parts.append(np.array(fetched, dtype=np.int64))
    return list(np.concatenate(parts).T)


class _Window:
    """Rows between two row ids, counted as they are read, that have one of some values."""

    def __init__(self, low: int, high: int, values: Sequence[int] | None) -> None:
        self._low, self._high = low, high
        self._values = None if values is None else list(values)
        self._next = 1

    def wanted(self, column: Integers) -> Bool:
        """Whether each of the next rows is one of them."""
        id_ = np.arange(self._next, self._next + len(column))
        self._next += len(column)
        wanted: Bool = (id_ >= self._low) & (id_ < self._high)
        if self._values is not None:
            wanted &= np.isin(column, self._values)
        return wanted


def lookup(connection: sqlite3.Connection, query: str) -> Int64:
    """A column by row id, from a query of row id and value; -1 where there is no row."""
    pairs = np.array(connection.execute(query).fetchall(), dtype=np.int64).reshape(-1, 2)
    result = np.full(int(pairs[:, 0].max(initial=0)) + 1, -1, dtype=np.int64)
    result[pairs[:, 0]] = pairs[:, 1]
    return result
