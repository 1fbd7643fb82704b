"""An imported profile: everything the database stores of it, before any aggregation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aggregator.correlate.op_table import OpTable
from aggregator.correlate.ops import Instances, Origin
from aggregator.correlate.work import CorrelatedWork, LaunchedWork
from aggregator.frameworks.meaning import RangeMeaning
from aggregator.frameworks.pytorch import is_tc_eligible
from aggregator.intervals import Flattened, flatten, union_of
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
        ops: The ops.
        kernel_order: Row of ``profile.kernels`` at each position in order of launch.
        memory_order: Row of copies followed by sets at each position in order of launch.
        kernel_names: Distinct kernels.
        op_kernel_of: Row of ``op_kernels`` per kernel, in order of launch.
        ranges: Ranges that may mark an iteration.
        key_node: The key node found.
        rollup: What aggregations are computed from.
    """

    profile: Profile
    mode: str
    mode_reason: str
    meaning: RangeMeaning
    work: CorrelatedWork
    ops: OpTable
    kernel_order: Int64
    memory_order: Int64
    kernel_names: KernelNames
    ranges: NamedRanges
    key_node: KeyNode
    rollup: RollupInput


def memory_column(work: CorrelatedWork, name: str) -> Int64:
    """A ``LaunchedWork`` or ``MemoryOps`` column of copies followed by sets."""
    parts = (work.copies, work.sets)
    if hasattr(work.copies, name):
        return np.concatenate([getattr(part, name) for part in parts])
    return np.concatenate([getattr(part.work, name) for part in parts])


def memory_launch_order(work: CorrelatedWork) -> Int64:
    """Rows of copies followed by sets in order of launch."""
    start, api = memory_column(work, "start_ns"), memory_column(work, "api_start_ns")
    return np.lexsort((start, api)).astype(np.int64)


def distinct_kernels(profile: Profile, kernels: Kernels, order: Int64) -> KernelNames:
    """Find the distinct kernels and ask once per kernel whether it uses Tensor Cores."""
    device = kernels.device[order]
    columns = (kernels.name[order], kernels.long_name[order], device)
    size = [int(column.max(initial=0)) + 1 for column in columns]
    key = (columns[0].astype(np.int64) * size[1] + columns[1]) * size[2] + columns[2]
    unique, inverse = np.unique(key, return_inverse=True)
    short = (unique // size[2] // size[1]).astype(np.int32)
    long = (unique // size[2] % size[1]).astype(np.int32)
    device_of = unique % size[2]
    verdict = np.full(len(unique), -1, dtype=np.int32)
    for row in np.unique(device_of).tolist():
        capability = profile.devices[row].compute_capability or (9, 0)
        rows = np.flatnonzero(device_of == row)
        names = [profile.strings[code] for code in long[rows].tolist()]
        verdict[rows] = classify(names, capability)
    return KernelNames(inverse.astype(np.int32), short, long, verdict)


def busy_levels(
    profile: Profile, work: CorrelatedWork, uses_tc: Bool, instances: Instances
) -> tuple[tuple[Flattened, ...], ...]:
    """Cumulative unions of busy time per device, in the priority of ``LEVELS``.

    Args:
        profile: The profile.
        work: Its device work.
        uses_tc: Whether each kernel of ``profile.kernels`` uses Tensor Cores.
        instances: Op instances; their CPU time counts for the devices that their process used.
    """
    result = []
    for device in range(len(profile.devices)):
        parts = _device_parts(profile, work, uses_tc, instances, device)
        levels: list[Flattened] = []
        for part in parts:
            levels.append(union_of(levels[-1], part) if levels else part)
        result.append(tuple(levels))
    return tuple(result)


def _device_parts(
    profile: Profile, work: CorrelatedWork, uses_tc: Bool, instances: Instances, device: int
) -> list[Flattened]:
    kernels = profile.kernels
    here = kernels.device == device

    def part(launched: LaunchedWork, rows: Bool) -> Flattened:
        return flatten(launched.work.start_ns[rows], launched.work.end_ns[rows])

    memory = [
        part(launched, launched.work.device == device) for launched in (work.copies, work.sets)
    ]
    processes = _processes_of(profile, device)
    loader_rows = instances.origin == Origin.DATALOADER
    loader_rows &= np.isin(profile.thread_process[instances.thread], processes)
    cpu_rows = np.isin(instances.busy_process, processes)
    empty = np.empty(0, dtype=np.int64)
    return [
        part(work.kernels, here & uses_tc),
        part(work.kernels, here & ~uses_tc),
        union_of(*memory),
        flatten(instances.start_ns[loader_rows], instances.end_ns[loader_rows]),
        Flattened(empty, empty),
        flatten(instances.busy_start_ns[cpu_rows], instances.busy_end_ns[cpu_rows]),
    ]


def _processes_of(profile: Profile, device: int) -> Int64:
    """Processes whose CPU time counts for a device: those that ran work on it.

    Where nothing ran on any device the first device stands for the whole run.
    """
    kinds = (profile.kernels, profile.copies, profile.sets)
    used = [np.unique(work.process[work.device == device]) for work in kinds]
    found = np.unique(np.concatenate(used)).astype(np.int64)
    nothing_ran = not any(len(work) for work in kinds)
    return np.arange(len(profile.process_ids)) if nothing_ran and device == 0 else found


def build_rollup_input(
    profile: Profile,
    mode: str,
    work: CorrelatedWork,
    table: OpTable,
    names: KernelNames,
    orders: tuple[Int64, Int64],
    loop: tuple[NamedRanges, KeyNode],
) -> RollupInput:
    """Columns that aggregations are computed from."""
    kernel_order, memory_order = orders
    ranges, key_node = loop
    uses_tc_of_kernel = np.empty(len(profile.kernels), dtype=bool)
    uses_tc_of_kernel[kernel_order] = names.uses_tc[names.of_kernel]
    op_kernel_of, op_kernels = _op_kernels(profile, work, table, names, kernel_order)
    instances = work.instances
    ends = [launched.work.end_ns for launched in (work.kernels, work.copies, work.sets)]
    ends.append(profile.api_calls.end_ns)
    return RollupInput(
        mode=mode,
        last_ns=max(int(end.max(initial=0)) for end in ends),
        ops=op_columns(table),
        instances=InstanceColumns(
            op=table.op_of_instance,
            start_ns=instances.start_ns,
            stop_ns=instances.end_ns,
            cpu_time_ns=work.cpu_time_ns,
            cpu_overhead_ns=work.cpu_overhead_ns,
            gpu_time_ns=work.gpu.covered_ns,
            gpu_idle_ns=work.gpu.last_end_ns - work.gpu.first_start_ns - work.gpu.covered_ns,
        ),
        kernels=KernelColumns(
            op_kernel=op_kernel_of,
            api_start_ns=work.kernels.api_start_ns[kernel_order],
            api_duration_ns=work.kernels.api_duration_ns[kernel_order],
            duration_ns=(profile.kernels.end_ns - profile.kernels.start_ns)[kernel_order],
        ),
        op_kernels=op_kernels,
        memory=_memory_columns(profile, work, memory_order),
        devices=_device_columns(profile),
        busy=busy_levels(profile, work, uses_tc_of_kernel, instances),
        ranges=ranges,
        default_key=(key_node.name, key_node.reason),
    )


def op_columns(table: OpTable) -> OpColumns:
    """The ops as columns."""
    ops = table.ops
    return OpColumns(
        op_ids=tuple(op.op_id for op in ops),
        names=tuple(op.op_name for op in ops),
        types=tuple(op.op_type for op in ops),
        directions=tuple(op.direction for op in ops),
        data_types=tuple(op.data_type for op in ops),
        processes=tuple(op.process for op in ops),
        tc_eligible=np.array([is_tc_eligible(op.op_type) for op in ops], dtype=bool),
        domain=np.zeros(len(ops), dtype=np.int32),
    )


def _op_kernels(
    profile: Profile, work: CorrelatedWork, table: OpTable, names: KernelNames, order: Int64
) -> tuple[Int32, OpKernelColumns]:
    """Distinct (op, short name, uses Tensor Cores), and the row of each kernel by launch."""
    op = table.op_of_instance[work.kernels.instance[order]].astype(np.int64)
    short = names.short[names.of_kernel].astype(np.int64)
    uses_tc = names.uses_tc[names.of_kernel].astype(np.int64)
    width = int(short.max(initial=0)) + 1
    key = (op * width + short) * 2 + uses_tc
    unique, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    half_names = np.array(
        [is_half_precision(profile.strings[code]) for code in names.long.tolist()], dtype=bool
    )
    columns = OpKernelColumns(
        op=(unique // 2 // width).astype(np.int32),
        name=(unique // 2 % width).astype(np.int32),
        uses_tc=unique % 2 == 1,
        half_precision=half_names[names.of_kernel[first]] if len(first) else np.empty(0, bool),
    )
    return inverse.astype(np.int32), columns


def _memory_columns(profile: Profile, work: CorrelatedWork, order: Int64) -> MemoryColumns:
    call = memory_column(work, "call")
    if len(profile.api_calls):
        name = np.where(call >= 0, profile.api_calls.name[np.maximum(call, 0)], -1)
    else:
        name = np.full(len(call), -1)
    end, start = memory_column(work, "end_ns"), memory_column(work, "start_ns")
    return MemoryColumns(
        name=name[order].astype(np.int32),
        api_start_ns=memory_column(work, "api_start_ns")[order],
        api_duration_ns=memory_column(work, "api_duration_ns")[order],
        duration_ns=(end - start)[order],
    )


def _device_columns(profile: Profile) -> DeviceColumns:
    used = np.zeros(len(profile.devices), dtype=bool)
    for work in (profile.kernels, profile.copies, profile.sets):
        used[np.unique(work.device)] = True
    return DeviceColumns(
        device_ids=tuple(device.device_id for device in profile.devices),
        names=tuple(device.name for device in profile.devices),
        used=used,
    )
