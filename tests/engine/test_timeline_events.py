"""Selected events, single events and derived lanes of a timeline, compared with plain SQL."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from aggregator.answers.timeline import TimelineAnswers
from aggregator.errors import InvalidValueError
from aggregator.system.replies import to_plain
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.connection import opened
from aggregator.tables.declared.timeline import TIMELINE_EVENTS
from aggregator.tables.timeline.hits import Selection
from aggregator.tables.timeline.range_totals import RangeIterations
from tests.builders import alter, query
from tests.conftest import ProfileFactory
from tests.engine.test_timeline import tile_columns, whole_tile

PROFILES = ("pytorch_resnet50_amp", "simple_no_nvtx")
WORK = (
    "SELECT 'kernels' AS t, k.id, p.op, k.start, k.duration, k.api_start, k.api_duration, k.process"
    " FROM kernels AS k JOIN op_kernels AS p ON p.id = k.op_kernel UNION ALL"
    " SELECT 'memory_ops', id, op, start, duration, api_start, api_duration, process"
    " FROM memory_ops"
)


@contextmanager
def answers(database: Path, aggregation: int = 2) -> Iterator[TimelineAnswers]:
    with opened(database, time_limit_s=60) as found:
        params: dict[str, str | int] = {"aggr_id": aggregation, "domain": "default_domain"}
        yield TimelineAnswers(AggregationData(found, params))


@pytest.fixture(params=PROFILES)
def database(request: pytest.FixtureRequest, imported: ProfileFactory) -> Path:
    return imported(request.param)


def test_an_op_selects_all_its_work(database: Path) -> None:
    top = query(
        database,
        "SELECT o.op_id, count(*), sum(w.duration), min(w.start), max(w.duration)"
        f" FROM ({WORK}) AS w JOIN ops AS o ON o.id = w.op GROUP BY 1 ORDER BY 3 DESC LIMIT 5",
    )
    with answers(database) as timeline:
        for op, count, time_ns, first_ns, longest_ns in top:
            found = to_plain(timeline.hits(Selection(op=op), None, None))
            assert (found["count"], found["time_ns"]) == (count, time_ns)
            assert found["first"]["start_ns"] == first_ns
            assert found["longest"]["duration_ns"] == longest_ns
            assert sum(lane["num_events"] for lane in found["lanes"]) == count
            shown = 0
            keys = [lane["key"] for lane in found["lanes"]]
            lanes = to_plain(timeline.lanes())
            shift = ((lanes["stop_ns"] - lanes["start_ns"]) // 512).bit_length()
            for number in range(2):
                tile = timeline.tiles(keys, shift, number, Selection(op=op))
                shown += tile_counts(tile)
            assert shown == count


def tile_counts(data: bytes) -> int:
    size = int.from_bytes(data[:4], "little")
    total = (len(data) - 4 - size) // 36
    return int(np.frombuffer(data, "<i4", total, 4 + size + 24 * total).sum())


def test_a_search_steps_through_its_events_in_order(database: Path) -> None:
    names = (
        "SELECT count(*) FROM ("
        " SELECT n.name || ' ' || n.readable_name || ' ' || n.long_name AS name, o.op_id,"
        " o.op_name FROM kernels AS k JOIN kernel_names AS n ON n.id = k.name"
        " JOIN op_kernels AS p ON p.id = k.op_kernel JOIN ops AS o ON o.id = p.op"
        " UNION ALL SELECT n.name, o.op_id, o.op_name FROM api_calls AS c"
        " JOIN api_names AS n ON n.id = c.name"
        " JOIN ops AS o ON o.id = c.op"
        " UNION ALL SELECT '', o.op_id, o.op_name FROM op_instances AS i"
        " JOIN ops AS o ON o.id = i.op"
        " WHERE o.domain = 1)"
        " WHERE name LIKE '%gemm%' OR op_id LIKE '%gemm%' OR op_name LIKE '%gemm%'"
    )
    with answers(database) as timeline:
        found = to_plain(timeline.hits(Selection(search="GEMM"), None, None))
        assert found["count"] == query(database, names)[0][0]
        starts = []
        for number in range(min(found["count"], 20)):
            event = to_plain(timeline.hits(Selection(search="GEMM"), None, number))["event"]
            assert event["number"] == number
            starts.append(event["start_ns"])
        assert starts == sorted(starts)
        if starts:
            after = to_plain(timeline.hits(Selection(search="GEMM"), starts[-1], None))["event"]
            assert after["start_ns"] == starts[-1]


def test_search_finds_each_event_by_every_name_that_a_table_shows(database: Path) -> None:
    kernels = query(database, "SELECT readable_name, name, long_name FROM kernel_names")
    ops = query(database, "SELECT op_name, op_id FROM ops WHERE domain = 1 ORDER BY id LIMIT 20")
    with answers(database) as timeline:
        for names in (*kernels[:20], *ops):
            found = [timeline.hits(Selection(search=name), None, None).count for name in names]
            assert all(found), dict(zip(names, found, strict=True))
        for readable, short, full in kernels[:5]:
            counts = [
                timeline.hits(Selection(kernel=name), None, None).count
                for name in (full, short, readable)
            ]
            assert 0 < counts[0] <= min(counts[1:])


def test_kernels_are_selected_by_their_full_name_and_by_iteration(imported: ProfileFactory) -> None:
    database = imported("pytorch_resnet50_amp")
    rows = query(
        database,
        "SELECT n.long_name, count(*), sum(k.duration) FROM kernels AS k"
        " JOIN kernel_names AS n ON n.id = k.name GROUP BY 1 ORDER BY 3 DESC LIMIT 5",
    )
    with answers(database) as timeline:
        for name, count, time_ns in rows:
            found = to_plain(timeline.hits(Selection(kernel=name), None, None))
            assert (found["count"], found["time_ns"]) == (count, time_ns)
        ((low, high),) = query(
            database, "SELECT start, stop FROM iterations WHERE aggr = 2 AND iter_value = 12"
        )
        name = rows[0][0]
        found = to_plain(timeline.hits(Selection(kernel=name, iteration="12"), None, None))
        within = (
            "SELECT count(*) FROM kernels AS k JOIN kernel_names AS n ON n.id = k.name"
            " WHERE n.long_name = ? AND k.start >= ? AND k.start < ?"
        )
        assert [(found["count"],)] == query(database, within, name, low, high)
        with pytest.raises(InvalidValueError):
            to_plain(timeline.hits(Selection(kernel=name, iteration="9999"), None, None))
        with pytest.raises(InvalidValueError):
            to_plain(timeline.hits(Selection(kernel=name), None, 10**9))
        assert to_plain(timeline.hits(Selection(kernel="none of these"), None, None))["count"] == 0


def test_an_event_knows_its_launch_op_and_partner(imported: ProfileFactory) -> None:
    database = imported("pytorch_resnet50_amp")
    with answers(database) as timeline:
        backward = query(
            database,
            "SELECT o.op_id, f.op_id FROM ops AS o JOIN ops AS f ON f.id = o.forward"
            " JOIN op_metrics AS m ON m.op = o.id AND m.aggr = 2"
            " ORDER BY gpu_time_sum DESC LIMIT 3",
        )
        for op, forward in backward:
            hit = to_plain(timeline.hits(Selection(op=op), None, None))["longest"]
            event = to_plain(timeline.event(hit["lane"], hit["start_ns"], hit["row_id"]))
            assert event is not None
            kernel = query(
                database,
                "SELECT n.long_name, s.grid_x || ' x ' || s.grid_y || ' x ' || s.grid_z,"
                " n.tc_verdict, k.api_start, k.api_duration FROM kernels AS k"
                " JOIN kernel_names AS n ON n.id = k.name"
                " JOIN launch_sizes AS s ON s.id = k.size WHERE k.id = ?",
                hit["row_id"],
            )[0]
            assert (event["long_name"], event["grid"]) == kernel[:2]
            assert event["uses_tc"] == (None if kernel[2] is None else bool(kernel[2]))
            assert event["tc_evidence"]
            related = {one["relation"]: one for one in event["related"]}
            call = related["launched by"]
            assert (call["start_ns"], call["duration_ns"]) == kernel[3:]
            assert related["op"]["op_id"] == op
            assert related["forward"]["op_id"] == forward
            # And back: the call launched this kernel, the forward op has this backward one.
            again = to_plain(timeline.event(call["lane"], call["start_ns"], call["row_id"]))
            assert again is not None
            assert ("launched", hit["row_id"]) in [
                (one["relation"], one["row_id"]) for one in again["related"]
            ]
            first = related["forward"]
            partner = to_plain(timeline.event(first["lane"], first["start_ns"], first["row_id"]))
            assert partner is not None
            assert op in [
                one["op_id"] for one in partner["related"] if one["relation"] == "backward"
            ]
            assert event["place"] >= 1


def test_events_that_are_none_are_not_found(imported: ProfileFactory) -> None:
    with answers(imported("simple_no_nvtx")) as timeline:
        lane = next(lane.key for lane in timeline.lanes().lanes if lane.kind == "work")
        assert to_plain(timeline.event(lane, 5, 1)) is None
        with pytest.raises(InvalidValueError):
            to_plain(timeline.event("none", 5, 1))


def test_idle_time_is_what_no_work_covers(database: Path) -> None:
    devices = query(database, "SELECT DISTINCT device, process FROM kernels")
    with answers(database) as timeline:
        lanes = to_plain(timeline.lanes())
        idle = {one["key"]: one["busy_ns"] for one in lanes["lanes"] if one["kind"] == "idle"}
        for device, process in devices:
            spans = query(
                database,
                "SELECT start, start + duration FROM kernels WHERE device = ?1 AND process = ?2"
                " UNION ALL SELECT start, start + duration FROM memory_ops"
                " WHERE device = ?1 AND process = ?2 ORDER BY 1",
                device,
                process,
            )
            free, at = 0, lanes["start_ns"]
            for start, stop in spans:
                free += max(start - at, 0)
                at = max(at, stop)
            last = query(database, "SELECT max(start + duration) FROM api_calls")[0][0]
            ops = query(
                database,
                "SELECT max(i.stop) FROM op_instances AS i JOIN ops AS o ON o.id = i.op"
                " WHERE o.domain = 1",
            )[0][0]
            work = query(database, f"SELECT max(start + duration) FROM ({WORK})")[0][0]
            free += max(last, ops, work) - at
            assert (
                sum(time for key, time in idle.items() if key.startswith(f"idle{device}.")) == free
            )


def test_the_critical_path_fills_the_steady_steps(imported: ProfileFactory) -> None:
    database = imported("pytorch_resnet50_amp")
    with answers(database) as timeline:
        lanes = to_plain(timeline.lanes())
        assert any(lane["kind"] == "path" for lane in lanes["lanes"])
        path = tile_columns(whole_tile(timeline, ["path.0"]))
        low, high, first, last = query(
            database,
            "SELECT min(start), max(stop), min(iter_value), max(iter_value) FROM iterations"
            " WHERE aggr = 2 AND aggregated AND kind = 'iteration'",
        )[0]
        # Launch latencies and gaps have no event of their own.
        assert 0.5 * (high - low) < path["busy"].sum() <= 1.1 * (high - low)
        iterations = timeline.range(None, low, high).iterations
        assert iterations == RangeIterations(first, last)


def test_the_table_has_every_event(imported: ProfileFactory) -> None:
    database = imported("simple_no_nvtx")
    with opened(database, time_limit_s=60) as found:
        data = AggregationData(found, {"aggr_id": 1, "domain": "default_domain"})
        rows = data.rows(TIMELINE_EVENTS)
    counts = dict.fromkeys(("kernel", "copy", "set", "graph", "op", "call"), 0)
    for row in rows:
        counts[row["event_kind"]] += 1
    assert counts["kernel"] == query(database, "SELECT count(*) FROM kernels")[0][0]
    assert counts["call"] == query(database, "SELECT count(*) FROM api_calls")[0][0]
    assert (
        counts["copy"] + counts["set"] == query(database, "SELECT count(*) FROM memory_ops")[0][0]
    )
    starts = [row["start_time_ns"] for row in rows]
    assert starts == sorted(starts)
    time_ns = sum(row["duration_ns"] for row in rows if row["event_kind"] == "kernel")
    assert time_ns == query(database, "SELECT sum(duration) FROM kernels")[0][0]


@pytest.fixture
def changed(imported: ProfileFactory, tmp_path: Path) -> Path:
    target = tmp_path / "changed.sqlite"
    shutil.copy(imported("simple_no_nvtx"), target)
    return target


@pytest.mark.parametrize(
    "statements",
    [
        # Kernels of one stream that cross each other, and some without length.
        ["UPDATE kernels SET duration = 7 * duration WHERE id % 3 = 0"],
        ["UPDATE kernels SET duration = 0 WHERE id % 2 = 0", "UPDATE api_calls SET duration = 0"],
        ["UPDATE kernels SET start = 9223372036854775807, duration = 9223372036854775807"],
        [
            "UPDATE kernels SET start = -9223372036854775807 WHERE id = 5",
            "UPDATE api_calls SET start = 9223372036854775807 WHERE id = 7",
        ],
        # A thread of its own for each call: ten thousand lanes.
        [
            "INSERT INTO threads SELECT id + 100, id, 1, '' FROM api_calls",
            "UPDATE api_calls SET thread = id + 100",
        ],
        ["DELETE FROM kernels", "DELETE FROM memory_ops", "DELETE FROM api_calls"],
    ],
    ids=["crossing", "without length", "end of 64 bits", "all of 64 bits", "lanes", "no events"],
)
def test_bad_input_is_shown_and_nothing_is_lost(changed: Path, statements: list[str]) -> None:
    alter(changed, *statements)
    tables = ("kernels", "memory_ops", "api_calls")
    sums = " + ".join(f"(SELECT count(*) FROM {table})" for table in tables)
    ((count,),) = query(changed, f"SELECT {sums}")
    with answers(changed) as timeline:
        lanes = to_plain(timeline.lanes())
        own = {
            lane["key"]: lane["num_events"]
            for lane in lanes["lanes"]
            if lane["kind"] in ("work", "calls", "waits")
        }
        assert sum(own.values()) == count
        length = lanes["stop_ns"] - lanes["start_ns"]
        assert 0 < length < 2**63
        some = list(own)[:500]
        shown = tile_counts(timeline.tiles(some, (length // 512).bit_length(), 0)) if some else 0
        assert shown == sum(own[key] for key in some)
        totals = to_plain(timeline.range(None, lanes["start_ns"], lanes["stop_ns"] + 1))
        assert totals["num_events"] >= count


def test_a_database_that_changes_is_another_version(changed: Path) -> None:
    with answers(changed) as timeline:
        before = timeline.version
    with answers(changed) as timeline:
        assert timeline.version == before
    alter(changed, "UPDATE kernels SET duration = duration + 1 WHERE id = 1")
    with answers(changed) as timeline:
        assert timeline.version != before
