"""How the events of a snapshot are laid out in its pickle."""

from __future__ import annotations

from array import array
from typing import Final

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
