"""Matches collectives between ranks and computes how long each rank waited for the others.

Traces of PyTorch 2.13 and later number each call on all its ranks (``Comms Id``). Others, and
exports, name no communicator. NCCL runs each communicator's kernels on a stream of its own, in
order of call, and all its ranks call the same collectives: so streams of different ranks that hold
the same sequence of collectives, at the same times, are one communicator.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from aggregator.profile.arrays import Bool, Int64, row_shift

UNALIGNED: Final = "nothing"
"""By what the clock of a rank is aligned whose clock is unknown."""
SYNCHRONIZING = frozenset({"AllReduce", "AllGather", "ReduceScatter", "AllToAll"})
"""Collectives that no rank leaves before the last rank has entered."""
MIN_OVERLAP_SHARE = 0.9
"""Share of calls that must run at the same time for two streams to be of one communicator."""
LEAST_COMMON, MIN_COMMON_SHARE = 8, 0.5
"""Calls of a stream, and their share, that another must have where it begins at another call."""
_CALL_BITS = 48
_KIND = re.compile(
    r"(?:Kernel|Symk)_?(AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|SendRecv|AllToAll)"
)


def collective_kind(kernel_name: str) -> str:
    """``ncclDevKernel_AllReduce_Sum_f32_RING_LL`` -> ``AllReduce``; others keep their name."""
    found = _KIND.search(kernel_name)
    return found[1] if found else kernel_name


@dataclass(frozen=True)
class CollectiveKernels:
    """Kernels of collectives."""

    kernel: Int64  # Row id of the kernel.
    rank: Int64  # Row of the rank that ran it.
    device: Int64  # Row of its device.
    stream: Int64  # CUDA stream.
    kind: Int64  # Code into ``kinds``.
    start_ns: Int64  # Unit: ns.
    end_ns: Int64  # Unit: ns.
    kinds: tuple[str, ...]  # Kinds of collectives.
    call: Int64  # Number of the call, the same on all its ranks; -1: not recorded.

    def __len__(self) -> int:
        return len(self.kernel)


@dataclass(frozen=True)
class Stream:
    """The collectives of one communicator on one rank, in order of start."""

    rank: int  # Row of the rank.
    rows: Int64  # Rows of ``CollectiveKernels``.
    kind: Int64  # Their kinds.
    start_ns: Int64  # Unit: ns.
    end_ns: Int64  # Unit: ns.
    call: Int64  # Number of each call, the same on all its ranks; -1: not recorded.
    place: int = 0  # Of its first call in the communicator, where the source numbers none.

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def is_numbered(self) -> bool:
        """Whether the source numbers all its calls."""
        return bool((self.call >= 0).all())

    def at(self, rows: Int64) -> Stream:
        """Return some of its calls."""
        rows_of = (self.rows[rows], self.kind[rows])
        return Stream(self.rank, *rows_of, self.start_ns[rows], self.end_ns[rows], self.call[rows])

    def shifted(self, offset_ns: int) -> Stream:
        """Return the same on another clock."""
        start, end = self.start_ns + offset_ns, self.end_ns + offset_ns
        return Stream(self.rank, self.rows, self.kind, start, end, self.call)


def streams_of(found: CollectiveKernels) -> list[Stream]:
    """Return the streams, in order of rank and first collective."""
    order = np.lexsort((found.start_ns, found.stream, found.device, found.rank))
    keys = np.stack([found.rank, found.device, found.stream])[:, order]
    if not len(order):
        return []
    heads = np.flatnonzero(np.r_[True, (np.diff(keys, axis=1) != 0).any(axis=0)])
    every = Stream(0, np.arange(len(found)), found.kind, found.start_ns, found.end_ns, found.call)
    streams = [
        replace(every.at(rows), rank=int(found.rank[rows[0]]))
        for rows in np.split(order, heads[1:])
    ]
    return sorted(streams, key=lambda stream: (stream.rank, int(stream.start_ns[0])))


def common_calls(a: Stream, b: Stream, shift: int = 0) -> tuple[Stream, Stream]:
    """Return calls that two streams have in common, in the order of the first; none: they differ.

    Calls that the source numbers are those of the same number. Others are counted from the
    beginning; one stream may end earlier than the other: a capture ends with its process.

    Args:
        a: A stream.
        b: Another one.
        shift: Calls of the first before the first common one; negative: calls of the second.
    """
    if a.is_numbered and b.is_numbered:
        _, own, other = np.intersect1d(_numbers(a), _numbers(b), return_indices=True)
        order = np.argsort(own)
        return a.at(own[order]), b.at(other[order])
    rows, others = np.arange(max(shift, 0), len(a)), np.arange(max(-shift, 0), len(b))
    shared = min(len(rows), len(others))
    if (a.kind[rows[:shared]] != b.kind[others[:shared]]).any():
        shared = 0
    return a.at(rows[:shared]), b.at(others[:shared])


def _numbers(stream: Stream) -> Int64:
    """Return numbers of the calls of a stream; several kernels of one call have different ones."""
    order = np.argsort(stream.call, kind="stable")
    is_first = np.diff(stream.call[order], prepend=-1) != 0
    place = np.arange(len(order))
    again = np.empty(len(order), dtype=np.int64)
    again[order] = place - np.maximum.accumulate(np.where(is_first, place, 0))
    result: Int64 = stream.call ^ (again << _CALL_BITS)
    return result


def overlap_share(a: Stream, b: Stream) -> float:
    """Share of calls, the same ones of two streams, that ran at the same time on both."""
    latest = np.maximum(a.start_ns, b.start_ns)
    earliest = np.minimum(a.end_ns, b.end_ns)
    return float(np.mean(latest <= earliest)) if len(a) else 0.0


def is_synchronizing(stream: Stream, kinds: tuple[str, ...]) -> Bool:
    """Return whether each call is of a kind in ``SYNCHRONIZING``."""
    synchronizes = np.array([kind in SYNCHRONIZING for kind in kinds], dtype=bool)
    result: Bool = synchronizes[stream.kind]
    return result


def _place_beside(a: Stream, b: Stream, kinds: tuple[str, ...]) -> int | None:
    """Return the call of a stream at which another one of its communicator begins; None: it is not.

    A rank may record calls that were launched before its recording began, if they still waited for
    another rank. Only synchronizing calls are compared: the root of a broadcast leaves before the
    others enter.
    """
    if _runs_together(a, b, kinds, 0):
        return 0
    # Ranks leave a call together; they may enter it long after each other.
    shift = row_shift(np.maximum.accumulate(a.end_ns), b.end_ns)
    common = min(len(a) - max(shift, 0), len(b) - max(-shift, 0))
    is_most = common >= max(LEAST_COMMON, MIN_COMMON_SHARE * len(b))
    return shift if is_most and _runs_together(a, b, kinds, shift) else None


def _runs_together(a: Stream, b: Stream, kinds: tuple[str, ...], shift: int) -> bool:
    """Return whether the times of two streams allow them to belong to one communicator."""
    own, other = common_calls(a, b, shift)
    if not len(own):
        return False
    rows = np.flatnonzero(is_synchronizing(own, kinds))
    if not len(rows) or (a.is_numbered and b.is_numbered):
        return shift == 0
    return overlap_share(own.at(rows), other.at(rows)) >= MIN_OVERLAP_SHARE


def communicators(streams: list[Stream], kinds: tuple[str, ...]) -> list[list[Stream]]:
    """Return groups of streams of different ranks that call the same collectives at the same times.

    The longest streams come first: one that breaks off joins a complete one.
    """
    groups: list[list[Stream]] = []
    for stream in sorted(streams, key=len, reverse=True):
        for group in groups:
            if any(member.rank == stream.rank for member in group):
                continue
            place = _place_beside(group[0], stream, kinds)
            if place is not None:
                group.append(replace(stream, place=place))
                break
        else:
            groups.append([stream])
    for group in groups:
        group.sort(key=lambda stream: stream.rank)
    groups.sort(key=lambda group: (-len(group), int(group[0].start_ns[0])))
    return groups


@dataclass(frozen=True)
class Matched:
    """Result of matching; one row per row of ``CollectiveKernels``."""

    communicator: Int64  # Number of its group, from 1; -1: not matched with any other rank.
    sequence: Int64  # Number of the call in its group; -1: not matched.
    num_ranks: Int64  # Ranks found in the call.
    waiting_ns: Int64  # Time from its own start to the last start it waited for; -1: unknown.
    # Waiting of all others in the call, for the rank that started last; 0 for the others; -1:
    # unknown.
    kept_waiting_ns: Int64


def match(found: CollectiveKernels, aligned: Bool) -> Matched:
    """Match the collectives of all ranks, which are on a common clock.

    ``aligned``: whether the clock of each row of ranks is known; the others are not matched.
    """
    columns = [np.full(len(found), -1, dtype=np.int64) for _ in range(5)]
    communicator, sequence, num_ranks, waiting, kept = columns
    num_ranks[:] = 1
    streams = [stream for stream in streams_of(found) if aligned[stream.rank]]
    groups = [group for group in communicators(streams, found.kinds) if len(group) > 1]
    for number, group in enumerate(groups, start=1):
        every, place = np.concatenate([stream.rows for stream in group]), _sequence(group)
        communicator[every], sequence[every] = number, place
        order = np.argsort(place, kind="stable")
        members = np.bincount(place)[place[order]]
        for count in np.unique(members).tolist():
            rows = every[order[members == count]].reshape(-1, count).T
            num_ranks[rows] = count
            if count > 1:
                waited = _waiting(found.start_ns[rows], found.end_ns[rows])
                waiting[rows] = waited
                kept[rows] = _kept_waiting(found.start_ns[rows], waited)
    return Matched(communicator, sequence, num_ranks, waiting, kept)


def _sequence(group: list[Stream]) -> Int64:
    """Return the number of each call in a communicator, stream by stream."""
    if not all(stream.is_numbered for stream in group):
        first = min(stream.place for stream in group)
        return np.concatenate([stream.place - first + np.arange(len(stream)) for stream in group])
    start = np.concatenate([stream.start_ns for stream in group])
    _, code = np.unique(np.concatenate([_numbers(stream) for stream in group]), return_inverse=True)
    begin = np.full(int(code.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(begin, code, start)
    place = np.empty(len(begin), dtype=np.int64)
    place[np.argsort(begin, kind="stable")] = np.arange(len(begin))
    result: Int64 = place[code]
    return result


def _waiting(start_ns: Int64, end_ns: Int64) -> Int64:
    """Return the waiting per rank and call: until the last start that precedes the rank's own end.

    A rank that entered after another had left did not keep it waiting, as with a broadcast's root.
    Shape of all: (ranks, calls). Unit: ns.
    """
    ordered = np.sort(start_ns, axis=0)
    last = ordered[-1]
    result: Int64 = np.where(last <= end_ns, last - start_ns, 0)
    left_early = np.flatnonzero((end_ns < last).any(axis=0))
    for call in left_early.tolist():
        position = np.searchsorted(ordered[:, call], end_ns[:, call], side="right") - 1
        result[:, call] = ordered[np.maximum(position, 0), call] - start_ns[:, call]
    return np.maximum(result, 0)


def _kept_waiting(start_ns: Int64, waiting_ns: Int64) -> Int64:
    """Sum of the others' waiting, at the rank that started last (the first of equals)."""
    result = np.zeros_like(waiting_ns)
    last = np.argmax(start_ns, axis=0)
    calls = np.arange(start_ns.shape[1])
    result[last, calls] = waiting_ns.sum(axis=0) - waiting_ns[last, calls]
    return result
