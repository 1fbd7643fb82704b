"""Events of a database of this program as a timeline shows them: in order of start.

Times are ns on the profile's own clock.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, TypeVar

import numpy as np

from aggregator.dldb.event_reader import stored_events
from aggregator.events.model import Calls, Columns, OpCalls, Work, WorkKind
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


@dataclass(frozen=True)
class ShownWork(Work):
    """Work with what a timeline calls it."""

    title: Int64  # Index into the names of work.
    category: Int64  # ``Category``.


@dataclass(frozen=True)
class WorkNames:
    """Names of work by the title of ``ShownWork``; only those of kernels differ."""

    shown: tuple[str, ...]  # What every table and picture calls it.
    short: tuple[str, ...]
    full: tuple[str, ...]


@dataclass(frozen=True)
class ShownOpCalls(OpCalls):
    """Executions of ops with the shapes of their inputs."""

    shapes: Int64  # Id of shape_texts; 0: none.


def path_end(name: str) -> str:
    """Return the last two parts of a path: ``c_attn/linear``."""
    return "/".join(name.strip("/").split("/")[-2:])


@dataclass(frozen=True)
class Op:
    """An op, as far as a timeline shows it."""

    op_id: str
    name: str
    type: str
    direction: str
    forward: int | None  # Row of the forward op of a backward one.

    @property
    def title(self) -> str:
        """The end of its path, which a picture has room for."""
        return path_end(self.name) or self.op_id


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


Chosen = TypeVar("Chosen", bound=Columns)


class Events:
    """Reads the events of a database of this program.

    All methods raise ``sqlite3.Error``, ``ValueError``, ``TypeError`` or ``LookupError`` for a
    damaged database.

    Attributes:
        connection: The database.
        window: What part of its time is read.
        store: Its events without that limit.
    """

    def __init__(self, connection: sqlite3.Connection, window: Window | None = None) -> None:
        self.connection = connection
        self.window = window or Window()
        self.store = stored_events(connection)

    def ops(self) -> dict[int, Op]:
        """Return the ops by row."""
        ops = self.store.ops
        forward = [None if row < 0 else row for row in ops.forward.tolist()]
        columns = zip(ops.op_ids, ops.names, ops.types, ops.directions, forward, strict=True)
        return {row: Op(*values) for row, values in enumerate(columns)}

    def threads(self) -> dict[int, tuple[int, int, str]]:
        """Return the row of the process, the thread id and the name of each thread by row."""
        rows = self.store.values("threads", "id", "process", "tid", "name")
        return {int(a) - 1: (int(b) - 1, int(c), str(d)) for a, b, c, d in rows}

    def processes(self) -> dict[int, int]:
        """Return process ids by row."""
        rows = self.store.values("processes", "id", "pid")
        return {int(row) - 1: int(pid) for row, pid in rows}

    def ranks(self) -> dict[int, int]:
        """Return the rank of each process that has one, in order of rank, by row of processes."""
        if not self.store.has("ranks"):
            return {}
        rows = self.store.values("ranks", "rank", "process")
        return {int(process) - 1: int(rank) for rank, process in rows}

    def devices(self) -> dict[int, tuple[int, str]]:
        """Return the number and name of each GPU by row."""
        rows = self.store.values("devices", "id", "device_id", "name")
        return {int(a) - 1: (int(b), str(c)) for a, b, c in rows}

    def call_names(self) -> tuple[str, ...]:
        """Return the names of CUDA calls by row."""
        return self.store.call_names

    def shape_texts(self) -> dict[int, str]:
        """Return shapes of inputs by id."""
        rows = self.store.values("shape_texts", "id", "input_shapes")
        return {int(row): str(text) for row, text in rows if text}

    def iterations(self, aggregation: int) -> list[tuple[int, int, int]]:
        """Return number, start and end of the iterations of an aggregation."""
        sql = (
            "SELECT iter_value, start, stop FROM iterations WHERE aggr = ? AND stop > ?"
            " AND start < ? ORDER BY start"
        )
        bounds = (aggregation, self.window.low_ns, self.window.high_ns)
        rows = self.connection.execute(sql, bounds).fetchall()
        times = limited(np.array([row[1:] for row in rows], dtype=np.int64).reshape(-1, 2))
        return [
            (int(row[0]), start, max(start, end))
            for row, (start, end) in zip(rows, times.tolist(), strict=True)
        ]

    def op_calls(self) -> ShownOpCalls:
        """Return executions of ops of the default domain."""
        found = self.store.op_calls()
        (shapes,) = self.store.integers("op_instances", ("shapes",))
        start, end = limited(found.start_ns), limited(found.end_ns)
        times = {"start_ns": start, "end_ns": np.maximum(end, start)}
        shown = ShownOpCalls(**vars(found) | times, shapes=shapes)
        return self._chosen(shown.rows(np.append(self.store.ops.domain == 0, False)[found.op]))

    def calls(self) -> Calls:
        """Return CUDA calls."""
        found = self.store.calls()
        return self._chosen(Calls(**vars(found) | _times(found)))

    def work(self) -> tuple[ShownWork, WorkNames]:
        """Return work of the GPUs and its names."""
        found, kernels = self.store.work(), self.store.names
        copies = len(kernels) + 1
        title = np.where(found.kind == WorkKind.KERNEL, found.name, len(kernels))
        title[found.kind == WorkKind.COPY] = copies
        for number, known in enumerate(COPY_NAMES, start=1):
            title[(found.kind == WorkKind.COPY) & (found.copy_kind == known)] = copies + number
        others = (SET_NAME, "Memcpy", *COPY_NAMES.values(), GRAPH_NAME)
        title[found.kind == WorkKind.GRAPH] = len(kernels) + len(others) - 1
        readable = self.store.values("kernel_names", "id", "readable_name")
        names = WorkNames(
            shown=(*(str(name) for _, name in readable), *others),
            short=(*kernels.short, *others),
            full=(*kernels.long, *others),
        )
        category = _CATEGORY_OF_KIND[found.kind]
        is_kernel = found.kind == WorkKind.KERNEL
        of_name = np.where(kernels.uses_tc, Category.TENSOR_CORE, Category.COMPUTE)
        of_name[kernels.communicates] = Category.COMMUNICATION
        category[is_kernel] = of_name[found.name[is_kernel]]
        shown = ShownWork(**vars(found) | _times(found), title=title, category=category)
        return self._chosen(shown), names

    def launch_sizes(self) -> tuple[Int64, dict[int, str]]:
        """Return the id of launch_sizes of each kernel, by row, and their texts."""
        names = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
        texts = {
            int(row[0]): "grid {} x {} x {}, block {} x {} x {}".format(*row[1:])
            for row in self.store.values("launch_sizes", "id", *names)
        }
        return self.store.integers("kernels", ("size",))[0], texts

    def _chosen(self, found: Chosen) -> Chosen:
        """Select the events of the window in order of start, the longer of equal starts first."""
        events: Any = found
        rows = np.flatnonzero(self.window.holds(events.start_ns, events.end_ns))
        keys = events.row_id[rows], -events.end_ns[rows], events.start_ns[rows]
        return found.rows(rows[np.lexsort(keys)])


_CATEGORY_OF_KIND: Final = np.array(
    [Category.COMPUTE, Category.COPY, Category.SET, Category.GRAPH], dtype=np.int64
)
FURTHEST_NS: Final = 2**61
"""Times that are further from 0 (73 years) are drawn there: differences then fit into 64 bits."""


def limited(times_ns: Int64) -> Int64:
    """Times that can be subtracted from each other."""
    found: Int64 = np.clip(times_ns, -FURTHEST_NS, FURTHEST_NS)
    return found


def _times(events: Work | Calls) -> dict[str, Int64]:
    """Return limited starts and ends; no event ends before it starts."""
    start = limited(events.start_ns)
    # What a damaged database adds up to beyond 64 bits comes back in the difference.
    length = np.clip(events.end_ns - events.start_ns, 0, FURTHEST_NS)
    return {"start_ns": start, "end_ns": limited(start + length)}
