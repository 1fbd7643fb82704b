"""The dependencies between the ops of one step of a pipeline-parallel job, and their replay.

All steps and all data-parallel ranks run the same ops, so the graph is that of one pipeline, and a
replay computes all steps and ranks at once. Within a stage, compute ops run one after the other and
so do the transfers of each kind; a transfer starts on all its members before it ends on any.
"""

from __future__ import annotations

from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Final

import numpy as np

from aggregator.errors import ProfileError
from aggregator.profile.arrays import Bool, Int64
from aggregator.replay.op_times import Float64, OpTimes
from aggregator.texts import Text, say

FORWARD: Final = "forward-compute"
BACKWARD: Final = "backward-compute"
GATHER: Final = "params-all-gather"
SCATTER: Final = "grads-reduce-scatter"
SEPARATE: Final = "separate-grads-all-reduce"
LAYERNORM: Final = "layernorm-grads-all-reduce"
EMBEDDING: Final = "embedding-grads-all-reduce"
CLIP: Final = "optimizer-clip-main-grad"
OPTIMIZER: Final = "optimizer"
PAUSE: Final = "gc"
_DATA_PARALLEL: Final = (GATHER, SCATTER, SEPARATE)
_PEERS: Final = {
    "forward-send": ("forward-recv", 1),
    "forward-recv": ("forward-send", -1),
    "backward-send": ("backward-recv", -1),
    "backward-recv": ("backward-send", 1),
}
POINT_TO_POINT: Final = frozenset(_PEERS)
COMMUNICATION: Final = POINT_TO_POINT | {*_DATA_PARALLEL, LAYERNORM, EMBEDDING, CLIP}
"""Op types that move data; the ideal of these is the median, that of the others the mean."""
_KNOWN: Final = COMMUNICATION | {FORWARD, BACKWARD, OPTIMIZER, PAUSE}
_CLOCK_ERROR_S: Final = 5e-5  # Tolerance when times of different streams are compared.
_LARGEST_CLOCK_ERROR_S: Final = 1e-2  # A transfer that is shorter than minus this took no time.

_Key = tuple[str, int, int]


@dataclass(frozen=True)
class PipelineGraph:
    """Dependencies of the ops of a pipeline step, in an order in which they can be replayed."""

    units: tuple[tuple[int, ...], ...]  # Ops that end together; a compute op stands alone.
    before: tuple[Int64, ...]  # Ops that each op waits for.
    is_transfer: Bool  # Whether the op ends by its last member's start.
    is_across: Bool  # Whether all data-parallel ranks take part in it.

    def replay(self, work_s: Float64) -> Float64:
        """Ends of all ops, shape (ops, steps, ranks), if each takes this time. Unit: s."""
        ends = np.zeros_like(work_s)
        for unit in self.units:
            start = np.zeros(work_s.shape[1:])
            for op in unit:
                if len(self.before[op]):
                    np.maximum(start, ends[self.before[op]].max(axis=0), out=start)
            if self.is_across[unit[0]]:
                start = np.broadcast_to(start.max(axis=1, keepdims=True), start.shape)
            for op in unit:
                ends[op] = start + work_s[op]
        return ends


class _Builder:
    """Collects dependencies and groups of transfers of one pipeline."""

    def __init__(self, ops: OpTimes) -> None:
        self.ops = ops
        self.stages = ops.num_stages
        self.chunks = int(ops.chunk.max()) + 1
        self.start_s = ops.start_s[:, 0, 0]
        self.end_s = ops.end_s[:, 0, 0]
        self.keys = list(zip(ops.op_types, ops.stage.tolist(), ops.sequence.tolist(), strict=True))
        self.index: dict[_Key, int] = {key: op for op, key in enumerate(self.keys)}
        self.before: list[set[int]] = [set() for _ in self.keys]
        self.groups: list[list[int]] = []

    def by_start(self, stage: int, *op_types: str) -> list[int]:
        """Ops of some types of a stage, in order of start."""
        found = [op for op, key in enumerate(self.keys) if key[1] == stage and key[0] in op_types]
        return sorted(found, key=lambda op: (self.start_s[op], self.keys[op][2], self.keys[op][0]))

    def numbered(self, op_type: str, stage: int) -> list[int]:
        """Ops of a type of a stage by their number."""
        found = [op for op, key in enumerate(self.keys) if key[:2] == (op_type, stage)]
        return sorted(found, key=lambda op: self.keys[op][2])

    def chain(self, ops: list[int], after: list[int] | None = None) -> None:
        """Each op waits for the one before it, the first for ``after``."""
        last = after or []
        for op in ops:
            self.before[op].update(last)
            last = [op]


def pipeline_graph(ops: OpTimes) -> PipelineGraph:
    """Dependencies of a step.

    Raises:
        ProfileError: Ops are unknown, missing or wait for each other.
    """
    unknown = sorted(set(ops.op_types) - _KNOWN)
    if unknown:
        raise _no_step(say("the op type '{name}' is unknown", name=unknown[0]))
    builder = _Builder(ops)
    try:
        _add_streams(builder)
        _add_transfers(builder)
        _add_end_of_step(builder)
    except (LookupError, ValueError) as error:
        raise _no_step(say("the ops of its stages do not fit each other")) from error
    return _sorted(builder)


def _no_step(reason: Text) -> ProfileError:
    return ProfileError(say("The step cannot be replayed: {reason}.", reason=reason))


def _add_streams(builder: _Builder) -> None:
    """Order of the compute ops, of each kind of transfer, and of the data-parallel collectives."""
    for stage in range(builder.stages):
        compute = builder.by_start(stage, FORWARD, BACKWARD)
        builder.chain(compute)
        for op_type in POINT_TO_POINT:
            builder.chain(builder.by_start(stage, op_type))
        builder.chain(builder.by_start(stage, GATHER, SCATTER))
        first = next(row for row, op in enumerate(compute) if builder.keys[op][0] == BACKWARD)
        if first >= 2:  # Received while the last forward op before it runs.
            for op_type in ("backward-recv", "backward-send"):
                op = builder.index.get((op_type, stage, 0))
                if op is not None:
                    builder.before[op].add(compute[first - 2])
        gathered: dict[int, int] = {}
        for op in builder.numbered(GATHER, stage):
            gathered[int(builder.ops.chunk[op])] = op
        for chunk, gather in gathered.items():
            uses = [op for op in builder.by_start(stage, FORWARD) if builder.ops.chunk[op] == chunk]
            builder.before[uses[0]].add(gather)


def _add_transfers(builder: _Builder) -> None:
    """Transfers between stages with the compute ops that they serve, and all groups."""
    pairs: dict[tuple[str, int, int], list[int]] = {}
    for stage in range(builder.stages):
        for op_type, (peer, distance) in _PEERS.items():
            transfers = builder.by_start(stage, op_type)
            used = _used_transfers(builder, transfers, op_type, stage)
            sent = 0
            for op in transfers:
                if op not in used:  # Recorded, but nothing was moved.
                    builder.groups.append([op])
                    continue
                receives = op_type.endswith("recv")
                at = (stage + distance) % builder.stages
                key = (peer, at, sent) if receives else (op_type, stage, sent)
                pairs.setdefault(key, []).append(op)
                sent += 1
    if any(len(pair) != 2 for pair in pairs.values()):
        raise ValueError("a transfer has no peer")
    builder.groups.extend(pairs.values())
    for op_type in _DATA_PARALLEL:
        builder.groups.extend([op] for op, key in enumerate(builder.keys) if key[0] == op_type)
    ends = {0, builder.stages - 1}
    builder.groups.append([builder.index[EMBEDDING, stage, 0] for stage in sorted(ends)])
    builder.groups.append([builder.index[CLIP, stage, 0] for stage in range(builder.stages)])


def _used_transfers(builder: _Builder, transfers: list[int], op_type: str, stage: int) -> set[int]:
    """The transfers that move data, each of which is tied to its compute op."""
    compute_type = f"{op_type.partition('-')[0]}-compute"
    compute = builder.numbered(compute_type, stage)
    receives = op_type.endswith("recv")
    if receives:
        last = max(builder.start_s[op] for op in compute)
        matched = [op for op in transfers if builder.start_s[op] <= last + _CLOCK_ERROR_S]
    else:
        first = min(builder.end_s[op] for op in compute)
        matched = [op for op in transfers if builder.end_s[op] >= first - _CLOCK_ERROR_S]
    missing = 1 if receives and len(matched) + 1 == len(compute) else 0
    used = set()
    for number, op in enumerate(matched, start=missing):
        target = compute[number]
        if not receives:
            builder.before[op].add(target)
        else:
            builder.before[target].add(op)
            if number:
                builder.before[op].add(compute[number - 1])
        chunk = int(builder.ops.global_chunk[target]) + _PEERS[op_type][1]
        if 0 <= chunk < builder.chunks * builder.stages:
            used.add(op)
    return used


def _add_end_of_step(builder: _Builder) -> None:
    """From the last compute op to the optimizer."""
    overlaps = SEPARATE in builder.ops.op_types
    for stage in range(builder.stages):
        compute = builder.by_start(stage, FORWARD, BACKWARD)
        pause = builder.index[PAUSE, stage, 0]
        builder.before[pause].add(max(compute, key=lambda op: builder.end_s[op]))
        scatters = builder.numbered(SCATTER, stage)
        chain, after = [builder.index[LAYERNORM, stage, 0]], [pause]
        if stage in (0, builder.stages - 1):
            chain.append(builder.index[EMBEDDING, stage, 0])
        if overlaps:
            _follow_backward(builder, stage, scatters)
            chain.append(builder.index[SEPARATE, stage, 0])
            after += scatters[-1:]
        else:
            chain += scatters
        chain += [builder.index[CLIP, stage, 0], builder.index[OPTIMIZER, stage, 0]]
        builder.chain(chain, after)


def _follow_backward(builder: _Builder, stage: int, scatters: list[int]) -> None:
    """The first reduce-scatter of a chunk waits for the chunk's last backward op."""
    seen: set[int] = set()
    for scatter in scatters:
        chunk = int(builder.ops.chunk[scatter])
        if chunk not in seen:
            seen.add(chunk)
            ops = [op for op in builder.numbered(BACKWARD, stage) if builder.ops.chunk[op] == chunk]
            builder.before[scatter].add(max(ops, key=lambda op: builder.end_s[op]))


def _sorted(builder: _Builder) -> PipelineGraph:
    num_ops = len(builder.keys)
    grouped = {op for group in builder.groups for op in group}
    units = [*builder.groups, *([op] for op in range(num_ops) if op not in grouped)]
    unit_of = {op: number for number, unit in enumerate(units) for op in unit}
    waits = {
        number: {unit_of[other] for op in unit for other in builder.before[op]}
        for number, unit in enumerate(units)
    }
    try:
        order = list(TopologicalSorter(waits).static_order())
    except CycleError as error:
        raise _no_step(say("ops wait for each other")) from error
    across = (*_DATA_PARALLEL, CLIP)
    return PipelineGraph(
        units=tuple(tuple(units[number]) for number in order),
        before=tuple(np.array(sorted(ops), dtype=np.int64) for ops in builder.before),
        is_transfer=np.array([op in grouped for op in range(num_ops)], dtype=bool),
        is_across=np.array([key[0] in across for key in builder.keys], dtype=bool),
    )


def work_times(ops: OpTimes, graph: PipelineGraph) -> Float64:
    """Own time of each op: a transfer's begins when its last member starts. Unit: s."""
    work = ops.duration_s.copy()
    ends = ops.end_s
    for unit in graph.units:
        rows = list(unit)
        if graph.is_transfer[rows[0]]:
            last = ops.start_s[rows].max(axis=0)
            if graph.is_across[rows[0]]:
                last = np.broadcast_to(last.max(axis=1, keepdims=True), last.shape)
            times = ends[rows] - last
            work[rows] = np.where(times <= -_LARGEST_CLOCK_ERROR_S, np.float32(0), times)
    return work.astype(np.float64)
