"""Nesting of ranges and the search for the innermost one, against looking at every range."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aggregator.correlate.ranges import Nesting, innermost, nest, sort_ranges
from aggregator.profile.profile import Ranges


@dataclass(frozen=True)
class Span:
    """One range: a row of the profile's columns."""

    start: int
    end: int
    thread: int
    domain: int


@st.composite
def nested_spans(draw: st.DrawFn) -> list[Span]:
    """Ranges that nest on each thread and domain, as pushes and pops make them."""
    spans: list[Span] = []
    for thread, domain in ((0, 0), (0, 1), (1, 0)):
        clock, stack = draw(st.integers(0, 3)), []
        for is_push in draw(st.lists(st.booleans(), max_size=14)):
            # A push takes time: two ranges that begin together could be recorded in either order.
            clock += draw(st.integers(1, 3))
            if is_push:
                stack.append(clock)
            elif stack:
                spans.append(Span(stack.pop(), clock, thread, domain))
        while stack:
            clock += draw(st.integers(1, 3))
            spans.append(Span(stack.pop(), clock, thread, domain))
    return draw(st.permutations(spans))


def _ranges(spans: list[Span]) -> Ranges:
    count = len(spans)
    return Ranges(
        start_ns=np.array([span.start for span in spans], dtype=np.int64),
        end_ns=np.array([span.end for span in spans], dtype=np.int64),
        thread=np.array([span.thread for span in spans], dtype=np.int32),
        domain=np.array([span.domain for span in spans], dtype=np.int32),
        name=np.zeros(count, dtype=np.int32),
        seq=np.full(count, -1, dtype=np.int64),
        shapes=np.full(count, -1, dtype=np.int32),
    )


def _parents(nesting: Nesting) -> dict[int, int]:
    """Row -> row of its parent; -1: none."""
    order = nesting.rows(np.arange(len(nesting))).tolist()
    return {
        order[position]: order[parent] if parent >= 0 else -1
        for position, parent in enumerate(nesting.parent.tolist())
    }


def _encloses(outer: Span, inner: Span) -> bool:
    same_lane = (outer.thread, outer.domain) == (inner.thread, inner.domain)
    return same_lane and outer.start <= inner.start and inner.end <= outer.end and outer != inner


def _expected_parents(spans: list[Span]) -> dict[int, int]:
    result = {}
    for row, span in enumerate(spans):
        around = [number for number, other in enumerate(spans) if _encloses(other, span)]
        result[row] = max(around, key=lambda number: spans[number].start, default=-1)
    return result


@given(nested_spans())
def test_nested_ranges_have_the_innermost_parent(spans: list[Span]) -> None:
    _check(nest(_ranges(spans)), spans)


def _check(nesting: Nesting, spans: list[Span]) -> None:
    """Parents are right, and depths count them."""
    assert _parents(nesting) == _expected_parents(spans)
    for depth, positions in enumerate(nesting.by_depth):
        for position in positions.tolist():
            steps, parent = 0, int(nesting.parent[position])
            while parent >= 0:
                steps, parent = steps + 1, int(nesting.parent[parent])
            assert depth == steps


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(-1, 40)), min_size=2, max_size=5
    ),
    st.sampled_from((1, 100)),
)
def test_ranges_are_sorted_by_lane_start_and_length(
    stretches: list[tuple[int, int, int]], rows: int
) -> None:
    # Stretches of one lane: in the order of time, or backwards, some at the same time.
    spans = [
        Span(time := 50 + step * row // 2, time + 1 + row % 3, thread, domain)
        for thread, domain, step in stretches
        for row in range(rows)
    ]
    ranges = _ranges(spans)
    ranges.name = np.arange(len(spans), dtype=np.int32)
    sort_ranges(ranges)

    def place(row: int) -> tuple[int, int, int, int, int]:
        span = spans[row]
        return span.thread, span.domain, span.start, -span.end, row

    expected = sorted(range(len(spans)), key=place)
    assert ranges.name.tolist() == expected
    assert ranges.start_ns.tolist() == [spans[row].start for row in expected]


@given(
    st.lists(
        st.tuples(st.integers(0, 99), st.integers(1, 60)), max_size=40, unique_by=lambda s: s[0]
    ),
    nested_spans(),
)
def test_crossing_ranges_have_a_parent_that_covers_them(
    pairs: list[tuple[int, int]], others: list[Span]
) -> None:
    # A damaged capture: each belongs to the innermost range that encloses it whole.
    spans = others + [Span(start, start + length, 1, 1) for start, length in pairs]
    _check(nest(_ranges(spans)), spans)


@given(
    nested_spans(),
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 60), st.integers(1, 6), st.integers(0, 1)),
        max_size=10,
    ),
)
def test_innermost_range_covers_the_event(
    spans: list[Span], events: list[tuple[int, int, int, int]]
) -> None:
    nesting = nest(_ranges(spans))
    for thread, start, length, domain in events:
        found = innermost(
            nesting,
            np.array([thread], dtype=np.int32),
            np.array([start], dtype=np.int64),
            np.array([start + length], dtype=np.int64),
            domain,
        )
        event = Span(start, start + length, thread, domain)
        around = [row for row, span in enumerate(spans) if _encloses(span, event) or span == event]
        expected = max(around, key=lambda row: spans[row].start, default=-1)
        position = int(found[0])
        assert (int(nesting.rows(np.array([position]))[0]) if position >= 0 else -1) == expected
