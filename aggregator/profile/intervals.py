"""Arithmetic on half-open intervals ``[start, end)`` given as columns. Unit everywhere: ns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from aggregator.profile.arrays import Int64, Integers, empty_i64, ordered, run_heads, sorting


@dataclass(frozen=True)
class Flattened:
    """Disjoint, ordered intervals: the union of others."""

    start_ns: Int64  # Unit: ns.
    end_ns: Int64  # Unit: ns.

    def covered_ns(self) -> int:
        """Return the total length. Unit: ns."""
        return int((self.end_ns - self.start_ns).sum())

    def covered_before(self, time_ns: Int64) -> Int64:
        """Length covered before each time point; differences give the length inside a window.

        Args:
            time_ns: Time points in any order. Unit: ns.

        Returns:
            Covered time in ``[-inf, time)`` per time point. Unit: ns.
        """
        if not len(self.start_ns):
            return np.zeros(len(time_ns), dtype=np.int64)
        total = np.concatenate([[0], np.cumsum(self.end_ns - self.start_ns)])
        position = np.searchsorted(self.start_ns, time_ns, side="right")
        last = np.maximum(position - 1, 0)
        inside = np.minimum(time_ns, self.end_ns[last]) - self.start_ns[last]
        covered: Int64 = np.where(position > 0, total[last] + inside, 0)
        return covered


NOTHING: Final = Flattened(empty_i64(), empty_i64())


def flatten(start_ns: Int64, end_ns: Int64) -> Flattened:
    """Return the union of intervals in any order; empty ones are dropped, touching ones joined."""
    keep = end_ns > start_ns
    start, end = (start_ns, end_ns) if keep.all() else (start_ns[keep], end_ns[keep])
    if not len(start):
        return Flattened(start, end)
    order = sorting(start)
    if order is not None:
        start, end = start[order], end[order]
        del order
    end = np.maximum.accumulate(end)
    first = np.ones(len(start), dtype=bool)
    np.greater(start[1:], end[:-1], out=first[1:])
    heads = np.flatnonzero(first)
    tails = np.append(heads[1:] - 1, len(start) - 1)
    return Flattened(start[heads], end[tails])


def union_of(*parts: Flattened) -> Flattened:
    """Return the union of several flattened sets."""
    parts = tuple(part for part in parts if len(part.start_ns)) or parts[:1]
    if len(parts) == 1:
        return parts[0]
    return flatten(
        np.concatenate([part.start_ns for part in parts]),
        np.concatenate([part.end_ns for part in parts]),
    )


def uncovered_between(part: Flattened, cover: Flattened, edges_ns: Int64) -> Int64:
    """Return the length of ``part`` outside ``cover`` between successive edges. Unit: ns."""
    both = union_of(cover, part).covered_before(edges_ns)
    result: Int64 = np.diff(both - cover.covered_before(edges_ns))
    return result


@dataclass(frozen=True)
class SegmentUnion:
    """Unions of intervals per segment, such as an op instance; one row per segment."""

    covered_ns: Int64  # Length of the union. Unit: ns.
    first_start_ns: Int64  # Earliest start; 0 if the segment has no interval. Unit: ns.
    last_end_ns: Int64  # Latest end; 0 if the segment has no interval. Unit: ns.


def segment_union(
    segment: Integers, start_ns: Int64, end_ns: Int64, num_segments: int
) -> SegmentUnion:
    """Return the length of the union of the intervals of each segment.

    All segments are laid one behind the other on one virtual line, so that one running maximum
    serves them all.

    Args:
        segment: Segment number of each interval, ``0 <= segment < num_segments``.
        start_ns: Unit: ns.
        end_ns: Unit: ns.
        num_segments: Length of the result.
    """
    zeros = np.zeros(num_segments, dtype=np.int64)
    if not len(segment):
        return SegmentUnion(zeros, zeros.copy(), zeros.copy())
    covered, first_start, last_end = zeros, zeros.copy(), zeros.copy()
    order = ordered(segment, start_ns)
    for rows in _whole_segments(segment, order):
        seg, start, end = segment[rows], start_ns[rows], end_ns[rows]
        heads = run_heads(seg)
        first = start[heads]
        last = np.maximum.reduceat(end, heads)
        shift = np.concatenate([[0], np.cumsum(last - first)[:-1]]) - first
        row_shift = np.repeat(shift, np.diff(np.concatenate([heads, [len(seg)]])))
        start, end = start + row_shift, end + row_shift
        reached = np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(end)[:-1]])
        gained = np.maximum(end - np.maximum(start, reached), 0)
        covered[seg[heads]] = np.add.reduceat(gained, heads)
        first_start[seg[heads]] = first
        last_end[seg[heads]] = last
    return SegmentUnion(covered, first_start, last_end)


PART_ROWS = 1 << 19
"""Rows whose columns fit the memory that everything else leaves."""


def _whole_segments(segment: Integers, order: Int64) -> Iterator[Int64]:
    """Yield the parts of an order of rows; no segment is in two of them."""
    low = 0
    while low < len(order):
        high = min(low + PART_ROWS, len(order))
        while high < len(order) and segment[order[high]] == segment[order[high - 1]]:
            following = segment[order[high : high + PART_ROWS]]
            other = np.flatnonzero(following != segment[order[high - 1]])
            high += int(other[0]) if len(other) else len(following)
        yield order[low:high]
        low = high
