"""Nesting of push/pop ranges: the parent of each range, per thread and domain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np

from aggregator.profile.arrays import (
    NO_ROW,
    Bool,
    Int32,
    Int64,
    Integers,
    dense_codes,
    parts_of,
    run_heads,
)
from aggregator.profile.profile import Profile, Ranges
from aggregator.system.resources import map_threads


@dataclass(frozen=True)
class Nesting:
    """Ranges sorted by (lane, start) with their parents; a *lane* is one thread in one domain."""

    order: Int64 | None  # Row of ``Ranges`` at each sorted position; None: they are already sorted.
    lanes: Int32  # Shape (l, 2): thread and domain of each lane.
    lane_start: Int64  # First sorted position of each lane, plus the total as last element.
    start_ns: Int64  # Sorted starts. Unit: ns.
    end_ns: Int64  # Ends in the sorted order. Unit: ns.
    parent: Int32  # Sorted position of the enclosing range, or ``NO_ROW``.
    by_depth: tuple[Integers, ...]  # Sorted positions grouped by depth, outermost first.

    def __len__(self) -> int:
        return len(self.start_ns)

    def rows(self, positions: Integers) -> Integers:
        """Return the rows of ``Ranges`` at sorted positions."""
        return positions if self.order is None else self.order[positions]

    def in_order(self, column: Integers) -> Integers:
        """Return a column of ``Ranges`` in the sorted order."""
        return column if self.order is None else column[self.order]

    def inherit(self, own: Int32, *, keep_own: Bool | None = None) -> Int32:
        """Pass values down to nested ranges; the value of the outermost range is used.

        Args:
            own: Value of each sorted position, or ``NO_ROW``.
            keep_own: Positions whose own value takes precedence over an inherited one.

        Returns:
            Value at each sorted position, or ``NO_ROW``.
        """
        result = own.copy()
        for positions in self._from_above():
            above = result[self.parent[positions]]
            take = above >= 0
            if keep_own is not None:
                take &= ~keep_own[positions]
            result[positions[take]] = above[take]
        return result

    def _from_above(self) -> Iterator[Integers]:
        """Yield the positions that have a parent, outermost first, in blocks."""
        for positions in self.by_depth[1:]:
            for rows in parts_of(0, len(positions)):
                yield positions[rows]

    def inherit_innermost(self, own: Int32) -> Int32:
        """Pass values down to nested ranges; the value of the innermost range is used."""
        result = own.copy()
        for positions in self._from_above():
            missing = positions[result[positions] < 0]
            result[missing] = result[self.parent[missing]]
        return result


def nest(ranges: Ranges) -> Nesting:
    """Find the parent of every range.

    Push/pop ranges nest by construction, so parents follow from the number of open ranges. A lane
    with crossing ranges, from a damaged capture or start/end ranges, is computed differently: the
    parent is the last started range that completely encloses a range.
    """
    lanes, lane_of_row = _lanes(ranges)
    order = _order(ranges, lane_of_row)
    if order is None:
        lane_of, start, end = lane_of_row, ranges.start_ns, ranges.end_ns
    else:
        lane_of = lane_of_row[order]
        start, end = ranges.start_ns[order], ranges.end_ns[order]
    lane_start = np.searchsorted(lane_of, np.arange(len(lanes) + 1)).astype(np.int64)
    depth = _depths(start, end, lane_start)
    by_depth = _group_by_depth(depth)
    parent, crossed = _parents(start, end, lane_of, by_depth)
    if len(crossed):
        for lane in crossed.tolist():
            rows = slice(lane_start[lane], lane_start[lane + 1])
            # As for the depths: a range of length 0 is not inside one that ends there.
            above = _last_not_ending_earlier(np.maximum(end[rows], start[rows] + 1))
            depth[rows] = _levels(above)
            parent[rows] = np.where(above >= 0, above + lane_start[lane], -1)
        by_depth = _group_by_depth(depth)
    return Nesting(order, lanes, lane_start, start, end, parent, by_depth)


def sort_ranges(ranges: Ranges) -> None:
    """Sort ranges by lane and start, in place, so that ``nest`` needs no sorted copies."""
    lane = _lanes(ranges)[1]
    if _is_in_order(ranges.start_ns, ranges.end_ns, lane):
        return
    names = [column.name for column in fields(Ranges)]
    heads = run_heads(lane)
    if len(heads) * _RUN_ROWS <= len(lane):
        runs = _runs(lane, heads)

        def move(name: str) -> None:
            column = getattr(ranges, name)
            setattr(ranges, name, np.concatenate([column[rows] for rows in runs]))

        map_threads(move, names)
        lane = np.concatenate([lane[rows] for rows in runs])
    order = _order(ranges, lane)
    if order is None:
        return

    def sort(name: str) -> None:
        setattr(ranges, name, getattr(ranges, name)[order])

    map_threads(sort, names)


_RUN_ROWS = 64
"""Exports have long runs of ranges of one thread in order of start. With runs of at least this mean
length, whole runs are moved, which needs no array of row numbers as long as a column."""


def _runs(lane: Integers, heads: Int64) -> list[slice]:
    """Return the runs of rows of one lane, by lane and then in the order of the source."""
    stops = np.append(heads[1:], len(lane))
    order = np.argsort(lane[heads], kind="stable")
    pairs = zip(heads[order].tolist(), stops[order].tolist(), strict=True)
    return [slice(low, high) for low, high in pairs]


def _order(ranges: Ranges, lane: Integers) -> Int64 | None:
    """Return the rows by lane and start, or None if they are already sorted.

    Of equal starts the longer range is first; equal ranges keep the order of the source.
    """
    if _is_in_order(ranges.start_ns, ranges.end_ns, lane):
        return None
    # Exports have the ranges of a thread in order of start, so sorting by lane is often enough;
    # 16-bit numbers are sorted by radix.
    order = np.argsort(lane, kind="stable")
    if _is_in_order(ranges.start_ns[order], ranges.end_ns[order], lane[order]):
        return order
    length = ranges.end_ns - ranges.start_ns
    return np.lexsort((-length, ranges.start_ns, lane)).astype(np.int64)


def _is_in_order(start: Int64, end: Int64, lane: Integers) -> bool:
    if bool((lane[1:] < lane[:-1]).any()):
        return False
    earlier = start[1:] < start[:-1]
    # Of equal starts, a longer range after a shorter one is out of order.
    earlier |= (start[1:] == start[:-1]) & (end[1:] > end[:-1])
    return not bool((earlier & (lane[1:] == lane[:-1])).any())


def nest_start_end_ranges(profile: Profile, domain: int) -> None:
    """Add a domain's start/end ranges to the push/pop ranges, on the thread that opened them.

    Such a range may end after the range around it; ``nest`` allows that.
    """
    others = profile.start_end_ranges
    moved = others.domain == domain
    if not moved.any():
        return

    def rows_of(ranges: Ranges, rows: Bool) -> dict[str, Any]:
        return {column.name: getattr(ranges, column.name)[rows] for column in fields(Ranges)}

    everything = np.ones(len(profile.ranges), dtype=bool)
    old, new = rows_of(profile.ranges, everything), rows_of(others, moved)
    profile.ranges = Ranges(**{name: np.concatenate([old[name], new[name]]) for name in old})
    profile.start_end_ranges = Ranges(**rows_of(others, ~moved))


def nest_process_ranges(profile: Profile, kept: frozenset[str]) -> int:
    """Add start/end ranges of a user's domains to the ranges of one thread per process and domain.

    They belong to the process: TensorFlow opens them on different threads. The thread is that of
    the first one, so that all ranges of a process and domain are in one lane.

    Args:
        profile: The profile; the ranges are appended.
        kept: Domains that are not changed, besides the default one.

    Returns:
        Row of the first appended range.
    """
    first = len(profile.ranges)
    apart = profile.start_end_ranges
    for code, name in enumerate(profile.domain_names):
        if not code or name in kept:
            continue
        rows = np.flatnonzero(apart.domain == code)
        process = profile.thread_process[apart.thread[rows]]
        for number in np.unique(process).tolist():
            of_process = rows[process == number]
            earliest = of_process[np.argmin(apart.start_ns[of_process])]
            apart.thread[of_process] = apart.thread[earliest]
        nest_start_end_ranges(profile, code)
        apart = profile.start_end_ranges
    return first


def _lanes(ranges: Ranges) -> tuple[Int32, Integers]:
    if not len(ranges):
        return np.empty((0, 2), dtype=np.int32), np.empty(0, dtype=np.int32)
    num_domains = int(ranges.domain.max()) + 1
    wide = (int(ranges.thread.max()) + 1) * num_domains > np.iinfo(np.int16).max
    key: Integers = ranges.thread.astype(np.int64 if wide else np.int16)
    key = key * num_domains + ranges.domain
    present, lane = dense_codes(key)
    lanes = np.stack([present // num_domains, present % num_domains], axis=1).astype(np.int32)
    return lanes, lane.astype(np.int16) if len(lanes) < np.iinfo(np.int16).max else lane


def _depths(start: Int64, end: Int64, lane_start: Int64) -> Int32:
    """Depth of each range: ranges started before it minus ranges ended by then, per lane."""
    depth = np.empty(len(start), dtype=np.int32)

    def fill(lane: tuple[int, int]) -> None:
        low, high = lane
        starts = start[low:high]
        # A range of length 0 would count as ended at its own start.
        ends = np.sort(np.maximum(end[low:high], starts + 1))
        for rows in parts_of(0, high - low):
            ended = np.searchsorted(ends, starts[rows], side="right")
            depth[low:high][rows] = np.arange(rows.start, rows.stop) - ended

    map_threads(fill, pairwise(lane_start.tolist()))
    return depth


def _group_by_depth(depth: Int32) -> tuple[Int32, ...]:
    deepest = int(depth.max(initial=0))
    if deepest <= _FEW_DEPTHS:
        groups = [np.flatnonzero(depth == d).astype(np.int32) for d in range(deepest + 1)]
    else:
        order = np.argsort(depth, kind="stable").astype(np.int32)
        bounds = np.searchsorted(depth[order], np.arange(deepest + 2))
        groups = [order[low:high] for low, high in pairwise(bounds.tolist())]
    return tuple(group for group in groups if len(group)) or (groups[0],)


_FEW_DEPTHS = 64
"""Up to this number of depths, searching for each is faster than sorting, and needs less memory."""


def _parents(
    start: Int64, end: Int64, lane_of: Integers, by_depth: tuple[Integers, ...]
) -> tuple[Int32, Integers]:
    """Return the parents in lanes where ranges nest, and the lanes where they cross.

    If the last range at depth d - 1 before a range at depth d encloses it, d ranges are around it;
    d ranges are open when it starts, so it crosses none. Otherwise ranges of its lane cross.
    """
    parent = np.full(len(start), NO_ROW, dtype=np.int32)
    crossed: list[Integers] = []
    for above, inner in pairwise(by_depth):

        def find(rows: slice, above: Int32 = above, inner: Int32 = inner) -> None:
            here = inner[rows]
            found = np.searchsorted(above, here) - 1
            candidate = above[np.maximum(found, 0)]
            encloses = (found >= 0) & (lane_of[candidate] == lane_of[here])
            encloses &= end[candidate] >= end[here]
            parent[here] = candidate
            if not encloses.all():
                crossed.append(np.unique(lane_of[here[~encloses]]))

        map_threads(find, parts_of(0, len(inner)))
    return parent, np.unique(np.concatenate([lane_of[:0], *crossed]))


def _last_not_ending_earlier(end: Int64) -> Int64:
    """Return for each range the last one before it that does not end earlier, or -1.

    In order of start, that is the innermost range around it. ``latest[k][i]`` is the latest end of
    ranges ``i * 2**k`` to ``(i + 1) * 2**k - 1``: search upwards from a range for the first such
    block before it that ends late enough, then downwards for the last of its ranges that does.
    """
    latest = [end]
    while len(latest[-1]) > 1:
        below = np.append(latest[-1], _NEVER) if len(latest[-1]) % 2 else latest[-1]
        latest.append(np.maximum(below[::2], below[1::2]))
    block = np.arange(len(end))
    found = np.full(len(end), NO_ROW, dtype=np.int64)
    level_of = np.zeros(len(end), dtype=np.int64)
    rows = block.copy()
    for level, ends in enumerate(latest):
        before = block[rows] - 1
        fits = (block[rows] % 2 == 1) & (ends[np.maximum(before, 0)] >= end[rows])
        found[rows[fits]], level_of[rows[fits]] = before[fits], level
        rows = rows[~fits]
        block[rows] //= 2
    for level in range(len(latest) - 1, 0, -1):
        rows = np.flatnonzero((level_of == level) & (found >= 0))
        right = np.minimum(2 * found[rows] + 1, len(latest[level - 1]) - 1)
        fits = latest[level - 1][right] >= end[rows]
        found[rows] = np.where(fits, right, 2 * found[rows])
        level_of[rows] = level - 1
    return found


_NEVER = np.iinfo(np.int64).min
"""Earlier than every end."""


def _levels(parent: Int64) -> Int32:
    """Number of ranges around each; each iteration doubles the distance to the parent."""
    level = (parent >= 0).astype(np.int32)
    above = parent.copy()
    rows = np.flatnonzero(above >= 0)
    while len(rows):
        level[rows] += level[above[rows]]
        above[rows] = above[above[rows]]
        rows = rows[above[rows] >= 0]
    return level


def _climb(candidate: Int32, start: Int64, stop: Int64, end: Int64, parent: Int32) -> Int32:
    """The first range from each candidate upwards that covers ``[start, stop]``, or ``NO_ROW``."""
    result = candidate.copy()
    rows = np.flatnonzero((result >= 0) & (end[result] < stop))
    while len(rows):
        result[rows] = parent[result[rows]]
        rows = rows[(result[rows] >= 0) & (end[result[rows]] < stop[rows])]
    return result


def innermost(
    nesting: Nesting, thread: Integers, time_ns: Int64, stop_ns: Int64, domain: int
) -> Int32:
    """Innermost range of a domain that covers each event ``[time, stop]`` on its own thread.

    Searches upwards from the last range that starts before the event.

    Args:
        nesting: The nested ranges.
        thread: Thread of each event.
        time_ns: Start of each event. Unit: ns.
        stop_ns: End of each event. Unit: ns.
        domain: Domain of the ranges.

    Returns:
        Sorted position of the range for each event; -1: outside every range.
    """
    result = np.full(len(thread), NO_ROW, dtype=np.int32)
    for lane, (lane_thread, lane_domain) in enumerate(nesting.lanes.tolist()):
        if lane_domain != domain:
            continue
        rows = np.flatnonzero(thread == lane_thread)
        low, high = nesting.lane_start[lane], nesting.lane_start[lane + 1]
        found = np.searchsorted(nesting.start_ns[low:high], time_ns[rows], side="right") - 1
        candidate = np.where(found >= 0, found + low, -1).astype(np.int32)
        result[rows] = _climb(
            candidate, time_ns[rows], stop_ns[rows], nesting.end_ns, nesting.parent
        )
    return result
