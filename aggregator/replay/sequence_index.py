"""Chains of the graph: calls by thread, work by stream, and where points in time fall in them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from aggregator.events.model import Calls
from aggregator.profile.arrays import Bool, Int64, ordered, row_codes, run_heads
from aggregator.replay.inputs import LinkedWork


@dataclass(frozen=True)
class CpuChains:
    """Outermost calls, ordered by thread and start; position 2 i is a start, 2 i + 1 an end."""

    row: Int64  # Row of ``Calls``.
    time_ns: Int64  # Measured time of each position. Unit: ns.
    first: Int64  # First position of each chain, and the number of positions.
    start_of_call: Int64  # Position of the start of the outermost call, by row of ``Calls``.

    @property
    def is_first(self) -> Bool:
        """Whether each position is the first of its chain."""
        result = np.zeros(len(self.time_ns), dtype=bool)
        result[self.first[:-1]] = True
        return result


def cpu_chains(calls: Calls) -> CpuChains:
    """Order calls by thread; calls inside another call count as that call."""
    if not len(calls):
        none = np.empty(0, dtype=np.int64)
        return CpuChains(none, none, np.zeros(1, dtype=np.int64), none)
    order = ordered(calls.thread)
    heads = run_heads(calls.thread[order])
    end = np.empty(len(order), dtype=np.int64)
    is_inner = np.zeros(len(order), dtype=bool)
    for low, high in pairwise([*heads.tolist(), len(order)]):
        rows = order[low:high]
        np.maximum.accumulate(calls.end_ns[rows], out=end[low:high])
        is_inner[low + 1 : high] = calls.start_ns[rows[1:]] < end[low : high - 1]
    outer = np.cumsum(~is_inner) - 1
    position = np.empty(len(order), dtype=np.int64)
    position[order] = 2 * outer
    kept = np.flatnonzero(~is_inner)
    rows = order[kept]
    # An inner call may end after its outer one by a rounding of the recorder.
    last = np.append(kept[1:], len(order)) - 1
    time = np.empty(2 * len(rows), dtype=np.int64)
    time[0::2] = calls.start_ns[rows]
    time[1::2] = end[last]
    first = np.append(2 * outer[heads], 2 * len(rows)).astype(np.int64)
    return CpuChains(rows, time, first, position)


@dataclass(frozen=True)
class StreamChains:
    """Work ordered by stream and start; a matched collective has a row for its arrival before."""

    row: Int64  # Row of ``Work``.
    is_arrival: Bool  # Whether the row marks an arrival only.
    start_ns: Int64  # Unit: ns.
    end_ns: Int64  # Unit: ns.
    first: Int64  # First row of each chain, and the number of rows.
    chain: Int64  # Chain of each row.
    launched_ns: Int64  # When each row had been launched, not decreasing in a chain. Unit: ns.
    process: Int64  # Process of each chain.
    device: Int64  # Device of each chain.
    stream: Int64  # Stream of each chain.

    def __len__(self) -> int:
        return len(self.row)

    @property
    def previous_end_ns(self) -> Int64:
        """End of the row before in the same chain; far in the past for the first. Unit: ns."""
        result = np.empty(len(self), dtype=np.int64)
        result[1:] = self.end_ns[:-1]
        result[self.first[:-1]] = -(1 << 60)
        return result

    def find(self, process: int, device: int, stream: int) -> int:
        """Return the chain of a stream, or -1 if it has no work."""
        same = (self.process == process) & (self.stream == stream)
        if device >= 0:
            same &= self.device == device
        found = np.flatnonzero(same)
        return int(found[0]) if len(found) else -1

    def launched_before(self, chain: Int64, time_ns: Int64) -> Int64:
        """Last row of chains that had been launched before some times; -1: there is none."""
        result = np.full(len(chain), -1, dtype=np.int64)
        for number in np.unique(chain[chain >= 0]).tolist():
            low, high = self.first[number], self.first[number + 1]
            which = np.flatnonzero(chain == number)
            count = np.searchsorted(self.launched_ns[low:high], time_ns[which], side="left")
            result[which] = np.where(count > 0, low + count - 1, -1)
        return result

    def launched_after(self, chain: Int64, time_ns: Int64) -> Int64:
        """First row of chains that was launched after some times; -1: there is none."""
        result = np.full(len(chain), -1, dtype=np.int64)
        for number in np.unique(chain[chain >= 0]).tolist():
            low, high = self.first[number], self.first[number + 1]
            which = np.flatnonzero(chain == number)
            count = np.searchsorted(self.launched_ns[low:high], time_ns[which], side="right")
            result[which] = np.where(low + count < high, low + count, -1)
        return result


def stream_chains(work: LinkedWork, calls: Calls) -> StreamChains:
    """Order work by stream, and split matched collectives into arrival and transfer."""
    first_rows, chain = row_codes(work.process, work.device, work.stream)
    order = np.lexsort((work.end_ns, work.start_ns, chain.astype(np.int64)))
    arrived = _last_arrival(work)
    is_split = arrived[order] >= 0
    row = np.repeat(order, 1 + is_split)
    is_arrival = np.zeros(len(row), dtype=bool)
    is_arrival[np.cumsum(1 + is_split)[is_split] - 2] = True
    start = work.start_ns[row]
    start = np.where(is_arrival, start, np.maximum(start, arrived[row]))
    end = np.where(is_arrival, start, np.maximum(work.end_ns[row], start))
    call = work.call[row]
    has_call = call >= 0
    launched = work.start_ns[row].copy()
    launched[has_call] = np.minimum(calls.start_ns[call[has_call]], launched[has_call])
    of_row = chain[row].astype(np.int64)
    heads = np.searchsorted(of_row, np.arange(len(first_rows)))
    first = np.append(heads, len(row)).astype(np.int64)
    for low, high in zip(first[:-1].tolist(), first[1:].tolist(), strict=True):
        np.maximum.accumulate(launched[low:high], out=launched[low:high])
    return StreamChains(
        row=row,
        is_arrival=is_arrival,
        start_ns=start,
        end_ns=end,
        first=first,
        chain=of_row,
        launched_ns=launched,
        process=work.process[first_rows],
        device=work.device[first_rows],
        stream=work.stream[first_rows],
    )


def _last_arrival(work: LinkedWork) -> Int64:
    """Latest start of the same collective on any rank; -1: not matched, or it ended before."""
    result = np.full(len(work), -1, dtype=np.int64)
    matched = np.flatnonzero(work.collective >= 0)
    if not len(matched):
        return result
    group = work.collective[matched]
    size = int(group.max()) + 1
    latest = np.full(size, -(1 << 60), dtype=np.int64)
    earliest_end = np.full(size, 1 << 60, dtype=np.int64)
    np.maximum.at(latest, group, work.start_ns[matched])
    np.minimum.at(earliest_end, group, work.end_ns[matched])
    fits = (np.bincount(group, minlength=size) > 1) & (latest <= earliest_end)
    result[matched] = np.where(fits[group], latest[group], -1)
    return result
