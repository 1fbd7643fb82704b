"""The command that measures what profiling costs: tables, and the comparison of names."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.overhead_tables import costs_table, workload_tables
from benchmarks.recorded_names import FIRST_LIGHT, compare_names
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


def test_what_misses_a_goal_is_bold() -> None:
    step = {"bare_step": 10_100_000, "profiled_step": 10_400_000, "corrected_step": 11_000_000}
    results: dict[str, dict[str, Any]] = {
        "fast": {
            "limit": "GPU",
            "own_ms": [10.0, 10.0, None, 20.0, 20.0],
            "errors": ["exit code 1: no GPU"],
            "normal": [
                {**step, "turn": 0, "export_bytes": 41_000_000},
                {**step, "turn": 1, "export_bytes": 41_000_000},
                {"turn": 2, "reason": "No steps."},
            ],
            "high": [{"turn": 3, "profiled_step": 24_000_000, "export_bytes": 100_000_000}],
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
    own, bare = "10.00, 10.00, 20.00, 20.00", "10.10, 10.10, unknown"
    steps = f"| {own} | 66.7 % | {bare} | +1.0 % | 10.40 | +4.0 % | +20.0 % |"
    assert f"| `fast` | GPU {steps}" in text
    assert "| 11.00 | **+10.0 %** |" in text
    assert "| `fast` | 41.0 | 100.0 | **41 %** | 5 | 0 | 0 | 1 |" in text
    assert "* `unknown` with `--detail=normal`: None." in text
    assert "* `fast`: exit code 1: no GPU" in text


def test_costs_have_a_column_for_each_kind() -> None:
    rows = list(costs_table({"nothing": {"launch": 6.04}, "all": {"launch": 9.0, "graph": 1.0}}))
    assert rows[0] == "| recorded by nsys | launch | graph |"
    assert rows[2:4] == ["| nothing | 6.0 |  |", "| all | 9.0 | 1.0 |"]
    assert list(costs_table({})) == []
