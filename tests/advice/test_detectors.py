"""DLProf's detectors on real captures: one where each fires, and one where it must not."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from aggregator.advice.dlprof import DETECTORS, Evidence
from aggregator.advice.dlprof.gpus import batch_factor
from aggregator.advice.dlprof.iterations import steady_run
from aggregator.advice.dlprof.ops import detect_bad_tensor_shape, detect_no_fusion
from tests.builders import analyze, one_gpu, query, table
from tests.conftest import ProfileFactory

Connect = Callable[..., sqlite3.Connection]
Window = tuple[str, int | None, int | None]


def issues(connection: sqlite3.Connection) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    query = "SELECT exp_sys_id, problem, recommendation FROM view_expert_systems"
    for name, problem, recommendation in connection.execute(query):
        found.setdefault(name, []).append((problem, recommendation))
    return found


@pytest.mark.parametrize(("name", "there", "absent", "words"), table("detectors"))
def test_each_detector_fires_on_one_capture_and_not_on_another(
    capture: Connect, name: str, there: Window, absent: Window, words: str
) -> None:
    assert any(words in problem for problem, _ in issues(capture(*there))[name])
    found = issues(capture(*absent)).get(name, [])
    assert not any(words.partition(":")[0] in problem for problem, _ in found)


def test_a_gpu_without_work_is_reported_beside_low_utilization(capture: Connect) -> None:
    problems = [one for one, _ in issues(capture("one_of_two"))["underutilized_gpu_detector"]]
    assert problems[0] == "The following GPU device IDs are not being used: 1"
    assert problems[1].startswith("The GPU is underutilized")


def test_gpus_that_the_run_could_not_see_are_not_missed(capture: Connect) -> None:
    problems = [one for one, _ in issues(capture("graphed_nodes"))["underutilized_gpu_detector"]]
    assert not any("not being used" in problem for problem in problems)


def test_the_recommended_range_is_steady(capture: Connect) -> None:
    recommended = issues(capture("adam_loop"))["bad_iteration_range_detector"][0][1]
    assert "--iter_start=3 --iter_stop=7" in recommended
    assert "bad_iteration_range_detector" not in issues(capture("adam_loop", 2, 7))


def test_a_batch_fits_up_to_four_times_as_often() -> None:
    assert [batch_factor(share) for share in (2, 7, 23, 26, 49, 51, 90)] == [4, 4, 4, 2, 2, 1, 1]


def test_longest_run_of_similar_iterations_is_found() -> None:
    lengths = [900, 100, 101, 99, 400, 100, 98, 102, 100, 700, 650]
    assert steady_run(np.array(lengths)) == (1, 8)
    assert steady_run(np.array([1, 10, 100, 1000])) is None
    assert steady_run(np.array([1, 1])) is None


def tensorflow(mode: str, types: tuple[str, ...], data_type: str, *, using: bool) -> Evidence:
    """Invented: no capture of TensorFlow was at hand."""
    count = len(types)
    ops = SimpleNamespace(
        names=types, types=types, data_types=(data_type,) * count, eligible=np.ones(count, bool)
    )
    metrics = SimpleNamespace(op=np.arange(count), using_tc=np.full(count, using))
    evidence = SimpleNamespace(
        data=SimpleNamespace(mode=mode, ops=ops), ops=metrics, graph_ops=frozenset()
    )
    return cast("Evidence", cast("Any", evidence))


def test_half_precision_ops_of_tensorflow_that_run_without_tensor_cores() -> None:
    issue = detect_bad_tensor_shape(tensorflow("tensorflow2", ("MatMul",), "float16", using=False))
    assert issue is not None
    assert issue.problem.startswith("1 ops were eligible to use tensor cores")
    for mode, data_type, using in (
        ("tensorflow2", "float16", True),
        ("tensorflow2", "float32", False),
        ("pytorch", "float16", False),
    ):
        assert (
            detect_bad_tensor_shape(tensorflow(mode, ("MatMul",), data_type, using=using)) is None
        )


def test_xla_is_recommended_for_tensorflow_1() -> None:
    issue = detect_no_fusion(tensorflow("tensorflow1", ("MatMul", "Relu"), "", using=False))
    assert issue is not None
    assert "XLA" in issue.recommendation
    for mode, types in (("tensorflow1", ("MatMul", "_XlaRun")), ("tensorflow2", ("MatMul",))):
        assert detect_no_fusion(tensorflow(mode, types, "", using=False)) is None


def test_the_names_are_a_fixed_list(capture: Connect) -> None:
    known = {
        *("amp_detector", "bad_iteration_range_detector", "bad_tensor_shape_detector"),
        *("batch_size_detector", "cudnn_benchmark_detector", "dataloader_detector"),
        *("emit_nvtx_detector", "imbalanced_gpu_detector", "no_fusion_detector"),
        *("no_iterations_detector", "slow_api_detector", "underutilized_gpu_detector"),
    }
    assert len(DETECTORS) == len(known) + 1  # one of them has two forms
    for name in ("conv_fp32", "anomaly", "ddp_uneven", "markers_only"):
        connection = capture(name)
        assert set(issues(connection)) <= known
        query = "SELECT DISTINCT javascript_function FROM view_expert_systems"
        assert {row[0] for row in connection.execute(query)} <= {"", "ShowBadDataTypeOps"}


# --- sentences that were wrong on captures of other people ----------------------------------------

MS = 1_000_000


def detected(path: Path, aggregation: int = 1) -> dict[str, str]:
    """Detector -> its last problem and recommendation."""
    sql = (
        "SELECT exp_sys_id, problem || ': ' || recommendation FROM view_expert_systems"
        " WHERE aggr_id = ?"
    )
    return dict(query(path, sql, aggregation))


def test_a_gpu_that_copies_is_not_advised_to_run_ops(imported: ProfileFactory) -> None:
    found = detected(imported("ginda_h100_2gpu_1s"))
    assert (
        "copied or set memory, and ran no kernel, for 97.0%" in found["underutilized_gpu_detector"]
    )


@pytest.mark.parametrize(
    "name",
    [
        "ginda_h100_2gpu_1s",  # its kernels have no launches
        "yyh_net",  # a forward pass
        "critical_path__cuda_event_sync__event_sync_trace.json.gz",  # no markers of emit_nvtx
    ],
)
def test_without_a_backward_pass_of_markers_none_is_missed(
    imported: ProfileFactory, name: str
) -> None:
    assert "emit_nvtx_detector" not in detected(imported(name))


@pytest.mark.parametrize("trains", [True, False])
def test_strays_of_a_training_are_a_backward_pass(tmp_path: Path, trains: bool) -> None:
    trace, main = one_gpu()
    for step in range(4):
        at = step * MS
        main.op("conv2d", at + 100, at + 900)
        main.launch("conv", at + 110, gpu=(at + 200, at + 300))
        main.launch("dgrad", at + 2000, gpu=(at + 3000, at + 3500))
        if trains:
            main.range("Optimizer.step#SGD.step, op_id = 6", at + 5000, at + 6000)
    main.call("cudaDeviceSynchronize_v3020", 5 * MS, 6 * MS)
    assert ("emit_nvtx_detector" in detected(analyze(trace, tmp_path).path)) == trains


def test_utilization_is_unknown_where_records_were_lost(imported: ProfileFactory) -> None:
    assert "underutilized_gpu_detector" not in detected(imported("jax_cnn_bf16"))


@pytest.mark.parametrize(
    ("name", "whole", "steady"),
    [
        ("static", "--iter_start=12 --iter_stop=380", 2),
        ("module", "--iter_start=2 --iter_stop=63", 2),
    ],
)
def test_a_steady_range_is_recommended_once(
    imported: ProfileFactory, name: str, whole: str, steady: int
) -> None:
    assert whole in detected(imported(name))["bad_iteration_range_detector"]
    assert "bad_iteration_range_detector" not in detected(imported(name), steady)
