"""The format of a file, by its first bytes, its name and its tables."""

from __future__ import annotations

import gzip
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from aggregator.sources.formats import Format, detect_file, detect_tables, is_sqlite
from tests.builders import alter


def _database(path: Path) -> Path:
    alter(path, "CREATE TABLE dldb_meta (key, value)")
    return path


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("a.sqlite", b"", Format.UNKNOWN),
        ("a.nsys-rep", b"NVIDIA", Format.REPORT),
        ("A.QDREP", b"NVIDIA", Format.REPORT),
        ("a.json", b'\xef\xbb\xbf {"traceEvents"', Format.TRACE),
        ("upload", b"[{", Format.TRACE),
        ("a.json.gz", gzip.compress(b"{}", mtime=0), Format.TRACE),
        ("a.txt", b"text", Format.UNKNOWN),
        ("cut.sqlite", b"SQLite format 3\x00", Format.SQLITE),
    ],
)
def test_first_bytes_and_name_decide(
    tmp_path: Path, name: str, content: bytes, found: Format
) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)

    assert detect_file(path, name) is found


def test_a_database_is_no_report_whatever_its_name(tmp_path: Path) -> None:
    assert detect_file(_database(tmp_path / "a"), "a.nsys-rep") is Format.SQLITE


@pytest.mark.parametrize(
    ("tables", "found"),
    [
        ({"StringIds", "NVTX_EVENTS"}, Format.EXPORT),
        ({"StringIds", "CUPTI_ACTIVITY_KIND_KERNEL_V2"}, Format.EXPORT),
        ({"StringIds"}, Format.UNKNOWN),
        ({"read_only_ops", "db_version"}, Format.DLPROF),
        ({"dldb_meta", "ops"}, Format.DATABASE),
        ({"StringTable"}, Format.NVPROF),
        (set(), Format.UNKNOWN),
    ],
)
def test_tables_decide_about_an_sqlite_file(tables: set[str], found: Format) -> None:
    assert detect_tables(frozenset(tables)) is found


def test_a_locked_database_is_a_database(tmp_path: Path) -> None:
    path = _database(tmp_path / "a.sqlite")
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        assert is_sqlite(path)


def test_the_check_keeps_the_locks_of_other_connections(tmp_path: Path) -> None:
    path = _database(tmp_path / "a.sqlite")
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert is_sqlite(path)
        code = (
            "import sqlite3, sys\n"
            "sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
        )
        other = subprocess.run(
            [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False
        )
    assert "database is locked" in other.stderr


def test_nothing_slow_is_loaded_to_look_at_a_file() -> None:
    code = "import sys, aggregator.sources.formats; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert {"numpy", "pyarrow", "adbc_driver_sqlite", "msgspec"}.isdisjoint(loaded.stdout.split())
