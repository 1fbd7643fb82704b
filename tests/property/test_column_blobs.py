"""Columns read from arrays are those that SQLite hands out row by row."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.dldb import column_blobs
from aggregator.dldb.column_blobs import read_columns
from aggregator.dldb.writer import Table, bulk_writer, create_tables
from aggregator.profile.arrays import Int64
from tests.property.traces import scratch

TABLE = "memory_ops"
NAMES = column_blobs.COLUMNS[TABLE]
LIMITS = (0, 1, -1, 127, 255, 256, -128, 2**15, 2**16, -(2**31), 2**32, 2**47, -(2**63), 2**63 - 1)
VALUES = st.one_of(st.integers(-300, 300), st.sampled_from(LIMITS))


@contextmanager
def _stored(columns: list[Int64], cuts: tuple[int, ...] = ()) -> Iterator[sqlite3.Connection]:
    """A database with these columns, written in parts."""
    count = len(columns[0])
    others = ("op", "is_copy", "copy_kind", "host_kind", "bytes", "start", "stream_id", "process")
    with scratch() as folder:
        path = folder / "t.sqlite"
        create_tables(path)
        with bulk_writer(path) as writer:
            for low, high in pairwise([0, *sorted(cuts), count]):
                rows = {"id": np.arange(low + 1, high + 1)}
                rows |= dict.fromkeys(others, np.zeros(high - low, dtype=np.int64))
                rows |= {name: c[low:high] for name, c in zip(NAMES, columns, strict=True)}
                writer.write(Table(TABLE, rows))
        with closing(sqlite3.connect(path)) as connection:
            yield connection


def _columns(values: list[int]) -> list[Int64]:
    column = np.array(values, dtype=np.int64)
    return [np.roll(column, number) for number in range(len(NAMES))]


def _plain(connection: sqlite3.Connection, low: int, high: int) -> list[tuple[int, ...]]:
    query = f"SELECT {', '.join(NAMES)} FROM {TABLE} WHERE id >= ? AND id < ? ORDER BY id"
    return connection.execute(query, (low, high)).fetchall()


def _rows(columns: list[Int64]) -> list[tuple[int, ...]]:
    return list(zip(*(column.tolist() for column in columns), strict=True))


@given(st.lists(VALUES, min_size=1, max_size=60), st.data())
def test_arrays_hold_what_the_rows_hold(values: list[int], data: st.DataObject) -> None:
    count = len(values)
    places = st.integers(0, count)
    cuts = data.draw(st.lists(places, max_size=3))
    low, high = sorted((data.draw(places) + 1, data.draw(places) + 1))
    with (
        patch.object(column_blobs, "PART_ROWS", data.draw(st.integers(1, 20))),
        _stored(_columns(values), tuple(cuts)) as connection,
        patch.object(column_blobs, "_from_rows", side_effect=AssertionError("rows were read")),
    ):
        assert _rows(read_columns(connection, TABLE, NAMES)) == _plain(connection, 1, count + 1)
        assert _rows(read_columns(connection, TABLE, NAMES, (low, high))) == _plain(
            connection, low, high
        )


@pytest.mark.parametrize(
    "change",
    [
        f"UPDATE {TABLE} SET duration = 70000 WHERE id = 4000",
        f"DELETE FROM {TABLE} WHERE id = 9000",
        f"INSERT INTO {TABLE} SELECT 9001, {', '.join('5' * 13)}",
        "DELETE FROM column_blobs WHERE first_row > 1",
        f"DROP TRIGGER {TABLE}_update",
    ],
)
def test_rows_that_another_program_changed_are_read_themselves(change: str) -> None:
    columns = [np.arange(9000) + number for number in range(len(NAMES))]
    with patch.object(column_blobs, "PART_ROWS", 4096), _stored(columns) as connection:
        connection.execute(change)
        connection.commit()
        last = connection.execute(f"SELECT max(id) FROM {TABLE}").fetchone()[0]
        assert _rows(read_columns(connection, TABLE, NAMES)) == _plain(connection, 1, last + 1)


@pytest.mark.parametrize(
    "damage",
    ["data = x'00'", "data = NULL", "data = 'text'", "item_bytes = 3", "base = 1e300"],
)
def test_damaged_arrays_raise(damage: str) -> None:
    with _stored(_columns(list(range(1000)))) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        change = "UPDATE sqlite_master SET sql = replace(sql, 'NOT NULL', '') WHERE name = ?"
        connection.execute(change, (column_blobs.TABLE,))
        connection.commit()
        path = Path(connection.execute("PRAGMA database_list").fetchone()[2])
        with closing(sqlite3.connect(path)) as other:
            other.execute(f"UPDATE column_blobs SET {damage} WHERE column_name = 'duration'")
            with pytest.raises((ValueError, TypeError, KeyError, OverflowError)):
                read_columns(other, TABLE, NAMES)


def test_columns_with_null_are_not_stored() -> None:
    column = np.ma.masked_equal(np.arange(10), 3)
    columns = {**dict.fromkeys(NAMES, np.arange(10)), "duration": column}
    assert not column_blobs.encode(TABLE, columns, 1)["data"]
    assert not column_blobs.encode("ops", {"id": np.arange(10)}, 1)["data"]
