"""Replay the events of an allocator: what was allocated, active and reserved after each of them.

The state at the end is known from the snapshot; the state at the beginning is what remains when all
events are undone. Sizes of events are those that PyTorch records, which are the requested ones; the
rounding of a block is known while it lives at the end, and is counted for the whole time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from aggregator.metrics.memory.model import Action, DeviceTrace, Events, Int64, Narrow

NEVER = -1
"""Index of an event that was not recorded: before the first, or after the last."""


@dataclass(frozen=True)
class Changes:
    """A count after each event that changes with few of them."""

    events: Int64  # The events after which it is another, the first event always.
    values: Int64
    count: int  # Number of all events.

    @classmethod
    def of(cls, column: Int64) -> Changes:
        """Return the changes of a column."""
        events = np.flatnonzero(column[1:] != column[:-1]) + 1
        events = np.append(np.zeros(min(len(column), 1), dtype=np.int64), events)
        return cls(events, column[events], len(column))

    def at_all(self) -> Int64:
        """Return the count after each event."""
        return np.repeat(self.values, np.diff(np.append(self.events, self.count)))


@dataclass(frozen=True)
class Replay:
    """Counts of a device after each event. Unit: bytes."""

    allocated: Int64  # In use by the program.
    active: Int64  # In use by the program or still by a stream.
    reserved_changes: Changes  # Taken from the driver.
    start_allocated: int  # Before the first event.
    start_reserved: int
    end_allocated: int  # After the last event.
    end_active: int
    end_reserved: int

    @cached_property
    def reserved(self) -> Int64:
        """Taken from the driver, after each event."""
        return self.reserved_changes.at_all()

    @property
    def peak_allocated(self) -> int:
        """Most allocated bytes."""
        return max(int(self.allocated.max(initial=0)), self.start_allocated)

    @property
    def peak_active(self) -> int:
        """Most bytes in use by the program or by a stream."""
        return max(int(self.active.max(initial=0)), self.start_allocated)

    @property
    def peak_reserved(self) -> int:
        """Most reserved bytes."""
        return max(int(self.reserved_changes.values.max(initial=0)), self.start_reserved)

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
    alloc_event: Narrow  # Index of the event; ``NEVER``: before the first.
    free_event: Narrow  # Index of the event; ``NEVER``: still alive at the end.
    block: Narrow  # Index of its block at the end; ``NEVER``: none.
    is_rounding: npt.NDArray[np.bool_]  # Whether it is the rounding of another row's block.

    def __len__(self) -> int:
        return len(self.size)

    def alive_after(self, event: int) -> npt.NDArray[np.bool_]:
        """Return which allocations live after an event; ``NEVER``: before the first."""
        begun = self.alloc_event <= event
        ended = (self.free_event != NEVER) & (self.free_event <= event)
        return np.asarray(begun & ~ended)


def replay(trace: DeviceTrace) -> Replay:
    """Count the bytes after each event."""
    events, blocks = trace.events, trace.blocks
    action, size = events.action, events.size
    allocated = _cumulative(action, size, Action.ALLOC, Action.FREE_REQUESTED)
    active = _cumulative(action, size, Action.ALLOC, Action.FREE_COMPLETED)
    reserved = _reserved(events)
    if trace.end_allocated is not None:
        ends = (trace.end_allocated, trace.end_allocated, 0)
    elif len(blocks.size) or len(trace.segments.size):
        in_use = blocks.size[blocks.state == 2].sum()
        pending = blocks.size[blocks.state == 1].sum()
        ends = (int(in_use), int(in_use + pending), int(trace.segments.size.sum()))
    else:
        counts = (allocated, active, reserved.values)
        ends = (_end_from_zero(counts[0]), _end_from_zero(counts[1]), _end_from_zero(counts[2]))
    starts = [
        end - (int(column[-1]) if len(column) else 0)
        for end, column in zip(ends, (allocated, active, reserved.values), strict=True)
    ]
    allocated += starts[0]
    active += starts[1]
    reserved = Changes(reserved.events, reserved.values + starts[2], reserved.count)
    if trace.reserved is not None:
        reserved = Changes.of(trace.reserved)
        first, last = (reserved.values[0], reserved.values[-1]) if reserved.count else (0, 0)
        starts[2], ends = int(first), (ends[0], ends[1], int(last))
    return Replay(allocated, active, reserved, starts[0], starts[2], *ends)


def _reserved(events: Events) -> Changes:
    action = events.action
    rows = np.flatnonzero((action == Action.SEGMENT_ALLOC) | (action == Action.SEGMENT_FREE))
    values = _cumulative(action[rows], events.size[rows], Action.SEGMENT_ALLOC, Action.SEGMENT_FREE)
    if len(events) and not (len(rows) and rows[0] == 0):
        rows, values = np.insert(rows, 0, 0), np.insert(values, 0, 0)
    return Changes(rows, values, len(events))


def _cumulative(action: npt.NDArray[np.int8], size: Int64, plus: Action, minus: Action) -> Int64:
    signed = np.where(action == plus, size, 0)
    np.subtract(signed, size, out=signed, where=action == minus)
    return np.cumsum(signed, out=signed)


def _end_from_zero(counts: Int64) -> int:
    """Return the bytes at the end if nothing was held that no event mentions."""
    if not len(counts):
        return 0
    return int(counts[-1]) - min(int(counts.min()), 0)


def pair_allocations(trace: DeviceTrace) -> Allocations:
    """Find the release of each allocation: the next event at its address.

    Rows are the allocations of events, the blocks that lived before them, the rounding of blocks,
    and what was allocated at the beginning and belongs to no known block.
    """
    alloc, free, address, size = _pairs(trace.events)
    block, rounding = _blocks_of(trace, alloc, free, address, size)
    blocks = trace.blocks
    seen = np.zeros(len(blocks.size), dtype=np.bool_)
    seen[block[block >= 0]] = True
    old = np.flatnonzero((blocks.state == 2) & ~seen)
    is_known = (blocks.requested[old] > 0) & (blocks.requested[old] <= blocks.size[old])
    asked = np.where(is_known, blocks.requested[old], blocks.size[old])
    extra = blocks.size[old] - asked
    over, over_old = np.flatnonzero(rounding), np.flatnonzero(extra)
    roundings = np.concatenate([rounding[over], extra[over_old]])
    rest = _start_allocated(trace) - int(roundings.sum() + asked.sum())
    rest -= int(size[alloc == NEVER].sum())
    unknown = np.zeros(1 if rest else 0, dtype=np.int64)
    at_old = blocks.address[old]
    never = np.full(len(old), NEVER, dtype=alloc.dtype)
    always = np.full(len(roundings) + len(unknown), NEVER, dtype=alloc.dtype)
    count = len(size) + len(old)
    is_rounding = np.zeros(count + len(always), dtype=np.bool_)
    is_rounding[count : count + len(roundings)] = True
    return Allocations(
        address=np.concatenate([address, at_old, address[over], at_old[over_old], unknown]),
        size=np.concatenate([size, asked, roundings, unknown + rest]),
        alloc_event=np.concatenate([alloc, never, always]),
        free_event=np.concatenate([free, never, always]),
        block=np.concatenate([block, old, block[over], old[over_old], unknown + NEVER]),
        is_rounding=is_rounding,
    )


def _start_allocated(trace: DeviceTrace) -> int:
    """Return what was allocated before the first event."""
    events = trace.events
    if trace.end_allocated is None and not len(trace.blocks.size) and not len(trace.segments.size):
        return replay(trace).start_allocated
    made = int(events.size.sum(where=events.action == Action.ALLOC))
    made -= int(events.size.sum(where=events.action == Action.FREE_REQUESTED))
    if trace.end_allocated is not None:
        return trace.end_allocated - made
    return int(trace.blocks.size[trace.blocks.state == 2].sum()) - made


def _pairs(events: Events) -> tuple[Narrow, Narrow, Int64, Int64]:
    """Event of the allocation and of the release, address and size of each allocation."""
    narrow = np.int32 if len(events) < 1 << 31 else np.int64
    rows = np.flatnonzero(
        (events.action == Action.ALLOC) | (events.action == Action.FREE_REQUESTED)
    ).astype(narrow)
    address = events.address[rows]
    order = np.argsort(address, kind="stable")
    rows, address = rows[order], address[order]
    del order  # Of a large snapshot each column has a hundred megabytes.
    is_alloc = events.action[rows] == Action.ALLOC
    same = np.zeros(len(rows), dtype=np.bool_)
    same[1:] = address[1:] == address[:-1]
    # An allocation is released by the next event at its address if that is a release.
    released = np.zeros(len(rows), dtype=np.bool_)
    released[:-1] = is_alloc[:-1] & ~is_alloc[1:] & same[1:]
    follows = np.zeros(len(rows), dtype=np.bool_)
    follows[1:] = released[:-1]
    first = np.flatnonzero(is_alloc | ~follows)
    del same, follows
    event = rows[first]
    partner = rows[np.minimum(first + 1, len(rows) - 1)] if len(rows) else rows
    partner[~released[first]] = NEVER
    alloc, free = event.copy(), np.where(is_alloc[first], partner, event)
    alloc[~is_alloc[first]] = NEVER
    return alloc, free, address[first], events.size[event]


def _blocks_of(
    trace: DeviceTrace, alloc: Narrow, free: Narrow, address: Int64, size: Int64
) -> tuple[Narrow, Int64]:
    """Return the block at the end of each allocation that lives on, and how much larger it is."""
    blocks = trace.blocks
    block = np.full(len(alloc), NEVER, dtype=np.int32)
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
