"""The step that answers of a replay start from.

A replayed step lasts from the first work of a step to that of the next one, on one GPU; the step
that users know ends when host and GPU have ended, on all of them. Both differ by little, and two
numbers for one step help nobody: a replay gives shares and changes, which are parts of the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aggregator.events.steps import Statistic
from aggregator.events.store import EventStore
from aggregator.events.window import read_bare_step
from aggregator.profile.arrays import Int64
from aggregator.replay.analysis import PathShare, Prediction, ReplayedProfile
from aggregator.replay.corrected import busy_ns


@dataclass(frozen=True)
class StepScale:
    """The step, and by what times of a replay become parts of it."""

    step_ns: int  # The typical step. Unit: ns.
    statistic: Statistic  # Whether it is the median or the mean one.
    basis: str  # bare: without profiling; profiled.
    ratio: float  # The step by the same one of the replayed profile.
    mean_ratio: float  # The mean step by the mean one of the replayed profile.

    def typical_ns(self, length_ns: Int64) -> int:
        """Return the typical one of replayed steps, as a part of the step. Unit: ns."""
        return round(self.ratio * _of(self.statistic, length_ns))

    def predicted_ns(self, found: Prediction) -> int:
        """Return the step with changes. Unit: ns."""
        is_mean = self.statistic is Statistic.MEAN
        return round(self.ratio * (found.mean_step_ns if is_mean else found.predicted_step_ns))

    def interval_ns(self, found: Prediction) -> list[int]:
        """Return the 10th and 90th percentile of the steps with changes. Unit: ns."""
        return [round(self.ratio * bound) for bound in found.interval_ns]

    def shares(self, found: Sequence[PathShare]) -> list[PathShare]:
        """Return the critical path of a mean step."""
        scaled = (round(self.mean_ratio * share.ns) for share in found)
        return [
            PathShare(share.kind, share.owner, ns, share.share_pct)
            for share, ns in zip(found, scaled, strict=True)
        ]

    def saving_ns(
        self, profile: ReplayedProfile, found: Prediction, bare_ns: int | None
    ) -> int | None:
        """Return what a step is known to save; None: profiling may have made all of it.

        Args:
            profile: The replay.
            found: Its answer to the change.
            bare_ns: Median step without profiling; None: unknown.
        """
        saved = self.step_ns - self.predicted_ns(found)
        if self.basis == "bare" or found.gpu_saved_ns is None or saved <= 0:
            return saved if bare_ns is None else min(saved, bare_ns)
        if bare_ns is not None:
            return min(saved, max(bare_ns - busy_ns(profile), 0) + found.gpu_saved_ns, bare_ns)
        return min(saved, found.gpu_saved_ns) or None


def _of(statistic: Statistic, length_ns: Int64) -> float:
    return float(np.mean(length_ns) if statistic is Statistic.MEAN else np.median(length_ns))


def read_scale(
    store: EventStore, aggr: int, profile: ReplayedProfile, *, is_corrected: bool = False
) -> StepScale:
    """Read the step of an aggregation for a replay of it.

    Args:
        store: The events.
        aggr: Number of the aggregation.
        profile: The replay.
        is_corrected: Whether it is without the costs of profiling.
    """
    own_mean = max(_of(Statistic.MEAN, profile.measured_ns), 1.0)
    own_median = max(_of(Statistic.MEDIAN, profile.measured_ns), 1.0)
    if is_corrected:
        step_ns = read_bare_step(store, aggr) or round(own_median)
        ratio = step_ns / own_median
        return StepScale(step_ns, Statistic.MEDIAN, "bare", ratio, ratio)
    names = ("statistic", "median", "mean")
    rows = store.of_aggregation("typical_steps", aggr, *names) if store.has("typical_steps") else []
    if not rows or rows[0][0] is None or profile.steps.is_whole:
        return StepScale(round(own_median), Statistic.MEDIAN, "profiled", 1.0, 1.0)
    statistic, median, mean = Statistic(rows[0][0]), int(rows[0][1]), int(rows[0][2])
    is_mean = statistic is Statistic.MEAN
    step_ns, own = (mean, own_mean) if is_mean else (median, own_median)
    return StepScale(step_ns, statistic, "profiled", step_ns / own, mean / own_mean)
