"""Element types of collectives whose kernels name none: those that only move bytes.

What they send was written by the call before them on the thread (DDP joins its buffers by ``cat``,
FSDP copies its shard): where that moved as many elements, its type is theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aggregator.columns import ordered
from aggregator.correlate.ops import Instances
from aggregator.flops.cost import elements
from aggregator.flops.sizes import sizes_of
from aggregator.profile import Int64, Integers, Profile

if TYPE_CHECKING:
    from aggregator.correlate.cost_calls import CallTypes
    from aggregator.correlate.costs import CountedCalls

_LOOK_BACK = 8
"""Calls looked at, the nearest first."""


def types_of_collectives(
    profile: Profile, instances: Instances, calls: CountedCalls, types: CallTypes
) -> Int64:
    """Row of the kernel types table of each call, with those of collectives filled in."""
    result = calls.types.astype(np.int64)
    row = np.maximum(result, 0)
    has = (calls.position >= 0) & (calls.shapes >= 0)
    rows = np.flatnonzero(has & calls.communicates & ~types.is_known[row])
    same = np.array([one.read == one.write != "" for one in types.types], dtype=bool)
    sources = np.flatnonzero(has & ~calls.communicates & (result >= 0) & same[row])
    if not len(rows) or not len(sources):
        return result
    thread = instances.thread[calls.instance].astype(np.int64)
    place = thread * (int(calls.position.max()) + 1) + calls.position
    sources = sources[ordered(place[sources])]
    moved = _elements(profile, calls.shapes, np.concatenate([rows, sources]))
    ends = np.searchsorted(place[sources], place[rows])
    for offset in range(1, _LOOK_BACK + 1):
        before = sources[np.maximum(ends - offset, 0)]
        fits = (ends >= offset) & (thread[before] == thread[rows]) & (moved[before] == moved[rows])
        result[rows[fits]] = result[before[fits]]
        rows, ends = rows[~fits], ends[~fits]
    return result


def _elements(profile: Profile, shapes: Integers, rows: Int64) -> Int64:
    """Elements of all arguments of each call; only the given rows are worked out."""
    codes = np.unique(shapes[rows])
    sums = [
        sum(elements(shape) for shape in sizes_of(profile.shape_texts[code]) if shape)
        for code in codes.tolist()
    ]
    result = np.full(len(shapes), -1, dtype=np.int64)
    result[rows] = np.array(sums, dtype=np.int64)[np.searchsorted(codes, shapes[rows])]
    return result
