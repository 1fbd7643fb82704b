"""The efficiency of an aggregation as rows of the database's tables."""

from __future__ import annotations

import sqlite3
from dataclasses import fields
from typing import Any

import numpy as np

from aggregator.correlate.range_tree import RECOMPUTE
from aggregator.costs.peaks import Chip, Peaks, peaks_of
from aggregator.costs.units import InstanceCosts
from aggregator.dldb.writer import Table, has_table, insert_rows
from aggregator.metrics.efficiency import (
    AGAIN,
    APART,
    CostPairs,
    Efficiency,
    collective_ops,
    compute_efficiency,
    cost_pairs,
    unit_calls,
)
from aggregator.metrics.model import RollupInput
from aggregator.metrics.window import Window
from aggregator.profile.arrays import Int64
from aggregator.system.resources import run_both


def write_efficiency(
    connection: sqlite3.Connection, aggr: int, data: RollupInput, window: Window, override: str
) -> None:
    """Add the rows of one aggregation's default domain; its other rows must be there already.

    ``override``: peaks that the user set; empty: the GPU's own.

    Raises:
        UsageError: The override is malformed.
    """
    if not has_table(connection, "op_efficiency"):
        return
    peaks = peaks_of(*_gpu(connection, override))
    insert_rows(connection, _peak_table(aggr, peaks, override))
    if not data.costs.count:
        return
    rows, number = window.numbered_rows(data.instances.start_ns)
    cost, gpu_time_ns = data.costs.of_instance[rows], data.instances.gpu_time_ns[rows]
    op = data.instances.op[rows]
    again = np.array([direction == RECOMPUTE for direction in data.ops.directions], dtype=bool)
    apart = collective_ops(data.costs, op, cost, gpu_time_ns)
    flags = APART * apart[op] + AGAIN * again[op]
    by_op, by_iteration = run_both(
        lambda: cost_pairs(op, flags, cost, gpu_time_ns),
        lambda: cost_pairs(number, flags, cost, gpu_time_ns),
    )
    found = compute_efficiency(data.costs, peaks, by_op, by_iteration)
    for table in _tables(aggr, data.costs, by_op, found):
        insert_rows(connection, table)
    if has_table(connection, "group_efficiency"):
        connection.execute(_SUMS_OF_GROUPS, {"aggr": aggr})
    insert_rows(connection, _model_table(connection, aggr, found))


def _gpu(connection: sqlite3.Connection, override: str) -> tuple[str, str, Chip]:
    """Name of the GPU that ran most of the kernels (empty: unknown), the override, what it is."""
    columns = {row[1] for row in connection.execute("PRAGMA table_info(devices)")}
    rates = "v.clock_hz, v.bandwidth" if "clock_hz" in columns else "NULL, NULL"
    chosen = f"v.name, v.cuda_major, v.cuda_minor, v.sm_count, {rates}"
    rows = connection.execute(f"SELECT {chosen} FROM devices AS v LIMIT 2").fetchall()
    if len(rows) == 1:
        ran = connection.execute("SELECT EXISTS (SELECT 1 FROM kernels)").fetchone()[0]
        row = rows[0] if ran else None
    else:
        row = connection.execute(
            f"SELECT {chosen} FROM (SELECT device, count(*) AS many FROM kernels GROUP BY device)"
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
            "aggr": aggr,
            "name": names,
            "rate": [getattr(peaks, name) for name in names],
            "gpu_name": peaks.name,
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
    "roofline_flops": "roofline_calls",
    "roofline_bytes": "roofline_calls",
    "roofline_gpu_time": "roofline_calls",
}
_KEPT = ("calls", "known_calls", "gpu_time", "known_gpu_time", "link_gpu_time")
_KEPT_OF_ITERATIONS = (
    *("model_flops", "model_ideal_time", "hardware_flops", "hardware_ideal_time"),
    "matrix_known_gpu_time",
)
SURE_SHARE = 0.8
"""Share of the GPU time without uncounted matrix products from which an MFU is not only a bound."""


_SUMMED = (*_KEPT, *(name for name in _NULLABLE if name != "matrix_ideal_time"))
_SUMS_OF_GROUPS = f"""
WITH RECURSIVE inside (group_name, path) AS (
    SELECT group_name, group_name FROM group_metrics
    WHERE aggr = :aggr AND domain = 1 AND group_name <> '_CompleteModel_'
    UNION ALL
    SELECT '_CompleteModel_', iif(group_name = '_CompleteModel_', '', group_name) FROM group_metrics
    WHERE aggr = :aggr AND domain = 1
    UNION ALL
    SELECT coalesce(nullif(rtrim(rtrim(group_name, '/'), replace(
               substr(rtrim(group_name, '/'), -2000), '/', '')), ''), '/'), path
    FROM inside WHERE group_name NOT IN ('/', '_CompleteModel_')
),
modules (path, ops, {", ".join(_SUMMED)}) AS MATERIALIZED (
    SELECT rtrim(o.op_name, replace(substr(o.op_name, -2000), '/', '')), count(*),
           {", ".join(f"sum(e.{name})" for name in _SUMMED)}
    FROM op_efficiency AS e JOIN ops AS o ON o.id = e.op WHERE e.aggr = :aggr GROUP BY 1
)
INSERT INTO group_efficiency (aggr, domain, group_name, ops, {", ".join(_SUMMED)})
SELECT :aggr, 1, i.group_name, sum(m.ops), {", ".join(f"sum(m.{name})" for name in _SUMMED)}
FROM modules AS m CROSS JOIN inside AS i ON i.path = m.path GROUP BY i.group_name
"""
"""Modules are summed first, then the groups that each is in: comparing the names of all groups with
those of all ops takes the product of their numbers."""


def _columns(sums: dict[str, Int64]) -> dict[str, Any]:
    """Mark sums that nothing entered as unknown."""
    columns: dict[str, Any] = {name: sums[name] for name in _KEPT}
    for name, counter in _NULLABLE.items():
        pairs = zip(sums[name].tolist(), sums[counter].tolist(), strict=True)
        columns[name] = [value if calls else None for value, calls in pairs]
    return columns


def _tables(
    aggr: int, costs: InstanceCosts, by_op: CostPairs, found: Efficiency
) -> tuple[Table, ...]:
    op, unit, calls = unit_calls(costs, by_op)
    by_iteration = {
        "aggr": aggr,
        "iter_value": found.iteration,
        **_columns(found.iterations),
        **{name: found.iterations[name] for name in _KEPT_OF_ITERATIONS},
    }
    return (
        Table("op_efficiency", {"aggr": aggr, "op": found.op + 1, **_columns(found.ops)}),
        Table("iteration_efficiency", by_iteration),
        Table("op_units", {"aggr": aggr, "op": op + 1, "unit": unit + 1, "calls": calls}),
    )


def _model_table(connection: sqlite3.Connection, aggr: int, found: Efficiency) -> Table:
    """Return the model FLOPs utilization: matrix work at its peak, over wall time and GPUs used."""
    wall = connection.execute(
        "SELECT wall_time FROM model_metrics WHERE aggr = ? AND domain = 1", (aggr,)
    ).fetchone()
    gpus = connection.execute(
        "SELECT count(*) FROM device_metrics WHERE aggr = ? AND domain = 1 AND gpu_utilization > 0",
        (aggr,),
    ).fetchone()
    sums = {name: int(found.iterations[name].sum()) for name in (*_KEPT_OF_ITERATIONS, "gpu_time")}
    capacity = int(wall[0] if wall else 0) * int(gpus[0] if gpus else 0)
    is_sure = sums["matrix_known_gpu_time"] >= SURE_SHARE * sums["gpu_time"]

    def utilization(ideal_ns: int) -> float | None:
        return round(100.0 * ideal_ns / capacity, 6) if ideal_ns and capacity else None

    mfu, hfu = utilization(sums["model_ideal_time"]), utilization(sums["hardware_ideal_time"])
    return Table(
        "model_efficiency",
        {
            "aggr": aggr,
            "gpus": int(gpus[0]) if gpus else 0,
            "model_flops": sums["model_flops"] or None,
            "mfu": mfu if is_sure else None,
            "hardware_flops": sums["hardware_flops"] or None,
            "hfu": hfu if is_sure else None,
            "mfu_at_least": mfu,
        },
    )
