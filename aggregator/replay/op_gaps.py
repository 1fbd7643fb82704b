"""How much of the time before a call passes within its op, and how much before the op begins."""

from __future__ import annotations

import numpy as np

from aggregator.profile.arrays import Int64
from aggregator.replay.inputs import ReplayInput

_NESTED = 4
"""So many ops that began last are looked at: others may be nested in the op of a call."""


def op_time_ns(data: ReplayInput, rows: Int64) -> Int64:
    """Return the time from the begin of the op of each call to the call; 0: it has none. Unit: ns.

    Calls of a group, outside of the ops in it, have none: the time between them is the program's.

    Args:
        data: Calls and executions of ops.
        rows: Rows of the calls.
    """
    calls, ops = data.calls, data.op_calls
    result = np.zeros(len(rows), dtype=np.int64)
    order = np.lexsort([ops.start_ns, ops.thread])
    thread, start, end, op = (
        column[order] for column in (ops.thread, ops.start_ns, ops.end_ns, ops.op)
    )
    holds_others = np.zeros(len(start), dtype=bool)
    holds_others[:-1] = (thread[1:] == thread[:-1]) & (start[1:] < end[:-1])
    for number in np.unique(calls.thread[rows]).tolist():
        own = np.flatnonzero(calls.thread[rows] == number)
        low, high = np.searchsorted(thread, [number, number + 1])
        called = calls.start_ns[rows[own]]
        last = low + np.searchsorted(start[low:high], called, side="right") - 1
        for back in range(_NESTED - 1, -1, -1):
            row = np.maximum(last - back, 0)
            fits = (last - back >= low) & (op[row] == calls.op[rows[own]]) & (end[row] >= called)
            fits &= ~holds_others[row]
            result[own[fits]] = (called - start[row])[fits]
    return result
