"""The phases of a profile, read from the names of its ranges."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aggregator.metrics.iterations import NamedRanges
from aggregator.metrics.loops import Candidate, Kind
from aggregator.metrics.phases import (
    DECODE,
    EVAL,
    MIXED,
    PREFILL,
    TRAIN,
    PhaseColumns,
    outermost,
)
from aggregator.profile.arrays import ordered
from aggregator.profile.profile import Profile
from aggregator.system.untrusted_json import read_json

SERVING_STEP = "serving step"
"""Name under which all phases of serving are one candidate for the key node."""
_OURS = re.compile(r"^dlprof\.phase: (?P<name>[^{]+?)(?: (?P<more>\{.*\}))?$")
_VLLM = re.compile(
    r"^execute_(?:\d+_)?context_(?P<contexts>\d+)\((?:sq)?(?P<context_tokens>\d*)[^)]*\)"
    r"_generation_(?P<generations>\d+)\((?:sq)?(?P<generation_tokens>\d*)[^)]*\)"
)
_SGLANG = re.compile(
    r"^step\[(?P<mode>[A-Z_]+) bs=(?P<batch>\d+)(?: (?:toks|tokens)=(?P<tokens>\d+))?"
)
_SGLANG_PHASES = {"DECODE": DECODE, "EXTEND": PREFILL, "PREFILL": PREFILL, "MIXED": MIXED}
_MOST_TOKENS = 1 << 40
_LEAST_STEPS = 2
_NOT_SERVING = frozenset({TRAIN, EVAL})


@dataclass(frozen=True)
class PhaseName:
    """What the name of a range says about its phase."""

    phase: str  # Name of the phase.
    tokens: int = -1  # Tokens that it computes; -1: unknown.
    sequences: int = -1  # Sequences in its batch; -1: unknown.


def read_phase(name: str) -> PhaseName | None:
    """Read the name of a range; None: it is no phase."""
    if found := _OURS.match(name):
        more = read_json(found["more"]) if found["more"] else {}
        more = more if isinstance(more, dict) else {}
        return PhaseName(found["name"], _count(more.get("tokens")), _count(more.get("sequences")))
    if found := _VLLM.match(name):
        contexts, generations = int(found["contexts"]), int(found["generations"])
        if not contexts + generations:
            return None
        texts = found["context_tokens"], found["generation_tokens"]
        phase = DECODE if not contexts else MIXED if generations else PREFILL
        tokens = sum(int(text) for text in texts) if all(texts) else -1
        return PhaseName(phase, _count(tokens), contexts + generations)
    if (found := _SGLANG.match(name)) and found["mode"] in _SGLANG_PHASES:
        phase, batch = _SGLANG_PHASES[found["mode"]], int(found["batch"])
        if found["tokens"]:
            return PhaseName(phase, _count(int(found["tokens"])), batch)
        return PhaseName(phase, batch if phase == DECODE else -1, batch)
    return None


def _count(value: object) -> int:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value < _MOST_TOKENS else -1  # type: ignore[operator, return-value]


def find_phases(profile: Profile) -> PhaseColumns:
    """The phases of a profile: the outermost ranges that are any."""
    known = {
        code: phase
        for code, name in enumerate(profile.range_names)
        if (phase := read_phase(name)) is not None
    }
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
    """All phases of serving under one name, as a candidate for the key node.

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
        one for one in candidates if one.kind is Kind.FORWARD and one.per_optimizer_step is not None
    ]
    if not forward:
        return phases
    model = max(forward, key=lambda one: (one.coverage, one.instances))
    rows = np.flatnonzero(ranges.name == ranges.names.index(model.name))
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
