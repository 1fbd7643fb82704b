"""The columns that aggregations of an imported profile are computed from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from aggregator.correlate.custom_domains import DomainWork
from aggregator.correlate.instances import Instances, Origin
from aggregator.correlate.ranks import are_ranks
from aggregator.correlate.work import CorrelatedWork, LaunchedWork
from aggregator.costs.units import InstanceCosts
from aggregator.events.model import Devices, Launches, OpKernels, OpTimes
from aggregator.importing.imported import ImportedProfile, KernelNames, inverse_order, memory_column
from aggregator.kernels.traits import half_precision_kernels
from aggregator.metrics.model import RollupInput
from aggregator.profile.arrays import (
    Bool,
    Int32,
    Int64,
    Integers,
    dense_codes,
    distinct,
    ordered,
)
from aggregator.profile.intervals import NOTHING, Flattened, flatten, union_of
from aggregator.profile.profile import DeviceWork, Profile
from aggregator.profile.settings import recorded_settings


def rollup_inputs(data: ImportedProfile) -> tuple[RollupInput, ...]:
    """The columns of the default domain, then those of the custom ones.

    Ops and (op, kernel) pairs are shared by all domains.
    """
    profile, work = data.profile, data.work
    instance = work.kernels.instance[data.kernel_order]
    op_of_kernel = [data.ops.op_of_instance[instance].astype(np.int64)]
    positions = [np.arange(len(data.kernel_order))]
    kernel_rank, memory_rank = inverse_order(data.kernel_order), inverse_order(data.memory_order)
    for number, domain in enumerate(data.domains):
        own = domain.kernels.own()
        rank = kernel_rank[own.row]
        order = ordered(rank)
        positions.append(rank[order])
        op = domain.op[own.instance[order]].astype(np.int64)
        op_of_kernel.append(op + data.op_offset(number))
    pair_of, pairs = _op_kernels(
        profile, data.kernel_names, np.concatenate(positions), np.concatenate(op_of_kernel)
    )
    pair_parts = np.split(pair_of, np.cumsum([len(part) for part in positions])[:-1])
    names = data.kernel_names
    traits = np.empty((2, len(profile.kernels)), dtype=bool)
    flags = names.uses_tc, names.communicates(profile.strings)
    traits[:, data.kernel_order] = np.stack(flags)[:, names.of_kernel]
    counted = _everything(profile, work.instances)
    default = RollupInput(
        domain=0,
        mode=data.mode,
        first_ns=data.first_ns,
        marked_until_ns=data.marked_until_ns,
        gaps_ns=profile.recorded_part.gaps_ns,
        missing_ns=profile.missing_ns,
        is_part=profile.recorded_part.is_part,
        last_ns=_end_of_profile(profile),
        are_ranks=are_ranks(profile),
        ops=data.op_columns(),
        instances=_instance_columns(data.ops.op_of_instance, work.instances, work),
        kernels=_kernel_columns(data, positions[0], pair_parts[0]),
        op_kernels=pairs,
        memory=_memory_columns(data, np.arange(len(data.memory_order))),
        devices=_device_columns(profile),
        busy=_busy_levels(profile, work, traits[0], counted),
        collectives=_communication(profile, work, traits[1], counted),
        ranges=data.ranges,
        default_key=(data.key_node.name, data.key_node.reason),
        costs=data.costs,
        phases=data.phases,
        settings=recorded_settings(profile.range_names),
    )
    inputs = [default]
    for number, domain in enumerate(data.domains):
        rows = [domain.copies.own().row, domain.sets.own().row + len(profile.copies)]
        counted = _covered_by(profile, domain)
        inputs.append(
            replace(
                default,
                domain=number + 1,
                instances=_instance_columns(domain.op + data.op_offset(number), domain, domain),
                kernels=_kernel_columns(data, positions[number + 1], pair_parts[number + 1]),
                memory=_memory_columns(data, np.sort(memory_rank[np.concatenate(rows)])),
                busy=_busy_levels(profile, work, traits[0], counted),
                collectives=_communication(profile, work, traits[1], counted),
                costs=InstanceCosts(),
            )
        )
    return tuple(inputs)


_KINDS = ("kernels", "copies", "sets", "graphs")


def _kinds(profile: Profile) -> tuple[DeviceWork, ...]:
    return profile.kernels, profile.copies, profile.sets, profile.graphs


def _end_of_profile(profile: Profile) -> int:
    """End of the last iteration: of GPU work or a call; of any event if no GPU work is recorded."""
    if not any(len(work) for work in _kinds(profile)):
        return profile.end_ns
    ends = [*(device_work.end_ns for device_work in _kinds(profile)), profile.api_calls.end_ns]
    return max(int(end.max(initial=0)) for end in ends)


def _instance_columns(
    op: Integers, instances: Instances | DomainWork, times: CorrelatedWork | DomainWork
) -> OpTimes:
    gpu = times.gpu
    return OpTimes(
        op=op.astype(np.int32, copy=False),
        start_ns=instances.start_ns,
        end_ns=instances.end_ns,
        cpu_time_ns=times.cpu_time_ns,
        cpu_overhead_ns=times.cpu_overhead_ns,
        gpu_time_ns=gpu.covered_ns,
        gpu_idle_ns=gpu.last_end_ns - gpu.first_start_ns - gpu.covered_ns,
    )


def _kernel_columns(data: ImportedProfile, positions: Int64, pair_of: Int32) -> Launches:
    rows = data.kernel_order[positions]
    kernels, launched = data.profile.kernels, data.work.kernels
    return Launches(
        code=pair_of,
        api_start_ns=launched.api_start_ns[rows],
        api_duration_ns=launched.api_duration_ns[rows],
        duration_ns=(kernels.end_ns - kernels.start_ns)[rows],
    )


def _memory_columns(data: ImportedProfile, positions: Int64) -> Launches:
    work, rows = data.work, data.memory_order[positions]
    call = memory_column(work, "call")
    name = np.full(len(call), -1, dtype=np.int64)
    name[call >= 0] = data.profile.api_calls.name[call[call >= 0]]
    length = memory_column(work, "end_ns") - memory_column(work, "start_ns")
    return Launches(
        code=name[rows].astype(np.int32),
        api_start_ns=memory_column(work, "api_start_ns")[rows],
        api_duration_ns=memory_column(work, "api_duration_ns")[rows],
        duration_ns=length[rows],
    )


def _op_kernels(
    profile: Profile, names: KernelNames, positions: Int64, op: Int64
) -> tuple[Int32, OpKernels]:
    """Distinct (op, distinct kernel) pairs, and the row of each kernel in its domain.

    ``positions`` are those in order of launch, one domain after another; ``op`` is the kernel's op
    in that domain.
    """
    width = len(names.short) or 1
    unique, code = dense_codes(op * width + names.of_kernel[positions])
    kernel = unique % width
    half_names = half_precision_kernels([profile.strings[code] for code in names.long.tolist()])
    columns = OpKernels(
        op=(unique // width).astype(np.int32),
        name=names.short[kernel].astype(np.int32),
        uses_tc=names.uses_tc[kernel],
        half_precision=half_names[kernel],
        kernel=kernel.astype(np.int32),
    )
    return code, columns


def _device_columns(profile: Profile) -> Devices:
    used = np.zeros(len(profile.devices), dtype=bool)
    for work in _kinds(profile):
        used[distinct(work.device)] = True
    return Devices(
        device_ids=tuple(device.device_id for device in profile.devices),
        names=tuple(device.name for device in profile.devices),
        used=used,
        memory_bytes=tuple(device.memory_bytes for device in profile.devices),
        memory_used_bytes=tuple(device.memory_used_bytes for device in profile.devices),
        lost_records=profile.lost_records,
    )


@dataclass(frozen=True)
class _Spans:
    """Intervals on the CPU, with the process of each. Unit: ns."""

    process: Integers
    start_ns: Int64
    end_ns: Int64

    def of(self, processes: Int64) -> Flattened:
        """Their union in some processes."""
        rows = np.isin(self.process, processes)
        return flatten(self.start_ns[rows], self.end_ns[rows])


@dataclass(frozen=True)
class _Counted:
    """Busy time of a domain: masks of device work, and intervals on the CPU."""

    work: dict[str, Bool]
    loading: _Spans
    cpu: _Spans


def _everything(profile: Profile, instances: Instances) -> _Counted:
    """In the default domain all work counts, and CPU time of ops and of data loading."""
    rows = instances.origin == Origin.DATALOADER
    process = profile.thread_process[instances.thread[rows]]
    return _Counted(
        {kind: np.ones(len(getattr(profile, kind)), dtype=bool) for kind in _KINDS},
        loading=_Spans(process, instances.start_ns[rows], instances.end_ns[rows]),
        cpu=_Spans(instances.busy_process, instances.busy_start_ns, instances.busy_end_ns),
    )


def _covered_by(profile: Profile, domain: DomainWork) -> _Counted:
    """In a custom domain what its ranges cover counts, but no data loading."""
    none = np.empty(0, dtype=np.int64)
    masks = {kind: np.zeros(len(getattr(profile, kind)), dtype=bool) for kind in _KINDS}
    for kind, mask in masks.items():
        mask[getattr(domain, kind).own().row] = True
    return _Counted(
        masks,
        loading=_Spans(none, none, none),
        cpu=_Spans(profile.thread_process[domain.thread], domain.start_ns, domain.end_ns),
    )


def _busy_levels(
    profile: Profile, work: CorrelatedWork, uses_tc: Bool, counted: _Counted
) -> tuple[tuple[Flattened, ...], ...]:
    """Cumulative unions of busy time per device, in the priority of ``LEVELS``.

    CPU time counts for the devices that its process used.
    """
    result = []
    for device in range(len(profile.devices)):
        processes = _processes_of(profile, device)
        copies, sets, graphs = (
            _busy(getattr(work, kind), device, counted.work[kind]) for kind in _KINDS[1:]
        )
        parts = (
            _busy(work.kernels, device, counted.work["kernels"] & uses_tc),
            _busy(work.kernels, device, counted.work["kernels"] & ~uses_tc),
            graphs,
            union_of(copies, sets),
            counted.loading.of(processes),
            NOTHING,
            counted.cpu.of(processes),
        )
        result.append(tuple(accumulate(parts, union_of)))
    return tuple(result)


def _communication(
    profile: Profile, work: CorrelatedWork, communicates: Bool, counted: _Counted
) -> tuple[tuple[Flattened, Flattened], ...]:
    """Per device: when kernels computed, and when kernels moved data between GPUs."""
    kernels = counted.work["kernels"]
    computes, moves = kernels & ~communicates, kernels & communicates
    return tuple(
        (_busy(work.kernels, device, computes), _busy(work.kernels, device, moves))
        for device in range(len(profile.devices))
    )


def _busy(launched: LaunchedWork, device: int, rows: Bool) -> Flattened:
    here = rows & (launched.work.device == device)
    return flatten(launched.work.start_ns[here], launched.work.end_ns[here])


def _processes_of(profile: Profile, device: int) -> Int64:
    """Processes that ran work on a device; all of them for the first one if none was used."""
    used = [distinct(work.process[work.device == device]) for work in _kinds(profile)]
    found = np.unique(np.concatenate(used)).astype(np.int64)
    nothing_ran = not any(len(work) for work in _kinds(profile))
    return np.arange(len(profile.process_ids)) if nothing_ran and device == 0 else found
