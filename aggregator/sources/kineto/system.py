"""Metadata of a Kineto trace: processes, threads, GPUs, versions, start time, rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from aggregator.profile.profile import Device, Session, SystemInfo
from aggregator.sources.repair import find_launching_processes
from aggregator.system.untrusted_json import read_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aggregator.profile.arrays import Int32, Int64
    from aggregator.profile.profile import ApiCalls
    from aggregator.sources.kineto.events import Columns, TraceEvents

_SINCE_1970_NS: Final = 10**18
"""A later time counts from 1970: it is in 2001 or later."""
_MOST_RANKS: Final = 1 << 20
_MAX_INT: Final = (1 << 63) - 1
PID_SHIFT: Final = 24
TID_LIMIT: Final = 1 << PID_SHIFT
"""Thread part of a global thread id is below it."""


def read_devices(events: TraceEvents) -> tuple[Device, ...]:
    """Return the GPUs that ran work, or all described GPUs if none did."""
    kinds = [events.tables[kind]["device"] for kind in ("kernels", "copies", "sets", "syncs")]
    used = np.unique(np.concatenate(kinds)).tolist()
    properties = events.header.get("deviceProperties")
    listed = properties if isinstance(properties, list) else []
    known = {
        number: device
        for device in listed
        if isinstance(device, dict) and (number := _int(device, "id")) is not None
    }
    return tuple(_device(number, known.get(number, {})) for number in used or sorted(known))


def _device(number: int, properties: dict[str, Any]) -> Device:
    major, minor = _int(properties, "computeMajor"), _int(properties, "computeMinor")
    name = properties.get("name")
    return Device(
        device_id=number,
        name=name if isinstance(name, str) else "",
        compute_capability=(major, minor) if major is not None and minor is not None else None,
        sm_count=_int(properties, "numSms"),
        memory_bytes=_int(properties, "totalGlobalMem"),
    )


def _int(values: dict[str, Any], key: str) -> int | None:
    """Return an integer that a database can hold; None: missing, or no such integer."""
    value = values.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _MAX_INT:
        return None
    return value


def read_system(header: dict[str, Any]) -> SystemInfo:
    """Return the versions."""
    return SystemInfo(
        cuda_version=_cuda(_int(header, "cuda_runtime_version")),
        framework="PyTorch",
    )


def _cuda(version: int | None) -> str:
    """Return 13.0 for 13000."""
    return f"{version // 1000}.{version % 1000 // 10}" if version else ""


def read_session(header: dict[str, Any], start_ns: int) -> Session:
    """Start time of the session.

    Args:
        header: The keys of the trace beside its events.
        start_ns: Time of the first event as recorded. Unit: ns.
    """
    start_ns += base_ns(header)
    is_known = _SINCE_1970_NS < start_ns <= _MAX_INT
    return Session(start_utc_ns=start_ns if is_known else None)


def base_ns(header: dict[str, Any]) -> int:
    """What is to be added to recorded times for times since 1970; 0 if the trace does not say."""
    base = header.get("baseTimeNanoseconds")
    if isinstance(base, str):
        base = read_count(base)
    return _int({"base": base}, "base") or 0


def rank_number(header: dict[str, Any]) -> int | None:
    """Return the rank of the process in its job, or None if it was not recorded."""
    info = header.get("distributedInfo")
    number = _int(info, "rank") if isinstance(info, dict) else None
    return number if number is not None and number >= 0 else None


def job_ranks(header: dict[str, Any]) -> int | None:
    """Number of the processes of the job; None: not recorded."""
    info = header.get("distributedInfo")
    number = _int(info, "world_size") if isinstance(info, dict) else None
    return number if number is not None and 0 < number <= _MOST_RANKS else None


class Lanes:
    """Rows of the profile's threads by lane: a pair of process and thread as written.

    Attributes:
        threads: Global thread ids: process and thread in one number.
        thread: Row of ``threads`` by lane.
        thread_process: Row of ``process_ids`` by row of ``threads``.
        process_ids: Process ids.
        names: Thread names by global thread id.
    """

    def __init__(self, events: TraceEvents) -> None:
        written = events.lanes.values()
        pids = [_number(pid) for pid, _ in written]
        tids = _thread_numbers(written)
        keys = np.array(
            [(pid << PID_SHIFT) | tid for pid, tid in zip(pids, tids, strict=True)], dtype=np.int64
        )
        # Work without a launching call needs a thread to belong to.
        self.threads: Int64 = np.unique(keys) if len(keys) else np.zeros(1, dtype=np.int64)
        self.thread: Int32 = np.searchsorted(self.threads, keys).astype(np.int32)
        processes = np.unique(self.threads >> PID_SHIFT)
        self.thread_process: Int32 = np.searchsorted(processes, self.threads >> PID_SHIFT).astype(
            np.int32
        )
        self.process_ids = tuple(int(pid) for pid in processes)
        named = zip(written, keys.tolist(), strict=True)
        self.names = {
            key: events.thread_names[lane] for lane, key in named if lane in events.thread_names
        }


def _number(value: Any) -> int:
    """Return a process id; 0 if it is not a valid number."""
    if isinstance(value, str):
        value = read_count(value) or 0
    return int(value) if 0 <= value < 1 << 32 else 0


def _thread_numbers(lanes: tuple[tuple[Any, Any], ...]) -> list[int]:
    """Thread ids as written if all fit the profile's numbers, otherwise consecutive numbers."""
    known = [number for _, tid in lanes if (number := read_count(str(tid))) is not None]
    if len(known) == len(lanes) and all(tid < TID_LIMIT for tid in known):
        return known
    row_of: dict[str, int] = {}
    return [row_of.setdefault(str(tid), len(row_of) + 1) for _, tid in lanes]


def set_processes(work: Sequence[Columns], api: ApiCalls, lanes: Lanes) -> None:
    """Add the row of the process that launched each piece of work: the trace has its GPU only."""
    process = lanes.thread_process[api.thread]
    counts = np.bincount(process, minlength=1)
    calls = (process, api.correlation_id, api.start_ns)
    several = np.count_nonzero(counts) > 1
    found = find_launching_processes(calls, work, "correlation") if several else ()
    for place, table in enumerate(work):
        own = found[place] if several else np.full(len(table["start"]), -1)
        table["process"] = np.where(own >= 0, own, counts.argmax()).astype(np.int32)
