"""The phases of a profile, read from the names of its ranges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aggregator.frameworks.serving import EVAL, TRAIN, read_phases
from aggregator.metrics.iterations import NamedRanges
from aggregator.metrics.loops import Candidate, Kind
from aggregator.metrics.phases import PhaseColumns, outermost
from aggregator.profile.arrays import Bool, Int64, ordered
from aggregator.profile.profile import Profile

SERVING_STEP = "serving step"
"""Name under which all phases of serving are one candidate for the key node."""
_LEAST_STEPS = 2
_NOT_SERVING = frozenset({TRAIN, EVAL})


def find_phases(profile: Profile) -> PhaseColumns:
    """Return the phases of a profile: the outermost ranges that are any."""
    known = read_phases(profile.range_names)
    if not known:
        return PhaseColumns()
    names = tuple(dict.fromkeys(phase.phase for phase in known.values()))
    of_code = np.full((3, len(profile.range_names)), -1, dtype=np.int64)
    for code, phase in known.items():
        of_code[:, code] = names.index(phase.phase), phase.tokens, phase.sequences
    ranges = profile.ranges
    rows = np.flatnonzero(of_code[0][ranges.name] >= 0)
    name, tokens, sequences = of_code[:, ranges.name[rows]]
    thread = ranges.thread[rows]
    found = PhaseColumns(
        name.astype(np.int32),
        names,
        ranges.start_ns[rows],
        ranges.end_ns[rows],
        profile.thread_process[thread].astype(np.int32),
        tokens,
        sequences,
    )
    return outermost(found, thread)


def serving_steps(phases: PhaseColumns) -> NamedRanges:
    """Return all phases of serving under one name, as a candidate for the key node.

    An empty one at the first start of each process ends the interval before its first phase.
    """
    serving = np.array([name not in _NOT_SERVING for name in phases.names], dtype=bool)
    if not len(phases) or not serving[phases.name].any():
        return NamedRanges.empty()
    rows = phases.at(serving[phases.name])
    if np.bincount(rows.process).max() < _LEAST_STEPS:
        return NamedRanges.empty()
    process, first = np.unique(rows.process, return_index=True)
    start = np.concatenate([rows.start_ns[first], rows.start_ns])
    end = np.concatenate([rows.start_ns[first], rows.end_ns])
    none = np.zeros(len(start), dtype=np.int32)
    names = (SERVING_STEP,)
    return NamedRanges(none, names, start, end, np.concatenate([process, rows.process]))


def phases_with_training(
    phases: PhaseColumns, ranges: NamedRanges, candidates: Sequence[Candidate]
) -> PhaseColumns:
    """Add the calls of the trained model as phases of training, if the program names none.

    The model is the one whose calls are a whole number in each step of the optimizer.
    """
    if TRAIN in phases.names:
        return phases
    forward = [
        loop
        for loop in candidates
        if loop.kind is Kind.FORWARD and loop.per_optimizer_step is not None
    ]
    if not forward:
        return phases
    model = max(forward, key=lambda item: (item.coverage, item.instances))
    rows = np.flatnonzero(ranges.name == ranges.names.index(model.name))
    # Its calls in a phase that the program names, such as an evaluation, are of that phase.
    rows = rows[~_lies_in(phases, ranges, rows)]
    unknown = np.full(len(phases) + len(rows), -1, dtype=np.int64)
    tokens, sequences = unknown.copy(), unknown
    tokens[: len(phases)], sequences[: len(phases)] = phases.tokens, phases.sequences
    code = np.full(len(rows), len(phases.names), dtype=np.int32)
    joined = PhaseColumns(
        np.concatenate([phases.name, code]),
        (*phases.names, TRAIN),
        np.concatenate([phases.start_ns, ranges.start_ns[rows]]),
        np.concatenate([phases.end_ns, ranges.end_ns[rows]]),
        np.concatenate([phases.process, ranges.process[rows].astype(np.int32)]),
        tokens,
        sequences,
    )
    return joined.at(ordered(joined.start_ns))


def _lies_in(phases: PhaseColumns, ranges: NamedRanges, rows: Int64) -> Bool:
    result = np.zeros(len(rows), dtype=bool)
    for process in np.unique(phases.process).tolist():
        own = phases.at(phases.process == process)
        ends = np.maximum.accumulate(own.end_ns)
        before = np.searchsorted(own.start_ns, ranges.start_ns[rows], side="right") - 1
        result |= (
            (ranges.process[rows] == process)
            & (before >= 0)
            & (ends[np.maximum(before, 0)] >= ranges.end_ns[rows])
        )
    return result
