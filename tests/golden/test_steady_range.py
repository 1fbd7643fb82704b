"""The steady range: which iterations an import aggregates beside all of them, and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import Analyzed, Thread, Trace, analyze, one_gpu, query
from tests.conftest import ProfileFactory

MS = 1_000_000
COLUMNS = (
    "iter_start, iter_stop, is_steady, steady_note, steps, iter_median, iter_p10, iter_p90"
    " FROM view_aggregations ORDER BY aggr_id"
)


def _steps(main: Thread, lengths_ms: list[float], kernels: list[int] | None = None) -> None:
    """Steps that each begin with clearing the gradients, one after another."""
    at = 1000
    for number, length in enumerate(lengths_ms):
        main.range("Optimizer.zero_grad#SGD.zero_grad, op_id = 5", at, at + 100)
        for kernel in range(kernels[number] if kernels else 1):
            begin = at + 1000 + kernel * 1000
            main.op("conv2d", begin, begin + 500)
            main.launch("conv", begin + 10, gpu=(begin + 50, begin + 400))
        main.range("Optimizer.step#SGD.step, op_id = 6", at + 200_000, at + 300_000)
        at += round(length * MS)
    main.call("cudaDeviceSynchronize_v3020", at - 100_000, at)


def _analyzed(tmp_path: Path, lengths: list[float], kernels: list[int] | None = None) -> Analyzed:
    trace = Trace()
    trace.gpu()
    _steps(trace.thread(), lengths, kernels)
    return analyze(trace, tmp_path)


def test_warm_up_and_the_end_are_left_out(tmp_path: Path) -> None:
    found = _analyzed(tmp_path, [200, 50, *[10.0] * 8, 80])
    default, steady = found.query(f"SELECT {COLUMNS}")
    assert default[:3] == (0, 11, 0)
    assert steady[:3] == (3, 10, 1)
    assert (
        steady[3]
        == default[3]
        == (
            "iterations 3 to 10 are steady; left out: warm-up (iterations 0 to 2, up to 20.0 times "
            "the median step); the end of the program (iteration 11)"
        )
    )
    assert steady[4:] == (8, 10 * MS, 10 * MS, 10 * MS)
    assert default[4] == 11  # the interval before the loop is no step
    assert found.result.aggr_id == 1


def test_slow_steps_before_the_end_are_no_end_of_the_program(tmp_path: Path) -> None:
    found = _analyzed(tmp_path, [50, *[10.0] * 8, 30, 25, 80])
    _, steady = found.query(f"SELECT {COLUMNS}")
    assert steady[:2] == (2, 9)
    assert "warm-up (iterations 0 to 1, up to 5.0 times the median step)" in steady[3]
    assert steady[3].endswith(
        "; slow steps (iterations 10 to 11, up to 3.0 times the median step); the end of the "
        "program (iteration 12)"
    )


def test_one_slow_step_before_the_end_is_no_range(tmp_path: Path) -> None:
    found = _analyzed(tmp_path, [50, *[10.0] * 9, 25, 80])
    _, steady = found.query(f"SELECT {COLUMNS}")
    assert steady[3].endswith(
        "; a step of 2.5 times the median (iteration 11); the end of the program (iteration 12)"
    )


def test_two_typical_steps_begin_no_steady_range(tmp_path: Path) -> None:
    found = _analyzed(tmp_path, [50, 10.0, 10, 40, *[10.0] * 8, 80])
    _, steady = found.query(f"SELECT {COLUMNS}")
    assert steady[:2] == (5, 12)


def test_a_range_of_mostly_other_steps_is_not_steady(tmp_path: Path) -> None:
    lengths = [*[10.0] * 3, *[40.0, 10.0] * 6, 10.0, 10.0]
    kernels = [*[3] * 3, *[3, 30] * 6, 3, 3]
    _, steps = _analyzed(tmp_path, lengths, kernels).query(f"SELECT {COLUMNS}")
    assert steps[:3] == (1, 17, 1)
    assert steps[3] == (
        "no steady range: the times of the steps differ too much; left out: start-up (iteration 0)"
    )


def test_start_up_and_an_end_without_kernels_are_left_out_of_uneven_steps(tmp_path: Path) -> None:
    kernels = [0, 3, 30, 3, 30, 3, 30, 3, 30, 0, 0]
    found = _analyzed(tmp_path, [900, *[40.0, 10] * 4, 10, 700], kernels)
    _, steps = found.query(f"SELECT {COLUMNS}")
    assert steps[:3] == (2, 9, 1)
    assert steps[3] == (
        "no steady range: the times of the steps differ too much; left out: start-up (iterations "
        "0 to 1); the end of the program (iterations 10 to 11)"
    )


def test_steps_of_a_loader_that_lags_end_with_the_last_kernel(imported: ProfileFactory) -> None:
    whole, steps = query(imported("vit_loader"), f"SELECT {COLUMNS}")
    assert whole[:3] == (0, 27, 0)
    assert steps[:3] == (1, 26, 1)
    assert steps[3].endswith("start-up (iteration 0); the end of the program (iteration 27)")


def test_slow_steps_within_the_range_stay(tmp_path: Path) -> None:
    lengths = [100, *[10.0, 10, 10, 10, 40] * 4, 10]
    found = _analyzed(tmp_path, lengths)
    _, steady = found.query(f"SELECT {COLUMNS}")
    assert steady[0] == 2
    assert (steady[5], steady[7]) == (10 * MS, 40 * MS)


def test_steps_that_run_other_kernels_are_no_steady_ones(tmp_path: Path) -> None:
    found = _analyzed(tmp_path, [10.0] * 10, [3, 3, *[30] * 8])
    _, steady = found.query(f"SELECT {COLUMNS}")
    assert steady[:2] == (3, 10)
    assert "which ran other kernels" in steady[3]


@pytest.mark.parametrize(
    ("lengths", "reason"),
    [
        ([10.0] * 3, "fewer than 4 steps"),
        ([], "no iterations"),
    ],
)
def test_without_a_steady_range_there_is_one_aggregation(
    tmp_path: Path, lengths: list[float], reason: str
) -> None:
    trace, main = one_gpu()
    main.op("relu", 10, 90)
    main.launch("relu", 20, gpu=(30, 60))
    _steps(main, lengths) if lengths else None
    found = analyze(trace, tmp_path)
    (only,) = found.query(f"SELECT {COLUMNS}")
    assert reason in only[3]


def test_a_request_for_a_range_adds_no_other(tmp_path: Path) -> None:
    trace = Trace()
    trace.gpu()
    _steps(trace.thread(), [10.0] * 10)
    found = analyze(trace, tmp_path, iter_start=2, iter_stop=5)
    (only,) = found.query(f"SELECT {COLUMNS}")
    assert only[:4] == (2, 5, 0, "")


@pytest.mark.parametrize(
    ("name", "low_ms", "high_ms", "most_spread"),
    [("ddp2_resnet50_amp", 48, 71, 0.2), ("gpt", 38, 41, 0.4), ("module", 4, 8, 2.0)],
)
def test_steady_range_of_real_captures_has_even_steps(
    imported: ProfileFactory, name: str, low_ms: float, high_ms: float, most_spread: float
) -> None:
    sql = (
        "SELECT iter_median, iter_avg, iter_std_dev FROM view_performance_summary"
        " WHERE is_steady AND domain_name = 'default-domain'"
    )
    ((median, mean, spread),) = query(imported(name), sql)
    assert low_ms * MS <= median <= high_ms * MS
    assert spread <= most_spread * mean


def test_processes_with_loops_of_their_own_have_no_common_step(imported: ProfileFactory) -> None:
    rows = query(imported("children"), f"SELECT {COLUMNS}")
    note = "no steady range: processes that are no ranks have loops of their own"
    assert rows == [(0, 60, 0, note, 0, None, None, None)]
