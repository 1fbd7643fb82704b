"""Recordings of GPU memory in a database."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aggregator.dldb.gpu_memory import add_recordings
from aggregator.dldb.memory_reader import read_recordings
from aggregator.errors import DldbVersionError
from aggregator.importing.gpu_memory import recorded
from aggregator.metrics.memory.analysis import DeviceMemory, analyze
from aggregator.metrics.memory.answers import fragmentation, leaks, step_peaks
from aggregator.metrics.memory.what_if import what_if
from aggregator.sources.memory import read_memory
from profiler_cli.dlprof import main
from tests.builders import Trace, query
from tests.builders import analyze as import_trace
from tests.conftest import ProfileFactory
from tests.memory.pickles import SNAPSHOTS, event, segment, write
from tests.memory.test_recorded import unpacked
from tests.memory.test_traces import SERVING


def small_trace() -> Trace:
    trace = Trace()
    trace.gpu(0)
    thread = trace.thread(100)
    thread.op("conv2d", 100, 800)
    thread.launch("sgemm", 110, gpu=(200, 900))
    return trace


def stored(database: Path) -> tuple[DeviceMemory, ...]:
    with closing(sqlite3.connect(database)) as connection:
        return tuple(one.memory for one in read_recordings(connection))


def stacks_of(memory: DeviceMemory) -> list[list[tuple[str, str, int]]]:
    """The frames of each allocation, however they are numbered."""
    one = memory.stacks
    frames = list(zip(one.names, one.files, one.lines, strict=True))
    return [[frames[frame] for frame in one.frames[stack]] for stack in memory.whose.stack.tolist()]


def assert_same(found: DeviceMemory, expected: DeviceMemory) -> None:
    assert (found.device, found.source) == (expected.device, expected.source)
    assert found.time_ns.tolist() == expected.time_ns.tolist()
    for part in ("counts", "rows", "whose"):
        one, other = getattr(found, part), getattr(expected, part)
        for field in dataclasses.fields(one):
            value, wanted = getattr(one, field.name), getattr(other, field.name)
            if field.name == "steps":
                assert (value.bounds.tolist(), value.evidence) == (
                    wanted.bounds.tolist(),
                    wanted.evidence,
                )
            elif field.name == "reserved_changes":
                assert np.array_equal(value.at_all(), wanted.at_all())
            elif field.name != "stack":
                assert np.array_equal(value, wanted), field.name
    assert stacks_of(found) == stacks_of(expected)
    assert fragmentation(found) == fragmentation(expected)
    assert step_peaks(found) == step_peaks(expected)
    assert leaks(found) == leaks(expected)


@pytest.mark.parametrize("name", [*SNAPSHOTS, *SERVING])
def test_a_recording_is_read_back_as_it_was(
    profile: ProfileFactory, tmp_path: Path, name: str
) -> None:
    database = import_trace(small_trace(), tmp_path).path
    memories = analyze(read_memory(profile(name)))
    add_recordings(database, [recorded(one, profile(name), None) for one in memories])
    for found, expected in zip(stored(database), memories, strict=True):
        assert_same(found, expected)


def test_several_recordings_stay_apart(tmp_path: Path) -> None:
    database = import_trace(small_trace(), tmp_path).path
    files = [unpacked(f"{name}.pickle", tmp_path) for name in ("convolution", "transformer")]
    memories = [memory for file in files for memory in analyze(read_memory(file))]
    for file, memory in zip(files, memories, strict=True):
        add_recordings(database, [recorded(memory, file, None)])
    for found, expected in zip(stored(database), memories, strict=True):
        assert_same(found, expected)
    change = "shard:4"
    assert [what_if(one, change) for one in stored(database)] == [
        what_if(one, change) for one in memories
    ]


def test_views_are_what_the_events_say(tmp_path: Path) -> None:
    database = import_trace(small_trace(), tmp_path).path
    file = unpacked("transformer.pickle", tmp_path)
    (memory,) = analyze(read_memory(file))
    add_recordings(database, [recorded(memory, file, None)])
    assert query(database, "SELECT sum(bytes_at_peak) FROM view_memory_peak") == [
        (memory.counts.peak_allocated,)
    ]
    kinds = query(
        database, "SELECT memory_kind, sum(bytes_at_peak) FROM view_memory_peak GROUP BY 1"
    )
    assert dict(kinds) == memory.bytes_by_kind(memory.at_peak)
    steps = query(database, "SELECT memory_step, peak_allocated_bytes FROM view_memory_steps")
    assert steps == [(one.step, one.allocated_bytes) for one in step_peaks(memory)]
    # What lives after each event, by SQL on the single allocations, is what the counts say.
    for place in np.linspace(0, memory.num_events - 1, 9).astype(int).tolist():
        alive = (
            "SELECT coalesce(sum(allocation_bytes), 0) FROM view_memory_allocations"
            f" WHERE coalesce(alloc_event, -1) <= {place}"
            f" AND (free_event IS NULL OR free_event > {place})"
        )
        assert query(database, alive) == [(int(memory.counts.allocated[place]),)]


def one_allocation(folder: Path, name: str) -> Path:
    at_us = 1_700_000_000_000_000
    events = [event("alloc", 4096, 1000, at_us), event("free_requested", 4096, 1000, at_us + 5)]
    return write(folder / name, [events], [segment(1 << 20, [(2048, 0, "inactive")])])


def test_an_import_stores_the_snapshots_beside_its_source(tmp_path: Path) -> None:
    one_allocation(tmp_path, "run_memory_12.pickle")
    one_allocation(tmp_path, "other_memory_13.pickle")
    (tmp_path / "run_memory_14.pickle").write_bytes(b"\x80\x04}.")
    export = small_trace().write(tmp_path / "run.sqlite")
    assert main([f"--database={export}", f"--output_path={tmp_path / 'out'}"]) == 0
    database = tmp_path / "out/dlprof_dldb.sqlite"
    rows = "SELECT source_file, memory_source, peak_allocated_bytes FROM view_memory_recordings"
    assert query(database, rows) == [("run_memory_12.pickle", "snapshot", 1000)]
    (warning,) = query(database, "SELECT message FROM warnings WHERE code = 'MEMORY'")
    assert "run_memory_14.pickle" in warning[0]


def test_allocations_of_the_driver_are_stored_by_an_import(tmp_path: Path) -> None:
    export = small_trace().write(tmp_path / "run.sqlite")
    with closing(sqlite3.connect(export)) as connection:
        connection.execute(
            "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER, globalPid INTEGER,"
            " deviceId INTEGER, address INTEGER, bytes INTEGER, memoryOperationType INTEGER,"
            " memKind INTEGER)"
        )
        connection.executemany(
            "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (?, ?, 0, ?, ?, ?, 2)",
            [(150, 100 << 24, 1, 700, 0), (300, 100 << 24, 2, 50, 0), (400, 100 << 24, 1, 700, 1)],
        )
        connection.commit()
    assert main([f"--database={export}", f"--output_path={tmp_path / 'out'}"]) == 0
    database = tmp_path / "out/dlprof_dldb.sqlite"
    assert query(
        database,
        "SELECT memory_source, clock_offset, peak_allocated_bytes, end_allocated_bytes"
        " FROM view_memory_recordings",
    ) == [("nsys", 0, 750, 50)]
    ((has_memory,),) = query(database, "SELECT value FROM dldb_meta WHERE key = 'has_memory'")
    assert has_memory == "1"


def as_json(file: Path, capsys: pytest.CaptureFixture[str], *more: str) -> Any:
    capsys.readouterr()
    assert main(["memory", str(file), "--format=json", *more]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_database_answers_as_the_snapshot_that_was_added(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = import_trace(small_trace(), tmp_path).path
    snapshot = unpacked("convolution.pickle", tmp_path)
    expected = as_json(snapshot, capsys, f"--into={database}")
    assert as_json(database, capsys) == expected
    assert main(["memory", str(database)]) == 0
    text = capsys.readouterr().out
    assert main(["memory", str(snapshot)]) == 0
    assert capsys.readouterr().out == text


def test_a_database_without_recordings_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = import_trace(small_trace(), tmp_path).path
    assert main(["memory", str(database)]) == 4
    assert "--into" in capsys.readouterr().err


def test_an_older_database_takes_no_recording(tmp_path: Path) -> None:
    database = import_trace(small_trace(), tmp_path).path
    older = shutil.copy(database, tmp_path / "older.sqlite")
    with closing(sqlite3.connect(older)) as connection:
        for (view,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'view' AND name LIKE 'view_memory_%'"
        ).fetchall():
            connection.execute(f"DROP VIEW {view}")
        connection.execute("DROP TABLE memory_recordings")
    file = one_allocation(tmp_path, "s.pickle")
    memories = analyze(read_memory(file))
    with pytest.raises(DldbVersionError):
        add_recordings(Path(older), [recorded(one, file, None) for one in memories])
    assert stored(Path(older)) == ()
