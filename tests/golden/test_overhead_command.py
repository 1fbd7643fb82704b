"""What measures the cost of profiling: names that are compared, clocks, and spread."""

from __future__ import annotations

from pathlib import Path

from benchmarks.gpu_clocks import ClockLog, same_steps
from benchmarks.measured import standard_error
from benchmarks.recorded_names import FIRST_LIGHT, _by_rank, compare_names
from tests.builders import Trace, alter, analyze

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
    alter(light, "UPDATE ops SET op_name = '/other/op' WHERE op_name LIKE '%relu%'")
    changed = compare_names(light, high)
    assert changed["wrong"] == same["compared"] // 2
    assert changed["compared"] == same["compared"]


def test_ranks_follow_each_other_whatever_the_numbers_of_their_processes() -> None:
    rows = [(1, 0, "k", "/rank_1/Net/fc"), (2, 0, "k", "/other"), (3, 1, "k", "/rank_0/Net/fc")]
    assert [row[0] for row in _by_rank(rows)] == [3, 1, 2]


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
