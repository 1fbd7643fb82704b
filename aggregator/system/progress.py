"""Interface by which long work reports its progress."""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol


class Level(IntEnum):
    """Importance of a message, in the order of ``--verbosity``."""

    MINIMAL = 1
    NORMAL = 2
    DETAILED = 3
    DIAGNOSTIC = 4


class Progress(Protocol):
    """Listener of one import or aggregation.

    Each method may raise ``AggregationCancelledError``; the work then stops and leaves nothing
    half-written.
    """

    def phase(self, name: str, total_rows: int | None = None) -> None:
        """Begin a phase; ``total_rows`` is what ``advance`` will add up to, if known."""

    def advance(self, rows: int) -> None:
        """Count so many more rows of the phase as done."""

    def message(self, text: str, level: Level = Level.NORMAL) -> None:
        """Show one line to a person."""


class NullProgress:
    """Listens to nothing."""

    def phase(self, name: str, total_rows: int | None = None) -> None:
        """Ignore the call."""

    def advance(self, rows: int) -> None:
        """Ignore the call."""

    def message(self, text: str, level: Level = Level.NORMAL) -> None:
        """Ignore the call."""
