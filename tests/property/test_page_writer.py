"""Tables written as pages are those that SQLite makes of the same rows."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aggregator.dldb import page_writer as pages
from aggregator.dldb.page_writer import MIN_ROWS, page_writer
from aggregator.system.arrow_arrays import from_numpy
from aggregator.system.sqlite_arrow import ArrowConnection
from tests.builders import alter
from tests.property.traces import scratch

LIMITS = (0, 1, 127, -128, 2**15 - 1, -(2**23), 2**31 - 1, 2**31, -(2**47), 2**47, 2**63 - 1)


def _database(path: Path, page_size: int = 8192) -> Path:
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA page_size = {page_size}")
        connection.executescript(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b INTEGER, c INTEGER);"
            "CREATE TABLE u (id INTEGER PRIMARY KEY, a INTEGER);"
            "CREATE TABLE texts (id INTEGER PRIMARY KEY, a TEXT);"
            "CREATE TABLE pairs (a INTEGER, b INTEGER, PRIMARY KEY (a, b)) WITHOUT ROWID;"
        )
    return path


def _rows(path: Path, table: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        rows = connection.execute(f"SELECT * FROM {table}").fetchall()
        # The tree above the leaves leads to single rows as well.
        for row in rows[:: max(1, len(rows) // 50)]:
            assert connection.execute(f"SELECT * FROM {table} WHERE id = ?", row[:1]).fetchone()
        return rows


def _columns(count: int, first: int = 1, **columns: Any) -> dict[str, Any]:
    return {"id": np.arange(first, first + count), **columns}


@pytest.mark.parametrize("page_size", [512, 8192, 65536])
@pytest.mark.parametrize("count", [MIN_ROWS, 65536, 200_001])
def test_rows_are_read_back(tmp_path: Path, page_size: int, count: int) -> None:
    path = _database(tmp_path / "t.sqlite", page_size)
    numbers = np.random.default_rng(count).integers(-(2**62), 2**62, count)
    a, b = numbers >> (np.arange(count) % 60), np.arange(count, dtype=np.int32)
    with page_writer(path) as append:
        assert append("t", _columns(count, a=a, b=b, c=b % 2 == 0))
    rows = _rows(path, "t")
    assert np.array_equal(np.array(rows), np.stack([b + 1, a, b, b % 2 == 0], axis=1))


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=30,
)
@given(
    low=st.sampled_from(LIMITS),
    high=st.sampled_from(LIMITS),
    block=st.sampled_from((1000, 4096, 65536)),
)
def test_numbers_of_every_width_are_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, low: int, high: int, block: int
) -> None:
    monkeypatch.setattr(pages, "BLOCK_ROWS", block)
    path = _database(tmp_path / "t.sqlite")
    a = np.full(MIN_ROWS, low)
    a[MIN_ROWS // 2 :] = high
    with page_writer(path) as append:
        assert append("t", _columns(MIN_ROWS, a=a, b=a[::-1]))
    expected = zip(range(1, MIN_ROWS + 1), a.tolist(), a[::-1].tolist(), strict=True)
    assert _rows(path, "t") == [(*row, None) for row in expected]


@pytest.mark.parametrize("page_size", [512, 8192, 65536])
@pytest.mark.parametrize(("count", "constant"), [(MIN_ROWS + 5, False), (20_000, True)])
def test_indexes_are_written_along(
    tmp_path: Path, page_size: int, count: int, constant: bool
) -> None:
    path = _database(tmp_path / "t.sqlite", page_size)
    alter(path, "CREATE INDEX by_a ON t (a, b)", "CREATE INDEX by_b ON t (b)")
    numbers = np.random.default_rng(count).integers(-(2**40), 2**40, count)
    a, b = np.arange(count) * 0 + 1 if constant else numbers % 321, numbers >> (count % 30)
    with page_writer(path) as append:
        assert not append("t", _columns(count, a=a))
        assert append("t", _columns(count - 5, a=a[:-5], b=b[:-5]))
        assert append("t", _columns(5, count - 4, a=a[-5:], b=b[-5:]))
    assert len(_rows(path, "t")) == count
    with closing(sqlite3.connect(path)) as connection:
        in_order = connection.execute("SELECT a, b, id FROM t ORDER BY a, b, id").fetchall()
        assert in_order == sorted(zip(a.tolist(), b.tolist(), range(1, count + 1), strict=True))
        query = "SELECT id FROM t WHERE a = ? AND b = ?"
        plan = connection.execute(f"EXPLAIN QUERY PLAN {query}", (1, 2)).fetchone()[3]
        assert "COVERING INDEX by_a" in plan
        for row in range(0, count, count // 20):
            assert (row + 1,) in connection.execute(query, (int(a[row]), int(b[row]))).fetchall()
        # SQLite goes on with them.
        connection.execute("DELETE FROM t WHERE id % 3 = 0")
        connection.execute("INSERT INTO t (a, b) VALUES (5, 6)")
        connection.commit()
    _rows(path, "t")


def test_tables_grow_in_turn_and_by_sqlite_afterwards(tmp_path: Path) -> None:
    path = _database(tmp_path / "t.sqlite")
    a = np.arange(MIN_ROWS)
    with page_writer(path) as append:
        assert append("t", _columns(MIN_ROWS, a=a, b=a, c=a))
        assert append("u", _columns(MIN_ROWS, a=a))
        assert append("t", _columns(3, MIN_ROWS + 1, a=a[:3], b=a[:3], c=a[:3]))
    alter(
        path,
        "INSERT INTO t (a) VALUES (77)",
        "DELETE FROM u WHERE id % 2 = 0",
        "CREATE INDEX by_a ON t (a)",
    )
    rows = _rows(path, "t")
    assert len(rows) == MIN_ROWS + 4
    assert rows[-1] == (MIN_ROWS + 4, 77, None, None)
    assert len(_rows(path, "u")) == MIN_ROWS // 2


def test_the_page_of_the_lock_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "LOCK_BYTE", 10 * 8192)
    path = _database(tmp_path / "t.sqlite")
    a = np.arange(100_000)
    with page_writer(path) as append:
        for first in range(0, len(a), 10_000):
            part = a[first : first + 10_000]
            assert append("u", _columns(len(part), first + 1, a=part))
    content = path.read_bytes()
    assert content[10 * 8192 : 11 * 8192] == bytes(8192)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*), sum(a) FROM u").fetchone() == (
            100_000,
            int(a.sum()),
        )


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("t", _columns(MIN_ROWS - 1, a=np.arange(MIN_ROWS - 1))),
        ("t", _columns(MIN_ROWS, 2, a=np.arange(MIN_ROWS))),
        ("t", _columns(MIN_ROWS, a=list(range(MIN_ROWS)))),
        ("t", _columns(MIN_ROWS, a=np.zeros(MIN_ROWS))),
        ("t", _columns(MIN_ROWS, other=np.arange(MIN_ROWS))),
        ("t", {"a": np.arange(MIN_ROWS)}),
        ("texts", _columns(MIN_ROWS, a=np.arange(MIN_ROWS))),
        ("pairs", {"a": np.arange(MIN_ROWS), "b": np.arange(MIN_ROWS)}),
    ],
)
def test_other_tables_are_written_by_sqlite(
    tmp_path: Path, table: str, columns: dict[str, Any]
) -> None:
    path = _database(tmp_path / "t.sqlite")
    with page_writer(path) as append:
        assert not append(table, columns)
    assert _rows(path, "t") == []


KINDS = st.sampled_from(("int8", "int16", "int32", "int64", "bool"))


@given(
    kinds=st.tuples(KINDS, KINDS),
    has_c=st.booleans(),
    page_size=st.sampled_from((512, 4096, 8192)),
    cuts=st.lists(st.integers(MIN_ROWS, 20_000), max_size=3),
    seed=st.integers(0, 2**32 - 1),
)
def test_pages_equal_rows_inserted_through_adbc(
    kinds: tuple[str, str], has_c: bool, page_size: int, cuts: list[int], seed: int
) -> None:
    random, count = np.random.default_rng(seed), 20_000
    a, b = (
        (random.integers(-(2**63), 2**63 - 1, count) >> random.integers(0, 63)).astype(kind)
        for kind in kinds
    )
    columns = {"a": a, "b": b} | ({"c": np.sort(b).astype(np.int64)} if has_c else {})
    with scratch() as folder:
        ours, theirs = (_database(folder / name, page_size) for name in ("ours", "theirs"))
        for path in (ours, theirs):
            alter(path, "CREATE INDEX by_b ON t (b, a)")
        with page_writer(ours) as append:
            for low, high in pairwise(sorted({0, *cuts, count})):
                part: Any = {name: column[low:high] for name, column in columns.items()}
                assert append("t", _columns(high - low, low + 1, **part))
        with ArrowConnection(f"file:{theirs}") as arrow:
            rows = {"id": np.arange(1, count + 1), **columns}
            wide = {name: from_numpy(column.astype(np.int64)) for name, column in rows.items()}
            arrow.append("t", pa.table(wide))
        assert _rows(ours, "t") == _rows(theirs, "t")
        for order in ("b, a, id", "id DESC"):
            query = f"SELECT id, b FROM t ORDER BY {order}"
            found = []
            for path in (ours, theirs):
                with closing(sqlite3.connect(path)) as connection:
                    found.append(connection.execute(query).fetchall())
            assert found[0] == found[1]
