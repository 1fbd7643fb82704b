"""Events of a database of this program as columns, in order of start.

Times are ns on the profile's own clock.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, Final, Self, TypeVar

import numpy as np

from aggregator.dldb.column_blobs import read_columns
from aggregator.dldb.writer import has_table
from aggregator.kernels.traits import communication_kernels
from aggregator.profile.arrays import Bool, Int64


class Category(IntEnum):
    """What kind of work a GPU did."""

    TENSOR_CORE = 0
    COMPUTE = 1
    COMMUNICATION = 2
    COPY = 3
    SET = 4
    GRAPH = 5


CATEGORY_NAMES = {
    Category.TENSOR_CORE: "Tensor Core kernel",
    Category.COMPUTE: "other kernel",
    Category.COMMUNICATION: "communication",
    Category.COPY: "copy",
    Category.SET: "set",
    Category.GRAPH: "CUDA graph",
}
COPY_NAMES = {1: "Memcpy HtoD", 2: "Memcpy DtoH", 8: "Memcpy DtoD", 10: "Memcpy PtoP"}
"""Copies by CUPTI's kind of copy."""
SET_NAME = "Memset"
GRAPH_NAME = "CUDA graph"


class Columns:
    """Columns of one length; a base class of dataclasses whose fields are all arrays."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))  # type: ignore[arg-type]

    def rows(self, rows: Any) -> Self:
        """The chosen rows."""
        names = [column.name for column in fields(self)]  # type: ignore[arg-type]
        return type(self)(**{name: getattr(self, name)[rows] for name in names})


@dataclass(frozen=True)
class Work(Columns):
    """Kernels, copies, sets and whole graphs on GPUs."""

    start_ns: Int64
    end_ns: Int64
    device: Int64  # Row of devices.
    stream: Int64  # CUDA stream; -1: not recorded.
    process: Int64  # Row of processes.
    name: Int64  # Index into the names of work.
    category: Int64  # ``Category``.
    op: Int64  # Row of ops.
    row: Int64  # Row id in its table; kernels, memory_ops and graph_launches by category.
    api_start_ns: Int64  # Start of the launching call; of the work where none was recorded.
    api_duration_ns: Int64  # 0: no call was recorded.


@dataclass(frozen=True)
class Calls(Columns):
    """CUDA calls."""

    start_ns: Int64
    end_ns: Int64
    thread: Int64  # Row of threads.
    name: Int64  # Row of api_names.
    op: Int64  # Row of ops.
    row: Int64  # Row of api_calls.


@dataclass(frozen=True)
class OpCalls(Columns):
    """Executions of ops on the CPU."""

    start_ns: Int64
    end_ns: Int64
    thread: Int64  # Row of threads.
    op: Int64  # Row of ops.
    shapes: Int64  # Row of shape_texts; 0: none.
    row: Int64  # Row of op_instances.


@dataclass(frozen=True)
class Op:
    """An op, as far as a timeline shows it."""

    op_id: str
    name: str
    type: str
    direction: str
    forward: int | None  # Row of the forward op of a backward one.


@dataclass(frozen=True)
class Window:
    """What part of a profile is read: events that overlap ``low_ns <= t < high_ns``."""

    low_ns: int = -(2**63)
    high_ns: int = 2**63 - 1

    def holds(self, start_ns: Int64, end_ns: Int64) -> Bool:
        """Whether events overlap the window; one without length does where it starts."""
        inside = (start_ns < self.high_ns) & (end_ns > self.low_ns)
        points = (start_ns == end_ns) & (start_ns >= self.low_ns) & (start_ns < self.high_ns)
        held: Bool = inside | points
        return held


def iteration_window(
    connection: sqlite3.Connection, aggregation: int, first: int | None, last: int | None
) -> Window | None:
    """The time of some iterations; of all events if none are named.

    Args:
        connection: The database.
        aggregation: Its aggregation that has the iterations.
        first: The first; None: from the beginning on.
        last: The last; None: to the end.

    Returns:
        The time; None: the aggregation has none of these iterations.
    """
    if first is None and last is None:
        return Window()
    sql = (
        "SELECT min(start_time), max(stop_time) FROM view_iterations_all WHERE aggr_id = ?"
        " AND iter_value BETWEEN ? AND ?"
    )
    low, high = (0 if first is None else first), (2**62 if last is None else last)
    bounds = (aggregation, *(max(min(bound, 2**62), -1) for bound in (low, high)))
    low, high = connection.execute(sql, bounds).fetchone()
    return None if low is None or high is None else Window(int(low), int(high))


Chosen = TypeVar("Chosen", Work, Calls, OpCalls)


class Events:
    """Reads the events of a database of this program.

    All methods raise ``sqlite3.Error``, ``ValueError``, ``TypeError`` or ``LookupError`` for a
    damaged database.

    Attributes:
        connection: The database.
        window: What part of its time is read.
    """

    def __init__(self, connection: sqlite3.Connection, window: Window | None = None) -> None:
        self.connection = connection
        self.window = window or Window()

    def ops(self) -> dict[int, Op]:
        """Ops by row."""
        sql = "SELECT id, op_id, op_name, op_type, direction, forward FROM ops"
        return {
            int(row[0]): Op(
                *(str(row[1]), str(row[2]), str(row[3]), str(row[4])),
                forward=None if row[5] is None else int(row[5]),
            )
            for row in self._all(sql)
        }

    def threads(self) -> dict[int, tuple[int, int, str]]:
        """Row of processes, thread id and name of each thread by row."""
        sql = "SELECT id, process, tid, name FROM threads"
        return {int(a): (int(b), int(c), str(d)) for a, b, c, d in self._all(sql)}

    def processes(self) -> dict[int, int]:
        """Process ids by row."""
        return {int(row[0]): int(row[1]) for row in self._all("SELECT id, pid FROM processes")}

    def ranks(self) -> dict[int, int]:
        """Number of the rank of each process that has one, in their order, by row of processes."""
        if not has_table(self.connection, "ranks"):
            return {}
        rows = self._all("SELECT process, rank FROM ranks ORDER BY rank")
        return {int(process): int(rank) for process, rank in rows}

    def devices(self) -> dict[int, tuple[int, str]]:
        """Number and name of each GPU by row."""
        sql = "SELECT id, device_id, name FROM devices"
        return {int(a): (int(b), str(c)) for a, b, c in self._all(sql)}

    def call_names(self) -> dict[int, str]:
        """Names of CUDA calls by row."""
        return {int(row[0]): str(row[1]) for row in self._all("SELECT id, name FROM api_names")}

    def shape_texts(self) -> dict[int, str]:
        """Shapes of inputs by row."""
        rows = self._all("SELECT id, input_shapes FROM shape_texts WHERE input_shapes != ''")
        return {int(row[0]): str(row[1]) for row in rows}

    def iterations(self, aggregation: int) -> list[tuple[int, int, int]]:
        """Number, start and end of the iterations of an aggregation."""
        sql = (
            "SELECT iter_value, start, stop FROM iterations WHERE aggr = ? AND stop > ?"
            " AND start < ? ORDER BY start"
        )
        bounds = (aggregation, self.window.low_ns, self.window.high_ns)
        rows = self.connection.execute(sql, bounds).fetchall()
        times = limited(np.array([row[1:] for row in rows], dtype=np.int64).reshape(-1, 2))
        return [
            (int(row[0]), start, max(start, stop))
            for row, (start, stop) in zip(rows, times.tolist(), strict=True)
        ]

    def op_calls(self) -> OpCalls:
        """Executions of ops of the default domain."""
        names = ("op", "start", "stop", "thread", "shapes")
        op, start, stop, thread, shapes = self._read("op_instances", names)
        default = np.array([row[0] for row in self._all("SELECT id FROM ops WHERE domain = 1")])
        start, stop = limited(start), limited(stop)
        found = OpCalls(start, np.maximum(stop, start), thread, op, shapes, _row_ids(start))
        return self._chosen(found.rows(np.isin(op, default)))

    def calls(self) -> Calls:
        """CUDA calls."""
        name, op, start, duration, thread = self._read(
            "api_calls", ("name", "op", "start", "duration", "thread")
        )
        start, stop = _times(start, duration)
        return self._chosen(Calls(start, stop, thread, name, op, _row_ids(start)))

    def work(self) -> tuple[Work, list[str], dict[int, str]]:
        """Work of the GPUs, its names, and the full names of those of kernels."""
        names, full_names, is_tensor_core, is_communication = self._kernel_names()
        parts = [
            self._kernels(is_tensor_core, is_communication),
            self._copies(names),
            self._graphs(names),
        ]
        joined = Work(
            **{
                column.name: np.concatenate([getattr(part, column.name) for part in parts])
                for column in fields(Work)
            }
        )
        return self._chosen(joined), names, full_names

    def launch_sizes(self) -> tuple[Int64, dict[int, str]]:
        """Row of launch_sizes of each kernel, by row id - 1, and their texts."""
        sql = "SELECT id, grid_x, grid_y, grid_z, block_x, block_y, block_z FROM launch_sizes"
        texts = {
            int(row[0]): "grid {} x {} x {}, block {} x {} x {}".format(*row[1:])
            for row in self._all(sql)
        }
        return self._read("kernels", ("size",))[0], texts

    def _kernels(self, is_tensor_core: Bool, is_communication: Bool) -> Work:
        columns = ("op_kernel", "name", "start", "duration", "device", "api_start", "api_duration")
        pair, name, start, duration, device, api_start, api_duration = self._read(
            "kernels", columns
        )
        stream, process = self._read("kernels", ("stream_id", "process"))
        category = np.where(is_tensor_core[name - 1], Category.TENSOR_CORE, Category.COMPUTE)
        category[is_communication[name - 1]] = Category.COMMUNICATION
        return Work(
            *(*_times(start, duration), device, stream, process, name - 1, category),
            *(self._op_of_pair()[pair], _row_ids(start), api_start, api_duration),
        )

    def _copies(self, names: list[str]) -> Work:
        columns = ("op", "is_copy", "copy_kind", "start", "duration", "device", "stream_id")
        op, is_copy, kind, start, duration, device, stream = self._read("memory_ops", columns)
        process, api_start, api_duration = self._read(
            "memory_ops", ("process", "api_start", "api_duration")
        )
        name = np.full(len(kind), len(names))
        names += [SET_NAME, "Memcpy", *COPY_NAMES.values()]
        name[is_copy > 0] += 1
        for number, known in enumerate(COPY_NAMES):
            name[(is_copy > 0) & (kind == known)] += number + 1
        category = np.where(is_copy > 0, Category.COPY, Category.SET)
        return Work(
            *(*_times(start, duration), device, stream, process, name, category),
            *(op, _row_ids(start), api_start, api_duration),
        )

    def _graphs(self, names: list[str]) -> Work:
        columns = ("op", "start", "duration", "device", "stream_id", "process")
        op, start, duration, device, stream, process = self._read("graph_launches", columns)
        api_start, api_duration = self._read("graph_launches", ("api_start", "api_duration"))
        name = np.full(len(op), len(names))
        names.append(GRAPH_NAME)
        category = np.full(len(op), int(Category.GRAPH))
        return Work(
            *(*_times(start, duration), device, stream, process, name, category),
            *(op, _row_ids(start), api_start, api_duration),
        )

    def _kernel_names(self) -> tuple[list[str], dict[int, str], Bool, Bool]:
        rows = self._all("SELECT name, long_name, uses_tc FROM kernel_names ORDER BY id")
        names = [str(row[0]) for row in rows]
        uses = np.array([row[2] == 1 for row in rows], dtype=bool)
        full_names = {number: str(row[1]) for number, row in enumerate(rows)}
        return names, full_names, uses, communication_kernels(names)

    def _op_of_pair(self) -> Int64:
        rows = self._all("SELECT op FROM op_kernels ORDER BY id")
        return np.array([0, *(row[0] for row in rows)], dtype=np.int64)

    def _read(self, table: str, names: Sequence[str]) -> list[Int64]:
        return read_columns(self.connection, table, names)

    def _all(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.connection.execute(sql)]

    def _chosen(self, found: Chosen) -> Chosen:
        """The events of the window in order of start, the longer of equal starts first."""
        rows = np.flatnonzero(self.window.holds(found.start_ns, found.end_ns))
        start, stop, row = found.start_ns[rows], found.end_ns[rows], found.row[rows]
        return found.rows(rows[np.lexsort((row, -stop, start))])


FURTHEST_NS: Final = 2**61
"""Times that are further from 0 (73 years) are drawn there: differences then fit into 64 bits."""


def limited(times_ns: Int64) -> Int64:
    """Times that can be subtracted from each other."""
    found: Int64 = np.clip(times_ns, -FURTHEST_NS, FURTHEST_NS)
    return found


def _times(start_ns: Int64, duration_ns: Int64) -> tuple[Int64, Int64]:
    """Starts and ends; no event ends before it starts."""
    start = limited(start_ns)
    return start, limited(start + np.clip(duration_ns, 0, FURTHEST_NS))


def _row_ids(column: Int64) -> Int64:
    return np.arange(1, len(column) + 1, dtype=np.int64)
