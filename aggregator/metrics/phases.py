"""Kinds of iterations: prefill and decode of a serving engine, training, evaluation.

Serving engines, ``generate()`` and ``dlprof_nvtx.phase`` write a range around each phase, with the
tokens that it computes. An iteration is of the phase that covers most of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from aggregator.frameworks.serving import MIXED
from aggregator.profile.arrays import Bool, Int32, Int64, empty_i32, empty_i64, ordered

NO_PHASE = -1
_OTHER_SHARE = 0.1
"""Share of an iteration from which a second phase makes it a mixed one."""
_START_SHARE = 0.5
"""Share of the first interval before its first phase (the start of the program) that makes it none.

Time after a phase counts as the phase's: a step that replays a CUDA graph ends on the GPU."""


@dataclass(frozen=True)
class PhaseColumns:
    """Ranges of phases, the outermost only, in order of start."""

    name: Int32 = field(default_factory=empty_i32)  # Code into ``names``.
    names: tuple[str, ...] = ()  # Names of phases.
    start_ns: Int64 = field(default_factory=empty_i64)  # Unit: ns.
    end_ns: Int64 = field(default_factory=empty_i64)  # Unit: ns.
    process: Int32 = field(default_factory=empty_i32)  # Row of its process.
    tokens: Int64 = field(default_factory=empty_i64)  # Tokens that it computes; -1: unknown.
    sequences: Int64 = field(default_factory=empty_i64)  # Sequences in its batch; -1: unknown.

    def __len__(self) -> int:
        return len(self.name)

    def at(self, rows: Int64 | Bool) -> PhaseColumns:
        """Return some of the rows."""
        return PhaseColumns(
            self.name[rows],
            self.names,
            self.start_ns[rows],
            self.end_ns[rows],
            self.process[rows],
            self.tokens[rows],
            self.sequences[rows],
        )


@dataclass(frozen=True)
class IterationPhases:
    """The phase of each iteration."""

    name: Int64  # Code into ``names``, or ``NO_ROW``.
    names: tuple[str, ...]  # Names of phases, ``mixed`` among them.
    tokens: Int64  # Tokens of the phases that end in it; -1: unknown.
    sequences: Int64  # Sequences of the last of them, or of the phase around it; -1: unknown.
    parts: Int64  # Phases that end in it: micro-steps of a training step.

    def is_of(self, phase: str) -> Bool:
        """Return whether each iteration is of a phase."""
        code = self.names.index(phase) if phase in self.names else len(self.names)
        result: Bool = self.name == code
        return result


def phases_of_iterations(phases: PhaseColumns, edges_ns: Int64) -> IterationPhases:
    """Find the phase of each iteration.

    Args:
        phases: The phases; of several processes those of the one with most are counted.
        edges_ns: Starts of the iterations and the last stop. Unit: ns.
    """
    count = len(edges_ns) - 1
    names = tuple(dict.fromkeys([*phases.names, MIXED]))
    if not len(phases):
        unknown = np.full(count, -1, dtype=np.int64)
        return IterationPhases(unknown, names, unknown, unknown, np.zeros(count, dtype=np.int64))
    main = int(np.bincount(phases.process).argmax())
    phases = phases.at(phases.process == main)
    covered = _covered_ns(phases, len(names), edges_ns)
    name = np.where(covered.any(axis=0), covered.argmax(axis=0), NO_PHASE)
    if phases.start_ns[0] - edges_ns[0] > _START_SHARE * (edges_ns[1] - edges_ns[0]):
        name[0] = NO_PHASE
    second = np.sort(covered, axis=0)[-2] if len(names) > 1 else np.zeros(count)
    name[(second > _OTHER_SHARE * np.diff(edges_ns)) & (name >= 0)] = names.index(MIXED)
    ends_in = np.clip(np.searchsorted(edges_ns, phases.end_ns, side="left") - 1, 0, count - 1)
    tokens, sequences = np.zeros(count, dtype=np.int64), np.full(count, -1, dtype=np.int64)
    np.add.at(tokens, ends_in, np.maximum(phases.tokens, 0))
    # A phase counts where it ends; an iteration that lies within one has none of its tokens.
    known = name >= 0
    known[ends_in[phases.tokens < 0]] = False
    begun = np.searchsorted(phases.start_ns, edges_ns[1:], side="left") - 1
    sequences[begun >= 0] = phases.sequences[begun[begun >= 0]]
    sequences[ends_in] = phases.sequences
    parts = np.bincount(ends_in, minlength=count).astype(np.int64)
    return IterationPhases(name, names, np.where(known, tokens, -1), sequences, parts)


def _covered_ns(phases: PhaseColumns, num_names: int, edges_ns: Int64) -> Int64:
    """Return the time of each phase in each iteration. Unit: ns."""
    count = len(edges_ns) - 1
    first = np.clip(np.searchsorted(edges_ns, phases.start_ns, side="right") - 1, 0, count - 1)
    last = np.clip(np.searchsorted(edges_ns, phases.end_ns, side="left") - 1, 0, count - 1)
    length = np.maximum(last - first, 0) + 1
    row = np.repeat(np.arange(len(phases)), length)
    offset = np.arange(len(row)) - np.repeat(np.cumsum(length) - length, length)
    iteration = first[row] + offset
    low = np.maximum(phases.start_ns[row], edges_ns[iteration])
    high = np.minimum(phases.end_ns[row], edges_ns[iteration + 1])
    result = np.zeros((num_names, count), dtype=np.int64)
    np.add.at(result, (phases.name[row], iteration), np.maximum(high - low, 0))
    return result


def outermost(phases: PhaseColumns, thread: Int32) -> PhaseColumns:
    """Return the phases that lie in no other one of their thread, in order of start."""
    order = ordered(thread, phases.start_ns, -phases.end_ns)
    keep = np.zeros(len(order), dtype=bool)
    for number in np.unique(thread).tolist():
        rows = np.flatnonzero(thread[order] == number)
        ends = np.maximum.accumulate(phases.end_ns[order[rows]])
        keep[rows] = phases.start_ns[order[rows]] >= np.concatenate([[-1], ends[:-1]])
    rows = order[keep]
    return phases.at(rows[ordered(phases.start_ns[rows])])
