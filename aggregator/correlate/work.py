"""Device work joined to calls, op instances and ops: the end of the correlation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aggregator.columns import ordered
from aggregator.correlate.launches import LaunchIndex
from aggregator.correlate.ops import Instances, Origin
from aggregator.intervals import SegmentUnion, segment_union
from aggregator.parallel import both
from aggregator.profile import DeviceWork, Int32, Int64, Integers, Profile, ProfileWarning
from aggregator.texts import say


@dataclass
class LaunchedWork:
    """One kind of device work with its launching calls.

    Attributes:
        work: The columns of the work.
        call: Row of the launching API call; -1: none recorded.
        instance: Row of the op instance that it belongs to.
        api_start_ns: Start of the call; of the work itself where none was recorded. Unit: ns.
        api_duration_ns: Duration of the call; 0 where none was recorded. Unit: ns.
    """

    work: DeviceWork
    call: Int32
    instance: Int32
    api_start_ns: Int64
    api_duration_ns: Int64

    def launch_order(self) -> Int64:
        """Rows in order of launch."""
        return ordered(self.api_start_ns, self.work.start_ns)


@dataclass
class CorrelatedWork:
    """All device work of a profile, and the op instances, which may have grown by stray work.

    Attributes:
        instances: Op instances in order of start.
        kernels: Kernels.
        copies: Copies.
        sets: Sets.
        graphs: CUDA graphs that were recorded as a whole.
        cpu_time_ns: CPU time per instance. Unit: ns.
        cpu_overhead_ns: CPU time outside CUDA calls per instance. Unit: ns.
        gpu: Union of device work per instance.
    """

    instances: Instances
    kernels: LaunchedWork
    copies: LaunchedWork
    sets: LaunchedWork
    graphs: LaunchedWork
    cpu_time_ns: Int64
    cpu_overhead_ns: Int64
    gpu: SegmentUnion


def launching_calls(profile: Profile) -> list[Int32]:
    """Row of the API call that launched each kernel, copy, set and graph; -1: none recorded."""
    index = LaunchIndex(profile)
    return [index.launching_call(work) for work in _kinds(profile)]


def _kinds(profile: Profile) -> tuple[DeviceWork, ...]:
    return (profile.kernels, profile.copies, profile.sets, profile.graphs)


def correlate_work(profile: Profile, instances: Instances, calls: list[Int32]) -> CorrelatedWork:
    """Join kernels, copies and sets to calls and instances, and sum up each instance's time.

    Args:
        profile: The profile.
        instances: Its op instances.
        calls: What ``launching_calls`` found.
    """
    _warn_unlaunched(profile, calls)
    kinds = _kinds(profile)
    owners = []
    for work, call, label in zip(kinds, calls, _work_labels(profile), strict=True):
        instances, owner = _owners(profile, instances, work, call, label)
        owners.append(owner)
    rank = instances.sort_by_start()
    launched = [
        _launched(profile, work, call, rank[owner])
        for work, call, owner in zip(kinds, calls, owners, strict=True)
    ]
    api, gpu = both(
        lambda: _api_union(profile, instances), lambda: _gpu_union(launched, len(instances))
    )
    cpu_time = np.where(instances.origin == Origin.GROUP, api.covered_ns, instances.cpu_time_ns)
    return CorrelatedWork(
        instances=instances,
        kernels=launched[0],
        copies=launched[1],
        sets=launched[2],
        graphs=launched[3],
        cpu_time_ns=cpu_time,
        cpu_overhead_ns=np.maximum(cpu_time - api.covered_ns, 0),
        gpu=gpu,
    )


def _warn_unlaunched(profile: Profile, calls: list[Int32]) -> None:
    if count := sum(int(np.count_nonzero(call < 0)) for call in calls):
        text = say(
            "kernels, copies, sets or graphs have no API call in the profile; "
            "they count as launched when they started and belong to unassociated ops."
        )
        profile.warnings.append(ProfileWarning("WORK_WITHOUT_CALL", text, count))


def _work_labels(profile: Profile) -> list[Int32]:
    """Name codes (into ``Profile.strings``) that stray work goes by."""
    strings = list(profile.strings)
    codes = {text: code for code, text in enumerate(strings)}
    for text in ("memcpy", "memset", "graph"):
        if text not in codes:
            codes[text] = len(strings)
            strings.append(text)
    profile.strings = tuple(strings)
    return [
        profile.kernels.name,
        np.full(len(profile.copies), codes["memcpy"], dtype=np.int32),
        np.full(len(profile.sets), codes["memset"], dtype=np.int32),
        np.full(len(profile.graphs), codes["graph"], dtype=np.int32),
    ]


def _owners(
    profile: Profile, instances: Instances, work: DeviceWork, call: Int32, label: Int32
) -> tuple[Instances, Int32]:
    """Instance of each piece of work; what no call launched becomes stray instances."""
    owner = (
        np.where(call >= 0, instances.call_instance[np.maximum(call, 0)], -1)
        if len(instances.call_instance)
        else np.full(len(work), -1, dtype=np.int32)
    )
    stray = np.flatnonzero(owner < 0)
    if not len(stray):
        return instances, owner.astype(np.int32)
    none = np.full(len(stray), -1, dtype=np.int32)
    more: dict[str, Integers] = {
        "origin": np.full(len(stray), Origin.STRAY, dtype=np.int8),
        "label": label[stray],
        "path": np.zeros(len(stray), dtype=np.int32),
        "range_name": none,
        "marker": none,
        "forward": none,
        "start_ns": work.start_ns[stray],
        "end_ns": work.start_ns[stray],
        "cpu_time_ns": np.zeros(len(stray), dtype=np.int64),
        "thread": _some_thread(profile, work.process[stray]),
        "shapes": none,
    }
    owner[stray] = np.arange(len(instances), len(instances) + len(stray))
    return instances.extended(more), owner.astype(np.int32)


def _some_thread(profile: Profile, process: Int32) -> Int32:
    """First thread of each process: work without a call tells its process only."""
    first = np.zeros(len(profile.process_ids), dtype=np.int32)
    rows = np.arange(len(profile.thread_process), dtype=np.int32)[::-1]
    first[profile.thread_process[rows]] = rows
    return first[process]


def _launched(profile: Profile, work: DeviceWork, call: Int32, instance: Int32) -> LaunchedWork:
    api = profile.api_calls
    known = call >= 0
    row = np.maximum(call, 0)
    if not len(api):
        zero = np.zeros(len(work), dtype=np.int64)
        return LaunchedWork(work, call, instance, work.start_ns, zero)
    start = np.where(known, api.start_ns[row], work.start_ns)
    duration = np.where(known, api.end_ns[row] - api.start_ns[row], 0)
    return LaunchedWork(work, call, instance, start, duration)


def _gpu_union(launched: list[LaunchedWork], num_instances: int) -> SegmentUnion:
    return segment_union(
        np.concatenate([part.instance for part in launched]),
        np.concatenate([part.work.start_ns for part in launched]),
        np.concatenate([part.work.end_ns for part in launched]),
        num_instances,
    )


def _api_union(profile: Profile, instances: Instances) -> SegmentUnion:
    api = profile.api_calls
    return segment_union(instances.call_instance, api.start_ns, api.end_ns, len(instances))
