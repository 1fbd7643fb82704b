"""Purposes of allocations, by who allocates them and how long they live."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from aggregator.metrics.memory.model import Action, DeviceTrace, Int64, Narrow
from aggregator.metrics.memory.phases import Phase, StackMeaning
from aggregator.metrics.memory.replay import NEVER, Allocations
from aggregator.metrics.memory.steps import Steps

Int8 = npt.NDArray[np.int8]
Bool = npt.NDArray[np.bool_]
_END: Final = np.iinfo(np.int64).max


class Kind(IntEnum):
    """What an allocation is for."""

    UNKNOWN = 0
    PARAMETER = 1
    GRADIENT = 2
    OPTIMIZER_STATE = 3
    ACTIVATION = 4
    TEMPORARY = 5
    WORKSPACE = 6


KIND_NAMES: Final = (
    *("unknown", "parameter", "gradient", "optimizer state", "activation", "temporary"),
    "workspace",
)


class Evidence(IntEnum):
    """Why an allocation has its kind."""

    NONE = 0
    RECORDED = 1
    STACK = 2
    OUTLIVES_FORWARD = 3
    WITHIN_FORWARD = 4
    OUTLIVES_BACKWARD = 5
    WITHIN_BACKWARD = 6
    OUTLIVES_OPTIMIZER = 7
    WITHIN_OPTIMIZER = 8
    SIZE_OF_GRADIENT = 9
    NO_OPTIMIZER = 10
    WITHIN_STEP = 11
    WORKSPACE_SIZE = 12
    ROUNDING = 13
    RELEASED_BY = 14
    OUT_OF_MEMORY = 15


EVIDENCE_TEXTS: Final = (
    "",
    "the run recorded its address",
    "its call stack names it",
    "allocated in the forward pass, released after the backward pass began",
    "allocated and released in the forward pass",
    "allocated in the backward pass, still alive after it",
    "allocated and released in the backward pass",
    "allocated in the optimizer, still alive after it",
    "allocated and released in the optimizer",
    "alive all the time, with the size of a gradient",
    "alive all the time, and neither gradients nor an optimizer were recorded",
    "allocated and released between the phases",
    "a size that libraries take as workspace, alive from its first use to the end",
    "the allocator rounds sizes up",
    "allocated before the recording; the call that released it names it",
    "allocated in the forward pass, alive when the memory was exhausted before the backward pass",
)
_WORKSPACE_BYTES: Final = frozenset({8_519_680, 33_554_432, 34_603_008, 67_108_864})
"""What cuBLAS takes by default: 8.125 MiB, from Hopper on 32 MiB."""


@dataclass(frozen=True)
class Timeline:
    """Allocations with the phases in which they begin, and the phase of each event."""

    trace: DeviceTrace
    rows: Allocations
    phase: Int8
    phase_of_event: Int8
    stack: Narrow
    steps: Steps

    def next_event(self, *phases: Phase) -> Int64:
        """The next event of one of the phases after each allocation; the largest number: none."""
        wanted = np.zeros(len(Phase) + 1, dtype=np.bool_)
        wanted[list(phases)] = True
        is_one = np.append(wanted[self.phase_of_event], False)
        begins = np.flatnonzero(is_one[1:] & ~is_one[:-1]) + 1
        begins = np.append(begins, _END)
        after = self.rows.alloc_event + 1
        found = begins[np.searchsorted(begins, after)]
        inside = is_one[after]
        found[inside] = after[inside]
        return found


@dataclass(frozen=True)
class Kinds:
    """Kind and evidence of each allocation."""

    kind: Int8
    evidence: Int8

    def put(self, where: Bool, kind: Kind, evidence: Evidence) -> None:
        """Set the kind of allocations that have none."""
        new = where & (self.kind == Kind.UNKNOWN)
        self.kind[new], self.evidence[new] = kind, evidence


def find_kinds(line: Timeline, meanings: tuple[StackMeaning, ...]) -> Kinds:
    """Return the kind of each allocation."""
    count = len(line.rows)
    found = Kinds(np.zeros(count, dtype=np.int8), np.zeros(count, dtype=np.int8))
    is_workspace = np.array([meaning.is_workspace for meaning in meanings], dtype=np.bool_)
    makes_model = np.array([meaning.makes_model for meaning in meanings], dtype=np.bool_)
    stays = line.rows.free_event == NEVER
    found.put(is_workspace[line.stack], Kind.WORKSPACE, Evidence.STACK)
    found.put(makes_model[line.stack] & stays, Kind.PARAMETER, Evidence.STACK)
    in_pass = (line.phase == Phase.FORWARD) | (line.phase == Phase.BACKWARD)
    has_size = np.isin(line.rows.size, list(_WORKSPACE_BYTES))
    found.put(in_pass & has_size & stays, Kind.WORKSPACE, Evidence.WORKSPACE_SIZE)
    _by_lifetime(line, found)
    _released(line, found, meanings)
    _alive_all_the_time(line, found)
    return found


def _by_lifetime(line: Timeline, found: Kinds) -> None:
    rows, phase = line.rows, line.phase
    is_new = rows.alloc_event != NEVER
    ends = rows.free_event != NEVER
    free = rows.free_event.astype(np.int64)
    free[~ends] = _END
    backward = line.next_event(Phase.BACKWARD)
    after_backward = line.next_event(Phase.OPTIMIZER, Phase.FORWARD)
    after_optimizer = line.next_event(Phase.FORWARD, Phase.BACKWARD)
    forward_rows = is_new & (phase == Phase.FORWARD)
    found.put(
        forward_rows & (backward < free) & (backward != _END),
        Kind.ACTIVATION,
        Evidence.OUTLIVES_FORWARD,
    )
    exhausted = np.append(np.flatnonzero(line.trace.events.action == Action.OUT_OF_MEMORY), _END)
    failure = exhausted[np.searchsorted(exhausted, rows.alloc_event)]
    found.put(
        forward_rows & (failure < free) & (failure < backward),
        Kind.ACTIVATION,
        Evidence.OUT_OF_MEMORY,
    )
    found.put(forward_rows & ends, Kind.TEMPORARY, Evidence.WITHIN_FORWARD)
    backward_rows = is_new & (phase == Phase.BACKWARD)
    outlives = (free > after_backward) | ~ends
    found.put(backward_rows & outlives, Kind.GRADIENT, Evidence.OUTLIVES_BACKWARD)
    found.put(backward_rows, Kind.TEMPORARY, Evidence.WITHIN_BACKWARD)
    optimizer_rows = is_new & (phase == Phase.OPTIMIZER)
    found.put(
        optimizer_rows & ((free > after_optimizer) | ~ends),
        Kind.OPTIMIZER_STATE,
        Evidence.OUTLIVES_OPTIMIZER,
    )
    found.put(optimizer_rows, Kind.TEMPORARY, Evidence.WITHIN_OPTIMIZER)
    found.put(is_new & (phase == Phase.OTHER) & ends, Kind.TEMPORARY, Evidence.WITHIN_STEP)


def _released(line: Timeline, found: Kinds, meanings: tuple[StackMeaning, ...]) -> None:
    """Name what was allocated before the recording and released in it, by who released it."""
    rows = line.rows
    old = (rows.alloc_event == NEVER) & (rows.free_event != NEVER)
    if not old.any():
        return
    event = np.where(old, rows.free_event, 0)
    clears = np.array([meaning.clears_gradients for meaning in meanings], dtype=np.bool_)
    found.put(old & clears[line.trace.events.stack[event]], Kind.GRADIENT, Evidence.RELEASED_BY)
    phase = line.phase_of_event[event]
    found.put(old & (phase == Phase.OPTIMIZER), Kind.OPTIMIZER_STATE, Evidence.RELEASED_BY)
    found.put(old & (phase == Phase.BACKWARD), Kind.ACTIVATION, Evidence.RELEASED_BY)


def _alive_all_the_time(line: Timeline, found: Kinds) -> None:
    """Name what lives from before the recording to its end, by its stack or its size."""
    rows = line.rows
    old = (rows.alloc_event == NEVER) & (rows.free_event == NEVER) & ~rows.is_rounding
    old &= rows.block != NEVER
    found.put(old & (line.phase == Phase.OPTIMIZER), Kind.OPTIMIZER_STATE, Evidence.STACK)
    found.put(old & (line.phase == Phase.BACKWARD), Kind.GRADIENT, Evidence.STACK)
    trains = np.isin(line.phase_of_event, [int(Phase.BACKWARD), int(Phase.OPTIMIZER)]).any()
    if not trains:
        if len(line.phase_of_event) and (line.phase_of_event == Phase.FORWARD).any():
            found.put(old, Kind.PARAMETER, Evidence.NO_OPTIMIZER)
        return
    left = np.flatnonzero(old & (found.kind == Kind.UNKNOWN))
    sizes, counts = _gradient_sizes(line, found)
    if not len(sizes) or not len(left):
        return
    # The first of a size are the parameters: they exist before the optimizer's state.
    left = left[np.lexsort((rows.address[left], rows.size[left]))]
    size = rows.size[left]
    starts = np.searchsorted(size, size)
    rank = np.arange(len(left)) - starts
    place = np.minimum(np.searchsorted(sizes, size), len(sizes) - 1)
    limit = np.where(sizes[place] == size, counts[place], 0)
    where = np.zeros(len(rows), dtype=np.bool_)
    where[left[rank < limit]] = True
    found.put(where, Kind.PARAMETER, Evidence.SIZE_OF_GRADIENT)
    where[:] = False
    where[left[(rank >= limit) & (rank < 3 * limit)]] = True
    found.put(where, Kind.OPTIMIZER_STATE, Evidence.SIZE_OF_GRADIENT)


def _gradient_sizes(line: Timeline, found: Kinds) -> tuple[Int64, Int64]:
    """Sizes of gradients, and how many there are of each in the step that has most gradients."""
    gradients = np.flatnonzero((found.kind == Kind.GRADIENT) & (line.rows.alloc_event != NEVER))
    if not len(gradients):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    step = line.steps.of_event(line.rows.alloc_event[gradients])
    most = np.bincount(step).argmax()
    sizes, counts = np.unique(line.rows.size[gradients[step == most]], return_counts=True)
    return sizes, counts
