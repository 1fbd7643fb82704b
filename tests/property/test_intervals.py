"""Interval arithmetic against sets of nanoseconds."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aggregator.profile.arrays import Int64
from aggregator.profile.intervals import Flattened, flatten, segment_union, union_of

# Small numbers so that intervals touch, nest and coincide often; some end before they start.
INTERVALS = st.lists(st.tuples(st.integers(-20, 60), st.integers(-20, 60)), max_size=12)


def _columns(intervals: list[tuple[int, int]]) -> tuple[Int64, Int64]:
    pairs = np.array(intervals, dtype=np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _points(intervals: list[tuple[int, int]]) -> set[int]:
    return {time for start, end in intervals for time in range(start, end)}


def _held(flat: Flattened) -> set[int]:
    return _points(list(zip(flat.start_ns.tolist(), flat.end_ns.tolist(), strict=True)))


@given(INTERVALS)
def test_flatten_is_the_union(intervals: list[tuple[int, int]]) -> None:
    flat = flatten(*_columns(intervals))
    assert _held(flat) == _points(intervals)
    assert flat.covered_ns() == len(_points(intervals))
    # Disjoint, ordered, and none touches the next.
    assert bool((flat.start_ns < flat.end_ns).all())
    assert bool((flat.end_ns[:-1] < flat.start_ns[1:]).all())


@given(st.lists(INTERVALS, min_size=1, max_size=4))
def test_union_covers_the_points_of_several_sets(parts: list[list[tuple[int, int]]]) -> None:
    together = union_of(*(flatten(*_columns(part)) for part in parts))
    assert _held(together) == set().union(*(_points(part) for part in parts))


@given(INTERVALS, st.lists(st.integers(-30, 70), max_size=8))
def test_covered_time_counts_the_points_before(
    intervals: list[tuple[int, int]], times: list[int]
) -> None:
    flat = flatten(*_columns(intervals))
    covered = flat.covered_before(np.array(times, dtype=np.int64))
    points = _points(intervals)
    assert covered.tolist() == [sum(point < time for point in points) for time in times]


SEGMENTS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 40), st.integers(0, 15)), max_size=16
)


@given(SEGMENTS)
def test_union_per_segment_counts_each_point_once(rows: list[tuple[int, int, int]]) -> None:
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3)
    union = segment_union(columns[:, 0], columns[:, 1], columns[:, 1] + columns[:, 2], 6)
    for segment in range(6):
        own = [(start, start + length) for number, start, length in rows if number == segment]
        assert union.covered_ns[segment] == len(_points(own))
        assert union.first_start_ns[segment] == min((start for start, _ in own), default=0)
        assert union.last_end_ns[segment] == max((end for _, end in own), default=0)


@given(SEGMENTS, st.integers(0, 2**50))
def test_union_is_the_same_far_from_zero(rows: list[tuple[int, int, int]], shift: int) -> None:
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3)
    start, end = columns[:, 1], columns[:, 1] + columns[:, 2]
    near = segment_union(columns[:, 0], start, end, 6)
    far = segment_union(columns[:, 0], start + shift, end + shift, 6)
    assert near.covered_ns.tolist() == far.covered_ns.tolist()
