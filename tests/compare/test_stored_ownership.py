"""Owners of time as tables: stored by an import, else computed, the same either way."""

from __future__ import annotations

import shutil
import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aggregator.compare.sides import Source, compare_files
from aggregator.dldb.aggregations import delete_aggregation
from aggregator.dldb.ownership import (
    find_ownership,
    read_ownership,
    read_span,
    store_ownership,
)
from aggregator.metrics.owners import Ownership
from aggregator.options import AggregationRequest
from aggregator.pipeline import aggregate
from aggregator.system.progress import NullProgress
from aggregator.system.sqlite_uri import connect_read_only
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.connection import opened
from aggregator.tables.declared.owners import OWNERS
from tests.builders import alter, query
from tests.conftest import ProfileFactory

NAME = "ddp2_resnet50_amp"
TABLES = ("owners", "owner_times")


@pytest.fixture
def database(imported: ProfileFactory, tmp_path: Path) -> Path:
    path = tmp_path / "a.sqlite"
    shutil.copy(imported(NAME), path)
    return path


_SUMS = """
SELECT rolled_up_by, owner_name, owned_time FROM view_owner_sums WHERE aggr_id = :aggr ORDER BY 1, 2
"""


def _rows(path: Path, aggr: int = 1) -> tuple[list[dict[str, Any]], list[tuple[Any, ...]]]:
    with opened(path, time_limit_s=60) as database:
        data = AggregationData(database, {"aggr_id": aggr, "domain": "default-domain"})
        return data.rows(OWNERS), database.rows(_SUMS, {"aggr": aggr})


def _named(found: Ownership) -> list[tuple[Any, ...]]:
    """Owners by what they are, with their times."""
    reasons = [found.reasons[code] for code in found.reason.tolist()]
    keys = zip(found.kind.tolist(), reasons, found.op.tolist(), found.group.tolist(), strict=True)
    return sorted((*key, times) for key, times in zip(keys, found.owned_ns.T.tolist(), strict=True))


def _forget(path: Path) -> None:
    """Make the file one of an import that stored no owners."""
    with closing(sqlite3.connect(path)) as connection:
        for table in TABLES:
            connection.execute(f"DELETE FROM {table}")
        connection.commit()


def _stored(path: Path) -> list[set[int]]:
    """Aggregations with owners, and with their times in each iteration."""
    rows = [query(path, f"SELECT aggr FROM {table}") for table in TABLES]
    return [{int(row[0]) for row in one} for one in rows]


def test_a_file_without_the_rows_answers_like_one_with_them(database: Path) -> None:
    stored = _rows(database), _rows(database, 2)
    with closing(connect_read_only(database)) as connection:
        span = read_span(connection, 1)
        imported, is_stored = find_ownership(connection, 1, span)
    assert is_stored
    _forget(database)
    before = database.read_bytes()
    assert (_rows(database), _rows(database, 2)) == stored
    assert database.read_bytes() == before
    with closing(connect_read_only(database)) as connection:
        found, is_stored = find_ownership(connection, 1, span)
    assert not is_stored
    assert _named(found) == _named(imported)
    assert store_ownership(database, 1, found)
    assert _rows(database) == stored[0]
    with closing(connect_read_only(database)) as connection:
        again, is_stored = find_ownership(connection, 1, span)
        part = read_span(connection, 1, int(span.numbers[2]), int(span.numbers[4]))
        some, is_part_stored = find_ownership(connection, 1, part)
        assert _named(some) == _named(read_ownership(connection, part))
    assert is_stored
    assert is_part_stored
    assert _named(again) == _named(found)


def test_an_import_stores_the_times_of_its_steady_range_once(database: Path) -> None:
    assert _stored(database) == [{1, 2}, {1}]
    with closing(connect_read_only(database)) as connection:
        span = read_span(connection, 2)
        found, is_stored = find_ownership(connection, 2, span)
        assert is_stored
        assert _named(found) == _named(read_ownership(connection, span))
    delete_aggregation(database, 1)
    with closing(connect_read_only(database)) as connection:
        found, is_stored = find_ownership(connection, 2, span)
    assert not is_stored
    assert store_ownership(database, 2, found)
    assert _stored(database) == [{2}, {2}]


def test_an_added_range_takes_the_times_of_the_import(database: Path) -> None:
    request = AggregationRequest(iter_start=3, iter_stop=6)
    aggr = aggregate(database, request, NullProgress()).aggr_id
    rows = _rows(database, aggr)
    with closing(connect_read_only(database)) as connection:
        span = read_span(connection, aggr)
        found, is_stored = find_ownership(connection, aggr, span)
        assert _named(found) == _named(read_ownership(connection, span))
    assert not is_stored
    assert store_ownership(database, aggr, found)
    assert _stored(database) == [{1, 2, aggr}, {1}]
    assert _rows(database, aggr) == rows


def test_iterations_of_one_phase_own_only_their_own_time(
    imported: ProfileFactory, tmp_path: Path
) -> None:
    path = tmp_path / "a.sqlite"
    shutil.copy(imported(NAME), path)
    alter(path, "UPDATE iterations SET aggregated = 0 WHERE aggr = 1 AND iter_value % 3 = 1")
    with closing(connect_read_only(path)) as connection:
        query = "SELECT iter_value, stop - start FROM iterations WHERE aggr = 1 AND aggregated"
        expected = connection.execute(f"{query} ORDER BY 1").fetchall()
        span = read_span(connection, 1)
        computed = read_ownership(connection, span)
        whole = read_ownership(connection, read_span(connection, 1, 0, expected[-1][0]))
    assert list(zip(computed.numbers, computed.lengths_ns, strict=True)) == expected
    assert np.array_equal(computed.owned_ns.sum(axis=1), computed.devices * computed.lengths_ns)
    assert _named(computed) == _named(whole.part(computed.numbers))


def test_the_sums_add_up_to_the_iterations(database: Path) -> None:
    rows, sums = _rows(database)
    with closing(connect_read_only(database)) as connection:
        query = "SELECT sum(stop - start) FROM iterations WHERE aggr = 1 AND aggregated"
        length_ns = int(connection.execute(query).fetchone()[0])
    by: dict[str, int] = defaultdict(int)
    for rolled_up_by, _, time_ns in sums:
        by[rolled_up_by] += time_ns if rolled_up_by != "module" else 0
    assert sum(row["time_ns"] for row in rows) == 2 * length_ns  # two GPUs
    assert (by["class"], by["op type"]) == (2 * length_ns, 2 * length_ns)
    inside: dict[str, int] = defaultdict(int)
    for row in rows:
        parts = [part for part in row["module"].split("/") if part]
        for depth in range(len(parts) + 1):
            inside["/" + "".join(f"{part}/" for part in parts[:depth])] += row["time_ns"]
    modules = {name: time_ns for rolled_up_by, name, time_ns in sums if rolled_up_by == "module"}
    assert modules == dict(inside)


def test_a_comparison_stores_what_it_computed(database: Path, tmp_path: Path) -> None:
    """Of a database without steps; those of others are read from their events."""
    other = tmp_path / "b.sqlite"
    _forget(database)
    alter(database, "DELETE FROM steps")
    shutil.copy(database, other)
    base, new = [[Source.parse(str(path))] for path in (database, other)]
    first = compare_files(base, new, NullProgress(), keep=True)
    sql = "SELECT DISTINCT aggr FROM owners UNION SELECT DISTINCT aggr FROM owner_times"
    ((aggr,),) = query(database, sql)
    assert aggr == first.base.captures[0].aggregation
    second = compare_files(base, new, NullProgress())
    assert [(row.kind, row.op, row.base_ns) for row in second.rows] == [
        (row.kind, row.op, row.base_ns) for row in first.rows
    ]
    delete_aggregation(database, aggr)
    assert query(database, "SELECT count(*) FROM owner_times")[0] == (0,)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE owner_times SET base = base + 1",
        "DELETE FROM owner_times WHERE iter_value = (SELECT max(iter_value) FROM owner_times)",
        "UPDATE owner_times SET item_bytes = 3",
        "UPDATE owners SET class = 'none'",
        "UPDATE owners SET samples = 7 WHERE place = 0",
        "UPDATE owners SET samples = 'x' WHERE place = 0",
    ],
)
def test_rows_that_do_not_add_up_are_not_used(
    damage: str, imported: ProfileFactory, tmp_path: Path
) -> None:
    path = tmp_path / "a.sqlite"
    shutil.copy(imported("nvtx_domains"), path)
    with closing(connect_read_only(path)) as connection:
        span = read_span(connection, 1)
        found = read_ownership(connection, span)
    store_ownership(path, 1, found)
    alter(path, damage)
    with closing(connect_read_only(path)) as connection:
        again, is_stored = find_ownership(connection, 1, span)
    assert not is_stored
    assert np.array_equal(again.owned_ns, found.owned_ns)
