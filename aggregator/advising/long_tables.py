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

    from aggregator.profile import Int64

FETCHED_ROWS = 65536


def window_columns(
    connection: sqlite3.Connection, table: str, names: Sequence[str], rows: tuple[int, int]
) -> list[Int64]:
    """Integer columns of the rows ``low <= id < high``, in order.

    Args:
        connection: The database.
        table: A table whose row ids are 1, 2, 3 and so on.
        names: Columns; none may be NULL.
        rows: Bounds of the row ids.
    """
    low, high = rows
    path = connection.execute("PRAGMA database_list").fetchone()[2]
    if path and high - low > FETCHED_ROWS:
        with page_columns(Path(path)) as pages:
            found = pages.read(table, names)
        if found is not None:
            return [column[low - 1 : high - 1] for column in found]
    select = ", ".join(f'"{name}"' for name in names)
    query = f"SELECT {select} FROM {table} WHERE id >= ? AND id < ? ORDER BY id"
    cursor = connection.execute(query, (low, high))
    parts = [np.empty((0, len(names)), dtype=np.int64)]
    while fetched := cursor.fetchmany(FETCHED_ROWS):
        parts.append(np.array(fetched, dtype=np.int64))
    return list(np.concatenate(parts).T)


def lookup(connection: sqlite3.Connection, query: str) -> Int64:
    """A column by row id, from a query of row id and value; -1 where there is no row."""
    pairs = np.array(connection.execute(query).fetchall(), dtype=np.int64).reshape(-1, 2)
    result = np.full(int(pairs[:, 0].max(initial=0)) + 1, -1, dtype=np.int64)
    result[pairs[:, 0]] = pairs[:, 1]
    return result
