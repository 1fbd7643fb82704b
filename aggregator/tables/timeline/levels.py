"""Levels of detail of a lane: its events, and the same with short neighbors joined into runs.

All levels lie on one grid: a bin has ``2**shift`` ns and begins at a multiple of that, counted from
the timeline's origin. Events that are as long as a bin stay as they are; shorter ones that begin in
the same bin are one run. Counts and times of a level therefore are those of the events, and the
items of a coarser grid can be made of those of a finer one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from aggregator.profile.arrays import Bool, Int64, run_heads
from aggregator.tables.timeline.items import Items, joined

EVENTS: Final = -1
"""In place of a shift: the events themselves."""
ITEMS_PER_BIN: Final = 2
LARGEST_SHIFT: Final = 61
_FACTOR_BITS: Final = 2
_FEWER: Final = 8  # Events per item of the finest level that is stored beside them.
_FEWEST: Final = 2_048  # Items of a lane that are joined as they are asked for.


def lane_levels(events: Items, *, are_samples: bool = False) -> Iterator[tuple[int, Items]]:
    """Yield the shifts and items of the levels that are stored, the finest first.

    Of samples that are joined the largest row is kept, which is their value.
    """
    yield EVENTS, events
    most, found = len(events) // _FEWER, events
    for shift in range(0, LARGEST_SHIFT, _FACTOR_BITS):
        if len(found) <= _FEWEST:
            return
        if _num_joined(found, shift) <= most:
            found = join_short(found, shift, are_samples=are_samples)
            most = len(found) // 2
            yield shift, found


def join_short(items: Items, shift: int, *, are_samples: bool = False) -> Items:
    """Items with those joined that begin in the same bin, except for events as long as a bin."""
    is_wide = _are_wide(items, shift)
    wide, narrow = items.rows(is_wide), items.rows(~is_wide)
    together = joined([wide, _runs(narrow, narrow.start_ns >> shift, are_samples)])
    return together.rows(np.argsort(together.start_ns, kind="stable"))


def shown_items(
    items: Items, shift: int, first: int, last: int, *, are_samples: bool = False
) -> Items:
    """Return what bins ``first <= bin < last`` show of items of this grid or a finer one.

    All that begins in them, and events as long as a bin that reach into them. Short items are
    joined if there are more than about two a bin; where many long ones overlap, they are, too.
    """
    low_ns = first << shift
    begins = (items.start_ns >= low_ns) & (items.start_ns < (last << shift))
    reaches = _are_wide(items, shift) & (items.start_ns < low_ns) & (items.end_ns > low_ns)
    found = items.rows(begins | reaches)
    most = ITEMS_PER_BIN * (last - first)
    if len(found) <= most:
        return found
    shown = join_short(found, shift, are_samples=are_samples)
    if len(shown) > most + 1:
        shown = _runs(found, np.maximum(found.start_ns >> shift, first), are_samples)
    return shown


def _are_wide(items: Items, shift: int) -> Bool:
    wide: Bool = (items.count == 1) & (items.end_ns - items.start_ns >= (1 << shift))
    return wide


def _num_joined(items: Items, shift: int) -> int:
    """Return the number of items that ``join_short`` leaves."""
    is_wide = _are_wide(items, shift)
    return int(is_wide.sum()) + len(run_heads(items.start_ns[~is_wide] >> shift))


def _runs(items: Items, bins: Int64, are_samples: bool) -> Items:  # noqa: FBT001
    if not len(items):
        return items
    heads = run_heads(bins)
    run = np.repeat(np.arange(len(heads)), np.diff(np.append(heads, len(bins))))
    top = _highest(run, items) if are_samples else _largest(run, items)
    return Items(
        start_ns=items.start_ns[heads],
        end_ns=np.maximum.reduceat(items.end_ns, heads),
        count=np.add.reduceat(items.count, heads),
        busy_ns=np.add.reduceat(items.busy_ns, heads),
        label=items.label[top],
        row=items.row[top],
    )


def _largest(run: Int64, items: Items) -> Int64:
    """Return the first item of each run with the label that has the most time in it."""
    order = np.lexsort((items.label, run))
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (np.diff(run[order]) != 0) | (np.diff(items.label[order]) != 0)
    heads = np.flatnonzero(is_new)
    time_ns = np.add.reduceat(items.busy_ns[order], heads)
    by_time = np.lexsort((-time_ns, run[order[heads]]))
    chosen = by_time[run_heads(run[order[heads]][by_time])]
    return order[heads[chosen]]


def _highest(run: Int64, items: Items) -> Int64:
    """Return the first item of each run with the largest row."""
    order = np.lexsort((-items.row, run))
    return order[run_heads(run[order])]
