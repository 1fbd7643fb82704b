"""A timeline shows what plain SQL over the rows of the database gives."""

from __future__ import annotations

import json
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

from aggregator.answers.timeline import TILE_BINS, TimelineAnswers
from aggregator.system.replies import to_plain
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.connection import opened
from aggregator.tables.counts import QueryCache
from aggregator.tables.timeline.items import Items
from aggregator.tables.timeline.levels import lane_levels, shown_items
from aggregator.tables.timeline.nesting import disjoint_sets
from aggregator.tables.timeline.stored import StoredTimeline
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
#: Calls that block have a lane of their own.
KINDS = {"calls": ("calls", "waits")}


@contextmanager
def opened_data(database: Path) -> Iterator[AggregationData]:
    with opened(database, time_limit_s=60) as found:
        yield AggregationData(found, {"aggr_id": 1, "domain": "default_domain"})


#: All that begins between two times, and what is as long as a bin and reaches into them.
SHOWN = (
    "SELECT count(*), coalesce(sum(stop - start), 0) FROM ({table}) WHERE start < :high"
    " AND (start >= :low OR stop > :low AND stop - start >= :bin)"
)


@pytest.mark.parametrize("name", PROFILES)
def test_each_event_is_in_the_tile_in_which_it_begins(name: str, imported: ProfileFactory) -> None:
    random = Random(6)
    with (
        opened_data(imported(name)) as data,
        closing(sqlite3.connect(imported(name))) as connection,
    ):
        timeline = TimelineAnswers(data)
        lanes = to_plain(timeline.lanes())
        length = lanes["stop_ns"] - lanes["start_ns"]
        for shift in range((length // TILE_BINS).bit_length() + 1):
            number = random.randint(0, length // (TILE_BINS << shift))
            low = lanes["start_ns"] + number * (TILE_BINS << shift)
            bounds = {"low": low, "high": low + (TILE_BINS << shift), "bin": 1 << shift}
            for kind, table in TABLES.items():
                kinds = KINDS.get(kind, (kind,))
                keys = [lane["key"] for lane in lanes["lanes"] if lane["kind"] in kinds]
                if not keys:
                    continue
                columns = tile_columns(timeline.tiles(keys, shift, number))
                expected = connection.execute(SHOWN.format(table=table), bounds).fetchone()
                assert (columns["count"].sum(), columns["busy"].sum()) == expected


def test_tiles_are_small_and_those_of_a_grid_hold_every_event_once(
    imported: ProfileFactory,
) -> None:
    with opened_data(imported("pytorch_resnet50_amp")) as data:
        timeline = TimelineAnswers(data)
        lanes = to_plain(timeline.lanes())
        length = lanes["stop_ns"] - lanes["start_ns"]
        shift = (length // (20 * TILE_BINS)).bit_length()
        for lane in lanes["lanes"]:
            if lane["kind"] == "path":
                continue
            count = 0
            for number in range(length // (TILE_BINS << shift) + 1):
                tile = timeline.tiles([lane["key"]], shift, number)
                assert len(tile) <= 64 * 1024
                columns = tile_columns(tile)
                count += int(columns["count"][columns["start"] >= 0].sum())
            assert count == lane["num_events"]


def whole_tile(timeline: TimelineAnswers, keys: list[str]) -> bytes:
    """All events of some lanes, in one tile."""
    lanes = to_plain(timeline.lanes())
    shift = ((lanes["stop_ns"] - lanes["start_ns"]) // TILE_BINS).bit_length()
    return timeline.tiles(keys, shift, 0)


def tile_columns(data: bytes) -> dict[str, Any]:
    size = int.from_bytes(data[:4], "little")
    total = sum(json.loads(data[4 : 4 + size])["counts"])
    wide = np.frombuffer(data, "<f8", 3 * total, 4 + size).reshape(3, -1)
    narrow = np.frombuffer(data, "<i4", 3 * total, 4 + size + wide.nbytes).reshape(3, -1)
    assert 4 + size + wide.nbytes + narrow.nbytes == len(data)
    return dict(
        zip(("start", "duration", "busy", "count", "label", "row"), [*wide, *narrow], strict=True)
    )


def test_a_kept_timeline_answers_as_a_new_one_and_a_damaged_one_is_made_anew(
    imported: ProfileFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aggregator.tables.timeline.prepared._FEWEST_STORED", 1)
    database = imported("pytorch_resnet50_amp")

    def answers(folder: Path | None) -> list[Any]:
        remembered = QueryCache[StoredTimeline](2**30, lambda found: found.size)
        monkeypatch.setattr("aggregator.tables.timeline.prepared._prepared", remembered)
        with opened_data(database) as data:
            timeline = TimelineAnswers(data, folder)
            lanes = to_plain(timeline.lanes())
            keys = [lane["key"] for lane in lanes["lanes"] if lane["kind"] != "path"]
            bounds = lanes["start_ns"], lanes["stop_ns"]
            return [lanes, whole_tile(timeline, keys), to_plain(timeline.range(keys, *bounds))]

    expected = answers(None)
    assert answers(tmp_path) == expected
    (kept,) = tmp_path.iterdir()
    assert kept.stat().st_size <= 0.1 * database.stat().st_size
    made_at = kept.stat().st_mtime_ns
    assert answers(tmp_path) == expected
    assert kept.stat().st_mtime_ns == made_at
    for damaged in (b"", kept.read_bytes()[:-5], kept.read_bytes()[:-8] + b"\xff" * 8):
        kept.write_bytes(damaged)
        assert answers(tmp_path) == expected


@given(
    st.lists(st.tuples(st.integers(-50, 400), st.integers(0, 60)), max_size=60),
    st.integers(0, 7),
    st.integers(-60, 200),
    st.integers(1, 40),
)
def test_no_event_vanishes_and_no_time_is_lost(
    events: list[tuple[int, int]], shift: int, first: int, bins: int
) -> None:
    times = np.array(sorted((a, a + d) for a, d in events), dtype=np.int64).reshape(-1, 2)
    for rows in disjoint_sets(times[:, 0], times[:, 1]):
        for level, items in lane_levels(items_of(times[rows])):
            if level > shift:
                break
            shown = shown_items(items, shift, first, first + bins)
            low, high = first << shift, first + bins << shift
            expected = [
                (start, stop)
                for start, stop in times[rows].tolist()
                if start < high and (start >= low or (stop > low and stop - start >= 1 << shift))
            ]
            assert shown.count.sum() == len(expected)
            assert shown.busy_ns.sum() == sum(stop - start for start, stop in expected)
            assert (np.diff(shown.start_ns) >= 0).all()
            assert len(shown) <= 2 * bins + 1
            for start, stop in expected:
                assert ((shown.start_ns <= start) & (shown.end_ns >= stop)).any()


def items_of(times: Any, label: Any = None) -> Items:
    start, stop = times.T
    size = np.arange(len(start), dtype=np.int64)
    labels = size if label is None else np.array(label, dtype=np.int64)
    return Items(start, stop, np.ones_like(size), stop - start, labels, size)


def test_a_run_has_the_label_with_the_most_time() -> None:
    times = np.array([(0, 2), (10, 15), (20, 24), (30, 31), (1_024, 2_048)], dtype=np.int64)
    shown = shown_items(items_of(times, [0, 1, 0, 2, 3]), 10, 0, 2)
    assert shown.label.tolist() == [0, 3]
    assert shown.busy_ns.tolist() == [12, 1_024]
    assert shown.count.tolist() == [4, 1]


def test_the_totals_of_a_range_are_those_of_the_rows(imported: ProfileFactory) -> None:
    database = imported("pytorch_resnet50_amp")
    with opened_data(database) as data, closing(sqlite3.connect(database)) as connection:
        timeline = TimelineAnswers(data)
        keys = [lane.key for lane in timeline.lanes().lanes if lane.kind != "path"]
        low, high = connection.execute(
            "SELECT start, (start + stop) / 2 FROM iterations WHERE aggr = 1 AND iter_value = 12"
        ).fetchone()
        found = to_plain(timeline.range(keys, low, high))
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


#: Work of ops, or kernels of names, that the evidence of a piece of advice holds.
OF_ADVICE = """
    SELECT count(*) FROM (
        SELECT o.op_id, n.name FROM kernels AS k
            JOIN kernel_names AS n ON n.id = k.name
            JOIN op_kernels AS p ON p.id = k.op_kernel JOIN ops AS o ON o.id = p.op
        UNION ALL SELECT o.op_id, '' FROM memory_ops AS m JOIN ops AS o ON o.id = m.op
        UNION ALL SELECT o.op_id, '' FROM graph_launches AS g JOIN ops AS o ON o.id = g.op
    ) AS w
    WHERE EXISTS (
        SELECT * FROM json_each(:evidence) AS e WHERE
            e.value ->> 'kind' = 'op' AND w.op_id = substr(e.value ->> 'name', 1, length(w.op_id))
                AND substr(e.value ->> 'name' || ' ', length(w.op_id) + 1, 1) = ' '
            OR e.value ->> 'kind' = 'kernel' AND w.name = e.value ->> 'name'
    )
"""


def test_the_lane_of_advice_has_the_work_that_its_evidence_names(imported: ProfileFactory) -> None:
    database = imported("pytorch_resnet50_amp")
    compared: set[str] = set()
    with opened_data(database) as data, closing(sqlite3.connect(database)) as connection:
        timeline = TimelineAnswers(data)
        lanes = to_plain(timeline.lanes())
        found = connection.execute("SELECT advice, evidence FROM advice WHERE status = 'found'")
        for advice, evidence in found.fetchall():
            keys = [
                one["key"] for one in lanes["lanes"] if one["key"].startswith(f"advice.{advice}")
            ]
            kinds = {item["kind"] for item in json.loads(evidence)} & {"op", "kernel"}
            if not keys or not kinds:
                continue
            count = tile_columns(whole_tile(timeline, keys))["count"].sum()
            (expected,) = connection.execute(OF_ADVICE, {"evidence": evidence}).fetchone()
            assert count == expected > 0, advice
            compared |= kinds
    assert compared == {"op", "kernel"}
