"""The timeline of an aggregation: its lanes, their items, and the totals of a range."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tests.contract.client import ApiClient, Served
from tests.contract.test_errors import assert_error


def test_all_work_is_in_the_lanes_and_in_one_picture_of_them(api: ApiClient, ours: Served) -> None:
    timeline = api.get(ours.at("timeline/")).json
    lanes = [lane for lane in timeline["lanes"] if lane["kind"] == "work"]
    with closing(sqlite3.connect(ours.path)) as database:
        ((count, total_ns),) = database.execute(
            "SELECT count(*), sum(duration) FROM (SELECT duration FROM kernels UNION ALL"
            " SELECT duration FROM memory_ops UNION ALL SELECT duration FROM graph_launches)"
        )
    assert sum(lane["num_events"] for lane in lanes) == count
    window = {
        "lanes": ",".join(lane["key"] for lane in lanes),
        "start_ns": timeline["start_ns"],
        "stop_ns": timeline["stop_ns"],
    }
    totals = api.get(ours.at("timeline/range/"), **window).json
    assert totals["num_events"] == count
    assert sum(row["time_ns"] for row in totals["categories"]) == total_ns


def test_timeline_opens_on_three_steps_in_a_row_of_median_time(
    api: ApiClient, ours: Served
) -> None:
    shown = api.get(ours.at("timeline/")).json
    with closing(sqlite3.connect(ours.path)) as connection:
        steps = connection.execute(
            "SELECT start_time, stop_time FROM view_iterations_all"
            " WHERE aggr_id = ? AND is_aggregated = 1 ORDER BY start_time",
            (ours.aggregation,),
        ).fetchall()
    threes = [(first[0], last[1]) for first, last in zip(steps, steps[2:], strict=False)]
    assert (shown["median_start_ns"], shown["median_stop_ns"]) in threes
    lengths = sorted(stop - start for start, stop in threes)
    opened = shown["median_stop_ns"] - shown["median_start_ns"]
    assert lengths.index(opened) == (len(lengths) - 1) // 2


def test_a_database_of_dlprof_has_no_single_events(api: ApiClient, served: Served) -> None:
    timeline = api.get(served.at("timeline/")).json
    assert bool(timeline["lanes"]) == ("lanes" not in timeline["unknown"])
    assert (timeline["start_ns"] is None) == (not timeline["lanes"])


@pytest.mark.parametrize(
    "window",
    [
        {},
        {"lanes": "iterations.0"},
        {"lanes": "iterations.0", "start_ns": 5, "stop_ns": 5},
        {"lanes": "iterations.0", "start_ns": 5, "stop_ns": "1e9"},
        {"lanes": "iterations.0", "start_ns": 5, "stop_ns": 2**62},
        {"lanes": "iterations.0", "start_ns": "٣", "stop_ns": 10},
        {"lanes": "none", "start_ns": 5, "stop_ns": 10},
    ],
)
def test_a_window_that_is_none(api: ApiClient, ours: Served, window: dict[str, str | int]) -> None:
    assert_error(api.get(ours.at("timeline/range/"), **window), 400, "INVALID_VALUE")


def test_window_of_three_centuries_is_answered(api: ApiClient, ours: Served) -> None:
    window = {"lanes": "iterations.0", "start_ns": 1 - 2**62, "stop_ns": 2**62 - 1}
    assert api.get(ours.at("timeline/range/"), **window).json["num_events"]


def test_tiles_are_those_of_one_version_and_may_be_kept(api: ApiClient, ours: Served) -> None:
    timeline = api.get(ours.at("timeline/")).json
    lane = timeline["lanes"][0]
    tile = {"lanes": lane["key"], "shift": 40, "number": 0, "version": timeline["version"]}
    reply = api.get(ours.at("timeline/tiles/"), **tile)
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "application/octet-stream"
    assert "max-age" in reply.headers["Cache-Control"]
    changed = api.get(ours.at("timeline/tiles/"), **tile | {"version": "0"})
    assert_error(changed, 409, "TIMELINE_CHANGED")


@pytest.mark.parametrize(
    "change", [{"shift": -1}, {"shift": 62}, {"number": -1}, {"number": 2**61}, {"lanes": "x"}]
)
def test_a_tile_that_is_none(api: ApiClient, ours: Served, change: dict[str, str | int]) -> None:
    version = api.get(ours.at("timeline/")).json["version"]
    tile = {"lanes": "iterations.0", "shift": 10, "number": 0, "version": version}
    assert_error(api.get(ours.at("timeline/tiles/"), **tile | change), 400, "INVALID_VALUE")


def test_selection_counts_the_events_of_each_lane(api: ApiClient, ours: Served) -> None:
    op = api.get(ours.at("ops/"), ordering="-gpu_time_ns", page_size=10).json["results"][0]["op_id"]
    hits = api.get(ours.at("timeline/hits/"), op=op, number=0).json
    assert hits["count"] == sum(lane["num_events"] for lane in hits["lanes"]) > 0
    assert hits["event"] == hits["first"]
    hit = hits["longest"]
    event = api.get(
        ours.at("timeline/event/"),
        lane=hit["lane"],
        start_ns=hit["start_ns"],
        row_id=hit["row_id"],
    ).json
    assert (event["op_id"], event["duration_ns"]) == (op, hit["duration_ns"])
    missing = api.get(ours.at("timeline/event/"), lane=hit["lane"], start_ns=1, row_id=1)
    assert_error(missing, 404, "EVENT_NOT_FOUND")
    assert_error(api.get(ours.at("timeline/hits/")), 400, "INVALID_VALUE")
    assert_error(api.get(ours.at("timeline/hits/"), op=op, number=10**9), 400, "INVALID_VALUE")


def test_the_trace_for_perfetto_is_a_file(api: ApiClient, ours: Served) -> None:
    reply = api.get(ours.at("timeline/perfetto/"), iter_start=1, iter_stop=2)
    assert reply.status == 200
    assert reply.headers["Content-Disposition"].endswith('.pftrace"')
    assert reply.body[:1] == b"\x0a"
    assert_error(api.get(ours.at("timeline/perfetto/"), iter_start=10**6), 400, "INVALID_VALUE")


def test_a_database_of_nvidia_has_its_events_and_stays_as_it_is(
    api: ApiClient, nvidia: Served
) -> None:
    before = nvidia.path.read_bytes()
    timeline = api.get(nvidia.at("timeline/")).json
    work = [lane for lane in timeline["lanes"] if lane["kind"] == "work"]
    with closing(sqlite3.connect(nvidia.path)) as database:
        ((count,),) = database.execute("SELECT count(*) FROM read_only_kernels")
    assert sum(lane["num_events"] for lane in work) >= count > 0
    events = api.get(nvidia.at("timeline/events/"), page_size=10).json
    assert events["count"] >= count
    assert nvidia.path.read_bytes() == before
