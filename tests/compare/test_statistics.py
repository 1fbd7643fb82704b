"""Calibration by simulation: how often a verdict is false, how often a change is found."""

from __future__ import annotations

import time

import numpy as np
import pytest

from aggregator.compare.result import Verdict
from aggregator.compare.statistics import Unit, judge_rows, judge_step

CLASSES_NS = np.array([30, 10, 5, 20, 3, 2]) * 1e6
IS_DEVICE = np.array([True, True, True, False, False, False])
CALLED = (Verdict.SLOWER, Verdict.FASTER)


def capture(random, means, iterations=20, between=0.01, within=0.03, rho=0.6):
    """Iterations whose neighbors are alike, around a mean that differs between captures."""
    rows = len(means)
    level = means * (1 + between * random.standard_normal(rows))
    noise = random.standard_normal((iterations, rows))
    for index in range(1, iterations):
        noise[index] = rho * noise[index - 1] + np.sqrt(1 - rho**2) * noise[index]
    return np.maximum(level * (1 + within * noise), 0)


def steps_of(side):
    return [one.sum(axis=1, keepdims=True) for one in side]


def judge(base, new, **options):
    classes = judge_rows(base, new, IS_DEVICE, **options)
    return classes, judge_step(steps_of(base), steps_of(new), classes, **options)


LOADER = np.array([0.005, 0.005, 0.01, 0.3, 0.1, 0.1])


@pytest.mark.parametrize(
    ("captures", "between", "options"),
    [
        (2, 0.005, {}),
        (2, 0.02, {}),
        (2, LOADER, {}),
        (3, 0.01, {}),
        (3, LOADER, {}),
        (1, LOADER, {}),
        (1, 0.0, {"is_one_capture": True}),
    ],
)
def test_at_most_one_percent_of_verdicts_on_the_same_program_are_false(captures, between, options):
    trials = 100
    random = np.random.default_rng(19)
    steps = rows = covered = 0
    for _ in range(trials):
        base, new = (
            [capture(random, CLASSES_NS, between=between) for _ in range(captures)] for _ in "ab"
        )
        classes, step = judge(base, new, **options)
        steps += step.verdicts[0] in CALLED
        rows += sum(verdict in CALLED for verdict in classes.verdicts)
        covered += step.low_ns[0] <= 0 <= step.high_ns[0]
    # Three of 100 are within the error of a simulation with a rate of one percent.
    assert steps <= 3
    assert rows / (trials * len(CLASSES_NS)) <= 0.01
    if options or between is not LOADER:
        assert covered / trials >= 0.93


@pytest.mark.parametrize(("change", "least"), [(1.05, 0.95), (1.2, 1.0)])
def test_a_changed_op_is_found_among_hundreds(change, least):
    random = np.random.default_rng(7)
    found = others = 0
    trials = 10
    for _ in range(trials):
        means = random.lognormal(12, 1.5, 300)
        op = int(np.argsort(means)[240])
        changed = means.copy()
        changed[op] *= change
        between = 0.002 * random.lognormal(0, 0.5, 300)
        between[op] = 0.002
        base, new = (
            [capture(random, side, between=between, within=0.01, rho=0.4) for _ in range(3)]
            for side in (means, changed)
        )
        verdicts = judge_rows(base, new, np.ones(300, dtype=bool)).verdicts
        found += verdicts[op] is Verdict.SLOWER
        others += sum(verdict in CALLED for verdict in verdicts) - (verdicts[op] in CALLED)
    assert found / trials >= least
    assert others / (trials * 300) <= 0.001


def loader_runs(random, loader_ms, other_ms):
    """What public/kineto_pair shows: a loader that varies, and everything else."""
    loader = np.abs(loader_ms * (1 + 0.3 * random.standard_normal(10)))
    other = other_ms * (1 + 0.01 * random.standard_normal(10))
    return np.stack([other, loader], axis=1) * 1e6


def judge_loader(base, new):
    classes = judge_rows(base, new, np.array([True, False]))
    return classes, judge_step(steps_of(base), steps_of(new), classes)


def test_a_loader_that_changes_from_run_to_run_is_no_regression():
    random = np.random.default_rng(1)
    classes, step = judge_loader([loader_runs(random, 69.3, 107)], [loader_runs(random, 45.5, 107)])
    assert step.unit is Unit.SINGLE
    assert step.verdicts == [Verdict.CANNOT_TELL]
    assert Verdict.SLOWER not in classes.verdicts
    assert Verdict.FASTER not in classes.verdicts
    assert step.high_ns[0] < 0  # The iterations alone would call it faster.


def test_two_captures_a_side_name_the_loader():
    random = np.random.default_rng(1)
    base = [loader_runs(random, 69.3, 107), loader_runs(random, 45.5, 107)]
    new = [loader_runs(random, 1.4, 125.1), loader_runs(random, 1.4, 123.7)]
    classes, step = judge_loader(base, new)
    assert step.verdicts == [Verdict.FASTER]
    assert step.high_ns[0] < 0
    assert classes.verdicts[1] is Verdict.FASTER


def test_one_capture_a_side_shows_a_change_that_no_run_explains():
    random = np.random.default_rng(2)
    base, new = capture(random, CLASSES_NS), capture(random, CLASSES_NS * [0.4, 0.5, 1, 1, 1, 1])
    classes, step = judge([base], [new])
    assert classes.verdicts[:2] == [Verdict.FASTER, Verdict.FASTER]
    assert step.verdicts == [Verdict.FASTER]


def test_rows_of_one_side_are_judged_without_an_interval():
    means = np.array([1e6, 0, 0])
    random = np.random.default_rng(3)
    base, new = ([capture(random, side) for _ in range(3)] for side in (means, means[[1, 0, 2]]))
    doubts = judge_rows(base, new, np.ones(3, dtype=bool))
    assert doubts.verdicts == [Verdict.FASTER, Verdict.SLOWER, Verdict.SAME]
    assert np.isnan(doubts.within_pct[1])


def test_a_single_iteration_has_no_interval():
    doubts = judge_rows([np.ones((1, 2))], [np.full((1, 2), 9.0)], np.ones(2, dtype=bool))
    assert np.isnan(doubts.low_ns).all()
    assert doubts.verdicts == [Verdict.CANNOT_TELL] * 2


def test_the_same_seed_gives_the_same_answer():
    random = np.random.default_rng(4)
    base, new = ([capture(random, CLASSES_NS) for _ in range(2)] for _ in "ab")
    first, second = judge_rows(base, new, IS_DEVICE), judge_rows(base, new, IS_DEVICE)
    assert np.array_equal(first.low_ns, second.low_ns)
    assert first.verdicts == second.verdicts


def _cpu_s(rows: int) -> float:
    random = np.random.default_rng(5)
    base, new = ([random.lognormal(10, 1, (50, rows)) for _ in range(3)] for _ in "ab")
    start = time.process_time()
    judge_rows(base, new, np.ones(rows, dtype=bool))
    return time.process_time() - start


def test_the_time_for_thousands_of_rows_does_not_grow_with_their_square():
    few_s = min(_cpu_s(1_000) for _ in range(2))
    assert _cpu_s(5_000) < 15 * few_s
