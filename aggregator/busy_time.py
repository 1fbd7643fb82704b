"""Unions of busy time per device: what the breakdown of the iterations is clipped from."""

from __future__ import annotations

import numpy as np

from aggregator.columns import distinct
from aggregator.correlate.custom_domains import Covered, DomainWork
from aggregator.correlate.ops import Instances, Origin
from aggregator.correlate.work import CorrelatedWork, LaunchedWork
from aggregator.intervals import Flattened, flatten, union_of
from aggregator.profile import Bool, Int64, Profile


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
    return tuple(
        _cumulative(_device_parts(profile, work, uses_tc, instances, device))
        for device in range(len(profile.devices))
    )


def domain_busy_levels(
    profile: Profile, work: CorrelatedWork, uses_tc: Bool, domain: DomainWork
) -> tuple[tuple[Flattened, ...], ...]:
    """The same for what a custom domain covers; data loading and I/O belong to no such domain."""
    result = []
    process = profile.thread_process[domain.thread]
    kernels, copies, sets, graphs = (
        _mask(covered, len(launched.work))
        for covered, launched in (
            (domain.kernels, work.kernels),
            (domain.copies, work.copies),
            (domain.sets, work.sets),
            (domain.graphs, work.graphs),
        )
    )
    for device in range(len(profile.devices)):
        cpu = np.isin(process, _processes_of(profile, device))
        parts = [
            _part(work.kernels, device, kernels & uses_tc),
            _not_known_to_use_tc(work, device, kernels & ~uses_tc, graphs),
            union_of(_part(work.copies, device, copies), _part(work.sets, device, sets)),
            NOTHING,
            NOTHING,
            flatten(domain.start_ns[cpu], domain.end_ns[cpu]),
        ]
        result.append(_cumulative(parts))
    return tuple(result)


def communication_busy(
    profile: Profile, work: CorrelatedWork, communicates: Bool, counted: Bool
) -> tuple[tuple[Flattened, Flattened], ...]:
    """Per device: when kernels computed, and when kernels moved data between GPUs.

    Args:
        profile: The profile.
        work: Its device work.
        communicates: Whether each kernel of ``profile.kernels`` moves data between GPUs.
        counted: Kernels that count.
    """
    return tuple(
        (
            _part(work.kernels, device, counted & ~communicates),
            _part(work.kernels, device, counted & communicates),
        )
        for device in range(len(profile.devices))
    )


NOTHING = Flattened(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def _cumulative(parts: list[Flattened]) -> tuple[Flattened, ...]:
    levels: list[Flattened] = []
    for part in parts:
        levels.append(union_of(levels[-1], part) if levels else part)
    return tuple(levels)


def _mask(covered: Covered, count: int) -> Bool:
    mask = np.zeros(count, dtype=bool)
    mask[covered.own().row] = True
    return mask


def _part(launched: LaunchedWork, device: int, rows: Bool) -> Flattened:
    here = rows & (launched.work.device == device)
    return flatten(launched.work.start_ns[here], launched.work.end_ns[here])


def _not_known_to_use_tc(
    work: CorrelatedWork, device: int, kernels: Bool, graphs: Bool
) -> Flattened:
    """Kernels without Tensor Cores, and graphs.

    A graph recorded as a whole is GPU work of unknown content: no claim of Tensor Cores is made.
    """
    return union_of(_part(work.kernels, device, kernels), _part(work.graphs, device, graphs))


def _device_parts(
    profile: Profile, work: CorrelatedWork, uses_tc: Bool, instances: Instances, device: int
) -> list[Flattened]:
    everything = [
        np.ones(len(part.work), dtype=bool) for part in (work.copies, work.sets, work.graphs)
    ]
    processes = _processes_of(profile, device)
    loaders = instances.origin == Origin.DATALOADER
    loaders &= np.isin(profile.thread_process[instances.thread], processes)
    cpu = np.isin(instances.busy_process, processes)
    return [
        _part(work.kernels, device, uses_tc),
        _not_known_to_use_tc(work, device, ~uses_tc, everything[2]),
        union_of(
            _part(work.copies, device, everything[0]), _part(work.sets, device, everything[1])
        ),
        flatten(instances.start_ns[loaders], instances.end_ns[loaders]),
        NOTHING,
        flatten(instances.busy_start_ns[cpu], instances.busy_end_ns[cpu]),
    ]


def _processes_of(profile: Profile, device: int) -> Int64:
    """Processes whose CPU time counts for a device: those that ran work on it.

    Where nothing ran on any device the first device stands for the whole run.
    """
    kinds = (profile.kernels, profile.copies, profile.sets, profile.graphs)
    used = [distinct(work.process[work.device == device]) for work in kinds]
    found = np.unique(np.concatenate(used)).astype(np.int64)
    nothing_ran = not any(len(work) for work in kinds)
    return np.arange(len(profile.process_ids)) if nothing_ran and device == 0 else found
