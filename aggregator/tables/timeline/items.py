"""What lanes of a timeline hold: events, or runs of short events next to each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from aggregator.events.model import Columns
from aggregator.profile.arrays import Int64
from aggregator.tables.timeline.events import Op


@dataclass(frozen=True)
class Items(Columns):
    """Events and runs of a lane in order of start. Times are counted from the timeline's origin."""

    start_ns: Int64
    end_ns: Int64
    count: Int64  # Events; 1: the item is an event.
    busy_ns: Int64  # Sum of their durations.
    label: Int64  # Index into the labels: of the event, or of one with the name with most time.
    row: Int64  # Row id of that event in its table.


NOTHING: Final = Items(*(np.empty(0, dtype=np.int64) for _ in fields(Items)))


def joined(parts: Sequence[Items]) -> Items:
    """The items of several parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    columns = [[getattr(part, column.name) for part in parts] for column in fields(Items)]
    return Items(*(np.concatenate(column) for column in columns)) if parts else NOTHING


@dataclass(frozen=True)
class Label:
    """What an event is."""

    name: str
    category: int  # ``Category``, or ``NO_ROW``.
    op_id: str | None
    op_type: str = ""  # Of that op.
    op_name: str = ""  # Path of that op.
    full_name: str = ""  # Of a kernel.


class Labels:
    """Numbers of labels in order of their first use."""

    def __init__(self) -> None:
        self._known: dict[Label, int] = {}

    def number(
        self, name: str, category: int = -1, op: Op | None = None, full_name: str = ""
    ) -> int:
        """The number of a label."""
        label = Label(name, category, None, full_name=full_name)
        if op is not None:
            label = Label(name, category, op.op_id or op.name, op.type, op.name, full_name)
        return self._known.setdefault(label, len(self._known))

    def all(self) -> tuple[Label, ...]:
        """Labels by number."""
        return tuple(self._known)


COUNTER: Final = "counter"
"""Kind of lanes whose items are samples: their rows are values."""
DERIVED: Final = frozenset({"key", "advice", "path", "idle", "modules", "loader", COUNTER})
"""Kinds whose items are no events: they show others again, the time between them, or samples."""


@dataclass(frozen=True)
class Scale:
    """What the rows of a counter's items mean."""

    unit: str  # bytes or percent.
    step: int  # A row is so many units, rounded up to whole steps.
    most: int  # Largest row.


@dataclass(frozen=True)
class EventLane:
    """A row of a timeline with its events, which do not overlap where that can be had."""

    key: str  # Stable name of the lane in its aggregation.
    # iterations, key (node), advice, path (the critical one), idle, work, modules, ops, calls,
    # waits (calls that block), loader or counter.
    kind: str
    group: str  # What it belongs to: a GPU, or a thread of a process.
    title: str
    events: Items
    scale: Scale | None = None  # Of a counter.
