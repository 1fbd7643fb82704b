"""Totals of a range of a timeline by kind of work and by op, and its longest events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Final

import numpy as np
from msgspec import Struct

from aggregator.profile.arrays import Int64, dense_codes
from aggregator.system.replies import doc
from aggregator.tables.timeline.items import DERIVED, Items, joined
from aggregator.tables.timeline.stored import StoredLane, StoredTimeline

MOST_LISTED: Final = 100  # Ops and events of a range.
CategoryCode = Annotated[
    int,
    doc(
        "0 Tensor Core kernel, 1 other kernel, 2 communication, 3 copy, 4 set, 5 CUDA graph, "
        "-1 none."
    ),
]


class RangeCategory(Struct):
    """Work of one kind in a range of time."""

    category: CategoryCode
    num_events: int
    time_ns: Annotated[int, doc("Sum of their durations within the range.")]


class RangeOp(Struct):
    """Work of one op in a range of time."""

    op_id: str
    op_name: Annotated[str, doc("Path of the op in the model.")]
    num_events: int
    time_ns: Annotated[int, doc("Sum of their durations within the range.")]


class RangeEvent(Struct, kw_only=True):
    """An event of a timeline."""

    lane: str
    row_id: Annotated[int, doc("Row of the event in its table; 0: it has none.")]
    name: str
    op_id: str | None
    start_ns: int
    duration_ns: int


class LongEvent(RangeEvent, kw_only=True):
    """One of the longest events of a range."""

    op_name: Annotated[str, doc("Path of that op; empty: none.")]


class RangeIterations(Struct):
    """Iterations in a range of time."""

    first: int
    last: int


class TimelineRange(Struct):
    """Totals of a range of time."""

    start_ns: int
    stop_ns: int
    categories: Annotated[list[RangeCategory], doc("Work of GPUs, most time first.")]
    ops: Annotated[list[RangeOp], doc("The ops with the most GPU time in the range.")]
    iterations: Annotated[
        RangeIterations | None,
        doc("Those of which at least half lies in the range; null: none."),
    ]
    num_events: Annotated[int, doc("Events of all lanes asked for.")]
    events: Annotated[list[LongEvent], doc("The longest of them.")]


def range_totals(
    stored: StoredTimeline | None,
    lanes: Sequence[StoredLane] | None,
    low_ns: int,
    high_ns: int,
) -> TimelineRange:
    """Return the totals of some time; events are cut at its ends.

    Args:
        stored: The timeline; None: there is none.
        lanes: Lanes whose events count; None: all that hold events of their own.
        low_ns: Start of the time.
        high_ns: Its end.
    """
    origin_ns = 0 if stored is None else stored.origin_ns
    if lanes is None:
        every = [] if stored is None else stored.lanes.values()
        lanes = [lane for lane in every if lane.kind not in DERIVED]
    low, high = low_ns - origin_ns, high_ns - origin_ns
    work = joined([lane.events(low, high) for lane in lanes if lane.kind == "work"])
    time_ns = np.minimum(work.end_ns, high) - np.maximum(work.start_ns, low)
    longest = [row for lane in lanes for row in _longest(stored, lane, low, high)]
    return TimelineRange(
        start_ns=low_ns,
        stop_ns=high_ns,
        categories=_categories(stored, work, time_ns),
        ops=_ops(stored, work, time_ns),
        iterations=_iterations(stored, low, high),
        num_events=sum(lane.num_events_between(low, high) for lane in lanes),
        events=sorted(longest, key=lambda row: (-row.duration_ns, row.start_ns))[:MOST_LISTED],
    )


def _categories(stored: StoredTimeline | None, work: Items, time_ns: Int64) -> list[RangeCategory]:
    if stored is None:
        return []
    return [RangeCategory(*sums) for sums in _sums(stored.category_of_label[work.label], time_ns)]


def _ops(stored: StoredTimeline | None, work: Items, time_ns: Int64) -> list[RangeOp]:
    if stored is None:
        return []
    ops, codes = stored.ops
    return [
        RangeOp(*ops[code], count, total)
        for code, count, total in _sums(codes[work.label], time_ns)
        if code >= 0
    ][:MOST_LISTED]


def _iterations(stored: StoredTimeline | None, low: int, high: int) -> RangeIterations | None:
    """First and last iteration of which at least half lies in the range; None: there is none."""
    lanes = [] if stored is None else stored.lanes.values()
    found = joined([lane.events(low, high) for lane in lanes if lane.kind == "iterations"])
    inside = np.minimum(found.end_ns, high) - np.maximum(found.start_ns, low)
    numbers = found.row[2 * inside >= found.busy_ns]
    if not len(numbers):
        return None
    return RangeIterations(int(numbers.min()), int(numbers.max()))


def _longest(
    stored: StoredTimeline | None, lane: StoredLane, low: int, high: int
) -> Iterator[LongEvent]:
    if stored is None:
        return
    found = lane.longest(low, high, MOST_LISTED)
    columns = (found.start_ns, found.busy_ns, found.label, found.row)
    for start, duration, label, row in zip(*(column.tolist() for column in columns), strict=True):
        yield LongEvent(
            lane=lane.key,
            row_id=row,
            name=stored.labels[label].name,
            op_id=stored.labels[label].op_id,
            op_name=stored.labels[label].op_name,
            start_ns=stored.origin_ns + start,
            duration_ns=duration,
        )


def _sums(codes: Int64, time_ns: Int64) -> list[tuple[int, int, int]]:
    """Return the code, number and time of the rows of each code, most time first."""
    values, dense = dense_codes(codes)
    count = np.bincount(dense, minlength=len(values))
    total = np.zeros(len(values), dtype=np.int64)
    np.add.at(total, dense, time_ns)
    order = np.lexsort((values, -total))
    columns = (values[order], count[order], total[order])
    return list(zip(*(column.tolist() for column in columns), strict=True))
