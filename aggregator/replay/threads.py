"""Hand-over between threads: one thread launches work while the other waits for it.

PyTorch runs the backward pass on a thread of its own, and the thread that called it goes on when it
is done. The profile shows it as bursts of calls that take turns.
"""

from __future__ import annotations

import numpy as np

from aggregator.profile.arrays import Int64
from aggregator.replay.edges import FoundEdges
from aggregator.replay.graph import EdgeKind, Source
from aggregator.replay.inputs import ReplayInput
from aggregator.replay.sequence_index import CpuChains, StreamChains

MIN_WAIT_NS = 100_000
"""A shorter pause of a thread is its own work."""
MIN_COVERED = 0.3
"""Share of the pause of a thread that the burst of the other one covers at least."""
MIN_BURST_CALLS = 3


def thread_edges(data: ReplayInput, cpu: CpuChains, streams: StreamChains) -> FoundEdges:
    """Edges from the last call of a burst to the first call of the thread that waited for it."""
    calls = data.calls
    is_outer = np.zeros(len(calls), dtype=bool)
    is_outer[cpu.row] = True
    outer = np.flatnonzero(is_outer & _launching_threads(data)[calls.thread])
    sources, targets = [], []
    for process in np.unique(calls.process[outer]).tolist():
        rows = outer[calls.process[outer] == process]
        source, target = _hand_over(calls.start_ns[rows], calls.end_ns[rows], calls.thread[rows])
        sources.append(cpu.start_of_call[rows[source]] + 1)
        targets.append(cpu.start_of_call[rows[target]])
    empty = np.empty(0, dtype=np.int64)
    source, target = (np.concatenate([empty, *parts]) for parts in (sources, targets))
    return FoundEdges(EdgeKind.THREAD, Source.CPU, source, Source.CPU, target)


def _launching_threads(data: ReplayInput) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    result = np.zeros(int(data.calls.thread.max(initial=-1)) + 1, dtype=bool)
    call = data.work.call[data.work.call >= 0]
    result[data.calls.thread[call]] = True
    return result


def _hand_over(start_ns: Int64, end_ns: Int64, thread: Int64) -> tuple[Int64, Int64]:
    """Rows of the calls on both sides of each hand-over; calls of a process in order of start."""
    empty = np.empty(0, dtype=np.int64)
    heads = np.flatnonzero(np.diff(thread, prepend=-1))
    if len(heads) < 2:
        return empty, empty
    last = np.append(heads[1:], len(thread)) - 1
    size = last - heads + 1
    first_ns, last_ns, owner = start_ns[heads], end_ns[last], thread[heads]
    waited = _pause_before(first_ns, last_ns, owner)
    covered = np.zeros(len(heads), dtype=np.int64)
    covered[1:] = last_ns[:-1] - first_ns[:-1]
    lag = np.zeros(len(heads), dtype=np.int64)
    lag[1:] = first_ns[1:] - last_ns[:-1]
    enough = np.zeros(len(heads), dtype=bool)
    enough[1:] = size[:-1] >= MIN_BURST_CALLS
    keep = enough & (lag >= 0) & (waited > MIN_WAIT_NS) & (covered >= MIN_COVERED * waited)
    # The first burst of a thread follows the one that started the thread.
    keep |= enough & (lag >= 0) & (waited < 0)
    burst = np.flatnonzero(keep)
    return last[burst - 1], heads[burst]


def _pause_before(first_ns: Int64, last_ns: Int64, owner: Int64) -> Int64:
    """Time between each burst and the one before it of the same thread; -1: it is the first."""
    order = np.argsort(owner, kind="stable")
    pause = np.full(len(owner), -1, dtype=np.int64)
    same = owner[order[1:]] == owner[order[:-1]]
    pause[order[1:]] = np.where(same, first_ns[order[1:]] - last_ns[order[:-1]], -1)
    return pause
