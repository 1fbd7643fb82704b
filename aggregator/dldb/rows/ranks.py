"""Ranks of one capture as rows of a table, and what each did in an aggregation."""

from __future__ import annotations

import sqlite3
from typing import TypeAlias

import numpy as np

from aggregator.correlate.instances import Origin
from aggregator.correlate.ranks import main_devices, rank_processes
from aggregator.dldb.writer import Table, has_table, insert_rows
from aggregator.importing.imported import ImportedProfile, inverse_order
from aggregator.metrics.model import RollupInput
from aggregator.metrics.rollup import Rollup
from aggregator.profile.arrays import Int64
from aggregator.profile.intervals import Flattened, flatten, uncovered_between

SAME_CLOCK, START_TIMES, COLLECTIVES, NOTHING = (
    "same clock",
    "start times",
    "collectives",
    "nothing",
)
"""What brought the times of a rank onto the common clock."""


def rank_table(data: ImportedProfile) -> Table:
    """Return the ranks in the order in which their ops are named; those without ops come last."""
    profile = data.profile
    devices = main_devices(profile)
    with_ops = {
        op.process
        for op in data.ops.ops
        if op.origin in (Origin.FORWARD, Origin.BACKWARD, Origin.GROUP)
    }
    last = len(profile.devices)
    ranked = sorted(
        rank_processes(profile),
        key=lambda p: (p not in with_ops, devices.get(p, last), profile.process_ids[p]),
    )
    count = len(ranked)
    return Table(
        "ranks",
        {
            "id": list(range(1, count + 1)),
            "rank": list(range(count)),
            "process": [process + 1 for process in ranked],
            "device": [devices[process] + 1 for process in ranked],
            "host": profile.session.host_name,
            "source_file": profile.source_name,
            "clock_offset": 0,
            "clock_correction": 0,
            "clock_residual": None,
            "aligned_by": SAME_CLOCK,
        },
    )


def call_table(data: ImportedProfile) -> Table:
    """Return the calls of collectives by kernel."""
    calls = data.profile.collective_calls
    kernels = (inverse_order(data.kernel_order) + 1)[calls.kernel]
    order = np.argsort(kernels)
    return Table("collective_calls", {"kernel": kernels[order], "call": calls.call[order]})


def link_table(data: ImportedProfile) -> Table:
    """Return the dependencies between kernels of CUDA graphs."""
    after, kernel = (inverse_order(data.kernel_order) + 1)[data.profile.kernel_links]
    order = np.lexsort((after, kernel))
    return Table("kernel_links", {"kernel": kernel[order], "after": after[order]})


def message_table(data: ImportedProfile) -> Table:
    """Return the sizes of collectives by kernel."""
    row_of = inverse_order(data.kernel_order) + 1
    messages = data.messages
    kernels = row_of[messages.kernel]
    order = np.argsort(kernels)
    columns = {"kernel": kernels[order], "bytes": messages.num_bytes[order]}
    return Table("collective_bytes", columns)


_Counts: TypeAlias = "tuple[int, int, int | None, int, int | None]"
_DeviceTimes: TypeAlias = "tuple[float, int, int, int, int, int | None]"


def write_rank_metrics(
    connection: sqlite3.Connection, aggr: int, data: RollupInput, rollup: Rollup
) -> None:
    """Add the rows of one aggregation, from the metrics of the default domain.

    A database of an early version has no ranks and gets no rows.
    """
    if not has_table(connection, "rank_metrics"):
        return
    ranks = connection.execute("SELECT id, process, device FROM ranks ORDER BY id").fetchall()
    window = rollup.window
    # Row ids begin with 1.
    low, high = (rollup.times.kernel_bounds[[window.first, window.last + 1]] + 1).tolist()
    devices = {
        row[2]: _device_times(connection, data, rollup, row[2] - 1) for row in ranks if row[2]
    }
    kernels = _kernel_counts(connection, low, high, [row[1] for row in ranks])
    collectives = _collectives(connection, low, high)
    mean = _mean([devices[row[2]][2] for row in ranks if row[2] in devices])
    rows = []
    for rank, process, device in ranks:
        utilization, busy, computing, *moving = devices.get(device, (None,) * 6)
        imbalance = (
            round(100.0 * (computing / mean - 1.0), 6) if mean and computing is not None else None
        )
        counts = collectives.get(rank, (0, 0, None, 0, None))
        rows.append(
            (
                *(aggr, rank, utilization, busy, computing, *moving, imbalance),
                kernels.get(process, 0),
                *counts,
            )
        )
    if rows:
        columns = dict(zip(_COLUMNS, zip(*rows, strict=True), strict=True))
        insert_rows(connection, Table("rank_metrics", columns))


_COLUMNS = (
    *("aggr", "rank", "gpu_utilization", "busy", "computing", "communication"),
    *(
        "exposed_communication",
        "exposed_waiting",
        "imbalance",
        "kernels",
        "collectives",
        "unmatched",
        "waiting",
    ),
    *("times_last", "kept_waiting"),
)


def _mean(values: list[int]) -> float:
    return sum(values) / len(values) if values else 0.0


def _device_times(
    connection: sqlite3.Connection, data: RollupInput, rollup: Rollup, device: int
) -> _DeviceTimes:
    window = rollup.window
    edges = window.iterations.edges_ns
    computing, moving = data.collectives[device]
    waiting = _waiting(connection, device + 1, *edges[[window.first, window.last + 1]].tolist())

    def inside_ns(time_ns: Int64) -> int:
        return int(time_ns[window.inside].sum())

    return (
        rollup.device_utilization_pct[device],
        inside_ns(rollup.times.busy_ns[device]),
        inside_ns(np.diff(computing.covered_before(edges))),
        inside_ns(np.diff(moving.covered_before(edges))),
        inside_ns(uncovered_between(moving, computing, edges)),
        None if waiting is None else inside_ns(uncovered_between(waiting, computing, edges)),
    )


def _waiting(
    connection: sqlite3.Connection, device: int, low_ns: int, high_ns: int
) -> Flattened | None:
    """Return when collectives of a GPU waited for other ranks, or None if some waiting is unknown.

    Args:
        connection: The database.
        device: Id of the GPU.
        low_ns: Start of the time that matters. Unit: ns.
        high_ns: Its end. Unit: ns.
    """
    # A cross join begins with the collectives, of which there may be none: not with all kernels.
    query = (
        "SELECT k.start, c.waiting FROM collectives AS c CROSS JOIN kernels AS k ON k.id = c.kernel"
        " WHERE k.device = ? AND k.start < ? AND k.start + k.duration > ?"
    )
    rows = connection.execute(query, (device, high_ns, low_ns)).fetchall()
    if not rows or any(waiting is None for _, waiting in rows):
        return None
    start, waiting = np.array(rows, dtype=np.int64).T
    return flatten(start, start + waiting)


def _kernel_counts(
    connection: sqlite3.Connection, low: int, high: int, processes: list[int]
) -> dict[int, int]:
    if len(processes) == 1:
        return {processes[0]: high - low}
    query = "SELECT process, count(*) FROM kernels WHERE id >= ? AND id < ? GROUP BY process"
    return {int(process): int(count) for process, count in connection.execute(query, (low, high))}


def _collectives(connection: sqlite3.Connection, low: int, high: int) -> dict[int, _Counts]:
    query = (
        "SELECT rank, count(*), sum(communicator IS NULL), sum(waiting),"
        " coalesce(sum(kept_waiting > 0), 0), sum(kept_waiting)"
        " FROM collectives WHERE kernel >= ? AND kernel < ? GROUP BY rank"
    )
    return {int(row[0]): tuple(row[1:]) for row in connection.execute(query, (low, high))}
