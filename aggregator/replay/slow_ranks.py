"""Find the rank that makes the step of a job slow, by how much, and since when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from aggregator.profile.arrays import Int64
from aggregator.replay.rank_steps import Float64, RankSteps
from aggregator.texts import Text, say

MIN_GAIN: Final = 0.01  # A rank that costs a smaller share of the step is not named.
MAIN_RATIO: Final = 2.0  # It must cost more than this times what any other rank costs.
CONSTANT_SHARE: Final = 0.5  # Of what a rank costs in all, from which the usual cost is its cause.
MIN_STEPS: Final = 4  # Fewer steps name no rank: a single late step is no slow rank.
MIN_T: Final = 6.0  # Median lateness over its standard error, from which it is no chance.
OUTLIER: Final = 3.5  # Lateness over the usual deviation, from which a step is a slow one.
MIN_SLOW_STEPS: Final = 3
MOST_REPLAYED: Final = 32  # Ranks whose contribution is replayed, the latest ones.
MANY_RANKS: Final = 16  # From here on one rank hardly changes the median of all.
MAX_ERROR: Final = 0.03  # Error of the unchanged replay above which the confidence is low.
_MAD_TO_DEVIATION: Final = 1.4826  # Of a normal distribution.


@dataclass(frozen=True)
class SlowRanks:
    """Result; arrays by rank and step in the order of the input."""

    measured_ns: Float64  # Measured time of each step. Unit: ns.
    replayed_ns: Float64  # Replayed without a change. Unit: ns.
    ideal_ns: Float64  # All ranks at the median. Unit: ns.
    late_ns: Float64  # Own time over the median of the others, shape (ranks, steps). Unit: ns.
    without_ns: Float64  # Step without each rank's slowness, same shape; NaN: not replayed.
    named: int | None  # The rank that makes the step slow; None: none does.
    slow_steps: Int64  # Steps in which the named rank is late, if it is not in most; empty: all.
    every: int  # Constant distance of these; 0: none.
    is_exact: bool  # Whether the unchanged replay reproduces the steps.

    @property
    def slowdown(self) -> float:
        """S: the mean step over the ideal one."""
        return float(self.replayed_ns.mean() / self.ideal_ns.mean())

    @property
    def error_pct(self) -> tuple[float, float]:
        """Median and largest error of the unchanged replay. Unit: percent."""
        error = 100.0 * np.abs(self.replayed_ns / self.measured_ns - 1.0)
        return float(np.median(error)), float(error.max())

    @property
    def is_constant(self) -> bool:
        """Whether a rank is named that is late in most or all steps."""
        return self.named is not None and not len(self.slow_steps)

    @property
    def step_ns(self) -> float:
        """Measured step: the median if the named rank is always late, else the mean. Unit: ns."""
        return self._of_steps(self.measured_ns)

    def predicted_ns(self, rank: int) -> float:
        """Return the same step without the slowness of a rank; NaN: not replayed. Unit: ns."""
        return self._of_steps(self.measured_ns - self.gain_ns(rank))

    def gain_ns(self, rank: int) -> Float64:
        """Return what each step gains without the slowness of a rank; NaN: not replayed. Unit: ns.

        Of a rank that is late in some steps only these gain: in the others it is as late as ranks
        are by chance.
        """
        gain: Float64 = self.replayed_ns - self.without_ns[rank]
        if rank != self.named or not len(self.slow_steps):
            return gain
        result = np.zeros_like(gain)
        result[self.slow_steps] = gain[self.slow_steps]
        return result

    def usual_gain_ns(self, rank: int) -> float:
        """Return what a step that was not replayed gains without a rank. Unit: ns."""
        return self._of_steps(self.gain_ns(rank))

    @property
    def contribution(self) -> Float64:
        """Share of the step that each rank costs; NaN: not replayed."""
        without = [self.predicted_ns(rank) for rank in range(len(self.without_ns))]
        gain: Float64 = 1.0 - np.array(without) / self.step_ns
        return gain

    def _of_steps(self, time_ns: Float64) -> float:
        """What counts of the times of all steps: a few slow ones do not change the median.

        Where ranks take turns, the median of the steps without one of them is that of other steps:
        only means can be subtracted.
        """
        return float(np.median(time_ns) if self.is_constant else time_ns.mean())


@dataclass(frozen=True)
class RankGains:
    """Mean steps of ranks that are as fast as the others, from a replay. Unit: ns."""

    num_steps: int
    step_ns: float  # Replayed without a change.
    ideal_ns: float  # All ranks at the median.
    without_ns: Mapping[int, float]  # Without the slowness of a rank, by its number.


def find_slow_ranks(steps: RankSteps) -> SlowRanks:
    """Replay a job without the slowness of each of its ranks."""
    own = steps.own_step_ns()
    late = _lateness(own)
    every = np.arange(len(own))
    typical = steps.typical(every)
    latest = np.argsort(-late.mean(axis=1), kind="stable")[:MOST_REPLAYED].tolist()
    models = [
        typical if len(own) > MANY_RANKS else steps.typical(np.delete(every, rank))
        for rank in latest
    ]
    replays = steps.replay_with(latest, models)
    replayed = replays[0]
    without = np.full(own.shape, np.nan)
    without[latest] = replays[1:]
    gain = np.nan_to_num(replayed - without)
    named, slow = _named(late, gain, steps.measured_ns)
    error = np.abs(replayed / steps.measured_ns - 1.0)
    return SlowRanks(
        measured_ns=steps.measured_ns,
        replayed_ns=replayed,
        ideal_ns=typical.replay(),
        late_ns=late,
        without_ns=without,
        named=named,
        slow_steps=slow,
        every=_distance(slow),
        is_exact=bool(error.max() <= MAX_ERROR),
    )


def _lateness(own_ns: Float64) -> Float64:
    """Return the own time over the median of the others, or of all if they are many."""
    count = len(own_ns)
    if count > MANY_RANKS:
        result: Float64 = own_ns - np.median(own_ns, axis=0)
        return result
    others = [np.median(np.delete(own_ns, rank, axis=0), axis=0) for rank in range(count)]
    late: Float64 = own_ns - np.stack(others)
    return late


def _slow_steps(late_ns: Float64, rank: int) -> Int64:
    """Return the steps in which a rank is much later than ranks usually are."""
    middle = np.median(late_ns, axis=1, keepdims=True)
    usual = _MAD_TO_DEVIATION * np.median(np.abs(late_ns - middle))
    result: Int64 = np.flatnonzero(late_ns[rank] > max(OUTLIER * usual, 1.0))
    return result


def _distance(slow: Int64) -> int:
    """Constant distance of the slow steps; 0: none. Slowness may reach into the next step."""
    starts = slow[np.diff(slow, prepend=-2) > 1]
    stops = slow[np.diff(slow, append=slow[-1:] + 2) > 1]
    for edges in (starts, starts[1:], stops[:-1]):  # The capture may cut the first and the last.
        distances = np.diff(edges)
        if len(distances) >= 2 and distances.min() == distances.max() > 1:
            return int(distances[0])
    return 0


def _named(late_ns: Float64, gain_ns: Float64, measured_ns: Float64) -> tuple[int | None, Int64]:
    """Return the rank that makes the step slow, and the steps in which it does; empty: all.

    One that is always late costs the median step time, which other slow steps hardly change; one
    that is late now and then costs the mean step time.
    """
    all_steps = np.empty(0, dtype=np.int64)
    usual, mean = np.median(gain_ns, axis=1), gain_ns.mean(axis=1)
    steady, sometimes = int(usual.argmax()), int(mean.argmax())
    if late_ns.shape[1] < MIN_STEPS:
        return None, all_steps
    is_steady = _is_main(usual, float(np.median(measured_ns))) and _is_constant(late_ns[steady])
    slow = _slow_steps(late_ns, sometimes)
    is_first = late_ns[sometimes] >= late_ns.max(axis=0)
    is_sometimes = len(slow) >= MIN_SLOW_STEPS and bool(is_first[slow].all())
    is_sometimes = is_sometimes and _is_main(mean, float(measured_ns.mean()))
    if is_steady and not (is_sometimes and usual[steady] < CONSTANT_SHARE * mean[sometimes]):
        return steady, all_steps
    is_most = 2 * len(slow) > late_ns.shape[1]
    return (sometimes, all_steps if is_most else slow) if is_sometimes else (None, all_steps)


def _is_main(cost_ns: Float64, step_ns: float) -> bool:
    """Return whether one rank costs a share of the step, and much more than any other."""
    worst = int(cost_ns.argmax())
    second = float(np.delete(cost_ns, worst).max(initial=0.0))
    return bool(cost_ns[worst] >= max(MIN_GAIN * step_ns, MAIN_RATIO * second))


def _is_constant(late_ns: Float64) -> bool:
    """Return whether the usual lateness of a rank is no chance."""
    middle = float(np.median(late_ns))
    deviation = _MAD_TO_DEVIATION * float(np.median(np.abs(late_ns - middle)))
    return middle > MIN_T * deviation / float(np.sqrt(len(late_ns)))


def rank_verdict(found: SlowRanks, ranks: list[int], iterations: list[int], step_ns: float) -> Text:
    """Return one sentence: the rank that makes the step slow, and the step without it.

    Args:
        found: The ranks compared.
        ranks: Their numbers.
        iterations: Numbers of the iterations.
        step_ns: The step, of which a rank costs the same share as of ``found.step_ns``. Unit: ns.
    """
    step = step_ns / 1e6
    if found.named is None:
        return say("No rank makes the step slow")
    without = step * found.predicted_ns(found.named) / found.step_ns
    rank = ranks[found.named]
    if found.every:
        return say(
            "Without rank {rank}, which is late in every {every}th step, the step takes "
            "{without:.3g} ms instead of {step:.3g} ms",
            rank=rank,
            every=found.every,
            without=without,
            step=step,
        )
    if len(found.slow_steps):
        return say(
            "Without rank {rank}, which is late in {count} of {all} steps, first in iteration "
            "{first}, the step takes {without:.3g} ms instead of {step:.3g} ms",
            rank=rank,
            count=len(found.slow_steps),
            all=len(iterations),
            first=iterations[int(found.slow_steps[0])],
            without=without,
            step=step,
        )
    return say(
        "Without rank {rank} the step takes {without:.3g} ms instead of {step:.3g} ms",
        rank=rank,
        without=without,
        step=step,
    )
