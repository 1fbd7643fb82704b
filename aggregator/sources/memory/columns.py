"""Columns of the events of a snapshot, filled while its pickle is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aggregator.metrics.memory.model import ACTIONS, Action, Events, Stacks

_TYPES: Final = (np.int8, np.int64, np.int64, np.int64, np.int32, np.int32)
_BATCH: Final = 50_000
MAX_FRAMES: Final = 10_000
"""Most frames of a stack: Python itself stops at 1,000 calls."""
_MAX_INT: Final = 1 << 63
_MAX_SHORT: Final = 1 << 15


class GrowingColumn:
    """An array that grows in place: its memory is moved by the kernel, not copied."""

    def __init__(self, kind: type[np.signedinteger[Any]]) -> None:
        self._array: npt.NDArray[Any] = np.empty(0, dtype=kind)
        self._count = 0

    def extend(self, items: npt.NDArray[Any]) -> None:
        """Add some items."""
        count = self._count + len(items)
        if count > len(self._array):
            self._array.resize(count + count // 8 + _BATCH, refcheck=False)
        self._array[self._count : count] = items
        self._count = count

    def take(self) -> npt.NDArray[Any]:
        """Return the array, which is given away."""
        found, self._array = self._array, np.empty(0, dtype=self._array.dtype)
        found.resize(self._count, refcheck=False)
        self._count = 0
        return found


class SnapshotColumns:
    """Distinct frames, stacks and texts, and a row per event."""

    def __init__(self) -> None:
        self.count = 0
        self._columns = [GrowingColumn(kind) for kind in _TYPES]
        self._rows: list[tuple[int, ...]] = []
        self._frames: dict[tuple[str, str, int], int] = {}
        self._stacks: dict[tuple[int, ...], int] = {(): 0}
        self._notes: dict[str, int] = {"": 0}

    def frame(self, frame: dict[str, Any]) -> int:
        """Return the number of a frame."""
        line = _integer(frame.get("line"), 0)
        key = (str(frame.get("name", "")), str(frame["filename"]), line)
        return self._frames.setdefault(key, len(self._frames))

    def stack(self, frames: tuple[int, ...]) -> int:
        """Return the number of a stack."""
        return self._stacks.setdefault(frames, len(self._stacks))

    def note(self, text: object) -> int:
        """Return the number of a text of an event."""
        return self._notes.setdefault(text, len(self._notes)) if isinstance(text, str) else 0

    def add(self, event: dict[str, Any], stack: int) -> int:
        """Add an event and return its row."""
        numbers = [event.get(name) for name in ("addr", "size", "time_us")]
        values = [
            _integer(value, default) for value, default in zip(numbers, (0, 0, -1), strict=True)
        ]
        action = ACTIONS.get(str(event["action"]), Action.OTHER)
        self._rows.append((int(action), *values, stack, self.note(event.get("user_metadata"))))
        self.count += 1
        if len(self._rows) >= _BATCH:
            self._flush()
        return self.count - 1

    def extend(self, columns: Sequence[npt.NDArray[Any]]) -> None:
        """Add events as columns, in the order of ``Events``, times in microseconds."""
        self._flush()
        for own, column in zip(self._columns, columns, strict=True):
            own.extend(column)
        self.count += len(columns[0])

    def _flush(self) -> None:
        if self._rows:
            columns = zip(*self._rows, strict=True)
            for own, column, kind in zip(self._columns, columns, _TYPES, strict=True):
                own.extend(np.array(column, dtype=kind))
            self._rows = []

    def events(self) -> Events:
        """Return all rows; the columns are given away."""
        self._flush()
        action, address, size, time_ns, stack, note = (column.take() for column in self._columns)
        np.multiply(time_ns, 1000, out=time_ns, where=time_ns >= 0)
        if len(self._stacks) < _MAX_SHORT:
            stack = stack.astype(np.int16)
        if len(self._notes) < _MAX_SHORT:
            note = note.astype(np.int16)
        return Events(action, address, size, time_ns, stack, note)

    def stacks(self) -> Stacks:
        """Return the distinct frames and stacks."""
        names, files, lines = zip(*self._frames, strict=True) if self._frames else ((), (), ())
        return Stacks(names, files, lines, tuple(self._stacks))

    def notes(self) -> tuple[str, ...]:
        """Return the distinct texts of events."""
        return tuple(self._notes)


def _integer(value: object, default: int) -> int:
    is_valid = isinstance(value, int) and -_MAX_INT <= value < _MAX_INT
    return int(value) if is_valid and isinstance(value, int) else default
