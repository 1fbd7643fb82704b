"""Find the processes of a capture that are ranks of one job."""

from __future__ import annotations

import numpy as np

from aggregator.kernels.traits import communication_kernels
from aggregator.profile.arrays import distinct
from aggregator.profile.profile import DeviceWork, Profile


def main_devices(profile: Profile) -> dict[int, int]:
    """Return the GPU that each process used most, by number of kernels, else of other work."""
    result: dict[int, int] = {}
    for work in (profile.kernels, profile.graphs, profile.copies, profile.sets):
        for process in np.flatnonzero(np.bincount(work.process)).tolist():
            rows = work.device[work.process == process]
            result.setdefault(int(process), int(np.bincount(rows).argmax()))
    return result


def communicating_processes(profile: Profile) -> set[int]:
    """Return the processes that ran kernels of collectives or transfers between GPUs."""
    kernels = profile.kernels
    codes = distinct(kernels.long_name)
    codes = codes[communication_kernels([profile.strings[code] for code in codes.tolist()])]
    return set(distinct(kernels.process[np.isin(kernels.long_name, codes)]).tolist())


def rank_processes(profile: Profile) -> set[int]:
    """Return the ranks of the job: the processes that run collectives.

    Without collectives, processes are ranks if they ran at the same time, each on a GPU of its own.
    Otherwise only the process with most GPU work is one: the others are no part of its job.
    """
    devices = main_devices(profile)
    if len(devices) < 2:
        return set(devices)
    communicating = communicating_processes(profile)
    if len(communicating) > 1:
        return communicating
    spans = [_span(profile, process) for process in devices]
    together = max(first for first, _ in spans) < min(last for _, last in spans)
    if together and len(set(devices.values())) == len(devices):
        return set(devices)
    return {max(sorted(devices), key=lambda process: _gpu_time_ns(profile, process))}


def _kinds(profile: Profile) -> tuple[DeviceWork, ...]:
    return (profile.kernels, profile.graphs, profile.copies, profile.sets)


def _span(profile: Profile, process: int) -> tuple[int, int]:
    """Return the first start and last end of a process's GPU work. Unit: ns."""
    parts = [(work, work.process == process) for work in _kinds(profile)]
    starts = [int(work.start_ns[rows].min()) for work, rows in parts if rows.any()]
    ends = [int(work.end_ns[rows].max()) for work, rows in parts if rows.any()]
    return min(starts), max(ends)


def _gpu_time_ns(profile: Profile, process: int) -> int:
    parts = [(work, work.process == process) for work in _kinds(profile)]
    return sum(int((work.end_ns[rows] - work.start_ns[rows]).sum()) for work, rows in parts)


def are_ranks(profile: Profile) -> bool:
    """Return whether all processes that used a GPU are ranks of one job."""
    return len(rank_processes(profile)) == len(main_devices(profile))
