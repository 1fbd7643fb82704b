"""The efficiency of an aggregation as rows of the database's tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from aggregator.dldb.page_columns import page_columns
from aggregator.dldb.stored import reading_errors
from aggregator.dldb.writer import Table, insert_rows
from aggregator.efficiency.rollup import (
    CostPairs,
    Efficiency,
    compute_efficiency,
    cost_pairs,
    unit_calls,
)
from aggregator.flops.peaks import Chip, Peaks, peaks_of
from aggregator.flops.units import CostUnit, InstanceCosts
from aggregator.imported import ImportedProfile
from aggregator.options import AggregationRequest
from aggregator.parallel import both
from aggregator.profile import Int64
from aggregator.ranks.reading import ColumnReader, column_reader
from aggregator.sqlite_uri import read_only_uri

RECOMPUTED = "/recompute/"
"""Part of the name of ops that a checkpoint runs again: no work of the model's own."""


@dataclass(frozen=True)
class CostedInstances:
    """Op instances of the default domain with their costs.

    Attributes:
        op: Row id of the op.
        start_ns: Unit: ns.
        gpu_time_ns: Unit: ns.
        cost: Cost; -1: it ran nothing on a GPU.
        costs: What the costs are made of.
    """

    op: Int64
    start_ns: Int64
    gpu_time_ns: Int64
    cost: Int64
    costs: InstanceCosts


def read_costed_instances(path: Path) -> CostedInstances:
    """The instances that a database holds; none in one of an older version.

    Raises:
        NotADldbError: The database is damaged.
    """
    with reading_errors(path):
        return _read_costed_instances(path)


def _read_costed_instances(path: Path) -> CostedInstances:
    empty = np.empty(0, dtype=np.int64)
    with closing(sqlite3.connect(read_only_uri(path), uri=True)) as connection:
        if not _has_costs(connection):
            return CostedInstances(empty, empty, empty, empty, InstanceCosts())
        units = tuple(
            CostUnit(
                name=row[0],
                input_shapes=row[1],
                output_shape=row[2],
                flops=row[3],
                num_bytes=row[4],
                is_matrix=bool(row[5]),
                precision=row[6],
                reason=row[7],
            )
            for row in connection.execute(
                "SELECT name, input_shapes, output_shape, flops, bytes, is_matrix, precision,"
                " reason"
                " FROM cost_units ORDER BY id"
            )
        )
    with column_reader(path) as reader:
        rows = _costed_rows(path, reader)
        part = reader.read("op_cost_parts", ("cost", "unit", "calls"), "ORDER BY cost, unit")
    costs = InstanceCosts(
        units=units,
        part_cost=part["cost"] - 1,
        part_unit=part["unit"] - 1,
        part_calls=part["calls"],
        count=int(part["cost"].max(initial=0)),
    )
    return CostedInstances(rows["op"], rows["start"], rows["gpu_time"], rows["cost"] - 1, costs)


def _costed_rows(path: Path, reader: ColumnReader) -> dict[str, Int64]:
    """Instances that have a cost."""
    names = ("cost", "op", "start", "gpu_time")
    with page_columns(path) as pages:
        found = pages.read("op_instances", names, only=lambda cost: cost > 0)
    if found is None:
        return reader.read("op_instances", names, "WHERE cost > 0 ORDER BY id")
    return dict(zip(names, found, strict=True))


def write_import_efficiency(
    path: Path, data: ImportedProfile, requests: Sequence[AggregationRequest]
) -> None:
    """Add the rows of the aggregations of an import; their other rows must be there already."""
    columns, cost = data.rollup.instances, data.costs.of_instance
    if not len(cost):
        cost = np.full(len(columns.op), -1, dtype=np.int32)
    instances = CostedInstances(
        op=columns.op.astype(np.int64) + 1,
        start_ns=columns.start_ns,
        gpu_time_ns=columns.gpu_time_ns,
        cost=cost.astype(np.int64),
        costs=data.costs,
    )
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        for aggr, request in enumerate(requests, start=1):
            write_efficiency(connection, aggr, instances, request.gpu_peaks)
        connection.commit()


def _has_costs(connection: sqlite3.Connection) -> bool:
    query = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'op_efficiency'"
    return bool(connection.execute(query).fetchone()[0])


def write_efficiency(
    connection: sqlite3.Connection, aggr: int, instances: CostedInstances, override: str
) -> None:
    """Add the rows of one aggregation; its other rows must be there already.

    Args:
        connection: Open for writing.
        aggr: The aggregation.
        instances: Op instances with their costs.
        override: Peaks that the user gave; empty: the GPU's own.

    Raises:
        UsageError: The override is malformed.
    """
    if not _has_costs(connection):
        return
    peaks = peaks_of(*_gpu(connection, override))
    insert_rows(connection, _peak_table(aggr, peaks, override))
    iterations = np.array(
        connection.execute(
            "SELECT iter_value, start, stop FROM iterations WHERE aggr = ? AND aggregated = 1"
            " ORDER BY iter_value",
            (aggr,),
        ).fetchall(),
        dtype=np.int64,
    ).reshape(-1, 3)
    if not len(iterations) or not instances.costs.count:
        return
    # As in the roll-up: what lies behind the last iteration's end belongs to it, if it is the last.
    low = int(np.searchsorted(instances.start_ns, iterations[0, 1]))
    high = int(np.searchsorted(instances.start_ns, _stop(connection, aggr, iterations)))
    rows = slice(low, high)
    number = np.searchsorted(iterations[:, 1], instances.start_ns[rows], side="right") - 1
    cost, gpu_time = instances.cost[rows], instances.gpu_time_ns[rows]
    by_op, by_iteration = both(
        lambda: cost_pairs(instances.op[rows], cost, gpu_time),
        lambda: cost_pairs(iterations[np.maximum(number, 0), 0], cost, gpu_time),
    )
    found = compute_efficiency(instances.costs, peaks, by_op, by_iteration)
    for table in (_op_table(aggr, found), _iteration_table(aggr, found)):
        insert_rows(connection, table)
    insert_rows(connection, _unit_table(aggr, instances.costs, by_op))
    insert_rows(connection, _model_table(connection, aggr, found))


def _stop(connection: sqlite3.Connection, aggr: int, iterations: Int64) -> int:
    query = "SELECT max(iter_value) FROM iterations WHERE aggr = ?"
    last = int(connection.execute(query, (aggr,)).fetchone()[0])
    return int(np.iinfo(np.int64).max) if last == iterations[-1, 0] else int(iterations[-1, 2])


def _gpu(connection: sqlite3.Connection, override: str) -> tuple[str, str, Chip]:
    """Name of the GPU that ran most of the kernels (empty: unknown), the override, what it is."""
    columns = {row[1] for row in connection.execute("PRAGMA table_info(devices)")}
    told = "v.clock_hz, v.bandwidth" if "clock_hz" in columns else "NULL, NULL"
    chosen = f"v.name, v.cuda_major, v.cuda_minor, v.sm_count, {told}"
    rows = connection.execute(f"SELECT {chosen} FROM devices AS v LIMIT 2").fetchall()  # noqa: S608
    if len(rows) == 1:
        ran = connection.execute("SELECT EXISTS (SELECT 1 FROM kernels)").fetchone()[0]
        row = rows[0] if ran else None
    else:
        row = connection.execute(
            f"SELECT {chosen} FROM (SELECT device, count(*) AS many FROM kernels GROUP BY device)"  # noqa: S608
            " AS k JOIN devices AS v ON v.id = k.device ORDER BY k.many DESC, v.id LIMIT 1"
        ).fetchone()
    if row is None:
        return "", override, Chip()
    name, major, minor, *rest = row
    return str(name), override, Chip((major, minor or 0) if major else None, *rest)


def _peak_table(aggr: int, peaks: Peaks, override: str) -> Table:
    given = {part.partition("=")[0].strip() for part in override.split(",")}
    names = [field.name for field in fields(Peaks) if field.name != "name"]
    return Table(
        "peak_rates",
        {
            "aggr": [aggr] * len(names),
            "name": names,
            "rate": [getattr(peaks, name) for name in names],
            "gpu_name": [peaks.name] * len(names),
            "is_given": [int(name in given) for name in names],
        },
    )


_NULLABLE = {
    "flops": "flops_calls",
    "flops_gpu_time": "flops_calls",
    "matrix_flops": "flops_calls",
    "matrix_ideal_time": "flops_calls",
    "bytes": "bytes_calls",
    "bytes_gpu_time": "bytes_calls",
    "ideal_time": "ideal_calls",
    "ideal_gpu_time": "ideal_calls",
    "compute_time": "ideal_calls",
    "memory_time": "ideal_calls",
    "link_time": "ideal_calls",
}
_KEPT = ("calls", "known_calls", "gpu_time", "known_gpu_time")


def _columns(sums: dict[str, Int64]) -> dict[str, Any]:
    """Sums that nothing entered are unknown."""
    columns: dict[str, Any] = {name: sums[name] for name in _KEPT}
    for name, counter in _NULLABLE.items():
        pairs = zip(sums[name].tolist(), sums[counter].tolist(), strict=True)
        columns[name] = [value if calls else None for value, calls in pairs]
    return columns


def _op_table(aggr: int, found: Efficiency) -> Table:
    count = len(found.op)
    columns: dict[str, Any] = {"aggr": [aggr] * count, "op": found.op, **_columns(found.ops)}
    return Table("op_efficiency", columns)


def _iteration_table(aggr: int, found: Efficiency) -> Table:
    count = len(found.iteration)
    columns: dict[str, Any] = {"aggr": [aggr] * count, "iter_value": found.iteration}
    return Table("iteration_efficiency", {**columns, **_columns(found.iterations)})


def _unit_table(aggr: int, costs: InstanceCosts, by_op: CostPairs) -> Table:
    op, unit, calls = unit_calls(costs, by_op)
    columns: dict[str, Any] = {"aggr": [aggr] * len(op), "op": op, "unit": unit + 1, "calls": calls}
    return Table("op_units", columns)


def _model_table(connection: sqlite3.Connection, aggr: int, found: Efficiency) -> Table:
    """Model FLOPs utilisation: matrix work at its peak, over wall time and GPUs used."""
    wall = connection.execute(
        "SELECT wall_time FROM model_metrics WHERE aggr = ? AND domain = 1", (aggr,)
    ).fetchone()
    gpus = connection.execute(
        "SELECT count(*) FROM device_metrics WHERE aggr = ? AND domain = 1 AND gpu_utilization > 0",
        (aggr,),
    ).fetchone()
    again = {
        int(row[0])
        for row in connection.execute(
            "SELECT id FROM ops WHERE instr(op_name, ?) > 0", (RECOMPUTED,)
        )
    }
    own = ~np.isin(found.op, list(again))
    sums = found.ops
    matrix = int(sums["matrix_flops"][own].sum())
    ideal = int(sums["matrix_ideal_time"][own].sum())
    capacity = int(wall[0] if wall else 0) * int(gpus[0] if gpus else 0)
    return Table(
        "model_efficiency",
        {
            "aggr": [aggr],
            "gpus": [int(gpus[0]) if gpus else 0],
            "model_flops": [matrix if matrix else None],
            "mfu": [round(100.0 * ideal / capacity, 6) if ideal and capacity else None],
        },
    )
