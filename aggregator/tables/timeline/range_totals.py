"""Totals of a range of a timeline by kind of work and by op, and its longest events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from aggregator.profile.arrays import Int64, dense_codes
from aggregator.tables.timeline.items import DERIVED, Items, joined
from aggregator.tables.timeline.stored import StoredLane, StoredTimeline

MOST_LISTED: Final = 100  # Ops and events of a range.


def range_totals(
    stored: StoredTimeline | None,
    lanes: Sequence[StoredLane] | None,
    low_ns: int,
    high_ns: int,
) -> dict[str, Any]:
    """Totals of some time; events are cut at its ends.

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
    return {
        "start_ns": low_ns,
        "stop_ns": high_ns,
        "categories": _categories(stored, work, time_ns),
        "ops": _ops(stored, work, time_ns),
        "iterations": _iterations(stored, low, high),
        "num_events": sum(lane.num_events_between(low, high) for lane in lanes),
        "events": sorted(longest, key=lambda row: (-row["duration_ns"], row["start_ns"]))[
            :MOST_LISTED
        ],
    }


def _categories(stored: StoredTimeline | None, work: Items, time_ns: Int64) -> list[dict[str, Any]]:
    if stored is None:
        return []
    return [
        {"category": code, "num_events": count, "time_ns": total}
        for code, count, total in _sums(stored.category_of_label[work.label], time_ns)
    ]


def _ops(stored: StoredTimeline | None, work: Items, time_ns: Int64) -> list[dict[str, Any]]:
    if stored is None:
        return []
    op_ids, codes = stored.op_ids
    return [
        {"op_id": op_ids[code], "num_events": count, "time_ns": total}
        for code, count, total in _sums(codes[work.label], time_ns)
        if code >= 0
    ][:MOST_LISTED]


def _iterations(stored: StoredTimeline | None, low: int, high: int) -> dict[str, int] | None:
    """First and last iteration of which at least half lies in the range; None: there is none."""
    lanes = [] if stored is None else stored.lanes.values()
    found = joined([lane.events(low, high) for lane in lanes if lane.kind == "iterations"])
    inside = np.minimum(found.end_ns, high) - np.maximum(found.start_ns, low)
    numbers = found.row[2 * inside >= found.busy_ns]
    if not len(numbers):
        return None
    return {"first": int(numbers.min()), "last": int(numbers.max())}


def _longest(
    stored: StoredTimeline | None, lane: StoredLane, low: int, high: int
) -> Iterator[dict[str, Any]]:
    if stored is None:
        return
    found = lane.longest(low, high, MOST_LISTED)
    columns = (found.start_ns, found.busy_ns, found.label, found.row)
    for start, duration, label, row in zip(*(column.tolist() for column in columns), strict=True):
        yield {
            "lane": lane.key,
            "row_id": row,
            "name": stored.labels[label].name,
            "op_id": stored.labels[label].op_id,
            "start_ns": stored.origin_ns + start,
            "duration_ns": duration,
        }


def _sums(codes: Int64, time_ns: Int64) -> list[tuple[int, int, int]]:
    """Code, number and time of the rows of each code, most time first."""
    values, dense = dense_codes(codes)
    count = np.bincount(dense, minlength=len(values))
    total = np.zeros(len(values), dtype=np.int64)
    np.add.at(total, dense, time_ns)
    order = np.lexsort((values, -total))
    columns = (values[order], count[order], total[order])
    return list(zip(*(column.tolist() for column in columns), strict=True))
