"""Trials of variants: what is faster, by how much, and how often that is said by chance."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from aggregator.answers.trials import Prediction
from aggregator.compare.result import Verdict
from aggregator.compare.trial_report import TrialReport, sentence, to_document, to_markdown, to_text
from aggregator.compare.trials import (
    Agreement,
    Estimate,
    Loss,
    TrialRun,
    Unit,
    judge_variant,
    looks_of,
    mean_step,
)
from profiler_cli.trial.runs import Trial, TrialPlan, run_trial

CALLED = {Verdict.FASTER, Verdict.SLOWER}


@pytest.fixture(autouse=True)
def _any_program_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("profiler_cli.trial.runs.check_plan", lambda _: None)


def made(
    times_ms: Sequence[Sequence[float]], losses: Sequence[Sequence[Loss]] = ((), ()), **more: Any
) -> list[TrialRun]:
    """Runs of variants with these steps; ``more`` is equal in all of them."""
    return [
        replace(TrialRun(at, number, 1e6 * time, steps=200, losses=tuple(losses[at])), **more)
        for at, times in enumerate(times_ms)
        for number, time in enumerate(times)
    ]


def judged(*times_ms: Sequence[float], **more: Any) -> Estimate:
    return judge_variant(made(times_ms, **more), 1, looks=3)


def stepping(step_ms: Callable[[int], float]) -> Callable[[TrialPlan, int, int], TrialRun]:
    """A stand-in for a process: each variant has a step of its own."""

    def measure(plan: TrialPlan, variant: int, number: int) -> TrialRun:
        return TrialRun(variant, number, 1e6 * step_ms(variant), steps=plan.steps, samples=8.0)

    return measure


def tried(random: np.random.Generator, spread: float, factor: float = 1.0) -> Trial:
    """A trial of programs whose runs differ by this standard deviation."""
    noisy = stepping(lambda at: 30 * (factor if at else 1.0) * np.exp(random.normal(0, spread)))
    return run_trial(TrialPlan(("base", "try"), seed=1), measure=noisy)


def false_alarms(trials: int, seed: int) -> int:
    random = np.random.default_rng(seed)
    spreads = itertools.islice(itertools.cycle((0.001, 0.005, 0.01, 0.03, 0.1)), trials)
    found = [tried(random, spread).estimates()[0].verdict for spread in spreads]
    return sum(verdict in CALLED for verdict in found)


# --- how often by chance --------------------------------------------------------------------------


def test_trials_of_a_program_against_itself_call_nothing() -> None:
    assert false_alarms(60, seed=3) == 0


def test_one_in_a_hundred_trials_of_a_program_against_itself_is_called_at_most() -> None:
    # The level is 0.5 %; 20 of 2,000 would be seen by chance once in a thousand times.
    assert false_alarms(2_000, seed=4) < 20


@pytest.mark.parametrize("factor", [1.05, 0.95])
def test_five_percent_are_found_within_five_runs(factor: float) -> None:
    random = np.random.default_rng(5)
    found = [tried(random, 0.005, factor).estimates()[0].verdict for _ in range(40)]
    wanted = Verdict.SLOWER if factor > 1 else Verdict.FASTER
    assert found.count(wanted) >= 38
    assert set(found) <= {wanted, Verdict.CANNOT_TELL}


def test_quiet_machine_ends_the_trial_early_and_a_noisy_one_does_not() -> None:
    quiet, noisy = (tried(np.random.default_rng(6), spread) for spread in (0.001, 0.05))
    assert quiet.stopped_early
    assert 3 <= quiet.measured(0) == quiet.measured(1) < 5
    assert not noisy.stopped_early
    assert noisy.measured(0) == 5


def test_interval_is_wider_where_runs_may_end_at_several_looks() -> None:
    runs = made([[30, 30.1, 29.9], [31, 31.1, 30.9]])
    fixed, early = (judge_variant(runs, 1, looks=looks_of(repeats)) for repeats in (3, 6))
    assert (looks_of(3), looks_of(6)) == (1, 4)
    assert fixed.interval_pct is not None
    assert early.interval_pct is not None
    assert early.interval_pct[0] < fixed.interval_pct[0]
    assert early.interval_pct[1] > fixed.interval_pct[1]


# --- verdicts -------------------------------------------------------------------------------------


def test_faster_variant_is_said_with_its_times_and_interval() -> None:
    found = judged([31.8, 31.9, 31.7, 31.8, 31.8], [28.1, 28.0, 28.2, 28.1, 28.1])
    assert found.verdict is Verdict.FASTER
    text = sentence(found)
    assert text.startswith("11.6 % faster (31.8 -> 28.1 ms, 95 % interval ")
    assert text.endswith("), 5 runs each, interleaved")
    assert found.noise_pct == pytest.approx(0.25, abs=0.1)


def test_single_run_a_side_is_never_called() -> None:
    found = judged([30], [10])
    assert found.verdict is Verdict.CANNOT_TELL
    assert found.interval_pct is None
    assert "one run a side" in sentence(found)


def test_two_wild_runs_a_side_are_not_called() -> None:
    assert judged([30, 40], [20, 25]).verdict is Verdict.CANNOT_TELL


def test_same_program_is_the_same_within_a_limit() -> None:
    found = judged([30, 30.01, 29.99, 30, 30.02], [30, 30.02, 29.98, 30, 30])
    assert found.verdict is Verdict.SAME
    assert sentence(found).startswith("The same within ")


# --- pauses and batches ---------------------------------------------------------------------------


def test_pause_for_a_checkpoint_is_no_step() -> None:
    mean, pauses = mean_step([10] * 199 + [5_000])
    assert (mean, pauses) == (10, 1)


def test_steps_that_wait_for_a_loader_each_tenth_time_are_steps() -> None:
    times = ([10] * 9 + [500]) * 20
    assert mean_step(times) == (sum(times) / 200, 0)


def test_larger_batches_are_compared_per_sample() -> None:
    runs = [
        replace(run, samples=64.0 if run.variant else 32.0)
        for run in made([[30, 30.1, 29.9], [45, 45.1, 44.9]])
    ]
    found = judge_variant(runs, 1)
    assert found.unit is Unit.SAMPLE
    assert found.verdict is Verdict.FASTER
    assert found.change_pct == pytest.approx(-25)
    assert "compared per sample" in found.notes[0]


def test_batches_that_padding_varies_are_compared_per_step() -> None:
    runs = [
        replace(run, samples=8.0, tokens=100.0 + run.number) for run in made([[3] * 4, [4] * 4])
    ]
    assert judge_variant(runs, 1).unit is Unit.STEP


def test_unknown_batch_sizes_are_said() -> None:
    assert "The batch sizes are unknown" in judged([30] * 3, [29] * 3).notes[0]


def test_another_clock_is_said() -> None:
    runs = [
        replace(run, samples=1.0, sm_clock_mhz=1500 if run.variant else 1980)
        for run in made([[30] * 3, [39] * 3])
    ]
    assert judge_variant(runs, 1).notes == ("The GPU's clock was 1500 MHz in place of 1980 MHz.",)


# --- losses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ([(2.3, 2.2), (2.3, 2.2)], Agreement.AGREE),
        ([(2.3, 2.2), (2.304, 2.23)], Agreement.AGREE),
        ([(2.3, 2.2), (4.6, 2.2)], Agreement.DIFFER),
        ([(2.3, 2.2), (2.3, 1.1)], Agreement.DIFFER),
        ([(2.3, 2.2), (2.3, "nan")], Agreement.DIFFER),
        ([(2.3, 2.2), ()], Agreement.UNKNOWN),
        ([(), ()], Agreement.UNKNOWN),
    ],
)
def test_losses_of_the_first_steps(losses: list[tuple[Loss, ...]], expected: Agreement) -> None:
    assert judged([30, 30], [30, 30], losses=losses).losses is expected


def test_losses_of_a_program_without_a_seed_are_unknown() -> None:
    runs = made([[30, 30], [30, 30]])
    runs = [replace(run, losses=(2.0 + run.number,)) for run in runs]
    found = judge_variant(runs, 1)
    assert found.losses is Agreement.UNKNOWN
    assert "seed" in found.losses_note


# --- reports --------------------------------------------------------------------------------------


def reported() -> TrialReport:
    runs = made([[31.8, 31.9, 31.7], [28.1, 28.0, 28.2]], losses=[(1.0,), (2.0,)], samples=8.0)
    failed = TrialRun(2, 6, failure="failed with exit code 3", last_lines=("no [option]",))
    predicted = Prediction("advice", "layout_conversions", -15.0, "likely", 1)
    tries = [judge_variant([*runs, failed], at, tries=2) for at in (1, 2)]
    commands = ("python a.py", "python a.py --x|y", "python a.py --z")
    return TrialReport(commands, (*runs, failed), tuple(tries), {2: failed}, (predicted,))


def test_text_says_what_changed_what_failed_and_what_was_predicted() -> None:
    text = to_text(reported())
    assert "  11.6 % faster (31.8 -> 28.1 ms" in text
    assert "The result is changed: losses differ: that of step 1 is another one: 1 -> 2." in text
    assert (
        "Predicted (advice layout_conversions, likely): 15.0 % faster; off by 3.4 points." in text
    )
    assert "  It failed with exit code 3; it wrote last:\n    no [option]" in text
    assert "GPU clock: unknown." in text


def test_markdown_keeps_its_table_whatever_the_commands_hold() -> None:
    lines = to_markdown(reported()).splitlines()
    assert lines[3].startswith("| try 1: python a.py --x\\|y | 11.6 % faster")
    assert [line.replace("\\|", "").count("|") for line in lines[:5]] == [5] * 5


def test_json_holds_every_run_and_estimate() -> None:
    found = json.loads(json.dumps(to_document(reported())))
    assert [one["verdict"] for one in found["variants"]] == ["faster", "cannot tell"]
    assert found["variants"][0]["prediction"]["change_pct"] == -15.0
    assert len(found["runs"]) == 7
