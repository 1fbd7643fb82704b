"""A request can read a database for a limited time, and do nothing else to it."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from django.conf import LazySettings

from aggregator.errors import DatabaseError, QueryTimeoutError
from aggregator.tables import connection, open_database_cache
from aggregator.tables.connection import ProfileDatabase, opened
from aggregator.tables.open_database_cache import open_snapshot
from tests.contract.client import ApiClient, Served

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT MAX(x) FROM n"


@pytest.fixture
def database(served: Served) -> Iterator[ProfileDatabase]:
    with opened(served.path, time_limit_s=0.2) as found:
        yield found


def test_a_query_ends_at_its_time_limit(database: ProfileDatabase) -> None:
    with pytest.raises(QueryTimeoutError, match="longer than"):
        database.rows(ENDLESS)


def test_a_request_that_takes_too_long_says_so(
    api: ApiClient, served: Served, settings: LazySettings
) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, query_timeout_s=-1.0)

    reply = api.get(served.at("group-ops/"), search="a")

    assert (reply.status, reply.json["error"]["code"]) == (503, "QUERY_TIMEOUT")


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM sqlite_master",
        "CREATE TABLE x (y)",
        "CREATE TEMP TABLE x (y)",
        "ATTACH DATABASE ':memory:' AS other",
        "PRAGMA query_only = OFF",
        "VACUUM",
        "SELECT load_extension('x')",
    ],
)
def test_nothing_but_reading_is_possible(served: Served, sql: str) -> None:
    with (
        opened(served.path, time_limit_s=240) as database,
        pytest.raises((sqlite3.Error, DatabaseError)),
    ):
        database.rows(sql)


def test_reading_leaves_the_file_as_it_was(api: ApiClient, served: Served) -> None:
    before = _digest(served.path)

    for address in ("ops/", "kernels/", "iterations/", "group-ops/export/"):
        assert api.get(served.at(address)).status == 200

    assert _digest(served.path) == before
    beside = {path.name for path in served.path.parent.iterdir()}
    assert not {f"{served.path.name}-wal", f"{served.path.name}-journal"} & beside


def test_a_request_waits_for_a_writer(
    api: ApiClient,
    ours: Served,
    settings: LazySettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database = tmp_path / "written.sqlite"
    shutil.copyfile(ours.path, database)
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, databases=(database,))
    # It waits for seconds, which the writer's thread may need on a busy machine.
    monkeypatch.setattr(
        connection, "open_snapshot", lambda path, _, **how: open_snapshot(path, 240, **how)
    )
    written = replace(ours, path=database)
    writer = sqlite3.connect(database, isolation_level=None, check_same_thread=False)
    writer.execute("BEGIN EXCLUSIVE")
    threading.Timer(0.5, writer.execute, args=["COMMIT"]).start()

    reply = api.get(written.at("ops/"))

    writer.close()
    assert reply.status == 200


def test_a_change_broken_off_in_the_middle_is_said_to_be(
    api: ApiClient, ours: Served, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(path: Path, wait_s: float, *, is_apart: bool) -> None:
        error = sqlite3.OperationalError("attempt to write a readonly database")
        error.sqlite_errorcode = sqlite3.SQLITE_READONLY_ROLLBACK
        raise error

    monkeypatch.setattr(open_database_cache, "open_database", locked)
    monkeypatch.setattr(open_database_cache, "_IDLE", open_database_cache._idle_pool())
    monkeypatch.setattr(open_database_cache, "_OPEN_PAUSE_S", 0.001)

    reply = api.get(ours.at("ops/"))

    assert (reply.status, reply.json["error"]["code"]) == (503, "DATABASE_BUSY")


def test_all_queries_of_a_request_see_one_state(ours: Served, tmp_path: Path) -> None:
    database = tmp_path / "changing.sqlite"
    shutil.copyfile(ours.path, database)
    count = "SELECT COUNT(*) FROM view_aggregations"
    with opened(database, time_limit_s=240) as reader:
        before = reader.rows(count)
        writer = sqlite3.connect(database, timeout=0.1, isolation_level=None)
        writer.execute("BEGIN")
        writer.execute("CREATE TABLE late (x)")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            writer.execute("COMMIT")

        assert reader.rows(count) == before
    # The request is over.
    writer.execute("COMMIT")
    writer.close()


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
