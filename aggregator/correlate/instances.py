"""Op instances: the executions of framework operations, as columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np

from aggregator.profile.arrays import NO_ROW, Int32, Int64, Integers, ordered


class Origin(IntEnum):
    """Kind of an op instance."""

    FORWARD = 0
    BACKWARD = 1
    """The backward of a forward op."""
    BACKWARD_ALONE = 2
    """Work of the autograd engine without a forward op."""
    GROUP = 3
    """CUDA calls made in a group, outside all ops."""
    STRAY = 4
    """A CUDA call outside every range."""
    DATALOADER = 5
    COMBINED = 6
    """A backward pass without ranges."""
    RECOMPUTED = 7
    """A forward op that a checkpoint runs again inside a backward node."""
    COMPILED_BACKWARD = 8
    """A kernel of a compiled backward pass."""


class Evidence(IntEnum):
    """How the op that work belongs to is known."""

    RECORDED = 0
    """The work was launched inside the op's range."""
    PROVENANCE = 1
    """The compiler recorded the modules and ops of the kernel that was launched here."""
    ALIGNED = 2
    """Its step ran without markers; a step that makes the same calls has the op there."""
    NODE = 3
    """A CUDA graph replayed it; the op was running when its node was captured."""
    ORDER = 4
    """As ``NODE``, but known from the order of the kernels in a recorded capture."""
    ANNOTATED = 5
    """A CUDA graph replayed it; the program wrote the module to its node."""
    NO_CAPTURE = 6
    """A CUDA graph replayed it, and the capture of the graph is not recorded."""
    AMBIGUOUS = 7
    """A CUDA graph replayed it; several captures of the same kernels belong to different ops."""
    UPDATED = 8
    """A CUDA graph replayed it after a graph was changed in place."""
    OUTSIDE = 9
    """A CUDA graph replayed it; its node was captured outside every op."""
    OTHER_CAPTURE = 10
    """A CUDA graph replayed it; the captures that were read do not name the same kernels."""


NAMED_BY_CAPTURE = (Evidence.NODE, Evidence.ORDER, Evidence.ANNOTATED)


@dataclass
class Instances:
    """Op instances, in no particular order; one row each."""

    origin: Integers  # ``Origin`` values.
    # Code into ``RangeMeaning.labels``, for a stray call into ``Profile.strings``; -1 for a
    # combined backward pass.
    label: Int32
    path: Int32  # Code into ``paths``.
    range_name: Int32  # Code into ``Profile.range_names`` of its range, or ``NO_ROW``.
    marker: Int32  # The same of the dictionary marker around it, or ``NO_ROW``.
    forward: Int32  # Row of the forward instance of a backward one, or ``NO_ROW``.
    start_ns: Int64  # First start. Unit: ns.
    end_ns: Int64  # Last end. Unit: ns.
    cpu_time_ns: Int64  # Sum of the lengths of its ranges; 0 for a group. Unit: ns.
    thread: Integers  # Row of ``Profile.threads`` of its first range.
    shapes: Int32  # Code into ``Profile.shape_texts``, or ``NO_ROW``.
    evidence: Integers  # ``Evidence`` values.
    call_instance: Int32  # Instance of each API call of the profile, or ``NO_ROW``.
    busy_start_ns: Int64  # Start of each stretch of CPU time of all instances. Unit: ns.
    busy_end_ns: Int64  # Unit: ns.
    busy_process: Integers  # Process of each stretch.
    paths: tuple[str, ...]  # Group paths, ``/iteration #/``.

    def __len__(self) -> int:
        return len(self.origin)

    def extended(self, more: dict[str, Integers]) -> Instances:
        """Return the instances with more appended."""
        joined: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), more[name]]) for name in ROW_COLUMNS
        }
        return replace(self, **joined)

    def sort_by_start(self) -> Int32:
        """Sort the instances by start, in place, and renumber all references to them.

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


def blank_columns(count: int, origin: Origin) -> dict[str, Integers]:
    """Columns of instances without ranges, for ``Instances.extended``; the others are required."""
    none = np.full(count, NO_ROW, dtype=np.int32)
    return {
        "origin": np.full(count, origin, dtype=np.int8),
        "path": np.zeros(count, dtype=np.int32),
        "evidence": np.zeros(count, dtype=np.int8),
        **dict.fromkeys(("label", "range_name", "marker", "forward", "shapes"), none),
    }


ROW_COLUMNS = (
    *("origin", "label", "path", "range_name", "marker", "forward"),
    *("start_ns", "end_ns", "cpu_time_ns", "thread", "shapes", "evidence"),
)
