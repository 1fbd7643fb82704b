"""The table of ops, and the op of each op instance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aggregator.correlate.identity import align_steps
from aggregator.correlate.instances import Evidence, Instances, Origin
from aggregator.correlate.range_tree import RECOMPUTE
from aggregator.correlate.ranks import main_devices, rank_processes
from aggregator.correlate.work import CorrelatedWork
from aggregator.frameworks import Framework
from aggregator.frameworks.inductor import CompiledKernel
from aggregator.frameworks.meaning import RangeMeaning
from aggregator.frameworks.pytorch import BACKWARD_TYPE, is_tc_eligible
from aggregator.profile.arrays import NO_ROW, Bool, Int32, Int64, dense_codes, ordered, row_codes
from aggregator.profile.profile import Profile

FPROP, BPROP = "fprop", "bprop"
UNASSOCIATED = "unassociated_"
"""Begins the names of work outside all ranges."""


@dataclass(frozen=True)
class Op:
    """One operation at one position in the model, or one kind of work outside it."""

    op_id: str  # Unique name, ``CONV2D_1``.
    op_name: str  # Path and name, ``/iteration #/conv2d[2]``.
    op_type: str  # Kind of op, ``conv2d``.
    process: int  # Row of ``Profile.process_ids``.
    direction: str = ""  # ``fprop``, ``bprop``, ``recompute`` or empty.
    data_type: str = ""  # Element type; empty: not recorded.
    stack_trace: str = ""  # Call sites, innermost last; empty: not recorded.
    forward: int = NO_ROW  # Row of the forward op of a backward one, or ``NO_ROW``.
    origin: Origin = Origin.FORWARD  # Kind of its instances.
    tc_eligible: bool = False  # Whether it can use Tensor Cores, by DLProf's rule.
    domain: int = 0  # Code into ``Profile.domain_names``; 0 holds the framework's ops.
    # How the op of its work is known: the weakest evidence of its instances.
    evidence: Evidence = Evidence.RECORDED
    # Modules that a kernel of compiled code computes for, if they are several; empty: one.
    shared_modules: str = ""


@dataclass(frozen=True)
class OpTable:
    """All ops, and the op of each instance."""

    ops: tuple[Op, ...]  # One row per op, in order of first start.
    op_of_instance: Int32  # Row of ``ops`` per instance.


def build_op_table(
    profile: Profile,
    meaning: RangeMeaning,
    work: CorrelatedWork,
    steps: tuple[Int64, int],
    framework: Framework,
) -> OpTable:
    """Join instances into ops.

    Args:
        profile: The profile.
        meaning: Meaning of range names.
        work: Op instances with their kernels.
        steps: Step of each instance in its own process (0: before the training loop), and the
            number of steps including step 0; 1: no loop was found.
        framework: Framework that wrote the ranges.
    """
    instances = work.instances
    process = profile.thread_process[instances.thread].astype(np.int64)
    identity, num_positions = _forward_identity(meaning, instances, process, *steps)
    backward = np.flatnonzero(instances.origin == Origin.BACKWARD)
    base = int(identity.max(initial=-1)) + 1
    identity[backward] = base + identity[instances.forward[backward]]
    distinct, inverse = dense_codes(identity)
    num_ops = len(distinct)
    first_start = np.full(num_ops, np.iinfo(np.int64).max)
    np.minimum.at(first_start, inverse, instances.start_ns)
    op_process = np.zeros(num_ops, dtype=np.int64)
    op_process[inverse] = process
    # Ops are numbered by process; those with a position in the loop come first, in its order, so
    # that an additional op in one step does not change the numbers of the others.
    forward_part = np.where(distinct >= base, distinct - base, distinct)
    in_loop = forward_part < num_positions
    within = np.where(in_loop, forward_part, first_start)
    order = np.lexsort((distinct >= base, within, ~in_loop, op_process))
    rank = np.empty(num_ops, dtype=np.int32)
    rank[order] = np.arange(num_ops, dtype=np.int32)
    op_of_instance = rank[inverse].astype(np.int32)
    names = _Names(profile, meaning, instances, op_of_instance, num_ops)
    used = np.zeros(num_ops, dtype=bool)
    used[op_of_instance[work.with_tensor_cores(profile)]] = True
    ops = _describe(names, framework, used)
    return OpTable(ops, op_of_instance)


def _forward_identity(
    meaning: RangeMeaning,
    instances: Instances,
    process: Int64,
    step: Int64,
    num_steps: int,
) -> tuple[Int64, int]:
    """Return a number per instance, equal for executions of one op; -1 for backward ones.

    Returns:
        The numbers, and the count of those (from 0 on) that are positions in the loop.
    """
    identity = np.full(len(instances), NO_ROW, dtype=np.int64)
    own = instances.origin != Origin.BACKWARD
    code = _codes(instances, process)
    ordered_ops = np.flatnonzero(own & np.isin(instances.origin, _NUMBERED))
    next_identity = 0
    if (meaning.has_dictionary_markers or num_steps > 1) and not meaning.is_graph:
        for number in np.unique(process[ordered_ops]).tolist():
            rows = ordered_ops[process[ordered_ops] == number]
            rows = rows[ordered(instances.thread[rows], instances.start_ns[rows])]
            aligned = align_steps(code[rows], step[rows], num_steps)
            has_position = aligned.position >= 0
            identity[rows[has_position]] = next_identity + aligned.position[has_position]
            next_identity += aligned.length
    rest = np.flatnonzero(own & (identity < 0))
    # Without a position: joined by path, name, direction and shapes.
    shapes = _complete_shapes(code[rest], instances.shapes[rest].astype(np.int64))
    stray = instances.origin[rest] == Origin.STRAY
    shapes[stray] = -1
    if meaning.has_dictionary_markers:
        shapes[stray] = -2 - np.arange(int(stray.sum()))
    identity[rest] = next_identity + row_codes(code[rest], shapes)[1]
    return identity, next_identity


def _complete_shapes(code: Int64, shapes: Int64) -> Int64:
    """Return shapes of executions without recorded ones: those of the others, if all have the same.

    Markers write shapes only in the first calls of a model.
    """
    known = shapes >= 0
    if known.all() or not known.any():
        return shapes
    count = int(code.max()) + 1
    low = np.full(count, np.iinfo(np.int64).max, dtype=np.int64)
    high = np.full(count, NO_ROW, dtype=np.int64)
    np.minimum.at(low, code[known], shapes[known])
    np.maximum.at(high, code[known], shapes[known])
    of_code = np.where(low == high, high, -1)
    return np.where(known, shapes, of_code[code])


def _codes(instances: Instances, process: Int64) -> Int64:
    """One number per distinct (process, origin, path, label, name of a dictionary marker)."""
    columns = (process, instances.origin, instances.path, instances.label, instances.marker)
    return row_codes(*columns)[1].astype(np.int64)


def _describe(names: _Names, framework: Framework, ran_tc: Bool) -> tuple[Op, ...]:
    numbers = type_numbers(names.types, names.forward)
    used: set[str] = set()
    ops = []
    for row, forward in enumerate(names.forward.tolist()):
        origin = names.origins[row]
        op_type = names.types[forward if forward >= 0 else row]
        in_model = origin in _MODEL_ORIGINS and framework.is_tc_eligible(op_type)
        eligible = in_model or (bool(ran_tc[row]) and origin is not Origin.STRAY)
        ops.append(
            Op(
                op_id=unique_op_id(
                    op_id_of(op_type, int(numbers[row]), backward=forward >= 0), used
                ),
                op_name=names.full(row),
                op_type=op_type,
                direction=_direction(origin) if framework.has_direction else "",
                process=names.process(row),
                data_type=names.data_type(row),
                stack_trace=names.stack_trace(row),
                forward=forward,
                origin=origin,
                tc_eligible=eligible and not names.is_overhead(row),
                evidence=Evidence(int(names.evidence[row])),
                shared_modules=names.shared_modules(row),
            )
        )
    return tuple(ops)


_MODEL_ORIGINS = (
    Origin.FORWARD,
    Origin.BACKWARD,
    Origin.RECOMPUTED,
    Origin.COMPILED_BACKWARD,
)
_NUMBERED = (
    Origin.FORWARD,
    Origin.BACKWARD_ALONE,
    Origin.RECOMPUTED,
    Origin.COMPILED_BACKWARD,
)


def _rank_prefixes(profile: Profile, instances: Instances) -> dict[int, str]:
    """Return ``/rank_0`` and so on if several processes ran ops, ordered by their device.

    A process that is no rank of the job is named by its id: ``/process_1234``.
    """
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
    ranks = rank_processes(profile)
    if len(ranks) < 2:
        ranks = set() if len(main_devices(profile)) > 1 else set(processes)
    prefixes = {p: f"/process_{profile.process_ids[p]}" for p in processes if p not in ranks}
    numbered = enumerate(process for process in ranked if process in ranks)
    return prefixes | {process: f"/rank_{rank}" for rank, process in numbered}


_BACKWARD = (
    Origin.BACKWARD,
    Origin.BACKWARD_ALONE,
    Origin.COMBINED,
    Origin.COMPILED_BACKWARD,
)


def _direction(origin: Origin) -> str:
    if origin in _BACKWARD:
        return BPROP
    if origin is Origin.RECOMPUTED:
        return RECOMPUTE
    return "" if origin is Origin.STRAY else FPROP


def unique_op_id(op_id: str, used: set[str]) -> str:
    """The Op ID with a suffix if it is used: types like ``conv2d_bprop`` clash with others' ids."""
    candidate, more = op_id, 2
    while candidate in used:
        candidate, more = f"{op_id}_{more}", more + 1
    used.add(candidate)
    return candidate


def op_id_of(op_type: str, number: int, *, backward: bool) -> str:
    """Return ``CONV2D_1``, or ``CONV2D_BPROP_1`` for a backward op."""
    return (
        f"{op_type.upper()}_{BPROP.upper()}_{number}" if backward else f"{op_type.upper()}_{number}"
    )


def type_numbers(types: list[str], forward_of: Int64) -> Int64:
    """Return the running number per type; a backward op has the number of its forward op."""
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
        op_of: Int32,
        num_ops: int,
    ) -> None:
        self._profile = profile
        self._meaning = meaning
        self._instances = instances
        self._sample = np.full(num_ops, NO_ROW, dtype=np.int64)
        by_time = ordered(instances.start_ns)[::-1]
        self._sample[op_of[by_time]] = by_time
        self._prefix = _rank_prefixes(profile, instances)
        self.origins = [Origin(int(v)) for v in instances.origin[self._sample]]
        self.forward = np.full(num_ops, NO_ROW, dtype=np.int64)
        backward = np.flatnonzero(instances.origin[self._sample] == Origin.BACKWARD)
        self.forward[backward] = op_of[instances.forward[self._sample[backward]]]
        self.evidence = np.zeros(num_ops, dtype=np.int64)
        np.maximum.at(self.evidence, op_of, instances.evidence)
        self.types = [self._type(row) for row in range(num_ops)]
        self._base = [self._base_name(row) for row in range(num_ops)]
        self._number = self._numbers()

    def _label(self, row: int) -> str:
        if self.origins[row] is Origin.COMBINED:
            return BACKWARD_TYPE
        code = int(self._instances.label[self._sample[row]])
        stray = self.origins[row] is Origin.STRAY
        return self._profile.strings[code] if stray else self._meaning.labels[code]

    def _type(self, row: int) -> str:
        if self.origins[row] in (Origin.BACKWARD_ALONE, Origin.COMBINED):
            return BACKWARD_TYPE
        if self.origins[row] is Origin.STRAY:
            return self._label(row)
        return self._meaning.op_type(int(self._instances.label[self._sample[row]]))

    def _base_name(self, row: int) -> str:
        origin, label = self.origins[row], self._label(row)
        if origin is Origin.STRAY:
            return UNASSOCIATED + label
        prefix = self._prefix.get(self.process(row), "")
        instance = self._sample[row]
        marker = int(self._instances.marker[instance])
        if marker in self._meaning.op_names:
            return prefix + self._meaning.op_names[marker]
        path = self._instances.paths[int(self._instances.path[instance])]
        middle = f"{BACKWARD_TYPE}/" if origin is Origin.BACKWARD_ALONE else ""
        last = label if self._meaning.is_graph else label.replace("/", "|")
        return f"{prefix}{path}{middle}{last}"

    def _numbers(self) -> list[int]:
        """Number in ``name[n]``: ops of one name in order; names from markers have no number."""
        seen: dict[str, int] = {}
        numbers = []
        for row, base in enumerate(self._base):
            counted = self.origins[row] in _NUMBERED
            if counted and not self._has_marker_name(row):
                seen[base] = seen.get(base, 0) + 1
            numbers.append(seen.get(base, 1) if counted else 1)
        return numbers

    def _has_marker_name(self, row: int) -> bool:
        return int(self._instances.marker[self._sample[row]]) in self._meaning.op_names

    def _described_by(self, row: int) -> int:
        """Return the forward op of a backward op, which names both."""
        return int(self.forward[row]) if self.forward[row] >= 0 else row

    def is_overhead(self, row: int) -> bool:
        """Return whether an op is in a group that is not part of the model."""
        path = self._instances.paths[int(self._instances.path[self._sample[row]])]
        return path.split("/")[1] in self._meaning.overhead

    def process(self, row: int) -> int:
        """Return the process of an op."""
        return int(self._profile.thread_process[self._instances.thread[self._sample[row]]])

    def full(self, row: int) -> str:
        """Return the full op name."""
        row = self._described_by(row)
        number = self._number[row]
        return f"{self._base[row]}[{number}]" if number > 1 else self._base[row]

    def data_type(self, row: int) -> str:
        """Element type from a marker or the source; empty: not recorded."""
        sample = self._sample[self._described_by(row)]
        text = self._meaning.texts.get(int(self._instances.range_name[sample]))
        if text is None:
            module = self._meaning.module_texts.get(int(self._instances.marker[sample]))
            if module and (module.is_input or is_tc_eligible(self.types[self._described_by(row)])):
                text = module
        return text.data_type if text else self._recorded_type(int(self._instances.shapes[sample]))

    def _recorded_type(self, shapes: int) -> str:
        """Element type of an op's first input in the source; empty: not recorded."""
        types = self._profile.shape_types
        return types[shapes] if 0 <= shapes < len(types) else ""

    def compiled(self, row: int) -> CompiledKernel | None:
        """What the compiler recorded about an op; None: it is not part of compiled code."""
        return self._meaning.compiled.get(int(self._instances.range_name[self._sample[row]]))

    def shared_modules(self, row: int) -> str:
        """Return the modules that the compiler merged into an op; empty: one, or unknown."""
        kernel = self.compiled(row)
        return kernel.shared if kernel is not None else ""

    def stack_trace(self, row: int) -> str:
        """Call sites from a marker, or an empty text if it was not recorded."""
        sample = self._sample[self._described_by(row)]
        kernel = self.compiled(row)
        if kernel is not None:
            return "\n".join(kernel.lines)
        return self._meaning.stack_traces.get(int(self._instances.marker[sample]), "")
