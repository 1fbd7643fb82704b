"""The recorded allocations of a run, as columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Int8 = npt.NDArray[np.int8]
Narrow = npt.NDArray[Any]
"""Integers in the narrowest type that suffices: a snapshot has millions of them."""


class Action(IntEnum):
    """What an event of an allocator did."""

    OTHER = 0
    """An event without effect on the counts: a snapshot, an annotation, a failed allocation."""
    ALLOC = 1
    FREE_REQUESTED = 2
    """The program released the block; another stream may still use it."""
    FREE_COMPLETED = 3
    SEGMENT_ALLOC = 4
    """The allocator took memory from the driver."""
    SEGMENT_FREE = 5
    OUT_OF_MEMORY = 6


ACTIONS: Final = {
    "alloc": Action.ALLOC,
    "free_requested": Action.FREE_REQUESTED,
    "free": Action.FREE_REQUESTED,
    "free_completed": Action.FREE_COMPLETED,
    "segment_alloc": Action.SEGMENT_ALLOC,
    "segment_map": Action.SEGMENT_ALLOC,
    "segment_free": Action.SEGMENT_FREE,
    "segment_unmap": Action.SEGMENT_FREE,
    "oom": Action.OUT_OF_MEMORY,
}
"""PyTorch's names of the events."""


OP_FILE: Final = "<op>"
"""File of a frame that is an op: traces record no other frames."""


@dataclass(frozen=True)
class Stacks:
    """Call stacks, each stored once. A frame is a function of a file; the innermost is first."""

    names: tuple[str, ...] = ()  # Function of each distinct frame.
    files: tuple[str, ...] = ()  # Its file.
    lines: tuple[int, ...] = ()  # Its line.
    frames: tuple[tuple[int, ...], ...] = ((),)  # Of each distinct stack; 0: empty.


@dataclass(frozen=True)
class Events:
    """Events of one device in recorded order."""

    action: Int8  # ``Action``.
    address: Int64
    size: Int64  # Unit: bytes, as recorded: PyTorch records the requested size.
    time_ns: Int64  # Since 1970, or -1: not recorded.
    stack: Narrow  # Index in ``Stacks.frames``.
    note: Narrow  # Index in ``MemoryTrace.notes``: text that the program attached; 0: none.

    def __len__(self) -> int:
        return len(self.action)

    def part(self, rows: Int64 | slice) -> Events:
        """Return some of the events; those of a slice are not copied."""
        return Events(
            action=self.action[rows],
            address=self.address[rows],
            size=self.size[rows],
            time_ns=self.time_ns[rows],
            stack=self.stack[rows],
            note=self.note[rows],
        )


@dataclass(frozen=True)
class Blocks:
    """Blocks of memory that the allocator held at the end, of one device."""

    address: Int64
    size: Int64  # Unit: bytes.
    requested: Int64  # What the program asked for. Unit: bytes.
    state: Int8  # 2: allocated, 1: released but still used by a stream, 0: free.
    segment: Int64  # Index in ``Segments``.
    stack: Int32  # Index in ``Stacks.frames``.


@dataclass(frozen=True)
class Segments:
    """Memory that the allocator had taken from the driver at the end, of one device."""

    address: Int64
    size: Int64  # Unit: bytes.
    stream: Int64
    pool: tuple[str, ...]  # Its pool: "large", "small", or a private one with its ids.


@dataclass(frozen=True)
class DeviceTrace:
    """What one device's allocator did."""

    device: int
    events: Events
    blocks: Blocks
    segments: Segments
    # State at the end, where the source records it instead of blocks. Unit: bytes.
    end_allocated: int | None = None
    reserved: Int64 | None = None  # Reserved bytes after each event, if recorded. Unit: bytes.


@dataclass(frozen=True)
class MemoryTrace:
    """Allocations of a run."""

    devices: tuple[DeviceTrace, ...]
    stacks: Stacks = Stacks()
    notes: tuple[str, ...] = ("",)  # Distinct texts of events; 0 is empty.
    annotations: tuple[dict[str, Any], ...] = ()  # Ranges that PyTorch recorded beside the events.
    run: dict[str, Any] = field(default_factory=dict)  # What ``dlprof --memory`` recorded.
    source: str = "snapshot"  # "snapshot", "nsys" or "kineto".


def no_blocks() -> Blocks:
    """Return the blocks of a source that does not record them."""
    none = np.zeros(0, dtype=np.int64)
    return Blocks(none, none, none, none.astype(np.int8), none, none.astype(np.int32))


def no_segments() -> Segments:
    """Return the segments of a source that does not record them."""
    none = np.zeros(0, dtype=np.int64)
    return Segments(none, none, none, ())
