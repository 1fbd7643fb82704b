"""Where an event store reads: a database, or the tables that an import writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

import numpy as np

from aggregator.dldb.column_blobs import first_row, read_columns
from aggregator.dldb.writer import Table, has_table
from aggregator.events.store import COLUMNS, EventStore
from aggregator.profile.arrays import Integers, concatenate_and_clear, narrow


class StoredTables:
    """The tables of a database."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def integers(self, table: str, names: Sequence[str]) -> list[Integers]:
        """Read columns of a long table in order of row id."""
        return [narrow(column) for column in read_columns(self._connection, table, names)]

    def first_rows(self, table: str, names: Sequence[str], count: int) -> list[Integers]:
        """Read columns of the first rows of a long table."""
        return read_columns(self._connection, table, names, (1, count + 1))

    def values(self, table: str, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """Read rows of a short table in order of their first value, the key of the table."""
        query = f"SELECT {', '.join(names)} FROM {table} ORDER BY 1"
        return [tuple(row) for row in self._connection.execute(query)]

    def of_aggregation(self, table: str, aggr: int, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """Read the rows of an aggregation in order of their first value."""
        query = f"SELECT {', '.join(names)} FROM {table} WHERE aggr = ? ORDER BY 1"
        return [tuple(row) for row in self._connection.execute(query, (aggr,))]

    def has(self, table: str, column: str = "") -> bool:
        """Return whether the table, and a column of it if one is named, exists."""
        if not has_table(self._connection, table):
            return False
        cursor = self._connection.execute(f"SELECT * FROM {table} LIMIT 0")
        return column in ("", *(name for name, *_ in cursor.description))


class KeptTables:
    """The tables that an import writes, as far as an event store needs them.

    A column of a long table can be read once, and is forgotten: it would be in memory twice.
    """

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, list[Any]]] = {
            table: {name: [] for name in names} for table, names in COLUMNS.items()
        }

    def keep(self, tables: Iterable[Table]) -> Iterator[Table]:
        """Yield the tables, whose rows come in order."""
        for table in tables:
            for name, parts in self._kept.get(table.name, {}).items():
                column = table.columns[name]
                parts.append(narrow(column) if isinstance(column, np.ndarray) else column)
            yield table

    def integers(self, table: str, names: Sequence[str]) -> list[Integers]:
        """Join columns of a long table in order of row id."""
        return [concatenate_and_clear(self._kept[table].pop(name)) for name in names]

    def first_rows(self, table: str, names: Sequence[str], count: int) -> list[Integers]:
        """Join columns of the first rows of a long table."""
        return [column[:count] for column in self.integers(table, names)]

    def values(self, table: str, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """Join rows of a short table, which are written in the order of their key."""
        columns = (chain.from_iterable(self._kept[table][name]) for name in names)
        return list(zip(*columns, strict=True))

    def of_aggregation(self, table: str, aggr: int, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return nothing: an import has no aggregation yet."""
        return []

    def has(self, table: str, column: str = "") -> bool:
        """Return whether the table, and a column of it if one is named, is kept."""
        return table in self._kept and column in ("", *self._kept[table])


Launched: TypeAlias = tuple[int, int, int, int, int]
"""Ids of a piece of work, its GPU and its process, its stream and its start."""
_KERNEL: Final = """
    SELECT n.long_name, n.readable_name, n.tc_verdict, n.source_ops,
           s.grid_x || ' x ' || s.grid_y || ' x ' || s.grid_z AS grid,
           s.block_x || ' x ' || s.block_y || ' x ' || s.block_z AS block,
           p.op, k.instance, k.process, k.api_start, k.api_duration, d.cuda_major, d.cuda_minor
    FROM kernels AS k JOIN kernel_names AS n ON n.id = k.name
    JOIN launch_sizes AS s ON s.id = k.size
    JOIN op_kernels AS p ON p.id = k.op_kernel JOIN devices AS d ON d.id = k.device WHERE k.id = :id
"""
_COPY: Final = """
    SELECT op, process, api_start, api_duration, nullif(bytes, -1) AS bytes,
           CASE host_kind WHEN 0 THEN 'pageable' WHEN 1 THEN 'pinned' ELSE '' END AS host_memory
    FROM memory_ops WHERE id = :id
"""
_GRAPH: Final = "SELECT op, process, api_start, api_duration FROM graph_launches WHERE id = :id"
_CALL: Final = """
    SELECT c.op, t.process, c.start AS api_start, c.duration AS api_duration, c.correlation_id
    FROM api_calls AS c JOIN threads AS t ON t.id = c.thread WHERE c.id = :id
"""
_INSTANCE: Final = """
    SELECT i.id AS instance, i.op, i.gpu_time AS gpu_time_ns, i.cpu_time AS cpu_time_ns,
           nullif(x.input_shapes, '') AS input_shapes, nullif(x.output_shapes, '') AS output_shapes
    FROM op_instances AS i LEFT JOIN shape_texts AS x ON x.id = i.shapes WHERE i.id = :id
"""
_FIRST_CALLS: Final = """
    SELECT o.op_name, o.direction, o.op_type, coalesce(x.input_shapes, ''),
           coalesce(x.parameters, '')
    FROM ops AS o LEFT JOIN shape_texts AS x ON x.id = (
        SELECT j.shapes FROM op_instances AS j WHERE j.op = o.id ORDER BY j.start LIMIT 1)
    ORDER BY o.id
"""


class EventRows:
    """Single events of a database; what is not there has no columns."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def kernel(self, row: int) -> dict[str, Any]:
        """Read a kernel with its name, launch size and GPU."""
        return self.one(_KERNEL, row)

    def memory_op(self, row: int) -> dict[str, Any]:
        """Read a copy or set."""
        return self.one(_COPY, row)

    def graph(self, row: int) -> dict[str, Any]:
        """Read a CUDA graph that was recorded as a whole."""
        return self.one(_GRAPH, row)

    def call(self, row: int) -> dict[str, Any]:
        """Read a CUDA call."""
        return self.one(_CALL, row)

    def op_call(self, row: int) -> dict[str, Any]:
        """Read an execution of an op."""
        return self.one(_INSTANCE, row)

    def ops_of_first_calls(self) -> Iterator[tuple[Any, ...]]:
        """Read name, direction and type of each op, shapes and parameters of its first call."""
        return self._connection.execute(_FIRST_CALLS)

    def launched_by(self, call: dict[str, Any], most: int) -> Iterator[Launched]:
        """Read work whose launching call has a call's process, start and duration."""
        for table in ("kernels", "memory_ops", "graph_launches"):
            low = first_row(self._connection, table, "api_start", call["api_start"])
            sql = (
                f"SELECT id, device, process, stream_id, start FROM {table}"
                " WHERE id >= ? AND id < ? AND api_start = ? AND api_duration = ? AND process = ?"
            )
            values = (low, low + most, call["api_start"], call["api_duration"], call["process"])
            yield from self._connection.execute(sql, values).fetchall()

    def kernels_of(self, op_call: int, most: int) -> list[Launched]:
        """Read the kernels of an execution of an op; their calls began within it."""
        bounds = (
            first_row(self._connection, "kernels", "api_start", time)
            for time in self._times_of(op_call)
        )
        sql = (
            "SELECT id, device, process, stream_id, start FROM kernels WHERE id >= ? AND id < ?"
            " AND instance = ? LIMIT ?"
        )
        return self._connection.execute(sql, (*bounds, op_call, most)).fetchall()

    def place_of(self, op_call: int) -> tuple[int, int, int] | None:
        """Read thread, start and id of an execution of an op."""
        sql = "SELECT thread, start, id FROM op_instances WHERE id = ?"
        row = self._connection.execute(sql, (op_call,)).fetchone()
        return None if row is None else (int(row[0]), int(row[1]), int(row[2]))

    def same_call(self, op: int, other: int, op_call: int) -> tuple[int, int, int] | None:
        """Read the place of the execution of another op that was called as often as this one."""
        count = "SELECT count(*) FROM op_instances WHERE op = ?"
        mine, others = (self._connection.execute(count, (name,)).fetchone() for name in (op, other))
        if tuple(mine) != tuple(others):
            return None
        start, _ = self._times_of(op_call)
        earlier = f"{count} AND (start < ? OR start = ? AND id < ?)"
        values = (op, start, start, op_call)
        (before,) = self._connection.execute(earlier, values).fetchone()
        sql = "SELECT id FROM op_instances WHERE op = ? ORDER BY start, id LIMIT 1 OFFSET ?"
        row = self._connection.execute(sql, (other, before)).fetchone()
        return None if row is None else self.place_of(int(row[0]))

    def _times_of(self, op_call: int) -> tuple[int, int]:
        """Read the start of an execution of an op and the time after its end."""
        sql = "SELECT start, stop + 1 FROM op_instances WHERE id = ?"
        row = self._connection.execute(sql, (op_call,)).fetchone()
        return (0, 1) if row is None else (int(row[0]), int(row[1]))

    def one(self, sql: str, row: int, **values: Any) -> dict[str, Any]:
        """Return the row of a query for ``:id`` by its columns; empty: there is none."""
        cursor = self._connection.execute(sql, {"id": row, **values})
        found = cursor.fetchone()
        if found is None:
            return {}
        return dict(zip((column[0] for column in cursor.description), found, strict=True))


def stored_events(connection: sqlite3.Connection) -> EventStore:
    """Return the events of a database."""
    return EventStore(StoredTables(connection))
