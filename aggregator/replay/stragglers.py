"""How much slow workers, stages and op types slow down a pipeline-parallel job.

The measures of "Understanding Stragglers in Large Model Training Using What-if Analysis" (Lin et
al., OSDI 2025). In the ideal step every op takes the same time as all others of its type: the mean
of compute ops, the median of transfers. S is the step over the ideal step; S_t, S_w are those of
steps in which only the ops of a type, or of a worker, keep their times. M_W and M_S are the shares
of the slowdown that vanish without the slowest 3 % of the workers, or without the last stage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from aggregator.errors import ProfileError
from aggregator.profile.arrays import Bool, Int64
from aggregator.replay.op_times import Float64, OpTimes
from aggregator.replay.pipeline_step import COMMUNICATION, pipeline_graph, work_times
from aggregator.texts import Text, say

SLOWEST_PCT: Final = 3
"""Share of the workers that M_W is about."""
MIN_SLOWDOWN: Final = 1.03  # A smaller slowdown is not attributed, as in the paper.
MAIN_SHARE: Final = 0.5  # Share of the slowdown that one cause must explain to be named.
_PAIRED: Final = {
    "forward-send": "forward-pp-comm",
    "forward-recv": "forward-pp-comm",
    "backward-send": "backward-pp-comm",
    "backward-recv": "backward-pp-comm",
}


@dataclass(frozen=True)
class Slowdown:
    """Slowdown by some ops: of the mean step, and of each step."""

    mean: float
    per_step: Float64


@dataclass(frozen=True)
class Removal:
    """What some ops contribute to the slowdown."""

    removed_s: float  # Mean step without their slowness. Unit: s.
    added_s: float  # Mean step with nothing but their slowness. Unit: s.
    removed_share: float  # Share of the slowdown that vanishes without it; M_W, M_S.
    added_share: float  # Share of the slowdown that it causes alone.


@dataclass(frozen=True)
class Stragglers:
    """The measures of a job."""

    steps: tuple[int, ...]  # Numbers of the steps.
    measured_s: Float64  # Measured time of each step. Unit: s.
    replayed_s: Float64  # Replayed without the pauses between ops. Unit: s.
    ideal_s: Float64  # Replayed with ideal times. Unit: s.
    slowdown: Slowdown  # S.
    by_op_type: dict[str, Slowdown]  # S_t.
    by_dp_rank: tuple[Slowdown, ...]  # S of each data-parallel rank.
    by_stage: tuple[Slowdown, ...]  # S of each pipeline stage.
    by_worker: dict[int, float]  # S_w of each worker of the job.
    slowest: tuple[int, ...]  # The workers that M_W is about.
    slowest_workers: Removal  # M_W.
    last_stage: Removal | None  # M_S; None: the job has one stage.


class _Job:
    """A job's ops with their measured and their ideal times."""

    def __init__(self, ops: OpTimes) -> None:
        self.ops = ops
        self.graph = pipeline_graph(ops)
        self.work_s = work_times(ops, self.graph)
        self.ideal_work_s = _ideal(ops, self.work_s)
        self.replayed_s = self.step_times(self.work_s)
        self.ideal_s = self.step_times(self.ideal_work_s)

    def step_times(self, work_s: Float64) -> Float64:
        """Time of each step if the ops take these times. Unit: s."""
        result: Float64 = self.graph.replay(work_s).max(axis=(0, 2))
        return result

    def slowdown(self, kept: Bool) -> Slowdown:
        """Slowdown if only some ops keep their measured times."""
        times = self.step_times(np.where(kept, self.work_s, self.ideal_work_s))
        return Slowdown(float(times.mean() / self.ideal_s.mean()), times / self.ideal_s)

    def removal(self, ops: Bool) -> Removal:
        """Contribution of some ops, by removing and by adding their slowness."""
        without = self.step_times(np.where(ops, self.ideal_work_s, self.work_s)).mean()
        alone = self.step_times(np.where(ops, self.work_s, self.ideal_work_s)).mean()
        measured, ideal = self.replayed_s.mean(), self.ideal_s.mean()
        lost = measured - ideal
        shares = ((measured - without) / lost, (alone - ideal) / lost) if lost else (0.0, 0.0)
        return Removal(float(without), float(alone), float(shares[0]), float(shares[1]))


def find_stragglers(ops: OpTimes) -> Stragglers:
    """Compute all measures of a job.

    Raises:
        ProfileError: Its step cannot be replayed.
    """
    job = _Job(ops)
    if not (job.ideal_s > 0).all():
        raise ProfileError(
            say("The step cannot be replayed: {reason}.", reason=say("its ops take no time"))
        )
    stage = ops.stage[:, None, None]
    column = np.arange(ops.num_dp_ranks)
    names = [_PAIRED.get(name, name) for name in ops.op_types]
    types = np.array(names, dtype=object)[:, None, None]
    by_type = {name: job.slowdown(types == name) for name in sorted(set(names))}
    by_dp_rank = tuple(job.slowdown(column == rank) for rank in column)
    by_stage = tuple(job.slowdown(stage == number) for number in range(ops.num_stages))
    scores = _worker_scores(by_dp_rank, by_stage)
    slowest = _slowest(ops.workers, scores)
    is_slow = np.isin(ops.workers, slowest)
    measured = ops.end_s.max(axis=(0, 2)) - ops.start_s.min(axis=(0, 2))
    return Stragglers(
        steps=ops.steps,
        measured_s=measured.astype(np.float64),
        replayed_s=job.replayed_s,
        ideal_s=job.ideal_s,
        slowdown=Slowdown(
            float(job.replayed_s.mean() / job.ideal_s.mean()), job.replayed_s / job.ideal_s
        ),
        by_op_type=by_type,
        by_dp_rank=by_dp_rank,
        by_stage=by_stage,
        by_worker=dict(zip(ops.workers.ravel().tolist(), scores.ravel().tolist(), strict=True)),
        slowest=tuple(slowest.tolist()),
        slowest_workers=job.removal(is_slow.T[ops.stage][:, None, :]),
        last_stage=job.removal(stage == ops.num_stages - 1) if ops.num_stages > 1 else None,
    )


def _ideal(ops: OpTimes, work_s: Float64) -> Float64:
    """The same time for all ops of a type."""
    result = np.empty_like(work_s)
    types = np.array(ops.op_types, dtype=object)
    for name in sorted(set(ops.op_types)):
        rows = np.flatnonzero(types == name)
        middle: Callable[[Float64], float] = np.median if name in COMMUNICATION else np.mean
        result[rows] = middle(work_s[rows])
    return result


def _worker_scores(by_dp_rank: tuple[Slowdown, ...], by_stage: tuple[Slowdown, ...]) -> Float64:
    """S_w: a worker is as slow as both its data-parallel rank and its stage. Shape of workers."""
    ranks = np.array([one.mean for one in by_dp_rank])
    stages = np.array([one.mean for one in by_stage])
    result: Float64 = np.minimum(ranks[:, None], stages)
    return result


def _slowest(workers: Int64, scores: Float64) -> Int64:
    """The slowest workers, at least one; of equals the one with the smaller rank."""
    count = -(-workers.size * SLOWEST_PCT // 100)
    order = np.lexsort((workers.ravel(), -scores.ravel()))
    result: Int64 = workers.ravel()[order[:count]]
    return result


def verdict(found: Stragglers) -> Text:
    """One sentence: what makes the job slow, and its step without that."""
    step, ideal = float(found.replayed_s.mean()), float(found.ideal_s.mean())
    if step < MIN_SLOWDOWN * ideal:
        return say("No rank, stage or kind of op makes the step slow")
    if found.slowest_workers.removed_share >= MAIN_SHARE:
        return say(
            "Without the slowness of rank {ranks} the step takes {without:.3g} s instead of "
            "{step:.3g} s",
            ranks=", ".join(str(rank) for rank in found.slowest),
            without=found.slowest_workers.removed_s,
            step=step,
        )
    if found.last_stage and found.last_stage.removed_share >= MAIN_SHARE:
        return say(
            "Without the slowness of the last pipeline stage the step takes {without:.3g} s "
            "instead of {step:.3g} s",
            without=found.last_stage.removed_s,
            step=step,
        )
    name = max(found.by_op_type, key=lambda one: found.by_op_type[one].mean)
    return say(
        "No rank or stage alone makes the step slow; with equally long ops it takes {ideal:.3g} s "
        "instead of {step:.3g} s, and {name} differs most",
        ideal=ideal,
        step=step,
        name=name,
    )
