"""Reads the facts of an aggregation out of its database.

One sqlite3 connection reads everything, so that an aggregation can be judged inside the transaction
that writes it. What is read is bounded by the steps looked at, not by the length of the profile.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

import numpy as np

from aggregator.advising.long_tables import lookup, window_columns
from aggregator.advising.rank_waits import read_rank_waits
from aggregator.advising.steps import NoSteps, read_steps
from aggregator.columns import distinct
from aggregator.communication import is_communication
from aggregator.expert.advice.facts import (
    COPY,
    GRAPH,
    KERNEL,
    SET,
    Calls,
    Facts,
    Gpu,
    Names,
    Ops,
    Steps,
    Work,
)
from aggregator.intervals import Flattened, flatten, union_of
from aggregator.precision import is_half_precision
from aggregator.profile import Int64
from aggregator.told import read_json

WAITING_CALLS = ("StreamSynchronize", "DeviceSynchronize", "EventSynchronize", "CtxSynchronize")
"""Parts of the names of calls that wait for the GPU."""
LOADER_TYPES = ("enumerate(DataLoader)", "DataLoader")
"""Beginnings of the types of ops that wait for a data loader's next batch."""
_WORK_COLUMNS = (
    *("kind", "start_ns", "end_ns", "device", "api_start_ns", "api_end_ns"),
    *("op", "name", "copy_kind", "host_kind", "num_bytes"),
)


def read_facts(connection: sqlite3.Connection, aggr: int) -> Facts:
    """Facts of an aggregation, committed or not.

    Raises:
        NoSteps: There is nothing to judge.
    """
    steps = read_steps(connection, aggr)
    work = _read_work(connection, aggr, steps)
    if not len(work):
        raise NoSteps
    loading = _read_loading(connection, steps)
    names = _read_names(connection)
    moves = np.append(names.communicates, False)[np.minimum(work.name, len(names.communicates))]
    return Facts(
        aggr=aggr,
        domain=str(connection.execute("SELECT name FROM domains WHERE id = 1").fetchone()[0]),
        mode=_meta(connection, "mode"),
        steps=steps,
        work=work,
        ops=_read_ops(connection, aggr, steps),
        names=names,
        waits=_read_waits(connection, steps),
        gpus=_gpus(connection, work, steps, moves & (work.name >= 0), loading),
        idle_devices=_idle_devices(connection, work),
        settings=_read_settings(connection),
        has_graphs=bool((work.kind == GRAPH).any()),
        has_loader=_meta(connection, "dataloader_measured") == "1",
        source_format=_meta(connection, "source_format"),
        rank_waits=read_rank_waits(connection, steps),
    )


def _columns(connection: sqlite3.Connection, query: str, values: Iterable[int], n: int) -> Int64:
    """Shape (n, rows): integer columns of a query."""
    found = connection.execute(query, tuple(values)).fetchall()
    result: Int64 = np.array(found, dtype=np.int64).reshape(-1, n).T
    return result


def _first_row(connection: sqlite3.Connection, table: str, column: str, value: int) -> int:
    """First row id of a table in order of ``column`` whose value is at least ``value``."""
    low, high = (
        1,
        int(connection.execute(f"SELECT coalesce(max(id), 0) FROM {table}").fetchone()[0]) + 1,
    )
    while low < high:
        middle = (low + high) // 2
        row = connection.execute(f"SELECT {column} FROM {table} WHERE id = ?", (middle,)).fetchone()
        if row is None or row[0] < value:
            low = middle + 1
        else:
            high = middle
    return low


def _read_work(connection: sqlite3.Connection, aggr: int, steps: Steps) -> Work:
    """Work launched by the window and by the step behind it; of that only the first per GPU."""
    query = "SELECT stop FROM iterations WHERE aggr = ? AND iter_value = ?"
    row = connection.execute(query, (aggr, steps.last + 1)).fetchone()
    bounds = (steps.api_low_ns, row[0] if row else steps.api_high_ns)
    rows = [_first_row(connection, "kernels", "api_start", bound) for bound in bounds]
    parts = [_kernel_columns(connection, (rows[0], rows[1]))]
    for table, sql in _WORK_QUERIES.items():
        rows = [_first_row(connection, table, "api_start", bound) for bound in bounds]
        parts.append(_columns(connection, sql, rows, len(_WORK_COLUMNS)))
    columns = np.concatenate(parts, axis=1)
    return _with_end(Work(**dict(zip(_WORK_COLUMNS, columns, strict=True))), steps)


def _kernel_columns(connection: sqlite3.Connection, rows: tuple[int, int]) -> Int64:
    """The columns of ``Work`` of some kernels."""
    names = ("start", "duration", "device", "api_start", "api_duration", "op_kernel", "name")
    start, duration, device, api_start, api_duration, pair, name = window_columns(
        connection, "kernels", names, rows
    )
    none = np.full(len(start), -1, dtype=np.int64)
    device_id = lookup(connection, "SELECT id, device_id FROM devices")[device]
    op = lookup(connection, "SELECT id, op - 1 FROM op_kernels")[pair]
    return np.stack(
        [
            *(np.full(len(start), KERNEL, dtype=np.int64), start, start + duration, device_id),
            *(api_start, api_start + api_duration, op, name - 1, none, none, none + 1),
        ]
    )


_WORK_QUERIES = {
    "memory_ops": f"SELECT CASE is_copy WHEN 1 THEN {COPY} ELSE {SET} END, m.start,"
    " m.start + m.duration, v.device_id, m.api_start, m.api_start + m.api_duration, m.op - 1, -1,"
    " m.copy_kind, m.host_kind, m.bytes FROM memory_ops AS m JOIN devices AS v ON v.id = m.device"
    " WHERE m.id >= ? AND m.id < ? ORDER BY m.id",
    "graph_launches": f"SELECT {GRAPH}, g.start, g.start + g.duration, v.device_id, g.api_start,"
    " g.api_start + g.api_duration, g.op - 1, -1, -1, -1, 0 FROM graph_launches AS g"
    " JOIN devices AS v ON v.id = g.device WHERE g.id >= ? AND g.id < ? ORDER BY g.id",
}


def _with_end(work: Work, steps: Steps) -> Work:
    """The window's work, and per GPU the first piece of the step behind it."""
    inside = work.api_start_ns < steps.api_high_ns
    keep = inside.copy()
    usual = int(inside.sum()) / steps.count
    behind = np.flatnonzero(~inside)
    if 2 * len(behind) >= usual:  # otherwise what follows is no step
        for device in np.unique(work.device[inside]).tolist():
            rows = behind[work.device[behind] == device]
            if len(rows):
                keep[rows[int(work.start_ns[rows].argmin())]] = True
    return Work(**{name: getattr(work, name)[keep] for name in _WORK_COLUMNS})


def _read_loading(connection: sqlite3.Connection, steps: Steps) -> dict[int, Flattened]:
    """When each process (row) waited for its data loader's next batch."""
    like = " OR ".join("op_type LIKE ?" for _ in LOADER_TYPES)
    patterns = [f"{name}%" for name in LOADER_TYPES]
    ops = [row[0] for row in connection.execute(f"SELECT id FROM ops WHERE {like}", patterns)]
    if not ops:
        return {}
    low = _first_row(connection, "op_instances", "start", steps.api_low_ns - _LONGEST_WAIT_NS)
    marks = ", ".join("?" for _ in ops)
    start, stop, process = _columns(
        connection,
        "SELECT j.start, j.stop, t.process FROM op_instances AS j JOIN threads AS t"
        f" ON t.id = j.thread WHERE j.id >= ? AND j.op IN ({marks})",
        [low, *ops],
        3,
    )
    return {
        int(one): flatten(start[process == one], stop[process == one]) for one in np.unique(process)
    }


_LONGEST_WAIT_NS = 60_000_000_000
"""A wait for input that began before the window is found if it began no earlier than this."""


def _read_waits(connection: sqlite3.Connection, steps: Steps) -> Calls:
    like = " OR ".join("name LIKE ?" for _ in WAITING_CALLS)
    patterns = [f"%{name}%" for name in WAITING_CALLS]
    query = f"SELECT id, name FROM api_names WHERE {like}"
    names = dict(connection.execute(query, patterns).fetchall())
    low, high = (
        _first_row(connection, "api_calls", "start", bound)
        for bound in (steps.api_low_ns, steps.api_high_ns)
    )
    columns = ("name", "start", "duration", "op", "thread")
    name, start, duration, op, thread = window_columns(
        connection, "api_calls", columns, (low, high), list(names)
    )
    process = lookup(connection, "SELECT id, process FROM threads")[thread]
    device_of = _device_of_process(connection)
    device = np.array([device_of.get(one, -1) for one in process.tolist()], dtype=np.int64)
    texts = tuple(names[code] for code in name.tolist())
    return Calls(start, start + duration, op - 1, device, texts)


def _device_of_process(connection: sqlite3.Connection) -> dict[int, int]:
    """GPU that each process (row) used most."""
    query = "SELECT r.process, v.device_id FROM ranks AS r JOIN devices AS v ON v.id = r.device"
    return dict(connection.execute(query).fetchall())


def _gpus(
    connection: sqlite3.Connection,
    work: Work,
    steps: Steps,
    moves: np.ndarray[Any, np.dtype[np.bool_]],
    loading: dict[int, Flattened],
) -> tuple[Gpu, ...]:
    nothing = flatten(work.start_ns[:0], work.start_ns[:0])
    device_of = _device_of_process(connection)
    pids = dict(connection.execute("SELECT id, pid FROM processes").fetchall())
    query = (
        "SELECT device_id, name, cuda_major, cuda_minor, memory_bytes, memory_used_bytes"
        " FROM devices ORDER BY id"
    )
    result = []
    for device, name, major, minor, memory, used in connection.execute(query):
        here = work.device == device
        inside = here & (work.api_start_ns < steps.api_high_ns)
        if not inside.any():
            continue
        behind = here & ~inside
        low = int(work.start_ns[inside].min())
        high = int((work.start_ns[behind] if behind.any() else work.end_ns[inside]).max())
        kernels = here & (work.kind == KERNEL)
        users = [process for process, used_one in device_of.items() if used_one == device]
        waits = [loading[process] for process in users if process in loading]
        parts = [
            flatten(work.start_ns[rows], work.end_ns[rows])
            for rows in (kernels & ~moves, kernels & moves)
        ]
        capability = None if major is None or minor is None else (major, minor)
        result.append(
            Gpu(
                device=device,
                name=name,
                capability=capability,
                memory_bytes=memory,
                memory_used_bytes=used,
                low_ns=low,
                high_ns=high,
                computing=parts[0],
                moving=parts[1],
                loading=union_of(*waits) if waits else nothing,
                processes=tuple(pids[process] for process in users),
            )
        )
    return tuple(result)


def _idle_devices(connection: sqlite3.Connection, work: Work) -> tuple[int, ...]:
    every = connection.execute("SELECT device_id FROM devices").fetchall()
    if {int(row[0]) for row in every} <= set(distinct(work.device).tolist()):
        return ()
    query = (
        "SELECT device_id FROM devices WHERE id NOT IN (SELECT device FROM kernels UNION"
        " SELECT device FROM memory_ops UNION SELECT device FROM graph_launches) ORDER BY id"
    )
    return tuple(int(row[0]) for row in connection.execute(query))


def _read_ops(connection: sqlite3.Connection, aggr: int, steps: Steps) -> Ops:
    # Markers record shapes in the first steps at least.
    query = "SELECT stop FROM iterations WHERE aggr = ? AND iter_value = ?"
    early = connection.execute(query, (aggr, int(steps.number[0]) + 1)).fetchone()
    last = _first_row(connection, "op_instances", "start", early[0] if early else steps.api_high_ns)
    rows = connection.execute(
        "SELECT op_id, op_name, op_type, direction, data_type, tc_support_status, tc_fit, forward"
        " FROM ops ORDER BY id"
    ).fetchall()
    texts = [tuple(str(row[column]) for row in rows) for column in range(5)]
    forward = tuple(None if row[7] is None else row[7] - 1 for row in rows)
    shapes = {
        op - 1: text
        for op, text in connection.execute(
            "SELECT j.op, min(x.input_shapes) FROM op_instances AS j JOIN shape_texts AS x"
            " ON x.id = j.shapes JOIN ops AS o ON o.id = j.op"
            " WHERE j.id < ? AND o.tc_support_status = 0 AND x.input_shapes <> '' GROUP BY j.op",
            (last,),
        )
    }
    own = dict(shapes)
    shapes |= {
        row: own[source]
        for row, source in enumerate(forward)
        if row not in own and source is not None and source in own
    }
    return Ops(
        op_ids=texts[0],
        names=texts[1],
        types=texts[2],
        directions=texts[3],
        data_types=texts[4],
        eligible=np.array([row[5] == 0 for row in rows], dtype=bool),
        fit=tuple(row[6] for row in rows),
        forward=forward,
        shapes=shapes,
    )


def _read_names(connection: sqlite3.Connection) -> Names:
    query = "SELECT name, long_name, tc_verdict FROM kernel_names ORDER BY id"
    rows = connection.execute(query).fetchall()
    long = tuple(str(row[1]) for row in rows)
    verdict = [-1 if row[2] is None else row[2] for row in rows]
    return Names(
        short=tuple(str(row[0]) for row in rows),
        long=long,
        verdict=np.array(verdict, dtype=np.int64),
        half=np.array([is_half_precision(name) for name in long], dtype=bool),
        communicates=np.array([is_communication(name) for name in long], dtype=bool),
    )


def _read_settings(connection: sqlite3.Connection) -> dict[str, Any]:
    rows = connection.execute("SELECT key, value FROM model_config WHERE value IS NOT NULL")
    return {str(key): read_json(str(value)) for key, value in rows}


def _meta(connection: sqlite3.Connection, key: str) -> str:
    row = connection.execute("SELECT value FROM dldb_meta WHERE key = ?", (key,)).fetchone()
    return str(row[0]) if row else ""
