"""The forward range of each backward node, at the limits of its numbers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aggregator.correlate.backward import link_forward, occurrence_numbers
from aggregator.correlate.range_tree import outermost_wrappers
from aggregator.frameworks.meaning import RangeKind

# (process, seq, start, is_node): few values, so that numbers and processes coincide often.
ROWS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(-1, 1), st.integers(0, 6), st.booleans()),
    max_size=14,
)


def _link(rows: list[tuple[int, int, int, bool]]) -> dict[int, int]:
    """Row of each node with a number -> row of its forward range."""
    is_node = np.array([row[3] for row in rows], dtype=bool)
    nodes, forward = link_forward(
        np.array([row[1] for row in rows], dtype=np.int64),
        np.array([row[2] for row in rows], dtype=np.int64),
        np.array([row[0] for row in rows], dtype=np.int32),
        ~is_node,
        is_node,
    )
    return dict(zip(nodes.tolist(), forward.tolist(), strict=True))


@given(ROWS)
def test_the_last_started_forward_range_with_the_number(
    rows: list[tuple[int, int, int, bool]],
) -> None:
    expected = {}
    for row, (process, seq, start, is_node) in enumerate(rows):
        if is_node and seq >= 0:
            earlier = [
                number
                for number, other in enumerate(rows)
                if other[:2] == (process, seq) and not other[3] and other[2] < start
            ]
            expected[row] = max(earlier, key=lambda number: (rows[number][2], number), default=-1)
    assert _link(rows) == expected


def test_nodes_of_a_long_capture_are_linked() -> None:
    count, three_hours = 1_000_000, 3 * 3600 * 10**9
    number = np.arange(count, dtype=np.int64)
    forward_start = number * (three_hours // count)
    seq = np.concatenate([number, number])
    start = np.concatenate([forward_start, forward_start + 1000])
    is_node = np.arange(2 * count) >= count
    process = np.zeros(2 * count, dtype=np.int32)
    nodes, forward = link_forward(seq, start, process, ~is_node, is_node)
    assert bool((forward == nodes - count).all())


def test_numbers_as_large_as_they_get() -> None:
    largest = 2**63 - 1
    assert _link([(0, largest, 1, False), (1, largest, 2, True), (0, largest, 3, True)]) == {
        1: -1,
        2: 0,
    }


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=12))
def test_occurrence_numbers_count_earlier_rows(pairs: list[tuple[int, int]]) -> None:
    columns = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    found = occurrence_numbers(columns[:, 0], columns[:, 1])
    assert found.tolist() == [pairs[:row].count(pair) for row, pair in enumerate(pairs)]


def test_the_first_range_of_a_profile_may_be_the_outermost_wrapper() -> None:
    kinds = [RangeKind.WRAPPER, RangeKind.WRAPPER, RangeKind.OP, RangeKind.OP, RangeKind.OP]
    tree: Any = SimpleNamespace(kind=np.array(kinds))
    # 0 has 1, which has 2; 3, in no wrapper, has 4.
    inner, around = np.array([1, 2, 4]), np.array([0, 1, 3])

    assert outermost_wrappers(tree, inner, around).tolist() == [0, 0, -1]
