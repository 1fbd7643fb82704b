"""What a request can do to a database: read it, for a while."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from django.conf import LazySettings

from aggregator.errors import DatabaseError, QueryTimeoutError
from tests.contract.client import ApiClient, Served
from viewer.query.connection import ProfileDatabase, opened

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
def test_nothing_but_reading_is_possible(database: ProfileDatabase, sql: str) -> None:
    with pytest.raises((sqlite3.Error, DatabaseError)):
        database.rows(sql)


def test_reading_leaves_the_file_as_it_was(api: ApiClient, served: Served) -> None:
    before = _digest(served.path)

    for address in ("ops/", "kernels/", "iterations/", "group-ops/export/"):
        assert api.get(served.at(address)).status == 200

    assert _digest(served.path) == before
    beside = {path.name for path in served.path.parent.iterdir()}
    assert not {f"{served.path.name}-wal", f"{served.path.name}-journal"} & beside


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
