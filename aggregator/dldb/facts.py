"""Read the facts that advice is based on from the database of an aggregation.

Everything is read through one sqlite3 connection, so that advice can be added in the transaction
that writes the aggregation. How much is read depends on the steps, not on the profile length.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from aggregator.advice import late_ranks
from aggregator.advice.facts import (
    COPY,
    GRAPH,
    KERNEL,
    SET,
    Calls,
    Facts,
    Gpu,
    Names,
    Ops,
    Work,
)
from aggregator.dldb.column_blobs import first_row, lookup, read_columns
from aggregator.dldb.memory_facts import read_recorded_memory
from aggregator.dldb.rows.collectives import read_rank_waits
from aggregator.dldb.rows.corrected import read_corrected
from aggregator.dldb.slow_ranks import read_rank_gains
from aggregator.dldb.stored import lost_records, stored_settings
from aggregator.dldb.writer import has_table
from aggregator.errors import ReplayError
from aggregator.events.model import LOADER_TYPES
from aggregator.events.store import EventStore
from aggregator.events.window import NoStepsError, Steps, read_steps
from aggregator.kernels.traits import communication_kernels, half_precision_kernels
from aggregator.profile.arrays import Int64, distinct
from aggregator.profile.intervals import Flattened, flatten, union_of
from aggregator.replay.analysis import ReplayedProfile
from aggregator.replay.reader import read_few_steps

_UNCERTAIN = frozenset({"medium", "low"})  # Confidence in the choice of the key node.
_MOSTLY = 0.8  # Share of the steps that decode, if decoding is judged.
WAITING_CALLS = ("StreamSynchronize", "DeviceSynchronize", "EventSynchronize", "CtxSynchronize")
"""Substrings of the names of calls that wait for the GPU."""
_WORK_COLUMNS = (
    *("kind", "start_ns", "end_ns", "device", "api_start_ns", "api_end_ns"),
    *("op", "name", "copy_kind", "host_kind", "num_bytes", "waiting_ns"),
)


def read_facts(
    connection: sqlite3.Connection, store: EventStore, aggr: int, known: Facts | None = None
) -> Facts:
    """Read the facts of an aggregation, committed or not.

    Args:
        connection: The database.
        store: Its events.
        aggr: Number of the aggregation.
        known: Facts of another aggregation of the same iterations; if it has the same window, that
            is not read again.

    Raises:
        NoStepsError: The aggregation has no GPU work.
    """
    steps = read_steps(store, aggr)
    if known is not None and _window(known.steps) == _window(steps):
        return replace(known, aggr=aggr, steps=steps)
    work = _read_work(connection, aggr, steps)
    if not len(work):
        raise NoStepsError
    loading = _read_loading(connection, steps)
    names = _read_names(connection)
    moves = np.append(names.communicates, False)[np.minimum(work.name, len(names.communicates))]
    several = _meta(connection, "are_ranks") == "0" and _launchers(connection) > 1
    replayed = _replayed(store, aggr, steps)
    facts = Facts(
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
        settings=stored_settings(connection),
        has_graphs=bool((work.kind == GRAPH).any()),
        has_loader=_meta(connection, "dataloader_measured") == "1",
        decode_bandwidth_pct=_decode_bandwidth_pct(connection, aggr),
        source_format=_meta(connection, "source_format"),
        is_sure_of_steps=_meta(connection, "key_node_confidence") not in _UNCERTAIN
        and not (lost_records(connection) or several),
        rank_waits=read_rank_waits(connection, aggr, steps),
        has_several_loops=several,
        memories=read_recorded_memory(connection),
        replayed=replayed,
        corrected=None if replayed is None else read_corrected(connection, store, aggr, replayed),
    )
    if steps.is_single or late_ranks.waiting_pct(facts) < late_ranks.MIN_SHARE_PCT:
        return facts
    # Replaying the ranks takes long if they are many, and nothing else needs it.
    return replace(facts, rank_gains=read_rank_gains(connection, aggr))


def _decode_bandwidth_pct(connection: sqlite3.Connection, aggr: int) -> float | None:
    """Share of the memory bandwidth of decoding; None: it is unknown, or few steps decode.

    As in ``view_phases``, which is not read: an aggregation runs none of the file's views.
    """
    query = (
        "SELECT count(*), total(stop - start), sum(bytes), total(known_gpu_time), total(graph),"
        " total(tc + non_tc + graph), gpus, rate,"
        " (SELECT count(*) FROM iterations AS i JOIN iteration_phases AS p USING (aggr, iter_value)"
        "  WHERE i.aggr = :aggr AND i.aggregated)"
        " FROM iterations AS i JOIN iteration_phases AS p USING (aggr, iter_value)"
        " JOIN iteration_times AS t USING (aggr, iter_value)"
        " JOIN iteration_efficiency AS e USING (aggr, iter_value)"
        " JOIN model_efficiency AS m USING (aggr)"
        " JOIN peak_rates AS r ON r.aggr = i.aggr AND r.name = 'bandwidth'"
        " WHERE i.aggr = :aggr AND i.aggregated AND p.phase = 'decode' AND t.domain = 1"
    )
    if not has_table(connection, "iteration_phases"):  # In older databases.
        return None
    row = connection.execute(query, {"aggr": aggr}).fetchone()
    decoding, length_ns, moved, known_ns, graph_ns, busy_ns, gpus, rate, steps = row
    if moved is None or not (length_ns and gpus and rate) or decoding < _MOSTLY * steps:
        return None
    if 2 * graph_ns > busy_ns or moved > 2 * rate * known_ns:
        return None
    share = 100.0 * moved / length_ns / gpus / rate
    return share if share <= 100 else None


def _replayed(store: EventStore, aggr: int, steps: Steps) -> ReplayedProfile | None:
    """Replay of a few steps; None: there are none, or they cannot be replayed."""
    if steps.is_single:
        return None
    try:
        return read_few_steps(store, aggr, steps.number)
    except ReplayError:
        return None


def _launchers(connection: sqlite3.Connection) -> int:
    """Return the number of processes that launched kernels."""
    return int(connection.execute("SELECT count(DISTINCT process) FROM kernels").fetchone()[0])


def _window(steps: Steps) -> tuple[int, ...]:
    """What the facts other than the steps depend on."""
    bounds = (steps.first, steps.last, steps.api_low_ns, steps.api_high_ns)
    return (int(steps.number[0]), *bounds, steps.is_single)


def _columns(connection: sqlite3.Connection, query: str, values: Iterable[int], n: int) -> Int64:
    """Return the integer columns of a query, in the shape (n, rows)."""
    found = connection.execute(query, tuple(values)).fetchall()
    result: Int64 = np.array(found, dtype=np.int64).reshape(-1, n).T
    return result


def _read_work(connection: sqlite3.Connection, aggr: int, steps: Steps) -> Work:
    """Read the work that the window launched, and the first work after it on each GPU.

    What the iteration before launched is read too, where it runs beside the work of the window.
    """
    query = "SELECT start, stop FROM iterations WHERE aggr = ? AND iter_value = ?"
    before = connection.execute(query, (aggr, steps.first - 1)).fetchone()
    row = connection.execute(query, (aggr, steps.last + 1)).fetchone()
    bounds = (
        before[0] if before else steps.api_low_ns,
        row[1] if row else steps.api_high_ns,
    )
    rows = [first_row(connection, "kernels", "api_start", bound) for bound in bounds]
    parts = [_kernel_columns(connection, (rows[0], rows[1]))]
    for table, sql in _WORK_QUERIES.items():
        rows = [first_row(connection, table, "api_start", bound) for bound in bounds]
        parts.append(_columns(connection, sql, rows, len(_WORK_COLUMNS)))
    columns = np.concatenate(parts, axis=1)
    return _with_end(Work(**dict(zip(_WORK_COLUMNS, columns, strict=True))), steps)


def _kernel_columns(connection: sqlite3.Connection, rows: tuple[int, int]) -> Int64:
    """Return the columns of ``Work`` for some kernels."""
    names = ("start", "duration", "device", "api_start", "api_duration", "op_kernel", "name")
    start, duration, device, api_start, api_duration, pair, name = read_columns(
        connection, "kernels", names, rows
    )
    none = np.full(len(start), -1, dtype=np.int64)
    device_id = lookup(connection, "SELECT id, device_id FROM devices")[device]
    op = lookup(connection, "SELECT id, op - 1 FROM op_kernels")[pair]
    return np.stack(
        [
            *(np.full(len(start), KERNEL, dtype=np.int64), start, start + duration, device_id),
            *(api_start, api_start + api_duration, op, name - 1, none, none, none + 1),
            _collective_waits(connection, rows, len(start)),
        ]
    )


def _collective_waits(connection: sqlite3.Connection, rows: tuple[int, int], count: int) -> Int64:
    """Return how long each of some kernels waited for other ranks; -1 if unknown."""
    result = np.full(count, -1, dtype=np.int64)
    query = (
        "SELECT kernel, waiting FROM collectives"
        " WHERE kernel >= ? AND kernel < ? AND waiting IS NOT NULL"
    )
    kernel, waiting = _columns(connection, query, rows, 2)
    result[kernel - rows[0]] = waiting
    return result


_WORK_QUERIES = {
    "memory_ops": f"SELECT CASE is_copy WHEN 1 THEN {COPY} ELSE {SET} END, m.start,"
    " m.start + m.duration, v.device_id, m.api_start, m.api_start + m.api_duration, m.op - 1, -1,"
    " m.copy_kind, m.host_kind, m.bytes, -1 FROM memory_ops AS m"
    " JOIN devices AS v ON v.id = m.device WHERE m.id >= ? AND m.id < ? ORDER BY m.id",
    "graph_launches": f"SELECT {GRAPH}, g.start, g.start + g.duration, v.device_id, g.api_start,"
    " g.api_start + g.api_duration, g.op - 1, -1, -1, -1, 0, -1 FROM graph_launches AS g"
    " JOIN devices AS v ON v.id = g.device WHERE g.id >= ? AND g.id < ? ORDER BY g.id",
}


def _with_end(work: Work, steps: Steps) -> Work:
    """Keep the work of the window, what runs beside it, and the first of the next step."""
    inside = (work.api_start_ns >= steps.api_low_ns) & (work.api_start_ns < steps.api_high_ns)
    keep = inside.copy()
    for device in np.unique(work.device[inside]).tolist():
        here = work.device == device
        low = int(work.start_ns[inside & here].min())
        keep |= here & (work.api_start_ns < steps.api_low_ns) & (work.start_ns >= low)
    usual = int(inside.sum()) / steps.count
    behind = np.flatnonzero(work.api_start_ns >= steps.api_high_ns)
    if 2 * len(behind) >= usual:  # otherwise the work that follows is not a step
        for device in np.unique(work.device[inside]).tolist():
            rows = behind[work.device[behind] == device]
            if len(rows):
                keep[rows[int(work.start_ns[rows].argmin())]] = True
    return Work(**{name: getattr(work, name)[keep] for name in _WORK_COLUMNS})


def _read_loading(connection: sqlite3.Connection, steps: Steps) -> dict[int, Flattened]:
    """Return when each process (row) waited for the next batch of its data loader."""
    like = " OR ".join("op_type LIKE ?" for _ in LOADER_TYPES)
    patterns = [f"{name}%" for name in LOADER_TYPES]
    ops = [row[0] for row in connection.execute(f"SELECT id FROM ops WHERE {like}", patterns)]
    if not ops:
        return {}
    low = first_row(connection, "op_instances", "start", steps.api_low_ns - _MAX_WAIT_NS)
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


_MAX_WAIT_NS = 60_000_000_000
"""Waits for input that began before the window are found if they began within this time."""


def _read_waits(connection: sqlite3.Connection, steps: Steps) -> Calls:
    like = " OR ".join("name LIKE ?" for _ in WAITING_CALLS)
    patterns = [f"%{name}%" for name in WAITING_CALLS]
    query = f"SELECT id, name FROM api_names WHERE {like}"
    names = dict(connection.execute(query, patterns).fetchall())
    low, high = (
        first_row(connection, "api_calls", "start", bound)
        for bound in (steps.api_low_ns, steps.api_high_ns)
    )
    columns, wanted = ("name", "start", "duration", "op", "thread"), list(names)
    name, start, duration, op, thread = read_columns(
        connection, "api_calls", columns, (low, high), only=lambda name: np.isin(name, wanted)
    )
    process = lookup(connection, "SELECT id, process FROM threads")[thread]
    device_of = _device_of_process(connection)
    device = np.array([device_of.get(one, -1) for one in process.tolist()], dtype=np.int64)
    texts = tuple(names[code] for code in name.tolist())
    return Calls(start, start + duration, op - 1, device, texts)


def _device_of_process(connection: sqlite3.Connection) -> dict[int, int]:
    """Return the GPU that each process (row) used most."""
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
        behind = here & (work.api_start_ns >= steps.api_high_ns)
        inside = here & ~behind & (work.api_start_ns >= steps.api_low_ns)
        if not inside.any():
            continue
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
    worked = {int(row[0]) for row in every} <= set(distinct(work.device).tolist())
    if worked or lost_records(connection):
        return ()
    query = (
        "SELECT device_id FROM devices WHERE id NOT IN (SELECT device FROM kernels UNION"
        " SELECT device FROM memory_ops UNION SELECT device FROM graph_launches) ORDER BY id"
    )
    return tuple(int(row[0]) for row in connection.execute(query))


def _read_ops(connection: sqlite3.Connection, aggr: int, steps: Steps) -> Ops:
    # Markers always record the shapes of the first steps.
    query = "SELECT stop FROM iterations WHERE aggr = ? AND iter_value = ?"
    early = connection.execute(query, (aggr, int(steps.number[0]) + 1)).fetchone()
    last = first_row(connection, "op_instances", "start", early[0] if early else steps.api_high_ns)
    rows = connection.execute(
        "SELECT op_id, op_name, op_type, direction, tc_support_status, tc_fit, forward - 1"
        " FROM ops ORDER BY id"
    ).fetchall()
    texts = [tuple(str(row[column]) for row in rows) for column in range(4)]
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
        row: own[forward]
        for row, (*_, forward) in enumerate(rows)
        if row not in own and forward in own
    }
    return Ops(
        op_ids=texts[0],
        names=texts[1],
        types=texts[2],
        directions=texts[3],
        eligible=np.array([row[4] == 0 for row in rows], dtype=bool),
        fit=tuple(row[5] for row in rows),
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
        half=half_precision_kernels(long),
        communicates=communication_kernels(long),
    )


def _meta(connection: sqlite3.Connection, key: str) -> str:
    row = connection.execute("SELECT value FROM dldb_meta WHERE key = ?", (key,)).fetchone()
    return str(row[0]) if row else ""
