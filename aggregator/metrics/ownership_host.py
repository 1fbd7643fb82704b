"""Activity of the program's threads while a GPU waited for them, and timelines of holders.

A timeline says who holds each nanosecond, as edges and the holder behind each edge. Unit: ns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from aggregator.events.model import Columns, stacked
from aggregator.profile.arrays import NO_ROW, Bool, Int64, total_order

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
    """Let the covering interval that started first hold each point, of equal ones the first row."""
    rows = _by_start(start_ns, np.arange(len(start_ns)))
    start, end = start_ns[rows], end_ns[rows]
    reached = np.concatenate([[_FIRST], np.maximum.accumulate(end)[:-1]]) if len(rows) else end
    begin = np.maximum(start, reached)
    held = begin < end
    return _from_disjoint(begin[held], end[held], rows[held])


def last_started(start_ns: Int64, end_ns: Int64) -> Timeline:
    """Let the covering interval that started last hold each point, of equal ones the shortest.

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
    """Let the first timeline that has a holder at a point decide who holds it.

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
    """Return all of some times once, in order; sorting is faster here than hashing."""
    ordered = np.sort(np.concatenate(times))
    keep = np.concatenate([[True], ordered[1:] > ordered[:-1]]) if len(ordered) else ordered > 0
    result: Int64 = ordered[keep]
    return result


def _by_start(start_ns: Int64, key: Int64) -> Int64:
    order = total_order(start_ns, key)
    return np.arange(len(start_ns)) if order is None else order


def _has_ended(place: Int64, end: Int64, time: Int64) -> Bool:
    """Return whether the interval at each place has ended at a point in time; none has not."""
    result: Bool = (place >= 0) & (np.append(end, _LAST)[place] <= time)
    return result


def _enclosing(start: Int64, end: Int64) -> Int64:
    """Return for each interval, in order of start, the last before it that covers its start.

    ``NO_ROW`` where there is none.

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
    """Return a timeline of disjoint intervals in order, with gaps between them."""
    edges = np.stack([start, end], axis=1).reshape(-1)
    holders = np.stack([holder, np.full(len(holder), NO_ROW)], axis=1).reshape(-1)
    keep = np.concatenate([edges[1:] > edges[:-1], np.ones(min(len(edges), 1), dtype=bool)])
    return Timeline(
        np.concatenate([[_FIRST], edges[keep], [_LAST]]),
        np.concatenate([[NO_ROW], holders[keep]]),
    )


# Codes of reasons on the host; ``FIRST_CALL`` + the name's code are those of blocking calls.
IN_OP, IN_LOADER, OUTSIDE, OTHER_THREAD, FIRST_CALL = 5, 6, 7, 8, 9
REASONS: Final = (
    *("", "launch latency", "event wait", "another GPU", "no further work"),
    *("op on the CPU", "data loader", "Python between ops", "other thread"),
)
"""Names of the reasons by code; those of blocking calls follow."""

_BLOCKING = re.compile(
    r"(?:Stream|Event|Device|Ctx)Synchronize|^(?:cuda|cu|hip)Memcpy(?!.*Async)"
    r"|^(?:cuda|hip)(?:Malloc|Free|Host(?:Alloc|Free|Register|Unregister))(?!.*Async)"
    r"|^cuMem(?:Alloc|Free|Host(?:Alloc|Register|Unregister))(?!.*Async)"
    r"|^cuMem(?:Create|Release|Map|Unmap)"
)


def is_blocking(call: str) -> bool:
    """Return whether a call waits for the GPU or for the allocator of its memory.

    Asynchronous copies of pageable memory block as well; their rows say so, not their names.
    """
    return _BLOCKING.search(call) is not None


@dataclass(frozen=True)
class HostEvents(Columns):
    """What threads did, in any order: ops, waits for a data loader, and blocking calls."""

    start_ns: Int64
    end_ns: Int64
    thread: Int64
    op: Int64
    reason: Int64  # Code of the reason.


@dataclass(frozen=True)
class Groups(Columns):
    """Ranges around ops. Times in ns."""

    start_ns: Int64
    end_ns: Int64
    process: Int64
    name: Int64


@dataclass(frozen=True)
class Activity(Columns):
    """Pieces of waiting time with what explains them."""

    piece: Int64  # Row of the piece that was asked for.
    start_ns: Int64
    end_ns: Int64
    reason: Int64
    op: Int64
    group: Int64

    @property
    def is_explained(self) -> Bool:
        """Whether an op, a loader or a call was running."""
        result: Bool = (self.reason != OUTSIDE) & (self.reason != OTHER_THREAD)
        return result


@dataclass(frozen=True)
class Host:
    """The threads of all processes, and what they did.

    Lanes (threads or processes) lie behind each other on one virtual line of time, so that one
    search serves all of them.
    """

    events: HostEvents
    groups: Groups
    thread_process: Int64  # Process of each thread.
    main_thread: Int64  # Thread of each process that runs its loop.
    low_ns: int  # All that is asked for lies between these.
    high_ns: int

    def usual_thread(self, thread: Int64) -> int:
        """The thread that runs the loop of the process that launched most; 0: unknown."""
        known = thread[thread != NO_ROW]
        if not len(known):
            return 0
        return int(self.main_thread[np.bincount(self.thread_process[known]).argmax()])

    def activity(self, start_ns: Int64, end_ns: Int64, thread: Int64) -> Activity:
        """Return what explains pieces of time in which a launch by a thread was awaited.

        The pieces are in order and do not overlap. Where the thread did nothing, it waited itself:
        then the thread of the loop, after it any thread of the process explains the time, and after
        them the enclosing group.
        """
        process = self.thread_process[thread]
        rest = Fragments(np.arange(len(start_ns)), np.zeros_like(start_ns), start_ns, end_ns)
        found = []
        for lane in (thread, self.main_thread[process]):
            part, holder = self._cut(rest, lane[rest.piece], self._by_thread)
            found.append(_explained(part, holder, self.events))
            rest = part.rows(holder == NO_ROW)
        others = self.events.rows(_overlaps(self.events, rest))
        timeline = self._line(others, self.thread_process[others.thread])
        part, holder = self._cut(rest, process[rest.piece], timeline)
        found.append(_explained(part, holder, others))
        rest = part.rows(holder == NO_ROW)
        part, group = self._cut(rest, process[rest.piece], self._of_groups)
        found.append(self._outside(part, group, thread[part.piece], process[part.piece]))
        return stacked(found)

    def _cut(self, pieces: Fragments, lane: Int64, timeline: Timeline) -> tuple[Fragments, Int64]:
        shift = lane.astype(np.int64) * self._span - self.low_ns
        cut = cut_at(pieces.start_ns + shift, pieces.end_ns + shift, timeline.edges_ns)
        back = shift[cut.piece]
        part = Fragments(pieces.piece[cut.piece], cut.place, cut.start_ns - back, cut.end_ns - back)
        return part, timeline.holder[cut.place]

    def _outside(self, part: Fragments, group: Int64, thread: Int64, process: Int64) -> Activity:
        is_python = (group != NO_ROW) | (self.main_thread[process] == thread)
        name = np.append(self.groups.name, NO_ROW)[group]
        reason = np.where(is_python, OUTSIDE, OTHER_THREAD)
        none = np.full(len(name), NO_ROW)
        return Activity(part.piece, part.start_ns, part.end_ns, reason, none, name)

    def between(self, low_ns: int, high_ns: int) -> Host:
        """Return the same threads, with what they did in a part of the time."""
        events, groups = self.events, self.groups
        inside = (events.end_ns > low_ns) & (events.start_ns < high_ns)
        around = (groups.end_ns > low_ns) & (groups.start_ns < high_ns)
        return replace(
            self,
            events=events.rows(inside),
            groups=groups.rows(around),
            low_ns=low_ns,
            high_ns=high_ns,
        )

    @property
    def _span(self) -> int:
        return self.high_ns - self.low_ns + 1

    @cached_property
    def _by_thread(self) -> Timeline:
        return self._line(self.events, self.events.thread)

    @cached_property
    def _of_groups(self) -> Timeline:
        return self._line(self.groups, self.groups.process)

    def _line(self, spans: HostEvents | Groups, lane: Int64) -> Timeline:
        start = np.clip(spans.start_ns, self.low_ns, self.high_ns) - self.low_ns
        end = np.clip(spans.end_ns, self.low_ns, self.high_ns) - self.low_ns
        shift = lane.astype(np.int64) * self._span
        return last_started(start + shift, end + shift)


def _explained(part: Fragments, holder: Int64, events: HostEvents) -> Activity:
    kept = holder != NO_ROW
    part, row = part.rows(kept), holder[kept]
    none = np.full(len(row), NO_ROW)
    return Activity(
        part.piece, part.start_ns, part.end_ns, events.reason[row], events.op[row], none
    )


def _overlaps(events: HostEvents, pieces: Fragments) -> Bool:
    """Whether each event overlaps any of some pieces, which are in order and do not overlap."""
    begun = np.searchsorted(pieces.start_ns, events.end_ns, side="left")
    ended = np.searchsorted(pieces.end_ns, events.start_ns, side="right")
    result: Bool = begun > ended
    return result
