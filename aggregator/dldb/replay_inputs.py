"""Reads the input of the replay from a database."""

from __future__ import annotations

import sqlite3

import numpy as np

from aggregator.advice.layout_conversions import CONVERSION
from aggregator.dldb.column_blobs import lookup, read_columns
from aggregator.dldb.facts import LOADER_TYPES
from aggregator.dldb.steps import NoStepsError, read_steps
from aggregator.dldb.stored import lost_records
from aggregator.dldb.writer import has_table
from aggregator.kernels.traits import communication_kernels
from aggregator.profile.arrays import Int64
from aggregator.replay.analysis import ReplayedProfile
from aggregator.replay.inputs import (
    COPY,
    GRAPH,
    KERNEL,
    SET,
    Calls,
    Loading,
    Ops,
    ReplayInput,
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


def read_replay_input(connection: sqlite3.Connection, aggr: int) -> ReplayInput:
    """Read calls, work and waits of a database, and the iterations of an aggregation.

    Raises:
        sqlite3.Error, ValueError, TypeError, KeyError, OverflowError, IndexError: It is damaged.
    """
    calls = _read_calls(connection)
    names = connection.execute(
        "SELECT long_name, tc_verdict FROM kernel_names ORDER BY id"
    ).fetchall()
    kernel_names = tuple(str(row[0]) for row in names)
    waits, has_waits = _read_waits(connection, calls)
    iterations = _rows(
        connection,
        "SELECT iter_value, start, stop FROM iterations"
        f" WHERE aggr = {int(aggr)} AND kind = 'iteration' AND aggregated ORDER BY iter_value",
        3,
    )
    ops = connection.execute(
        "SELECT op_id, op_name, op_type, direction, tc_support_status = 0 FROM ops ORDER BY id"
    )
    columns = list(zip(*ops.fetchall(), strict=True)) or [()] * 5
    op_ids, op_names, types, directions = (tuple(map(str, column)) for column in columns[:4])
    return ReplayInput(
        calls=calls,
        work=_read_work(connection, calls),
        waits=waits,
        loading=_read_loading(connection),
        ops=Ops(op_ids, op_names, types, directions, np.array(columns[4], dtype=bool)),
        kernel_names=kernel_names,
        uses_tc=np.array([row[1] == 1 for row in names], dtype=bool),
        converts=np.array([bool(CONVERSION.search(name)) for name in kernel_names], dtype=bool),
        communicates=communication_kernels(kernel_names),
        iteration=iterations[0],
        iteration_start_ns=iterations[1],
        iteration_stop_ns=iterations[2],
        has_waits=has_waits,
        lost_records=lost_records(connection),
    )


def _rows(connection: sqlite3.Connection, query: str, count: int) -> Int64:
    """Integer columns of a query, in the shape (count, rows)."""
    found = connection.execute(query).fetchall()
    result: Int64 = np.array(found, dtype=np.int64).reshape(-1, count).T
    return result


def _read_calls(connection: sqlite3.Connection) -> Calls:
    names = connection.execute("SELECT id, name FROM api_names ORDER BY id").fetchall()
    code = np.full(max([int(row[0]) for row in names], default=0) + 1, -1, dtype=np.int64)
    code[[int(row[0]) for row in names]] = np.arange(len(names))
    columns = ("name", "op", "start", "duration", "thread")
    name, op, start, duration, thread = read_columns(connection, "api_calls", columns)
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


def _read_work(connection: sqlite3.Connection, calls: Calls) -> Work:
    start, duration, device, stream, process, api_start, api_duration, pair, name = read_columns(
        connection, "kernels", _KERNEL_COLUMNS
    )
    none = np.full(len(start), -1, dtype=np.int64)
    op = lookup(connection, "SELECT id, op - 1 FROM op_kernels")[pair]
    parts = [
        np.stack(
            [
                *(np.full(len(start), KERNEL), start, duration, device - 1, stream, process - 1),
                *(api_start, api_duration, op, name - 1, none, none, _groups(connection, start)),
            ]
        )
    ]
    parts += [_rows(connection, query, 13) for query in _OTHER_WORK]
    kind, start, duration, device, stream, process, api_start, api_duration, *rest = np.concatenate(
        parts, axis=1
    )
    call = _call_rows(calls, process, api_start)
    call[(api_duration == 0) & (api_start == start)] = -1
    op, name, copy_kind, host_kind, group = rest
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
    )


_OTHER_WORK = (
    (
        f"SELECT CASE is_copy WHEN 1 THEN {COPY} ELSE {SET} END, start, duration, device - 1,"
        " stream_id, process - 1, api_start, api_duration, op - 1, -1, copy_kind, host_kind, -1"
        " FROM memory_ops ORDER BY id"
    ),
    (
        f"SELECT {GRAPH}, start, duration, device - 1, stream_id, process - 1, api_start,"
        " api_duration, op - 1, -1, -1, -1, -1 FROM graph_launches ORDER BY id"
    ),
)


def _groups(connection: sqlite3.Connection, start_ns: Int64) -> Int64:
    """Number of the collective that each kernel is part of; -1: none that was matched."""
    result = np.full(len(start_ns), -1, dtype=np.int64)
    if not has_table(connection, "collectives"):
        return result
    kernel, communicator, sequence = _rows(
        connection,
        "SELECT kernel, communicator, sequence FROM collectives"
        " WHERE communicator IS NOT NULL AND sequence IS NOT NULL AND num_ranks > 1",
        3,
    )
    _, code = np.unique(np.stack([communicator, sequence]), axis=1, return_inverse=True)
    result[kernel - 1] = code.ravel()
    return result


def _read_waits(connection: sqlite3.Connection, calls: Calls) -> tuple[Waits, bool]:
    """The recorded waits, and whether the database has them at all."""
    empty = np.empty(0, dtype=np.int64)
    nothing = Waits(empty, empty, empty, empty, empty)
    if not has_table(connection, "device_waits"):
        return nothing, False
    start, process, device, stream, record_ago, record_stream = _rows(
        connection,
        "SELECT start, process - 1, coalesce(device - 1, -1), stream_id,"
        " record_ago, record_stream FROM device_waits ORDER BY id",
        6,
    )
    record = _call_rows(calls, process, np.where(record_ago >= 0, start - record_ago, -1))
    record[record_ago < 0] = -1
    call = _call_rows(calls, process, start)
    return Waits(call, device, stream, record, record_stream), bool(len(start))


def _read_loading(connection: sqlite3.Connection) -> Loading:
    like = " OR ".join(f"op_type LIKE '{name}%'" for name in LOADER_TYPES)
    start, stop, thread = _rows(
        connection,
        "SELECT start, stop, thread - 1 FROM op_instances"
        f" WHERE op IN (SELECT id FROM ops WHERE {like})",
        3,
    )
    return Loading(start, stop, thread)
