"""Holders of points in time, against looking at every interval."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aggregator.metrics.ownership_host import by_priority, first_started
from aggregator.profile.arrays import NO_ROW

END = 20
INTERVALS = st.lists(st.tuples(st.integers(0, END), st.integers(0, 6)), max_size=6)


@given(st.lists(INTERVALS, min_size=1, max_size=3), st.lists(st.integers(0, END), max_size=3))
def test_each_point_is_held_by_the_first_level_that_covers_it(
    levels: list[list[tuple[int, int]]], extra: list[int]
) -> None:
    timelines = []
    for level in levels:
        start = np.array([start for start, _ in level], dtype=np.int64)
        length = np.array([length for _, length in level], dtype=np.int64)
        timelines.append(first_started(start, start + length))
    found = by_priority(timelines, np.array(extra, dtype=np.int64))

    for time in range(END + 6):
        holder = found.holder[np.searchsorted(found.edges_ns, time, side="right") - 1]
        assert holder == _holder(levels, time)


def _holder(levels: list[list[tuple[int, int]]], time: int) -> int:
    for level in levels:
        covering = [
            (start, row)
            for row, (start, length) in enumerate(level)
            if start <= time < start + length
        ]
        if covering:
            return min(covering)[1]
    return NO_ROW
