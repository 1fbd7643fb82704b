"""Values of a pickle while it is read."""

from __future__ import annotations

from array import array
from typing import Any, Final, NamedTuple, Protocol

from aggregator.sources.memory.columns import SnapshotColumns

OBJECT: Final = 0
"""Kinds of memo entries: an object of the reader's list, ..."""
ROW: Final = 1
"""an event, by its row, ..."""
STACK: Final = 2
"""a call stack, by its number, ..."""
FRAME: Final = 3
"""and a frame of one."""


class EventRun(NamedTuple):
    """Events with consecutive rows."""

    first: int
    length: int


class FrameRef(int):
    """A frame of a call stack, by its number."""

    __slots__ = ()


class StackRef(int):
    """A call stack, by its number."""

    __slots__ = ()


class PickledDict(dict[Any, Any]):
    """A dictionary and where the memo holds it."""

    __slots__ = ("depth", "memo")

    def __init__(self) -> None:
        super().__init__()
        self.memo = -1
        self.depth = 1


class PickledList(list[Any]):
    """A list; events and frames are kept beside its plain items."""

    __slots__ = ("depth", "frames", "memo", "runs", "stack")

    def __init__(self) -> None:
        super().__init__()
        self.memo = -1
        self.depth = 1
        self.runs: list[EventRun] = []
        self.frames: tuple[int, ...] = ()
        self.stack = 0


class Reader(Protocol):
    """What reads a pickle: its buffer, its memo and its columns."""

    data: bytes
    pos: int
    memo: array[int]
    objects: list[Any]
    columns: SnapshotColumns

    def refill(self) -> bool:
        """Read more of the file; returns whether there was more."""

    def text_handle(self, text: str) -> int:
        """Handle for the memo entry of a text."""
