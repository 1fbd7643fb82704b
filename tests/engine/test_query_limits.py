"""A served database cannot exceed the limits of functions, values, rows and space."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from aggregator.errors import DatabaseError, DlprofError, QueryTimeoutError
from aggregator.system.sql_process import pid_of
from aggregator.tables import connection as served
from aggregator.tables.connection import opened
from tests.builders import alter


def _make_view(path: Path, select: str) -> None:
    alter(path, f"CREATE VIEW evil AS {select}")


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
    monkeypatch.setattr(served, "_temporary_bytes", lambda process: 3 * 2**30)
    monkeypatch.setattr(served, "_TEMPORARY_CHECK_S", 0.0)
    endless = "WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t)"
    _make_view(sample_database, f"{endless} SELECT i, hex(i) AS x FROM t ORDER BY x")
    with pytest.raises(DlprofError, match="temporary disk space"):
        _read(sample_database)


def test_temporary_files_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQLITE_TMPDIR", str(tmp_path))
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("PRAGMA temp_store = FILE")
        connection.execute("CREATE TEMP TABLE t (x)")
        connection.execute(f"INSERT INTO t {_MANY} SELECT zeroblob(5000) FROM t")
        assert served._temporary_bytes(os.getpid()) > 1_000_000


# --- SQL that SQLite cannot interrupt -------------------------------------------------------------

_LONG = (
    "WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i LIMIT 1000000),"
    " s AS MATERIALIZED (SELECT printf('%.1000000c', 'a') AS a, printf('%.500000c', 'a') AS b)"
)
_FUNCTIONS = {
    "instr": f"{_LONG} SELECT instr(s.a, s.b || 'b' || i.n) AS x FROM i, s",
    "replace": f"{_LONG} SELECT length(replace(s.a, s.b || 'b' || i.n, '')) AS x FROM i, s",
    "like": f"{_LONG} SELECT s.a LIKE printf('%.9999c', '%') || 'b' || i.n AS x FROM i, s",
    "glob": f"{_LONG} SELECT s.a GLOB '*a*a*a*a*a*a*b' || i.n AS x FROM i, s",
    "rtrim": f"{_LONG} SELECT length(rtrim(s.a, printf('%.100000c', 'b') || 'a')) AS x FROM i, s",
    "linear functions in a row": "SELECT "
    + "+".join(["length(upper(printf('%.2000000c', 'a')))"] * 900)
    + " AS x",
}


def _is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("name", _FUNCTIONS)
def test_a_function_that_takes_minutes_is_ended_at_the_limit(
    sample_database: Path, name: str
) -> None:
    _make_view(sample_database, _FUNCTIONS[name])
    began = time.monotonic()
    with opened(sample_database, time_limit_s=1.0) as database:
        process = pid_of(database._dldb.connection)
        with pytest.raises(QueryTimeoutError, match="longer than 1 s"):
            database.rows("SELECT sum(x) FROM evil")
    assert process != os.getpid()
    assert not _is_alive(process)
    # The shortest of them computes for minutes.
    assert time.monotonic() - began < 60


def test_views_on_views_are_prepared_within_the_limit(sample_database: Path) -> None:
    with closing(sqlite3.connect(sample_database)) as connection:
        connection.execute("CREATE VIEW evil0 AS SELECT 1 AS x")
        for number in range(1, 40):
            below = f"SELECT x FROM evil{number - 1}"
            connection.execute(f"CREATE VIEW evil{number} AS {below} UNION {below}")
        connection.commit()
    with (
        opened(sample_database, time_limit_s=1.0) as database,
        pytest.raises((QueryTimeoutError, DatabaseError)),
    ):
        database.rows("SELECT * FROM evil39")


def test_a_file_of_ours_is_read_in_this_process_and_one_with_other_sql_is_not(
    sample_database: Path,
) -> None:
    with opened(sample_database, time_limit_s=60) as database:
        assert pid_of(database._dldb.connection) == os.getpid()
        own = {view: database.rows(f"SELECT * FROM {view}") for view in database._dldb.views}
    with opened(sample_database, time_limit_s=60, is_apart=True) as database:
        assert pid_of(database._dldb.connection) != os.getpid()
        assert {view: database.rows(f"SELECT * FROM {view}") for view in own} == own
    for statement in (
        "CREATE VIEW evil AS SELECT 1 AS x",
        "CREATE TABLE evil (a, b AS (hex(a)))",
        "CREATE INDEX evil ON ops (upper(op_name))",
    ):
        alter(sample_database, statement)
        with opened(sample_database, time_limit_s=60) as database:
            assert pid_of(database._dldb.connection) != os.getpid()
        alter(sample_database, f"DROP {statement.split()[1]} evil")


def test_a_name_that_a_view_of_ours_takes_long_for_is_read_in_another_process(
    sample_database: Path,
) -> None:
    with closing(sqlite3.connect(sample_database)) as connection:
        name = "a" * 1_900_000 + "b" * 1_999 + "a"
        connection.execute("UPDATE ops SET op_name = ? WHERE id = 1", (name,))
        connection.commit()
    with opened(sample_database, time_limit_s=1.0) as database:
        assert pid_of(database._dldb.connection) != os.getpid()
        with pytest.raises(QueryTimeoutError):
            database.rows("SELECT row_trimmed_name FROM view_group_ops")


def test_the_process_of_a_connection_is_used_again_and_ends_with_its_parent(
    sample_database: Path,
) -> None:
    pids = []
    for _ in range(2):
        with opened(sample_database, time_limit_s=60, is_apart=True) as database:
            pids.append(pid_of(database._dldb.connection))
    assert pids[0] == pids[1]
    program = (
        "import os, sys; from pathlib import Path;"
        "from aggregator.dldb.reader import open_database;"
        "from aggregator.system.sql_process import pid_of;"
        "found = open_database(Path(sys.argv[1]), is_apart=True);"
        "child = found.connection._child;"
        "print(pid_of(found.connection), flush=True);"
        "import marshal; child.channel.send_bytes(marshal.dumps(('execute', sys.argv[2], ())));"
        "os.kill(os.getpid(), 9)"
    )
    command = [sys.executable, "-c", program, str(sample_database), _FUNCTIONS["instr"]]
    killed = subprocess.run(command, capture_output=True, text=True, check=False)
    deadline = time.monotonic() + 60
    while _is_alive(int(killed.stdout)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _is_alive(int(killed.stdout))
