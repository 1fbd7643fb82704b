"""Variances of many rows that are known from few captures, completed by each other.

The empirical Bayes estimate of Smyth 2004 ("Linear models and empirical Bayes methods for assessing
differential expression"): three captures hold four degrees of freedom of a row, but hundreds of
rows show how far rows of that length spread.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from aggregator.profile.arrays import Float64

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
