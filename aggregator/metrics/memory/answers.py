"""Questions about a recording: the peak of each step, what grows with each step, fragmentation."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Final

import numpy as np

from aggregator.metrics.memory.analysis import DeviceMemory, named_kinds
from aggregator.metrics.memory.kinds import Kind
from aggregator.metrics.memory.replay import NEVER

_FEWEST_STEPS: Final = 3
"""Of fewer steps it is unknown what is repeated: the first one creates states and caches."""


@dataclass(frozen=True)
class StepPeak:
    """The peak of one step."""

    step: int
    event: int  # The first event of the step after which most was allocated.
    allocated_bytes: int
    kinds: dict[str, int]  # Bytes at it by kind, the largest first.


@dataclass(frozen=True)
class Leak:
    """What each step allocates and no later one releases."""

    name: str  # Module and op.
    bytes: int  # All of it at the end.
    steps: int  # Number of steps that added to it.


@dataclass(frozen=True)
class Fragmentation:
    """Free memory that the allocator holds at the end."""

    free_bytes: int
    largest_bytes: int  # The largest free block: a larger request needs more memory.


def step_peaks(memory: DeviceMemory) -> list[StepPeak]:
    """Return the peak of each step."""
    counts, bounds = memory.counts.allocated, memory.whose.steps.bounds
    edges = itertools.pairwise([0, *bounds.tolist(), len(counts)])
    found = [
        (step, first + int(counts[first:last].argmax()))
        for step, (first, last) in enumerate(edges)
        if first < last
    ]
    kinds = memory.bytes_at(np.array([event for _, event in found], dtype=np.int64))
    return [
        StepPeak(step, event, int(counts[event]), named_kinds(sums))
        for (step, event), sums in zip(found, kinds, strict=True)
    ]


def leaks(memory: DeviceMemory) -> list[Leak]:
    """Call stacks that allocate in every step but the first and last, and release nothing of it.

    Gradients and states are replaced in each step, so that only those of the last one live at the
    end. An allocation that lives on from each step is kept by a list, a cache or a graph. The end
    is that of the last complete step: a program that ends releases everything.
    """
    rows, whose = memory.rows, memory.whose
    steps = len(whose.steps)
    if steps < _FEWEST_STEPS + 1:
        return []
    end = int(whose.steps.bounds[-1])
    stays = (rows.free_event == NEVER) | ((rows.free_event >= end) & (rows.alloc_event < end))
    stays &= (rows.alloc_event != NEVER) & ~rows.is_rounding
    stays &= whose.kind != Kind.WORKSPACE
    places = np.flatnonzero(stays)
    module, op = whose.module[places], whose.op[places]
    # Lines of the outer frames of a stack may differ; the module and the op name the line.
    keys = np.stack([np.where((module > 0) | (op > 0), 0, whose.stack[places]), module, op])
    distinct, owner = np.unique(keys, axis=1, return_inverse=True)
    found = []
    for number in range(distinct.shape[1]):
        own = places[owner.ravel() == number]
        # The last step ends where the recording does, and what it holds is still in use.
        seen = np.unique(whose.step[own])
        if len(seen[(seen > 0) & (seen < steps - 1)]) >= max(steps - 2, _FEWEST_STEPS - 1):
            names = [whose.names[code] for code in distinct[1:, number].tolist()]
            name = ": ".join(filter(None, names)) or "(unknown)"
            found.append(Leak(name, int(rows.size[own].sum()), len(seen)))
    return sorted(found, key=lambda leak: -leak.bytes)


def fragmentation(memory: DeviceMemory) -> Fragmentation | None:
    """Free blocks at the end; None if the source has no blocks."""
    blocks = memory.blocks
    if not len(blocks.size):
        return None
    free = blocks.size[blocks.state == 0]
    return Fragmentation(int(free.sum()), int(free.max(initial=0)))
