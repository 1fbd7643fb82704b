"""Allocations in traces of torch.profiler and in exports of Nsight Systems."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path

import pytest

from aggregator.errors import UnsupportedProfileError
from aggregator.metrics.memory.analysis import analyze
from aggregator.sources.memory import read_memory
from tests.builders import alter
from tests.conftest import DEMO_PROFILE, ProfileFactory

_VLLM = "graph_capture_rank_0.1773709742341309550.pt.trace.json.gz"
SERVING = (
    "inference__sglang_decode__capture_traces__bs_32_rank0.json.gz",
    f"inference__vllm_decode_full__capture_traces__{_VLLM}",
)


@pytest.mark.parametrize("name", SERVING)
def test_counts_are_the_totals_that_the_trace_records(profile: ProfileFactory, name: str) -> None:
    path = profile(name)
    with gzip.open(path) as file:
        events = json.load(file)["traceEvents"]
    marks = [one for one in events if one.get("name") == "[memory]"]
    marks = [one["args"] for one in sorted(marks, key=lambda one: one["ts"])]
    expected = [one for one in marks if one["Device Type"] != 0]
    (memory,) = analyze(read_memory(path))
    # A total is that after its event.
    assert memory.counts.allocated.tolist() == [one["Total Allocated"] for one in expected]
    assert memory.counts.reserved.tolist() == [one["Total Reserved"] for one in expected]
    kinds = memory.bytes_by_kind(memory.at_peak)
    assert sum(kinds.values()) == memory.counts.peak_allocated


def test_an_old_trace_without_addresses_adds_up(profile: ProfileFactory) -> None:
    for memory in analyze(read_memory(profile("w0a.json.gz"))):
        assert memory.counts.allocated.min() == 0
        kinds = memory.bytes_by_kind(memory.at_peak)
        assert sum(kinds.values()) == memory.counts.peak_allocated
        assert min(kinds.values()) > 0


def test_a_trace_without_allocations_says_how_to_record_them(profile: ProfileFactory) -> None:
    with pytest.raises(UnsupportedProfileError) as error:
        read_memory(profile("kineto_resnet50_fp16.pt.trace.json"))
    assert "profile_memory=True" in error.value.hint


def export(path: Path, rows: list[tuple[int, int, int, int, int, int, int]]) -> Path:
    """Write an export with allocations: start, process, device, address, bytes, operation, kind."""
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        connection.execute("CREATE TABLE NVTX_EVENTS (start INTEGER)")
        connection.execute(
            "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER, globalPid INTEGER,"
            " deviceId INTEGER, address INTEGER, bytes INTEGER, memoryOperationType INTEGER,"
            " memKind INTEGER)"
        )
        connection.executemany(
            "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (?, ? << 24, ?, ?, ?, ?, ?)", rows
        )
    connection.close()
    return path


def test_allocations_of_the_driver_are_counted_by_device_and_process(tmp_path: Path) -> None:
    path = export(
        tmp_path / "run.sqlite",
        [
            (10, 7, 0, 4096, 1000, 0, 2),
            (20, 8, 0, 4096, 500, 0, 2),  # another process with the same address
            (25, 7, 0, 9000, 77, 0, 1),  # memory of the host
            (30, 7, 0, 4096, 1000, 1, 2),
            (35, 7, 1, 4096, 64, 1, 2),  # allocated before the capture began
            (40, 7, 1, 8192, 32, 0, 2),
        ],
    )
    first, second = analyze(read_memory(path))
    assert first.counts.allocated.tolist() == [1000, 1500, 500]
    assert (first.counts.peak_allocated, first.peak_at_ns) == (1500, 20)
    assert first.counts.end_reserved == 500
    assert second.counts.start_allocated == 64
    assert second.counts.allocated.tolist() == [0, 32]
    assert second.counts.peak_allocated == 64


def test_an_export_without_allocations_says_how_to_record_them(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    alter(
        path,
        "CREATE TABLE StringIds (id INTEGER, value TEXT)",
        "CREATE TABLE NVTX_EVENTS (start INTEGER)",
    )
    with pytest.raises(UnsupportedProfileError) as error:
        read_memory(path)
    assert "--cuda-memory-usage=true" in error.value.hint


def test_a_database_is_named_as_what_it_is(imported: ProfileFactory) -> None:
    with pytest.raises(UnsupportedProfileError, match="is a DLProf database") as caught:
        read_memory(imported(DEMO_PROFILE))
    assert "export" in caught.value.hint
