"""What runs of variants of a program say: which is faster, by how much, and how certain that is.

The variants ran in turn, in random order, and nothing was recorded but the times of their steps.
A run is one unit: its steps are no independent samples of the program.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, median
from typing import Final, TypeAlias

import numpy as np

from aggregator.compare.result import Verdict
from aggregator.compare.statistics import judge_runs

LEAST_RUNS: Final = 3
"""A variant is judged first after so many runs: fewer hardly know how far they differ."""
NARROW_PCT: Final = 1.5
NARROW_SHARE: Final = 0.2
"""No further run is needed when the interval reaches so far from its middle: in percent of the
base, or as a share of the difference."""
PAUSE: Final = 10.0
MOST_PAUSES: Final = 0.01
"""Steps so many times as long as the median are pauses, for a validation or a checkpoint, unless
they are more than this share: then they belong to the loop, as a loader that workers fill."""
OTHER_BATCH: Final = 0.02
"""Batches that differ by less are the same: padding makes them vary."""
OTHER_CLOCK: Final = 0.02
FIRST_LOSS, LATER_LOSS = 0.01, 0.05
"""Largest relative difference of losses that agree, of the first step and of those after it: 16
bits in place of 32 change the first one by less, and training amplifies it."""
RANDOM_LOSS: Final = 0.1
"""Where runs of the base differ by more, the program draws other numbers in each run."""
LEAST_LOSSES: Final = 1e-6

Loss: TypeAlias = float | str | None
"""Text: infinite, or not a number. None: the step had no loss."""


class Unit(StrEnum):
    """What the time of a variant is for."""

    STEP = "step"
    SAMPLE = "sample"
    TOKEN = "token"  # noqa: S105 - of a text


class Agreement(StrEnum):
    """Whether the losses of the first steps are those of the base."""

    AGREE = "agree"
    DIFFER = "differ"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class TrialRun:
    """One run of a variant. Times per step are those of the slowest rank."""

    variant: int  # 0: the base.
    number: int  # Place among all runs of the trial, from 0.
    step_ns: float | None = None  # Mean step; None: the run failed.
    steps: int = 0  # Steps that were timed.
    pauses: int = 0  # Of these, left out of the mean.
    clock: str = ""  # What timed them: gpu or host.
    ranks: int = 1  # Processes with steps.
    losses: tuple[Loss, ...] = ()  # By step.
    samples: float | None = None  # In a step of all ranks; None: unknown.
    tokens: float | None = None
    sm_clock_mhz: int | None = None  # Of the busiest GPU when the steps had been timed.
    seconds: float = 0.0  # Of the whole run.
    failure: str = ""  # Why it has no step; empty: it has.
    last_lines: tuple[str, ...] = ()  # What a failed run wrote last.


@dataclass(frozen=True)
class Estimate:
    """A variant against the base."""

    variant: int
    verdict: Verdict
    reason: str  # Why there is no verdict; else empty.
    unit: Unit
    base_ns: float | None  # Mean time for the unit over the runs; None: there are none.
    new_ns: float | None
    change_pct: float | None  # Of that time; below 0: faster.
    interval_pct: tuple[float, float] | None  # 95 %; None: too few runs.
    runs: tuple[int, int]  # Of the base and of the variant that have steps.
    noise_pct: float | None  # Standard deviation of runs of one variant.
    losses: Agreement
    losses_note: str
    notes: tuple[str, ...] = ()

    @property
    def is_narrow(self) -> bool:
        """Whether further runs would say little more."""
        is_open = self.verdict is Verdict.CANNOT_TELL
        if is_open or self.interval_pct is None or self.change_pct is None:
            return False
        reach = (self.interval_pct[1] - self.interval_pct[0]) / 2
        return reach <= max(NARROW_PCT, NARROW_SHARE * abs(self.change_pct))


def looks_of(repeats: int) -> int:
    """How often a trial of so many runs a side is judged: after each one that may be the last."""
    return max(1, repeats - LEAST_RUNS + 1)


def mean_step(times_ns: Sequence[int]) -> tuple[float, int]:
    """Return the mean of a run's steps without pauses, and the number of these."""
    most = PAUSE * median(times_ns)
    kept = [time for time in times_ns if time <= most]
    pauses = len(times_ns) - len(kept)
    if pauses > max(1, MOST_PAUSES * len(times_ns)):
        return fmean(times_ns), 0
    return fmean(kept), pauses


def judge_variant(
    runs: Sequence[TrialRun], variant: int, *, looks: int = 1, tries: int = 1
) -> Estimate:
    """Compare a variant with the base.

    Args:
        runs: All runs of the trial.
        variant: Its number, from 1.
        looks: How often the trial was planned to be judged at most: see ``looks_of``.
        tries: Variants that are compared with the base.
    """
    sides = _of(runs, 0), _of(runs, variant)
    counts = len(sides[0]), len(sides[1])
    unit = _unit(*sides)
    times = [[_time(run, unit) for run in side] for side in sides]
    base_ns, new_ns = (fmean(side) if side else None for side in times)
    losses, losses_note = compare_losses(*sides)
    verdict, reason, interval = Verdict.CANNOT_TELL, _too_few(runs, variant, counts), None
    if not reason and base_ns:
        found = judge_runs(*times, looks=looks, tests=tries)
        verdict = found.verdicts[0]
        low, high = (100 * float(bound[0]) / base_ns for bound in (found.low_ns, found.high_ns))
        interval = max(low, -100.0), high  # A step of no time is the end of the scale.
    change = 100 * (new_ns / base_ns - 1) if base_ns and new_ns is not None else None
    return Estimate(
        variant=variant,
        verdict=verdict,
        reason=reason,
        unit=unit,
        base_ns=base_ns,
        new_ns=new_ns,
        change_pct=change,
        interval_pct=interval,
        runs=counts,
        noise_pct=_noise_pct(times),
        losses=losses,
        losses_note=losses_note,
        notes=tuple(_notes(*sides, unit)),
    )


def _of(runs: Sequence[TrialRun], variant: int) -> list[TrialRun]:
    return [run for run in runs if run.variant == variant and run.step_ns is not None]


def _too_few(runs: Sequence[TrialRun], variant: int, counts: tuple[int, int]) -> str:
    """Why two sides cannot be judged; empty: they can."""
    for side, count in ((0, counts[0]), (variant, counts[1])):
        if not count:
            name = "the base" if side == 0 else "the variant"
            failed = [run.failure for run in runs if run.variant == side and run.failure]
            return f"{name} {failed[0]}" if failed else f"{name} was not measured"
    if min(counts) < 2:
        return "one run a side does not show how much runs differ"
    return ""


def _time(run: TrialRun, unit: Unit) -> float:
    parts = {Unit.STEP: 1.0, Unit.SAMPLE: run.samples, Unit.TOKEN: run.tokens}[unit]
    return (run.step_ns or 0.0) / (parts or 1.0)


def _unit(base: Sequence[TrialRun], new: Sequence[TrialRun]) -> Unit:
    """What the times are compared for: a step, or what it computes where that differs."""
    for unit, name in ((Unit.TOKEN, "tokens"), (Unit.SAMPLE, "samples")):
        before, after = ([getattr(run, name) for run in side] for side in (base, new))
        is_known = all(before) and all(after) and bool(before and after)
        if is_known and _differ(before, after, OTHER_BATCH):
            return unit
    return Unit.STEP


def _differ(base: Sequence[float], new: Sequence[float], share: float) -> bool:
    """Whether all values of one side are beyond those of the other, by more than a share."""
    (low, high), (least, most) = sorted([(min(base), max(base)), (min(new), max(new))])
    return low <= high < least <= most and median(new) > 0 and (least - high) > share * high


def _noise_pct(times: Sequence[Sequence[float]]) -> float | None:
    """Return the relative standard deviation of repeated runs, or None if no variant ran twice."""
    squares = degrees = 0.0
    for side in times:
        if len(side) > 1:
            middle = fmean(side)
            squares += sum((time / middle - 1) ** 2 for time in side)
            degrees += len(side) - 1
    return 100 * math.sqrt(squares / degrees) if degrees else None


def _notes(base: Sequence[TrialRun], new: Sequence[TrialRun], unit: Unit) -> list[str]:
    notes = []
    if not base or not new:
        return []
    if unit is not Unit.STEP:
        name = f"{unit}s"
        before, after = (median(getattr(run, name) or 0 for run in side) for side in (base, new))
        notes.append(f"A step has {after:g} {name} in place of {before:g}: compared per {unit}.")
    elif any(run.samples is None for run in (*base, *new)):
        notes.append("The batch sizes are unknown: compared per step.")
    if base[0].ranks != new[0].ranks:
        notes.append(f"Processes with steps: {new[0].ranks} in place of {base[0].ranks}.")
    if {run.clock for run in base} != {run.clock for run in new}:
        notes.append("Not all runs could be timed by events of the GPU; others are by the host.")
    old, now = ([run.sm_clock_mhz for run in side if run.sm_clock_mhz] for side in (base, new))
    if old and now and _differ(old, now, OTHER_CLOCK):
        change = f"{median(now):g} MHz in place of {median(old):g} MHz"
        notes.append(f"The GPU's clock was {change}.")
    pauses = sum(run.pauses for run in (*base, *new))
    if pauses:
        notes.append(
            f"Left out: {pauses} pause{'s' if pauses > 1 else ''}, steps {PAUSE:g} times as long."
        )
    return notes


# --- losses ---------------------------------------------------------------------------------------


def compare_losses(base: Sequence[TrialRun], new: Sequence[TrialRun]) -> tuple[Agreement, str]:
    """Whether the losses of the first steps agree, and what is to be said of them."""
    sides = [_by_step([run.losses for run in side if run.losses]) for side in (base, new)]
    if not all(sides):
        return Agreement.UNKNOWN, "no loss was seen in the first steps"
    for step, (before, after) in enumerate(zip(*sides, strict=False)):
        found = _compare_step(step, before, after)
        if found is not None:
            return found
    count = min(map(len, sides))
    return Agreement.AGREE, f"those of the first {count} steps" if count > 1 else "of one step"


def _by_step(losses: Sequence[tuple[Loss, ...]]) -> list[list[Loss]]:
    """The losses of all runs by step; steps that some run lacks are left out."""
    steps = min((len(run) for run in losses), default=0)
    return [[run[step] for run in losses] for step in range(steps)]


def _compare_step(
    step: int, before: Sequence[Loss], after: Sequence[Loss]
) -> tuple[Agreement, str] | None:
    """What the losses of a step decide; None: they agree."""
    numbers = [[loss for loss in side if isinstance(loss, float)] for side in (before, after)]
    if any(isinstance(loss, str) for loss in after) and len(numbers[0]) == len(before):
        return Agreement.DIFFER, f"that of step {step + 1} is {_first_text(after)}"
    if not all(numbers):
        return None
    base, new = (np.array(side) for side in numbers)
    scale = max(abs(float(base.mean())), abs(float(new.mean())), LEAST_LOSSES)
    spread = max(float(np.ptp(base)), float(np.ptp(new))) / scale
    if step == 0 and spread > RANDOM_LOSS:
        text = f"runs of one program differ by {100 * spread:.0f} % in the first step"
        return Agreement.UNKNOWN, f"{text}: set its random seed"
    difference = abs(float(new.mean() - base.mean())) / scale
    # What differs from run to run by chance differs between variants as well.
    most = max(LATER_LOSS if step else FIRST_LOSS, 2 * spread)
    if difference <= most:
        return None
    values = f"{base.mean():.6g} -> {new.mean():.6g}"
    return Agreement.DIFFER, f"that of step {step + 1} is another one: {values}"


def _first_text(losses: Sequence[Loss]) -> str:
    return next(loss for loss in losses if isinstance(loss, str))
