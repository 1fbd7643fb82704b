"""Columns of the events of a snapshot, filled while its pickle is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aggregator.metrics.memory.model import ACTIONS, Action, Events, Stacks

_TYPES: Final = (np.int8, np.int64, np.int64, np.int64, np.int64, np.int32, np.int32)
_BATCH: Final = 50_000
MAX_FRAMES: Final = 10_000
"""Most frames of a stack: Python itself stops at 1,000 calls."""
_MAX_INT: Final = 1 << 63


class SnapshotColumns:
    """Distinct frames, stacks and texts, and a row per event."""

    def __init__(self) -> None:
        self.count = 0
        self._chunks: list[list[npt.NDArray[Any]]] = [[] for _ in _TYPES]
        self._rows: list[tuple[int, ...]] = []
        self._frames: dict[tuple[str, str, int], int] = {}
        self._stacks: dict[tuple[int, ...], int] = {(): 0}
        self._notes: dict[str, int] = {"": 0}

    def frame(self, frame: dict[str, Any]) -> int:
        """Number of a frame."""
        line = _integer(frame.get("line"), 0)
        key = (str(frame.get("name", "")), str(frame["filename"]), line)
        return self._frames.setdefault(key, len(self._frames))

    def stack(self, frames: tuple[int, ...]) -> int:
        """Number of a stack."""
        return self._stacks.setdefault(frames, len(self._stacks))

    def note(self, text: object) -> int:
        """Number of a text of an event."""
        return self._notes.setdefault(text, len(self._notes)) if isinstance(text, str) else 0

    def add(self, event: dict[str, Any], stack: int) -> int:
        """Add an event and return its row."""
        numbers = [event.get(name) for name in ("addr", "size", "stream", "time_us")]
        values = [
            _integer(value, default) for value, default in zip(numbers, (0, 0, 0, -1), strict=True)
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
        for chunks, column, kind in zip(self._chunks, columns, _TYPES, strict=True):
            chunks.append(np.array(column, dtype=kind))
        self.count += len(columns[0])

    def _flush(self) -> None:
        if self._rows:
            columns = zip(*self._rows, strict=True)
            for chunks, column, kind in zip(self._chunks, columns, _TYPES, strict=True):
                chunks.append(np.array(column, dtype=kind))
            self._rows = []

    def events(self) -> Events:
        """All rows; the columns are given away."""
        self._flush()
        joined = []
        for chunks, kind in zip(self._chunks, _TYPES, strict=True):
            joined.append(np.concatenate(chunks) if chunks else np.zeros(0, dtype=kind))
            chunks.clear()  # Each column is twice in memory while it is joined, not all of them.
        action, address, size, stream, time_ns, stack, note = joined
        np.multiply(time_ns, 1000, out=time_ns, where=time_ns >= 0)
        return Events(action, address, size, stream, time_ns, stack, note)

    def stacks(self) -> Stacks:
        """Distinct frames and stacks."""
        names, files, lines = zip(*self._frames, strict=True) if self._frames else ((), (), ())
        return Stacks(names, files, lines, tuple(self._stacks))

    def notes(self) -> tuple[str, ...]:
        """Distinct texts of events."""
        return tuple(self._notes)


def _integer(value: object, default: int) -> int:
    is_valid = isinstance(value, int) and -_MAX_INT <= value < _MAX_INT
    return int(value) if is_valid and isinstance(value, int) else default
