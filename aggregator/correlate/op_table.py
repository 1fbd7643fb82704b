"""The table of ops: op instances get the op that they are an execution of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aggregator.correlate.identity import assign_places
from aggregator.correlate.ops import Instances, Origin
from aggregator.frameworks.meaning import RangeMeaning
from aggregator.frameworks.pytorch import BACKWARD_TYPE
from aggregator.profile import Int32, Int64, Profile

FPROP, BPROP = "fprop", "bprop"


@dataclass(frozen=True)
class Op:
    """One place in the model (or one kind of work outside it).

    Attributes:
        op_id: Unique name, ``CONV2D_1``.
        op_name: Path and name, ``/iteration #/conv2d[2]``.
        op_type: Kind of op, ``conv2d``.
        direction: ``fprop``, ``bprop`` or empty.
        process: Row of ``Profile.process_ids``.
        data_type: Element type; empty: not recorded.
        stack_trace: Call sites, innermost last; empty: not recorded.
        forward: Row of the forward op of a backward one; -1: none.
        origin: What it came from.
    """

    op_id: str
    op_name: str
    op_type: str
    direction: str
    process: int
    data_type: str
    stack_trace: str
    forward: int
    origin: Origin


@dataclass(frozen=True)
class OpTable:
    """All ops, and the op of each instance.

    Attributes:
        ops: One row per op, in order of first start.
        op_of_instance: Row of ``ops`` per instance.
    """

    ops: tuple[Op, ...]
    op_of_instance: Int32


def build_op_table(
    profile: Profile,
    meaning: RangeMeaning,
    instances: Instances,
    step_of_instance: Int64,
    num_steps: int,
) -> OpTable:
    """Join instances into ops.

    Args:
        profile: The profile.
        meaning: What range names mean.
        instances: Op instances.
        step_of_instance: Step of each instance by its own process; step 0 lies before the loop.
        num_steps: Number of steps including step 0; 1: no loop was found.
    """
    process = profile.thread_process[instances.thread].astype(np.int64)
    identity, num_places = _forward_identity(
        meaning, instances, process, step_of_instance, num_steps
    )
    backward = np.flatnonzero(instances.origin == Origin.BACKWARD)
    base = int(identity.max(initial=-1)) + 1
    identity[backward] = base + identity[instances.forward[backward]]
    distinct, inverse = np.unique(identity, return_inverse=True)
    num_ops = len(distinct)
    first_start = np.full(num_ops, np.iinfo(np.int64).max)
    np.minimum.at(first_start, inverse, instances.start_ns)
    op_process = np.zeros(num_ops, dtype=np.int64)
    op_process[inverse] = process
    # Ops are numbered by process; those with a place in the loop come first, in their order, so
    # that an op more in one odd step changes no other op's number.
    forward_part = np.where(distinct >= base, distinct - base, distinct)
    placed = forward_part < num_places
    within = np.where(placed, forward_part, first_start)
    order = np.lexsort((distinct >= base, within, ~placed, op_process))
    rank = np.empty(num_ops, dtype=np.int32)
    rank[order] = np.arange(num_ops, dtype=np.int32)
    op_of_instance = rank[inverse].astype(np.int32)
    ops = _describe(profile, meaning, instances, op_of_instance, num_ops)
    return OpTable(ops, op_of_instance)


def _forward_identity(
    meaning: RangeMeaning,
    instances: Instances,
    process: Int64,
    step: Int64,
    num_steps: int,
) -> tuple[Int64, int]:
    """A number per instance, equal for executions of one op; backward ones are filled in later.

    Returns:
        The numbers, and how many of them (from 0 on) are places in the loop.
    """
    identity = np.full(len(instances), -1, dtype=np.int64)
    own = instances.origin != Origin.BACKWARD
    code = _codes(instances, process)
    placed = np.flatnonzero(
        own & np.isin(instances.origin, (Origin.FORWARD, Origin.BACKWARD_ALONE))
    )
    next_identity = 0
    if meaning.has_dictionary_markers or num_steps > 1:
        for number in np.unique(process[placed]).tolist():
            rows = placed[process[placed] == number]
            rows = rows[np.lexsort((instances.start_ns[rows], instances.thread[rows]))]
            places = assign_places(code[rows], step[rows], num_steps)
            has_place = places.place >= 0
            identity[rows[has_place]] = next_identity + places.place[has_place]
            next_identity += places.length
    rest = np.flatnonzero(own & (identity < 0))
    # Without a place: joined by path, name, direction and shapes.
    joined = np.stack([code[rest], instances.shapes[rest].astype(np.int64)], axis=1)
    joined[instances.origin[rest] == Origin.STRAY, 1] = -1
    if meaning.has_dictionary_markers:
        stray = instances.origin[rest] == Origin.STRAY
        joined[stray, 1] = -2 - np.arange(int(stray.sum()))
    if len(rest):
        _, inverse = np.unique(joined, axis=0, return_inverse=True)
        identity[rest] = next_identity + inverse.ravel()
    return identity, next_identity


def _codes(instances: Instances, process: Int64) -> Int64:
    """One number per distinct (process, origin, path, label, name of a dictionary marker)."""
    columns = np.stack(
        [
            process,
            instances.origin.astype(np.int64),
            instances.path.astype(np.int64),
            instances.label.astype(np.int64),
            instances.marker.astype(np.int64),
        ],
        axis=1,
    )
    return _row_codes(columns)


def _row_codes(columns: Int64) -> Int64:
    """Dense code per distinct row; mixed radix is far quicker than ``np.unique(axis=0)``."""
    code = np.zeros(len(columns), dtype=np.int64)
    for column in range(columns.shape[1]):
        values = columns[:, column]
        _, dense = np.unique(values, return_inverse=True)
        code = code * (int(dense.max(initial=0)) + 1) + dense.ravel()
        _, code = np.unique(code, return_inverse=True)
        code = code.ravel().astype(np.int64)
    return code


def _describe(
    profile: Profile, meaning: RangeMeaning, instances: Instances, op_of: Int32, num_ops: int
) -> tuple[Op, ...]:
    sample = np.full(num_ops, -1, dtype=np.int64)
    by_time = np.argsort(instances.start_ns, kind="stable")[::-1]
    sample[op_of[by_time]] = by_time
    rank_prefix = _rank_prefixes(profile, instances)
    names = _Names(profile, meaning, instances, sample, rank_prefix)
    forward_of = np.full(num_ops, -1, dtype=np.int64)
    backward = np.flatnonzero(instances.origin[sample] == Origin.BACKWARD)
    forward_of[backward] = op_of[instances.forward[sample[backward]]]
    numbers = _type_numbers(names.types, forward_of)
    types = [
        names.types[int(forward)] if forward >= 0 else names.types[row]
        for row, forward in enumerate(forward_of)
    ]
    return tuple(
        Op(
            op_id=_op_id(types[row], int(numbers[row]), backward=forward_of[row] >= 0),
            op_name=names.full(row, int(forward_of[row])),
            op_type=types[row],
            direction=_direction(Origin(int(instances.origin[sample[row]]))),
            process=int(profile.thread_process[instances.thread[sample[row]]]),
            data_type=names.data_type(row, int(forward_of[row])),
            stack_trace=names.stack_trace(row, int(forward_of[row])),
            forward=int(forward_of[row]),
            origin=Origin(int(instances.origin[sample[row]])),
        )
        for row in range(num_ops)
    )


def _rank_prefixes(profile: Profile, instances: Instances) -> dict[int, str]:
    """``/rank_0`` per process where several ran ops; processes go by their device."""
    has_ops = np.isin(instances.origin, (Origin.FORWARD, Origin.BACKWARD, Origin.GROUP))
    processes = np.unique(profile.thread_process[instances.thread[has_ops]]).tolist()
    if len(processes) < 2:
        return {}
    device = {p: len(profile.devices) for p in processes}
    for process in processes:
        rows = profile.kernels.device[profile.kernels.process == process]
        if len(rows):
            device[process] = int(np.bincount(rows).argmax())
    ranked = sorted(processes, key=lambda p: (device[p], profile.process_ids[p]))
    return {process: f"/rank_{rank}" for rank, process in enumerate(ranked)}


def _direction(origin: Origin) -> str:
    if origin in (Origin.BACKWARD, Origin.BACKWARD_ALONE):
        return BPROP
    return "" if origin is Origin.STRAY else FPROP


def _op_id(op_type: str, number: int, *, backward: bool) -> str:
    return (
        f"{op_type.upper()}_{BPROP.upper()}_{number}" if backward else f"{op_type.upper()}_{number}"
    )


def _type_numbers(types: list[str], forward_of: Int64) -> Int64:
    """Running number per type; a backward op has the number of its forward op."""
    numbers = np.zeros(len(types), dtype=np.int64)
    seen: dict[str, int] = {}
    for row, op_type in enumerate(types):
        if forward_of[row] < 0:
            key = op_type.upper()
            seen[key] = seen.get(key, 0) + 1
            numbers[row] = seen[key]
    backward = forward_of >= 0
    numbers[backward] = numbers[forward_of[backward]]
    return numbers


class _Names:
    """Names and types of ops, from one sample instance each."""

    def __init__(
        self,
        profile: Profile,
        meaning: RangeMeaning,
        instances: Instances,
        sample: Int64,
        rank_prefix: dict[int, str],
    ) -> None:
        self._profile = profile
        self._meaning = meaning
        self._instances = instances
        self._sample = sample
        self._prefix = rank_prefix
        self._origins = [Origin(int(v)) for v in instances.origin[sample]]
        self._labels = [self._label(row) for row in range(len(sample))]
        self.types = [self._type(row) for row in range(len(sample))]
        self._base = [self._base_name(row) for row in range(len(sample))]
        self._number = self._numbers()

    def _label(self, row: int) -> str:
        code = int(self._instances.label[self._sample[row]])
        if self._origins[row] is Origin.STRAY:
            return self._profile.strings[code]
        return self._meaning.labels[code]

    def _type(self, row: int) -> str:
        return BACKWARD_TYPE if self._origins[row] is Origin.BACKWARD_ALONE else self._labels[row]

    def _base_name(self, row: int) -> str:
        origin, label = self._origins[row], self._labels[row]
        instance = self._sample[row]
        process = int(self._profile.thread_process[self._instances.thread[instance]])
        prefix = self._prefix.get(process, "")
        if origin is Origin.STRAY:
            return f"{prefix}/unassociated_{label}" if prefix else f"unassociated_{label}"
        marker = int(self._instances.marker[instance])
        if marker in self._meaning.op_names:
            return prefix + self._meaning.op_names[marker]
        path = self._instances.paths[int(self._instances.path[instance])]
        middle = f"{BACKWARD_TYPE}/" if origin is Origin.BACKWARD_ALONE else ""
        return f"{prefix}{path}{middle}{label.replace('/', '|')}"

    def _numbers(self) -> list[int]:
        """Number in ``name[n]``: ops of one name in their order; marker names have theirs."""
        seen: dict[str, int] = {}
        numbers = []
        for row, base in enumerate(self._base):
            origin = self._origins[row]
            counted = origin in (Origin.FORWARD, Origin.BACKWARD_ALONE)
            if counted and not self._has_marker_name(row):
                seen[base] = seen.get(base, 0) + 1
            numbers.append(seen.get(base, 1) if counted else 1)
        return numbers

    def _has_marker_name(self, row: int) -> bool:
        return int(self._instances.marker[self._sample[row]]) in self._meaning.op_names

    def full(self, row: int, forward: int) -> str:
        """Full op name; a backward op has its forward op's."""
        row = forward if forward >= 0 else row
        number = self._number[row]
        return f"{self._base[row]}[{number}]" if number > 1 else self._base[row]

    def data_type(self, row: int, forward: int) -> str:
        """Element type that a marker told; empty: none."""
        row = forward if forward >= 0 else row
        text = self._meaning.texts.get(int(self._instances.range_name[self._sample[row]]))
        return text.data_type if text else ""

    def stack_trace(self, row: int, forward: int) -> str:
        """Call sites that a marker told; empty: none."""
        row = forward if forward >= 0 else row
        return self._meaning.stack_traces.get(int(self._instances.marker[self._sample[row]]), "")
