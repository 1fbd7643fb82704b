"""Captures that other people made: what is read of them is what plain SQL and plain JSON find."""

from __future__ import annotations

import ast
import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path

import pytest

from aggregator.profile.profile import Profile
from aggregator.sources import open_profile
from aggregator.system.progress import NullProgress
from tests.builders import query
from tests.conftest import ProfileFactory


def read(path: Path) -> Profile:
    return open_profile(path, NullProgress())


TRACES = (
    "amd_trace__mi250_minitoy_train_ROCm6_2_kineto",
    "b200__eager_trace",
    "mi300__resnet_act_checkpoint",
    "negative_queue_length_values_check__rank0",
    "torch_compile_triton__trace",
    "triton_example__triton_example",
    "inference__sglang_decode__capture_traces__bs_32_rank0",
    "inference__sglang_decode__sglang_Qwen3-8B_decode",
    "inference__vllm_decode_full__capture_traces__graph_capture_rank_0.1773709742341309550.pt.trace",
    "inference__vllm_decode_full__graph_execution",
    "critical_path__alexnet__benchmark_result_2869224_1695835535_trace",
    "critical_path__cuda_event_sync__event_sync_trace",
    "critical_path__end_to_end__simple_add__input__trace",
    "critical_path__end_to_end__simple_add__output__overlaid_critical_path_trace",
    "critical_path__simple_add__benchmark_result_493459_1694039959_trace",
    *("w0a", "w0b", "w4a", "w4b"),
)
EXPORTS = ("athrun", "ginda_h100_2gpu_1s", "liz_ddp53", "yyh_net", "zx3")
KERNELS, COPIES, SETS = "kernel", "gpu_memcpy", "gpu_memset"

# Number of events and time covered by them, by kind of work and GPU.
Work = dict[tuple[str, int], tuple[int, int]]


def covered_ns(spans: Iterable[tuple[int, int]]) -> int:
    """Length of the union of some spans."""
    total, reached = 0, -(1 << 62)
    for start, end in sorted(spans):
        total += max(end - max(start, reached), 0)
        reached = max(reached, end)
    return total


def counted(spans: dict[tuple[str, int], list[tuple[int, int]]]) -> Work:
    return {key: (len(found), covered_ns(found)) for key, found in spans.items() if found}


def work_of(profile: Profile) -> Work:
    spans = defaultdict(list)
    kinds = {KERNELS: profile.kernels, COPIES: profile.copies, SETS: profile.sets}
    for kind, work in kinds.items():
        columns = (work.device, work.start_ns, work.end_ns)
        for device, start, end in zip(*(column.tolist() for column in columns), strict=True):
            spans[kind, profile.devices[device].device_id].append((start, end))
    return counted(spans)


def work_in_export(path: Path) -> Work:
    spans = defaultdict(list)
    for kind, table in ((KERNELS, "KERNEL"), (COPIES, "MEMCPY"), (SETS, "MEMSET")):
        table = f"CUPTI_ACTIVITY_KIND_{table}"
        if query(path, f"SELECT 1 FROM sqlite_master WHERE name = '{table}'"):
            for device, start, end in query(path, f'SELECT deviceId, start, "end" FROM {table}'):
                spans[kind, device].append((start, end))
    return counted(spans)


def work_in_trace(path: Path) -> Work:
    text = gzip.decompress(path.read_bytes())
    spans = defaultdict(list)
    for event in json.loads(text, parse_float=Decimal)["traceEvents"]:
        kind = {"memcpy": COPIES, "memset": SETS}.get(
            str(event.get("cat")).lower(), str(event.get("cat")).lower()
        )
        if event.get("ph") == "X" and kind in (KERNELS, COPIES, SETS):
            start = round(Decimal(event["ts"]) * 1000)
            end = start + round(Decimal(event["dur"]) * 1000)
            spans[kind, int(event["args"]["device"])].append((start, end))
    return counted(spans)


@pytest.mark.parametrize("name", EXPORTS)
def test_work_in_an_export_is_that_of_plain_sql(profile: ProfileFactory, name: str) -> None:
    path = profile(name)
    assert work_of(read(path)) == work_in_export(path)


@pytest.mark.parametrize("name", TRACES)
def test_work_in_a_trace_is_that_of_plain_json(profile: ProfileFactory, name: str) -> None:
    path = profile(f"{name}.json.gz")
    assert work_of(read(path)) == work_in_trace(path)


@pytest.mark.parametrize("name", ["liz_ddp53", "yyh_net", "athrun"])
def test_gpus_have_the_numbers_that_cuda_gave_them(profile: ProfileFactory, name: str) -> None:
    # GIVEN an export whose ids of GPUs are in another order than the ordinals of CUDA
    path = profile(name)
    found = read(path)
    # THEN every kernel is on the GPU that "nsys stats" shows for it
    on_gpu = Counter(found.devices[row].device_id for row in found.kernels.device.tolist())
    sql = "SELECT deviceId, count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY deviceId"
    assert on_gpu == dict(query(path, sql))
    # AND the identity of the GPU is that of the table of GPUs
    sql = "SELECT cuDevice, id, uuid FROM TARGET_INFO_GPU WHERE computeMajor > 0 ORDER BY cuDevice"
    assert [(d.device_id, d.host_id, d.uuid) for d in found.devices] == query(path, sql)


def test_ranges_that_an_exception_left_open_swallow_no_op(
    profile: ProfileFactory, imported: ProfileFactory
) -> None:
    # GIVEN the markers of PyProf that were closed before the capture ended, the outermost ones
    path = profile("yyh_net")
    sql = (
        "SELECT start, end, coalesce(text, (SELECT value FROM StringIds WHERE id = textId))"
        " FROM NVTX_EVENTS WHERE end < (SELECT duration FROM ANALYSIS_DETAILS) ORDER BY start"
    )
    markers = [row for row in query(path, sql) if row[2].startswith("{'mod'")]
    assert len(markers) == 276
    expected: Counter[str] = Counter()
    reached = 0
    for start, end, text in markers:
        if start >= reached:
            expected[ast.literal_eval(text)["op"]] += 1
            reached = end
    # THEN each of them is an op, and nothing hides what was left open
    database = imported("yyh_net")
    sql = "SELECT op_node_type, sum(num_calls) FROM view_op_nodes GROUP BY op_node_type"
    found = dict(query(database, sql))
    assert {name: found.get(name) for name in expected} == expected
    sql = "SELECT count FROM warnings WHERE code = 'OPEN_RANGES'"
    assert query(database, sql) == [(2 * 702,)]
