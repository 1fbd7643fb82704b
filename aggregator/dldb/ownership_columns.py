"""The columns that ownership is computed from: GPU work, its launches, and the host.

They come from a database, or from the tables of an import before they are one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Protocol

import numpy as np

from aggregator.dldb.column_blobs import by_row, read_columns
from aggregator.dldb.writer import Table
from aggregator.kernels.traits import communication_kernels
from aggregator.metrics.ownership import (
    COMMUNICATION,
    COMPUTE,
    COPY,
    SET,
    TENSOR_CORES,
    DeviceWork,
)
from aggregator.metrics.ownership_host import (
    FIRST_CALL,
    IN_LOADER,
    IN_OP,
    REASONS,
    Events,
    Groups,
    Host,
    is_blocking,
)
from aggregator.metrics.ownership_timeline import NO_ROW
from aggregator.profile.arrays import Bool, Int64, Integers, distinct, narrow

LOADER_TYPES = ("enumerate(DataLoader)", "DataLoader")
"""Prefixes of the types of ops that wait for the next batch of a data loader."""
_AT_ONCE = 16
"""Calls that may start in the same tick of the clock and are compared with a launch."""
_PAGEABLE = 0


class Tables(Protocol):
    """The tables of a profile."""

    def integers(self, table: str, names: Sequence[str]) -> list[Int64]:
        """Columns of a long table in order of row id."""

    def values(self, table: str, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """Rows of a short table in order of their first value, the key of the table."""


class StoredTables:
    """Those of a database."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def integers(self, table: str, names: Sequence[str]) -> list[Int64]:
        """Columns of a long table in order of row id."""
        return read_columns(self._connection, table, names)

    def values(self, table: str, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """Rows of a short table in order of their first value, the key of the table."""
        query = f"SELECT {', '.join(names)} FROM {table} ORDER BY 1"
        return [tuple(row) for row in self._connection.execute(query)]


class KeptTables:
    """Those that an import writes: the columns that ownership needs."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, list[Any]]] = {
            table: {name: [] for name in names} for table, names in _NEEDED.items()
        }

    def keep(self, tables: Iterable[Table]) -> Iterator[Table]:
        """Yield the tables, whose rows come in order."""
        for table in tables:
            for name, parts in self._kept.get(table.name, {}).items():
                column = table.columns[name]
                parts.append(narrow(column) if isinstance(column, np.ndarray) else column)
            yield table

    def integers(self, table: str, names: Sequence[str]) -> list[Int64]:
        """Columns of a long table in order of row id."""
        columns = (self._kept[table][name] for name in names)
        none = [np.empty(0, dtype=np.int64)]
        return [np.concatenate(parts or none, dtype=np.int64) for parts in columns]

    def values(self, table: str, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """Rows of a short table in order of their first value, the key of the table."""
        columns = (chain.from_iterable(self._kept[table][name]) for name in names)
        return list(zip(*columns, strict=True))


_WORK: Final = ("device", "start", "duration", "api_start", "api_duration")
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "dldb_meta": ("key", "value"),
    "processes": ("id", "pid"),
    "threads": ("id", "tid", "process"),
    "api_names": ("id", "name"),
    "range_names": ("id", "name"),
    "kernel_names": ("id", "long_name"),
    "ops": ("id", "domain", "op_type", "op_name"),
    "op_kernels": ("id", "op", "uses_tc"),
    "op_instances": ("op", "start", "stop", "thread"),
    "named_ranges": ("name", "process", "start", "stop"),
    "kernels": (*_WORK, "op_kernel", "name"),
    "memory_ops": (*_WORK, "op", "is_copy", "host_kind"),
    "graph_launches": (*_WORK, "op"),
    "api_calls": ("name", "op", "start", "duration", "thread"),
}


@dataclass(frozen=True)
class Launches:
    """All CUDA calls, in order of start, with what is needed to find launches. Times in ns."""

    names: tuple[str, ...]
    name: Integers  # Code into ``names``.
    op: Integers
    start_ns: Int64
    duration_ns: Integers
    thread: Integers

    @staticmethod
    def read(tables: Tables) -> Launches:
        """Read them."""
        names = tuple(str(row[1]) for row in tables.values("api_names", ("id", "name")))
        name, op, start, duration, thread = tables.integers("api_calls", _NEEDED["api_calls"])
        name, op, thread = (narrow(column - 1) for column in (name, op, thread))
        return Launches(names, name, op, start, narrow(duration), thread)

    def find(self, start_ns: Int64, duration_ns: Int64, op: Int64) -> Int64:
        """Row of the call that launched each work; ``NO_ROW``: not recorded.

        Calls of several threads may start at the same time: length and op decide.
        """
        place = np.searchsorted(self.start_ns, start_ns, side="left")
        result = np.full(len(place), NO_ROW)
        open_ones = np.arange(len(place))
        for step in range(_AT_ONCE):
            row = place[open_ones] + step
            inside = row < len(self.start_ns)
            open_ones, row = open_ones[inside], row[inside]
            here = self.start_ns[row] == start_ns[open_ones]
            open_ones, row = open_ones[here], row[here]
            fits = (self.duration_ns[row] == duration_ns[open_ones]) & (
                self.op[row] == op[open_ones]
            )
            result[open_ones[fits]] = row[fits]
            open_ones = open_ones[~fits]
            if not len(open_ones):
                break
        return result

    def follow_event(self) -> Bool:
        """Whether the call before each, on its thread, made a stream wait for an event."""
        waits = np.array(["StreamWaitEvent" in name for name in self.names], dtype=bool)
        result = np.zeros(len(self.name), dtype=bool)
        if not waits.any():
            return result
        order = np.argsort(self.thread.astype(np.int16), kind="stable")
        before = np.concatenate([[NO_ROW], order[:-1]])
        same = self.thread[before] == self.thread[order]
        result[order] = same & waits[self.name[before]]
        return result


@dataclass(frozen=True)
class WorkColumns:
    """All work, with the row of the GPU of each."""

    work: DeviceWork
    device: Int64

    def used(self) -> list[int]:
        """Rows of the GPUs that ran work."""
        return [int(device) for device in distinct(self.device)]

    def of(self, device: int) -> DeviceWork:
        """The work of one GPU."""
        return self.work.rows(np.flatnonzero(self.device == device))


def read_work(tables: Tables, launches: Launches) -> WorkColumns:
    """Read kernels, copies, sets, and graphs that were recorded as a whole."""
    *kernels, pair, name = tables.integers("kernels", (*_WORK, "op_kernel", "name"))
    *memory, memory_op, is_copy = tables.integers("memory_ops", (*_WORK, "op", "is_copy"))
    *graphs, graph_op = tables.integers("graph_launches", (*_WORK, "op"))
    uses_tc = by_row(tables.values("op_kernels", ("id", "uses_tc")))[pair] == 1
    compute = np.where(uses_tc, TENSOR_CORES, COMPUTE)
    kinds = [
        np.where(_communicates(tables)[name], COMMUNICATION, compute),
        np.where(is_copy == 1, COPY, SET),
        np.full(len(graph_op), COMPUTE),
    ]
    ops = [by_row(tables.values("op_kernels", ("id", "op")))[pair], memory_op, graph_op]
    op = np.concatenate(ops) - 1
    columns = (np.concatenate(parts) for parts in zip(kernels, memory, graphs, strict=True))
    device, start, duration, api_start, api_duration = columns
    call = launches.find(api_start, api_duration, op)
    return WorkColumns(
        DeviceWork(
            start_ns=start,
            end_ns=start + duration,
            kind=np.concatenate(kinds),
            op=op,
            launch_start_ns=api_start,
            launch_end_ns=api_start + api_duration,
            thread=np.append(launches.thread, NO_ROW)[call].astype(np.int64),
            after_event=np.append(launches.follow_event(), False)[call],
        ),
        device,
    )


def _communicates(tables: Tables) -> Bool:
    """Whether each kernel, by row id, moves data between GPUs."""
    rows = tables.values("kernel_names", ("id", "long_name"))
    result = np.zeros(max((int(row[0]) for row in rows), default=0) + 1, dtype=bool)
    result[[int(row[0]) for row in rows]] = communication_kernels([str(row[1]) for row in rows])
    return result


@dataclass(frozen=True)
class HostColumns:
    """The host, and the names of all reasons by code."""

    host: Host
    reasons: tuple[str, ...]


def read_host(tables: Tables, launches: Launches) -> HostColumns:
    """Read what the threads did."""
    parts = [_op_events(tables), _call_events(tables, launches)]
    events = Events(
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in Events.__dataclass_fields__
        )
    )
    thread_process = by_row(tables.values("threads", ("id", "process")))[1:] - 1
    name, process, start, stop = tables.integers("named_ranges", _NEEDED["named_ranges"])
    host = Host(
        events,
        Groups(start, stop, process - 1, name - 1),
        thread_process,
        _main_threads(tables, events, thread_process),
        low_ns=0,
        high_ns=0,
    )
    calls = tuple(_undecorated(call) for call in launches.names)
    return HostColumns(host, REASONS + calls)


def _undecorated(call: str) -> str:
    """``cudaStreamSynchronize_v3020`` -> ``cudaStreamSynchronize``."""
    name, _, version = call.rpartition("_v")
    return name if name and version.isdecimal() else call


def _op_events(tables: Tables) -> Events:
    """Ops of the default domain; groups only hold what is outside of ops."""
    rows = tables.values("ops", _NEEDED["ops"])
    if ("has_ops", "0") in tables.values("dldb_meta", ("key", "value")):
        rows = [(row[0], 0, *row[2:]) for row in rows]  # one op for everything explains nothing
    groups = {str(row[1]) for row in tables.values("range_names", ("id", "name"))}
    is_loader = np.array([str(row[2]).startswith(LOADER_TYPES) for row in rows], dtype=bool)
    is_group = np.array([str(row[2]) in groups for row in rows], dtype=bool) & ~is_loader
    is_default = np.array([row[1] == 1 for row in rows], dtype=bool)
    op, start, stop, thread = tables.integers("op_instances", _NEEDED["op_instances"])
    op = op - 1
    # What runs inside the loader's range is the loader's.
    is_inside = np.array([_is_in_loader(str(row[3])) for row in rows], dtype=bool) & ~is_loader
    kept = np.flatnonzero((is_default & ~is_group & ~is_inside)[op])
    reason = np.where(is_loader[op[kept]], IN_LOADER, IN_OP)
    return Events(start[kept], stop[kept], thread[kept] - 1, op[kept], reason)


def _is_in_loader(op_name: str) -> bool:
    return any(part.startswith(LOADER_TYPES) for part in op_name.split("/"))


def _call_events(tables: Tables, launches: Launches) -> Events:
    blocks = np.array([is_blocking(name) for name in launches.names], dtype=bool)
    names = ("api_start", "api_duration", "op", "host_kind")
    *columns, host_kind = tables.integers("memory_ops", names)
    start, duration, op = (column[host_kind == _PAGEABLE] for column in columns)
    copies = launches.find(start, duration, op - 1)
    rows = np.union1d(np.flatnonzero(blocks[launches.name]), copies[copies != NO_ROW])
    start = launches.start_ns[rows]
    return Events(
        start,
        start + launches.duration_ns[rows],
        launches.thread[rows].astype(np.int64),
        launches.op[rows].astype(np.int64),
        FIRST_CALL + launches.name[rows].astype(np.int64),
    )


def _main_threads(tables: Tables, events: Events, thread_process: Int64) -> Int64:
    """The thread of each process that runs its loop.

    It is the one that waits for the data loader; else the first of the process, if it runs ops;
    else the one that runs most.
    """
    tids = by_row(tables.values("threads", ("id", "tid")))[1:]
    pids = by_row(tables.values("processes", ("id", "pid")))[1:]
    count = len(tids)
    score = np.bincount(events.thread, minlength=count).astype(np.float64)
    is_first = (tids == pids[thread_process]) & (score > 0)
    loading = np.bincount(events.thread[events.reason == IN_LOADER], minlength=count)
    score += np.where(is_first, 1e12, 0) + 1e13 * loading
    result = np.zeros(len(pids), dtype=np.int64)
    for process in range(len(pids)):
        threads = np.flatnonzero(thread_process == process)
        if len(threads):
            result[process] = threads[int(score[threads].argmax())]
    return result
