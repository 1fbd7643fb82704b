"""Aggregations are named, preferred and deleted: in our own databases, and in all their tables."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

from aggregator.dldb.writer import aggregation_transaction
from aggregator.options import AggregationRequest
from aggregator.pipeline import aggregate
from aggregator.system.progress import NullProgress
from dlprof_client import connect
from tests.contract.client import ApiClient, Reply, Served
from tests.contract.test_errors import assert_error

RANGE = AggregationRequest(iter_start=3, iter_stop=4)


@pytest.fixture
def changeable(own_database: Path, tmp_path: Path, settings: LazySettings) -> Served:
    """A copy with at least two aggregations."""
    path = tmp_path / "copy.sqlite"
    shutil.copyfile(own_database, path)
    number = aggregate(path, RANGE, NullProgress()).aggr_id
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, databases=(path,))
    return Served(path, number, 0, "")


class Changes(ApiClient):
    def patch(self, path: str, body: object) -> Reply:
        reply = self._client.patch(path, json.dumps(body), content_type="application/json")
        return self._read(reply)


@pytest.fixture
def changes() -> Changes:
    return Changes()


def listed(api: ApiClient, served: Served) -> dict[int, dict[str, Any]]:
    rows = api.get(f"{served.profile}aggregations/").json["results"]
    return {row["id"]: row for row in rows}


def rows_of(path: Path, aggregation: int) -> int:
    """Rows that name an aggregation, in whatever table there is."""
    with closing(sqlite3.connect(path)) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        total = connection.execute(
            "SELECT count(*) FROM aggregations WHERE id = ?", (aggregation,)
        ).fetchone()[0]
        for (name,) in names:
            columns = {row[1] for row in connection.execute(f'PRAGMA table_info("{name}")')}
            if "aggr" in columns:
                count = f'SELECT count(*) FROM "{name}" WHERE aggr = ?'
                total += connection.execute(count, (aggregation,)).fetchone()[0]
        return int(total)


def test_one_is_named_and_loses_its_name(changes: Changes, changeable: Served) -> None:
    reply = changes.patch(changeable.at(""), {"name": "  steady, after warm-up "})

    assert (reply.status, reply.json["name"]) == (200, "steady, after warm-up")
    assert listed(changes, changeable)[changeable.aggregation]["name"] == "steady, after warm-up"
    assert listed(changes, changeable)[1]["name"] is None
    assert changes.patch(changeable.at(""), {"name": ""}).json["name"] is None


def test_the_default_is_one_and_what_the_notebook_opens(
    changes: Changes, changeable: Served
) -> None:
    assert connect(changeable.path).aggregation == changeable.aggregation

    for number in (changeable.aggregation, 1):
        reply = changes.patch(replace(changeable, aggregation=number).at(""), {"is_default": True})
        assert (reply.status, reply.json["is_default"]) == (200, True)

    defaults = [row["id"] for row in listed(changes, changeable).values() if row["is_default"]]
    assert defaults == [1]
    assert connect(changeable.path).aggregation == 1
    # Taking it from one that is not the default changes nothing.
    changes.patch(changeable.at(""), {"is_default": False})
    assert listed(changes, changeable)[1]["is_default"] is True
    changes.patch(replace(changeable, aggregation=1).at(""), {"is_default": False})
    assert listed(changes, changeable)[1]["is_default"] is False


def test_a_deleted_one_is_gone_from_all_tables_and_its_number_is_not_used_again(
    changes: Changes, changeable: Served
) -> None:
    number = changeable.aggregation
    changes.patch(changeable.at(""), {"name": "gone", "is_default": True})
    others = {one: rows_of(changeable.path, one) for one in range(1, number)}
    assert rows_of(changeable.path, number) > 100

    assert changes.request("DELETE", changeable.at("")).status == 204

    assert rows_of(changeable.path, number) == 0
    assert {one: rows_of(changeable.path, one) for one in others} == others
    with closing(sqlite3.connect(changeable.path)) as connection:
        kept = dict(connection.execute("SELECT key, value FROM dldb_meta").fetchall())
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert not {f"aggregation_name.{number}", "default_aggregation"} & set(kept)
    assert_error(changes.get(changeable.at("ops/")), 404, "AGGREGATION_NOT_FOUND")
    assert_error(changes.request("DELETE", changeable.at("")), 404, "AGGREGATION_NOT_FOUND")
    assert_error(changes.patch(changeable.at(""), {"name": "x"}), 404, "AGGREGATION_NOT_FOUND")
    # The same request is aggregated anew, and the same numbers come out.
    again = aggregate(changeable.path, RANGE, NullProgress())
    assert (again.aggr_id, again.reused) == (number + 1, False)


def test_the_last_one_stays(changes: Changes, changeable: Served) -> None:
    numbers = sorted(listed(changes, changeable))
    for number in numbers[:-1]:
        reply = changes.request("DELETE", replace(changeable, aggregation=number).at(""))
        assert reply.status == 204

    assert_error(changes.request("DELETE", changeable.at("")), 409, "LAST_AGGREGATION")
    assert rows_of(changeable.path, changeable.aggregation) > 100


def test_a_database_of_nvidia_is_never_changed(changes: Changes, nvidia: Served) -> None:
    before = nvidia.path.read_bytes()

    assert_error(changes.request("DELETE", nvidia.at("")), 409, "READ_ONLY_PROFILE")
    assert_error(changes.patch(nvidia.at(""), {"name": "x"}), 409, "READ_ONLY_PROFILE")

    assert nvidia.path.read_bytes() == before


def test_a_change_that_is_none_is_refused(changes: Changes, changeable: Served) -> None:
    bodies: tuple[object, ...] = (
        *({"name": 7}, {"name": "x" * 81}, {"name": "two\nlines"}),
        *({"is_default": "true"}, {"is_default": None}, {"color": "red"}, []),
    )
    for body in bodies:
        assert_error(changes.patch(changeable.at(""), body), 400, "INVALID_VALUE")


def test_while_another_writer_commits_a_change_waits_and_then_says_so(
    changes: Changes, changeable: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aggregator.dldb.aggregations._WAIT_S", 0.1)
    with aggregation_transaction(changeable.path):
        assert_error(changes.request("DELETE", changeable.at("")), 503, "DATABASE_BUSY")
        assert_error(changes.patch(changeable.at(""), {"name": "x"}), 503, "DATABASE_BUSY")

    assert changes.patch(changeable.at(""), {"name": "x"}).status == 200
    assert changes.request("DELETE", changeable.at("")).status == 204
