"""Databases of ours whose tables differ from today's are read, and not aggregated again."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from aggregator.dldb.reader import open_database
from aggregator.dldb.versions import DB_VERSION
from aggregator.errors import DldbVersionError
from aggregator.options import AggregationRequest
from aggregator.pipeline import aggregate
from aggregator.progress import NullProgress


def test_an_older_one_is_read_but_not_changed(sample_database: Path) -> None:
    with closing(sqlite3.connect(sample_database)) as connection:
        connection.execute("UPDATE dldb_meta SET value = '2.0.0' WHERE key = 'db_version'")
        connection.commit()
    before = sample_database.read_bytes()
    with open_database(sample_database) as database:
        assert (database.version, database.is_ours) == ("2.0.0", True)
    request = AggregationRequest(iter_start=0, iter_stop=0)
    with pytest.raises(DldbVersionError, match=r"version 2\.0\.0") as caught:
        aggregate(sample_database, request, NullProgress())
    assert "--database" in caught.value.hint
    assert sample_database.read_bytes() == before


def test_one_of_today_tells_one_version_twice(sample_database: Path) -> None:
    with open_database(sample_database) as database:
        row = database.connection.execute("SELECT * FROM view_db_version").fetchone()
    assert tuple(row) == (DB_VERSION, DB_VERSION)
