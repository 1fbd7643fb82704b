"""The command that measures what profiling costs: tables, and the comparison of names."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchmarks import overhead
from benchmarks.gpu_clocks import ClockLog, same_steps
from benchmarks.measured import standard_error
from benchmarks.overhead_tables import workload_tables
from benchmarks.recorded_names import FIRST_LIGHT, _by_rank, compare_names
from tests.builders import Trace, analyze

STEPS = 12


def trace() -> Trace:
    """A loop of steps with two ops, whose kernels have names of their own."""
    found = Trace()
    found.gpu()
    thread = found.thread()
    now = 1_000
    for step in range(STEPS):
        begin = now
        for op in ("conv", "relu"):
            thread.launch(f"k_{op}", now + 100)
            thread.op(op, now, now + 400)
            now += 500
        thread.range(f"iteration {step}", begin, now)
        now += 500
    return found


def test_names_of_equal_kernels_are_compared(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("light", "high")]
    for folder in folders:
        folder.mkdir()
    light, high = (analyze(trace(), folder).path for folder in folders)
    same = compare_names(light, high)
    assert same["compared"] == 2 * (STEPS - FIRST_LIGHT - 1)
    assert {same[key] for key in ("wrong", "unnamed", "less precise", "not compared")} == {0}
    with closing(sqlite3.connect(light)) as connection, connection:
        connection.execute("UPDATE ops SET op_name = '/other/op' WHERE op_name LIKE '%relu%'")
    changed = compare_names(light, high)
    assert changed["wrong"] == same["compared"] // 2
    assert changed["compared"] == same["compared"]


def test_ranks_follow_each_other_whatever_the_numbers_of_their_processes() -> None:
    rows = [(1, 0, "k", "/rank_1/Net/fc"), (2, 0, "k", "/other"), (3, 1, "k", "/rank_0/Net/fc")]
    assert [row[0] for row in _by_rank(rows)] == [3, 1, 2]


def _alone(*times_ms: float) -> dict[str, Any]:
    return {"warm_up": 0, "times_ms": list(times_ms), "end_s": 0.5, "slowed_pct": 0.0}


def test_what_misses_a_goal_is_bold() -> None:
    alone = [_alone(*[10.0] * 3, *[20.0] * 3)] * 2
    own = {
        "bare_step": 10_000_000,
        "bare_steps": 2,
        "clock_error_pct": 0.5,
        "corrected_step": 20_200_000,
        "times_ms": [10.0, 10.0, 99.0, 25.0, 25.0, 20.1],
        "recorded": [3, 4],
        "after": [5],
        "end_s": 2.9,
        "export_bytes": 4_000_000,
        "recorded_steps": 2,
        "run_steps": 6,
        "op_known_pct": 97.0,
        "module_known_pct": 96.0,
    }
    nsys = {"times_ms": [10.0] * 3 + [30.0] * 3, "recorded": [3, 4, 5], "end_s": 9.0}
    names = {"compared": 5, "wrong": 0, "less precise": 0, "unnamed": 1}
    slow = own | {"times_ms": [10.0] * 3 + [40.0] * 3, "end_s": 3.1, "clock_error_pct": 5.0}
    late = {"bare_step": None, "op_known_pct": 90.0}
    results: dict[str, dict[str, Any]] = {
        "good": {"alone": alone, "own": [own], "nsys": [nsys], "names": names, "errors": []},
        "bad": {
            "alone": alone,
            "own": [slow | late],
            "nsys": [nsys],
            "names": {**names, "wrong": 2},
            "errors": ["bad_own1: exit code 1: no GPU"],
        },
        "ended": {"alone": [], "own": [{}], "errors": []},
    }
    text = "\n".join(workload_tables(results))
    step = "| 10.00 | 2 | 0.5 % | +25.0 % | +50.0 % | +0.5 % | 20.20 | +1.0 % |"
    assert f"| `good` | 15.00, 15.00 | 0.0 % {step}" in text
    assert (
        "| `good` | 0.5 | 2.9 | 9.0 | 4.0 |  | 2 of 6 | 97.0 % | 96.0 % | 5 | 0 | 0 | 1 |" in text
    )
    assert "| **unknown** | 2 | **5.0 %** | **+100.0 %** | +50.0 % | **+100.0 %** |" in text
    assert "| 0.5 | **3.1** | 9.0 | 4.0 |  | 2 of 6 | **90.0 %** | 96.0 % | 5 | **2** |" in text
    assert "* the reported step is right: 1 of 3" in text
    assert "* the end takes at most 3 s: 1 of 2" in text
    assert "* no name is wrong: 1 of 2" in text
    assert "* `bad`: bad_own1: exit code 1: no GPU" in text


PROGRAM = """
import json, os, sys, time
if sys.argv[1] == "fails":
    sys.exit("no GPU")
times = {"warm_up": 1, "times_ms": [9.0, 1.0, 1.0, 1.0, 1.0, 1.0], "end_s": time.time()}
open(os.environ["STEP_TIMES"], "w").write(json.dumps(times))
"""


def test_a_program_that_fails_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "programs.py"
    program.write_text(PROGRAM)
    monkeypatch.setattr(overhead, "PROGRAMS", program)
    bench = overhead.Bench(tmp_path, [sys.executable, "-c", "raise SystemExit(3)"], 1, 1e12)
    names = ("fails", "works", "breaks")
    (tmp_path / "captures").mkdir()
    (tmp_path / "captures" / "breaks").touch()
    overhead.run_all(bench, [overhead.Workload(name, "CPU", 6) for name in names], ["0"])
    assert len(bench.results["works"]["alone"]) == 2
    assert [error.partition(":")[0] for error in bench.results["works"]["errors"]] == [
        "works_own1",
        "works_nsys2",
        "works_high4",
    ]
    assert "fails_alone0: exit code 1: no GPU" in bench.results["fails"]["errors"]
    assert len(bench.results["breaks"]["alone"]) == 2
    assert bench.results["breaks"]["errors"][-1].startswith("breaks: NotADirectoryError")
    assert "| `works` | 1.00, 1.00 |" in (tmp_path / "overhead.md").read_text()


def test_no_program_is_started_when_the_time_is_over(tmp_path: Path) -> None:
    bench = overhead.Bench(tmp_path, [sys.executable], 1, 0.0)
    bench.measure(overhead.Workload("late", "CPU", 6), "0")
    assert bench.results["late"]["errors"][0] == "late_alone0: no time left"


def test_steps_of_a_slowed_gpu_are_found() -> None:
    log = ClockLog()
    log.add("0, 900, 1980, 0x0000000000000080", 99.5)
    log.add("0, 1000, 1980, 0x0000000000000000", 99.55)
    log.add("0, 1980, 1980, 0x0000000000000004", 98.0)
    log.add("1, 1980, 1980, [N/A]", 99.0)
    steps_ms = [100.0] * 20  # The last one ends at 100 s.
    assert [at for at, slow in enumerate(log.slowed("0,1", steps_ms, 100.0)) if slow] == [
        14,
        15,
        16,
    ]
    assert not any(log.slowed("1", steps_ms, 100.0))
    assert log.slowed("0", [], 0.0) == []


def test_bare_steps_are_found_in_the_clock_of_the_program() -> None:
    ends_ns = [10, 20, 30, 40, 50, 60]
    assert same_steps(ends_ns, [19, 31, 58]) == [1, 2, 5]
    assert same_steps([1], [1, 2]) == []
    assert same_steps(ends_ns, []) == []


def test_a_value_far_from_the_others_does_not_change_the_standard_error() -> None:
    values = [10.0 + number / 10 for number in range(21)]
    same = standard_error(values)
    assert 0.1 < same < 0.3
    assert standard_error([*values[:-1], 1e6]) < 1.2 * same
