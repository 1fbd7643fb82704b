"""Read the lists of frames that events have: references to frames, or frames that are written out.

Equal bytes mean equal lists, because a memo entry never changes; so each wording is read once.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aggregator.sources.memory.columns import MAX_FRAMES
from aggregator.sources.memory.pickle_bytes import FRAME, OBJECT, Reader

FIRST_SLICE: Final = 16 << 10
"""Bytes of events that are read at once at first."""


class EventLayout:
    """The keys of an event and their references."""

    def __init__(self, keys: tuple[str, ...], indexes: tuple[int, ...]) -> None:
        self.keys = keys
        self.indexes = indexes
        self.tokens = [_reference(index) for index in indexes]
        self.usable = keys[-1:] == ("frames",)
        # Stack of each list of frames, and handles of the memo entries that it makes.
        self.known: dict[bytes, tuple[int, array[int]]] = {}
        self.known_frames: dict[bytes, int] = {}  # Number of each frame that is written out.
        self.slice = FIRST_SLICE
        self.skipped = 0  # Events to read one by one before the next attempt.
        self.failures = 0


def _reference(index: int) -> bytes:
    return bytes((ord("h"), index)) if index < 256 else b"j" + index.to_bytes(4, "little")


_REFS: Final = re.compile(rb"(?:h.|j....)*", re.DOTALL)
_REF: Final = re.compile(rb"h(.)|j(....)", re.DOTALL)
_FRAME: Final = re.compile(rb"\}\x94\((?:[hK].|M..|[jJ]....)*u", re.DOTALL)
"""A frame that is written out with references and numbers."""
_MEMOIZE: Final = 0x94
_NUMBERS: Final = {ord("K"): 1, ord("M"): 2, ord("J"): 4}
_TEXTS: Final = {0x8C: 1, ord("X"): 4}
_REFERENCES: Final = {ord("h"): 1, ord("j"): 4}
_LONGEST: Final = 1 << 16


class _OtherError(Exception):
    """The bytes are no list of frames as PyTorch writes it."""


class WrittenLists:
    """The lists of some consecutive events.

    Attributes:
        lengths: Number of memo entries that each list makes, beside its own.
    """

    def __init__(self, reader: Reader, layout: EventLayout, *, has_memo: bool) -> None:
        self._reader, self._has_memo = reader, has_memo
        self._known, self.known_frames = layout.known, layout.known_frames
        self.lengths: list[int] = []
        # Entries that are not in the memo yet: handles of each list that makes some, its first
        # entry, and the number of all. A list may have a hundred frames, so none is kept alone.
        self._made: list[array[int]] = []
        self._first: list[int] = []
        self._count = 0

    def handles(self) -> npt.NDArray[np.int32]:
        """Return the handles of all memo entries that the lists make."""
        return np.frombuffer(b"".join(self._made), dtype=np.int32)

    def read(self, data: bytes, regions: Iterable[tuple[int, int, int]]) -> list[int]:
        """Return the stacks of lists, up to the first that is none of frames.

        Args:
            data: The bytes.
            regions: For each list its memo entry, without those that the lists before it make, and
                where its items begin and end.
        """
        known, stacks = self._known, []
        for entry, first, last in regions:
            region = data[first:last]
            found = known.get(region)
            if found is None:
                try:
                    found = known[region] = self._parse(region, entry + 1 + self._count)
                except (_OtherError, IndexError, UnicodeDecodeError):
                    break
            stack, made = found
            if made:
                self._first.append(entry + 1 + self._count)
                self._made.append(made)
                self._count += len(made)
            self.lengths.append(len(made))
            stacks.append(stack)
        return stacks

    def _parse(self, region: bytes, entry: int) -> tuple[int, array[int]]:
        """Stack and memo entries of a list, the first of which has the number ``entry``."""
        made: array[int] = array("i")
        if not region:
            return 0, made
        if region[:1] == b"(" and region[-1:] == b"e":
            items = region[1:-1]
        elif region[-1:] == b"a":
            items = region[:-1]
        else:
            raise _OtherError
        if _REFS.fullmatch(items) is not None:
            frames = [
                self._frame(short[0] if short else int.from_bytes(wide, "little"))
                for short, wide in _REF.findall(items)
            ]
        elif self._has_memo and (known := self._known_frames(items)) is not None:
            made = array("i", known)
            frames = [handle >> 2 for handle in known]
        elif self._has_memo:
            parser = _Frames(self, items, entry)
            frames, made = parser.read(), array("i", parser.made)
        else:
            raise _OtherError
        if not frames or len(frames) > MAX_FRAMES:
            raise _OtherError
        return self._reader.columns.stack(tuple(frames)), made

    def _known_frames(self, items: bytes) -> list[int] | None:
        """Return handles of frames that are written out as some before were; None: other items."""
        parts = _FRAME.findall(items)
        found = list(map(self.known_frames.get, parts))
        if sum(map(len, parts)) != len(items) or None in found:
            return None
        return [number << 2 | FRAME for number in found if number is not None]

    def handle(self, index: int) -> int:
        """Handle of a memo entry."""
        memo = self._reader.memo
        if index < len(memo):
            return memo[index]
        place = bisect_right(self._first, index) - 1
        within = index - self._first[place] if place >= 0 else 0
        if place < 0 or within >= len(self._made[place]):
            raise _OtherError
        return self._made[place][within]

    def _frame(self, index: int) -> int:
        handle = self.handle(index)
        if handle & 3 != FRAME:
            raise _OtherError
        return handle >> 2

    def text(self, index: int) -> str:
        """Return the text of a memo entry."""
        return self.text_of(self.handle(index))

    def text_of(self, handle: int) -> str:
        """Return the text that a handle stands for."""
        value = self._reader.objects[handle >> 2] if handle >= 0 else None
        if handle & 3 != OBJECT or type(value) is not str:
            raise _OtherError
        return value

    def new_text(self, text: str) -> int:
        """Handle of a text that is written out."""
        return self._reader.text_handle(text)

    def new_frame(self, frame: dict[str, Any]) -> int:
        """Return the number of a frame that is written out."""
        if "filename" not in frame or "line" not in frame or "action" in frame:
            raise _OtherError
        return self._reader.columns.frame(frame)


class _Frames:
    """Items of a list of which some frames are written out."""

    def __init__(self, lists: WrittenLists, data: bytes, entry: int) -> None:
        self._lists, self._data, self._entry = lists, data, entry
        self._pos = 0
        self.made: list[int] = []

    def read(self) -> list[int]:
        """Return the frames."""
        frames = []
        known = self._lists.known_frames
        while self._pos < len(self._data):
            code = self._data[self._pos]
            if code == ord("}") and (found := _FRAME.match(self._data, self._pos)):
                number = known.get(found[0])
                if number is not None:
                    frames.append(number)
                    self.made.append(number << 2 | FRAME)
                    self._pos = found.end()
                    continue
            self._pos += 1
            if code == ord("}"):
                frames.append(self._written())
            else:
                handle = self._handle(code)
                if handle & 3 != FRAME:
                    raise _OtherError
                frames.append(handle >> 2)
        return frames

    def _written(self) -> int:
        self._expect(_MEMOIZE)
        place, begin = len(self.made), self._pos - 2
        self.made.append(-1 << 2 | OBJECT)
        self._expect(ord("("))
        frame: dict[str, Any] = {}
        while self._data[self._pos] != ord("u"):
            key = self._value()
            if type(key) is not str:
                raise _OtherError
            frame[key] = self._value()
        self._pos += 1
        number = self._lists.new_frame(frame)
        self.made[place] = number << 2 | FRAME
        if place == len(self.made) - 1:  # It has no text of its own.
            self._lists.known_frames[self._data[begin : self._pos]] = number
        return number

    def _value(self) -> str | int:
        code = self._data[self._pos]
        self._pos += 1
        if code in _NUMBERS:
            return self._number(_NUMBERS[code], signed=code == ord("J"))
        if code in _TEXTS:
            count = self._number(_TEXTS[code])
            if count > _LONGEST:
                raise _OtherError
            text = self._take(count).decode("utf-8", "surrogatepass")
            self._expect(_MEMOIZE)
            self.made.append(self._lists.new_text(text))
            return text
        return self._lists.text_of(self._handle(code))

    def _handle(self, code: int) -> int:
        if code not in _REFERENCES:
            raise _OtherError
        index = self._number(_REFERENCES[code])
        own = index - self._entry
        return self.made[own] if 0 <= own < len(self.made) else self._lists.handle(index)

    def _number(self, width: int, *, signed: bool = False) -> int:
        return int.from_bytes(self._take(width), "little", signed=signed)

    def _take(self, count: int) -> bytes:
        part = self._data[self._pos : self._pos + count]
        if len(part) < count:
            raise _OtherError
        self._pos += count
        return part

    def _expect(self, code: int) -> None:
        if self._data[self._pos] != code:
            raise _OtherError
        self._pos += 1
