"""The bytes of a pickle, read in parts and without the heads of its frames, and its values."""

from __future__ import annotations

from array import array
from typing import Any, BinaryIO, Final, NamedTuple, Protocol

from aggregator.sources.memory.columns import SnapshotColumns

_CHUNK: Final = 8 << 20
_FRAME: Final = 0x95
_FRAME_HEAD: Final = 9
_STOP: Final = b"."


class Cut(Exception):
    """The file ends inside an opcode."""


class PickleBytes:
    """A buffer over a file.

    Attributes:
        data: The buffer.
        pos: What has been read of it.
    """

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._size = size
        self._left = size  # Bytes of the file that are not in the buffer.
        self._frame_left = 0  # Bytes of the current frame that are not in the buffer.
        self.data = b""
        self.pos = 0

    def read_head(self, count: int) -> bytes:
        """Return the first bytes of the file."""
        head = self._file.read(count)
        self._left -= len(head)
        return head

    def is_cut(self) -> bool:
        """Return whether the heads of frames say that the end of the file is missing.

        They are read without what is between them, so that it is known before a gigabyte is read.
        """
        end = self._size
        begin = place = end - self._left
        last = b""
        while place < end:
            self._file.seek(place)
            head = self._file.read(_FRAME_HEAD)
            if head[:1] != bytes([_FRAME]):
                # No frame: a protocol without frames, or a large value between them.
                last = b""
                break
            place += _FRAME_HEAD + int.from_bytes(head[1:], "little")
            if len(head) == _FRAME_HEAD and place == end:
                self._file.seek(end - 1)
                last = self._file.read(1)
        self._file.seek(begin)
        return place > end or last not in (b"", _STOP)

    def refill(self) -> bool:
        """Read more of the file, without the heads of frames; returns whether there was more."""
        parts = [self.data[self.pos :]]
        wanted = _CHUNK
        while wanted > 0 and self._left > 0:
            if self._frame_left == 0:
                head = self._file.read(min(_FRAME_HEAD, self._left))
                self._left -= len(head)
                if not head:
                    break
                if head[0] != 0x95 or len(head) < _FRAME_HEAD:
                    # No frame: a protocol without frames, or the end.
                    parts.append(head)
                    wanted -= len(head)
                    self._frame_left = self._left if head[0] != 0x95 else 0
                    continue
                self._frame_left = int.from_bytes(head[1:], "little")
                if self._frame_left > self._left:
                    raise Cut
                continue
            part = self._file.read(min(wanted, self._frame_left, self._left))
            if not part:
                break
            parts.append(part)
            self._left -= len(part)
            self._frame_left -= len(part)
            wanted -= len(part)
        before = len(self.data) - self.pos
        self.data, self.pos = b"".join(parts), 0
        return len(self.data) > before

    def take(self, count: int) -> bytes:
        """Read some bytes."""
        if count > len(self.data) - self.pos:
            if count > len(self.data) - self.pos + self._left:
                raise Cut
            while count > len(self.data) - self.pos:
                if not self.refill():
                    raise Cut
        start = self.pos
        self.pos = start + count
        return self.data[start : self.pos]

    def number(self, count: int) -> int:
        """Read an unsigned number of some bytes."""
        return int.from_bytes(self.take(count), "little")


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
