"""Where a series of captures changed: E-divisive means.

Two variants: with the permutation test of Matteson and James 2014 ("A nonparametric approach for
multiple change point analysis of multivariate data"), as MongoDB uses it, and with Student's t on
sliding windows and a merge step of Fleming et al. 2023 ("Hunter"), as Apache Otava does by default.
The latter takes long series.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from aggregator.compare.distributions import t_tail
from aggregator.profile.arrays import Float64, Int64

MAX_P_VALUE = 0.001
PERMUTATIONS = 999
WINDOW = 50
# Elements of the distance matrices of the permutations that are held at once: 32 MB.
_MOST_ELEMENTS = 4_000_000


@dataclass(frozen=True)
class ChangePoint:
    """A change of the mean.

    Attributes:
        index: First sample after the change.
        before: Mean between the change point before and this one.
        after: Mean from this change point to the next.
        p_value: Of the test that accepted it.
    """

    index: int
    before: float
    after: float
    p_value: float

    @property
    def magnitude(self) -> float:
        """The larger of the relative changes forth and back; 0 beside a mean of zero."""
        forth = self.after / self.before - 1 if self.before else 0.0
        back = self.before / self.after - 1 if self.after else 0.0
        return max(abs(forth), abs(back))


@dataclass(frozen=True)
class _Candidate:
    index: int
    divergence: float


def change_points_by_permutation(
    series: Sequence[float],
    *,
    max_p_value: float = MAX_P_VALUE,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> list[ChangePoint]:
    """Split the series while its divergence is rare among permutations of it.

    Values are permuted between the change points that are known already.
    """
    values = np.asarray(series, dtype=np.float64)
    random = np.random.default_rng(seed)

    def p_value(candidate: _Candidate, bounds: list[int]) -> float:
        divergences = _permuted_divergences(values, bounds, permutations, random)
        return float((divergences >= candidate.divergence).sum()) / (permutations + 1)

    found = _divided(values, p_value, max_p_value)
    return _with_means(values, found)


def change_points_by_t_test(
    series: Sequence[float],
    *,
    max_p_value: float = MAX_P_VALUE,
    window: int = WINDOW,
    min_magnitude: float = 0.0,
) -> list[ChangePoint]:
    """Collect weak change points in windows that overlap by half, then remove the weakest."""
    values = np.asarray(series, dtype=np.float64)
    weak = max_p_value
    if max_p_value < 0.5:
        weak = max_p_value * (10 if max_p_value < 0.05 else 2)
    found: set[int] = set()
    start = 0
    while start < len(values):
        part = values[start : start + window]
        last = _in_window(part, weak)
        found |= {start + index for index in last}
        start = max(start + max(last, default=-start), start + window // 2)
    return _merged(values, sorted(found), max_p_value, min_magnitude)


def _in_window(part: Float64, max_p_value: float) -> list[int]:
    def p_value(candidate: _Candidate, bounds: list[int]) -> float:
        after = int(np.searchsorted(bounds, candidate.index, side="right"))
        left, right = part[bounds[after - 1] : candidate.index], part[candidate.index :]
        return _t_test(left, right[: bounds[after] - candidate.index])

    return sorted(_divided(part, p_value, max_p_value))


def _divided(
    values: Float64, p_value: Callable[[_Candidate, list[int]], float], max_p_value: float
) -> dict[int, float]:
    found: dict[int, float] = {}
    known: dict[tuple[int, int], _Candidate] = {}
    distances = _Distances(values[None, :])
    while True:
        bounds = [0, *sorted(found), len(values)]
        parts = [part for part in itertools.pairwise(bounds) if part[1] - part[0] > 1]
        for start, stop in parts:
            if (start, stop) not in known:
                known[start, stop] = _best_candidate(distances, start, stop)
        if not parts:
            return found
        candidate = max((known[part] for part in parts), key=lambda item: item.divergence)
        p = p_value(candidate, bounds)
        if not p <= max_p_value:
            return found
        found[candidate.index] = p


class _Distances:
    """Sums of the distances between the values of several series of one length.

    The order of the additions is that of Otava: where an arrangement of the values is as good as
    another, the last digit decides.
    """

    def __init__(self, series: Float64) -> None:
        self._pairs = np.abs(series[:, :, None] - series[:, None, :])
        above = np.triu(self._pairs, k=1)[:, :-1, 1:]
        self._to_earlier = above.sum(axis=1)
        self._to_later = above.cumsum(axis=2)

    def divergences(self, start: int, stop: int) -> Float64:
        """Divergence of the values before and after each split, up to each end.

        Returns shape (series, splits from ``start + 1``, ends from ``start + 2``); 0 where the end
        is not after the split.
        """
        split = np.arange(1, stop - start)[:, None]
        end = np.arange(2, stop - start + 1)[None, :]
        outside = self._pairs[:, :start, start + 1 : stop].sum(axis=1)
        earlier = np.cumsum(self._to_earlier[:, start : stop - 1] - outside, axis=1)
        later = self._to_later[:, start : stop - 1, start : stop - 1]
        left = np.zeros(later.shape)
        left[:, 1:] = earlier[:, :-1, None]
        right = np.zeros(later.shape)
        right[:, :-1, 1:] = later[:, :0:-1, 1:].cumsum(axis=1)[:, ::-1]
        across = 2 / end * np.triu(np.cumsum(later, axis=1) - left)
        return np.asarray(
            across
            - _ratio(2 * (end - split), end * (split - 1)) * left
            - _ratio(2 * split, end * (end - split - 1)) * right
        )


def _ratio(numerator: Int64, denominator: Int64) -> Float64:
    """Zero where the end is not after the split, or one value has no distance to others."""
    result = np.zeros(denominator.shape)
    return np.triu(np.divide(numerator, denominator, out=result, where=denominator > 0))


def _best_candidate(distances: _Distances, start: int, stop: int) -> _Candidate:
    divergence = distances.divergences(start, stop)[0]
    best = int(np.argmax(divergence))
    split, _ = divmod(best, stop - start - 1)
    return _Candidate(start + split + 1, float(divergence.ravel()[best]))


def _permuted_divergences(
    values: Float64, bounds: list[int], permutations: int, random: np.random.Generator
) -> Float64:
    permuted = np.tile(values, (permutations, 1))
    for row in permuted:
        for start, stop in itertools.pairwise(bounds):
            random.shuffle(row[start:stop])
    best = np.full(permutations, -np.inf)
    at_once = max(1, _MOST_ELEMENTS // len(values) ** 2)
    for first in range(0, permutations, at_once):
        rows = slice(first, first + at_once)
        distances = _Distances(permuted[rows])
        for start, stop in itertools.pairwise(bounds):
            if stop - start > 1:
                largest = distances.divergences(start, stop).max(axis=(1, 2))
                best[rows] = np.maximum(best[rows], largest)
    return best


def _merged(
    values: Float64, indexes: list[int], max_p_value: float, min_magnitude: float
) -> list[ChangePoint]:
    """Remove the weakest change point until all are significant and large enough.

    As in Otava, the change point before a removed one keeps the test against its former neighbor.
    """
    points = [_tested(values, indexes, position) for position in range(len(indexes))]
    while points:
        weakest = max(points, key=lambda point: point.p_value)
        if weakest.p_value < max_p_value:
            weakest = min(points, key=lambda point: point.magnitude)
            if weakest.magnitude > min_magnitude:
                return _with_means(values, {point.index: point.p_value for point in points})
        removed = points.index(weakest)
        del points[removed]
        left = [point.index for point in points]
        for position in range(removed, min(removed + 2, len(points))):
            points[position] = _tested(values, left, position)
    return []


def _tested(values: Float64, indexes: list[int], position: int) -> ChangePoint:
    bounds = [0, *indexes, len(values)]
    start, index, stop = bounds[position : position + 3]
    left, right = values[start:index], values[index:stop]
    return ChangePoint(index, float(left.mean()), float(right.mean()), _t_test(left, right))


def _with_means(values: Float64, found: dict[int, float]) -> list[ChangePoint]:
    if not found:
        return []
    indexes = sorted(found)
    bounds = [0, *indexes, len(values)]
    means = [float(values[start:stop].mean()) for start, stop in itertools.pairwise(bounds)]
    return [
        ChangePoint(index, before, after, found[index])
        for index, before, after in zip(indexes, means, means[1:], strict=False)
    ]


def _t_test(left: Float64, right: Float64) -> float:
    """Student's test with the standard deviations of the populations, as Hunter has it."""
    degrees = len(left) + len(right) - 2
    if degrees < 1:
        return 1.0
    pooled = ((len(left) - 1) * left.var() + (len(right) - 1) * right.var()) / degrees
    distance = abs(float(left.mean() - right.mean()))
    if pooled == 0:
        return 0.0 if distance else 1.0
    t = distance / np.sqrt(pooled * (1 / len(left) + 1 / len(right)))
    return float(t_tail(np.array([t]), np.array([degrees]))[0])
