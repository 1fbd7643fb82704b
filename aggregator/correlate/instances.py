"""Op instances: the executions of framework operations, as columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np

from aggregator.columns import ordered
from aggregator.profile import Int32, Int64, Integers


class Origin(IntEnum):
    """What an op instance came from."""

    FORWARD = 0
    BACKWARD = 1
    """The backward of a forward op."""
    BACKWARD_ALONE = 2
    """Work of the autograd engine that has no forward op."""
    GROUP = 3
    """CUDA calls made in a group and in no op."""
    STRAY = 4
    """A CUDA call outside every range."""
    DATALOADER = 5
    COMBINED = 6
    """A backward pass that carries no ranges."""


@dataclass
class Instances:
    """Op instances, in no particular order; one row each.

    Attributes:
        origin: ``Origin`` values.
        label: Code into ``RangeMeaning.labels``; for a stray call into ``Profile.strings``; a
            combined backward pass has none.
        path: Code into ``paths``.
        range_name: Code into ``Profile.range_names`` of the range that names it; -1: none.
        marker: The same of the marker around it (dictionary markers); -1: none.
        forward: Row of the forward instance of a backward one; -1: none.
        start_ns: First start. Unit: ns.
        end_ns: Last end. Unit: ns.
        cpu_time_ns: Sum of the lengths of its ranges; a group's comes from its calls. Unit: ns.
        thread: Row of ``Profile.threads`` of its first range.
        shapes: Code into ``Profile.shape_texts``; -1: none.
        call_instance: Instance of each API call of the profile; -1: none.
        busy_start_ns: Start of each stretch of CPU time of all instances. Unit: ns.
        busy_end_ns: Unit: ns.
        busy_process: Process of each stretch.
        paths: Group paths, ``/iteration #/``.
    """

    origin: Integers
    label: Int32
    path: Int32
    range_name: Int32
    marker: Int32
    forward: Int32
    start_ns: Int64
    end_ns: Int64
    cpu_time_ns: Int64
    thread: Integers
    shapes: Int32
    call_instance: Int32
    busy_start_ns: Int64
    busy_end_ns: Int64
    busy_process: Integers
    paths: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.origin)

    def extended(self, more: dict[str, Integers]) -> Instances:
        """The same instances and some more behind them."""
        joined: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), more[name]]) for name in ROW_COLUMNS
        }
        return replace(self, **joined)

    def sort_by_start(self) -> Int32:
        """Bring them into the order of their start, all references renumbered.

        Column by column: there are millions, and nothing needs them in both orders.

        Returns:
            New row of each old one.
        """
        order = ordered(self.start_ns)
        rank = np.empty(len(order), dtype=np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        for name in ROW_COLUMNS:
            setattr(self, name, getattr(self, name)[order])
        self.forward = np.where(self.forward >= 0, rank[np.maximum(self.forward, 0)], np.int32(-1))
        self.call_instance = rank[self.call_instance]
        return rank


ROW_COLUMNS = (
    "origin",
    "label",
    "path",
    "range_name",
    "marker",
    "forward",
    "start_ns",
    "end_ns",
    "cpu_time_ns",
    "thread",
    "shapes",
)
