"""The one-line verdict, on invented steps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aggregator.advice.verdict import (
    FirstFinding,
    Limit,
    PathShares,
    Roofline,
    StepShares,
    Symptoms,
    limiting_factor,
)

STEP_NS = 52_935_212
BUSY = StepShares(computing=92.0, communication=0.0, copies=1.0, loading=0.0, idle=7.0)
IDLE = StepShares(computing=13.3, communication=0.0, copies=0.0, loading=0.0, idle=86.7)
HALF = StepShares(computing=60.0, communication=0.0, copies=2.0, loading=0.0, idle=38.0)
PATH = PathShares(host=0.0, loading=0.0, computing=0.0, communication=0.0, copies=0.0)
COSTS = Roofline(known_pct=90.0, peak_pct=60.0, compute_ns=80, memory_ns=15, link_ns=5)


def symptoms(shares: StepShares | None, **more: object) -> Symptoms:
    return replace(Symptoms(shares, mean_ns=STEP_NS * 1.01, median_ns=STEP_NS, steps=20), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "limit", "sentence"),
    [
        (
            symptoms(IDLE, gains_pct={"launch_bound": 82.2, "unfused_optimizer": 3.4}),
            Limit.LAUNCH,
            "Launch-bound: the GPU idles 87% of a 52.9 ms step",
        ),
        (
            symptoms(replace(IDLE, loading=60.0, idle=26.7), gains_pct={"launch_bound": 20.0}),
            Limit.LOADER,
            "Loader-bound: the GPU waits 60% of a 52.9 ms step for input",
        ),
        (
            symptoms(IDLE, gains_pct={"launch_bound": 20.0, "input_bound": 61.2}),
            Limit.LOADER,
            "Loader-bound: the GPU waits 61% of a 52.9 ms step for input",
        ),
        (
            symptoms(replace(BUSY, computing=30.0, communication=62.0)),
            Limit.COMMUNICATION,
            ("Communication-bound: for 62% of a 52.9 ms step GPUs exchange data or wait for each "
            "other while no kernel computes"),
        ),
        (
            symptoms(replace(BUSY, computing=30.0, copies=63.0)),
            Limit.COPY,
            "Copy-bound: for 63% of a 52.9 ms step only copies run",
        ),
        (
            symptoms(BUSY, roofline=COSTS),
            Limit.COMPUTE,
            ("Compute-bound: the GPU is busy 93% of a 52.9 ms step, and operations limit most of "
            "its kernels"),
        ),
        (
            symptoms(BUSY, roofline=replace(COSTS, compute_ns=15, memory_ns=80)),
            Limit.MEMORY,
            ("Memory-bound: the GPU is busy 93% of a 52.9 ms step, and its memory limits most of "
            "its kernels"),
        ),
    ],
)  # fmt: skip
def test_what_takes_most_of_a_step_limits_it(given: Symptoms, limit: Limit, sentence: str) -> None:
    verdict = limiting_factor(given)

    assert (verdict.limit, verdict.sentence) == (limit, sentence)
    assert verdict.share_pct is not None


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (replace(symptoms(IDLE), median_ns=None), "no loop was found"),
        (replace(symptoms(IDLE), mean_ns=None), "no loop was found"),
        (
            replace(symptoms(IDLE), steps=3),
            "there are fewer than 4 steps. The GPU is busy 13% of them",
        ),
        (replace(symptoms(None), steps=1), "there are fewer than 4 steps"),
        (symptoms(None), "it has no breakdown of its time"),
        (
            replace(symptoms(IDLE, gains_pct={"launch_bound": 82.2}), mean_ns=76_800_000.0),
            "Some steps are much slower: mean 76.8 ms, median 52.9 ms",
        ),
        (
            symptoms(StepShares(36.0, 20.0, 4.0, 10.0, 30.0)),
            (
                "No single limit: most of a 52.9 ms step is idle time of the GPU (40%) and "
                "computing (36%)"
            ),
        ),
        (
            symptoms(StepShares(38.0, 30.0, 2.0, 0.0, 30.0)),
            "No single limit: most of a 52.9 ms step is computing (38%) and communication (30%)",
        ),
        (symptoms(IDLE), "no single cause explains half of it"),
        (
            symptoms(IDLE, gains_pct={"launch_bound": 30.0, "host_stalls": 35.0}),
            "no single cause explains half of it",
        ),
        (symptoms(BUSY), "the costs of 100% of their time are"),
        (symptoms(BUSY, roofline=replace(COSTS, known_pct=24.0)), "the costs of 76%"),
        (symptoms(BUSY, roofline=replace(COSTS, peak_pct=12.0)), "reach only 12% of its peaks"),
        (
            symptoms(BUSY, roofline=replace(COSTS, compute_ns=50, memory_ns=50)),
            "neither computing nor memory limits most of its kernels",
        ),
    ],
)
def test_an_unclear_limit_is_unknown_with_its_reason(given: Symptoms, reason: str) -> None:
    verdict = limiting_factor(given)

    assert verdict.limit is Limit.UNKNOWN
    assert reason in verdict.sentence


def test_an_unexplained_idle_time_names_the_advice_that_saves_most_of_it() -> None:
    gains = {"launch_bound": 30.0, "host_stalls": 35.0, "half_precision": 80.0}

    assert limiting_factor(symptoms(IDLE, gains_pct=gains)).advice == "host_stalls"


@pytest.mark.parametrize(
    ("median_ns", "text"), [(820_400, "820 µs"), (1_234_567_890, "1.23 s"), (250_400_000, "250 ms")]
)
def test_the_step_has_a_readable_unit(median_ns: int, text: str) -> None:
    given = symptoms(IDLE, gains_pct={"launch_bound": 80.0})

    verdict = limiting_factor(replace(given, median_ns=median_ns, mean_ns=float(median_ns)))

    assert verdict.sentence == f"Launch-bound: the GPU idles 87% of a {text} step"


def replayed(shares: StepShares, path: PathShares, **gains_pct: float) -> Symptoms:
    return symptoms(shares, path=path, gains_pct=gains_pct, roofline=COSTS)


@pytest.mark.parametrize(
    ("given", "limit", "share_pct", "sentence"),
    [
        # Kernels run longest, but the next one waits for its launch.
        (
            replayed(HALF, replace(PATH, host=74.0, computing=26.0), launch_bound=32.6),
            Limit.LAUNCH,
            74.0,
            ("Launch-bound: the CPU sets the pace of a 52.9 ms step; the GPU is busy 62% of it"),
        ),
        (
            replayed(
                HALF, replace(PATH, host=99.0, computing=1.0), launch_bound=5.0, host_stalls=30.0
            ),
            Limit.HOST,
            99.0,
            ("CPU-bound: the program sets the pace of a 52.9 ms step; the GPU is busy 62% of it"),
        ),
        (
            replayed(IDLE, replace(PATH, host=100.0), launch_bound=43.9, host_stalls=43.8),
            Limit.LAUNCH,
            86.7,
            "Launch-bound: the GPU idles 87% of a 52.9 ms step",
        ),
        (
            replayed(IDLE, replace(PATH, host=100.0)),
            Limit.HOST,
            86.7,
            "CPU-bound: the GPU idles 87% of a 52.9 ms step and waits for the program",
        ),
        (
            replayed(IDLE, replace(PATH, host=30.0, loading=70.0)),
            Limit.LOADER,
            70.0,
            "Loader-bound: the GPU waits 70% of a 52.9 ms step for input",
        ),
        # The path may lead through the CPU for long where the GPU is hardly ever idle.
        (
            replayed(
                StepShares(82.0, 0.0, 0.0, 0.0, 18.0), replace(PATH, host=64.0, computing=36.0)
            ),
            Limit.COMPUTE,
            82.0,
            (
                "Compute-bound: the GPU is busy 82% of a 52.9 ms step, and operations limit most "
                "of its kernels"
            ),
        ),
        (
            replayed(
                StepShares(40.0, 55.0, 0.0, 0.0, 5.0),
                replace(PATH, computing=40.0, communication=55.0, host=5.0),
            ),
            Limit.COMMUNICATION,
            55.0,
            (
                "Communication-bound: for 55% of a 52.9 ms step GPUs exchange data or wait for "
                "each other while no kernel computes"
            ),
        ),
        (
            replayed(
                StepShares(84.0, 0.0, 0.0, 0.0, 16.0), replace(PATH, host=81.0, computing=19.0)
            ),
            Limit.UNKNOWN,
            84.0,
            ("No single limit: GPU busy 84% of a 52.9 ms step; the CPU barely keeps ahead"),
        ),
        (
            replayed(
                StepShares(45.0, 0.0, 45.0, 0.0, 10.0), replace(PATH, copies=45.0, computing=45.0)
            ),
            Limit.UNKNOWN,
            None,
            (
                "No single limit: a 52.9 ms step would save 45% without the time of the kernels "
                "and 45% without copies"
            ),
        ),
    ],
)
def test_a_replay_says_what_a_step_waits_for(
    given: Symptoms, limit: Limit, share_pct: float | None, sentence: str
) -> None:
    verdict = limiting_factor(given)

    assert (verdict.limit, verdict.share_pct, verdict.sentence) == (limit, share_pct, sentence)


def test_a_finding_that_saves_little_does_not_explain_the_step() -> None:
    """Ranks that wait for each other for 3% of a step of which the GPU idles two thirds."""
    first = FirstFinding("late_ranks", "The ranks wait 13% of the step", 1_880_000, 3.3)
    given = replace(
        replayed(IDLE, replace(PATH, host=100.0), launch_bound=43.9),
        has_unprofiled=False,
        first=first,
    )

    verdict = limiting_factor(given)

    assert verdict.sentence.startswith("The GPU is busy 13% of a 52.9 ms step as profiled")
    assert verdict.sentence.endswith("First to change: The ranks wait 13% of the step")


def test_a_late_rank_explains_steps_that_are_much_slower_than_others() -> None:
    first = FirstFinding("late_ranks", "Rank 1 enters a collective 122 ms late", 23_000_000, 25.0)

    verdict = limiting_factor(replace(symptoms(IDLE), mean_ns=76_800_000.0, first=first))

    assert (verdict.limit, verdict.advice) == (Limit.RANKS, "late_ranks")
    assert verdict.sentence.startswith("Rank 1 enters a collective 122 ms late")
