"""Time of the CPU that goes when ops do not run: theirs, and the usual time that leads to them.

And how much of the time before a call passes within its op, and how much before the op begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from aggregator.events.model import OpCalls
from aggregator.profile.arrays import Bool, Int64, distinct, ordered, parts_of
from aggregator.profile.intervals import Flattened, flatten
from aggregator.replay.graph import Graph
from aggregator.replay.inputs import ReplayInput

MOST_BEFORE: Final = 3
"""Time between the op before and an op, by the usual such time, from which it is not the op's."""


@dataclass(frozen=True)
class _Ordered:
    op: Int64
    start_ns: Int64
    thread: Int64
    is_first: Bool  # Whether it is the first one of its thread.
    ended_ns: Int64  # Latest end of the executions up to it in its thread. Unit: ns.
    before_ns: Int64  # Time since all earlier ones had ended; 0: of the first. Unit: ns.


def _ordered(spans: OpCalls) -> _Ordered:
    order = np.argsort(spans.thread, kind="stable")
    thread, start, stop = spans.thread[order], spans.start_ns[order], spans.end_ns[order]
    is_first = np.diff(thread, prepend=-1) != 0
    # One clock for all threads, so that an end is never compared with another thread's.
    shift = thread.astype(np.int64) * (int(stop.max(initial=0)) + 1)
    ended = np.maximum.accumulate(stop + shift) - shift
    before = np.maximum(start - np.r_[0, ended[:-1]], 0)
    return _Ordered(spans.op[order], start, thread, is_first, ended, np.where(is_first, 0, before))


def removed_spans(spans: OpCalls, ops: Bool) -> dict[int, Flattened]:
    """Return for each thread the time of ops that do not run any more.

    Ops that follow each other in a thread go with the time between them. An op that stays ends what
    goes, also if it began inside one that goes.

    Args:
        spans: Executions of all ops.
        ops: Which rows of ``ReplayInput.ops`` do not run any more.
    """
    rows = _ordered(spans)
    goes = ops[rows.op]
    heads = np.flatnonzero(goes & (rows.is_first | ~np.r_[False, goes[:-1]]))
    if not len(heads):
        return {}
    tails = np.flatnonzero(goes & np.r_[rows.is_first[1:] | ~goes[1:], True])
    next_ns = np.r_[rows.start_ns, 0][tails + 1]
    is_last = np.r_[rows.is_first, True][tails + 1]
    stop = np.where(is_last, rows.ended_ns[tails], np.minimum(rows.ended_ns[tails], next_ns))
    most = MOST_BEFORE * int(np.median(rows.before_ns[~rows.is_first])) if len(goes) > 1 else 0
    start = rows.start_ns[heads] - np.minimum(rows.before_ns[heads], most)
    thread = rows.thread[heads]
    return {
        number: flatten(start[thread == number], stop[thread == number])
        for number in np.unique(thread).tolist()
    }


def without_ops(graph: Graph, step_ns: Int64, ops: Bool, calls: Bool) -> Int64:
    """Return the steps of the CPU without some ops.

    Args:
        graph: The graph.
        step_ns: The steps with them.
        ops: Which rows of the ops do not run.
        calls: The calls of the chains of the CPU that they make.
    """
    step = step_ns.copy()
    step[1::2][calls] = 0
    is_inside = np.zeros(len(calls), dtype=bool)
    spans = removed_spans(graph.data.op_calls, ops)
    first = graph.thread_first
    for low, high in zip(first[:-1].tolist(), first[1:].tolist(), strict=True):
        found = spans.get(int(graph.data.calls.thread[graph.call_row[low // 2]]))
        if found is None:
            continue
        time = graph.recorded_ns[low:high]
        covered = np.diff(found.covered_before(time))
        stays = 1 - covered / np.maximum(np.diff(time), 1)
        own = step[low + 1 : high]
        step[low + 1 : high] = np.where(own > 0, np.rint(own * stays), own)
        is_inside[low // 2 : high // 2] = covered[0::2] > 0
    # Calls of ops whose executions are not known go with the time before them.
    alone = calls & ~is_inside
    step[0::2][alone] = np.minimum(step[0::2][alone], 0)
    step[first[:-1]] = step_ns[first[:-1]]
    return step


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
    order = ordered(ops.thread, ops.start_ns)
    thread, start, end, op = (
        column[order] for column in (ops.thread, ops.start_ns, ops.end_ns, ops.op)
    )
    holds_others = np.zeros(len(start), dtype=bool)
    holds_others[:-1] = (thread[1:] == thread[:-1]) & (start[1:] < end[:-1])
    for part in parts_of(0, len(rows)):
        of_part = rows[part]
        of_thread = calls.thread[of_part]
        for number in distinct(of_thread).tolist():
            own = np.flatnonzero(of_thread == number)
            low, high = np.searchsorted(thread, [number, number + 1])
            called, op_called = calls.start_ns[of_part[own]], calls.op[of_part[own]]
            row = low + np.searchsorted(start[low:high], called, side="right") - 1
            left = row >= low
            for _ in range(_NESTED):
                own, called, op_called, row = (col[left] for col in (own, called, op_called, row))
                fits = (op[row] == op_called) & (end[row] >= called) & ~holds_others[row]
                result[part][own[fits]] = called[fits] - start[row[fits]]
                row -= 1
                left = ~fits & (row >= low)
    return result
