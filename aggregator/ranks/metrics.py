"""What each rank did in an aggregation: utilisation, imbalance, waiting in collectives."""

from __future__ import annotations

import sqlite3
from typing import TypeAlias

import numpy as np

from aggregator.dldb.writer import Table, insert_rows
from aggregator.intervals import Flattened, union_of
from aggregator.profile import Int64

KERNELS_LEVEL, COMPUTING_LEVEL, MOVING_LEVEL = 2, 7, 8
"""Levels of ``busy_time``: any kernel, kernels that compute, kernels that move data."""
_Counts: TypeAlias = "tuple[int, int, int | None, int, int | None]"
_DeviceTimes: TypeAlias = "tuple[float, int, int, int]"


def write_rank_metrics(connection: sqlite3.Connection, aggr: int) -> None:
    """Add the rows of one aggregation; its iterations must be there already.

    A database that an older version wrote knows no ranks and gets none.
    """
    known = connection.execute(
        "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'rank_metrics'"
    ).fetchone()[0]
    if not known:
        return
    ranks = connection.execute("SELECT id, process, device FROM ranks ORDER BY id").fetchall()
    start, stop, low, high = connection.execute(
        "SELECT min(start), max(stop), min(kernel_low), max(kernel_high) FROM iterations"
        " WHERE aggr = ? AND aggregated = 1",
        (aggr,),
    ).fetchone()
    devices = _device_times(connection, {row[2] for row in ranks if row[2]}, start, stop)
    kernels = _kernel_counts(connection, low, high, [row[1] for row in ranks])
    collectives = _collectives(connection, low, high)
    mean = _mean([devices[row[2]][1] for row in ranks if row[2] in devices])
    rows = []
    for rank, process, device in ranks:
        utilization, computing, moving, exposed = devices.get(device, (None,) * 4)
        imbalance = (
            round(100.0 * (computing / mean - 1.0), 6) if mean and computing is not None else None
        )
        counts = collectives.get(rank, (0, 0, None, 0, None))
        rows.append(
            (
                *(aggr, rank, utilization, computing, moving, exposed, imbalance),
                kernels.get(process, 0),
                *counts,
            )
        )
    columns = dict(zip(_COLUMNS, zip(*rows, strict=True), strict=True)) if rows else {}
    if columns:
        insert_rows(connection, Table("rank_metrics", columns))


_COLUMNS = (
    *("aggr", "rank", "gpu_utilization", "computing", "communication", "exposed_communication"),
    *("imbalance", "kernels", "collectives", "unmatched", "waiting", "times_last", "kept_waiting"),
)


def _mean(values: list[int]) -> float:
    return sum(values) / len(values) if values else 0.0


def _device_times(
    connection: sqlite3.Connection, devices: set[int], start: int, stop: int
) -> dict[int, _DeviceTimes]:
    """Per device: utilisation, computing, moving, moving while nothing computed."""
    result = {}
    edges = np.array([start, stop], dtype=np.int64)
    query = (
        "SELECT level, starts, stops FROM busy_time WHERE domain = 1 AND device = ?"
        f" AND level IN ({KERNELS_LEVEL}, {COMPUTING_LEVEL}, {MOVING_LEVEL})"
    )
    for device in devices:
        levels = {
            int(level): Flattened(_int64(starts), _int64(stops))
            for level, starts, stops in connection.execute(query, (device,))
        }
        computing, moving = levels[COMPUTING_LEVEL], levels[MOVING_LEVEL]
        inside = [
            int(np.diff(busy.covered_before(edges))[0])
            for busy in (levels[KERNELS_LEVEL], computing, moving, union_of(computing, moving))
        ]
        share = round(100.0 * inside[0] / (stop - start), 6) if stop > start else 0.0
        result[device] = (share, inside[1], inside[2], inside[3] - inside[1])
    return result


def _int64(blob: bytes) -> Int64:
    return np.frombuffer(blob, dtype="<i8").astype(np.int64, copy=False)


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
