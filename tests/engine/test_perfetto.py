"""Perfetto traces, parsed back by Perfetto's own classes and compared with plain SQL."""

from __future__ import annotations

import io
import sqlite3
from collections import Counter, defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
    InternedData,
    Trace,
    TracePacket,
    TrackEvent,
)

from aggregator.tables.timeline.events import Events
from aggregator.tables.timeline.nesting import nested_sets
from aggregator.tables.timeline.perfetto import write_trace
from aggregator.tables.timeline.protobuf import encoded, fixed64s, messages, varints
from profiler_cli.dlprof import main
from tests import builders
from tests.builders import query
from tests.conftest import ProfileFactory

PROFILES = ("pytorch_resnet50_amp", "ddp2_resnet50_amp", "jax_cnn_bf16", "nvtx_domains")
BEGIN = int(TrackEvent.TYPE_SLICE_BEGIN)  # An attribute of the class takes longer.
KINDS = ("Tensor Core kernel", "other kernel", "communication")


@dataclass
class Parsed:
    """Slices of a trace by category, and what does not fit."""

    count: Counter[str] = field(default_factory=Counter)
    duration_ns: Counter[str] = field(default_factory=Counter)
    names: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    tracks: dict[int, tuple[str, int]] = field(default_factory=dict)
    begun: Counter[int] = field(default_factory=Counter)
    ended: Counter[int] = field(default_factory=Counter)
    annotations: dict[tuple[str, int], dict[str, str]] = field(default_factory=dict)


class _Parser:
    def __init__(self, content: bytes) -> None:
        self.found = Parsed()
        self._texts: dict[tuple[str, int], str] = {}
        self._open: dict[int, list[tuple[int, str, str]]] = defaultdict(list)
        for packet in Trace.FromString(content).packet:
            self._packet(packet)
        assert not any(self._open.values())

    def _packet(self, packet: TracePacket) -> None:
        if packet.HasField("interned_data"):
            self._intern(packet.interned_data)
        if packet.HasField("track_event"):
            self._event(packet.timestamp, packet.track_event)
            # A packet has one of both.
            assert not packet.HasField("track_descriptor")
        elif packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert not track.parent_uuid or track.parent_uuid in self.found.tracks
            self.found.tracks[track.uuid] = track.name, track.parent_uuid

    def _intern(self, interned: InternedData) -> None:
        for kind in ("event_names", "event_categories", "debug_annotation_names"):
            for entry in getattr(interned, kind):
                self._texts[kind, entry.iid] = entry.name
        for entry in interned.debug_annotation_string_values:
            self._texts["texts", entry.iid] = entry.str.decode()

    def _event(self, time_ns: int, event: TrackEvent) -> None:
        track = event.track_uuid
        assert track in self.found.tracks
        stack = self._open[track]
        if event.type == BEGIN:
            category = self._texts["event_categories", event.category_iids[0]]
            stack.append((time_ns, category, self._texts["event_names", event.name_iid]))
            for number in event.flow_ids:
                self.found.begun[number] += 1
            for number in event.terminating_flow_ids:
                self.found.ended[number] += 1
            self._annotations(category, event)
            return
        start_ns, category, name = stack.pop()
        assert start_ns <= time_ns
        self.found.count[category] += 1
        self.found.duration_ns[category] += time_ns - start_ns
        self.found.names[category][name] += 1

    def _annotations(self, category: str, event: TrackEvent) -> None:
        found = {
            self._texts["debug_annotation_names", entry.name_iid]: (
                self._texts["texts", entry.string_value_iid]
                if entry.HasField("string_value_iid")
                else str(entry.uint_value)
            )
            for entry in event.debug_annotations
        }
        if "row_id" in found:
            kind = "kernel" if category in KINDS else category
            self.found.annotations[kind, int(found["row_id"])] = found


def traced(database: Path) -> Parsed:
    stream = io.BytesIO()
    with closing(sqlite3.connect(database)) as connection:
        count = write_trace(Events(connection), 1, stream)
    found = _Parser(stream.getvalue()).found
    assert sum(found.count.values()) == count
    return found


@pytest.mark.parametrize("name", PROFILES)
def test_counts_durations_and_arrows_are_those_of_the_tables(
    name: str, imported: ProfileFactory
) -> None:
    database = imported(name)
    found = traced(database)
    for categories, table in (
        (KINDS, "kernels"),
        (("CUDA call",), "api_calls"),
        (("copy",), "memory_ops WHERE is_copy = 1"),
        (("set",), "memory_ops WHERE is_copy = 0"),
    ):
        ((count, total_ns),) = query(
            database,
            f"SELECT count(*), coalesce(sum(duration), 0) FROM {table}",
        )
        assert sum(found.count[kind] for kind in categories) == count
        assert sum(found.duration_ns[kind] for kind in categories) == total_ns
    ((count, total_ns),) = query(
        database,
        "SELECT count(*), coalesce(sum(i.stop - i.start), 0) FROM op_instances AS i"
        " JOIN ops AS o ON o.id = i.op WHERE o.domain = 1",
    )
    assert (found.count["op"], found.duration_ns["op"]) == (count, total_ns)
    names = query(
        database,
        "SELECT n.readable_name, count(*) FROM kernels AS k"
        " JOIN kernel_names AS n ON n.id = k.name GROUP BY 1",
    )
    assert sum((found.names[kind] for kind in KINDS), Counter()) == dict(names)
    launched = query(
        database,
        "SELECT count(*) FROM kernels WHERE api_duration > 0 OR api_start != start",
    )[0][0]
    assert launched
    assert set(found.ended) <= set(found.begun)
    assert max(found.ended.values()) == 1


def test_a_kernel_says_its_op_size_and_full_name(imported: ProfileFactory) -> None:
    database = imported("pytorch_resnet50_amp")
    found = traced(database)
    rows = query(
        database,
        "SELECT k.id, o.op_id, n.long_name, n.uses_tc, s.grid_x, s.block_x FROM kernels AS k"
        " JOIN op_kernels AS p ON p.id = k.op_kernel JOIN ops AS o ON o.id = p.op"
        " JOIN kernel_names AS n ON n.id = k.name JOIN launch_sizes AS s ON s.id = k.size",
    )
    for row, op_id, name, uses_tc, grid_x, block_x in rows:
        says = found.annotations["kernel", int(str(row))]
        assert (says["op"], says["kernel"], says["tensor_core"]) == (op_id, name, str(uses_tc))
        assert says["size"].startswith(f"grid {grid_x} x")
        assert f"block {block_x} x" in says["size"]


def test_crossing_and_empty_events_are_all_there(tmp_path: Path) -> None:
    trace = builders.Trace()
    for thread, _, at in trace.steps(3):
        thread.launch("sgemm", at + 130, gpu=(at + 500, at + 1_200))  # crosses the one before
        thread.launch("empty", at + 150, gpu=(at + 900, at + 900))
    database = tmp_path / "dlprof_dldb.sqlite"
    builders.analyze_file(trace.write(tmp_path / "run.sqlite"), database)
    found = traced(database)
    ((count, total_ns),) = query(database, "SELECT count(*), sum(duration) FROM kernels")
    assert found.count["other kernel"] == count == 9
    assert found.duration_ns["other kernel"] == total_ns


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30)), max_size=40).map(
        lambda events: sorted(((a, a + d) for a, d in events), key=lambda e: (e[0], -e[1]))
    )
)
def test_sets_of_events_nest_and_hold_every_event_once(events: list[tuple[int, int]]) -> None:
    times = np.array(events, dtype=np.int64).reshape(-1, 2)
    start, stop = times.T
    seen: list[int] = []
    for rows in nested_sets(start, stop):
        seen += rows.tolist()
        chosen = [events[row] for row in rows]
        for number, (low, high) in enumerate(chosen):
            for other_low, other_high in chosen[number + 1 :]:
                assert other_low >= high or other_high <= high
                assert other_low >= low
    assert sorted(seen) == list(range(len(events)))


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20))
def test_columns_are_encoded_as_the_library_encodes_them(values: list[int]) -> None:
    column = np.array(values, dtype=np.uint64)
    present = column % np.uint64(2) == 0
    event = [varints(11, column), fixed64s(47, column, present)]
    encoding = encoded(messages(1, [varints(8, column), messages(11, event)]))
    expected = Trace()
    for value in values:
        packet = expected.packet.add(timestamp=value)
        packet.track_event.track_uuid = value
        packet.track_event.flow_ids.extend([value] if value % 2 == 0 else [])
    assert Trace.FromString(encoding) == expected


def test_the_command_writes_some_iterations_and_nothing_twice(
    imported: ProfileFactory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = imported("pytorch_resnet50_amp")
    target = tmp_path / "run.pftrace"
    words = ["export", "--format=perfetto", str(database), f"--output={target}"]
    words += ["--iter_start=5", "--iter_stop=6"]
    assert [main(words), main(words), main([*words, "--force"])] == [0, 2, 0]
    assert "exists already" in capsys.readouterr().err
    found = _Parser(target.read_bytes()).found
    ((count,),) = query(
        database,
        "SELECT count(*) FROM kernels AS k, (SELECT min(start) AS low, max(stop) AS high FROM"
        " iterations WHERE aggr = 1 AND iter_value BETWEEN 5 AND 6) WHERE k.start < high"
        " AND k.start + k.duration > low",
    )
    assert sum(found.count[kind] for kind in KINDS) == count
    assert found.count["iteration"] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["run.pftrace"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["{folder}/none.sqlite"], 5, "none.sqlite"),
        (["{folder}/note.txt"], 4, "note.txt"),
        (["{database}", "--iter_start=900"], 2, "none of these iterations"),
        (["{database}", "--aggregation=9"], 2, "no aggregation 9"),
        (["{database}", "--output={folder}/note.txt/run"], 5, "note.txt"),
    ],
)
def test_bad_input_is_one_sentence_and_no_file(
    words: list[str],
    code: int,
    said: str,
    imported: ProfileFactory,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "note.txt").write_text("no profile")
    known = {"folder": tmp_path, "database": imported("nvtx_domains")}
    given_words = [word.format(**known) for word in words]
    if not any("--output" in word for word in given_words):
        given_words.append(f"--output={tmp_path}/run.pftrace")
    assert main(["export", "--format=perfetto", *given_words]) == code
    assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["note.txt"]
