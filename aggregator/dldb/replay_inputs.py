"""Reads the input of the replay from a database."""

from __future__ import annotations

import sqlite3
from typing import Final

import numpy as np

from aggregator.advice.layout_conversions import CONVERSION
from aggregator.dldb.column_blobs import first_row, lookup, read_columns
from aggregator.dldb.steps import NoStepsError, read_steps
from aggregator.dldb.stored import lost_records
from aggregator.dldb.writer import has_table
from aggregator.events.model import LOADER_TYPES
from aggregator.kernels.traits import communication_kernels
from aggregator.profile.arrays import Int64
from aggregator.replay.analysis import ReplayedProfile
from aggregator.replay.inputs import (
    COPY,
    GRAPH,
    KERNEL,
    SET,
    BlockingStreams,
    Calls,
    Loading,
    Ops,
    ReplayInput,
    Spans,
    Waits,
    Work,
)
from aggregator.replay.steps import no_work


def read_replayed(connection: sqlite3.Connection, aggr: int) -> ReplayedProfile:
    """Read an aggregation and replay its steady steps.

    Raises:
        ReplayError: It holds too little work on a GPU.
        sqlite3.Error, ValueError, TypeError, KeyError, OverflowError, IndexError: It is damaged.
    """
    try:
        steps = read_steps(connection, aggr)
    except NoStepsError as error:
        raise no_work() from error
    number = steps.number[:0] if steps.is_single else steps.number
    return ReplayedProfile(read_replay_input(connection, aggr), number)


REPLAYED_STEPS = 16
"""Steps that an aggregation replays for its advice, so that the cost does not grow with it."""


def read_few_steps(connection: sqlite3.Connection, aggr: int, number: Int64) -> ReplayedProfile:
    """Replay a few steps from the middle of the steady ones.

    Args:
        connection: The database.
        aggr: Number of the aggregation.
        number: Numbers of the steady iterations, ascending.

    Raises:
        As for ``read_replayed``.
    """
    begin = max(len(number) - REPLAYED_STEPS, 0) // 2
    chosen = number[begin : begin + REPLAYED_STEPS]
    # The step before begins with the CPU as far ahead as usual; the one after ends the last step.
    around = (int(chosen[0]) - 1, int(chosen[-1]) + 1)
    return ReplayedProfile(read_replay_input(connection, aggr, around), chosen)


def read_replay_input(
    connection: sqlite3.Connection, aggr: int, around: tuple[int, int] | None = None
) -> ReplayInput:
    """Read calls, work and waits of a database, and the iterations of an aggregation.

    Args:
        connection: The database.
        aggr: Number of the aggregation.
        around: First and last iteration whose calls are read; None: all calls are.

    Raises:
        sqlite3.Error, ValueError, TypeError, KeyError, OverflowError, IndexError: It is damaged.
    """
    iterations = _read_iterations(connection, aggr, around)
    rows = _Rows(connection, None if around is None else (iterations[1][0], iterations[2][-1]))
    calls = _read_calls(connection, rows)
    names = connection.execute(
        "SELECT long_name, tc_verdict FROM kernel_names ORDER BY id"
    ).fetchall()
    kernel_names = tuple(str(row[0]) for row in names)
    waits, has_waits = _read_waits(connection, calls, rows)
    spans = _read_spans(connection, rows)
    return ReplayInput(
        calls=calls,
        work=_read_work(connection, calls, rows),
        waits=waits,
        blocking_streams=_read_blocking_streams(connection),
        loading=_loading(connection, spans),
        ops=_read_ops(connection, aggr),
        spans=spans,
        kernel_names=kernel_names,
        uses_tc=np.array([row[1] == 1 for row in names], dtype=bool),
        converts=np.array([bool(CONVERSION.search(name)) for name in kernel_names], dtype=bool),
        communicates=communication_kernels(kernel_names),
        iteration=iterations[0],
        iteration_start_ns=iterations[1],
        iteration_end_ns=iterations[2],
        has_waits=has_waits,
        lost_records=lost_records(connection),
    )


def _read_ops(connection: sqlite3.Connection, aggr: int) -> Ops:
    rows = connection.execute(
        "SELECT op_id, op_name, op_type, direction, tc_support_status = 0 FROM ops ORDER BY id"
    )
    columns = list(zip(*rows.fetchall(), strict=True)) or [()] * 5
    op_ids, op_names, types, directions = (tuple(map(str, column)) for column in columns[:4])
    share = np.full(len(op_ids), np.nan)
    if has_table(connection, "op_efficiency"):
        op, ideal, actual = _rows(
            connection,
            "SELECT op - 1, ideal_time, ideal_gpu_time FROM op_efficiency"
            f" WHERE aggr = {int(aggr)} AND ideal_time > 0 AND ideal_gpu_time > 0",
            3,
        )
        share[op] = ideal / actual
    return Ops(op_ids, op_names, types, directions, np.array(columns[4], dtype=bool), share)


class _Rows:
    """Which rows of the tables of events are read."""

    def __init__(self, connection: sqlite3.Connection, bounds_ns: tuple[int, int] | None) -> None:
        self._connection, self._bounds_ns = connection, bounds_ns

    def of(self, table: str, column: str) -> tuple[int, int] | None:
        """Row ids ``low <= id < high`` of a table that is sorted by a column; None: all."""
        if self._bounds_ns is None:
            return None
        low, high = (first_row(self._connection, table, column, one) for one in self._bounds_ns)
        return low, high

    def condition(self, table: str, column: str) -> str:
        """The same as a condition of SQL."""
        rows = self.of(table, column)
        return "1" if rows is None else f"id >= {rows[0]} AND id < {rows[1]}"


def _read_iterations(
    connection: sqlite3.Connection, aggr: int, around: tuple[int, int] | None
) -> Int64:
    """Number, start and stop of each."""
    wanted = "aggregated"
    if around is not None:
        wanted = f"iter_value BETWEEN {around[0]} AND {around[1]}"
    return _rows(
        connection,
        "SELECT iter_value, start, stop FROM iterations"
        f" WHERE aggr = {int(aggr)} AND kind = 'iteration' AND {wanted} ORDER BY iter_value",
        3,
    )


def _rows(connection: sqlite3.Connection, query: str, count: int) -> Int64:
    """Integer columns of a query, in the shape (count, rows)."""
    found = connection.execute(query).fetchall()
    result: Int64 = np.array(found, dtype=np.int64).reshape(-1, count).T
    return result


def _read_calls(connection: sqlite3.Connection, rows: _Rows) -> Calls:
    names = connection.execute("SELECT id, name FROM api_names ORDER BY id").fetchall()
    code = np.full(max([int(row[0]) for row in names], default=0) + 1, -1, dtype=np.int64)
    code[[int(row[0]) for row in names]] = np.arange(len(names))
    columns = ("name", "op", "start", "duration", "thread")
    name, op, start, duration, thread = read_columns(
        connection, "api_calls", columns, rows.of("api_calls", "start")
    )
    process = lookup(connection, "SELECT id, process - 1 FROM threads")[thread]
    return Calls(
        start_ns=start,
        end_ns=start + duration,
        thread=thread - 1,
        process=process,
        name=code[name],
        op=op - 1,
        names=tuple(str(row[1]) for row in names),
    )


def _call_rows(calls: Calls, process: Int64, start_ns: Int64) -> Int64:
    """Row of the call of a process that began at each time; -1: there is none.

    Calls of several threads may begin at the same time, so the next ones are looked at, too.
    """
    result = np.full(len(start_ns), -1, dtype=np.int64)
    if not len(calls):
        return result
    first = np.searchsorted(calls.start_ns, start_ns)
    for ahead in (3, 2, 1, 0):
        row = np.minimum(first + ahead, len(calls) - 1)
        same = (calls.start_ns[row] == start_ns) & (calls.process[row] == process)
        result[same] = row[same]
    return result


_KERNEL_COLUMNS = (
    *("start", "duration", "device", "stream_id", "process", "api_start", "api_duration"),
    *("op_kernel", "name"),
)


def _read_work(connection: sqlite3.Connection, calls: Calls, rows: _Rows) -> Work:
    chosen = rows.of("kernels", "api_start")
    start, duration, device, stream, process, api_start, api_duration, pair, name = read_columns(
        connection, "kernels", _KERNEL_COLUMNS, chosen
    )
    none = np.full(len(start), -1, dtype=np.int64)
    op = lookup(connection, "SELECT id, op - 1 FROM op_kernels")[pair]
    parts = [
        np.stack(
            [
                *(np.full(len(start), KERNEL), start, duration, device - 1, stream, process - 1),
                *(api_start, api_duration, op, name - 1, none, none),
                *_collectives(connection, len(start), chosen[0] if chosen else 1),
            ]
        )
    ]
    parts += [
        _rows(connection, f"{query} WHERE {rows.condition(table, 'api_start')} ORDER BY id", 15)
        for table, query in _OTHER_WORK.items()
    ]
    kind, start, duration, device, stream, process, api_start, api_duration, *rest = np.concatenate(
        parts, axis=1
    )
    call = _call_rows(calls, process, api_start)
    call[(api_duration == 0) & (api_start == start)] = -1
    op, name, copy_kind, host_kind, group, num_bytes, moved = rest
    return Work(
        kind=kind,
        start_ns=start,
        end_ns=start + duration,
        device=device,
        stream=stream,
        process=process,
        call=call,
        op=op,
        name=name,
        copy_kind=copy_kind,
        host_kind=host_kind,
        collective=group,
        num_bytes=num_bytes,
        moved_bytes=moved,
    )


_OTHER_WORK = {
    "memory_ops": (
        f"SELECT CASE is_copy WHEN 1 THEN {COPY} ELSE {SET} END, start, duration, device - 1,"
        " stream_id, process - 1, api_start, api_duration, op - 1, -1, copy_kind, host_kind,"
        " -1, CASE is_copy WHEN 1 THEN bytes ELSE -1 END, -1 FROM memory_ops"
    ),
    "graph_launches": (
        f"SELECT {GRAPH}, start, duration, device - 1, stream_id, process - 1, api_start,"
        " api_duration, op - 1, -1, -1, -1, -1, -1, -1 FROM graph_launches"
    ),
}


def _collectives(connection: sqlite3.Connection, count: int, first: int) -> Int64:
    """For each kernel the number of its collective, its data and what it moves; -1: not known.

    Args:
        connection: The database.
        count: Number of kernels.
        first: Row id of the first one.
    """
    result = np.full((3, count), -1, dtype=np.int64)
    if not has_table(connection, "collectives"):
        return result
    rows = connection.execute(
        "SELECT kernel, communicator, sequence, num_ranks, bytes, kind FROM collectives"
        " WHERE kernel >= ? AND kernel < ?",
        (first, first + count),
    ).fetchall()
    kernel, communicator, sequence, num_ranks, num_bytes = (
        np.array(
            [[-1 if value is None else value for value in row[:5]] for row in rows], dtype=np.int64
        )
        .reshape(-1, 5)
        .T
    )
    kernel = kernel - first
    matched = (communicator >= 0) & (sequence >= 0) & (num_ranks > 1)
    _, code = np.unique(np.stack([communicator, sequence]), axis=1, return_inverse=True)
    result[0, kernel] = np.where(matched, code.ravel(), -1)
    result[1, kernel] = num_bytes
    # A capture of one rank does not show how many there are: with two, the least is moved.
    others = np.maximum(num_ranks, 2) - 1
    terms = np.array([_MOVED.get(row[5], (1, 0, 0)) for row in rows], dtype=np.float64)
    whole, parts, copies = terms.reshape(-1, 3).T
    moved = num_bytes * (whole + parts * others / (others + 1) + copies * others)
    result[2, kernel] = np.where(num_bytes >= 0, np.rint(moved), -1)
    return result


_MOVED: Final = {
    "AllReduce": (0, 2, 0),
    "ReduceScatter": (0, 1, 0),
    "AllToAll": (0, 1, 0),
    "AllGather": (0, 0, 1),
}
"""Data that a rank moves over its link, by what it contributes: whole, n - 1 parts of n, or a copy
for each of the n - 1 others. The kinds that are not listed move it once."""


def _read_waits(connection: sqlite3.Connection, calls: Calls, rows: _Rows) -> tuple[Waits, bool]:
    """The recorded waits, and whether the database has them at all."""
    empty = np.empty(0, dtype=np.int64)
    nothing = Waits(empty, empty, empty, empty, empty)
    if not has_table(connection, "device_waits"):
        return nothing, False
    start, process, device, stream, record_ago, record_stream = _rows(
        connection,
        "SELECT start, process - 1, coalesce(device - 1, -1), stream_id,"
        " record_ago, record_stream FROM device_waits"
        f" WHERE {rows.condition('device_waits', 'start')} ORDER BY id",
        6,
    )
    record = _call_rows(calls, process, np.where(record_ago >= 0, start - record_ago, -1))
    record[record_ago < 0] = -1
    call = _call_rows(calls, process, start)
    return Waits(call, device, stream, record, record_stream), bool(len(start))


def _read_blocking_streams(connection: sqlite3.Connection) -> BlockingStreams:
    process, stream, is_default = np.empty((3, 0), dtype=np.int64)
    if has_table(connection, "blocking_streams"):
        query = "SELECT process - 1, stream_id, is_default FROM blocking_streams ORDER BY id"
        process, stream, is_default = _rows(connection, query, 3)
    return BlockingStreams(process, stream, is_default > 0)


def _read_spans(connection: sqlite3.Connection, rows: _Rows) -> Spans:
    columns = ("op", "start", "stop", "thread")
    chosen = rows.of("op_instances", "start")
    op, start, stop, thread = read_columns(connection, "op_instances", columns, chosen)
    return Spans(op - 1, start, stop, thread - 1)


LOADS_ITSELF: Final = "_SingleProcess"
"""Part of the type of a loader without worker processes, as PyTorch calls it."""


def _loading(connection: sqlite3.Connection, spans: Spans) -> Loading:
    like = " OR ".join(f"op_type LIKE '{name}%'" for name in LOADER_TYPES)
    loaders = connection.execute(f"SELECT id - 1, op_type FROM ops WHERE {like}").fetchall()
    row = np.flatnonzero(np.isin(spans.op, [op for op, _ in loaders]))
    alone = [op for op, name in loaders if LOADS_ITSELF in name]
    return Loading(
        spans.start_ns[row], spans.end_ns[row], spans.thread[row], np.isin(spans.op[row], alone)
    )
