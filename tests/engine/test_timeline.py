"""What a timeline shows, compared with plain SQL over the rows of the database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.connection import opened
from aggregator.tables.timeline.lanes import (
    Items,
    Lane,
    read_items,
    read_lanes,
    read_range,
    shown_items,
)
from aggregator.tables.timeline.nesting import disjoint_sets
from tests.conftest import ProfileFactory

PROFILES = ("pytorch_resnet50_amp", "ddp2_resnet50_amp", "simple_no_nvtx", "nvtx_domains")
#: The table of each kind of lane; all events are those of a lane of the kind.
TABLES = {
    "work": (
        "SELECT start, start + duration AS stop FROM kernels UNION ALL"
        " SELECT start, start + duration FROM memory_ops UNION ALL"
        " SELECT start, start + duration FROM graph_launches"
    ),
    "calls": "SELECT start, start + duration AS stop FROM api_calls",
    "ops": (
        "SELECT i.start, i.stop FROM op_instances AS i JOIN ops AS o ON o.id = i.op"
        " WHERE o.domain = 1"
    ),
    "iterations": "SELECT start, stop FROM iterations WHERE aggr = 1",
}


@contextmanager
def opened_data(database: Path) -> Iterator[AggregationData]:
    with opened(database, time_limit_s=60) as found:
        yield AggregationData(found, {"aggr_id": 1, "domain": "default_domain"})


@pytest.mark.parametrize("name", PROFILES)
def test_counts_and_busy_times_of_any_window_are_those_of_the_rows(
    name: str, imported: ProfileFactory
) -> None:
    database = imported(name)
    random = Random(5)
    with opened_data(database) as data, closing(sqlite3.connect(database)) as connection:
        lanes = read_lanes(data)
        first, last = lanes["start_ns"], lanes["stop_ns"]
        windows = [(first, last + 1, 1_000)]
        for _ in range(12):
            middle = random.randint(first, last)
            length = max(int((last - first) * 10 ** -random.uniform(0, 6)), 1)
            windows.append((middle, middle + length, random.choice([1, 7, 300, 2_000])))
        for low, high, pixels in windows:
            for kind, table in TABLES.items():
                keys = [lane["key"] for lane in lanes["lanes"] if lane["kind"] == kind]
                items = read_items(data, keys, low, high, pixels)["lanes"] if keys else []
                found = [sum(sum(lane[name]) for lane in items) for name in ("count", "busy_ns")]
                sql = (
                    f"SELECT count(*), coalesce(sum(stop - start), 0) FROM ({table})"
                    " WHERE start < :high AND (stop > :low OR start >= :low)"
                )
                ((count, busy_ns),) = connection.execute(sql, {"low": low, "high": high})
                assert found == [count, busy_ns]
                assert all(len(lane["count"]) <= 3 * pixels + 1 for lane in items)


@given(
    st.lists(st.tuples(st.integers(-50, 400), st.integers(0, 60)), max_size=60),
    st.integers(-60, 400),
    st.integers(1, 400),
    st.integers(1, 40),
)
def test_no_event_vanishes_and_no_time_is_lost(
    events: list[tuple[int, int]], low: int, length: int, pixels: int
) -> None:
    high = low + length
    times = np.array(sorted((a, a + d) for a, d in events), dtype=np.int64).reshape(-1, 2)
    expected = [(a, b) for a, b in times.tolist() if a < high and (b > low or a >= low)]
    count = busy_ns = 0
    for rows in disjoint_sets(times[:, 0], times[:, 1]):
        lane = lane_of(times[rows])
        shown = shown_items(lane, low, high, pixels)
        count += int(shown.count.sum())
        busy_ns += int(shown.busy_ns.sum())
        assert (np.diff(shown.start_ns) >= 0).all()
        assert len(shown) <= 2 * pixels or len(shown) <= 3 * pixels + 1
        for start, stop in times[rows].tolist():
            if (start, stop) in expected:
                assert ((shown.start_ns <= start) & (shown.stop_ns >= stop)).any()
    assert (count, busy_ns) == (len(expected), sum(b - a for a, b in expected))


def lane_of(times: Any) -> Lane:
    start, stop = times.T
    size = np.arange(len(start), dtype=np.int64)
    items = Items(start, stop, np.ones_like(size), stop - start, size, size, size, size)
    return Lane("a", "work", "", "", items, np.maximum.accumulate(stop))


def test_a_run_has_the_name_with_the_most_time() -> None:
    start = np.array([0, 10, 20, 30, 1_000], dtype=np.int64)
    length = np.array([2, 5, 4, 1, 100], dtype=np.int64)
    name = np.array([0, 1, 0, 2, 3], dtype=np.int64)
    items = Items(start, start + length, np.ones_like(start), length, name, name, name, start)
    lane = Lane("a", "work", "", "", items, np.maximum.accumulate(start + length))
    shown = shown_items(lane, 0, 2_000, 2)
    assert shown.name.tolist() == [0, 3]
    assert shown.busy_ns.tolist() == [12, 100]
    assert shown.count.tolist() == [4, 1]


def test_the_totals_of_a_range_are_those_of_the_rows(imported: ProfileFactory) -> None:
    database = imported("pytorch_resnet50_amp")
    with opened_data(database) as data, closing(sqlite3.connect(database)) as connection:
        lanes = read_lanes(data)
        keys = [lane["key"] for lane in lanes["lanes"]]
        low, high = connection.execute(
            "SELECT start, (start + stop) / 2 FROM iterations WHERE aggr = 1 AND iter_value = 12"
        ).fetchone()
        found = read_range(data, keys, low, high)
        bounds = {"low": low, "high": high}
        expected = connection.execute(
            "SELECT o.op_id, count(*), sum(min(w.stop, :high) - max(w.start, :low)) FROM ("
            " SELECT p.op, k.start, k.start + k.duration AS stop FROM kernels AS k"
            " JOIN op_kernels AS p ON p.id = k.op_kernel"
            " UNION ALL SELECT op, start, start + duration FROM memory_ops"
            ") AS w JOIN ops AS o ON o.id = w.op WHERE w.start < :high AND w.stop > :low"
            " GROUP BY 1 ORDER BY 3 DESC LIMIT 1",
            bounds,
        ).fetchall()
        top = found["ops"][0]
        assert [(top["op_id"], top["num_events"], top["time_ns"])] == expected
        total = connection.execute(
            "SELECT sum(min(start + duration, :high) - max(start, :low)) FROM kernels"
            " WHERE start < :high AND start + duration > :low",
            bounds,
        ).fetchone()[0]
        assert sum(row["time_ns"] for row in found["categories"] if row["category"] < 3) == total
        assert found["events"][0]["duration_ns"] >= found["events"][-1]["duration_ns"]
