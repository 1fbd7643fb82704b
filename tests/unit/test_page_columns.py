"""Columns taken from pages are those that SQLite hands out, or none."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aggregator.dldb.page_columns import page_columns
from aggregator.dldb.pages import MIN_ROWS, PageWriter
from aggregator.profile import Int64

LIMITS = (0, 1, -1, 127, -128, -(2**15), 2**23 - 1, -(2**23), 2**31, -(2**47), 2**47, 2**63 - 1)


def _database(path: Path, *columns: Int64) -> Path:
    path.unlink(missing_ok=True)
    names = "abcdef"[: len(columns)]
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA page_size = 8192")
        listed = ", ".join(f"{name} INTEGER" for name in names)
        connection.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, {listed})")
    writer = PageWriter(path)
    ids = np.arange(1, len(columns[0]) + 1)
    assert writer.append("t", {"id": ids} | dict(zip(names, columns, strict=True)))
    writer.close()
    return path


def _read(path: Path, *names: str) -> list[list[int]] | None:
    with page_columns(path) as columns:
        found = columns.read("t", names)
        return None if found is None else [column.tolist() for column in found]


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=30,
)
@given(low=st.sampled_from(LIMITS), high=st.sampled_from(LIMITS))
def test_numbers_of_every_width(tmp_path: Path, low: int, high: int) -> None:
    a = np.full(MIN_ROWS, low)
    a[::3] = high
    b = np.arange(MIN_ROWS)
    path = _database(tmp_path / "t.sqlite", a, b)
    assert _read(path, "b", "a") == [b.tolist(), a.tolist()]


def test_long_tables(tmp_path: Path) -> None:
    count = 300_000
    numbers = np.random.default_rng(7).integers(-(2**62), 2**62, count)
    a, b = numbers >> (np.arange(count) // 20_000 * 4), np.arange(count) % 2
    path = _database(tmp_path / "t.sqlite", a, b)
    assert _read(path, "a", "b") == [a.tolist(), b.tolist()]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE t SET a = 70000 WHERE id = 4000",
        "UPDATE t SET a = NULL WHERE id = 8000",
        "UPDATE t SET a = 'text' WHERE id = 1",
        "DELETE FROM t WHERE id = 100",
        "INSERT INTO t (a, b) VALUES (1, 2)",
    ],
)
def test_what_another_program_changed_is_left_to_sqlite(tmp_path: Path, change: str) -> None:
    path = _database(tmp_path / "t.sqlite", np.arange(MIN_ROWS), np.arange(MIN_ROWS))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(change)
        connection.commit()
        plain = connection.execute("SELECT a, b FROM t ORDER BY id").fetchall()
    found = _read(path, "a", "b")
    assert found is None or [tuple(row) for row in zip(*found, strict=True)] == plain


def test_unknown_names_and_short_tables(tmp_path: Path) -> None:
    path = _database(tmp_path / "t.sqlite", np.arange(MIN_ROWS))
    assert _read(path, "id") is None
    assert _read(path, "other") is None
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM t")
        connection.commit()
    assert _read(path, "a") in (None, [[]])


def test_nobody_writes_while_columns_are_read(tmp_path: Path) -> None:
    path = _database(tmp_path / "t.sqlite", np.arange(MIN_ROWS))
    with page_columns(path), closing(sqlite3.connect(path, timeout=0)) as connection:
        connection.execute("UPDATE t SET a = 1 WHERE id = 1")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            connection.commit()
