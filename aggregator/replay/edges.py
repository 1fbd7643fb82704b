"""Edges between chains: what a call, a stream or a thread waited for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aggregator.events.model import WorkKind
from aggregator.profile.arrays import Bool, Int64
from aggregator.replay.graph import EdgeKind, Source
from aggregator.replay.inputs import ReplayInput
from aggregator.replay.sequence_index import CpuChains, StreamChains

TOLERANCE_NS = 3_000
"""Clocks of CPU and GPU differ by about a microsecond: what follows may begin so much before."""
WAITING = ("StreamSynchronize", "EventSynchronize", "DeviceSynchronize", "CtxSynchronize")
WAITS_FOR_ALL = ("DeviceSynchronize", "CtxSynchronize", "ThreadSynchronize")
WAITS_ONLY = (*WAITING, *WAITS_FOR_ALL)
MAY_WAIT = ("Free", "Malloc", "MemAlloc", "HostAlloc", "HostRegister", "ModuleUnload")
"""Calls that wait for all work of the GPU, in some cases only."""
MIN_BLOCKED_NS = 30_000
"""A launch that takes longer may have waited for room in the queue of the GPU."""
MIN_QUEUED = 256
"""A launch waits for room in the queue if at least so many others are in it."""


@dataclass
class FoundEdges:
    """Edges without their lags: sources and targets of one kind."""

    kind: EdgeKind
    source_type: Source
    source: Int64  # Position of the CPU, or row of the work.
    target_type: Source
    target: Int64  # Position of the CPU, or row of the work.

    def selected(self, keep: Bool) -> FoundEdges:
        """Return some of the edges."""
        source, target = self.source[keep], self.target[keep]
        return FoundEdges(self.kind, self.source_type, source, self.target_type, target)


class EdgeFinder:
    """Finds the edges of a profile, kind by kind."""

    def __init__(self, data: ReplayInput, cpu: CpuChains, streams: StreamChains) -> None:
        self._data, self._cpu, self._streams = data, cpu, streams

    def events(self) -> FoundEdges:
        """Work that waits, by ``StreamWaitEvent``, for work before an event of another stream."""
        waits, calls = self._data.waits, self._data.calls
        rows = np.flatnonzero(
            (waits.call >= 0)
            & (waits.record_call >= 0)
            & self._data.calls_named("WaitEvent")[waits.call]
        )
        call, record = waits.call[rows], waits.record_call[rows]
        process = calls.process[call]
        waiting = self._chains(process, waits.device[rows], waits.stream[rows])
        recorded = self._chains(process, np.full(len(rows), -1), waits.record_stream[rows])
        target = self._streams.launched_after(waiting, calls.start_ns[call])
        source = self._streams.launched_before(recorded, calls.start_ns[record])
        keep = (source >= 0) & (target >= 0) & (waiting != recorded)
        pairs = np.stack([target[keep], source[keep]])
        pairs = np.unique(np.concatenate([pairs, self._presumed_events()], axis=1), axis=1)
        return FoundEdges(EdgeKind.EVENT, Source.WORK_END, pairs[1], Source.WORK_END, pairs[0])

    def _presumed_events(self) -> Int64:
        """Work that waits for an event of unknown origin, and what it waited for; shape (2, n).

        That is the work of another stream of its GPU, launched before the call that makes the
        stream wait, that was the last to end before the waiting work began.
        """
        streams, calls = self._streams, self._data.calls
        waits, rows = self._data.waits, presumed_waits(self._data)
        call = waits.call[rows]
        waiting = self._chains(calls.process[call], waits.device[rows], waits.stream[rows])
        target = streams.launched_after(waiting, calls.start_ns[call])
        known = np.flatnonzero(target >= 0)
        waiting, target, time = waiting[known], target[known], calls.start_ns[call[known]]
        best = np.full(len(known), -1, dtype=np.int64)
        for chain in range(len(streams.process)):
            same = streams.process[waiting] == streams.process[chain]
            same &= (streams.device[waiting] == streams.device[chain]) & (waiting != chain)
            source = streams.launched_before(np.where(same, chain, -1), time)
            low, high = streams.first[chain], streams.first[chain + 1]
            began = streams.start_ns[target] + TOLERANCE_NS
            ended = low + np.searchsorted(streams.end_ns[low:high], began, side="right") - 1
            source = np.where(ended >= low, np.minimum(source, ended), -1)
            later = (source >= 0) & ((best < 0) | (streams.end_ns[source] > streams.end_ns[best]))
            best = np.where(later, source, best)
        return np.stack([target, best])[:, best >= 0]

    def graph_nodes(self) -> FoundEdges:
        """Return the kernels of CUDA graphs that wait for kernels of other streams, as recorded."""
        streams = self._streams
        first = np.empty(len(self._data.work), dtype=np.int64)
        last = first.copy()
        rows = np.arange(len(streams))
        last[streams.row] = rows
        first[streams.row[::-1]] = rows[::-1]
        source, target = self._data.links
        return FoundEdges(
            EdgeKind.GRAPH, Source.WORK_END, last[source], Source.WORK_END, first[target]
        )

    def syncs(self) -> FoundEdges:
        """Return the calls that return when work of the GPU has ended."""
        parts = [self._recorded_syncs(), self._other_syncs(), self._blocking_copies()]
        joined = np.concatenate(parts, axis=1)
        call, source = joined[:, joined[1] >= 0]
        target = self._cpu.start_of_call[call] + 1
        pairs = np.unique(np.stack([target, source]), axis=1)
        return FoundEdges(EdgeKind.SYNC, Source.WORK_END, pairs[1], Source.CPU, pairs[0])

    def collectives(self) -> FoundEdges:
        """Return the transfers that begin when the other ranks have arrived."""
        streams, work = self._streams, self._data.work
        arrivals = np.flatnonzero(streams.is_arrival)
        group = work.collective[streams.row[arrivals]]
        order = np.lexsort([streams.start_ns[arrivals], group])
        arrivals, group = arrivals[order], group[order]
        last = np.flatnonzero(np.diff(group, append=-1))
        sources, targets = [], []
        for back in range(MAX_RANKS_PER_EDGE):  # the latest arrivals, which the others wait for
            candidate = last - back
            same = (candidate >= 0) & (group[np.maximum(candidate, 0)] == group[last])
            which = np.searchsorted(group[last[same]], group)
            inside = np.minimum(which, max(int(same.sum()) - 1, 0))
            if not same.any():
                break
            fits = group[last[same]][inside] == group
            source = arrivals[candidate[same][inside]]
            other = fits & (source != arrivals)
            sources.append(source[other])
            targets.append(arrivals[other] + 1)
        if not sources:
            return _nothing(EdgeKind.COLLECTIVE, Source.WORK_END)
        source, target = np.concatenate(sources), np.concatenate(targets)
        return FoundEdges(EdgeKind.COLLECTIVE, Source.WORK_END, source, Source.WORK_END, target)

    def legacy(self) -> FoundEdges:
        """Add waits between the legacy default stream and blocking streams."""
        streams, known = self._streams, self._data.blocking_streams
        kinds = dict(
            zip(
                zip(known.process.tolist(), known.stream.tolist(), strict=True),
                known.is_default.tolist(),
                strict=True,
            )
        )
        pairs = list(zip(streams.process.tolist(), streams.stream.tolist(), strict=True))
        sources, targets = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        for waiting, wait in enumerate(pairs):
            for other, pair in enumerate(pairs):
                is_apart = wait[0] != pair[0] or streams.device[waiting] != streams.device[other]
                if is_apart or wait not in kinds or pair not in kinds or kinds[wait] == kinds[pair]:
                    continue
                rows = np.arange(streams.first[waiting], streams.first[waiting + 1])
                before = np.full(len(rows), other)
                source = streams.launched_before(before, streams.launched_ns[rows])
                keep = (source >= 0) & (np.diff(source, prepend=-1) != 0)
                sources.append(source[keep])
                targets.append(rows[keep])
        source, target = np.concatenate(sources), np.concatenate(targets)
        return FoundEdges(EdgeKind.LEGACY, Source.WORK_END, source, Source.WORK_END, target)

    def queues(self) -> FoundEdges:
        """Return the launches that waited for room in the queue of their stream."""
        streams, cpu, data = self._streams, self._cpu, self._data
        row = np.flatnonzero(~streams.is_arrival & (data.work.call[streams.row] >= 0))
        position = cpu.start_of_call[data.work.call[streams.row[row]]]
        taken = cpu.time_ns[position + 1] - cpu.time_ns[position]
        row, position = row[taken > MIN_BLOCKED_NS], position[taken > MIN_BLOCKED_NS]
        source = np.full(len(row), -1, dtype=np.int64)
        for chain in np.unique(streams.chain[row]).tolist():
            low, high = streams.first[chain], streams.first[chain + 1]
            which = np.flatnonzero(streams.chain[row] == chain)
            ends = np.maximum.accumulate(streams.end_ns[low:high])
            done = np.searchsorted(ends, cpu.time_ns[position[which] + 1], side="right")
            source[which] = np.where(done > 0, low + done - 1, -1)
        waited = streams.end_ns[source] > cpu.time_ns[position]
        keep = (source >= 0) & (row - source >= MIN_QUEUED) & waited
        return FoundEdges(
            EdgeKind.QUEUE, Source.WORK_END, source[keep], Source.CPU, position[keep] + 1
        )

    def _chains(self, process: Int64, device: Int64, stream: Int64) -> Int64:
        """Return the chain of each (process, device, stream), or -1 if it has no work."""
        keys, code = np.unique(np.stack([process, device, stream]), axis=1, return_inverse=True)
        found = [self._streams.find(*key) for key in keys.T.tolist()]
        return np.array([*found, -1], dtype=np.int64)[code.ravel()]

    def _recorded_syncs(self) -> Int64:
        """Return the calls and the work that they wait for, as recorded; shape (2, n)."""
        waits, calls = self._data.waits, self._data.calls
        names = self._data.calls_named("StreamSynchronize", "EventSynchronize")
        rows = np.flatnonzero((waits.call >= 0) & names[waits.call])
        call = waits.call[rows]
        is_event = waits.record_call[rows] >= 0
        stream = np.where(is_event, waits.record_stream[rows], waits.stream[rows])
        device = np.where(is_event, -1, waits.device[rows])
        chain = self._chains(calls.process[call], device, stream)
        at = calls.start_ns[np.where(is_event, waits.record_call[rows], call)]
        return np.stack([call, self._streams.launched_before(chain, at)])

    def _other_syncs(self) -> Int64:
        """Calls that wait for all streams, or for one that was not recorded; shape (2, n)."""
        calls, waits = self._data.calls, self._data.waits
        recorded = np.zeros(len(calls), dtype=bool)
        has_target = (waits.call >= 0) & ((waits.stream >= 0) | (waits.record_call >= 0))
        recorded[waits.call[has_target]] = True
        named = self._data.calls_named
        waits_for_all = named(*WAITS_FOR_ALL)
        others = named(*WAITING) & ~recorded & ~waits_for_all
        may_wait = named(*MAY_WAIT) & (calls.end_ns - calls.start_ns > MIN_BLOCKED_NS)
        call = np.flatnonzero(waits_for_all | others | may_wait)
        exact = waits_for_all[call]
        parts = []
        best = np.full(len(call), -1, dtype=np.int64)
        for chain in range(len(self._streams.process)):
            same = calls.process[call] == self._streams.process[chain]
            of_chain = np.where(same, chain, -1)
            source = self._streams.launched_before(of_chain, calls.start_ns[call])
            end = self._streams.end_ns[source]
            # Work of another GPU may go on; that of the only one cannot, if the clocks fit.
            is_only = self._has_one_device(int(self._streams.process[chain]))
            known = (source >= 0) & ((end <= calls.end_ns[call] + TOLERANCE_NS) | (exact & is_only))
            parts.append(np.stack([call[known & exact], source[known & exact]]))
            waited = known & ~exact & (end > calls.start_ns[call])
            # An allocation that goes on long after the work did something else.
            waited &= ~may_wait[call] | (calls.end_ns[call] - end <= MIN_BLOCKED_NS)
            best = np.where(
                waited & ((best < 0) | (end > self._streams.end_ns[best])), source, best
            )
        parts.append(np.stack([call[~exact], best[~exact]]))
        return np.concatenate(parts, axis=1)

    def _has_one_device(self, process: int) -> bool:
        """Return whether a process has work on one GPU only."""
        devices = self._streams.device[self._streams.process == process]
        return bool((devices == devices[0]).all())

    def _blocking_copies(self) -> Int64:
        """Return the calls that return after their own copy; shape (2, n)."""
        streams, work, calls = self._streams, self._data.work, self._data.calls
        row = np.flatnonzero(
            (work.kind[streams.row] == WorkKind.COPY) & (work.call[streams.row] >= 0)
        )
        call = work.call[streams.row[row]]
        inside = streams.end_ns[row] <= calls.end_ns[call]
        return np.stack([call[inside], row[inside]])


def presumed_waits(data: ReplayInput) -> Int64:
    """Rows of the waits of streams for events, where the capture records none of these events.

    Where it records some, an event that is not found was never recorded: nothing waits for it.
    """
    waits = data.waits
    rows = np.flatnonzero((waits.call >= 0) & data.calls_named("WaitEvent")[waits.call])
    is_recorded = bool((waits.record_call[rows] >= 0).any())
    return rows[(waits.stream[rows] >= 0) & (not is_recorded)]


MAX_RANKS_PER_EDGE = 8
"""A collective waits for at most so many of the ranks that arrive last."""


def _nothing(kind: EdgeKind, target_type: Source) -> FoundEdges:
    empty = np.empty(0, dtype=np.int64)
    return FoundEdges(kind, Source.WORK_END, empty, target_type, empty)
