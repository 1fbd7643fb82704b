"""Device work joined to API calls and op instances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aggregator.correlate.instances import Instances, Origin, blank_columns
from aggregator.kernels.traits import tensor_core_kernels
from aggregator.profile.arrays import SPAN_PER_ROW, Int32, Int64, Integers, ordered, row_codes
from aggregator.profile.intervals import SegmentUnion, segment_union
from aggregator.profile.profile import DeviceWork, Profile, ProfileWarning
from aggregator.system.resources import run_both
from aggregator.texts import say


class LaunchIndex:
    """Finds API calls by (process, correlation id).

    Correlation ids are unique within a process only: two ranks of one run have the same ones. They
    are counters, so a table with an entry per possible id is used; a sorted list if they are too
    far apart for a table.
    """

    def __init__(self, profile: Profile) -> None:
        calls = profile.api_calls
        # Of several calls with one id the first started is the outermost, made by the application.
        rows = ordered(calls.start_ns)
        rows = rows[calls.correlation_id[rows] >= 0]
        process = profile.thread_process[calls.thread[rows]]
        ids = calls.correlation_id[rows].astype(np.int64)
        self._low = int(ids.min(initial=np.iinfo(np.int64).max)) if len(ids) else 0
        self._span = int(ids.max(initial=-1)) - self._low + 1
        size = self._span * (int(process.max(initial=-1)) + 1)
        self._is_table = size <= SPAN_PER_ROW * len(rows)
        if self._is_table:
            self._rows = np.full(size, -1, dtype=np.int32)
            # Assignment keeps the last value of an entry, so this keeps the first call.
            self._rows[self._table_key(process, ids)[::-1]] = rows[::-1]
        else:
            self._keys, first = np.unique(call_key(process, ids), return_index=True)
            self._rows = rows[first].astype(np.int32)

    def launching_call(self, work: DeviceWork) -> Int32:
        """Row of the API call that launched each piece of work; -1: not recorded."""
        result = np.full(len(work), -1, dtype=np.int32)
        if not len(self._rows) or not len(work):
            return result
        ids = work.correlation_id
        if self._is_table:
            known = (ids >= max(self._low, 0)) & (ids < self._low + self._span)
            key = self._table_key(work.process, ids.astype(np.int64))
            known &= key < len(self._rows)
            result[known] = self._rows[key[known]]
            return result
        key = call_key(work.process, ids)
        found = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        hit = (self._keys[found] == key) & (ids >= 0)
        result[hit] = self._rows[found[hit]]
        return result

    def _table_key(self, process: Int32, ids: Int64) -> Int64:
        return process.astype(np.int64) * self._span + (ids - self._low)


def call_key(process: Int32, correlation_id: Integers) -> Int64:
    """Return a number for each correlation id of a process."""
    # Correlation ids are 32-bit counters, so 40 bits are enough.
    ids = correlation_id.astype(np.int64)
    return (process.astype(np.int64) << 40) | (ids & ((1 << 40) - 1))


@dataclass
class LaunchedWork:
    """One kind of device work with its launching calls."""

    work: DeviceWork  # The columns of the work.
    call: Int32  # Row of the launching API call; -1: not recorded.
    instance: Int32  # Row of the op instance that it belongs to.
    api_start_ns: Int64  # Start of the call, or of the work without a recorded call. Unit: ns.
    api_duration_ns: Int64  # Duration of the call; 0 without a recorded call. Unit: ns.
    # Row of the API call whose ranges describe it: the captured one (``ReplayedWork``) of work that
    # a graph replays, else the launching one; -1: not recorded.
    described_by: Int32

    def launch_order(self) -> Int64:
        """Rows in order of launch."""
        return ordered(self.api_start_ns, self.work.start_ns)


@dataclass(frozen=True)
class ReplayedWork:
    """One kind of device work, with what CUDA graphs replayed of it."""

    instance: Int32  # Row of its op instance; -1: no graph launched it, or its op is unknown.
    # Row of the API call that was captured, through the calls of the profile and then those of its
    # captures; -1: not recorded.
    captured_call: Int32


@dataclass
class CorrelatedWork:
    """All device work of a profile, and the op instances, including those of stray work."""

    instances: Instances  # Op instances in order of start.
    kernels: LaunchedWork  # Kernels.
    copies: LaunchedWork  # Copies.
    sets: LaunchedWork  # Sets.
    graphs: LaunchedWork  # CUDA graphs that were recorded as a whole.
    cpu_time_ns: Int64  # CPU time per instance. Unit: ns.
    cpu_overhead_ns: Int64  # CPU time outside CUDA calls per instance. Unit: ns.
    gpu: SegmentUnion  # Union of device work per instance.

    def with_tensor_cores(self, profile: Profile) -> Int32:
        """Instances that ran a kernel with Tensor Core instructions."""
        columns = profile.kernels.long_name, profile.kernels.device
        first, code = row_codes(*columns)
        long, device = (column[first].tolist() for column in columns)
        uses_tc = tensor_core_kernels(
            [profile.strings[name] for name in long],
            [profile.devices[row].compute_capability for row in device],
        )
        result: Int32 = self.kernels.instance[(uses_tc == 1)[code]]
        return result


def launching_calls(profile: Profile) -> list[Int32]:
    """Row of the API call that launched each kernel, copy, set and graph; -1: not recorded.

    Also finds the calls that wait, and those that recorded the events that they wait for.
    """
    index = LaunchIndex(profile)
    waits = profile.waits
    time = np.zeros(len(waits), dtype=np.int64)
    waits.call, waits.record_call = (
        index.launching_call(
            DeviceWork(time, time, waits.device, time, waits.process, correlation_id)
        )
        for correlation_id in (waits.correlation_id, waits.record_id)
    )
    return [index.launching_call(work) for work in _kinds(profile)]


def _kinds(profile: Profile) -> tuple[DeviceWork, ...]:
    return (profile.kernels, profile.copies, profile.sets, profile.graphs)


def correlate_work(
    profile: Profile,
    instances: Instances,
    calls: list[Int32],
    replayed: Sequence[ReplayedWork] = (),
) -> CorrelatedWork:
    """Join device work to its ``launching_calls`` and instances; sum up each instance's time.

    ``replayed``: the kernels, copies and sets that graphs replayed, see ``add_replays``.
    """
    _warn_unlaunched(profile, calls)
    kinds = _kinds(profile)
    owners = []
    for work, call, label in zip(kinds, calls, _work_labels(profile), strict=True):
        instances, owner = _owners(profile, instances, work, call, label)
        owners.append(owner)
    for owner, replay in zip(owners, replayed, strict=False):
        owner[replay.instance >= 0] = replay.instance[replay.instance >= 0]
    rank = instances.sort_by_start()
    launched = [
        launched_work(profile, work, call, rank[owner])
        for work, call, owner in zip(kinds, calls, owners, strict=True)
    ]
    for part, replay in zip(launched, replayed, strict=False):
        part.described_by = np.where(replay.instance >= 0, replay.captured_call, part.call)
    api, gpu = run_both(
        lambda: _api_union(profile, instances), lambda: gpu_union(launched, len(instances))
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
    """Codes (into ``Profile.strings``) of the names of stray work."""
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
    """Instance of each piece of work; work without a launching call becomes stray instances."""
    owner = (
        np.where(call >= 0, instances.call_instance[np.maximum(call, 0)], -1)
        if len(instances.call_instance)
        else np.full(len(work), -1, dtype=np.int32)
    )
    stray = np.flatnonzero(owner < 0)
    if not len(stray):
        return instances, owner.astype(np.int32)
    more: dict[str, Integers] = {
        **blank_columns(len(stray), Origin.STRAY),
        "label": label[stray],
        "start_ns": work.start_ns[stray],
        "end_ns": work.start_ns[stray],
        "cpu_time_ns": np.zeros(len(stray), dtype=np.int64),
        "thread": _some_thread(profile, work.process[stray]),
    }
    owner[stray] = np.arange(len(instances), len(instances) + len(stray))
    return instances.extended(more), owner.astype(np.int32)


def _some_thread(profile: Profile, process: Int32) -> Int32:
    """First thread of each process: of work without a call only the process is known."""
    first = np.zeros(len(profile.process_ids), dtype=np.int32)
    rows = np.arange(len(profile.thread_process), dtype=np.int32)[::-1]
    first[profile.thread_process[rows]] = rows
    return first[process]


def launched_work(profile: Profile, work: DeviceWork, call: Int32, instance: Int32) -> LaunchedWork:
    """Device work with the times of its launching calls."""
    api = profile.api_calls
    known = call >= 0
    row = np.maximum(call, 0)
    if not len(api):
        zero = np.zeros(len(work), dtype=np.int64)
        return LaunchedWork(work, call, instance, work.start_ns, zero, call)
    start = np.where(known, api.start_ns[row], work.start_ns)
    duration = np.where(known, api.end_ns[row] - api.start_ns[row], 0)
    return LaunchedWork(work, call, instance, start, duration, call)


def gpu_union(launched: list[LaunchedWork], num_instances: int) -> SegmentUnion:
    """Union of the device work of each instance."""
    return segment_union(
        np.concatenate([part.instance for part in launched]),
        np.concatenate([part.work.start_ns for part in launched]),
        np.concatenate([part.work.end_ns for part in launched]),
        num_instances,
    )


def _api_union(profile: Profile, instances: Instances) -> SegmentUnion:
    api = profile.api_calls
    return segment_union(instances.call_instance, api.start_ns, api.end_ns, len(instances))
