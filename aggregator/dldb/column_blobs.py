"""Columns of long tables as arrays, from which aggregations are computed.

SQLite hands out one value at a time. The columns that a re-aggregation reads are therefore stored a
second time, as little-endian arrays of the smallest integer type, and read through SQLite like any
other value. The rows of the table stay the reference: triggers delete the arrays of a table as soon
as one of its rows changes, and the rows themselves are read from then on. Databases without the
arrays (of versions before 2.1.2) are read that way, too.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, TypeAlias

import numpy as np

from aggregator.profile.arrays import Int64, Integers, parts_of

TABLE: Final = "column_blobs"
COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "op_instances": (
        *("op", "start", "stop", "cpu_time", "cpu_overhead", "gpu_time", "gpu_idle", "cost"),
        "thread",
    ),
    "kernels": (
        *("op_kernel", "name", "api_start", "api_duration", "start", "duration", "device"),
        *("stream_id", "process", "size"),
    ),
    "memory_ops": ("name", "api_start", "api_duration", "duration", "device"),
    "api_calls": ("name", "op", "start", "duration", "thread"),
    "named_ranges": ("name", "process", "start", "stop"),
    "memory_allocations": (
        *("recording", "address", "bytes", "alloc_event", "free_event", "block", "is_rounding"),
        *("kind", "evidence", "phase", "step", "stack", "module", "op"),
    ),
}
"""The tables and columns stored as arrays; the rows of each table are numbered from 1."""
PART_ROWS: Final = 1 << 16
"""Rows per array: more of them would differ by more than the smaller types can hold."""
_FETCHED_ROWS: Final = 65536
_KINDS: Final = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<i8"}

_Part: TypeAlias = tuple[Integers, int]  # Some rows of a column, and what is added to each.


def encode(table: str, columns: Mapping[str, Any], first_row: int) -> dict[str, list[Any]]:
    """Return the rows of a table, from ``first_row`` on, as columns of ``column_blobs``.

    Columns without rows if the table is not stored there, or if it holds anything but integers.
    """
    wanted = [columns.get(name) for name in COLUMNS.get(table, ())]
    rows: list[tuple[Any, ...]] = []
    if all(_is_integer(column) for column in wanted):
        rows = [
            (table, first_row + low, name, *stored)
            for name, column in zip(COLUMNS.get(table, ()), wanted, strict=True)
            if column is not None
            for low, *stored in narrowed_parts(column)
        ]
    return {name: [row[number] for row in rows] for number, name in enumerate(_STORED)}


_STORED: Final = ("table_name", "first_row", "column_name", "item_bytes", "base", "data")


def _is_integer(column: object) -> bool:
    if isinstance(column, np.ma.MaskedArray) or not isinstance(column, np.ndarray):
        return False
    return bool(column.dtype.kind == "i")


def narrowed(column: Integers) -> tuple[int, int, bytes]:
    """Return bytes per item, the smallest value of a column, and the differences to that value."""
    base, high = int(column.min()), int(column.max())
    width = next(width for width in _KINDS if high - base < 1 << (8 * width))
    # A difference of more than 63 bits wraps around, here and when it is added again.
    difference = column.astype(np.int64, copy=False) - np.int64(base)
    return width, base, difference.astype(_KINDS[width]).tobytes()


def narrowed_parts(column: Integers) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield the first row of each part of a column, and what ``narrowed`` makes of the part."""
    for rows in parts_of(0, len(column), PART_ROWS):
        yield (rows.start, *narrowed(column[rows]))


def triggers(table: str) -> dict[str, str]:
    """Name and SQL of the triggers that delete the arrays of a table when its rows change.

    Empty for a table that has no arrays.
    """
    events = ("INSERT", "UPDATE", "DELETE") if table in COLUMNS else ()
    return {
        f"{table}_{event.lower()}": f"CREATE TRIGGER {table}_{event.lower()} AFTER {event} ON"
        f" {table} BEGIN DELETE FROM {TABLE} WHERE table_name = '{table}'; END"
        for event in events
    }


@contextmanager
def kept_arrays(connection: sqlite3.Connection, table: str) -> Iterator[None]:
    """Rows are added to a table within, whose arrays the caller adds, too; in a transaction.

    The arrays of the rows before stay, if they are those of all rows.
    """
    known = triggers(table) if _are_current(connection, table) else {}
    for name in known:
        connection.execute(f"DROP TRIGGER {name}")
    yield
    for statement in known.values():
        connection.execute(statement)


def read_columns(
    connection: sqlite3.Connection,
    table: str,
    names: Sequence[str],
    bounds: tuple[int, int] | None = None,
) -> list[Integers]:
    """Return the integer columns of a table, in order of row id, of 32 bits where that is enough.

    Args:
        connection: The database.
        table: A table whose rows are numbered from 1.
        names: Columns; none may hold NULL.
        bounds: Only rows ``low <= id < high``; None: all rows.

    Raises:
        sqlite3.Error: The database cannot be read.
        ValueError, TypeError, KeyError, OverflowError: It is damaged.
    """
    if bounds is None:
        last = connection.execute(f"SELECT coalesce(max(rowid), 0) FROM {table}").fetchone()[0]
        bounds = 1, int(last) + 1
    found = _from_blobs(connection, table, names, bounds)
    if found is None:
        parts = _from_rows(connection, table, names, bounds)
        found = _collected(len(names), parts)
    return found


def first_row(connection: sqlite3.Connection, table: str, column: str, value: int) -> int:
    """Return the first row id with at least ``value``, of a table sorted by ``column``."""
    low, high = (
        1,
        int(connection.execute(f"SELECT coalesce(max(id), 0) FROM {table}").fetchone()[0]) + 1,
    )
    while low < high:
        middle = (low + high) // 2
        row = connection.execute(f"SELECT {column} FROM {table} WHERE id = ?", (middle,)).fetchone()
        if row is None or row[0] < value:
            low = middle + 1
        else:
            high = middle
    return low


def _from_blobs(
    connection: sqlite3.Connection,
    table: str,
    names: Sequence[str],
    bounds: tuple[int, int],
) -> list[Integers] | None:
    """Columns from arrays; None: the arrays of the table do not hold all of these rows."""
    if not set(names) <= set(COLUMNS.get(table, ())) or not _are_current(connection, table):
        return None
    low, high = bounds
    covered = low
    known = f"SELECT DISTINCT column_name FROM {TABLE} WHERE table_name = ? AND first_row = 1"
    if not set(names) <= {str(row[0]) for row in connection.execute(known, (table,))}:
        return None  # written before one of the columns was stored, or without rows

    def parts() -> Iterator[list[_Part]]:
        nonlocal covered
        marks = ", ".join("?" for _ in names)
        rows = connection.execute(
            f"SELECT first_row, column_name, item_bytes, base, data FROM {TABLE}"
            f" WHERE table_name = ? AND column_name IN ({marks}) AND first_row < ?"
            f" AND first_row > ? ORDER BY first_row",
            (table, *names, high, low - PART_ROWS),
        )
        for first, group in groupby(rows, itemgetter(0)):
            columns = {
                name: (np.frombuffer(data, dtype=_KINDS[width]), int(base))
                for _, name, width, base, data in group
            }
            if len(columns) < len(set(names)):
                return  # an earlier version stored fewer columns
            lengths = {len(column) for column, _ in columns.values()}
            if len(lengths) != 1:
                raise ValueError(f"the stored columns of {table} differ in length")
            if first <= covered:
                covered = max(covered, first + lengths.pop())
            within = slice(max(low - first, 0), max(high - first, 0))
            yield [(columns[name][0][within], columns[name][1]) for name in names]

    found = _collected(len(names), parts())
    return found if covered >= high else None


def _are_current(connection: sqlite3.Connection, table: str) -> bool:
    """Return whether the triggers of a table are there, which no change of its rows gets past."""
    query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?"
    found = dict(connection.execute(query, (table,)).fetchall())
    return triggers(table).items() <= found.items()


def decoded(width: int, base: int, data: bytes) -> Int64:
    """Return the column that ``narrowed`` made an array of."""
    column = np.frombuffer(data, dtype=_KINDS[width]).astype(np.int64)
    column += int(base)
    return column


def _from_rows(
    connection: sqlite3.Connection, table: str, names: Sequence[str], bounds: tuple[int, int]
) -> Iterator[list[_Part]]:
    """Yield the columns as SQLite hands them out, some rows at a time."""
    listed = ", ".join(f'"{name}"' for name in names)
    query = f"SELECT {listed} FROM {table} WHERE rowid >= ? AND rowid < ? ORDER BY rowid"
    cursor = connection.execute(query, bounds)
    while fetched := cursor.fetchmany(_FETCHED_ROWS):
        yield [(column, 0) for column in np.array(fetched, dtype=np.int64).T]


def _collected(count: int, parts: Iterator[list[_Part]]) -> list[Integers]:
    """Return the parts of each of ``count`` columns in one array."""
    collected: list[list[_Part]] = [[] for _ in range(count)]
    for columns in parts:
        for part, column in zip(columns, collected, strict=True):
            column.append(part)
    return [_joined(column) for column in collected]


def _joined(parts: list[_Part]) -> Integers:
    """Return the parts of a column in one array; the list is empty afterwards."""
    none = [np.empty(0, dtype=np.int64)]
    low = min((base for _, base in parts), default=0)
    high = max((base + np.iinfo(values.dtype).max for values, base in parts), default=0)
    dtype: Any = np.int32 if low >= -(1 << 31) and high < 1 << 31 else np.int64
    joined: Integers = np.concatenate([values for values, _ in parts] or none, dtype=dtype)
    row = 0
    for values, base in parts:
        joined[row : row + len(values)] += dtype(base)
        row += len(values)
    parts.clear()
    return joined
