"""Which call launched which work: the one rule for ownership, replay and timeline."""

from __future__ import annotations

from typing import Final

import numpy as np

from aggregator.events.model import NO_ROW, Calls, Work
from aggregator.profile.arrays import Int64

_AT_ONCE: Final = 16
"""Calls that may start in the same tick of the clock and are compared with a launch."""


def find_calls(calls: Calls, process: Int64, start_ns: Int64, end_ns: Int64 | None = None) -> Int64:
    """Return the row of the first call of a process with a start, and an end if one is given.

    ``NO_ROW`` where there is none. Calls of several threads may start at the same time.
    """
    place = np.searchsorted(calls.start_ns, start_ns, side="left")
    result = np.full(len(place), NO_ROW)
    left = np.arange(len(place))
    for step in range(_AT_ONCE):
        row = place[left] + step
        inside = row < len(calls)
        left, row = left[inside], row[inside]
        here = calls.start_ns[row] == start_ns[left]
        left, row = left[here], row[here]
        fits = calls.process[row] == process[left]
        if end_ns is not None:
            fits &= calls.end_ns[row] == end_ns[left]
        result[left[fits]] = row[fits]
        left = left[~fits]
        if not len(left):
            break
    return result


def launching_calls(calls: Calls, work: Work) -> Int64:
    """Return the row of the call that launched each work; ``NO_ROW`` where none was recorded.

    The op does not matter: what a CUDA graph replays belongs to the op that was captured, not to
    the op that launches the graph.
    """
    found = find_calls(calls, work.process, work.api_start_ns, work.api_end_ns)
    is_none = (work.api_end_ns == work.api_start_ns) & (work.api_start_ns == work.start_ns)
    found[is_none] = NO_ROW
    return found
