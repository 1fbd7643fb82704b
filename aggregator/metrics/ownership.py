"""Ownership: each nanosecond of an iteration on a GPU has one owner.

1. While work runs, the owner is the op of the work of the highest class; of several in one class
   that of the work that started first.
2. While nothing runs, the next work to start decides. Before its launch call began, the GPU waited
   for the host, and the owner is what the launching thread did. During the call it was being
   launched, and after it, it had been launched and had not started; the owner is its op.
3. What is left behind the last work of the iteration is its tail, owned as 2 with the first work of
   the iterations after it.

The pieces partition the iterations, so their lengths add up to that of the iterations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from aggregator.events.model import Columns, stacked
from aggregator.metrics.ownership_host import (
    Host,
    Timeline,
    by_priority,
    cut_at,
    first_started,
)
from aggregator.profile.arrays import NO_ROW, Bool, Int64, total_order

TENSOR_CORES, COMPUTE, COMMUNICATION, COPY, SET = 0, 1, 2, 3, 4
HOST, LAUNCHING, LAUNCHED, TAIL, UNKNOWN = 5, 6, 7, 8, 9
CLASSES: Final = (
    *("tensor core compute", "other compute", "communication", "copy", "set"),
    *("waiting for the host", "launching", "launched, not started", "tail"),
    "launch not recorded",
)
"""Names of the classes by code. CUDA graphs that were recorded as a whole are other compute. The
last one is idle time before work whose launch the capture lacks."""
BUSY_CLASSES: Final = 5

# Codes of reasons; those of blocking calls follow, as in ``Host.reasons``.
NO_REASON, LATENCY, EVENT_WAIT, OTHER_GPU, NO_WORK = 0, 1, 2, 3, 4


@dataclass(frozen=True)
class OwnedWork(Columns):
    """Work of one GPU, in order of its row. Times in ns."""

    start_ns: Int64
    end_ns: Int64
    kind: Int64  # Code of its class.
    op: Int64  # Row of the op.
    api_start_ns: Int64  # Start of the launching call.
    api_end_ns: Int64
    thread: Int64  # Thread that launched it; ``NO_ROW``: the launch was not recorded.
    after_event: Bool  # Whether that thread made the stream wait for an event before the launch.

    def around(self, low_ns: int, high_ns: int) -> OwnedWork:
        """Return what runs between two times, and the first work that starts behind them."""
        chosen = (self.end_ns >= low_ns) & (self.start_ns < high_ns)
        behind = np.flatnonzero(self.start_ns >= high_ns)
        if len(behind):
            chosen[behind[self.start_ns[behind].argmin()]] = True
        return self.rows(chosen)


@dataclass(frozen=True)
class Owned(Columns):
    """Pieces of time and their owners, in no particular order; one row each."""

    start_ns: Int64
    end_ns: Int64
    iteration: Int64  # Number of the iteration, from 0.
    kind: Int64  # Code of the class.
    reason: Int64  # Code of the reason.
    op: Int64  # Row of the op; ``NO_ROW``: none.
    group: Int64  # Row of the enclosing group, for time outside ops; ``NO_ROW``: none.

    @property
    def length_ns(self) -> Int64:
        """Length of each piece."""
        return self.end_ns - self.start_ns


def partition_iterations(work: OwnedWork, host: Host, edges_ns: Int64) -> Owned:
    """Partition consecutive iterations.

    Args:
        work: All work of the GPU, also that before and behind the iterations.
        host: What the threads did.
        edges_ns: Starts of the iterations and the end of the last one.
    """
    timeline = _device_timeline(work, edges_ns)
    whole = cut_at(edges_ns[:1], edges_ns[-1:], timeline.edges_ns)
    start, end, place = whole.start_ns, whole.end_ns, whole.place
    holder = timeline.holder[place]
    iteration = np.searchsorted(edges_ns, start, side="right") - 1
    busy = _Pieces(start, end, iteration, holder).rows(holder != NO_ROW)
    idle = _Pieces(start, end, iteration, holder).rows(holder == NO_ROW)
    none = np.full(len(busy.start_ns), NO_ROW)
    held = busy.work
    owned = Owned(
        busy.start_ns,
        busy.end_ns,
        busy.iteration,
        work.kind[held],
        np.full(len(held), NO_REASON),
        work.op[held],
        none,
    )
    return stacked([owned, *_idle_time(work, host, edges_ns, idle, timeline)])


@dataclass(frozen=True)
class _Pieces(Columns):
    """Pieces of time, each with a row of work: the running one, or the next to start."""

    start_ns: Int64
    end_ns: Int64
    iteration: Int64
    work: Int64

    def clipped(self, low_ns: Int64, high_ns: Int64) -> tuple[_Pieces, Int64]:
        """Return what lies between two times of each, and the rows that it is from."""
        start = np.maximum(self.start_ns, low_ns)
        end = np.minimum(self.end_ns, high_ns)
        kept = np.flatnonzero(end > start)
        return replace(self.rows(kept), start_ns=start[kept], end_ns=end[kept]), kept


def _device_timeline(work: OwnedWork, edges_ns: Int64) -> Timeline:
    levels = []
    kinds = [np.flatnonzero(work.kind == kind) for kind in range(BUSY_CLASSES)]
    for rows in [np.arange(len(work))] if _is_serial(work) else kinds:
        level = first_started(work.start_ns[rows], work.end_ns[rows])
        levels.append(Timeline(level.edges_ns, np.append(rows, NO_ROW)[level.holder]))
    # Work without length holds nothing, but what waits for it ends where it starts.
    instant = work.start_ns[work.end_ns <= work.start_ns]
    return by_priority(levels, np.concatenate([edges_ns, instant]))


def _is_serial(work: OwnedWork) -> bool:
    """Return whether no work overlaps other work, so that its class does not matter."""
    order = total_order(work.start_ns)
    start, end = work.start_ns, work.end_ns
    if order is not None:
        start, end = start[order], end[order]
    return bool((start[1:] >= end[:-1]).all())


def _idle_time(
    work: OwnedWork, host: Host, edges_ns: Int64, idle: _Pieces, timeline: Timeline
) -> list[Owned]:
    order = total_order(work.start_ns)
    by_start = np.arange(len(work)) if order is None else order
    following = np.searchsorted(work.start_ns[by_start], idle.end_ns, side="left")
    is_last = following == len(by_start)
    following = np.append(by_start, NO_ROW)[following]
    idle = replace(idle, work=following)
    is_tail = _is_tail(work, edges_ns, idle, timeline)
    has_launch = ~is_last & (np.append(work.thread, NO_ROW)[following] != NO_ROW)
    launched, launch = idle.rows(has_launch), following[has_launch]
    tails = is_tail[has_launch]
    low, high = work.api_start_ns[launch], work.api_end_ns[launch]
    first = np.full(len(low), np.iinfo(np.int64).min)
    result = []
    before, rows = launched.clipped(first, low)
    thread = work.thread[before.work]
    result.append(_host_time(host, before, thread, tails[rows]))
    during, rows = launched.clipped(low, high)
    result.append(_of_work(work, during, LAUNCHING, NO_REASON, tails[rows]))
    behind, rows = launched.clipped(np.maximum(low, high), np.full(len(low), edges_ns[-1]))
    result.append(_of_work(work, behind, LAUNCHED, _why_late(work, behind), tails[rows]))
    ended = idle.rows(is_last)
    thread = np.full(len(ended.start_ns), host.usual_thread(work.thread))
    result.append(_host_time(host, ended, thread, is_tail[is_last], NO_WORK))
    unknown = ~is_last & ~has_launch
    lost = idle.rows(unknown)
    result.append(_of_work(work, lost, UNKNOWN, NO_REASON, is_tail[unknown]))
    return result


def _is_tail(work: OwnedWork, edges_ns: Int64, idle: _Pieces, timeline: Timeline) -> Bool:
    """Return whether work ran in the iteration before, and no other starts in it."""
    begin, end = edges_ns[idle.iteration], edges_ns[idle.iteration + 1]
    held = np.flatnonzero(timeline.holder != NO_ROW)
    ends = timeline.edges_ns[held + 1]
    before = np.searchsorted(ends, idle.start_ns, side="right")
    ran = np.concatenate([[np.iinfo(np.int64).min], ends])[before] > begin
    starts = np.append(work.start_ns, np.iinfo(np.int64).max)[idle.work]
    result: Bool = ran & (starts >= end)
    return result


def _why_late(work: OwnedWork, pieces: _Pieces) -> Int64:
    """Return why work that had been launched did not start."""
    row = pieces.work
    other = np.where(work.kind[row] == COMMUNICATION, OTHER_GPU, LATENCY)
    return np.where(work.after_event[row], EVENT_WAIT, other)


def _of_work(
    work: OwnedWork, pieces: _Pieces, kind: int, reason: int | Int64, is_tail: Bool
) -> Owned:
    """Return the idle time that the op of the next work owns."""
    count = len(pieces.start_ns)
    return Owned(
        pieces.start_ns,
        pieces.end_ns,
        pieces.iteration,
        np.where(is_tail, TAIL, kind),
        np.broadcast_to(np.asarray(reason), (count,)),
        work.op[pieces.work],
        np.full(count, NO_ROW),
    )


def _host_time(
    host: Host, pieces: _Pieces, thread: Int64, is_tail: Bool, only_reason: int = NO_REASON
) -> Owned:
    """Idle time that what a thread did owns; ``only_reason`` is that of time nothing explains."""
    found = host.activity(pieces.start_ns, pieces.end_ns, thread)
    of = found.piece
    return Owned(
        found.start_ns,
        found.end_ns,
        pieces.iteration[of],
        np.where(is_tail[of], TAIL, HOST),
        np.where(found.is_explained | (only_reason == NO_REASON), found.reason, only_reason),
        found.op,
        found.group,
    )
