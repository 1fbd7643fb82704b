"""Read a run of events with the same keys from a pickle at once, with NumPy.

All events of a snapshot but the first have their keys as references to the memo, so their bytes
have one layout. The layout is checked byte by byte from the end of each event to the beginning of
the next: where it differs, the run ends and the reader of single opcodes continues.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from aggregator.metrics.memory.model import ACTIONS, Action
from aggregator.sources.memory.event_stacks import FIRST_SLICE, EventLayout, WrittenLists
from aggregator.sources.memory.pickle_bytes import (
    OBJECT,
    ROW,
    STACK,
    PickledList,
    Reader,
)

Bytes = npt.NDArray[np.uint8]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

_SLICE: Final = 2 << 20
"""Bytes that are read at once: more after each success, not more than the processor's cache."""
_MOST_SKIPPED: Final = 64
_MARGIN: Final = 4096
_FEWEST: Final = 8
_NUMBERS: Final = {"addr": 0, "size": 0, "time_us": -1}
_LENGTH: Final = np.zeros(256, dtype=np.int64)
"""Length of an opcode with its argument, for those that a value may have."""
_DIGITS: Final = np.zeros(256, dtype=np.int64)
"""Bytes of the number in it."""
for _code, _bytes in ((b"K", 1), (b"M", 2), (b"J", 4), (b"h", 1), (b"j", 4)):
    _LENGTH[_code[0]], _DIGITS[_code[0]] = 1 + _bytes, _bytes
_LENGTH[[ord("N"), 0x88, 0x89]] = 1
_LONG1: Final = 0x8A
_SHORT_TEXT: Final = 0x8C
_LONGEST_TEXT: Final = 2048
_IS_REF: Final = np.zeros(256, dtype=np.bool_)
_IS_REF[[ord("h"), ord("j")]] = True
_IS_NUMBER: Final = np.zeros(256, dtype=np.bool_)
_IS_NUMBER[[ord("K"), ord("M"), ord("J"), _LONG1]] = True
_SHIFT: Final = (64 - 8 * np.clip(np.arange(10), 1, 8)).astype(np.uint64)


class _Slice(NamedTuple):
    codes: Bytes
    words: npt.NDArray[np.uint64]  # The eight bytes from each position on.
    data: bytes


def read_run(reader: Reader, layout: EventLayout) -> tuple[int, int]:
    """Read the events from the reader's position on; returns the first row and their number."""
    first = reader.columns.count
    if layout.skipped:
        layout.skipped -= 1
        return first, 0
    while layout.usable and _starts_event(reader, layout):
        before = reader.pos
        if _read_slice(reader, layout) == 0:
            layout.failures += 1
            layout.slice = FIRST_SLICE
            layout.skipped = min(layout.failures, _MOST_SKIPPED)
            break
        layout.failures = 0
        if reader.pos - before > layout.slice // 2:
            layout.slice = min(2 * layout.slice, _SLICE)
    return first, reader.columns.count - first


def _starts_event(reader: Reader, layout: EventLayout) -> bool:
    if len(reader.data) - reader.pos < _SLICE:
        reader.refill()
    begin = reader.pos + 2 * reader.data.startswith(b"e(}", reader.pos)
    head = reader.data[begin : begin + 12]
    return head[:1] == b"}" and layout.tokens[0] in head


def _read_slice(reader: Reader, layout: EventLayout) -> int:
    """Read the events of the next part of the buffer."""
    size = min(len(reader.data) - reader.pos, layout.slice + _MARGIN)
    data = reader.data[reader.pos : reader.pos + size] + bytes(256)
    codes = np.frombuffer(data, dtype=np.uint8)
    words = np.ndarray((len(data) - 8,), dtype="<u8", buffer=data, strides=(1,))
    part = _Slice(codes, words, data)
    memo_op = _memo_op(data, layout)
    starts = _candidates(part, size, memo_op + b"(" + layout.tokens[0])
    if len(starts) < 2:
        return 0
    found = _Fields(reader, layout, part, starts, memo_op)
    return found.accept()


def _memo_op(data: bytes, layout: EventLayout) -> bytes:
    """The opcode that numbers a dictionary: one of protocol 4, or of 2 and 3 with its number."""
    begin = 2 * data.startswith(b"e(")
    return data[begin + 1 : begin + 2] if data[begin + 1 : begin + 2] in b"\x94qr" else b""


def _candidates(part: _Slice, size: int, head: bytes) -> Int64:
    """Return the positions where an event may start, the first one surely."""
    starts = np.flatnonzero(part.codes[: size - 16] == ord("}"))
    skip = {b"q": 1, b"r": 4}.get(head[:1], 0)
    good = np.ones(len(starts), dtype=np.bool_)
    for offset, code in enumerate(head):
        place = starts + 1 + offset + (skip if offset else 0)
        good &= part.codes[place] == code
    return starts[good]


class _Fields:
    """The values of the events that may start at the candidates."""

    def __init__(
        self,
        reader: Reader,
        layout: EventLayout,
        part: _Slice,
        starts: Int64,
        memo_op: bytes,
    ) -> None:
        self._reader, self._layout, self._part = reader, layout, part
        self._starts, self._next = starts[:-1], starts[1:]
        self._memo_op = memo_op
        self._good = np.ones(len(self._starts), dtype=np.bool_)
        self._values: dict[str, Int64] = {}
        self._texts: dict[str, tuple[Bool, Int64, Int64]] = {}  # Where a text is written out.
        self._written: tuple[Bool, list[int]] | None = None  # Memo handles of written notes.
        self._before_note: list[Bool] = []  # Where texts are written out before the note.
        self._entries = np.ones(len(self._starts), dtype=np.int64)  # Memo entries but the list's.
        self._extra = np.zeros(len(self._starts), dtype=np.int64)  # Memo entries in the list.
        self._handles = np.zeros(0, dtype=np.int32)  # Handles of all of those.

    def accept(self) -> int:
        """Add the events up to the first that has another layout; returns how many."""
        end = self._ends()
        pos = self._keys(self._starts + 1 + self._memo_length())
        is_inline, region_start = self._frames(pos, end)
        self._good[:1] &= self._starts[:1] == 2 * self._part.data.startswith(b"e(}")
        bad = np.flatnonzero(~self._good)
        count = int(bad[0]) if len(bad) else len(self._good)
        if count < _FEWEST:
            return 0
        stacks = self._stacks(count, is_inline, region_start, end)
        count = len(stacks)
        if count:
            self._add(count, is_inline[:count], stacks)
            self._reader.pos += int(end[count - 1])
        return count

    def _memo_length(self) -> int:
        return {b"q": 2, b"r": 5, b"\x94": 1}.get(self._memo_op, 0)

    def _ends(self) -> Int64:
        """Return where each event ends: at the next, which may begin another batch of the list."""
        codes, after = self._part.codes, self._next
        plain = codes[after - 1] == ord("u")
        batch = (
            (codes[after - 1] == ord("("))
            & (codes[after - 2] == ord("e"))
            & (codes[after - 3] == ord("u"))
        )
        self._good &= plain | batch
        return np.where(plain, after, after - 2)

    def _keys(self, pos: Int64) -> Int64:
        """Check the keys and read all values but the last; returns the place of the last."""
        codes, limit = self._part.codes, len(self._part.codes) - 16
        self._good &= codes[pos] == ord("(")
        pos = pos + 1
        for key, token in zip(self._layout.keys, self._layout.tokens, strict=True):
            for offset, code in enumerate(token):
                self._good &= codes[pos + offset] == code
            pos = pos + len(token)
            if key == "frames":
                break
            pos = np.minimum(self._value(key, pos), limit)
        return pos

    def _value(self, key: str, pos: Int64) -> Int64:
        code = self._part.codes[pos]
        length, digits = _LENGTH[code], _DIGITS[code]
        is_long = code == _LONG1
        if is_long.any():
            count = self._part.codes[pos + 1].astype(np.int64)
            self._good &= ~is_long | ((count > 0) & (count <= 8))
            length = np.where(is_long, 2 + count, length)
            digits = np.where(is_long, count, digits)
        if key not in _NUMBERS and key != "action":
            length = self._text(key, pos, length)
        self._good &= length > 0
        if key in _NUMBERS:
            self._good &= _IS_NUMBER[code]
            self._values[key] = self._number(pos, length, digits, (code == ord("J")) | is_long)
        elif key in ("action", "user_metadata"):
            self._good &= _IS_REF[code] | (key != "action")
            numbers = self._number(pos, length, digits, None)
            # A text that an earlier event of this part writes out is not in the memo yet.
            self._good &= ~_IS_REF[code] | (numbers < len(self._reader.memo))
            self._values[key] = numbers
        return pos + length

    def _text(self, key: str, pos: Int64, length: Int64) -> Int64:
        """Note where a text is written out; returns the lengths of all values."""
        codes = self._part.codes
        is_short, is_wide = codes[pos] == _SHORT_TEXT, codes[pos] == ord("X")
        is_text = is_short | is_wide
        if not is_text.any():
            return length
        head = np.where(is_short, 2, 5)
        count = np.where(
            is_short, codes[pos + 1], (self._part.words[pos + 1] & np.uint64(0xFFFFFFFF))
        ).astype(np.int64)
        self._good &= ~is_text | (count < _LONGEST_TEXT)
        count = np.minimum(count, _LONGEST_TEXT)
        first = pos + head
        if "user_metadata" not in self._texts and key != "user_metadata":
            self._before_note.append(is_text)
        self._texts[key] = (is_text, first, first + count)
        if self._memo_op:
            after = np.minimum(first + count, len(codes) - 1)
            self._good &= ~is_text | (codes[after] == self._memo_op[0])
            self._entries += is_text
        return np.where(is_text, head + count + self._memo_length(), length)

    def _number(self, pos: Int64, length: Int64, digits: Int64, signed: Bool | None) -> Int64:
        """Return the numbers of opcodes: ``digits`` bytes at the end of each."""
        shift = _SHIFT[np.minimum(digits, 9)]
        raised = self._part.words[pos + length - digits] << shift
        plain = (raised >> shift).view(np.int64)
        if signed is None:
            return np.asarray(plain)
        both = np.where(signed, raised.view(np.int64) >> shift.view(np.int64), plain)
        return np.asarray(both)

    def _frames(self, pos: Int64, end: Int64) -> tuple[Bool, Int64]:
        """Check the last value; returns where it is written out, and where its items start."""
        codes = self._part.codes
        code = codes[pos]
        is_inline = code == ord("]")
        is_ref = _IS_REF[code]
        self._good &= is_inline | is_ref
        length = _LENGTH[code]
        self._values["frames"] = self._number(pos, length, _DIGITS[code], None)
        self._good &= ~is_ref | (pos + length + 1 == end)
        start = pos + 1 + self._memo_length()
        if self._memo_op:
            self._good &= ~is_inline | (codes[pos + 1] == self._memo_op[0])
        # An empty list ends here; another has a mark, references and APPENDS; one item has APPEND.
        return is_inline, start

    def _stacks(self, count: int, is_inline: Bool, start: Int64, end: Int64) -> Int64:
        """Return the stack of each event, up to the first with an unknown one."""
        stacks = np.full(count, -1, dtype=np.int64)
        own = np.flatnonzero(is_inline[:count])
        each = self._entries[:count] + is_inline[:count]
        place = np.cumsum(each) - 1
        base = len(self._reader.memo)
        lists = WrittenLists(self._reader, self._layout, has_memo=self._memo_op == b"\x94")
        regions = zip(
            (base + place[own]).tolist(), start[own].tolist(), (end[own] - 1).tolist(), strict=True
        )
        found = lists.read(self._part.data, regions)
        stacks[own[: len(found)]] = found
        refs = self._values["frames"][:count]
        other = np.flatnonzero(~is_inline[:count])
        stacks[other] = self._referenced_stacks(refs[other])
        self._extra[own[: len(found)]] = lists.lengths
        self._handles = lists.handles()
        if self._memo_op:
            # Lists of this run, which later events of it refer to.
            extra = self._extra[:count]
            place += np.cumsum(extra) - extra
            numbered = np.full(int((each + extra).sum()), -1, dtype=np.int64)
            numbered[place[own]] = stacks[own]
            new = other[(refs[other] >= base) & (refs[other] < base + len(numbered))]
            target = refs[new] - base
            stacks[new] = np.where(target < place[new], numbered[target], -1)
        unknown = np.flatnonzero(stacks < 0)
        return stacks[: int(unknown[0])] if len(unknown) else stacks

    def _referenced_stacks(self, refs: Int64) -> Int64:
        """Return the stacks of memo entries from before this run, or -1 if it is unknown."""
        memo = np.frombuffer(self._reader.memo, dtype=np.int32)
        is_old = refs < len(memo)
        handles = memo[np.where(is_old, refs, 0)] if len(memo) else np.zeros_like(refs)
        del memo  # A view, which would keep the memo from growing.
        stacks = np.where(is_old & (handles & 3 == STACK), handles >> 2, -1).astype(np.int64)
        for place in np.flatnonzero(is_old & (handles & 3 == OBJECT)).tolist():
            stack = self._referenced(int(refs[place]))
            stacks[place] = -1 if stack is None else stack
        return stacks

    def _referenced(self, index: int) -> int | None:
        """Return the stack of a memo entry; None if it holds no stack."""
        value = self._reader.objects[self._reader.memo[index] >> 2]
        if type(value) is not PickledList or value or value.runs:
            return None
        return value.stack

    def _add(self, count: int, is_inline: Bool, stack: Int64) -> None:
        reader, values = self._reader, self._values
        actions = self._referenced_texts(values["action"][:count], _action_code)
        notes: Any = np.zeros(count, dtype=np.int32)
        if "user_metadata" in values:
            notes = self._notes(count)
        row = reader.columns.count
        numbers = [
            values[key][:count] if key in values else np.full(count, default)
            for key, default in _NUMBERS.items()
        ]
        reader.columns.extend((actions, *numbers, stack, notes))
        if self._memo_op:
            self._memoize(row, is_inline, stack)

    def _memoize(self, row: int, is_inline: Bool, stack: Int64) -> None:
        """Number what the events hold as the pickler did."""
        count = len(stack)
        extra = self._extra[:count]
        own = self._entries[:count] + is_inline
        each = own + extra
        place = np.cumsum(each) - each
        # Of the texts that are written out, those that are not stored have no value.
        handles = np.full(int(each.sum()), -1 << 2 | OBJECT, dtype=np.int32)
        handles[place] = (np.arange(row, row + count) << 2) | ROW
        handles[(place + own - 1)[is_inline]] = (stack[is_inline] << 2) | STACK
        if extra.any():
            total = int(extra.sum())
            within = np.arange(total) - np.repeat(np.cumsum(extra) - extra, extra)
            handles[np.repeat(place + own, extra) + within] = self._handles[:total]
        if self._written is not None:
            is_text, texts = self._written
            before = sum(
                (there[:count].astype(np.int64) for there in self._before_note),
                np.zeros(count, dtype=np.int64),
            )
            handles[(place + 1 + before)[is_text]] = texts
        self._reader.memo.frombytes(handles.tobytes())

    def _notes(self, count: int) -> Int64:
        """Return the texts that the program attached to events."""
        note = self._reader.columns.note
        written = self._texts.get("user_metadata")
        indexes = self._values["user_metadata"][:count]
        if written is None:
            return self._referenced_texts(indexes, note)
        is_text = written[0][:count]
        first, last = (values[:count] for values in written[1:])
        notes = np.zeros(count, dtype=np.int64)
        notes[~is_text] = self._referenced_texts(indexes[~is_text], note)
        data = self._part.data
        texts = [
            data[begin:end].decode("utf-8", "surrogatepass")
            for begin, end in zip(first[is_text].tolist(), last[is_text].tolist(), strict=True)
        ]
        notes[is_text] = [note(text) for text in texts]
        self._written = (is_text, [self._reader.text_handle(text) for text in texts])
        return notes

    def _referenced_texts(self, indexes: Int64, code: Any) -> Int64:
        """Return the numbers of the texts that memo entries hold."""
        distinct, inverse = np.unique(indexes, return_inverse=True)
        memo, objects = self._reader.memo, self._reader.objects
        codes = [
            code(objects[memo[index] >> 2] if index < len(memo) else None)
            for index in distinct.tolist()
        ]
        return np.array(codes, dtype=np.int64)[inverse] if codes else indexes


def _action_code(text: object) -> int:
    return int(ACTIONS.get(str(text), Action.OTHER))
