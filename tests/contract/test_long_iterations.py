"""Iterations with many kernels: their tables are read another way, the rows stay the same."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aggregator.dldb.rows import aggregation as aggregation_rows
from aggregator.errors import DatabaseBusyError
from aggregator.options import ImportOptions
from aggregator.pipeline import import_profile
from aggregator.system.progress import NullProgress
from aggregator.tables import connection, narrow, open_database_cache, sql
from aggregator.tables.connection import ProfileDatabase, opened
from aggregator.tables.declared.kernels import ITERATION_KERNELS, ITERATION_OP_KERNELS
from aggregator.tables.request import parse_list_query
from aggregator.tables.spec import Kind, TableSpec
from aggregator.tables.sql import count_rows, iter_all, iter_rows, read_page, resolve_columns
from tests.contract.client import ApiClient, Served

TABLES = pytest.mark.parametrize(
    "spec", [ITERATION_KERNELS, ITERATION_OP_KERNELS], ids=lambda one: one.name
)
SIZE = 10
LONG = 100


@pytest.fixture
def place(ours: Served) -> dict[str, str | int]:
    return {
        "aggr_id": ours.aggregation,
        "domain": "default-domain",
        "iteration": ours.iteration,
        "op_id": ours.op_id,
    }


def _pages(
    spec: TableSpec, database: ProfileDatabase, place: dict[str, str | int], params: dict[str, str]
) -> tuple[int, list[Any], int, list[Any]]:
    """Count and all pages, found in the narrow view and in the wide one."""
    table = resolve_columns(spec, database, place)
    assert table.narrow is not None
    wide = replace(table, narrow=None)
    query = parse_list_query(spec, {**params, "page_size": str(SIZE)})
    counts = [count_rows(one, query, database) for one in (table, wide)]
    last = -(-counts[1] // SIZE) + 1
    numbers = [*range(1, 5), last // 2, *range(max(last - 3, 1), last + 1)]
    asked = [replace(query, page=number) for number in numbers]
    found = [[read_page(one, each, database) for each in asked] for one in (table, wide)]
    return counts[0], found[0], counts[1], found[1]


@pytest.mark.parametrize("most_skipped", [20_000, 25], ids=["both ends", "whole order"])
@TABLES
def test_pages_are_those_of_the_whole_view(
    ours: Served,
    place: dict[str, str | int],
    spec: TableSpec,
    most_skipped: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(narrow, "MOST_SKIPPED", most_skipped)
    orders = [f"{sign}{name}" for name in spec.by_name for sign in ("", "-")]
    with opened(ours.path, time_limit_s=60) as database:
        for ordering in [*orders, "-uses_tc,grid", "device_id,-gpu_time_ns"]:
            count, pages, wide_count, wide_pages = _pages(
                spec, database, place, {"ordering": ordering}
            )
            assert count == wide_count > 0
            assert pages == wide_pages, ordering


@TABLES
def test_filters_and_searches_are_those_of_the_whole_view(
    ours: Served, place: dict[str, str | int], spec: TableSpec
) -> None:
    with opened(ours.path, time_limit_s=60) as database:
        rows = read_page(
            resolve_columns(spec, database, place), parse_list_query(spec, {}), database
        )
        row = rows[len(rows) // 2]
        wanted = [{"search": text} for text in ("a", "KERNEL", "1, 1", "%", "no such thing")]
        for column in spec.columns:
            value = row[column.name]
            asked = int(value) if column.kind is Kind.BOOLEAN else value
            wanted += [{name: str(asked).partition(",")[0]} for name in column.filters]
        wanted.append({"search": "a", "gpu_time_ns__gte": "3000", "op_name__icontains": "o"})
        for params in wanted:
            count, pages, wide_count, wide_pages = _pages(spec, database, place, params)
            assert (count, pages) == (wide_count, wide_pages), params


def test_orders_are_kept_while_the_file_stays_as_it_is(
    ours: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(narrow, "MOST_SKIPPED", 5)
    run: list[str] = []
    read = ProfileDatabase.iter_rows

    def counted(self: ProfileDatabase, statement: str, *args: Any) -> Any:
        run.append(statement)
        return read(self, statement, *args)

    monkeypatch.setattr(ProfileDatabase, "iter_rows", counted)
    address = ours.at(f"iterations/{ours.iteration}/kernels/")
    for page in (4, 5, 6):
        reply = ApiClient().get(address, ordering="-gpu_time_ns,grid", page=page, page_size=10)
        assert len(reply.json["results"]) == 10
    assert len([one for one in run if "view_launch_keys" in one]) == 1


@TABLES
def test_all_rows_are_those_of_the_whole_view(
    ours: Served, place: dict[str, str | int], spec: TableSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "_ROWS_PER_PART", 7)
    with opened(ours.path, time_limit_s=60) as database:
        table = resolve_columns(spec, database, place)
        for params in ({}, {"ordering": "-gpu_time_ns"}, {"search": "no such thing"}):
            query = parse_list_query(spec, params)
            wide = list(iter_rows(table, query, database))
            assert list(iter_all(table, query, database)) == wide


@pytest.fixture
def copy(ours: Served, tmp_path: Path) -> Path:
    """A database that a test may write to."""
    return Path(shutil.copyfile(ours.path, tmp_path / "dlprof_dldb.sqlite"))


def _is_let_in(path: Path) -> bool:
    with closing(sqlite3.connect(path, timeout=0)) as reader:
        try:
            reader.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
        except sqlite3.OperationalError:
            return False
    return True


def test_a_writer_commits_while_all_rows_are_read(
    copy: Path, place: dict[str, str | int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "_ROWS_PER_PART", 7)

    def write() -> None:
        with closing(sqlite3.connect(copy, timeout=240)) as own, own:
            own.execute("CREATE TABLE written (value)")

    writer = threading.Thread(target=write)
    with opened(copy, time_limit_s=600) as database:
        table = resolve_columns(ITERATION_KERNELS, database, place)
        query = parse_list_query(ITERATION_KERNELS, {})
        expected = list(iter_rows(table, query, database))
        rows = iter_all(table, query, database)
        found = [next(rows)]
        writer.start()
        # The writer waits for the readers that are there, and no further ones are let in.
        while _is_let_in(copy):
            assert writer.is_alive()
        found += rows
        # It need not wait for the end of the reading.
        writer.join(240)
        assert not writer.is_alive()
        assert found == expected


def test_rows_that_go_while_they_are_read_are_an_error(
    copy: Path, place: dict[str, str | int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "_ROWS_PER_PART", 7)

    begin = open_database_cache.begin_reading

    def write_and_begin(reader: sqlite3.Connection) -> None:
        with closing(sqlite3.connect(copy)) as writer, writer:
            writer.execute("UPDATE iterations SET aggregated = 0")
        begin(reader)

    with opened(copy, time_limit_s=600) as database:
        # Between the end of a part and the begin of the next one.
        monkeypatch.setattr(connection, "begin_reading", write_and_begin)
        table = resolve_columns(ITERATION_KERNELS, database, place)
        with pytest.raises(DatabaseBusyError, match="went while they were read"):
            list(iter_all(table, parse_list_query(ITERATION_KERNELS, {}), database))


@pytest.fixture(scope="module")
def long_iterations(demo_profile: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database whose aggregation takes every iteration for a long one."""
    database = tmp_path_factory.mktemp("long") / "dlprof_dldb.sqlite"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aggregation_rows, "LONG_ITERATION", LONG)
        import_profile(ImportOptions(demo_profile, database), NullProgress())
    return database


def test_stored_sums_of_long_iterations_are_those_of_their_kernels(long_iterations: Path) -> None:
    with closing(sqlite3.connect(long_iterations)) as own:
        stored = own.execute(
            "SELECT iter_value, op, kernels, tc_kernels, gpu_time, tc_gpu_time "
            "FROM iteration_op_times WHERE aggr = 1 ORDER BY iter_value, op"
        ).fetchall()
        summed = own.execute(
            "SELECT i.iter_value, p.op, COUNT(*), SUM(p.uses_tc), SUM(k.duration), "
            "SUM(k.duration * p.uses_tc) FROM kernels AS k, op_kernels AS p, iterations AS i "
            "WHERE p.id = k.op_kernel AND i.aggr = 1 AND i.aggregated AND k.id >= i.kernel_low "
            "AND k.id < i.kernel_high AND i.kernel_high - i.kernel_low > ? "
            "GROUP BY i.iter_value, p.op ORDER BY i.iter_value, p.op",
            (LONG,),
        ).fetchall()
    assert stored == summed != []


def test_the_view_shows_stored_sums_as_it_shows_others(long_iterations: Path) -> None:
    query = "SELECT * FROM view_iteration_ops ORDER BY iter_value, op_node_id"
    with closing(sqlite3.connect(long_iterations)) as connection:
        sql = str(
            connection.execute(
                "SELECT sql FROM sqlite_master WHERE name = 'view_iteration_ops'"
            ).fetchone()[0]
        )
        assert str(aggregation_rows.LONG_ITERATION) in sql
        seen = []
        for limit in (LONG, 10**9):
            connection.execute("DROP VIEW view_iteration_ops")
            connection.execute(sql.replace(str(aggregation_rows.LONG_ITERATION), str(limit)))
            if limit > LONG:
                connection.execute("DELETE FROM iteration_op_times")
            seen.append(connection.execute(query).fetchall())
        assert seen[0] == seen[1] != []


def test_short_iterations_store_nothing(ours: Served) -> None:
    with closing(sqlite3.connect(ours.path)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM iteration_op_times").fetchone() == (0,)
