"""The step that answers of a replay start from.

A replayed step lasts from the first work of a step to that of the next one, on one GPU; the step
that users know ends when host and GPU have ended, on all of them. Both differ by little, and one
step has one number: a replay gives shares and changes, which are parts of the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from aggregator.events.steps import Statistic
from aggregator.events.store import EventStore
from aggregator.events.window import read_unprofiled_step
from aggregator.profile.arrays import Bool, Int64
from aggregator.replay.analysis import PathShare, Prediction, ReplayedProfile

LIMITED_RATIO = 0.5
"""A replay that saves less than this share of the GPU's time is limited by the CPU as profiled."""


@dataclass(frozen=True)
class StepScale:
    """The step, and by what times of a replay become parts of it."""

    step_ns: int  # The step. Unit: ns.
    statistic: Statistic  # Whether the profiled one is the median or the mean.
    basis: str  # bare: without profiling; given: the same by the user; profiled.
    is_corrected: bool  # Whether the replay is without the costs of profiling.
    ratio: float  # The replayed step as a part of the profiled one; of a corrected one, the bare.
    is_span: bool = False  # Whether no step was found: it is the recorded span.

    def typical_ns(self, length_ns: Int64) -> int:
        """Return the typical one of replayed steps, as a part of the step. Unit: ns."""
        return round(self.ratio * _of(self.statistic, length_ns))

    def unchanged_ns(self, profile: ReplayedProfile) -> int:
        """Return the step of the unchanged replay. Unit: ns."""
        measured = max(_of(self.statistic, profile.measured_ns), 1.0)
        return round(self.step_ns * _of(self.statistic, profile.replayed_ns) / measured)

    @property
    def _is_of_profiled(self) -> bool:
        """Whether the replay is of the profiled step, and the step is another one."""
        return self.basis != "profiled" and not self.is_corrected

    def uncertain_ns(
        self, profile: ReplayedProfile, found: Prediction, only: Bool | None = None
    ) -> int:
        """Return what may be saved beyond ``saving_ns``; 0: the saving is all of it. Unit: ns.

        That is time of the CPU; and time of the GPU's work that the CPU as profiled hides.
        """
        if self._is_of_profiled or self.is_corrected:
            return 0
        known = self.saving_ns(profile, found, only) or 0
        most = round(self.typical_ns(profile.measured_ns) * self.saved_share(profile, found, only))
        of_work = profile.busy_ns - found.busy_ns
        if self.basis == "profiled" and known < LIMITED_RATIO * of_work:
            most = max(most, of_work)
        return max(min(most, self.step_ns) - known, 0)

    def interval_ns(self, found: Prediction, predicted_ns: int) -> list[int]:
        """Return the 10th and 90th percentile of the steps around a predicted one. Unit: ns."""
        moved = predicted_ns - self.ratio * found.mean_step_ns
        return [max(round(self.ratio * bound + moved), 0) for bound in found.interval_ns]

    def shares(self, found: Sequence[PathShare]) -> list[PathShare]:
        """Return the critical path with times that are parts of the step and add up to it."""
        part = self.step_ns / max(sum(share.ns for share in found), 1)
        return [replace(share, ns=round(part * share.ns)) for share in found]

    def saving_ns(
        self, profile: ReplayedProfile, found: Prediction, only: Bool | None = None
    ) -> int | None:
        """Return what a step is known to save; None: profiling may have made all, or no step is.

        Of a step that was given and not replayed, time of the CPU counts by the idle time of the
        GPU in it: all idle time shrinks alike without profiling.

        Args:
            profile: The replay.
            found: Its answer to the change.
            only: Which steps the answer is of; None: all of them.
        """
        if profile.steps.is_whole:  # No step was replayed, but all of the profile.
            return None
        whole_ns = self.typical_ns(profile.measured_ns)
        saved = round(whole_ns * self.saved_share(profile, found, only))
        if found.busy_ns >= profile.busy_ns and not self._is_of_profiled:
            # The GPU works as long as before.
            saved = min(saved, max(self.step_ns - profile.busy_ns, 0))
        if self.is_corrected or found.gpu_saved_ns is None or saved <= 0:
            return min(saved, self.step_ns)
        of_gpu_ns = min(saved, found.gpu_saved_ns)
        if not self._is_of_profiled:
            return of_gpu_ns or None
        busy = profile.busy_ns
        idle = max(self.step_ns - busy, 0) / max(whole_ns - busy, 1)
        return min(of_gpu_ns + round((saved - of_gpu_ns) * min(idle, 1.0)), self.step_ns)

    def saved_share(
        self, profile: ReplayedProfile, found: Prediction, only: Bool | None = None
    ) -> float:
        """Return what changes take from the replayed step, as a share of it.

        That is the share of a mean step, whatever the statistic: where some steps wait for the CPU
        and others for the GPU, work that goes can make the median one longer, never the mean.

        Args:
            profile: The replay.
            found: Its answer to the changes.
            only: Which steps the answer is of; None: all of them.
        """
        measured = profile.measured_ns if only is None else profile.measured_ns[only]
        return 1.0 - found.mean_step_ns / max(_of(Statistic.MEAN, measured), 1.0)


def _of(statistic: Statistic, length_ns: Int64) -> float:
    return float(np.mean(length_ns) if statistic is Statistic.MEAN else np.median(length_ns))


def read_scale(
    store: EventStore,
    aggr: int,
    profile: ReplayedProfile,
    *,
    is_corrected: bool = False,
    as_profiled: bool = False,
) -> StepScale:
    """Read the step of an aggregation for a replay of it.

    Args:
        store: The events.
        aggr: Number of the aggregation.
        profile: The replay.
        is_corrected: Whether it is without the costs of profiling.
        as_profiled: Take the step as profiled, also where the step without profiling is known.
    """
    own_median = max(_of(Statistic.MEDIAN, profile.measured_ns), 1.0)
    unprofiled_ns, median = read_unprofiled_step(store, aggr), Statistic.MEDIAN
    if is_corrected:
        step_ns = unprofiled_ns or round(own_median)
        ratio = step_ns / own_median
        return StepScale(step_ns, median, "bare", is_corrected, ratio)
    names = ("statistic", "median", "mean", "given")
    rows = store.of_aggregation("typical_steps", aggr, *names) if store.has("typical_steps") else []
    if not rows or rows[0][0] is None:
        is_span, step_ns = profile.steps.is_whole, round(own_median)
        return StepScale(step_ns, median, "profiled", is_corrected, 1.0, is_span)
    statistic = Statistic(rows[0][0])
    typical, mean, given = int(rows[0][1]), int(rows[0][2]), rows[0][3]
    profiled = mean if statistic is Statistic.MEAN else typical
    ratio = profiled / max(_of(statistic, profile.measured_ns), 1.0)
    if unprofiled_ns is None or as_profiled:
        return StepScale(profiled, statistic, "profiled", is_corrected, ratio)
    basis = "given" if given == unprofiled_ns else "bare"
    return StepScale(unprofiled_ns, statistic, basis, is_corrected, ratio)
