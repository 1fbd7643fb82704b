"""Opening a file of unknown origin computes nothing that the file says, wherever it is opened."""

from __future__ import annotations

import re
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from aggregator.compare.sides import Source, read_source
from aggregator.dldb import reader
from aggregator.dldb.ownership import read_stored_ownership
from aggregator.dldb.reader import open_database
from aggregator.dldb.stored import require_aggregable
from aggregator.errors import DlprofError, NotADldbError
from aggregator.options import ImportOptions
from aggregator.pipeline import import_profile
from aggregator.sources.arrow_columns import arrow_connection
from aggregator.sources.dlprof.tables import DlprofTables, open_tables
from aggregator.sources.formats import is_sqlite, list_tables
from aggregator.sources.nsys.schema import Schema
from aggregator.sources.nsys.scrub import scrub
from aggregator.system.progress import NullProgress
from aggregator.system.sqlite_uri import (
    LONGEST_SQL_BYTES,
    SchemaLimitError,
    connect_read_only,
    plain_tables,
)
from tests.fuzz.exports import small_export

ROOT = Path(__file__).parents[2]
CPU_LIMIT_S = 8
"""The statistics below compute for minutes; a schema may take 1 s of each SQLite that reads it."""

SITES = {
    # The helper itself, and a look that parses no schema (``PRAGMA schema_version``).
    "aggregator/system/sqlite_uri.py": {"sqlite3.connect": 1, "connect_unread": 2},
    "aggregator/sources/formats.py": {"sqlite3.connect": 1},
    # In the process that is killed; the reader lets it read what is not ours.
    "aggregator/system/sql_child.py": {"connect_unread": 1},
    "aggregator/dldb/reader.py": {"connect_unread": 1, "sqlite3.connect": 1},
    # After ``plain_tables``.
    "aggregator/system/sqlite_arrow.py": {"adbc_driver_sqlite.connect": 1},
    "aggregator/sources/arrow_columns.py": {"ArrowConnection": 1},
    "aggregator/ranks/rank_database.py": {"ArrowConnection": 1, "sqlite3.connect": 1},
    # Files that this program is making, empty ones, or ``require_aggregable`` has looked at.
    "aggregator/dldb/own_schema.py": {"sqlite3.connect": 1},
    "aggregator/dldb/page_writer.py": {"sqlite3.connect": 1},
    "aggregator/dldb/writer.py": {"sqlite3.connect": 5, "ArrowConnection": 1},
    "aggregator/ranks/rank_import.py": {"sqlite3.connect": 3},
    "aggregator/sources/collector/export.py": {"sqlite3.connect": 1, "ArrowConnection": 1},
    "aggregator/sources/nsys/scrub.py": {"sqlite3.connect": 1},
    "aggregator/tables/in_memory_table.py": {"sqlite3.connect": 1},
    # The state of the viewer, and exports that nsys has just made for dlprof.
    "viewer/state/prepare.py": {"sqlite3.connect": 1},
    "profiler_cli/capture/full_memory.py": {"sqlite3.connect": 1},
    "profiler_cli/capture/gpu_samples.py": {"sqlite3.connect": 1},
    "aggregator/sources/collector/step_times.py": {"sqlite3.connect": 2},
}
"""Where files are opened other than by ``connect_read_only`` and ``SqlProcess``, and how often."""
_SITE = re.compile(
    r"\b(sqlite3\.connect|sqlite3\.Connection|connect_unread"
    r"|adbc_driver_sqlite\.connect|ArrowConnection)\("
)


def test_no_file_is_opened_elsewhere_than_listed() -> None:
    found = {
        str(path.relative_to(ROOT)): dict(counts)
        for folder in ("aggregator", "viewer", "profiler_cli", "dlprof_client", "dlprof_nvtx")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if (counts := Counter(_SITE.findall(path.read_text(encoding="utf-8"))))
    }
    assert found == SITES


def _hostile(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return path


def _rename(made: str, name: str) -> str:
    return (
        f"UPDATE sqlite_master SET name = '{name}', tbl_name = '{name}', "
        f"sql = replace(sql, '{made}', '{name}') WHERE name = '{made}'"
    )


_NUMBERS = "WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i) SELECT n FROM i"


def _statistics(size: int, count: int) -> tuple[str, ...]:
    """SQLite reads them along with the schema, before the first statement.

    The functions get long texts once the rows are there: to insert one computes its columns, too.
    """
    column = " + ".join([_search(3)] * count)
    return (
        f"CREATE TABLE made (tbl, idx, n, stat AS ({column}))",
        f"INSERT INTO made (tbl, idx, n) SELECT 't', 'u', n FROM ({_NUMBERS} LIMIT 3000)",
        *(
            f"UPDATE sqlite_master SET sql = replace(sql, '{short}', '%.{long}c')"
            for short, long in (("%.3c", size), ("%.1c", size // 2))
        ),
        _rename("made", "sqlite_stat1"),
    )


def _search(size: int) -> str:
    return f"instr(printf('%.{size}c', 'a'), printf('%.{size // 2}c', 'a') || 'b' || n)"


HOSTILE = {
    "one_function_on_long_texts": _statistics(1_000_000, 1),
    "many_functions_on_short_texts": _statistics(30_000, 300),
    "a_giant_statement": (
        f"CREATE VIEW giant AS SELECT '{'x' * (LONGEST_SQL_BYTES + 1)}' AS y",
        _rename("giant", "sqlite_stat1"),
    ),
}


@pytest.fixture(params=HOSTILE)
def hostile(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """An export that is also, by the names of its tables, a database of NVIDIA's and of ours."""
    path = tmp_path / "hostile.sqlite"
    small_export().write(path)
    return _hostile(
        path,
        "CREATE TABLE t (a)",
        "CREATE INDEX u ON t (a)",
        "CREATE TABLE read_only_ops (id)",
        "CREATE TABLE db_version (current_version)",
        "CREATE TABLE dldb_meta (key, value)",
        *HOSTILE[request.param],
    )


OPENED: dict[str, Callable[[Path], object]] = {
    "is_sqlite": is_sqlite,
    "list_tables": list_tables,
    "export": lambda path: Schema(path, frozenset({"NVTX_EVENTS"})).columns("NVTX_EVENTS"),
    "arrow": lambda path: arrow_connection(path).__enter__(),
    "nvidia": lambda path: open_tables(path, NullProgress()).__enter__(),
    "open_database": open_database,
    "left_journal": reader._roll_back,
    "aggregable": require_aggregable,
    "ownership": lambda path: read_stored_ownership(path, []),
    "compare": lambda path: read_source(Source("a", path, 1), path),
    "import": lambda path: import_profile(
        ImportOptions(path, path.with_name("made.sqlite")), NullProgress()
    ),
    "scrub": lambda path: scrub(path, path.with_name("clean.sqlite")),
}


@pytest.mark.parametrize("place", OPENED)
def test_a_schema_that_computes_ends_soon_wherever_it_is_opened(
    hostile: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_OPEN_CPU_S", 0.5)
    journal = hostile.with_name(f"{hostile.name}-journal")
    journal.touch()
    began = time.process_time()

    with suppress(DlprofError, SchemaLimitError):
        OPENED[place](hostile)

    assert time.process_time() - began < CPU_LIMIT_S


@pytest.mark.parametrize(
    "statements",
    [
        ("CREATE TABLE made (a, b AS (hex(a)))",),
        ("CREATE TABLE made (a, b AS (hex(a)) STORED)",),
        ("CREATE VIRTUAL TABLE made USING fts5(x)",),
        (
            "CREATE VIRTUAL TABLE made USING fts5(x)",
            "UPDATE sqlite_master SET type = 'index' WHERE name = 'made'",
            "UPDATE sqlite_master SET sql = replace(sql, 'E V', 'E /**/ v') WHERE name = 'made'",
        ),
        (
            "CREATE VIEW made AS SELECT 1 AS x",
            "UPDATE sqlite_master SET type = 'table' WHERE name = 'made'",
        ),
        (
            "CREATE TABLE other (x)",
            "UPDATE sqlite_master SET name = 'made' WHERE name = 'other'",
        ),
        (
            "CREATE TABLE made (tbl, idx, stat AS (hex(tbl)))",
            "UPDATE sqlite_master SET type = 'index' WHERE name = 'made'",
        ),
    ],
)
def test_a_file_whose_tables_compute_is_not_read(
    statements: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "export.sqlite"
    small_export().write(path)
    _hostile(path, *statements)
    with pytest.raises(DlprofError, match=r"is computed|malformed database schema"):
        list_tables(path)


@pytest.mark.parametrize("name", ["plain", "two words", 'quo"te', "brack]et", "it's", "naïve"])
def test_tables_of_every_name_are_plain(name: str, tmp_path: Path) -> None:
    path = tmp_path / "plain.sqlite"
    quoted = name.replace('"', '""')
    _hostile(
        path,
        f'CREATE TABLE "{quoted}" (a INTEGER PRIMARY KEY AUTOINCREMENT, b CHECK (b > 0))',
        f'CREATE TABLE copied AS SELECT * FROM "{quoted}"',
        "CREATE TABLE before (a)",
        f"ALTER TABLE before RENAME TO [{'after'}]",
        f'CREATE VIEW v AS SELECT * FROM "{quoted}"',
        "CREATE UNIQUE INDEX i ON copied (a)",
        "ANALYZE",
    )
    with closing(connect_read_only(path)) as connection:
        found = plain_tables(connection)
    assert {name, "copied", "after", "sqlite_sequence"} <= found
    assert "v" not in found


def test_views_of_nvidias_databases_are_read_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aggregator.sources.dlprof.tables._VIEW_LIMIT_S", 0.5)
    monkeypatch.setattr("aggregator.sources.dlprof.tables._MOST", 100)
    path = _hostile(
        tmp_path / "nvidia.sqlite",
        f"CREATE VIEW slow AS SELECT {_search(1_000_000)} AS x FROM (SELECT 1 AS n)",
        f"CREATE VIEW endless AS {_NUMBERS}",
        "CREATE VIEW few AS SELECT 7 AS n",
        "CREATE VIEW broken AS SELECT n FROM missing",
    )
    with closing(connect_read_only(path)) as connection, arrow_connection(path) as columns:
        tables = DlprofTables(path, connection, columns, NullProgress())
        assert tables.view("few", "n") == [(7,)]
        assert tables.view("broken", "n") == tables.view("absent", "n") == []
        assert tables.columns("missing") == frozenset()
        with pytest.raises(SchemaLimitError, match="'few' in it is computed"):
            tables.columns("few")
        began = time.process_time()
        with pytest.raises(sqlite3.DatabaseError, match="longer"):
            tables.view("slow", "x")
        with pytest.raises(sqlite3.DatabaseError, match="100 rows"):
            tables.view("endless", "n")
        assert time.process_time() - began < CPU_LIMIT_S


def test_a_file_whose_opening_was_stopped_is_refused_until_it_changes(
    sample_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_OPEN_CPU_S", 0.2)
    good = sample_database.read_bytes()
    path = _hostile(
        sample_database,
        "DROP VIEW view_db_version",
        f"CREATE VIEW view_db_version AS SELECT max(n) AS current_version FROM ({_NUMBERS})",
    )
    with pytest.raises(NotADldbError, match="takes too long"):
        open_database(path)
    monkeypatch.setattr(reader, "SqlProcess", None)  # it is not run again

    with pytest.raises(NotADldbError, match="takes too long"):
        open_database(path)
    path.write_bytes(good)
    with open_database(path) as database:
        assert database.is_ours
