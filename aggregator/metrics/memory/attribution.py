"""Whose an allocation is: phase, op, module and kind, each with the evidence for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from aggregator.metrics.memory.kinds import Evidence, Kind, Timeline, find_kinds
from aggregator.metrics.memory.model import DeviceTrace, MemoryTrace, Narrow
from aggregator.metrics.memory.phases import StackMeaning
from aggregator.metrics.memory.recorded_run import Names, RecordedRun
from aggregator.metrics.memory.replay import NEVER, Allocations
from aggregator.metrics.memory.steps import Steps, find_steps

Int8 = npt.NDArray[np.int8]


@dataclass(frozen=True)
class Attribution:
    """Per allocation of a device."""

    kind: Int8  # ``Kind``.
    evidence: Int8  # ``Evidence`` of the kind.
    phase: Int8  # ``Phase`` in which it was allocated.
    step: Narrow  # Step in which it was allocated, from 0; -1: before the recording.
    stack: Narrow  # Index in ``Stacks.frames``.
    module: npt.NDArray[np.int32]  # Index in ``names``.
    op: npt.NDArray[np.int32]  # Index in ``names``.
    names: tuple[str, ...]  # Distinct names of modules and ops; 0 is "".
    steps: Steps


def attribute(
    memory: MemoryTrace,
    trace: DeviceTrace,
    rows: Allocations,
    meanings: tuple[StackMeaning, ...],
) -> Attribution:
    """Find out whose each allocation is."""
    run = RecordedRun(memory, trace)
    phase_of_event = run.event_phases(meanings)
    steps = find_steps(memory, trace, phase_of_event, run.step_ends_ns)
    is_old = rows.alloc_event == NEVER
    stack = _stacks(trace, rows)
    by_stack = np.array([meaning.phase for meaning in meanings], dtype=np.int8)
    alloc = np.maximum(rows.alloc_event, 0)
    phase = by_stack[stack]
    if len(phase_of_event):
        phase = np.where(is_old, phase, phase_of_event[alloc]).astype(np.int8)
    found = find_kinds(Timeline(trace, rows, phase, phase_of_event, stack, steps), meanings)
    names = Names()
    module = names.codes([meaning.module for meaning in meanings])[stack]
    op = names.codes([meaning.op for meaning in meanings])[stack]
    module = run.modules(rows, module, names)
    op = np.where(op > 0, op, names.codes([_PHASE_OPS[p] for p in range(len(_PHASE_OPS))])[phase])
    run.apply(rows, found.kind, found.evidence, module, names)
    is_rounding = rows.is_rounding
    found.kind[is_rounding], found.evidence[is_rounding] = Kind.WORKSPACE, Evidence.ROUNDING
    op[is_rounding] = names.code("rounding of blocks")
    return Attribution(
        kind=found.kind,
        evidence=found.evidence,
        phase=phase,
        step=np.where(is_old, NEVER, steps.of_event(rows.alloc_event)).astype(np.int32),
        stack=stack,
        module=module,
        op=op,
        names=names.texts(),
        steps=steps,
    )


_PHASE_OPS: Final = ("", "forward pass", "backward pass", "optimizer", "")


def _stacks(trace: DeviceTrace, rows: Allocations) -> Narrow:
    """Return the stack that allocated each row: that of its event or of its block."""
    stack = np.zeros(len(rows), dtype=np.int32)
    is_new = rows.alloc_event != NEVER
    stack[is_new] = trace.events.stack[rows.alloc_event[is_new]]
    has_block = ~is_new & (rows.block != NEVER)
    stack[has_block] = trace.blocks.stack[rows.block[has_block]]
    return stack
