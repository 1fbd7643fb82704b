"""The columns that ownership is computed from: GPU work, its launches, and the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from aggregator.events.model import (
    LOADER_TYPES,
    Calls,
    Work,
    WorkKind,
    launching_calls,
    stacked,
)
from aggregator.events.store import EventStore
from aggregator.metrics.ownership import (
    COMMUNICATION,
    COMPUTE,
    COPY,
    SET,
    TENSOR_CORES,
    OwnedWork,
)
from aggregator.metrics.ownership_host import (
    FIRST_CALL,
    IN_LOADER,
    IN_OP,
    REASONS,
    Groups,
    Host,
    HostEvents,
    is_blocking,
)
from aggregator.profile.arrays import NO_ROW, Bool, Int64, distinct

_PAGEABLE: Final = 0
_CLASS_OF_KIND: Final = np.array([COMPUTE, COPY, SET, COMPUTE], dtype=np.int64)


def follows_event(calls: Calls, names: tuple[str, ...]) -> Bool:
    """Return whether the call before each, on its thread, made a stream wait for an event."""
    waits = np.array(["StreamWaitEvent" in name for name in names], dtype=bool)
    result = np.zeros(len(calls), dtype=bool)
    if not waits.any():
        return result
    order = np.argsort(calls.thread.astype(np.int16), kind="stable")
    before = np.concatenate([[NO_ROW], order[:-1]])
    same = calls.thread[before] == calls.thread[order]
    result[order] = same & waits[calls.name[before]]
    return result


def used_devices(work: Work) -> list[int]:
    """Return the rows of the GPUs that ran work."""
    return [int(device) for device in distinct(work.device)]


def owned_work(store: EventStore, work: Work, calls: Calls) -> OwnedWork:
    """Add the class of its owner and its launch to work."""
    names, owner = store.names, _CLASS_OF_KIND[work.kind]
    is_kernel = work.kind == WorkKind.KERNEL
    of_name = np.where(names.uses_tc, TENSOR_CORES, COMPUTE)
    of_name[names.communicates] = COMMUNICATION
    owner[is_kernel] = of_name[work.name[is_kernel]]
    call = launching_calls(calls, work)
    return OwnedWork(
        start_ns=work.start_ns,
        end_ns=work.end_ns,
        kind=owner,
        op=work.op,
        api_start_ns=work.api_start_ns,
        api_end_ns=work.api_end_ns,
        thread=np.append(calls.thread, NO_ROW)[call],
        after_event=np.append(follows_event(calls, store.call_names), False)[call],
    )


@dataclass(frozen=True)
class HostColumns:
    """The host, and the names of all reasons by code."""

    host: Host
    reasons: tuple[str, ...]


def read_host(store: EventStore, work: Work, calls: Calls) -> HostColumns:
    """Read what the threads did."""
    events = stacked([_op_events(store), _call_events(store, work, calls)])
    name, process, start, end = store.integers("named_ranges", ("name", "process", "start", "stop"))
    host = Host(
        events,
        Groups(start, end, process - 1, name - 1),
        store.process_of_thread,
        _main_threads(store, events),
        low_ns=0,
        high_ns=0,
    )
    names = tuple(_undecorated(call) for call in store.call_names)
    return HostColumns(host, REASONS + names)


def _undecorated(call: str) -> str:
    """Return ``cudaStreamSynchronize`` for ``cudaStreamSynchronize_v3020``."""
    name, _, version = call.rpartition("_v")
    return name if name and version.isdecimal() else call


def _op_events(store: EventStore) -> HostEvents:
    """Return ops of the default domain; groups only hold what is outside of ops."""
    ops, calls = store.ops, store.op_calls()
    groups = {str(row[1]) for row in store.values("range_names", "id", "name")}
    is_loader = ops.is_loader
    is_group = np.array([kind in groups for kind in ops.types], dtype=bool) & ~is_loader
    # What runs inside the loader's range is the loader's.
    is_inside = np.array([_is_in_loader(name) for name in ops.names], dtype=bool) & ~is_loader
    is_kept = (ops.domain == 0) & ~is_group & ~is_inside
    if ("has_ops", "0") in store.values("dldb_meta", "key", "value"):
        is_kept[:] = False  # one op for everything explains nothing
    kept = calls.rows(np.flatnonzero(is_kept[calls.op]))
    reason = np.where(is_loader[kept.op], IN_LOADER, IN_OP)
    return HostEvents(kept.start_ns, kept.end_ns, kept.thread, kept.op, reason)


def _is_in_loader(op_name: str) -> bool:
    return any(part.startswith(LOADER_TYPES) for part in op_name.split("/"))


def _call_events(store: EventStore, work: Work, calls: Calls) -> HostEvents:
    blocks = np.array([is_blocking(name) for name in store.call_names], dtype=bool)
    pageable = work.rows(np.flatnonzero(work.host_kind == _PAGEABLE))
    copies = launching_calls(calls, pageable)
    found = calls.rows(np.union1d(np.flatnonzero(blocks[calls.name]), copies[copies != NO_ROW]))
    return HostEvents(found.start_ns, found.end_ns, found.thread, found.op, FIRST_CALL + found.name)


def _main_threads(store: EventStore, events: HostEvents) -> Int64:
    """Return the thread of each process that runs its loop.

    It is the one that waits for the data loader; else the first of the process, if it runs ops;
    else the one that runs most.
    """
    tids, pids = store.column("threads", "tid"), store.column("processes", "pid")
    process_of = store.process_of_thread
    count = len(tids)
    score = np.bincount(events.thread, minlength=count).astype(np.float64)
    is_first = (tids == pids[process_of]) & (score > 0)
    loading = np.bincount(events.thread[events.reason == IN_LOADER], minlength=count)
    score += np.where(is_first, 1e12, 0) + 1e13 * loading
    result = np.zeros(len(pids), dtype=np.int64)
    for process in range(len(pids)):
        threads = np.flatnonzero(process_of == process)
        if len(threads):
            result[process] = threads[int(score[threads].argmax())]
    return result
