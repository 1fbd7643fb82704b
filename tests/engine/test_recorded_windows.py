"""A profile of windows: the time between them is no step, no idle time, and part of no sum."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.errors import IterationRangeError
from aggregator.options import Mode
from tests.builders import Analyzed, Trace, analyze

STEP, GAP, STEPS = 10_000, 5_000_000, 12
SECOND = STEPS * STEP + GAP
"""Where the second window begins."""


def windows(*, has_loop: bool = True, ended_by: str = "detach") -> Trace:
    """Two windows of twelve steps each, whose kernels take 700 ns."""
    trace = Trace()
    trace.gpu(0)
    thread = trace.thread()
    for step in range(2 * STEPS):
        at = STEP * step + (GAP if step >= STEPS else 0)
        if has_loop:
            thread.range(f"iteration {step}", at, at + 9_000)
            thread.op("conv2d", at + 100, at + 800, seq=2 * step, sizes="[[8, 3, 4, 4]]")
        thread.launch("sgemm", at + 110, gpu=(at + 200, at + 900))
    for start in (0, SECOND):
        end = start + STEPS * STEP
        trace.add("DLPROF_WINDOW", pid=100, start_ns=start, end_ns=end, ended_by=ended_by)
    trace.add(
        "DLPROF_LOOPS", pid=100, name="SGD", steps=1_000, recordedSteps=24, timeNs=1, recordedNs=1
    )
    trace.add("DLPROF_CAPTURE_NOTES", name="runNs", value="9000000000")
    return trace


@pytest.fixture(scope="module")
def analyzed(tmp_path_factory: pytest.TempPathFactory) -> Analyzed:
    return analyze(windows(), tmp_path_factory.mktemp("windows"))


def test_the_time_between_windows_is_no_iteration(analyzed: Analyzed) -> None:
    kinds = "SELECT kind, count(*), max(stop - start) FROM iterations WHERE aggr = 1 GROUP BY 1"
    found = {kind: (count, longest) for kind, count, longest in analyzed.query(kinds)}
    assert found["between"][0] == 1
    assert found["between"][1] > GAP
    assert found["iteration"][1] <= STEP
    totals = (
        "SELECT total_iterations, profiled_iterations, wall_time, gpu_utilization"
        " FROM view_model_summary WHERE aggr_id = 1"
    )
    ((total, profiled, wall, busy),) = analyzed.query(totals)
    assert total == profiled == sum(count for count, _ in found.values()) - 1
    assert wall <= 2 * STEPS * STEP
    assert busy == pytest.approx(7, abs=1)


def test_the_steady_range_covers_both_windows_without_the_time_between(
    analyzed: Analyzed,
) -> None:
    query = (
        "SELECT a.iter_stop - a.iter_start + 1 - count(*), max(i.stop - i.start), a.iter_stop"
        " FROM view_aggregations a JOIN iterations i ON i.aggr = a.aggr_id AND i.aggregated"
        " WHERE a.is_steady"
    )
    ((left_out, longest, last),) = analyzed.query(query)
    assert (left_out, longest) == (1, STEP)
    assert last > STEPS
    step = "SELECT steps, iter_median FROM view_performance_summary WHERE is_steady"
    ((steps, median),) = analyzed.query(step)
    assert steps >= 2 * STEPS - 4
    assert median == STEP
    owned = "SELECT max(length) FROM view_iterations_profiled WHERE aggr_id = 2"
    columns = [row[1] for row in analyzed.query("PRAGMA table_info(view_iterations_profiled)")]
    assert analyzed.query(owned.replace("length", "duration"))[0][0] == STEP, columns


def test_what_was_recorded_is_stored_and_said(analyzed: Analyzed) -> None:
    recorded = (
        "SELECT recorded_windows, recorded_time, run_time, recorded_steps, run_steps, recorded_note"
        " FROM view_recorded_part WHERE aggr_id = 1"
    )
    note = (
        "recorded 24 of 1,000 steps, 0.0 s of 9.0 s (2 windows): the rest of the run is not in the "
        "profile"
    )
    assert analyzed.query(recorded) == [(2, 2 * STEPS * STEP, 9_000_000_000, 24, 1_000, note)]
    listed = "SELECT pid, window_start, window_stop, ended_by FROM view_windows"
    assert analyzed.query(listed) == [
        (100, start, start + STEPS * STEP, "detach") for start in (0, SECOND)
    ]
    notes = "SELECT steady_note FROM view_performance_summary WHERE is_steady"
    ((text,),) = analyzed.query(notes)
    assert "the end of the recorded window (iteration" in text


def test_a_later_aggregation_knows_the_windows(analyzed: Analyzed) -> None:
    between = "SELECT iter_value FROM iterations WHERE aggr = 1 AND kind = 'between'"
    ((number,),) = analyzed.query(between)
    with pytest.raises(IterationRangeError, match="between two recorded windows"):
        analyzed.aggregate(iter_start=number, iter_stop=number)
    done = analyzed.aggregate(iter_start=number - 2, iter_stop=number + 2)
    wall = "SELECT wall_time FROM view_model_summary WHERE aggr_id = ?"
    assert analyzed.query(wall, done.aggr_id) == [(4 * STEP,)]


def test_without_a_loop_each_window_is_an_interval(tmp_path: Path) -> None:
    found = analyze(windows(has_loop=False), tmp_path, mode=Mode.SIMPLE)
    query = "SELECT kind, aggregated FROM iterations WHERE aggr = 1 ORDER BY iter_value"
    assert found.query(query) == [("iteration", 1), ("between", 0), ("iteration", 1)]
    ((wall,),) = found.query("SELECT wall_time FROM view_model_summary WHERE aggr_id = 1")
    assert wall <= 2 * STEPS * STEP


def test_a_run_that_was_recorded_to_its_end_is_no_part(tmp_path: Path) -> None:
    trace = windows(ended_by="end")
    (loop,) = trace.tables["DLPROF_LOOPS"]
    loop["steps"] = loop["recordedSteps"]
    found = analyze(trace, tmp_path)
    query = "SELECT recorded_windows, recorded_note FROM view_recorded_part WHERE aggr_id = 1"
    assert found.query(query) == [(2, None)]
    notes = "SELECT steady_note FROM view_performance_summary WHERE is_steady"
    assert "the end of the program (iteration" in found.query(notes)[0][0]


def test_a_run_that_ends_in_its_window_says_how_many_steps_it_lacks(tmp_path: Path) -> None:
    found = analyze(windows(ended_by="end"), tmp_path)
    ((note,),) = found.query("SELECT recorded_note FROM view_recorded_part WHERE aggr_id = 1")
    assert note.startswith("recorded 24 of 1,000 steps, ")
    notes = "SELECT steady_note FROM view_performance_summary WHERE is_steady"
    assert "the end of the program (iteration" in found.query(notes)[0][0]
