"""Kernels that take longer because they share a GPU with a collective that waits for other ranks.

A collective that waits for a late rank runs on the GPU meanwhile, and the computing kernels beside
it take longer. That is the late rank's doing: without its lateness they would not. How long they
would take is known from ranks that ran as many kernels at the same place of the same step without a
waiting collective beside them, and from how fast the rank is where no rank has one.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Final

import numpy as np

from aggregator.profile.arrays import Bool, Float64, Int64
from aggregator.profile.intervals import flatten

ALONE: Final = 0.05
"""Share of a piece's time up to which no collective is taken to have waited beside it."""
LOOK_BACK: Final = 4
"""Collectives in flight that may be the one that waits."""
NO_RANK: Final = -1


@dataclass(frozen=True)
class Pieces:
    """The work of each rank between successive collectives, shape (pieces, ranks); times in ns.

    The times of the collectives have a row more: piece i lies between collectives i and i + 1.
    """

    work_ns: Int64  # Sum of the durations of its computing kernels.
    count: Int64  # Number of these kernels.
    ready_ns: Float64  # When the rank was ready for each collective.
    start_ns: Float64  # Start of each collective.
    last_ns: Float64  # Start on the last of its ranks.
    late_rank: Int64  # That rank.
    idle_from_ns: Float64  # From when the rank has nothing to compute until it ends.
    end_ns: Float64  # Its end.


def extra_ns(pieces: Pieces) -> tuple[Float64, Int64]:
    """How much longer each piece took for a collective that waited, and the rank it waited for."""
    busy, overlap, cause = _waiting(pieces)
    alone = overlap <= ALONE * busy
    expected = _expected(pieces, alone)
    extra = np.where(np.isfinite(expected) & ~alone, pieces.work_ns - expected, 0.0)
    # A collective cannot slow down more than what ran beside it.
    extra = np.clip(extra, 0.0, overlap)
    return extra, np.where(extra > 0, cause, NO_RANK)


def _waiting(pieces: Pieces) -> tuple[Float64, Float64, Int64]:
    """Return the time of each piece in which the rank was not idle.

    Returns:
        That time; how much of it a collective waited; for which rank most of that.
    """
    start, stop = pieces.start_ns, np.maximum(pieces.last_ns, pieces.start_ns)
    idle, idle_or_waiting = np.empty_like(pieces.ready_ns), np.empty_like(pieces.ready_ns)
    for rank in range(start.shape[1]):
        begun, last, from_ns, to_ns, ready = (
            part[:, rank].astype(np.int64)
            for part in (start, stop, pieces.idle_from_ns, pieces.end_ns, pieces.ready_ns)
        )
        idle[:, rank] = flatten(from_ns, to_ns).covered_before(ready)
        either = flatten(np.r_[from_ns, begun], np.r_[to_ns, last])
        idle_or_waiting[:, rank] = either.covered_before(ready)
    low, high = pieces.ready_ns[:-1], pieces.ready_ns[1:]
    cause = np.full(low.shape, NO_RANK, dtype=np.int64)
    most = np.zeros_like(low)
    for back in range(min(LOOK_BACK, len(low))):
        own = slice(back, None)
        before = slice(0, len(low) - back)
        shared = np.minimum(stop[before], high[own]) - np.maximum(start[before], low[own])
        longer = shared > most[own]
        cause[own] = np.where(longer, pieces.late_rank[before], cause[own])
        most[own] = np.maximum(shared, most[own])
    idle_ns = np.diff(idle, axis=0)
    busy = np.diff(pieces.ready_ns, axis=0) - idle_ns
    return busy, np.diff(idle_or_waiting, axis=0) - idle_ns, cause


def _expected(pieces: Pieces, alone: Bool) -> Float64:
    """Return the time of each piece without a waiting collective, or NaN if it is unknown."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # Rows without a known value.
        usual = np.nanmedian(np.where(alone, pieces.count, np.nan), axis=1, keepdims=True)
        comparable = alone & (pieces.count == usual) & (pieces.work_ns > 0)
        known = np.where(comparable, pieces.work_ns, np.nan)
        several = comparable.sum(axis=1, keepdims=True) > 1
        typical = np.nanmedian(known, axis=1, keepdims=True)
        speed = np.nanmedian(np.where(several, known / typical, np.nan), axis=0)
        speed = np.where(np.isfinite(speed), speed, 1.0)
        others = np.nanmedian(known / speed, axis=1, keepdims=True)
    expected: Float64 = np.where(pieces.count == usual, others * speed, np.nan)
    return expected


def late_ranks(start_ns: Float64, group: Int64) -> Int64:
    """The rank of its communicator that starts each collective last, shape (collectives, ranks)."""
    result = np.empty(start_ns.shape, dtype=np.int64)
    calls = len(group)
    for place, row in enumerate(group):
        for code in np.unique(row).tolist():
            ranks = np.flatnonzero(row == code)
            times = start_ns[place::calls][:, ranks]
            result[np.ix_(np.arange(place, len(start_ns), calls), ranks)] = ranks[
                times.argmax(axis=1)
            ][:, None]
    return result
