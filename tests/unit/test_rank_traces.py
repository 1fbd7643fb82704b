"""Ranks of one job as traces of torch.profiler: which is which, their clocks, waiting and sizes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from aggregator.errors import NotOneJobError
from aggregator.options import ImportOptions
from aggregator.ranks.rank_import import import_ranks
from aggregator.system.progress import NullProgress
from tests.builders import Analyzed

STEPS = 4
BASE_NS = 1_800_000_000_000_000_000
REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def event(cat: str, name: str, ts: float, dur: float, pid: int, **args: Any) -> dict[str, Any]:
    where = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": pid}
    return where | {"ts": ts, "dur": dur, "args": args}


def launch(kernel: str, ts: float, gpu: tuple[float, float], pid: int, number: int) -> list[Any]:
    """A call of 2 us and the kernel that it launched."""
    place = {"device": 0, "stream": 7, "grid": [1, 1, 1], "block": [32, 1, 1]}
    start, stop = gpu
    return [
        event("cuda_runtime", "cudaLaunchKernelExC", ts, 2, pid, correlation=number),
        event("kernel", kernel, start, stop - start, 0, correlation=number, **place) | {"tid": 7},
    ]


def communicate(size: int, element: str, ts: float, pid: int) -> list[Any]:
    sizes = {"Input Dims": [[size], [], []], "Input type": [element, "Scalar", ""]}
    return [
        event("cpu_op", "c10d::allreduce_", ts, 30, pid),
        event("cpu_op", "record_param_comms", ts + 1, 20, pid, **sizes),
        event("user_annotation", "nccl:all_reduce", ts + 2, 15, pid),
    ]


def trace(rank: int, *, late_us: float = 0.0, base_ns: int = BASE_NS, has_rank: bool = True) -> str:
    """Steps with an op, an all-reduce of 1,000 numbers and an all-gather of 500."""
    pid = 100 + rank
    events: list[Any] = []
    for step in range(STEPS):
        at = 1000.0 * step
        relu = {"Input Dims": [[2, 3]], "Input type": ["float"]}
        events += [event("user_annotation", f"ProfilerStep#{step}", at, 900, pid)]
        events += [event("cpu_op", "aten::relu", at + 10, 40, pid, **relu)]
        events += launch("relu_kernel", at + 20, (at + 30, at + 40), pid, 10 * step + 1)
        events += communicate(1000, "c10::BFloat16", at + 100, pid)
        gpu = (at + 200 + late_us, at + 400)
        events += launch(REDUCE, at + 103, gpu, pid, 10 * step + 2)
        events += communicate(500, "float", at + 500, pid)
        events += launch(GATHER, at + 503, (at + 600, at + 700), pid, 10 * step + 3)
    device = {"id": 0, "name": "NVIDIA H200", "computeMajor": 9, "computeMinor": 0, "numSms": 132}
    head: dict[str, Any] = {"schemaVersion": 1, "deviceProperties": [device]}
    head["baseTimeNanoseconds"] = base_ns
    if has_rank:
        head["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": 2}
    return json.dumps(head | {"traceEvents": events})


def join(folder: Path, files: list[Path]) -> Analyzed:
    database = folder / "joined.sqlite"
    options = ImportOptions(Path(), database)
    return Analyzed(database, import_ranks(options, files, NullProgress(), workers=1))


def test_traces_hold_their_ranks_and_their_waiting(tmp_path: Path) -> None:
    # The wrong order, names without a rank, one packed; rank 1 is 50 us late.
    first, second = tmp_path / "b.json", tmp_path / "a.json.gz"
    first.write_text(trace(1, late_us=50.0))
    second.write_bytes(gzip.compress(trace(0).encode()))
    found = join(tmp_path, [first, second])
    sql = "SELECT rank, source_file, process_id FROM view_ranks WHERE aggr_id = 1 ORDER BY rank"
    assert found.query(sql) == [(0, "a.json.gz", 100), (1, "b.json", 101)]
    waited = found.query(
        "SELECT rank, sum(waiting_ns), sum(kept_waiting_ns) FROM view_collectives"
        " WHERE aggr_id = 1 GROUP BY rank"
    )
    assert waited == [(0, STEPS * 50_000, 0), (1, 0, STEPS * 50_000)]


def test_sizes_come_with_their_types(tmp_path: Path) -> None:
    files = [tmp_path / f"rank{rank}.json" for rank in range(2)]
    for rank, path in enumerate(files):
        path.write_text(trace(rank))
    found = join(tmp_path, files)
    sql = "SELECT DISTINCT collective_name, bytes, bytes_unknown FROM view_collectives ORDER BY 1"
    assert found.query(sql) == [("AllGather", 2_000, ""), ("AllReduce", 2_000, "")]


def test_two_traces_of_one_rank_are_refused(tmp_path: Path) -> None:
    files = [tmp_path / "rank0.json", tmp_path / "rank1.json"]
    files[0].write_text(trace(0))
    files[1].write_text(trace(0, base_ns=BASE_NS + 7))
    with pytest.raises(NotOneJobError, match="are both rank 0"):
        join(tmp_path, files)


def test_clocks_of_two_machines_are_brought_together(tmp_path: Path) -> None:
    files = [tmp_path / "rank0.json", tmp_path / "rank1.json"]
    files[0].write_text(trace(0, has_rank=False))
    files[1].write_text(trace(1, late_us=20.0, has_rank=False, base_ns=BASE_NS + 3_000_000))
    found = join(tmp_path, files)
    sql = "SELECT clock_correction_ns, aligned_by FROM view_ranks WHERE aggr_id = 1 AND rank = 1"
    assert found.query(sql) == [(-3_000_000, "collectives")]
    waited = found.query(
        "SELECT sum(waiting_ns) FROM view_collectives WHERE rank = 0 AND aggr_id = 1"
    )
    assert waited == [(STEPS * 20_000,)]


def numbered(text: str, without: int) -> str:
    """A trace whose collectives have the numbers of PyTorch 2.13; the first ones are missing."""
    document = json.loads(text)
    kernels = [
        one for one in document["traceEvents"] if "nccl" in one["name"] and one["cat"] == "kernel"
    ]
    for number, one in enumerate(sorted(kernels, key=lambda one: one["ts"])):
        one["args"]["Comms Id"] = (1 << 64) - 977 * number - 2  # a hash without a sign
    left_out = [one["args"]["correlation"] for one in kernels[:without]]
    document["traceEvents"] = [
        one for one in document["traceEvents"] if one["args"].get("correlation") not in left_out
    ]
    return json.dumps(document)


def test_numbered_calls_are_matched_where_a_trace_begins_later(tmp_path: Path) -> None:
    """Rank 1 lacks the first reduce and gather: by order, it would be one step off."""
    files = [tmp_path / f"rank{rank}.json" for rank in range(2)]
    for rank, path in enumerate(files):
        path.write_text(numbered(trace(rank, late_us=50.0 * rank), without=2 * rank))
    found = join(tmp_path, files)
    sql = (
        "SELECT sequence, num_ranks, waiting FROM collectives AS c JOIN ranks AS r ON r.id = c.rank"
        " WHERE r.rank = 0 AND kind = 'AllReduce' ORDER BY kernel"
    )
    rows = found.query(sql)
    assert [row[1] for row in rows] == [1, 2, 2, 2]
    assert [row[2] for row in rows[1:]] == [50_000] * 3
    assert [row[0] for row in rows] == [0, 2, 4, 6]


def test_several_kernels_of_one_numbered_call_are_matched_in_order(tmp_path: Path) -> None:
    files = [tmp_path / f"rank{rank}.json" for rank in range(2)]
    for rank, path in enumerate(files):
        document = json.loads(numbered(trace(rank, late_us=50.0 * rank), without=0))
        for one in document["traceEvents"]:
            if "Comms Id" in one["args"]:
                one["args"]["Comms Id"] = "7"  # all of them, in quotes
        path.write_text(json.dumps(document))
    found = join(tmp_path, files)
    sql = "SELECT count(*), min(num_ranks), count(DISTINCT sequence) FROM collectives"
    assert found.query(sql) == [(4 * STEPS, 2, 2 * STEPS)]
    waited = found.query("SELECT sum(waiting) FROM collectives AS c WHERE c.rank = 1")
    assert waited == [(STEPS * 50_000,)]
