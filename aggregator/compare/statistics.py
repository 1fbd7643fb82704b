"""How certain a difference is: intervals, tests and verdicts for the rows of two sides.

A side is a list of captures, each an array of shape (iterations, rows) with nanoseconds. Captures
differ more than iterations do, so with two or more a side the capture is the unit. With one a side
the interval covers the iterations only; a verdict then needs a change of the device's own work
that is larger than runs of one program differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import comb
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from aggregator.compare.distributions import (
    benjamini_hochberg,
    mann_whitney,
    moderated,
    t_quantile,
    t_tail,
)
from aggregator.compare.result import Verdict
from aggregator.profile.arrays import Float64, parts_of


def replicate_weights(
    captures: Sequence[Float64], replicates: int, random: np.random.Generator
) -> Float64:
    """How often each replicate takes each iteration, for captures of shape (iterations, rows).

    Of several captures, captures are drawn first and blocks of neighboring iterations within each;
    of one capture, blocks only. Iterations of all captures stand one after the other.
    """
    counts = [len(capture) for capture in captures]
    starts = np.concatenate([[0], np.cumsum(counts)])
    weights = np.zeros((replicates, starts[-1]))
    lengths = [block_length(capture.sum(axis=1)) for capture in captures]
    for _slot in captures:
        drawn = random.integers(0, len(captures), replicates)
        for index, (count, length) in enumerate(zip(counts, lengths, strict=True)):
            chosen = np.flatnonzero(drawn == index)
            columns = slice(starts[index], starts[index + 1])
            weights[chosen, columns] += _block_weights(count, length, len(chosen), random)
    return weights


def block_length(samples: Float64) -> int:
    """Length of the blocks for samples whose neighbors are alike.

    Politis and White's optimum for an autoregressive process of order one, at most a third of the
    samples.
    """
    count = len(samples)
    rho = float(autocorrelation(samples[:, None])[0])
    optimum = (2 * rho / (1 - rho**2)) ** (2 / 3) * count ** (1 / 3)
    return max(1, min(int(np.ceil(max(optimum, count ** (1 / 3)))), count // 3))


def autocorrelation(samples: Float64) -> Float64:
    """Lag-one autocorrelation of each column, corrected for its bias in short series.

    Between 0 and 0.95: negative values would promise more than the samples hold.
    """
    count = len(samples)
    if count < 4:
        return np.zeros(samples.shape[1])
    centered = samples - samples.mean(axis=0)
    power = (centered**2).sum(axis=0)
    product = (centered[1:] * centered[:-1]).sum(axis=0)
    rho = np.divide(product, power, out=np.zeros_like(product), where=power > 0)
    rho = rho + (1 + 4 * rho) / count
    return np.where(power > 0, np.clip(rho, 0.0, 0.95), 0.0)


def independent_samples(samples: Float64, *, is_cautious: bool) -> Float64:
    """How many independent samples hold as much as these, whose neighbors are alike; per column.

    A cautious answer takes the autocorrelation one standard error above its estimate.
    """
    count = len(samples)
    rho = autocorrelation(samples)
    if is_cautious:
        rho = np.minimum(rho + np.sqrt((1 - rho**2) / count), 0.95)
    return np.clip(count * (1 - rho) / (1 + rho), min(2, count), count)


def _block_weights(
    count: int, length: int, replicates: int, random: np.random.Generator
) -> Float64:
    """Circular blocks until ``count`` iterations are drawn."""
    heads = random.integers(0, count, (replicates, -(-count // length), 1))
    drawn = (heads + np.arange(length)).reshape(replicates, -1)[:, :count] % count
    keys = drawn + count * np.arange(replicates)[:, None]
    weights = np.bincount(keys.ravel(), minlength=replicates * count)
    return weights.reshape(replicates, count).astype(np.float64)


Side: TypeAlias = Sequence[npt.NDArray[np.int64] | Float64]

CONFIDENCE = 0.95
FALSE_DISCOVERY_RATE = 0.05
# For the step alone, which is tested once; with the explanation by its classes the rate of
# false verdicts stays below one percent.
STEP_LEVEL = 0.005
# Parts of a run with so few steps that chance alone puts them in this order more often than this,
# whatever their times, get no verdict.
MOST_BY_CHANCE = 0.05
# An interval that stays this close to zero, in percent of the base, is called the same.
SAME_PCT = 3.0
# Two captures hardly know their own spread. Their variance is completed by that of well-behaved
# runs, which differ by one percent, with the weight of two degrees of freedom. This concerns the
# interval; the tests use the captures' spread alone.
PRIOR_SPREAD = 0.01
PRIOR_DEGREES = 2
# One capture a side: clocks and temperature change the same kernels by less than this. Time that
# the host owns has no such limit.
RUN_TO_RUN_PCT = 20.0
# One capture a side: on a busy machine the step of one program was up to 70 % longer. A step that
# is three times as long is another one.
ANOTHER_STEP = 3.0
REPLICATES = 1000
_ROWS_AT_ONCE = 1000


class Unit(StrEnum):
    """What the samples are."""

    CAPTURES = "captures"  # Two or more captures a side.
    ITERATIONS = "iterations"  # Both sides are iterations of one capture.
    SINGLE = "single"  # Iterations of one capture a side: run-to-run change is not in them.


@dataclass(frozen=True, kw_only=True)
class _Estimates:
    """One value per row; NaN where a side has too few samples."""

    base_ns: Float64  # Mean over all iterations.
    new_ns: Float64
    low_ns: Float64  # Lower bound of the 95 % interval of the difference.
    high_ns: Float64
    p_value: Float64  # Student's test of the ratio of means.
    mann_whitney_p: Float64  # Second opinion, without assumptions on the distribution.

    @property
    def difference_ns(self) -> Float64:
        """New - base."""
        return self.new_ns - self.base_ns

    def excludes(self, limit_ns: Float64 | float = 0.0) -> npt.NDArray[np.bool_]:
        """Whether all of the interval is further from zero than a limit."""
        return (self.low_ns > limit_ns) | (self.high_ns < -limit_ns)

    @property
    def within_pct(self) -> Float64:
        """The larger bound in percent of the base: "same (within x %)"."""
        reach = np.maximum(np.abs(self.low_ns), np.abs(self.high_ns))
        base = np.where(self.base_ns > 0, self.base_ns, np.nan)
        return 100 * reach / base


@dataclass(frozen=True, kw_only=True)
class RowVerdicts(_Estimates):
    """Estimates, and what can be said."""

    unit: Unit  # What the samples are.
    q_value: Float64  # False discovery rate at which the row is called.
    verdicts: list[Verdict]  # Of each row.


def judge_rows(
    base: Side,
    new: Side,
    is_device_work: npt.NDArray[np.bool_],
    *,
    is_one_capture: bool = False,
    seed: int = 0,
    same_pct: float = SAME_PCT,
) -> RowVerdicts:
    """Judge rows that are compared at once; the false discovery rate is held over all of them.

    Args:
        base: Captures of the base, arrays (iterations, rows).
        new: Captures of the new side with the same rows.
        is_device_work: Rows in which the device works; the others are idle time.
        is_one_capture: Both sides are iterations of one capture.
        seed: Of the bootstrap.
        same_pct: Half width in percent of the base up to which a row is the same.
    """
    unit = _unit(base, new, is_one_capture=is_one_capture)
    estimates = _estimates(base, new, unit, seed, is_device_work)
    q = benjamini_hochberg(estimates.p_value, _weights(estimates))
    is_called = (q <= FALSE_DISCOVERY_RATE) & estimates.excludes()
    longer_ns = np.maximum(estimates.base_ns, estimates.new_ns)
    if unit is Unit.SINGLE:
        is_called &= is_device_work & estimates.excludes(RUN_TO_RUN_PCT / 100 * longer_ns)
    return _doubts(unit, estimates, q, is_called, same_pct)


def judge_step(
    base: Side,
    new: Side,
    classes: RowVerdicts,
    *,
    is_one_capture: bool = False,
    seed: int = 0,
    same_pct: float = SAME_PCT,
) -> RowVerdicts:
    """Judge the step: arrays (iterations, 1), and the doubts of the classes that it consists of.

    Where the step's own spread is wide, as with a data loader that takes its time now and then,
    classes that changed beyond doubt and are at least half of the difference decide.
    """
    unit = _unit(base, new, is_one_capture=is_one_capture)
    estimates = _estimates(base, new, unit, seed, np.zeros(1, dtype=bool))
    difference = estimates.difference_ns
    called = [verdict in (Verdict.SLOWER, Verdict.FASTER) for verdict in classes.verdicts]
    explained = classes.difference_ns[np.array(called, dtype=bool)].sum()
    is_explained = (explained * difference > 0) & (np.abs(explained) >= np.abs(difference) / 2)
    is_called = is_explained & estimates.excludes()
    shorter_ns = np.minimum(estimates.base_ns, estimates.new_ns)
    if unit is Unit.SINGLE:
        is_called |= estimates.excludes((ANOTHER_STEP - 1) * shorter_ns)
    else:
        is_called |= (estimates.p_value <= STEP_LEVEL) & estimates.excludes()
    if unit is Unit.ITERATIONS:
        # Of five steps, two of three that differ are one of ten ways to choose two.
        ways = comb(len(base[0]) + len(new[0]), len(base[0]))
        is_called &= 2 / ways <= MOST_BY_CHANCE
    return _doubts(unit, estimates, estimates.p_value, is_called, same_pct)


def judge_runs(
    base: Sequence[float], new: Sequence[float], *, looks: int = 1, tests: int = 1
) -> RowVerdicts:
    """Judge the step of interleaved runs, each of which is one unit; one row.

    Args:
        base: Time of a step in each run of the base.
        new: The same of the new side.
        looks: How often runs are judged at most while further ones are added: the level of each
            is divided by their number (Bonferroni), so that the runs may end at any of them.
        tests: How many sides are compared with the base.
    """
    before, after = ([np.full((1, 1), time) for time in runs] for runs in (base, new))
    confidence = 1 - (1 - CONFIDENCE) / looks
    no_work = np.zeros(1, dtype=bool)
    estimates = _estimates(before, after, Unit.CAPTURES, 0, no_work, confidence)
    level = STEP_LEVEL / looks / tests
    is_called = (estimates.p_value <= level) & estimates.excludes()
    return _doubts(Unit.CAPTURES, estimates, estimates.p_value, is_called, SAME_PCT)


def _unit(base: Side, new: Side, *, is_one_capture: bool) -> Unit:
    if is_one_capture:
        return Unit.ITERATIONS
    return Unit.CAPTURES if min(len(base), len(new)) > 1 else Unit.SINGLE


def _doubts(
    unit: Unit,
    estimates: _Estimates,
    q: Float64,
    is_called: npt.NDArray[np.bool_],
    same_pct: float,
) -> RowVerdicts:
    is_unchanged = (estimates.low_ns == 0) & (estimates.high_ns == 0)
    is_same = (estimates.within_pct <= same_pct) | is_unchanged
    if unit is Unit.SINGLE:
        is_same = is_unchanged
    verdicts = [
        (Verdict.SLOWER if difference > 0 else Verdict.FASTER)
        if called
        else (Verdict.SAME if same else Verdict.CANNOT_TELL)
        for difference, called, same in zip(
            estimates.difference_ns.tolist(), is_called.tolist(), is_same.tolist(), strict=True
        )
    ]
    return RowVerdicts(**vars(estimates), unit=unit, q_value=q, verdicts=verdicts)


@dataclass(frozen=True)
class _Summary:
    """One side: its units are captures, or iterations where there is one capture."""

    captures: list[Float64]
    mean_ns: Float64  # Over all iterations.
    unit_mean_ns: Float64
    variance: Float64  # Of the units.
    count: Float64  # Of units that count as much as independent ones, per row.
    least_error: Float64  # Variance of the mean that the iterations alone explain.
    is_positive: npt.NDArray[np.bool_]

    @property
    def degrees(self) -> Float64:
        return self.count - 1

    @staticmethod
    def of(side: Side, unit: Unit) -> _Summary:
        captures = [np.asarray(capture, dtype=np.float64) for capture in side]
        together = np.concatenate(captures)
        if unit is Unit.CAPTURES:
            units = np.stack([capture.mean(axis=0) for capture in captures])
            count = np.full(units.shape[1], float(len(captures)))
            errors = np.stack([_error_of_mean(capture) for capture in captures])
            least = errors.sum(axis=0) / len(captures) ** 2
        else:
            units, count = together, independent_samples(together, is_cautious=True)
            least = np.zeros(units.shape[1])
        variance = units.var(axis=0, ddof=1) if len(units) > 1 else np.zeros(units.shape[1])
        return _Summary(
            captures,
            together.mean(axis=0),
            units.mean(axis=0),
            variance,
            count,
            least,
            np.all(units > 0, axis=0),
        )


def _error_of_mean(samples: Float64) -> Float64:
    if len(samples) < 2:
        return np.zeros(samples.shape[1])
    error: Float64 = samples.var(axis=0, ddof=1) / independent_samples(samples, is_cautious=False)
    return error


def _estimates(
    base: Side,
    new: Side,
    unit: Unit,
    seed: int,
    is_device_work: npt.NDArray[np.bool_],
    confidence: float = CONFIDENCE,
) -> _Estimates:
    sides = (_Summary.of(base, unit), _Summary.of(new, unit))
    low, high = _interval(sides, unit, seed, confidence)
    if unit is Unit.CAPTURES:
        units = [np.stack([part.mean(axis=0) for part in side.captures]) for side in sides]
    else:
        units = [side.captures[0] for side in sides]
    return _Estimates(
        base_ns=sides[0].mean_ns,
        new_ns=sides[1].mean_ns,
        low_ns=low,
        high_ns=high,
        p_value=_p_value(sides, unit, is_device_work),
        mann_whitney_p=mann_whitney(*units),
    )


def _p_value(
    sides: tuple[_Summary, _Summary], unit: Unit, is_device_work: npt.NDArray[np.bool_]
) -> Float64:
    """Student's test with one relative spread for both sides.

    Times spread in proportion to their length, so the logarithm of the ratio of the means is
    tested; where a unit has no time, their difference.
    """
    base, new = sides
    is_ratio = base.is_positive & new.is_positive
    scales = [np.where(is_ratio, side.unit_mean_ns, 1.0) for side in sides]
    degrees = base.degrees + new.degrees
    is_known = degrees >= 1
    pooled = sum(
        side.degrees * side.variance / scale**2 for side, scale in zip(sides, scales, strict=True)
    ) / np.where(is_known, degrees, 1)
    if unit is Unit.CAPTURES:
        time = np.where(is_ratio, base.mean_ns + new.mean_ns, 0.0)
        pooled, degrees = moderated(pooled, float(degrees[0]), time, is_device_work)
    error = pooled * (1 / base.count + 1 / new.count)
    least = sum(side.least_error / scale**2 for side, scale in zip(sides, scales, strict=True))
    error = np.sqrt(np.maximum(error, least))
    ratio = np.where(is_ratio, new.unit_mean_ns, 1) / np.where(is_ratio, base.unit_mean_ns, 1)
    distance = np.where(is_ratio, np.log(ratio), new.unit_mean_ns - base.unit_mean_ns)
    infinite = np.where(distance == 0, 0.0, np.inf)
    t = np.divide(np.abs(distance), error, out=infinite, where=error > 0)
    return np.where(is_known, t_tail(t, _whole(degrees)), 1.0)


def _interval(
    sides: tuple[_Summary, _Summary], unit: Unit, seed: int, confidence: float
) -> tuple[Float64, Float64]:
    """Bounds of the difference of the means.

    The bootstrap gives the error and the skew; its width is corrected for the number of units, as
    a bootstrap of few units is too narrow by ``(n - 1) / n`` in variance and by Student's t.
    """
    base, new = sides
    error, below, above = _bootstrap(sides, seed, confidence)
    degrees = base.degrees + new.degrees
    is_known = degrees >= 1
    prior = np.zeros(len(degrees))
    prior_degrees = 0
    if unit is Unit.CAPTURES:
        prior_degrees = PRIOR_DEGREES
        prior = PRIOR_SPREAD**2 * (base.mean_ns**2 / base.count + new.mean_ns**2 / new.count)
    else:
        error = np.maximum(error, base.variance / base.count + new.variance / new.count)
    total = np.where(is_known, degrees + prior_degrees, 1)
    error = (prior_degrees * prior + degrees * error) / total
    width = 2 * t_quantile(_whole(total), confidence) * np.sqrt(error)
    spread = below + above
    share = np.divide(below, spread, out=np.full(len(spread), 0.5), where=spread > 0)
    difference = new.mean_ns - base.mean_ns
    width = np.where(is_known, width, np.nan)
    return difference - width * share, difference + width * (1 - share)


def _bootstrap(
    sides: tuple[_Summary, _Summary], seed: int, confidence: float
) -> tuple[Float64, Float64, Float64]:
    """Variance of the difference, and how far its interval reaches below and above."""
    random = np.random.default_rng(seed)
    weights = [replicate_weights(side.captures, REPLICATES, random) for side in sides]
    shares = [weight / weight.sum(axis=1, keepdims=True) for weight in weights]
    together = [np.concatenate(side.captures) for side in sides]
    rows = together[0].shape[1]
    result = np.empty((3, rows))
    tail = (1 - confidence) / 2
    at = [round(tail * (REPLICATES - 1)), round((1 - tail) * (REPLICATES - 1))]
    for part in parts_of(0, rows, _ROWS_AT_ONCE):
        means = [
            samples[:, part].T @ share.T for samples, share in zip(together, shares, strict=True)
        ]
        result[0, part] = sum(
            mean.var(axis=1) * side.count[part] / np.maximum(side.degrees[part], 1)
            for mean, side in zip(means, sides, strict=True)
        )
        difference = sides[1].mean_ns[part] - sides[0].mean_ns[part]
        bounds = np.partition(means[1] - means[0], at, axis=1)[:, at]
        result[1, part] = np.maximum(difference - bounds[:, 0], 0)
        result[2, part] = np.maximum(bounds[:, 1] - difference, 0)
    return result[0], result[1], result[2]


def _whole(degrees: Float64) -> npt.NDArray[np.int64]:
    return np.maximum(np.floor(degrees), 1).astype(np.int64)


def _weights(estimates: _Estimates) -> Float64:
    """Half of the admitted errors evenly, half by time: rows that matter get more of them."""
    time = estimates.base_ns + estimates.new_ns
    total = time.sum()
    share = time / total if total > 0 else np.full(len(time), 1 / max(len(time), 1))
    return 0.5 + 0.5 * len(time) * share
