"""The one-line verdict, on invented steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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
from tests.builders import table

STEP_NS = 52_935_212
BUSY = StepShares(computing=92.0, communication=0.0, copies=1.0, loading=0.0, idle=7.0)
IDLE = StepShares(computing=13.3, communication=0.0, copies=0.0, loading=0.0, idle=86.7)
HALF = StepShares(computing=60.0, communication=0.0, copies=2.0, loading=0.0, idle=38.0)
SHARES = {"BUSY": BUSY, "IDLE": IDLE, "HALF": HALF}
PATH = PathShares(host=0.0, loading=0.0, computing=0.0, communication=0.0, copies=0.0)
COSTS = Roofline(known_pct=90.0, peak_pct=60.0, compute_ns=80, memory_ns=15, link_ns=5)


def symptoms(shares: StepShares | None, **more: object) -> Symptoms:
    return replace(Symptoms(shares, mean_ns=STEP_NS * 1.01, median_ns=STEP_NS, steps=20), **more)  # type: ignore[arg-type]


def _given(shares: str | None, changed: dict[str, float], **more: Any) -> Symptoms:
    """Symptoms of the table."""
    for name, usual in (("path", PATH), ("roofline", COSTS)):
        if name in more:
            more[name] = replace(usual, **more[name])
    return symptoms(replace(SHARES[shares], **changed) if shares else None, **more)


@pytest.mark.parametrize(("given", "limit", "share_pct", "sentence"), table("verdicts"))
def test_what_takes_most_of_a_step_limits_it_unless_that_is_unclear(
    given: dict[str, Any], limit: str, share_pct: float | None, sentence: str
) -> None:
    verdict = limiting_factor(_given(**{"changed": {}, **given}))

    assert (verdict.limit, verdict.share_pct, verdict.sentence) == (limit, share_pct, sentence)


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


def test_a_finding_that_saves_little_does_not_explain_the_step() -> None:
    """Ranks that wait for each other for 3% of a step of which the GPU idles two thirds."""
    first = FirstFinding("late_ranks", "The ranks wait 13% of the step", 1_880_000, 3.3)
    given = replace(
        symptoms(IDLE, path=replace(PATH, host=100.0), gains_pct={"launch_bound": 43.9}),
        roofline=COSTS,
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
