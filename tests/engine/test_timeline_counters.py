"""Counters of a timeline: samples of NVML, GPU metrics and memory, compared with the export."""

from __future__ import annotations

import io
import json
import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace as PerfettoTrace
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent

from aggregator.answers.timeline import TILE_BINS, TimelineAnswers
from aggregator.options import ImportOptions
from aggregator.ranks.rank_import import import_ranks
from aggregator.system.progress import NullProgress
from aggregator.system.replies import to_plain
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.connection import opened
from aggregator.tables.timeline.events import Events
from aggregator.tables.timeline.perfetto import write_trace
from tests.builders import Trace, analyze_file, query

START_UTC_NS = 1_700_000_000_000_000_000
READINGS = 60
EVERY_NS = 500
#: No reading was taken in this time.
MISSING = range(30, 42)


def _reading(number: int) -> tuple[int, int, float | None]:
    """Time since the start, memory and utilization of a reading."""
    return number * EVERY_NS, (number % 7 + 1) << 32, None if number % 5 == 0 else number % 90 / 2


def _trace(utc_ns: int = START_UTC_NS) -> Trace:
    trace = Trace()
    list(trace.steps(3))
    trace.session(utc_ns, "box")
    before = {"utcNs": utc_ns - 100, "memoryUsed": 1, "gpuUtilization": 0, "isBefore": 1}
    trace.add("DLPROF_GPU_SAMPLES", gpu=0, uuid="", memoryTotal=1 << 40, **before)
    for at, memory, busy in map(_reading, set(range(READINGS)) - set(MISSING)):
        trace.add(
            "DLPROF_GPU_SAMPLES",
            utcNs=utc_ns + at,
            gpu=0,
            uuid="",
            memoryTotal=1 << 40,
            memoryUsed=memory,
            gpuUtilization=busy,
            isBefore=0,
        )
    return trace


def _with_metrics(trace: Trace) -> Trace:
    """GPU metrics of two GPUs, of which one is not in the profile."""
    names = ("SMs Active [Throughput %]", "DRAM Read Bandwidth [Throughput %]", "GPC Clock [MHz]")
    for gpu in (0, 3):
        for metric, name in enumerate(names):
            key = {"typeId": 0x7000_0000 | gpu, "metricId": metric}
            trace.add(
                "TARGET_INFO_GPU_METRICS", **key, sourceId=1, typeName="GH100", metricName=name
            )
            for number in range(200):
                value = (number * (metric + 3)) % 101 if number != 7 else -1
                trace.add("GPU_METRICS", timestamp=number * 100, value=value, **key)
    return trace


def _database(trace: Trace, folder: Path) -> Path:
    database = folder / "dlprof_dldb.sqlite"
    analyze_file(trace.write(folder / "run.sqlite"), database)
    return database


def _samples(database: Path, shift: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """Start, end, value and count of the items of each counter, by title."""
    found = {}
    with opened(database, time_limit_s=60) as dldb:
        timeline = TimelineAnswers(
            AggregationData(dldb, {"aggr_id": 1, "domain": "default_domain"})
        )
        lanes = to_plain(timeline.lanes())
        for lane in lanes["lanes"]:
            if lane["kind"] != "counter":
                continue
            assert lane["scale"]["step"] >= 1
            assert lane["title"] not in found
            parts = []
            for number in range(((lanes["stop_ns"] - lanes["start_ns"]) >> shift) // TILE_BINS + 1):
                tile = timeline.tiles([lane["key"]], shift, number)
                start, length, count, row = _columns(tile)
                start += number * (TILE_BINS << shift) + lanes["start_ns"]
                value = row * lane["scale"]["step"]
                parts.append(np.stack([start, start + length, value, count]))
            columns = np.concatenate(parts, axis=1)
            found[lane["title"]] = np.unique(columns, axis=1)
    return found


def _columns(tile: bytes) -> tuple[np.ndarray[Any, Any], ...]:
    size = int.from_bytes(tile[:4], "little")
    total = sum(json.loads(tile[4 : 4 + size])["counts"])
    wide = np.frombuffer(tile, "<f8", 3 * total, 4 + size).reshape(3, -1).astype(np.int64)
    narrow = np.frombuffer(tile, "<i4", 3 * total, 4 + size + 24 * total).reshape(3, -1)
    return wide[0], wide[1], narrow[0].astype(np.int64), narrow[2].astype(np.int64)


def test_samples_of_nvml_stand_until_the_next_one_and_missing_ones_are_unknown(
    tmp_path: Path,
) -> None:
    found = _samples(_database(_trace(), tmp_path))
    assert list(found) == ["Memory in use", "Utilization"]
    start, stop, value, _ = found["Memory in use"]
    read = {at: memory for at, memory, _ in map(_reading, range(READINGS))}
    step = 7 << 32 >> 30
    for low, high, one in zip(start.tolist(), stop.tolist(), value.tolist(), strict=True):
        # The first and last are cut by the time of the events.
        assert 0 <= one - read[low - low % EVERY_NS] < step
        assert high - low <= EVERY_NS
    middle = (np.array(MISSING) + 0.5) * EVERY_NS
    assert not any(((start <= at) & (stop > at)).any() for at in middle)
    start, _, value, _ = found["Utilization"]
    known = {at: round(busy * 100) for at, _, busy in map(_reading, range(READINGS)) if busy}
    shown = {at: one for at, one in zip(start.tolist(), value.tolist(), strict=True) if one}
    assert {at: one for at, one in shown.items() if at in known} == shown | {}
    assert all(known[at - at % EVERY_NS] == one for at, one in shown.items())


@pytest.mark.parametrize("shift", [0, 7, 10, 13])
def test_the_highest_sample_is_seen_at_any_width(shift: int, tmp_path: Path) -> None:
    database = _database(_with_metrics(_trace()), tmp_path)
    finest = _samples(database)
    assert set(finest) == {"Memory in use", "Utilization", "SMs Active", "DRAM Read Bandwidth"}
    for title, (start, _, value, count) in _samples(database, shift).items():
        assert count.sum() == finest[title][3].sum()
        edges = np.append(start, 2**62)
        inside = np.searchsorted(edges, finest[title][0], side="right") - 1
        for item, highest in enumerate(value.tolist()):
            assert highest == finest[title][2][inside == item].max()


def test_metrics_are_those_of_the_table_but_negative_ones(tmp_path: Path) -> None:
    database = _database(_with_metrics(_trace()), tmp_path)
    start, _, value, _ = _samples(database)["SMs Active"]
    rows = dict(
        query(
            tmp_path / "run.sqlite",
            "SELECT timestamp, value * 100 FROM GPU_METRICS JOIN TARGET_INFO_GPU_METRICS"
            " USING (typeId, metricId) WHERE metricName LIKE 'SMs%' AND typeId & 255 = 0"
            " AND value >= 0",
        )
    )
    shown = dict(zip(start.tolist(), value.tolist(), strict=True))
    assert 700 not in shown
    first = min(shown)
    assert all(rows[at] == one for at, one in shown.items() if at > first)
    assert len(shown) > 100


def test_a_trace_has_the_samples(tmp_path: Path) -> None:
    database = _database(_with_metrics(_trace()), tmp_path)
    stream = io.BytesIO()
    with closing(sqlite3.connect(database)) as connection:
        write_trace(Events(connection), 1, stream)
        expected = connection.execute(
            "SELECT 'GPU 0: ' || c.name, s.start,"
            " CASE c.unit WHEN 'percent' THEN s.value / 100.0 ELSE s.value END"
            " FROM counter_samples AS s JOIN counters AS c ON c.id = s.counter ORDER BY 1, 2"
        ).fetchall()
    names: dict[int, str] = {}
    units: dict[str, int | str] = {}
    found: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for packet in PerfettoTrace.FromString(stream.getvalue()).packet:
        track = packet.track_descriptor
        if track.HasField("counter"):
            names[track.uuid] = track.name
            units[track.name] = track.counter.unit or track.counter.unit_name
        event = packet.track_event
        if event.type == TrackEvent.TYPE_COUNTER:
            value = event.double_counter_value
            found[names[event.track_uuid]].append((packet.timestamp, value))
    rows = [(name, *sample) for name in sorted(found) for sample in found[name]]
    assert rows == expected
    assert (units["GPU 0: Memory in use"], units["GPU 0: Utilization"]) == (3, "%")


def test_ranks_that_sampled_the_same_gpu_show_it_once(tmp_path: Path) -> None:
    sources = []
    for rank in range(2):
        trace = _trace(START_UTC_NS + 300 * rank)
        sources.append(trace.write(tmp_path / f"rank{rank}.sqlite"))
    database = tmp_path / "dlprof_dldb.sqlite"
    options = ImportOptions(source=sources[0], database=database)
    import_ranks(options, sources, NullProgress(), workers=1)
    rows = query(database, "SELECT counter, min(start), count(*) FROM counter_samples GROUP BY 1")
    devices = query(database, "SELECT DISTINCT device FROM counters")
    assert [count for *_, count in rows] == [rows[0][2], rows[1][2]] * 2
    assert {start for _, start, _ in rows} == {0, 300, 500, 800}
    assert len(devices) == 1
    assert list(_samples(database)) == ["Memory in use", "Utilization"]


def test_memory_of_the_driver_is_a_counter(tmp_path: Path) -> None:
    trace = _trace()
    for number in range(40):
        trace.add(
            "CUDA_GPU_MEMORY_USAGE_EVENTS",
            start=200 + number * 300,
            globalPid=100 << 24,
            deviceId=0,
            address=4096 * (number // 2 + 1),
            bytes=1_000 * (number // 2 + 1),
            memoryOperationType=number % 2,
            memKind=2,
        )
    found = _samples(_database(trace, tmp_path))
    assert "Memory allocated" in found
    _, _, value, _ = found["Memory allocated"]
    assert value.max() == 20_000


def test_without_samples_there_is_no_counter(tmp_path: Path) -> None:
    trace = Trace()
    list(trace.steps(2))
    assert _samples(_database(trace, tmp_path)) == {}
