"""What a served database may make the viewer do: limits of functions, values, rows and space."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from aggregator.errors import DatabaseError, DlprofError
from aggregator.sources.formats import parse_version
from aggregator.system.untrusted_json import read_count
from aggregator.tables import connection as served
from aggregator.tables.connection import opened


def _make_view(path: Path, select: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE VIEW evil AS {select}")
        connection.commit()


def _read(path: Path) -> int:
    with opened(path, time_limit_s=20) as database:
        return len(database.rows("SELECT * FROM evil"))


_MANY = "WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t LIMIT 3000)"


@pytest.mark.parametrize(
    "select",
    [
        "SELECT randomblob(10) AS x",
        "SELECT zeroblob(1000) AS x",
        "SELECT load_extension('x') AS x",
        "SELECT replace(printf('%.*c', 1000000, 'x'), 'x', '0123456789abcdef') AS x",
        f"{_MANY} SELECT printf('%.*c', 1000000, 'x') AS x FROM t",
    ],
)
def test_functions_values_and_rows_have_limits(sample_database: Path, select: str) -> None:
    _make_view(sample_database, select)
    with pytest.raises(DatabaseError):
        _read(sample_database)


def test_a_row_that_is_too_long_is_no_damage(sample_database: Path) -> None:
    _make_view(sample_database, "SELECT replace(printf('%.*c', 1000000, 'x'), 'x', 'abc') AS x")
    with pytest.raises(DatabaseError, match="longer than the 2 MiB"):
        _read(sample_database)


def test_ordinary_functions_are_allowed(sample_database: Path) -> None:
    _make_view(
        sample_database,
        "SELECT rtrim('a/b', replace('a/b', '/', '')) AS x, group_concat(aggr_id) AS y,"
        " count(*) AS n FROM view_aggregations WHERE aggr_id LIKE '%1%'",
    )
    assert _read(sample_database) == 1


def test_sorting_has_a_limit_of_disk_space(
    sample_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "_temporary_bytes", lambda: 3 * 2**30)
    monkeypatch.setattr(served, "_TEMPORARY_CHECK_S", 0.0)
    _make_view(sample_database, f"{_MANY} SELECT i, hex(i) AS x FROM t ORDER BY x")
    with pytest.raises(DlprofError, match="temporary disk space"):
        _read(sample_database)


def test_temporary_files_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQLITE_TMPDIR", str(tmp_path))
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("PRAGMA temp_store = FILE")
        connection.execute("CREATE TEMP TABLE t (x)")
        connection.execute(f"INSERT INTO t {_MANY} SELECT zeroblob(5000) FROM t")
        assert served._temporary_bytes() > 1_000_000


@pytest.mark.parametrize("text", ["\u00b2", "\u0662", "9" * 5000, "-1", "1.0", ""])
def test_numbers_are_few_ascii_digits(text: str) -> None:
    assert read_count(text) is None
    parse_version(text)
