"""Student's t, Mann-Whitney's U and Benjamini-Hochberg for columns of tests, in NumPy alone.

Variances of many rows that are known from few captures are completed by each other: the empirical
Bayes estimate of Smyth 2004 ("Linear models and empirical Bayes methods for assessing differential
expression"). Three captures hold four degrees of freedom of a row, but hundreds of rows show how
far rows of that length spread.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from aggregator.profile.arrays import Float64, Int64

_MOST_STEPS = 60
"""One degree of freedom takes nine steps for a confidence of 95 %, and 40 for all but 1e-12."""


def t_tail(t: Float64, degrees: Int64) -> Float64:
    """Two-sided p-value of Student's t with a whole number of degrees of freedom.

    The finite series of Abramowitz and Stegun 26.7.3 and 26.7.4; absolute error about 1e-15.
    """
    t = np.minimum(np.abs(t), 1e100)
    cos2, sin = degrees / (degrees + t**2), t / np.sqrt(degrees + t**2)
    odd = degrees % 2 == 1
    term = np.ones_like(sin)
    series = np.where(odd & (degrees == 1), 0.0, term)
    for step in range(1, int(degrees.max(initial=0)) // 2):
        factor = np.where(odd, 2 * step / (2 * step + 1), (2 * step - 1) / (2 * step))
        term = term * factor * cos2
        series = series + np.where(2 * step + 1 < degrees, term, 0.0)
    angle = np.arcsin(np.minimum(sin, 1.0))
    inside = np.where(odd, 2 / np.pi * (angle + sin * np.sqrt(cos2) * series), sin * series)
    p: Float64 = np.clip(1 - inside, 0.0, 1.0)
    return p


def t_quantile(degrees: Int64, confidence: float = 0.95) -> Float64:
    """The t that a two-sided interval of this confidence reaches to.

    By Newton's method from 0: the p-value is convex there, so each step stays below the solution.
    """
    known, place = np.unique(degrees, return_inverse=True)
    gammas = [math.lgamma((n + 1) / 2) - math.lgamma(n / 2) for n in known.tolist()]
    scale = np.exp(np.array(gammas)) / np.sqrt(known * np.pi)
    t = np.zeros(len(known))
    for _ in range(_MOST_STEPS):
        density = scale * (1 + t**2 / known) ** (-(known + 1) / 2)
        step = (t_tail(t, known) - (1 - confidence)) / (2 * density)
        t = t + step
        if (np.abs(step) <= 1e-12 * t).all():
            break
    quantile: Float64 = t[place]
    return quantile


def mann_whitney(base: Float64, new: Float64) -> Float64:
    """Two-sided p-value of each column that one side tends to be larger.

    Exact for up to 20 samples without ties, else the normal approximation with corrections for
    ties and continuity.
    """
    count, other = len(base), len(new)
    rank_sum, tie_sum = _rank_sums(np.concatenate([base, new]), count)
    u = rank_sum - count * (count + 1) / 2
    distance = np.abs(u - count * other / 2)
    total = count + other
    variance = count * other / 12 * (total + 1 - tie_sum / (total * max(total - 1, 1)))
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(variance > 0, np.maximum(distance - 0.5, 0) / np.sqrt(variance), 0.0)
    p: Float64 = np.array([math.erfc(value / math.sqrt(2)) for value in z.tolist()])
    if total <= 20:
        p = np.where(tie_sum == 0, _exact_u(count, other)[(2 * distance).astype(np.int64)], p)
    return np.asarray(np.minimum(p, 1.0))


def benjamini_hochberg(p: Float64, weights: Float64 | None = None) -> Float64:
    """The false discovery rate at which each test is called (q-value).

    With ``weights`` (mean 1), which must not depend on the outcome of the tests, these share the
    errors out: Genovese, Roeder and Wasserman 2006.
    """
    if not len(p):
        return p
    weighted = p if weights is None else p / weights
    order = np.argsort(weighted, kind="stable")
    rates = weighted[order] * len(p) / np.arange(1, len(p) + 1)
    q = np.empty(len(p))
    q[order] = np.minimum(np.minimum.accumulate(rates[::-1])[::-1], 1.0)
    return q


def _rank_sums(values: Float64, count: int) -> tuple[Float64, Float64]:
    """Sums of the ranks of the first rows, with ties averaged, and of ``t**3 - t`` over the ties.

    Args:
        values: Samples of both sides, a column per test.
        count: Number of samples of the first side.
    """
    values = np.ascontiguousarray(values.T)  # sorted along the memory
    order = np.argsort(values, axis=1)  # averaged ties have no order
    ordered = np.take_along_axis(values, order, axis=1)
    samples = np.arange(values.shape[1])
    is_head = np.ones(values.shape, dtype=bool)
    is_head[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    is_tail = np.ones(values.shape, dtype=bool)
    is_tail[:, :-1] = is_head[:, 1:]
    first = np.maximum.accumulate(np.where(is_head, samples, 0), axis=1)
    last = np.where(is_tail, samples, values.shape[1])
    last = np.minimum.accumulate(last[:, ::-1], axis=1)[:, ::-1]
    rank_sum = np.where(order < count, (first + last) / 2 + 1, 0).sum(axis=1)
    size = (last - first + 1).astype(np.float64)
    return rank_sum, (size**2 - 1).sum(axis=1)


def _exact_u(count: int, other: int) -> Float64:
    """Two-sided p-value by twice the distance of U from its middle, without ties."""
    ways = np.zeros((count + 1, count * other + 1))
    ways[0, 0] = 1
    # Choose the ranks of one side among all: each chosen rank adds the number of the other
    # side's samples that stand below it.
    for rank in range(count + other):
        for chosen in range(min(rank, count - 1), -1, -1):
            below = rank - chosen
            if below <= other:
                ways[chosen + 1, below:] += ways[chosen, : count * other + 1 - below]
    frequency = ways[count] / ways[count].sum()
    twice = np.abs(2 * np.arange(count * other + 1) - count * other)
    tail = np.bincount(twice, weights=frequency).astype(np.float64)
    return np.asarray(np.cumsum(tail[::-1])[::-1])


_LEAST_ROWS = 30
_MOST_PRIOR_DEGREES = 20.0
# Beyond the 99 % quantile of F with 4 and 20 degrees of freedom a row is not like the others.
_UNLIKE = 4.43


def moderated(
    variance: Float64, degrees: float, mean: Float64, group: npt.NDArray[np.bool_]
) -> tuple[Float64, Float64]:
    """Relative variances and their degrees of freedom after learning from the other rows.

    A row that varies much more than the others is not like them and stays as it is.

    Args:
        variance: Relative variance of each row.
        degrees: Degrees of freedom that each was estimated with.
        mean: Time of each row; long rows vary less, which a curve accounts for.
        group: Two kinds of rows that do not learn from each other.
    """
    result, total = variance.copy(), np.full(len(variance), degrees)
    for kind in (True, False):
        rows = np.flatnonzero((group == kind) & (variance > 0) & (mean > 0))
        if len(rows) < _LEAST_ROWS:
            continue
        prior, prior_degrees = _prior(variance[rows], degrees, np.log(mean[rows]))
        posterior = prior_degrees * prior + degrees * variance[rows]
        posterior /= prior_degrees + degrees
        is_alike = variance[rows] <= _UNLIKE * prior
        result[rows] = np.where(is_alike, posterior, variance[rows])
        total[rows] = np.where(is_alike, degrees + prior_degrees, degrees)
    return result, total


def _prior(variance: Float64, degrees: float, log_mean: Float64) -> tuple[Float64, float]:
    """The variance to expect of each row, and how many degrees of freedom it is worth."""
    half = np.array([degrees / 2])
    expected = np.log(variance) - digamma(half) + np.log(half)
    trend, scale = np.full(len(variance), np.median(expected)), np.inf
    for _ in range(2):
        is_usual = np.abs(expected - trend) <= 3 * scale
        trend = np.polyval(np.polyfit(log_mean[is_usual], expected[is_usual], 1), log_mean)
        scale = 1.4826 * float(np.median(np.abs(expected - trend)))
    spread = scale**2 - float(trigamma(half)[0])
    low, high = 0.01, _MOST_PRIOR_DEGREES
    if spread <= float(trigamma(np.array([high / 2]))[0]):
        low = high
    for _ in range(50):
        middle = (low + high) / 2
        if float(trigamma(np.array([middle / 2]))[0]) > spread:
            low = middle
        else:
            high = middle
    prior_half = np.array([high / 2])
    return np.exp(trend + digamma(prior_half) - np.log(prior_half)), high


def digamma(x: Float64) -> Float64:
    """Derivative of the logarithm of the gamma function, for positive values."""
    shift = sum(1 / (x + step) for step in range(8))
    y = x + 8
    return np.asarray(
        np.log(y) - 1 / (2 * y) - 1 / (12 * y**2) + 1 / (120 * y**4) - 1 / (252 * y**6) - shift
    )


def trigamma(x: Float64) -> Float64:
    """Derivative of ``digamma``."""
    shift = sum(1 / (x + step) ** 2 for step in range(8))
    y = x + 8
    return np.asarray(
        1 / y + 1 / (2 * y**2) + 1 / (6 * y**3) - 1 / (30 * y**5) + 1 / (42 * y**7) + shift
    )
