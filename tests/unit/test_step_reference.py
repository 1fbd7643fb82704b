"""The step without profiling: medians, and when it is unknown."""

from __future__ import annotations

from aggregator.profile.step_reference import StepReference, step_reference, timed_steps
from profiler_cli.commands.step_reference import COLUMNS, format_reference


def test_median_and_percentiles_are_those_of_the_steps() -> None:
    found = timed_steps([10, 30, 20, 40, 50])
    assert (found.steps, found.median_ns, found.p10_ns, found.p90_ns) == (5, 30, 14, 46)


def test_steps_of_both_kinds_have_their_medians() -> None:
    found = step_reference([100, 100, 110], [150, 150, 120], "optimizer", "")
    assert (found.unprofiled.median_ns, found.profiled.median_ns, found.reason) == (100, 150, "")


def test_too_few_steps_are_no_reference() -> None:
    found = step_reference([100, 100], [150, 150, 150], "optimizer", "")
    assert found.unprofiled.median_ns is None
    assert found.reason == "Fewer than 3 steps ran without profiling."


def test_steps_that_become_faster_were_warm_up() -> None:
    found = step_reference([100] * 5, [40] * 5, "call", "")
    assert (found.unprofiled.steps, found.unprofiled.median_ns, found.profiled.median_ns) == (
        5,
        None,
        40,
    )
    assert "warming up" in found.reason
    assert step_reference([100] * 5, [95] * 5, "call", "").unprofiled.median_ns == 100


def test_a_capture_of_others_says_that_it_has_none() -> None:
    assert StepReference().unprofiled.median_ns is None
    assert StepReference().reason.startswith("The capture holds no steps without profiling")


def test_a_difference_that_rounds_to_nothing_has_no_minus() -> None:
    row = dict.fromkeys(COLUMNS, 46_000_000)
    assert format_reference(row | {COLUMNS[5]: -0.2}).endswith("by +0%\n")
    assert format_reference(row | {COLUMNS[5]: -2.2}).endswith("by -2%\n")
