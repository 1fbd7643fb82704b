"""Answers that cost little: few queries, counts made once, nothing sent twice, small bodies."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from django.conf import LazySettings

from aggregator.dldb.writer import aggregation_transaction
from aggregator.tables.connection import ProfileDatabase
from aggregator.tables.counts import file_state
from aggregator.tables.declared.addresses import TABLES
from tests.builders import Trace, analyze
from tests.contract.client import ApiClient, Served

EVERY_TABLE = pytest.mark.parametrize("address", TABLES, ids=lambda address: TABLES[address].name)
MOST_QUERIES = 6
"""The aggregation, the domain, the count, the page, and what the profile says about itself."""


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Statements that requests run, in order."""
    run: list[str] = []
    rows, iter_rows = ProfileDatabase.rows, ProfileDatabase.iter_rows

    def counted_rows(self: ProfileDatabase, sql: str, *args: object) -> object:
        run.append(sql)
        return rows(self, sql, *args)  # type: ignore[arg-type]

    def counted_iter_rows(self: ProfileDatabase, sql: str, *args: object) -> object:
        run.append(sql)
        return iter_rows(self, sql, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(ProfileDatabase, "rows", counted_rows)
    monkeypatch.setattr(ProfileDatabase, "iter_rows", counted_iter_rows)
    return run


@EVERY_TABLE
def test_a_page_takes_as_many_queries_however_long_it_is(
    api: ApiClient, served: Served, queries: list[str], address: str
) -> None:
    seen = []
    for size in (10, 200):
        api.get(served.at(f"{address}/"), page_size=size)  # the count is known afterwards
        queries.clear()
        assert api.get(served.at(f"{address}/"), page_size=size).status == 200
        seen.append(len(queries))
    assert seen[0] == seen[1] <= MOST_QUERIES


# The events are a view of the connection, which this test does not have.
@pytest.mark.parametrize("address", [name for name in TABLES if name != "timeline/events"])
def test_no_page_makes_a_whole_view_of_all_aggregations(
    api: ApiClient, ours: Served, queries: list[str], address: str
) -> None:
    api.get(ours.at(f"{address}/"), ordering="", search="a")
    pages = [sql for sql in queries if "LIMIT" in sql or "COUNT" in sql]
    assert pages
    values = {name: "1" for sql in pages for name in re.findall(r":(\w+)", sql)}
    with closing(sqlite3.connect(ours.path)) as connection:
        # The server's own functions, which change no plan.
        connection.create_function("program_line", 1, str, deterministic=True)
        connection.create_function("is_communication", 1, bool, deterministic=True)
        for sql in pages:
            plan = [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
            assert not [step for step in plan if step.startswith("MATERIALIZE view_")], plan


MANY_OPS = (300, 1_200)
"""Ops of two databases; a page that joins without an index takes the square of their ratio."""
MOST_TIMES = 6
"""Steps of SQLite in the larger one for each in the smaller one: its work is 4 times as much."""


SQUARE = "SELECT COUNT(*) FROM view_op_nodes a, view_op_nodes b WHERE a.cpu_time + b.cpu_time < 0"
"""A join without an index, which the test has to find."""


def _traced_ops(folder: Path, ops: int) -> Path:
    """Database of five steps that each call so many ops once."""
    trace = Trace()
    trace.gpu()
    main = trace.thread()
    at = 1000
    for _ in range(5):
        main.range("Optimizer.zero_grad#SGD.zero_grad, op_id = 5", at, at + 100)
        for op in range(ops):
            at += 1000
            main.op(f"conv{op}", at, at + 900)
            main.launch(f"kernel{op}", at + 10, gpu=(at + 50, at + 800))
        at += 10_000
        main.range("Optimizer.step#SGD.step, op_id = 6", at - 9_000, at - 1_000)
    folder.mkdir()
    return analyze(trace, folder).path


def _steps_of(path: Path, statements: Sequence[str]) -> list[int]:
    """Thousands of steps of SQLite's machine for each statement."""
    found, ticks = [], list[None]()
    with closing(sqlite3.connect(path)) as connection:
        connection.create_function("program_line", 1, str, deterministic=True)
        connection.create_function("is_communication", 1, bool, deterministic=True)
        connection.set_progress_handler(lambda: ticks.append(None), 1_000)
        for sql in statements:
            values = dict.fromkeys(re.findall(r":(\w+)", sql), "1") | {"domain": "default-domain"}
            ticks.clear()
            connection.execute(sql, values).fetchall()
            found.append(len(ticks))
    return found


def test_no_page_takes_the_square_of_the_number_of_ops(
    api: ApiClient, ours: Served, queries: list[str], tmp_path: Path
) -> None:
    addresses = [name for name in TABLES if name != "timeline/events"]
    for address in addresses:
        assert api.get(ours.at(f"{address}/"), page_size=200).status == 200
    pages = sorted({sql for sql in queries if "LIMIT" in sql or "COUNT" in sql})
    # Counts that are known are not asked for again, and some tables differ by a parameter alone.
    assert len(pages) > len(addresses) // 2
    pages.append(SQUARE)
    few, many = (_steps_of(_traced_ops(tmp_path / f"{ops}", ops), pages) for ops in MANY_OPS)
    slow = [
        sql
        for before, after, sql in zip(few, many, pages, strict=True)
        if after > MOST_TIMES * max(before, 10)
    ]
    assert slow == [SQUARE]


def test_rows_are_counted_once_for_all_pages(
    api: ApiClient, served: Served, queries: list[str]
) -> None:
    os.utime(served.path)  # as if it had never been asked
    first = api.get(served.at("kernels/"), page=1, page_size=10).json["count"]
    counted = [sql for sql in queries if sql.startswith("SELECT COUNT(*)")]
    assert len(counted) == 1
    queries.clear()
    second = api.get(served.at("kernels/"), page=2, page_size=10, ordering="-gpu_time_ns")
    assert second.json["count"] == first
    assert not [sql for sql in queries if sql.startswith("SELECT COUNT(*)")]
    filtered = api.get(served.at("kernels/"), uses_tc=1).json["count"]
    assert filtered == sum(row["uses_tc"] for row in _all(api, served, "kernels/"))


def _all(api: ApiClient, served: Served, address: str) -> list[dict[str, int]]:
    rows: list[dict[str, int]] = []
    while True:
        body = api.get(served.at(address), page=len(rows) // 200 + 1, page_size=200).json
        rows += body["results"]
        if len(rows) >= body["count"]:
            return rows


def test_a_figure_is_drawn_once_for_a_state_of_the_file(
    api: ApiClient, served: Served, queries: list[str]
) -> None:
    os.utime(served.path)
    address = served.at("figures/iteration-summary/")
    first = api.get(address).body
    asked = len(queries)
    queries.clear()
    assert api.get(address).body == first
    assert len(queries) < asked
    queries.clear()
    assert api.get(address, theme="dark").body != first
    assert len(queries) == asked


def test_a_change_of_the_file_is_seen_in_the_counts(
    api: ApiClient, served: Served, tmp_path: Path, settings: LazySettings
) -> None:
    copy = Path(shutil.copy(served.path, tmp_path / "copy.sqlite"))
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, databases=(copy,))
    place = replace(served, path=copy)
    before = api.get(place.at("iterations/")).json["count"]
    with aggregation_transaction(copy) as connection:
        is_ours = connection.execute(
            "SELECT count(*) FROM sqlite_master WHERE name = 'iteration_times'"
        ).fetchone()[0]
        if is_ours:
            connection.execute("DELETE FROM iterations WHERE iter_value = 0")
            connection.execute("DELETE FROM iteration_times WHERE iter_value = 0")
    assert api.get(place.at("iterations/")).json["count"] == before - bool(is_ours)


@pytest.mark.parametrize("address", ["ops/", "performance-summary/", "figures/gpus/"])
def test_an_unchanged_answer_is_not_sent_again(
    api: ApiClient, served: Served, address: str
) -> None:
    first = api.get(served.at(address))
    assert first.headers["Cache-Control"] == "private, no-cache"
    again = api.get(served.at(address), {"If-None-Match": first.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")
    other = api.get(served.at(address), {"If-None-Match": '"another"'})
    assert other.json == first.json


def test_errors_are_not_kept(api: ApiClient, served: Served) -> None:
    reply = api.get(served.at("ops/"), ordering="no_such")
    assert reply.status == 400
    assert reply.headers["Cache-Control"] == "no-store"


def test_long_answers_are_compressed_for_who_takes_it(api: ApiClient, served: Served) -> None:
    plain = api.get(served.at("ops/"), page_size=200)
    packed = api.get(served.at("ops/"), {"Accept-Encoding": "gzip"}, page_size=200)
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in packed.headers["Vary"]
    assert json.loads(gzip.decompress(packed.body)) == plain.json
    assert len(packed.body) < len(plain.body) / 2


def test_a_compressed_answer_has_a_weak_etag_that_still_matches(
    api: ApiClient, served: Served
) -> None:
    packed = api.get(served.at("ops/"), {"Accept-Encoding": "gzip"}, page_size=200)
    etag = packed.headers["ETag"]
    assert etag.startswith('W/"')
    again = api.get(
        served.at("ops/"), {"Accept-Encoding": "gzip", "If-None-Match": etag}, page_size=200
    )
    assert (again.status, again.body) == (304, b"")


def test_exports_are_compressed_as_a_stream(api: ApiClient, served: Served) -> None:
    plain = api.get(served.at("kernels/export/"), format="csv")
    packed = api.get(served.at("kernels/export/"), {"Accept-Encoding": "gzip"}, format="csv")
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Content-Length" not in packed.headers
    assert gzip.decompress(packed.body) == plain.body


def test_short_answers_stay_as_they_are(api: ApiClient, served: Served) -> None:
    reply = api.get("/healthz", {"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in reply.headers


def test_state_changes_with_the_file(tmp_path: Path, served: Served) -> None:
    copy = Path(shutil.copy(served.path, tmp_path / "copy.sqlite"))
    before = file_state(copy)
    assert before == file_state(copy)
    os.utime(copy, ns=(1, 1))
    assert file_state(copy) != before
    assert file_state(tmp_path / "missing") is None
