"""Read the pickle of a memory snapshot without unpickling it.

Python's own unpickler runs code that a file names. This reader knows only the opcodes of plain data
(dict, list, tuple, str, int, float, bool, None) and refuses any other by name, so a file cannot run
anything. It keeps no object per event: a snapshot of a gigabyte holds six million. Events, frames
and stacks become columns as soon as they are complete, and runs of events of the same layout are
read at once (``event_runs``).
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final

from aggregator.sources.memory.columns import MAX_FRAMES, SnapshotColumns
from aggregator.sources.memory.event_runs import read_run
from aggregator.sources.memory.event_stacks import EventLayout
from aggregator.sources.memory.pickle_bytes import (
    OBJECT,
    ROW,
    STACK,
    Cut,
    EventRun,
    FrameRef,
    PickleBytes,
    PickledDict,
    PickledList,
    StackRef,
)
from aggregator.sources.memory.refusals import MAX_DEPTH, Refusals

_MAX_ENTRIES: Final = 16_000_000
"""Most entries of containers that are kept: blocks and segments, not events."""
_MAX_INT_BYTES: Final = 16
_MAX_WAITING: Final = 4_000_000
"""Most values that wait for their container."""
_OLDEST, _NEWEST = 2, 5


class PickleReader(PickleBytes, Refusals):
    """Reads one pickle.

    Attributes:
        columns: The events, frames and stacks.
        memo: Handle of each memo entry: its kind in two bits, above it a number. See ``ROW``.
        objects: Values of memo entries that are no rows and no stacks.
    """

    def __init__(self, path: Path, file: BinaryIO) -> None:
        PickleBytes.__init__(self, file, path.stat().st_size)
        Refusals.__init__(self, path)
        self.columns = SnapshotColumns()
        self.memo = array("i")
        self.objects: list[Any] = []
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._entries = 0
        self._texts: dict[str, int] = {}
        self._index: dict[int, int] = {}  # Memo entry of each text, by its identity.
        self._layouts: dict[tuple[str, ...], EventLayout] = {}

    # --- the loop ------------------------------------------------------------------------------

    def read(self) -> Any:
        """Read the pickle and return its value.

        Raises:
            ProfileError: It is no pickle of plain data, damaged or cut off.
        """
        try:
            self._read_head()
            if self.is_cut():
                raise Cut
            return self._run()
        except Cut:
            raise self.cut() from None
        except (IndexError, struct.error, UnicodeDecodeError, OverflowError) as error:
            raise self.damaged() from error

    def _read_head(self) -> None:
        head = self.read_head(2)
        if len(head) < 2 or head[0] != 0x80 or not _OLDEST <= head[1] <= _NEWEST:
            raise self.no_pickle()

    def _run(self) -> Any:
        opcodes = _OPCODES
        while True:
            if self.pos >= len(self.data) and not self.refill():
                raise Cut
            if len(self._stack) > _MAX_WAITING:
                raise self.too_large()
            data, pos = self.data, self.pos
            code = data[pos]
            if code == 0x6A and pos + 5 <= len(data):  # LONG_BINGET, by far the commonest
                self.pos = pos + 5
                self._stack.append(self._value(int.from_bytes(data[pos + 1 : pos + 5], "little")))
                continue
            self.pos = pos + 1
            if code == 0x2E:
                return self._stack[-1] if len(self._stack) == 1 else self.bad()
            handler = opcodes.get(code)
            if handler is None:
                raise self.refused(code)
            handler(self)

    # --- values --------------------------------------------------------------------------------

    def _push(self, value: Any) -> None:
        self._stack.append(value)
        if len(self._stack) > _MAX_WAITING:
            raise self.too_large()

    def _value(self, index: int) -> Any:
        handle = self.memo[index]
        kind = handle & 3
        if kind == OBJECT:
            return self.objects[handle >> 2] if handle >= 0 else ""
        if kind == ROW:
            return EventRun(handle >> 2, 1)
        if kind == STACK:
            return StackRef(handle >> 2)
        return FrameRef(handle >> 2)

    def _memoize(self, index: int | None = None) -> None:
        if index is not None and index != len(self.memo):
            # Picklers number their entries in order; a later entry never replaces an earlier one.
            self.bad()
        value = self._stack[-1]
        kind = type(value)
        if kind is PickledDict or kind is PickledList:
            value.memo = len(self.memo)
        elif kind is str:
            self._index[id(value)] = len(self.memo)
        if kind is FrameRef:
            self.memo.append(value << 2 | 3)
            return
        self.memo.append(len(self.objects) << 2 | OBJECT)
        self.objects.append(value)

    def text_handle(self, text: str) -> int:
        """Handle for the memo entry of a text, which is kept once."""
        index = self._texts.setdefault(text, len(self.objects))
        if index == len(self.objects):
            self.objects.append(text)
        return index << 2 | OBJECT

    def _mark(self) -> None:
        self._marks.append(len(self._stack))
        if len(self._marks) > MAX_DEPTH:
            raise self.too_deep()

    def _pop_mark(self) -> list[Any]:
        mark = self._marks.pop()
        items = self._stack[mark:]
        del self._stack[mark:]
        return items

    def _append(self) -> None:
        item = self._stack.pop()
        self._extend([item])

    def _appends(self) -> None:
        self._extend(self._pop_mark())

    def _extend(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is not PickledList:
            self.bad()
        if not items:
            return
        first = type(items[0])
        if first is EventRun:
            self._extend_runs(target, items)
        elif first is FrameRef:
            self._extend_frames(target, items)
        else:
            self._extend_plain(target, items)

    def _extend_runs(self, target: PickledList, items: list[Any]) -> None:
        for item in items:
            if type(item) is not EventRun:
                self.bad()
            last = target.runs[-1] if target.runs else None
            if last is not None and last.first + last.length == item.first:
                target.runs[-1] = EventRun(last.first, last.length + item.length)
            else:
                target.runs.append(item)
                self._count(1)

    def _extend_frames(self, target: PickledList, items: list[Any]) -> None:
        if any(type(item) is not FrameRef for item in items):
            self.bad()
        frames = (*target.frames, *map(int, items))
        if len(frames) > MAX_FRAMES:
            raise self.too_large()
        target.frames = frames
        target.stack = self.columns.stack(frames)

    def _extend_plain(self, target: PickledList, items: list[Any]) -> None:
        self._count(len(items))
        for item in items:
            self._nest(target, item)
        target.extend(items)

    def _nest(self, outer: PickledList | PickledDict, inner: Any) -> None:
        if type(inner) is PickledList or type(inner) is PickledDict:
            outer.depth = max(outer.depth, inner.depth + 1)
            if outer.depth > MAX_DEPTH:
                raise self.too_deep()

    def _set_item(self) -> None:
        value = self._stack.pop()
        key = self._stack.pop()
        self._set([key, value])

    def _set_items(self) -> None:
        self._set(self._pop_mark())

    def _set(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is not PickledDict or len(items) % 2:
            self.bad()
        for key, value in zip(items[::2], items[1::2], strict=True):
            if type(key) not in (str, int):
                self.bad()
            self._nest(target, value)
            target[key] = value
        if "action" in target:
            self._finish_event(target)
        elif "filename" in target and "line" in target:
            self._finish_frame(target)
        else:
            self._count(len(items) // 2)

    def _finish_frame(self, frame: PickledDict) -> None:
        number = self.columns.frame(frame)
        self._stack[-1] = FrameRef(number)
        if frame.memo >= 0:
            self._forget(frame.memo, number << 2 | 3)

    def _finish_event(self, event: PickledDict) -> None:
        frames = event.get("frames")
        stack = 0
        if type(frames) is StackRef:
            stack = int(frames)
        elif type(frames) is PickledList:
            stack = frames.stack
            if frames.memo >= 0 and frames.frames:
                # Later events refer to this stack; its list is complete.
                self._forget(frames.memo, stack << 2 | STACK)
        row = self.columns.add(event, stack)
        self._stack[-1] = EventRun(row, 1)
        if event.memo >= 0:
            self._forget(event.memo, row << 2 | ROW)
            self._read_run(tuple(event))

    def _forget(self, index: int, handle: int) -> None:
        before = self.memo[index]
        if before & 3 == OBJECT:
            self.objects[before >> 2] = None
        self.memo[index] = handle

    def _read_run(self, keys: tuple[str, ...]) -> None:
        """Read the events that follow and have the same keys."""
        if not self._marks or self._marks[-1] < 1:
            return
        if type(self._stack[self._marks[-1] - 1]) is not PickledList:
            return
        if any(type(key) is not str or id(key) not in self._index for key in keys):
            return
        indexes = tuple(self._index[id(key)] for key in keys)
        layout = self._layouts.get(keys)
        if layout is None or layout.indexes != indexes:
            layout = self._layouts[keys] = EventLayout(keys, indexes)
        first, count = read_run(self, layout)
        if count:
            self._stack.append(EventRun(first, count))

    def _count(self, entries: int) -> None:
        self._entries += entries
        if self._entries > _MAX_ENTRIES:
            raise self.too_large()

    def _tuple(self, count: int | None) -> None:
        if count is None:
            items = self._pop_mark()
        else:
            items = self._stack[len(self._stack) - count :] if count else []
            del self._stack[len(self._stack) - count :]
        if any(type(item) not in _SCALARS for item in items):
            self.bad()
        self._push(tuple(items))

    def _new_dict(self) -> None:
        items = self._pop_mark()
        self._push(PickledDict())
        self._set(items)

    def _new_list(self) -> None:
        items = self._pop_mark()
        self._push(PickledList())
        self._extend(items)

    def _text(self, width: int) -> None:
        self._push(self.take(self.number(width)).decode("utf-8", "surrogatepass"))

    def _frame(self) -> None:
        self.take(8)

    def _long(self, width: int) -> None:
        count = self.number(width)
        if count > _MAX_INT_BYTES:
            raise self.too_large()
        self._push(int.from_bytes(self.take(count), "little", signed=True))


_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


def _pushes(value: Any) -> Callable[[PickleReader], None]:
    return lambda reader: reader._push(value)


_OPCODES: Final[dict[int, Callable[[PickleReader], None]]] = {
    ord("("): PickleReader._mark,
    ord("}"): lambda reader: reader._push(PickledDict()),
    ord("]"): lambda reader: reader._push(PickledList()),
    ord(")"): lambda reader: reader._tuple(0),
    0x85: lambda reader: reader._tuple(1),
    0x86: lambda reader: reader._tuple(2),
    0x87: lambda reader: reader._tuple(3),
    ord("t"): lambda reader: reader._tuple(None),
    ord("d"): PickleReader._new_dict,
    ord("l"): PickleReader._new_list,
    ord("a"): PickleReader._append,
    ord("e"): PickleReader._appends,
    ord("s"): PickleReader._set_item,
    ord("u"): PickleReader._set_items,
    ord("N"): _pushes(None),
    0x88: _pushes(True),  # noqa: FBT003
    0x89: _pushes(False),  # noqa: FBT003
    ord("K"): lambda reader: reader._push(reader.number(1)),
    ord("M"): lambda reader: reader._push(reader.number(2)),
    ord("J"): lambda reader: reader._push(int.from_bytes(reader.take(4), "little", signed=True)),
    0x8A: lambda reader: reader._long(1),
    0x8B: lambda reader: reader._long(4),
    ord("G"): lambda reader: reader._push(struct.unpack(">d", reader.take(8))[0]),
    ord("X"): lambda reader: reader._text(4),
    0x8C: lambda reader: reader._text(1),
    0x8D: lambda reader: reader._text(8),
    0x94: lambda reader: reader._memoize(),
    ord("q"): lambda reader: reader._memoize(reader.number(1)),
    ord("r"): lambda reader: reader._memoize(reader.number(4)),
    ord("h"): lambda reader: reader._push(reader._value(reader.number(1))),
    ord("j"): lambda reader: reader._push(reader._value(reader.number(4))),
    0x95: PickleReader._frame,
}


def read_pickle(path: Path) -> tuple[Any, SnapshotColumns]:
    """Read the value of a pickle of plain data, and its events as columns.

    Raises:
        ProfileError: It is no pickle of plain data, damaged or cut off.
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        reader = PickleReader(path, file)
        return reader.read(), reader.columns
