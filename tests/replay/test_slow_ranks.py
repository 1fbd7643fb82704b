"""A rank that is slow by a known amount is named, and the step without it is predicted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from aggregator.events.steps import Statistic
from aggregator.replay.rank_calls import Calls, arrange
from aggregator.replay.rank_report import RankReport
from aggregator.replay.rank_steps import call_times, steps_of_calls
from aggregator.replay.slow_ranks import SlowRanks, find_slow_ranks
from tests.replay.simulated_job import Float64, Job, simulate, speeds

SEEDS = range(20)
INJECTIONS = {"5 %": (0.05, 1), "20 %": (0.2, 1), "20 % every fifth step": (0.2, 5)}


def random_job(seed: int) -> Job:
    random = np.random.default_rng(1_000 + seed)
    return Job(
        ranks=int(random.choice([2, 3, 4, 8])),
        steps=int(random.integers(21, 41)),
        kernels=int(random.integers(8, 30)),
        buckets=int(random.integers(1, 6)),
        kernel_ns=float(random.uniform(20_000, 300_000)),
        transfer_ns=float(random.uniform(20_000, 800_000)),
        jitter=float(random.uniform(0.001, 0.006)),
        synchronizes=bool(random.integers(2)),
    )


def analyzed(job: Job, factor: Float64, seed: int) -> tuple[SlowRanks, Float64]:
    events, ends = simulate(job, factor, seed)
    group = np.ones((job.buckets, job.ranks), dtype=np.int64)
    return find_slow_ranks(steps_of_calls(map(call_times, events), group)), np.diff(ends)


@pytest.mark.parametrize("injected", INJECTIONS)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_slow_rank_is_named_and_the_step_without_it_predicted(seed: int, injected: str) -> None:
    job = random_job(seed)
    share, every = INJECTIONS[injected]
    even = speeds(job, seed)
    factor = even.copy()
    slow = seed % job.ranks
    factor[slow, ::every] *= 1.0 + share
    found, measured = analyzed(job, factor, seed)
    truth = np.diff(simulate(job, even, seed)[1])
    assert found.measured_ns == pytest.approx(measured, abs=2)
    assert found.is_exact
    assert found.named == slow
    assert found.predicted_ns(slow) == pytest.approx(truth.mean(), rel=0.05)
    assert found.every == (every if every > 1 else 0)


@pytest.mark.parametrize("seed", SEEDS[:8])
def test_a_few_steps_with_low_clocks_hide_no_rank_that_is_always_late(seed: int) -> None:
    """In a fifth of the steps all GPUs are slow, and another rank is the latest."""
    job = random_job(seed)
    even = speeds(job, seed)
    slow, other = seed % job.ranks, (seed + 1) % job.ranks
    low = slice(5, 5 + job.steps // 5)
    factor = even.copy()
    factor[slow] *= 1.05
    factor[:, low] *= 1.1
    factor[other, low] *= 1.25
    found, _ = analyzed(job, factor, seed)
    truth = np.diff(simulate(job, even, seed)[1])
    assert found.named == slow
    assert not len(found.slow_steps)
    assert found.predicted_ns(slow) == pytest.approx(np.median(truth), rel=0.02)
    assert found.step_ns == np.median(found.measured_ns)


@pytest.mark.parametrize("seed", SEEDS[:8])
def test_a_rank_that_is_a_little_slow_hides_none_that_is_very_late_now_and_then(seed: int) -> None:
    job = random_job(seed)
    factor = speeds(job, seed)
    slow, other = seed % job.ranks, (seed + 1) % job.ranks
    factor[other] *= 1.015
    factor[slow, ::5] *= 1.5
    found, _ = analyzed(job, factor, seed)
    assert (found.named, found.every) == (slow, 5)
    assert found.step_ns == found.measured_ns.mean()


@pytest.mark.parametrize("seed", [5, 6, 7, 8, 10, 11])
def test_a_rank_that_is_late_now_and_then_is_named_where_steps_vary_much(seed: int) -> None:
    """The kernels of each step and rank are faster or slower by 12 %, independently."""
    job = replace(random_job(seed), ranks=2, steps=26, jitter=0.004)
    factor = speeds(job, seed) * np.exp(np.random.default_rng(seed).normal(0, 0.12, (2, 26)))
    slow = seed % 2
    balanced, _ = analyzed(job, factor, seed)
    assert not len(balanced.slow_steps)
    factor[slow, ::5] *= 2.0
    found, _ = analyzed(job, factor, seed)
    assert (found.named, found.every) == (slow, 5)


@pytest.mark.parametrize("seed", [0, 2, 3, 4, 5, 6])
def test_the_later_of_two_ranks_in_turns_costs_the_step_more(seed: int) -> None:
    """The median step would not change where half of the steps gain nothing."""
    job = replace(random_job(seed), ranks=2, steps=10, jitter=0.004)
    factor = speeds(job, seed) * np.exp(np.random.default_rng(seed).normal(0, 0.12, (2, 10)))
    found, _ = analyzed(job, factor, seed)
    assert found.named is None
    assert found.contribution.argmax() == found.late_ns.mean(axis=1).argmax()
    gain_ns = [found.step_ns - found.predicted_ns(rank) for rank in range(2)]
    answer = RankReport(found, ranks=(0, 1), iterations=tuple(range(10)), notes=()).step
    assert (answer.statistic, answer.ns) == (Statistic.MEAN, found.step_ns)
    assert gain_ns == pytest.approx((found.replayed_ns - found.without_ns).mean(axis=1), abs=1)


@pytest.mark.parametrize("seed", SEEDS)
def test_balanced_ranks_name_no_rank(seed: int) -> None:
    job = random_job(seed)
    found, _ = analyzed(job, speeds(job, seed), seed)
    assert found.named is None
    assert found.is_exact


def test_calls_that_a_rank_makes_before_a_late_one_begins_the_step_are_of_that_step() -> None:
    """Rank 0 begins the steps; before each second one it sleeps, and rank 1 does not."""
    steps, in_step = 12, 3
    count = steps * in_step
    step = np.repeat(np.arange(steps), in_step)
    early = np.where(step % 2 == 1, step - 1, step)
    calls = Calls(
        kernel=np.arange(2 * count),
        rank=np.repeat([0, 1], count),
        communicator=np.zeros(2 * count, dtype=np.int64),
        sequence=np.tile(np.arange(count), 2),
        iteration=np.r_[step, early],
        start_ns=np.tile(1_000 * np.arange(count), 2),
    )
    found = arrange(calls, 2, np.arange(steps))
    assert found.iteration.tolist() == list(range(1, steps))
    assert found.kernel.shape == (2, steps, in_step)
