"""Timelines: who holds each nanosecond, as edges and the holder behind each edge. Unit: ns.

Intervals are half-open and may overlap; a timeline says which of them holds a point in time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from aggregator.events.model import NO_ROW, Columns
from aggregator.profile.arrays import Bool, Int64, total_order

_FIRST: Final = np.iinfo(np.int64).min
_LAST: Final = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Timeline:
    """A partition of all time; the holder is a row of the intervals it was made from."""

    edges_ns: Int64  # Ascending; from the beginning of time to its end, one more than holders.
    holder: Int64  # Row that holds the time from each edge to the next; ``NO_ROW``: none.


@dataclass(frozen=True)
class Fragments(Columns):
    """Pieces of intervals, in the order of the intervals."""

    piece: Int64  # Row of the interval that each was cut from.
    place: Int64  # Number of the edge before it.
    start_ns: Int64
    end_ns: Int64


def cut_at(start_ns: Int64, end_ns: Int64, edges_ns: Int64) -> Fragments:
    """Cut intervals at edges; empty intervals vanish.

    Args:
        start_ns: None before the first edge.
        end_ns: None behind the last edge.
        edges_ns: Ascending.
    """
    first = np.searchsorted(edges_ns, start_ns, side="right") - 1
    behind = np.searchsorted(edges_ns, end_ns, side="left")
    count = np.where(end_ns > start_ns, behind - first, 0)
    piece = np.repeat(np.arange(len(start_ns)), count)
    begin = np.cumsum(count) - count
    place = np.arange(len(piece)) - np.repeat(begin - first, count)
    start = np.maximum(start_ns[piece], edges_ns[place])
    end = np.minimum(end_ns[piece], edges_ns[place + 1])
    return Fragments(piece, place, start, end)


def first_started(start_ns: Int64, end_ns: Int64) -> Timeline:
    """Each point is held by the covering interval that started first; of equal ones by row."""
    rows = _by_start(start_ns, np.arange(len(start_ns)))
    start, end = start_ns[rows], end_ns[rows]
    reached = np.concatenate([[_FIRST], np.maximum.accumulate(end)[:-1]]) if len(rows) else end
    begin = np.maximum(start, reached)
    held = begin < end
    return _from_disjoint(begin[held], end[held], rows[held])


def last_started(start_ns: Int64, end_ns: Int64) -> Timeline:
    """Each point is held by the covering interval that started last; of equal ones the shortest.

    Of ranges that nest this is the innermost.
    """
    rows = np.flatnonzero(end_ns > start_ns)
    rows = rows[_by_start(start_ns[rows], -end_ns[rows])]
    start, end = start_ns[rows], end_ns[rows]
    above = _enclosing(start, end)
    edges = _distinct_times(start, end)
    place = np.searchsorted(start, edges, side="right") - 1
    climbing = np.flatnonzero(_has_ended(place, end, edges))
    while len(climbing):
        place[climbing] = above[place[climbing]]
        climbing = climbing[_has_ended(place[climbing], end, edges[climbing])]
    holder = np.where(place >= 0, np.append(rows, NO_ROW)[place], NO_ROW)
    return Timeline(np.concatenate([[_FIRST], edges, [_LAST]]), np.concatenate([[NO_ROW], holder]))


def by_priority(levels: list[Timeline], extra_edges_ns: Int64) -> Timeline:
    """Each point is held by the holder of the first timeline that has one there.

    Args:
        levels: In order of priority; holders are rows of one common numbering.
        extra_edges_ns: Further edges of the result.
    """
    edges = _distinct_times(extra_edges_ns, *(busy.edges_ns for busy in levels))
    holder = np.full(len(edges) - 1, NO_ROW, dtype=np.int64)
    for level in levels:
        open_ones = np.flatnonzero(holder == NO_ROW)
        place = np.searchsorted(level.edges_ns, edges[open_ones], side="right") - 1
        holder[open_ones] = level.holder[place]
    return Timeline(edges, holder)


def _distinct_times(*times: Int64) -> Int64:
    """All of some times once, in order; sorting is faster here than hashing."""
    ordered = np.sort(np.concatenate(times))
    keep = np.concatenate([[True], ordered[1:] > ordered[:-1]]) if len(ordered) else ordered > 0
    result: Int64 = ordered[keep]
    return result


def _by_start(start_ns: Int64, key: Int64) -> Int64:
    order = total_order(start_ns, key)
    return np.arange(len(start_ns)) if order is None else order


def _has_ended(place: Int64, end: Int64, time: Int64) -> Bool:
    """Whether the interval at each place has ended at a point in time; none has not."""
    result: Bool = (place >= 0) & (np.append(end, _LAST)[place] <= time)
    return result


def _enclosing(start: Int64, end: Int64) -> Int64:
    """For each interval the last one before it that covers its start; -1: none. In order of start.

    Every round jumps twice as far: from an interval that has ended to the one found for it, since
    what lies between had ended before that one started.
    """
    above = np.arange(-1, len(start) - 1)
    open_ones = np.flatnonzero(_has_ended(above, end, start))
    while len(open_ones):
        above[open_ones] = above[above[open_ones]]
        open_ones = open_ones[_has_ended(above[open_ones], end, start[open_ones])]
    return above


def _from_disjoint(start: Int64, end: Int64, holder: Int64) -> Timeline:
    """A timeline of disjoint intervals in order, with gaps between them."""
    edges = np.stack([start, end], axis=1).reshape(-1)
    holders = np.stack([holder, np.full(len(holder), NO_ROW)], axis=1).reshape(-1)
    keep = np.concatenate([edges[1:] > edges[:-1], np.ones(min(len(edges), 1), dtype=bool)])
    return Timeline(
        np.concatenate([[_FIRST], edges[keep], [_LAST]]),
        np.concatenate([[NO_ROW], holders[keep]]),
    )
