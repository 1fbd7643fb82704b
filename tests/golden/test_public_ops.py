"""Ops of captures that other people made: what has a range around it has a name."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aggregator.profile.intervals import flatten
from tests.builders import Trace, analyze, query
from tests.conftest import ProfileFactory
from tests.golden.test_rules_markers import name_thread

EXPORTS = (
    *("liz_ddp53", "athrun", "ginda_h100_2gpu_1s", "pytorch_resnet50_amp", "pytorch_bert_bf16"),
    *("ddp2_resnet50_amp", "simple_no_nvtx", "module", "gpt", "children", "torchrun1", "ddp"),
)
TRACES = (
    *("mi300__resnet_act_checkpoint.json.gz", "b200__eager_trace.json.gz"),
    *("negative_queue_length_values_check__rank0.json.gz", "torch_compile_triton__trace.json.gz"),
    *("w0a.json.gz", "w4b.json.gz", "kineto_resnet50_fp16.pt.trace.json"),
    "amd_trace__mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    "critical_path__alexnet__benchmark_result_2869224_1695835535_trace.json.gz",
    "critical_path__simple_add__benchmark_result_493459_1694039959_trace.json.gz",
    "inference__sglang_decode__sglang_Qwen3-8B_decode.json.gz",
    "inference__vllm_decode_full__graph_execution.json.gz",
)


def _named_ns(database: Path) -> int:
    """GPU time of the kernels in ops of the default domain."""
    sql = (
        "SELECT sum(k.duration) FROM kernels AS k JOIN op_kernels AS q ON q.id = k.op_kernel"
        " JOIN ops AS o ON o.id = q.op WHERE o.domain = 1"
        " AND o.op_name NOT LIKE 'unassociated%' AND o.op_name NOT LIKE 'simple_mode%'"
    )
    return int(query(database, sql)[0][0] or 0)


def _covered(ranges: list[tuple[float, float]], times: list[float]) -> Any:
    """Whether each time lies in any range."""
    start = np.array([one[0] for one in ranges], dtype=np.int64)
    end = np.array([one[1] for one in ranges], dtype=np.int64)
    time = np.array(times, dtype=np.int64)
    union = flatten(start, end)
    return union.covered_before(time + 1) > union.covered_before(time)


def _coverable_of_export(path: Path) -> int:
    """GPU time of kernels launched inside a range of the default domain.

    The range is open on the launching thread, or, for a thread of the autograd engine, anywhere in
    its process.
    """
    rows = query(
        path,
        "SELECT globalTid, start, end FROM NVTX_EVENTS WHERE eventType = 59 AND end NOTNULL"
        " AND coalesce(domainId, 0) = 0",
    )
    engine = {
        row[0]
        for row in query(
            path,
            "SELECT t.globalTid FROM ThreadNames AS t JOIN StringIds AS s ON s.id = t.nameId"
            " WHERE s.value LIKE 'pt_autograd%'",
        )
    }
    launches = query(
        path,
        "SELECT r.globalTid, r.start, k.end - k.start FROM CUPTI_ACTIVITY_KIND_KERNEL AS k"
        " JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS r ON r.correlationId = k.correlationId"
        " AND (r.globalTid >> 24) = (k.globalPid >> 24)",
    )
    ranges: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for tid, start, end in rows:
        ranges[tid].append((start, end))
        ranges[-(tid >> 24)].append((start, end))
    return _sum_of_covered(launches, ranges, engine)


def _sum_of_covered(
    launches: list[tuple[int, float, float]],
    ranges: dict[int, list[tuple[float, float]]],
    engine: set[int],
) -> int:
    of_thread: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for tid, start, duration in launches:
        of_thread[tid].append((start, duration))
    total = 0
    for tid, work in of_thread.items():
        around = ranges[tid] + (ranges[-(tid >> 24)] if tid in engine else [])
        hit = _covered(around, [start for start, _ in work])
        total += int(np.array([length for _, length in work], dtype=np.int64)[hit].sum())
    return total


def _coverable_of_trace(path: Path) -> int:
    content = path.read_bytes()
    events = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
    ranges: dict[int, list[tuple[float, float]]] = defaultdict(list)
    calls: dict[object, tuple[int, float]] = {}
    kernels = []
    for event in events["traceEvents"]:
        category, more = str(event.get("cat", "")).lower(), event.get("args", {})
        # A step of the profiler names no part of the program.
        is_step = str(event.get("name")).startswith("ProfilerStep#")
        if category in ("cpu_op", "operator", "user_annotation") and not is_step:
            start = 1000 * event["ts"]
            ranges[hash(event["tid"])].append((start, start + 1000 * event["dur"]))
        elif category in ("cuda_runtime", "cuda_driver", "runtime"):
            calls[more.get("correlation")] = (hash(event["tid"]), 1000 * event["ts"])
        elif category == "kernel":
            kernels.append((more.get("correlation"), 1000 * event["dur"]))
    launches = [(*calls[key], duration) for key, duration in kernels if key in calls]
    return _sum_of_covered(launches, ranges, set())


@pytest.mark.parametrize("name", EXPORTS)
def test_what_an_export_has_a_range_around_has_a_name(
    profile: ProfileFactory, imported: ProfileFactory, name: str
) -> None:
    coverable = _coverable_of_export(profile(name))
    assert coverable > 0
    assert _named_ns(imported(name)) >= 0.95 * coverable


@pytest.mark.parametrize("name", TRACES)
def test_what_a_trace_has_a_range_around_has_a_name(
    profile: ProfileFactory, imported: ProfileFactory, name: str
) -> None:
    coverable = _coverable_of_trace(profile(name))
    assert coverable > 0
    assert _named_ns(imported(name)) >= 0.95 * coverable


def _training(trace: Trace) -> None:
    """Three steps with ranges of the program only; the engine runs the backward pass."""
    main = trace.thread()
    engine = main.process.thread(2)
    other = main.process.thread(3)
    name_thread(trace, engine, "pt_autograd_0")
    for step in range(3):
        at = 10_000 * step
        main.range(f"step {step}", at, at + 9_000)
        main.range("forward", at + 100, at + 2_000)
        main.launch(f"forward{step}", at + 200)
        main.range("backward", at + 3_000, at + 6_000)
        engine.launch(f"backward{step}", at + 3_500)
        engine.range("hook", at + 4_000, at + 4_500)
        engine.launch(f"hook{step}", at + 4_100)
        other.launch(f"other{step}", at + 3_600)


def test_ranges_of_the_program_name_the_work_where_there_are_no_others(tmp_path: Path) -> None:
    trace = Trace()
    _training(trace)
    found = analyze(trace, tmp_path)
    assert found.result.mode == "simple"
    assert "ranges of the program" in found.result.mode_reason
    kernels = {name: op for name, (op, _) in found.kernels().items()}
    assert kernels["forward1"] == "/step #/forward"
    assert kernels["backward1"] == "/step #/backward"
    assert kernels["hook1"] == "/hook"
    assert kernels["other1"].startswith("unassociated_")


def test_ranges_outside_which_everything_ran_change_nothing(tmp_path: Path) -> None:
    trace = Trace()
    main = trace.thread()
    main.range("setup", 0, 100)
    main.launch("work", 500)
    found = analyze(trace, tmp_path)
    assert found.kernels()["work"][0] == "simple_mode_global_node_name"


def test_the_model_is_not_part_of_the_optimizer_that_runs_it(tmp_path: Path) -> None:
    trace = Trace()
    main = trace.thread()
    engine = main.process.thread(2)
    for step in range(3):
        at = 10_000 * step
        main.range("Optimizer.step#Adam.step", at, at + 5_000)
        main.range("torch.nn: Net (Net)", at + 100, at + 500)
        main.op("linear", at + 110, at + 400, seq=2 * step)
        main.launch(f"forward{step}", at + 120)
        main.op("mse_loss", at + 510, at + 590, seq=2 * step + 1)
        main.launch(f"loss{step}", at + 520)
        engine.backward("AddmmBackward0", at + 1_000, at + 1_500, seq=2 * step)
        engine.launch(f"backward{step}", at + 1_100)
        main.op("_foreach_add_", at + 4_000, at + 4_500)
        main.launch(f"update{step}", at + 4_100)
    kernels = {name: op for name, (op, _) in analyze(trace, tmp_path).kernels().items()}
    assert kernels["forward1"] == kernels["backward1"] == "/Net/linear"
    assert kernels["loss1"] == "/mse_loss"
    assert kernels["update1"] == "/Optimizer.step#Adam.step/_foreach_add_"


def test_a_public_capture_of_lightning_has_the_models_paths(imported: ProfileFactory) -> None:
    rows = query(imported("module"), "SELECT op_name, op_type FROM ops WHERE domain = 1")
    own = {kind for name, kind in rows if name.startswith("/Optimizer.step#")}
    assert {"_foreach_add_", "_foreach_sqrt"} <= own
    assert own.isdisjoint({"linear", "relu", "cross_entropy_loss", "mse_loss", "backward"})
    assert any(name.startswith("/Sequential/") for name, _ in rows)


def test_an_op_that_used_tensor_cores_is_eligible(imported: ProfileFactory) -> None:
    rows = query(
        imported("b200__eager_trace.json.gz"),
        "SELECT op_node_type, min(tc_eligible), min(tc_fit_text) FROM view_op_metrics"
        " WHERE using_tc = 1 GROUP BY 1",
    )
    found = {kind: (eligible, fit) for kind, eligible, fit in rows}
    assert found["moe_forward"] == found["unified_attention_with_output"] == (1, "yes")
    assert set(found.values()) == {(1, "yes")}
