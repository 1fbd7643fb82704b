"""Cutting a profile at a key node, against the rule said in plain Python."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aggregator.metrics.iterations import KeyNode
from aggregator.metrics.phases import PhaseColumns, phases_of_iterations
from aggregator.metrics.window import Window, boundaries, split_into_iterations
from aggregator.profile.arrays import Int64

STOPS = st.lists(st.integers(0, 100), max_size=6)
RANKS = st.lists(STOPS, max_size=4)


def _arrays(ranks: list[list[int]]) -> tuple[Int64, ...]:
    return tuple(np.array(sorted(stops), dtype=np.int64) for stops in ranks)


def _rule(ranks: list[list[int]]) -> list[int]:
    """The guide's rule for several GPUs."""
    present = [sorted(stops) for stops in ranks if stops]
    if len({len(stops) for stops in present}) == 1:
        return sorted({max(nth) for nth in zip(*present, strict=True)})
    return sorted({stop for stops in present for stop in stops})


@given(RANKS)
def test_boundaries_over_ranks_follow_the_rule(ranks: list[list[int]]) -> None:
    assert sorted(set(boundaries(_arrays(ranks)).tolist())) == _rule(ranks)


@given(
    st.integers(10, 40),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=3),
    st.data(),
)
def test_ranks_that_record_other_first_or_last_steps_have_the_same_iterations(
    count: int, cuts: list[tuple[int, int]], data: st.DataObject
) -> None:
    # GIVEN ranks whose steps end within 40 % of a step of each other, of which one has all
    late = [data.draw(st.integers(0, 40)) for _ in range(len(cuts) + 1)]
    every = [[100 * step + late_ns for step in range(1, count + 1)] for late_ns in late]
    ranks = [every[0]] + [
        stops[first : count - last] for stops, (first, last) in zip(every[1:], cuts, strict=True)
    ]
    # THEN a step ends where the last of the ranks that recorded it does
    expected = [
        max(found)
        for step in range(1, count + 1)
        if (
            found := [
                stop for stops in ranks for stop in stops if step * 100 <= stop < step * 100 + 100
            ]
        )
    ]
    assert boundaries(_arrays(ranks)).tolist() == expected


@given(RANKS, st.integers(1, 120))
def test_iterations_cover_the_profile_without_gap_or_overlap(
    ranks: list[list[int]], last_ns: int
) -> None:
    iterations = split_into_iterations(KeyNode("key", "", _arrays(ranks)), last_ns)
    starts, stops = iterations.start_ns.tolist(), iterations.end_ns.tolist()
    assert starts[0] == 0
    assert stops[-1] == last_ns
    assert starts[1:] == stops[:-1] == [stop for stop in _rule(ranks) if 0 < stop < last_ns]
    assert all(low < high for low, high in pairwise([*starts, last_ns]))
    assert iterations.has_key_node == (len(iterations) > 1)


@given(RANKS, st.integers(1, 120), st.lists(st.integers(0, 200), min_size=1, max_size=20))
def test_each_time_lies_in_one_iteration(
    ranks: list[list[int]], last_ns: int, times: list[int]
) -> None:
    key_node = KeyNode("key", "", _arrays(ranks))
    iterations = split_into_iterations(key_node, last_ns)
    phases = phases_of_iterations(PhaseColumns(), iterations.edges_ns)
    window = Window(key_node, iterations, 0, len(iterations) - 1, phases)
    times.sort()
    rows, found = window.numbered_rows(np.array(times, dtype=np.int64))
    assert rows == slice(0, len(times))
    for time, number in zip(times, found.tolist(), strict=True):
        if time >= last_ns:
            assert number == len(iterations) - 1
        else:
            assert iterations.start_ns[number] <= time < iterations.end_ns[number]
