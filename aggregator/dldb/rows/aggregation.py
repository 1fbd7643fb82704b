"""An aggregation as rows of the database's tables."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from aggregator.advice.dlprof import Evidence, find_issues
from aggregator.advice.facts import Facts
from aggregator.dldb.conversion import SOURCE_NAME
from aggregator.dldb.rows.advice import add_advice
from aggregator.dldb.rows.corrected import add_corrected_step
from aggregator.dldb.rows.efficiency import write_efficiency
from aggregator.dldb.rows.phases import iteration_phases
from aggregator.dldb.rows.ranks import write_rank_metrics
from aggregator.dldb.rows.steps import step_tables
from aggregator.dldb.writer import Column, Table, Value, attributes, insert_rows
from aggregator.events.store import EventStore
from aggregator.metrics.model import LEVELS, RollupInput
from aggregator.metrics.rollup import Rollup
from aggregator.metrics.steady import find_steady_range, step_times
from aggregator.options import AggregationRequest
from aggregator.profile.arrays import Int64

LONG_ITERATION = 20_000
"""Kernels beyond which an iteration's sums are stored; ``view_iteration_ops`` says the same."""


def _request_key(request: AggregationRequest) -> str:
    """Return one text per distinct request."""
    asked: list[object] = [request.key_node, request.iter_start, request.iter_stop]
    if request.bare_step_ns:
        return json.dumps([*asked, request.gpu_peaks, request.phase, request.bare_step_ns])
    if request.phase:
        return json.dumps([*asked, request.gpu_peaks, request.phase])
    return json.dumps([*asked, request.gpu_peaks] if request.gpu_peaks else asked)


def find_aggregation(
    connection: sqlite3.Connection, request: AggregationRequest
) -> tuple[int, int, int, str] | None:
    """Id, first and last iteration and key node of a request's aggregation; None: not done yet."""
    query = "SELECT id, iter_start, iter_stop, key_node FROM aggregations WHERE request = ?"
    with closing(connection.execute(query, (_request_key(request),))) as cursor:
        row = cursor.fetchone()
    return None if row is None else tuple(row)


@dataclass(frozen=True)
class Aggregated:
    """The metrics of one request, ready to be written."""

    request: AggregationRequest
    rollups: list[Rollup]  # Per domain.
    steady_note: str = ""  # What the steady range leaves out, or why there is none.
    is_steady: bool = False  # Whether this is the aggregation of the steady range.


def add_aggregation(
    connection: sqlite3.Connection,
    store: EventStore,
    aggr: int,
    inputs: tuple[RollupInput, ...],
    aggregated: Aggregated,
    known: Facts | None = None,
) -> Facts | None:
    """Write one aggregation, inside a transaction on a database that holds the events.

    Args:
        connection: The database.
        store: Its events.
        aggr: Number of the aggregation.
        inputs: The columns that it was computed from, per domain.
        aggregated: What is written.
        known: Facts of another aggregation of the same iterations.

    Returns:
        The facts of its advice; None: there are none.
    """
    request, rollups = aggregated.request, aggregated.rollups
    for table in _tables(inputs, rollups, request, aggr):
        insert_rows(connection, table)
    insert_rows(connection, _step_times(inputs[0], aggregated, aggr))
    window = rollups[0].window
    for table in step_tables(connection, store, aggr, inputs[0], window, request.bare_step_ns):
        insert_rows(connection, table)
    insert_rows(connection, _issues(connection, inputs[0], rollups[0], request, aggr))
    write_rank_metrics(connection, aggr, inputs[0], rollups[0])
    write_efficiency(connection, aggr, inputs[0], rollups[0].window, request.gpu_peaks)
    add_corrected_step(connection, store, aggr)
    return add_advice(connection, store, aggr, known)


def _tables(
    inputs: tuple[RollupInput, ...], rollups: list[Rollup], request: AggregationRequest, aggr: int
) -> list[Table]:
    tables = [
        _aggregation(rollups[0], request, aggr),
        _iterations(rollups[0], aggr),
        iteration_phases(rollups[0].window.phases, aggr),
        _long_iterations(inputs[0], rollups[0], aggr),
    ]
    for data, rollup in zip(inputs, rollups, strict=True):
        domain = data.domain + 1  # row ids begin with 1
        tables += [
            _iteration_times(rollup, aggr, domain),
            _op_metrics(rollup, aggr),
            _kernel_metrics(rollup, aggr),
            _group_metrics(rollup, aggr, domain),
            _device_metrics(data, rollup, aggr, domain),
            Table("model_metrics", {"aggr": aggr, "domain": domain, **rollup.totals}),
        ]
    return tables


def _aggregation(rollup: Rollup, request: AggregationRequest, aggr: int) -> Table:
    window = rollup.window
    return Table(
        "aggregations",
        {
            "id": aggr,
            "iter_start": window.first,
            "iter_stop": window.last,
            "key_node": window.key_node.name,
            "key_node_reason": window.key_node.reason,
            "request": _request_key(request),
            "phase": request.phase,
            "created_at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S"),
        },
    )


def _step_times(data: RollupInput, aggregated: Aggregated, aggr: int) -> Table:
    times = step_times(data, aggregated.rollups[0].window)
    return Table(
        "step_times",
        {
            "aggr": [aggr],
            "is_steady": [int(aggregated.is_steady)],
            "steps": [times.steps],
            "median": [times.median_ns],
            "p10": [times.p10_ns],
            "p90": [times.p90_ns],
            "steady_note": [aggregated.steady_note],
        },
        is_optional=True,
    )


def _iterations(rollup: Rollup, aggr: int) -> Table:
    iterations = rollup.window.iterations
    number = np.arange(len(iterations), dtype=np.int64)
    bounds = rollup.times.kernel_bounds + 1  # row ids begin with 1
    return Table(
        "iterations",
        {
            "aggr": aggr,
            "iter_value": number,
            "kind": iterations.kinds,
            "aggregated": np.isin(number, rollup.window.numbers),
            "start": iterations.start_ns,
            "stop": iterations.end_ns,
            "kernel_low": bounds[:-1],
            "kernel_high": bounds[1:],
        },
    )


def _long_iterations(data: RollupInput, rollup: Rollup, aggr: int) -> Table:
    """Return the sums of the ops in long iterations, which would take long to sum in a request."""
    bounds, window = rollup.times.kernel_bounds, rollup.window
    long = np.flatnonzero(np.diff(bounds) > LONG_ITERATION)
    ranges = [(number, slice(bounds[number], bounds[number + 1])) for number in long.tolist()]
    parts = [(number, _op_sums(data, rows)) for number, rows in ranges if number in window.numbers]
    names = ("op", "kernels", "tc_kernels", "gpu_time", "tc_gpu_time")
    none = np.zeros(0, dtype=np.int64)
    return Table(
        "iteration_op_times",
        {
            "aggr": aggr,
            "iter_value": np.concatenate([none, *(np.full(len(s["op"]), i) for i, s in parts)]),
            **{name: np.concatenate([none, *(sums[name] for _, sums in parts)]) for name in names},
        },
        is_optional=True,
    )


def _op_sums(data: RollupInput, rows: slice) -> dict[str, Int64]:
    pair, duration = data.kernels.code[rows], data.kernels.duration_ns[rows]
    op, uses_tc = data.op_kernels.op[pair], data.op_kernels.uses_tc[pair]
    count = len(data.ops.op_ids)
    kernels = np.bincount(op, minlength=count)
    gpu_time_ns, tc_gpu_time_ns = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    # Weights of bincount are floats, which would lose nanoseconds.
    np.add.at(gpu_time_ns, op, duration)
    np.add.at(tc_gpu_time_ns, op[uses_tc], duration[uses_tc])
    found = np.flatnonzero(kernels)
    return {
        "op": found + 1,  # row ids begin with 1
        "kernels": kernels[found],
        "tc_kernels": np.bincount(op[uses_tc], minlength=count)[found],
        "gpu_time": gpu_time_ns[found],
        "tc_gpu_time": tc_gpu_time_ns[found],
    }


def _used_gpu(connection: sqlite3.Connection) -> bool:
    """Return whether the program used a GPU: it called CUDA, or took memory of one."""
    query = (
        "SELECT EXISTS (SELECT 1 FROM api_calls)"
        " OR EXISTS (SELECT 1 FROM devices WHERE memory_used_bytes > memory_before_bytes)"
    )
    return bool(connection.execute(query).fetchone()[0])


def _iteration_times(rollup: Rollup, aggr: int, domain: int) -> Table:
    return Table(
        "iteration_times",
        {
            "aggr": aggr,
            "domain": domain,
            "iter_value": np.arange(len(rollup.window.iterations), dtype=np.int64),
            "kernels": rollup.times.kernels,
            "tc_kernels": rollup.times.tc_kernels,
            **{name: rollup.times.parts[name] for name in (*LEVELS, "other")},
            "communication": rollup.times.communication_ns,
            "exposed_communication": rollup.times.exposed_communication_ns,
        },
    )


def _op_metrics(rollup: Rollup, aggr: int) -> Table:
    ops = rollup.ops
    columns = {"op": ops.op + 1, "using_tc": ops.using_tc, **ops.columns}
    return Table("op_metrics", {"aggr": aggr, **columns})


def _kernel_metrics(rollup: Rollup, aggr: int) -> Table:
    pairs = rollup.kernels["op_kernel"]
    columns = {name: column for name, column in rollup.kernels.items() if name != "op_kernel"}
    return Table("kernel_metrics", {"aggr": aggr, "op_kernel": pairs + 1, **columns})


def _group_metrics(rollup: Rollup, aggr: int, domain: int) -> Table:
    groups = rollup.groups
    columns: dict[str, Column | Value] = {"aggr": aggr, "domain": domain, **groups.columns}
    columns |= {"group_name": groups.names, "level": groups.levels}
    return Table("group_metrics", columns)


def _device_metrics(data: RollupInput, rollup: Rollup, aggr: int, domain: int) -> Table:
    return Table(
        "device_metrics",
        {
            "aggr": aggr,
            "domain": domain,
            "device": list(range(1, len(data.devices) + 1)),
            "gpu_utilization": rollup.device_utilization_pct,
        },
    )


def _issues(
    connection: sqlite3.Connection,
    data: RollupInput,
    rollup: Rollup,
    request: AggregationRequest,
    aggr: int,
) -> Table:
    meta = dict(connection.execute("SELECT key, value FROM dldb_meta").fetchall())
    steady = find_steady_range(data, rollup.window)
    is_steady = steady.exists and steady.is_even and SOURCE_NAME not in meta
    graphs = connection.execute("SELECT DISTINCT op - 1 FROM graph_launches")
    evidence = Evidence(
        data=data,
        window=rollup.window,
        ops=rollup.ops,
        totals=rollup.totals,
        requested_key_node=request.key_node,
        is_from_dlprof=SOURCE_NAME in meta,
        is_one_rank=bool(meta.get("job_rank")) or meta.get("is_part_of_job") == "1",
        lost_gpu_work=not (data.devices.used.any() or SOURCE_NAME in meta)
        and (data.devices.lost_records or _used_gpu(connection)),
        is_from_torch_profiler=meta.get("source_format") == "kineto",
        steady=(steady.first, steady.last) if is_steady else None,
        graph_ops=frozenset(int(row[0]) for row in graphs),
    )
    issues = find_issues(evidence)
    return Table(
        "expert_issues",
        {
            "aggr": aggr,
            **attributes(issues, "detector", "problem", "recommendation"),
            "javascript_function": [issue.drill_down for issue in issues],
            "javascript_args": "",
        },
    )
