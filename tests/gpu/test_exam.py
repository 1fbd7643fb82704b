"""The programs of the exam run on a CPU, and its table counts what it says."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.gpu.exam.__main__ import advised, program, replayed, table_lines
from tests.gpu.exam.plan import PLAN

REPOSITORY = Path(__file__).parents[2]
FAST = (("small", "--average-at-once"),)
ALL = [
    (base, change)
    for base, plan in PLAN.items()
    for change in ("", *(change for change, _ in plan.changes))
    if (base, change) not in FAST and change != "--compile"  # Inductor's compiler takes a minute.
]


def run_tiny(base: str, change: str) -> None:
    pytest.importorskip("torch")
    words = program(base, change, ["--device=cpu", "--tiny", "--steps=2"])
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        words, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "step: mean" in done.stdout


@pytest.mark.parametrize(("base", "change"), FAST)
def test_program_runs_without_a_gpu(base: str, change: str) -> None:
    run_tiny(base, change)


@pytest.mark.parametrize(("base", "change"), ALL)
def test_every_change_runs_without_a_gpu(base: str, change: str) -> None:
    run_tiny(base, change)


def predicted(change: str, saving_pct: float | None, utc: str = "2026-01-01", **more: object):
    row = {"base": "b", "change": change, "question": "whatif", "utc": utc, "commit": "0"}
    return row | {"saving_pct": saving_pct, "confidence": "likely", **more}


def measured(change: str, *times_ms: float, samples: int = 1):
    return [
        {"base": "b", "change": change, "turn": turn, "utc": "2026-01-02", "times_ms": [time_ms]}
        | {"samples": samples}
        for turn, time_ms in enumerate(times_ms)
    ]


BASE = measured("", 100.0, 100.0, 100.0)


def test_errors_are_counted_in_points_of_the_step_and_large_ones_are_bold() -> None:
    rows = [predicted("--a", 20.0), predicted("--b", 30.0, confidence="sure")]
    lines = table_lines(
        rows, [*BASE, *measured("--a", 80.0, 79.5, 80.5), *measured("--b", 85.0, 85.0, 85.0)]
    )
    assert "2 changes of 1 captures" in lines[0]
    assert "median error is 7.5 points" in lines[0]
    assert "1 of 2 (50 %) are within 10 points, and none has the wrong sign" in lines[0]
    assert "0 of the 1 that were sure are within 5 points" in lines[0]
    assert "| 20.0 % | 20.0 % (" in lines[4]
    assert lines[4].endswith(") | +0.0 |")
    assert "| 30.0 % | 15.0 % (" in lines[5]
    assert lines[5].endswith(") | **+15.0** |")


def test_change_that_makes_a_step_slower_than_promised_has_the_wrong_sign() -> None:
    lines = table_lines([predicted("--a", 3.0)], [*BASE, *measured("--a", 104.0, 104.0, 104.0)])
    assert "1 has the wrong sign" in lines[0]


def test_prediction_made_after_the_measurement_does_not_count() -> None:
    rows = [predicted("--a", 40.0), predicted("--a", 50.0, utc="2026-01-01T01:00")]
    rows.append(predicted("--a", 20.0, utc="2026-01-03"))
    lines = table_lines(rows, [*BASE, *measured("--a", 80.0, 80.0, 80.0)])
    assert "1 changes of 1 captures" in lines[0]
    assert "median error is 30.0 points" in lines[0]
    assert any("do not count" in line for line in lines)


def test_silence_is_counted_and_shown() -> None:
    rows = [predicted("--a", None), predicted("--b", 5.0)]
    runs = [*BASE, *measured("--a", 80.0, 80.0), *measured("--b", 95.0, 95.0)]
    lines = table_lines(rows, runs)
    assert "gave no number for 1" in lines[0]
    assert "| none | 20.0 % (" in lines[4]
    assert lines[4].endswith(") |  |")


def test_larger_batch_is_compared_by_sample() -> None:
    runs = [*BASE, *measured("--a", 200.0, 200.0, 200.0, samples=4)]
    assert "| 50.0 % | 50.0 % (" in table_lines([predicted("--a", 50.0)], runs)[4]


def test_answers_of_dlprof_become_shares_of_the_step() -> None:
    what_if = {"saving_ns": 25, "measured_step_ns": 100, "interval_ns": [70, 80], "basis": "bare"}
    found = replayed(what_if | {"confidence": "high", "is_bound": False})
    assert (found["saving_pct"], found["interval_pct"]) == (25.0, pytest.approx([20.0, 30.0]))
    assert found["confidence"] == "likely"
    unsure = what_if | {"interval_ns": None, "confidence": "high", "is_bound": False}
    assert replayed(unsure)["interval_pct"] == []
    assert replayed({"error": "no such op"})["said"] == "no such op"
    row = {"advice_name": "tf32_off", "gain_pct": 9.0, "certainty": "sure", "gain_source": "replay"}
    document = {"advice": [row | {"recommendation": "Allow it"}]}
    assert advised(document, ["tf32_off"])["saving_pct"] == 9.0
    assert advised(document, ["half_precision"])["saving_pct"] is None
