"""The events of one profile, from a database or from the tables of an import.

Each column is read once, when it is first needed, and shared by all that is computed from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np

from aggregator.events.model import (
    UNKNOWN,
    Calls,
    Collectives,
    Launches,
    Names,
    OpCalls,
    Ops,
    OpTimes,
    Waits,
    Work,
    WorkKind,
    stacked,
)
from aggregator.kernels.traits import communication_kernels, half_precision_kernels
from aggregator.profile.arrays import NO_ROW, Int32, Int64, Integers, distinct, narrow
from aggregator.profile.limits import OF_WARNING, LimitCode
from aggregator.profile.profile import LOST_RECORDS, MOVED_CLOCK
from aggregator.system.untrusted_json import read_json

_WORK: Final = ("device", "stream_id", "process", "api_start", "api_duration", "start", "duration")
_OPS: Final = (
    *("id", "op_id", "op_name", "op_type", "direction", "domain", "tc_support_status", "forward"),
    *("process", "data_type"),
)
COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "dldb_meta": ("key", "value"),
    "processes": ("id", "pid"),
    "threads": ("id", "tid", "process"),
    "api_names": ("id", "name"),
    "range_names": ("id", "name"),
    "kernel_names": ("id", "name", "long_name", "tc_verdict"),
    "ops": _OPS,
    "op_kernels": ("id", "op"),
    "op_instances": ("op", "start", "stop", "thread"),
    "named_ranges": ("name", "process", "start", "stop"),
    "kernels": (*_WORK, "op_kernel", "name"),
    "memory_ops": (*_WORK, "op", "is_copy", "copy_kind", "host_kind", "bytes"),
    "graph_launches": (*_WORK, "op"),
    "api_calls": ("name", "op", "start", "duration", "thread"),
}
"""Tables and columns that an import keeps for a store."""
_IN_ORDER_OF_START: Final = {"op_instances": "start", "api_calls": "start", "device_waits": "start"}


class Tables(Protocol):
    """Where a store reads."""

    def integers(self, table: str, names: Sequence[str]) -> list[Integers]:
        """Read columns of a long table in order of row id, of 32 bits where that is enough."""

    def values(self, table: str, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """Read rows of a short table in order of their first value, the key of the table."""

    def of_aggregation(self, table: str, aggr: int, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """Read the rows of an aggregation in order of their first value."""

    def first_rows(self, table: str, names: Sequence[str], count: int) -> list[Integers]:
        """Read columns of the first rows of a long table."""

    def has(self, table: str, column: str = "") -> bool:
        """Return whether a table, and a column of it, exists; those of early versions lack some."""


class EventStore:
    """Events of a profile, or those that some time launched.

    Reading raises ``sqlite3.Error``, ``ValueError``, ``TypeError`` or ``LookupError`` if the
    database is damaged.
    """

    def __init__(self, tables: Tables, *, keeps_columns: bool = True) -> None:
        """Begin without columns; those of an import are joined for each reader and not kept."""
        self._tables, self._keeps_columns = tables, keeps_columns
        self._columns: dict[tuple[str, str], Integers] = {}

    def on(self, tables: Tables) -> EventStore:
        """Return the same events, whose further columns are read from other tables."""
        other = EventStore(tables)
        other._columns = self._columns
        return other

    def integers(self, table: str, names: Sequence[str]) -> list[Int64]:
        """Return columns of a long table in order of row id; each is read once."""
        return [column.astype(np.int64, copy=False) for column in self._narrow(table, names)]

    def _narrow(self, table: str, names: Sequence[str]) -> list[Integers]:
        """Return the same, of 32 bits where that is enough."""
        if not self._keeps_columns:
            return self._tables.integers(table, names)
        missing = [name for name in names if (table, name) not in self._columns]
        if missing:
            found = self._tables.integers(table, missing)
            self._columns |= {
                (table, name): data for name, data in zip(missing, found, strict=True)
            }
        return [self._columns[table, name] for name in names]

    def values(self, table: str, *names: str) -> list[tuple[Any, ...]]:
        """Return rows of a short table in order of their first value, the key of the table."""
        return self._tables.values(table, names)

    def of_aggregation(self, table: str, aggr: int, *names: str) -> list[tuple[Any, ...]]:
        """Return the rows of an aggregation in order of their first value."""
        return self._tables.of_aggregation(table, aggr, names)

    def has(self, table: str, column: str = "") -> bool:
        """Return whether a table, and a column of it, exists; those of early versions lack some."""
        return self._tables.has(table, column)

    def first_rows(self, table: str, names: Sequence[str], time_ns: int) -> list[Int64]:
        """Return columns of the rows before a time: some are slow to read whole."""
        found = self._tables.first_rows(table, names, self.first_row(table, time_ns))
        return [column.astype(np.int64, copy=False) for column in found]

    def first_row(self, table: str, time_ns: int) -> int:
        """Return the first row of a table that is launched, or starts, at a time or later."""
        column = _IN_ORDER_OF_START.get(table, "api_start")
        return int(np.searchsorted(self.integers(table, (column,))[0], time_ns))

    @cached_property
    def names(self) -> Names:
        """The distinct kernels."""
        rows = self.values("kernel_names", *COLUMNS["kernel_names"])
        long = tuple(str(row[2]) for row in rows)
        verdict = [UNKNOWN if row[3] is None else row[3] for row in rows]
        return Names(
            short=tuple(str(row[1]) for row in rows),
            long=long,
            verdict=np.array(verdict, dtype=np.int64),
            half=half_precision_kernels(long),
            communicates=communication_kernels(long),
        )

    @cached_property
    def ops(self) -> Ops:
        """The ops of all domains."""
        rows = self.values("ops", *_OPS)
        ids, names, types, directions = (
            tuple(str(row[column]) for row in rows) for column in range(1, 5)
        )
        return Ops(
            *(ids, names, types, directions),
            domain=np.array([row[5] for row in rows], dtype=np.int64) - 1,
            eligible=np.array([row[6] == 0 for row in rows], dtype=bool),
            forward=np.array([row[7] or 0 for row in rows], dtype=np.int64) - 1,
            process=np.array([row[8] for row in rows], dtype=np.int64) - 1,
            data_types=tuple(str(row[9]) for row in rows),
        )

    @cached_property
    def call_names(self) -> tuple[str, ...]:
        """The names of CUDA calls by row."""
        return tuple(str(row[1]) for row in self.values("api_names", "id", "name"))

    @cached_property
    def call_name_of_id(self) -> Int32:
        """The row of a call's name by its id, which has gaps."""
        ids = [int(row[0]) for row in self.values("api_names", "id")]
        result = np.full(max(ids, default=0) + 1, NO_ROW, dtype=np.int32)
        result[ids] = np.arange(len(ids))
        return result

    @cached_property
    def collectives(self) -> Collectives:
        """The collectives of ranks; none in databases of versions that found none."""
        names = ("kernel", "rank", "communicator", "sequence", "num_ranks", "bytes", "waiting")
        rows = []
        if self.has("collectives"):
            rows = self.values("collectives", *names, "kept_waiting", "kind")
        known = [[UNKNOWN if value is None else value for value in row[:-1]] for row in rows]
        kernel, *others = np.array(known, dtype=np.int64).reshape(-1, 8).T
        kinds = np.array([str(row[-1]) for row in rows], dtype=object)
        return Collectives(*(kernel - 1, *others, kinds))

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the training script that were recorded."""
        rows = self.values("model_config", "key", "value")
        return {str(key): read_json(str(value)) for key, value in rows if value is not None}

    @cached_property
    def used_devices(self) -> frozenset[int]:
        """The rows of the GPUs that ran work."""
        tables = ("kernels", "memory_ops", "graph_launches")
        used = [distinct(self.integers(table, ("device",))[0]) for table in tables]
        return frozenset((np.concatenate(used) - 1).tolist())

    @cached_property
    def lost_records(self) -> bool:
        """Whether the recorder lost work of the GPU: what is not there may have happened."""
        return not LOST_RECORDS.isdisjoint(self._warning_codes)

    @property
    def limits(self) -> frozenset[LimitCode]:
        """The limits of the capture that the import found."""
        return frozenset(OF_WARNING[code] for code in self._warning_codes if code in OF_WARNING)

    @cached_property
    def is_clock_moved(self) -> bool:
        """Whether the import moved the work of GPUs, whose clock was behind."""
        return MOVED_CLOCK in self._warning_codes

    @cached_property
    def _warning_codes(self) -> frozenset[str]:
        return frozenset(str(code) for (code,) in self.values("warnings", "code"))

    @cached_property
    def process_of_thread(self) -> Int64:
        """The row of the process of each thread."""
        return self.column("threads", "process") - 1

    def column(self, table: str, name: str) -> Int64:
        """Return a column of a short table whose ids count from 1, by row."""
        rows = self.values(table, "id", name)
        result = np.full(max((int(row[0]) for row in rows), default=0), NO_ROW, dtype=np.int64)
        result[[int(row[0]) - 1 for row in rows]] = [row[1] for row in rows]
        return result

    def work(self, time_ns: tuple[int, int] | None = None) -> Work:
        """Return the work of GPUs: all, or what was launched from one time up to another."""
        parts = [
            self._kernels(self._rows("kernels", time_ns)),
            self._memory(self._rows("memory_ops", time_ns)),
            self._graphs(self._rows("graph_launches", time_ns)),
        ]
        return stacked(parts)

    def kernels(self) -> Work:
        """Return all kernels."""
        return self._kernels(slice(0, None))

    def calls(self, time_ns: tuple[int, int] | None = None) -> Calls:
        """Return CUDA calls: all, or those that start from one time up to another."""
        rows = self._rows("api_calls", time_ns)
        columns = self._narrow("api_calls", COLUMNS["api_calls"])
        name, op, start, duration, thread = (column[rows] for column in columns)
        start = start.astype(np.int64, copy=False)
        process = narrow(self.process_of_thread)[thread - 1]
        return Calls(
            *(start, start + duration, thread - 1, process),
            *(self.call_name_of_id[name], op - 1, _row_ids(rows, len(start))),
        )

    def op_calls(self, time_ns: tuple[int, int] | None = None) -> OpCalls:
        """Return executions of ops: all, or those that start from one time up to another."""
        rows = self._rows("op_instances", time_ns)
        columns = self._narrow("op_instances", COLUMNS["op_instances"])
        op, start, end, thread = (column[rows] for column in columns)
        start, end = (time.astype(np.int64, copy=False) for time in (start, end))
        return OpCalls(start, end, thread - 1, op - 1, _row_ids(rows, len(start)))

    def op_times(self) -> OpTimes:
        """Return all executions of ops with their times."""
        names = ("op", "start", "stop", "cpu_time", "cpu_overhead", "gpu_time", "gpu_idle")
        op, *times = self.integers("op_instances", names)
        return OpTimes((op - 1).astype(np.int32), *times)

    def launches(self, table: str, code: str) -> Launches:
        """Return the launches of a table; ``code`` is the column of what is launched."""
        names = (code, "api_start", "api_duration", "duration")
        ids, *times = self.integers(table, names)
        return Launches((ids - 1).astype(np.int32), *times)

    def waits(self, time_ns: tuple[int, int] | None = None) -> Waits:
        """Return recorded waits: all, or those that start from one time up to another."""
        if not self.has("device_waits"):
            return Waits(*np.empty((6, 0), dtype=np.int64))
        rows = self._rows("device_waits", time_ns)
        names = ("start", "process", "device", "stream_id", "record_ago", "record_stream")
        columns = self.integers("device_waits", names)
        start, process, device, stream, ago, recorded = (column[rows] for column in columns)
        return Waits(start, process - 1, device - 1, stream, ago, recorded)

    def _rows(self, table: str, time_ns: tuple[int, int] | None) -> slice:
        if time_ns is None:
            return slice(0, None)
        low, high = (self.first_row(table, time) for time in time_ns)
        return slice(low, high)

    def _kernels(self, rows: slice) -> Work:
        *common, pair, name = self._narrow("kernels", COLUMNS["kernels"])
        none = np.full(len(name[rows]), UNKNOWN, dtype=np.int32)
        op = narrow(self.column("op_kernels", "op"))[pair[rows] - 1]
        return _work(
            [column[rows] for column in common],
            kind=np.full(len(none), WorkKind.KERNEL, dtype=np.int32),
            op=op - 1,
            name=name[rows] - 1,
            copy_kind=none,
            host_kind=none,
            num_bytes=none,
            row_id=_row_ids(rows, len(none)),
        )

    def _memory(self, rows: slice) -> Work:
        columns = self._narrow("memory_ops", COLUMNS["memory_ops"])
        *common, op, is_copy, copy_kind, host_kind, num_bytes = (column[rows] for column in columns)
        return _work(
            common,
            kind=np.where(is_copy == 1, np.int32(WorkKind.COPY), np.int32(WorkKind.SET)),
            op=op - 1,
            name=np.full(len(op), NO_ROW, dtype=np.int32),
            copy_kind=copy_kind,
            host_kind=host_kind,
            num_bytes=num_bytes,
            row_id=_row_ids(rows, len(op)),
        )

    def _graphs(self, rows: slice) -> Work:
        columns = self._narrow("graph_launches", COLUMNS["graph_launches"])
        *common, op = (column[rows] for column in columns)
        none = np.full(len(op), UNKNOWN, dtype=np.int32)
        return _work(
            common,
            kind=np.full(len(op), WorkKind.GRAPH, dtype=np.int32),
            op=op - 1,
            name=none,
            copy_kind=none,
            host_kind=none,
            num_bytes=none,
            row_id=_row_ids(rows, len(op)),
        )


def _work(common: Sequence[Integers], **columns: Integers) -> Work:
    device, stream, process, api_start, api_duration, start, duration = common
    # A short capture may begin at 0: then its times have 32 bits, too.
    api_start, start = (time.astype(np.int64, copy=False) for time in (api_start, start))
    return Work(
        start_ns=start,
        end_ns=start + duration,
        device=device - 1,
        stream=stream,
        process=process - 1,
        api_start_ns=api_start,
        api_end_ns=api_start + api_duration,
        **columns,
    )


def _row_ids(rows: slice, count: int) -> Int32:
    return np.arange(rows.start + 1, rows.start + 1 + count, dtype=np.int32)
