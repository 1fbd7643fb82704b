"""Replay the events of an allocator: what was allocated, active and reserved after each of them.

The state at the end is known from the snapshot; the state at the beginning is what remains when all
events are undone. Sizes of events are those that PyTorch records, which are the requested ones; the
rounding of a block is known while it lives at the end, and is counted for the whole time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aggregator.metrics.memory.model import Action, DeviceTrace, Events, Int64

NEVER = -1
"""Index of an event that was not recorded: before the first, or after the last."""


@dataclass(frozen=True)
class Replay:
    """Counts of a device after each event. Unit: bytes."""

    allocated: Int64  # In use by the program.
    active: Int64  # In use by the program or still by a stream.
    reserved: Int64  # Taken from the driver.
    start_allocated: int  # Before the first event.
    start_reserved: int
    end_allocated: int  # After the last event.
    end_active: int
    end_reserved: int

    @property
    def peak_allocated(self) -> int:
        """Most allocated bytes."""
        return max(int(self.allocated.max(initial=0)), self.start_allocated)

    @property
    def peak_reserved(self) -> int:
        """Most reserved bytes."""
        return max(int(self.reserved.max(initial=0)), self.start_reserved)

    @property
    def peak_event(self) -> int:
        """The first event after which most was allocated; ``NEVER``: before all events."""
        if not len(self.allocated) or int(self.allocated.max()) < self.start_allocated:
            return NEVER
        return int(self.allocated.argmax())


@dataclass(frozen=True)
class Allocations:
    """Each allocation of a device, one row each."""

    address: Int64
    size: Int64  # Unit: bytes.
    alloc_event: Int64  # Index of the event; ``NEVER``: before the first.
    free_event: Int64  # Index of the event; ``NEVER``: still alive at the end.
    block: Int64  # Index of its block at the end; ``NEVER``: none.
    is_rounding: npt.NDArray[np.bool_]  # Whether it is the rounding of another row's block.

    def __len__(self) -> int:
        return len(self.size)

    def alive_after(self, event: int) -> npt.NDArray[np.bool_]:
        """Which allocations live after an event; ``NEVER``: before the first."""
        begun = self.alloc_event <= event
        ended = (self.free_event != NEVER) & (self.free_event <= event)
        return np.asarray(begun & ~ended)


def replay(trace: DeviceTrace) -> Replay:
    """Count the bytes after each event."""
    events, blocks = trace.events, trace.blocks
    action, size = events.action, events.size
    allocated = _cumulative(action, size, Action.ALLOC, Action.FREE_REQUESTED)
    active = _cumulative(action, size, Action.ALLOC, Action.FREE_COMPLETED)
    reserved = _cumulative(action, size, Action.SEGMENT_ALLOC, Action.SEGMENT_FREE)
    if trace.end_allocated is not None:
        ends = (trace.end_allocated, trace.end_allocated, 0)
    elif len(blocks.size) or len(trace.segments.size):
        in_use = blocks.size[blocks.state == 2].sum()
        pending = blocks.size[blocks.state == 1].sum()
        ends = (int(in_use), int(in_use + pending), int(trace.segments.size.sum()))
    else:
        ends = (_end_from_zero(allocated), _end_from_zero(active), _end_from_zero(reserved))
    starts = [
        end - (int(counts[-1]) if len(counts) else 0)
        for end, counts in zip(ends, (allocated, active, reserved), strict=True)
    ]
    allocated += starts[0]
    active += starts[1]
    reserved += starts[2]
    if trace.reserved is not None:
        reserved = trace.reserved
        first, last = (int(reserved[0]), int(reserved[-1])) if len(reserved) else (0, 0)
        starts[2], ends = first, (ends[0], ends[1], last)
    return Replay(allocated, active, reserved, starts[0], starts[2], *ends)


def _cumulative(action: npt.NDArray[np.int8], size: Int64, plus: Action, minus: Action) -> Int64:
    signed = np.where(action == plus, size, 0)
    np.subtract(signed, size, out=signed, where=action == minus)
    return np.cumsum(signed, out=signed)


def _end_from_zero(counts: Int64) -> int:
    """The end if nothing was held that no event mentions."""
    if not len(counts):
        return 0
    return int(counts[-1]) - min(int(counts.min()), 0)


def pair_allocations(trace: DeviceTrace, counts: Replay) -> Allocations:
    """Find the release of each allocation: the next event at its address."""
    events = trace.events
    alloc, free, address, size = _pairs(events)
    block, rounding = _blocks_of(trace, alloc, free, address, size)
    blocks = trace.blocks
    seen = np.zeros(len(blocks.size), dtype=np.bool_)
    seen[block[block >= 0]] = True
    old = np.flatnonzero((blocks.state == 2) & ~seen)
    is_known = (blocks.requested[old] > 0) & (blocks.requested[old] <= blocks.size[old])
    asked = np.where(is_known, blocks.requested[old], blocks.size[old])
    address = np.concatenate([address, blocks.address[old]])
    size = np.concatenate([size, asked])
    rounding = np.concatenate([rounding, blocks.size[old] - asked])
    block = np.concatenate([block, old])
    before = np.full(len(old), NEVER, dtype=np.int64)
    rows = np.flatnonzero(rounding)
    always = np.full(len(rows), NEVER, dtype=np.int64)
    known = _Columns(
        np.concatenate([address, address[rows]]),
        np.concatenate([size, rounding[rows]]),
        np.concatenate([alloc, before, always]),
        np.concatenate([free, before, always]),
        np.concatenate([block, block[rows]]),
        np.arange(len(size) + len(rows)) >= len(size),
    )
    return _with_rest(known, counts.start_allocated)


@dataclass
class _Columns:
    address: Int64
    size: Int64
    alloc: Int64
    free: Int64
    block: Int64
    is_rounding: npt.NDArray[np.bool_]


def _with_rest(known: _Columns, start_allocated: int) -> Allocations:
    """Add what was allocated at the beginning and belongs to no known block."""
    rest = start_allocated - int(known.size[known.alloc == NEVER].sum())
    if rest:
        extra = np.array([NEVER], dtype=np.int64)
        known = _Columns(
            np.append(known.address, 0),
            np.append(known.size, rest),
            np.append(known.alloc, extra),
            np.append(known.free, extra),
            np.append(known.block, extra),
            np.append(known.is_rounding, False),
        )
    return Allocations(
        known.address, known.size, known.alloc, known.free, known.block, known.is_rounding
    )


def _pairs(events: Events) -> tuple[Int64, Int64, Int64, Int64]:
    """Event of the allocation and of the release, address and size of each allocation."""
    rows = np.flatnonzero(
        (events.action == Action.ALLOC) | (events.action == Action.FREE_REQUESTED)
    )
    address = events.address[rows]
    order = np.argsort(address, kind="stable")
    rows, address = rows[order], address[order]
    is_alloc = events.action[rows] == Action.ALLOC
    same = np.zeros(len(rows), dtype=np.bool_)
    same[1:] = address[1:] == address[:-1]
    # An allocation is released by the next event at its address if that is a release.
    released = np.zeros(len(rows), dtype=np.bool_)
    released[:-1] = is_alloc[:-1] & ~is_alloc[1:] & same[1:]
    follows = np.zeros(len(rows), dtype=np.bool_)
    follows[1:] = released[:-1]
    first = np.flatnonzero(is_alloc | ~follows)
    alloc = np.where(is_alloc[first], rows[first], NEVER)
    partner = rows[np.minimum(first + 1, len(rows) - 1)] if len(rows) else rows
    free = np.where(is_alloc[first], np.where(released[first], partner, NEVER), rows[first])
    return alloc, free, address[first], events.size[rows[first]]


def _blocks_of(
    trace: DeviceTrace, alloc: Int64, free: Int64, address: Int64, size: Int64
) -> tuple[Int64, Int64]:
    """Block at the end of each allocation that lives on, and how much larger it is."""
    blocks = trace.blocks
    block = np.full(len(alloc), NEVER, dtype=np.int64)
    rounding = np.zeros(len(alloc), dtype=np.int64)
    living = np.flatnonzero(blocks.state == 2)
    alive = np.flatnonzero((free == NEVER) & (alloc != NEVER))
    if not len(living) or not len(alive):
        return block, rounding
    order = living[np.argsort(blocks.address[living], kind="stable")]
    place = np.minimum(np.searchsorted(blocks.address[order], address[alive]), len(order) - 1)
    found = blocks.address[order[place]] == address[alive]
    # Of several allocations at one address without a release between them, the last one lives.
    alive, target = alive[found], order[place[found]]
    block[alive] = target
    rounding[alive] = blocks.size[target] - size[alive]
    return block, rounding
