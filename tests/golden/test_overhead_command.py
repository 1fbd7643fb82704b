"""The command that measures what profiling costs: tables, and the comparison of names."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.gpu_clocks import ClockLog, same_steps
from benchmarks.measured import standard_error
from benchmarks.overhead_tables import costs_table, workload_tables
from benchmarks.overhead_turns import ALONE, tables
from benchmarks.recorded_names import FIRST_LIGHT, _by_rank, compare_names
from tests.builders import Trace, analyze

STEPS = 12
SLOW = {"bare_step": 30_000_000, "profiled_step": 30_000_000, "corrected_step": 30_000_000}


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


def test_what_misses_a_goal_is_bold() -> None:
    step = {"bare_step": 10_100_000, "profiled_step": 10_400_000, "corrected_step": 11_000_000}
    results: dict[str, dict[str, Any]] = {
        "fast": {
            "limit": "GPU",
            "own_ms": [10.0, 10.0, None, 10.0, 20.0],
            "errors": ["exit code 1: no GPU"],
            "normal": [
                {**step, "turn": 0, "export_bytes": 41_000_000, "clock_error_pct": 0.2},
                {**step, "turn": 1, "export_bytes": 41_000_000},
                {"turn": 2, "reason": "No steps."},
                {"turn": 3, **SLOW, "slowed_bare_pct": 80.0, "slowed_pct": 80.0},
            ],
            "high": [{"turn": 3, "profiled_step": 12_000_000, "export_bytes": 100_000_000}],
            "names": {"compared": 5, "wrong": 0, "less precise": 0, "unnamed": 1},
        },
        "unknown": {
            "limit": "CPU",
            "own_ms": [],
            "errors": [],
            "normal": [{"turn": 0, "reason": "None."}],
        },
    }
    text = "\n".join(workload_tables(results))
    own, bare = "10.00, 10.00, 10.00, 20.00", "10.10, 10.10, unknown, 30.00"
    steps = (
        f"| {own} | 100.0 % | {bare} | 0.2 % | +1.0 ± 31.6 % | 10.40 | +4.0 ± 32.6 % | +20.0 % |"
    )
    assert f"| `fast` | GPU {steps}" in text
    assert "| 11.00 | **+10.0 ± 34.5 %** |" in text
    assert "| `fast` | 41.0 | 100.0 | **41 %** | 5 | 0 | 0 | 1 |" in text
    assert "* `unknown` with `--detail=normal`: None." in text
    assert "* `fast`: exit code 1: no GPU" in text
    assert "* `fast`: GPU slowed down by the hardware in 0, 0, 0, 80 % of the steps" in text


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


def test_costs_have_a_column_for_each_kind() -> None:
    rows = list(costs_table({"nothing": {"launch": 6.04}, "all": {"launch": 9.0, "graph": 1.0}}))
    assert rows[0] == "| recorded by nsys | launch | graph |"
    assert rows[2:4] == ["| nothing | 6.0 |  |", "| all | 9.0 | 1.0 |"]
    assert list(costs_table({})) == []


def _run(early_ms: float, late_ms: float, **reported: float) -> dict[str, Any]:
    """A run of 100 steps, the first of which is slow; its threads take half as long."""
    times_ms = [900.0, *[early_ms] * 49, *[late_ms] * 50]
    clocks = {"thread_ms": [one / 2 for one in times_ms], "process_ms": times_ms}
    return {"times_ms": times_ms, **clocks, "warm_up": 1, **reported}


def test_turns_compare_the_same_steps_of_a_run_without_dlprof() -> None:
    turns = [
        {ALONE: _run(10.0, 20.0), "nsys": _run(99.0, 24.0, bare_step=10.2)},
        {ALONE: _run(20.0, 40.0), "nsys": _run(99.0, 44.0, bare_step=20.0), "own, not begun": {}},
        {ALONE: _run(10.0, 20.0), "own, not begun": _run(10.1, 99.0)},
    ]
    rows = [row.split(" | ") for row in tables({"gpt": turns})][2:]
    assert rows[0][1:5] == ["nsys", "2", "30.00 ± 12.53", "+15.0 ± 6.3 %"]
    assert rows[0][5:] == ["+15.0 ± 6.3 %", "+15.0 ± 6.3 %", "+1.0 ± 1.3 %", " |"]
    assert rows[1][1:5] == ["own, not begun", "1", "10.00 ± nan", "+1.0 ± nan %"]


def test_a_value_far_from_the_others_does_not_change_the_standard_error() -> None:
    values = [10.0 + number / 10 for number in range(21)]
    same = standard_error(values)
    assert 0.1 < same < 0.3
    assert standard_error([*values[:-1], 1e6]) < 1.2 * same
