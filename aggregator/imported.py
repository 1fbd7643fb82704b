"""An imported profile: everything the database stores of it, before any aggregation."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from aggregator.busy_time import busy_levels, communication_busy, domain_busy_levels
from aggregator.columns import dense_codes, distinct, first_rows, ordered
from aggregator.communication import is_communication
from aggregator.correlate.custom_domains import DomainWork
from aggregator.correlate.messages import Messages
from aggregator.correlate.op_table import Op, OpTable
from aggregator.correlate.work import CorrelatedWork
from aggregator.flops.units import InstanceCosts
from aggregator.frameworks.meaning import RangeMeaning
from aggregator.intervals import Flattened, SegmentUnion
from aggregator.iterations import KeyNode, NamedRanges
from aggregator.metrics.model import (
    DeviceColumns,
    InstanceColumns,
    KernelColumns,
    MemoryColumns,
    OpColumns,
    OpKernelColumns,
    RollupInput,
)
from aggregator.model_settings import recorded_settings
from aggregator.precision import is_half_precision
from aggregator.profile import Bool, Int32, Int64, Kernels, Profile
from aggregator.tensor_cores import classify

TC_ELIGIBLE, TC_UNASSOCIATED, TC_NOT_ELIGIBLE = 0, 2, 3
"""DLProf's ``tc_support_status``."""


@dataclass
class KernelNames:
    """Distinct (short name, long name, compute capability) of the kernels run.

    Attributes:
        of_kernel: Row of this table per kernel, in order of launch.
        short: Code of the short name into ``Profile.strings``.
        long: Code of the long name into ``Profile.strings``.
        verdict: 1 uses Tensor Cores, 0 does not, -1 the name cannot tell.
    """

    of_kernel: Int32
    short: Int32
    long: Int32
    verdict: Int32

    def communicates(self, strings: tuple[str, ...]) -> Bool:
        """Whether each distinct kernel moves data between GPUs."""
        return np.array([is_communication(strings[code]) for code in self.long.tolist()], bool)

    @property
    def uses_tc(self) -> Bool:
        """Whether a kernel counts as using Tensor Cores: unknown does not."""
        result: Bool = self.verdict == 1
        return result


@dataclass
class ImportedProfile:
    """A correlated profile, ready to be stored and aggregated.

    Attributes:
        profile: The raw columns.
        mode: Mode in which ranges were read.
        mode_reason: Why that mode.
        meaning: What range names mean.
        work: Instances and device work.
        ops: The framework's ops (or the placeholder of simple mode).
        domains: Custom domains.
        kernel_order: Row of ``profile.kernels`` at each position in order of launch.
        memory_order: Row of copies followed by sets at each position in order of launch.
        kernel_names: Distinct kernels.
        ranges: Ranges that may mark an iteration.
        key_node: The key node found.
        rollups: What aggregations are computed from: the default domain, then each custom one.
        costs: What each op instance should cost.
        messages: Sizes of collectives.
    """

    profile: Profile
    mode: str
    mode_reason: str
    meaning: RangeMeaning
    work: CorrelatedWork
    ops: OpTable
    domains: tuple[DomainWork, ...]
    kernel_order: Int64
    memory_order: Int64
    kernel_names: KernelNames
    ranges: NamedRanges
    key_node: KeyNode
    rollups: tuple[RollupInput, ...]
    costs: InstanceCosts = field(default_factory=InstanceCosts)
    messages: Messages = field(default_factory=Messages)

    @property
    def rollup(self) -> RollupInput:
        """The default domain, which holds all device work."""
        return self.rollups[0]

    def all_ops(self) -> tuple[Op, ...]:
        """Ops of all domains: the framework's first."""
        return (*self.ops.ops, *(op for domain in self.domains for op in domain.ops))

    def op_offset(self, number: int) -> int:
        """First row in ``all_ops`` of the ops of custom domain ``number``."""
        return len(self.ops.ops) + sum(len(domain.ops) for domain in self.domains[:number])


def memory_column(work: CorrelatedWork, name: str) -> Int64:
    """A ``LaunchedWork`` or ``MemoryOps`` column of copies followed by sets."""
    parts = (work.copies, work.sets)
    if hasattr(work.copies, name):
        return np.concatenate([getattr(part, name) for part in parts])
    return np.concatenate([getattr(part.work, name) for part in parts])


def memory_launch_order(work: CorrelatedWork) -> Int64:
    """Rows of copies followed by sets in order of launch."""
    start, api = memory_column(work, "start_ns"), memory_column(work, "api_start_ns")
    return ordered(api, start)


def distinct_kernels(profile: Profile, kernels: Kernels, order: Int64) -> KernelNames:
    """Find the distinct kernels and ask once per kernel whether it uses Tensor Cores."""
    device = kernels.device[order]
    columns = (kernels.name[order], kernels.long_name[order], device)
    size = [int(column.max(initial=0)) + 1 for column in columns]
    key = (columns[0].astype(np.int64) * size[1] + columns[1]) * size[2] + columns[2]
    unique, code = dense_codes(key)
    short = (unique // size[2] // size[1]).astype(np.int32)
    long = (unique // size[2] % size[1]).astype(np.int32)
    device_of = unique % size[2]
    verdict = np.full(len(unique), -1, dtype=np.int32)
    for row in np.unique(device_of).tolist():
        capability = profile.devices[row].compute_capability or (9, 0)
        rows = np.flatnonzero(device_of == row)
        names = [profile.strings[code] for code in long[rows].tolist()]
        verdict[rows] = classify(names, capability)
    return KernelNames(code, short, long, verdict)


def build_rollup_inputs(data: ImportedProfile) -> tuple[RollupInput, ...]:
    """Columns that aggregations are computed from, per domain."""
    return _InputBuilder(data).build()


class _InputBuilder:
    """Makes the roll-up columns of all domains; ops and (op, kernel) pairs are shared."""

    def __init__(self, data: ImportedProfile) -> None:
        self._data = data
        self._profile = data.profile
        self._work = data.work
        self._kernel_rank = inverse_order(data.kernel_order)
        self._memory_rank = inverse_order(data.memory_order)
        self._ops = op_columns(data.all_ops())
        self._uses_tc = np.empty(len(data.profile.kernels), dtype=bool)
        names = data.kernel_names
        self._uses_tc[data.kernel_order] = names.uses_tc[names.of_kernel]
        self._communicates = np.empty(len(data.profile.kernels), dtype=bool)
        moves = names.communicates(data.profile.strings)
        self._communicates[data.kernel_order] = moves[names.of_kernel]
        self._last_ns = self._end_of_profile()

    def build(self) -> tuple[RollupInput, ...]:
        """The default domain, then the custom ones."""
        data = self._data
        instance = self._work.kernels.instance[data.kernel_order]
        op_parts = [data.ops.op_of_instance[instance].astype(np.int64)]
        position_parts = [np.arange(len(data.kernel_order))]
        for number, domain in enumerate(data.domains):
            own = domain.kernels.own()
            op_parts.append(domain.op[own.instance].astype(np.int64) + data.op_offset(number))
            position_parts.append(self._kernel_rank[own.row])
        pair_of, pairs = _op_kernels(
            self._profile,
            data.kernel_names,
            np.concatenate(position_parts),
            np.concatenate(op_parts),
        )
        bounds = np.cumsum([0, *(len(part) for part in op_parts)])
        inputs = [self._default(pair_of[: bounds[1]], pairs)]
        for number, domain in enumerate(data.domains):
            pair_rows = pair_of[bounds[number + 1] : bounds[number + 2]]
            inputs.append(
                self._custom(number, domain, position_parts[number + 1], pair_rows, pairs)
            )
        return tuple(inputs)

    def _end_of_profile(self) -> int:
        work = self._work
        kinds = (work.kernels, work.copies, work.sets, work.graphs)
        ends = [launched.work.end_ns for launched in kinds]
        ends.append(self._profile.api_calls.end_ns)
        return max(int(end.max(initial=0)) for end in ends)

    def _default(self, pair_of: Int32, pairs: OpKernelColumns) -> RollupInput:
        data, work = self._data, self._work
        instances = work.instances
        columns = InstanceColumns(
            op=data.ops.op_of_instance,
            start_ns=instances.start_ns,
            stop_ns=instances.end_ns,
            cpu_time_ns=work.cpu_time_ns,
            cpu_overhead_ns=work.cpu_overhead_ns,
            gpu_time_ns=work.gpu.covered_ns,
            gpu_idle_ns=_idle(work.gpu),
        )
        kernels = self._kernel_columns(np.arange(len(pair_of)), pair_of)
        memory = self._memory_columns(np.arange(len(data.memory_order)))
        busy = busy_levels(self._profile, work, self._uses_tc, instances)
        everything = np.ones(len(self._profile.kernels), dtype=bool)
        collectives = communication_busy(self._profile, work, self._communicates, everything)
        return self._input(0, columns, kernels, memory, (busy, collectives), pairs)

    def _custom(
        self,
        number: int,
        domain: DomainWork,
        positions: Int64,
        pair_of: Int32,
        pairs: OpKernelColumns,
    ) -> RollupInput:
        order = ordered(positions)
        columns = InstanceColumns(
            op=(domain.op + self._data.op_offset(number)).astype(np.int32),
            start_ns=domain.start_ns,
            stop_ns=domain.end_ns,
            cpu_time_ns=domain.cpu_time_ns,
            cpu_overhead_ns=domain.cpu_overhead_ns,
            gpu_time_ns=domain.gpu.covered_ns,
            gpu_idle_ns=_idle(domain.gpu),
        )
        kernels = self._kernel_columns(positions[order], pair_of[order])
        memory = self._memory_columns(np.sort(self.memory_positions(domain)))
        busy = domain_busy_levels(self._profile, self._work, self._uses_tc, domain)
        covered = np.zeros(len(self._profile.kernels), dtype=bool)
        covered[domain.kernels.own().row] = True
        collectives = communication_busy(self._profile, self._work, self._communicates, covered)
        return self._input(number + 1, columns, kernels, memory, (busy, collectives), pairs)

    def memory_positions(self, domain: DomainWork) -> Int64:
        """Positions in order of launch of the copies and sets that a domain covers."""
        rows = [domain.copies.own().row, domain.sets.own().row + len(self._profile.copies)]
        return self._memory_rank[np.concatenate(rows)]

    def _input(
        self,
        domain: int,
        instances: InstanceColumns,
        kernels: KernelColumns,
        memory: MemoryColumns,
        busy: tuple[tuple[tuple[Flattened, ...], ...], tuple[tuple[Flattened, Flattened], ...]],
        pairs: OpKernelColumns,
    ) -> RollupInput:
        data = self._data
        return RollupInput(
            domain=domain,
            mode=data.mode,
            last_ns=self._last_ns,
            ops=self._ops,
            instances=instances,
            kernels=kernels,
            op_kernels=pairs,
            memory=memory,
            devices=_device_columns(self._profile),
            busy=busy[0],
            collectives=busy[1],
            ranges=data.ranges,
            default_key=(data.key_node.name, data.key_node.reason),
            settings=recorded_settings(self._profile.range_names),
        )

    def _kernel_columns(self, positions: Int64, pair_of: Int32) -> KernelColumns:
        rows = self._data.kernel_order[positions]
        kernels, launched = self._profile.kernels, self._work.kernels
        return KernelColumns(
            op_kernel=pair_of,
            api_start_ns=launched.api_start_ns[rows],
            api_duration_ns=launched.api_duration_ns[rows],
            duration_ns=(kernels.end_ns - kernels.start_ns)[rows],
        )

    def _memory_columns(self, positions: Int64) -> MemoryColumns:
        rows = self._data.memory_order[positions]
        call = memory_column(self._work, "call")
        api = self._profile.api_calls
        name = np.full(len(call), -1, dtype=np.int64)
        name[call >= 0] = api.name[call[call >= 0]]
        length = memory_column(self._work, "end_ns") - memory_column(self._work, "start_ns")
        return MemoryColumns(
            name=name[rows].astype(np.int32),
            api_start_ns=memory_column(self._work, "api_start_ns")[rows],
            api_duration_ns=memory_column(self._work, "api_duration_ns")[rows],
            duration_ns=length[rows],
        )


def _idle(gpu: SegmentUnion) -> Int64:
    return gpu.last_end_ns - gpu.first_start_ns - gpu.covered_ns


def inverse_order(order: Int64) -> Int64:
    """Position of each row in an order."""
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank


def op_columns(ops: tuple[Op, ...]) -> OpColumns:
    """Ops as columns."""
    return OpColumns(
        op_ids=tuple(op.op_id for op in ops),
        names=tuple(op.op_name for op in ops),
        types=tuple(op.op_type for op in ops),
        directions=tuple(op.direction for op in ops),
        data_types=tuple(op.data_type for op in ops),
        processes=tuple(op.process for op in ops),
        tc_eligible=np.array([op.tc_eligible for op in ops], dtype=bool),
    )


def _op_kernels(
    profile: Profile, names: KernelNames, positions: Int64, op: Int64
) -> tuple[Int32, OpKernelColumns]:
    """Distinct (op, short name, uses Tensor Cores), and the row of each kernel in its domain.

    Args:
        profile: The profile.
        names: Distinct kernels.
        positions: Position in order of launch, one after another for every domain.
        op: Op of the kernel in that domain.
    """
    of_kernel = names.of_kernel[positions]
    short = names.short[of_kernel].astype(np.int64)
    uses_tc = names.uses_tc[of_kernel].astype(np.int64)
    width = int(short.max(initial=0)) + 1
    key = (op * width + short) * 2 + uses_tc
    unique, code = dense_codes(key)
    first = first_rows(code)
    half_names = np.array(
        [is_half_precision(profile.strings[code]) for code in names.long.tolist()], dtype=bool
    )
    columns = OpKernelColumns(
        op=(unique // 2 // width).astype(np.int32),
        name=(unique // 2 % width).astype(np.int32),
        uses_tc=unique % 2 == 1,
        half_precision=half_names[of_kernel[first]] if len(first) else np.empty(0, dtype=bool),
    )
    return code, columns


def _device_columns(profile: Profile) -> DeviceColumns:
    used = np.zeros(len(profile.devices), dtype=bool)
    for work in (profile.kernels, profile.copies, profile.sets, profile.graphs):
        used[distinct(work.device)] = True
    return DeviceColumns(
        device_ids=tuple(device.device_id for device in profile.devices),
        names=tuple(device.name for device in profile.devices),
        used=used,
        memory_bytes=tuple(device.memory_bytes for device in profile.devices),
        memory_used_bytes=tuple(device.memory_used_bytes for device in profile.devices),
    )
