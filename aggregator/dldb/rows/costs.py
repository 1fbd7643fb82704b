"""Rows of the tables with the ideal costs of executions of ops."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from aggregator.costs.units import InstanceCosts
from aggregator.dldb.writer import Table, attributes
from aggregator.profile.arrays import Int32


def cost_tables(costs: InstanceCosts) -> Iterator[Table]:
    """Yield the units, and the costs that are made of them."""
    units = costs.units
    yield Table(
        "cost_units",
        {
            "id": list(range(1, len(units) + 1)),
            **attributes(units, "name", "input_shapes", "output_shape", "flops"),
            "bytes": [unit.num_bytes for unit in units],
            "is_matrix": [int(unit.is_matrix) for unit in units],
            **attributes(units, "precision", "reason"),
            "hides_matrix": [int(unit.hides_matrix) for unit in units],
        },
    )
    yield Table(
        "op_cost_parts",
        {"cost": costs.part_cost + 1, "unit": costs.part_unit + 1, "calls": costs.part_calls},
    )


def cost_numbers(costs: InstanceCosts, count: int) -> Int32:
    """Return the cost of each of the instances, or 0 if it ran nothing on a GPU."""
    if not len(costs.of_instance):
        return np.zeros(count, dtype=np.int32)
    return np.maximum(costs.of_instance, -1).astype(np.int32) + np.int32(1)


def op_flops(costs: InstanceCosts, op: Int32, count: int) -> list[int | None]:
    """Operations of the first execution of each op for which all are known; None: of none."""
    result: list[int | None] = [None] * count
    if not len(costs.of_instance):
        return result
    known = np.array([unit.flops is not None for unit in costs.units], dtype=bool)
    flops = np.array([unit.flops or 0 for unit in costs.units], dtype=np.int64)
    total = np.zeros(costs.count, dtype=np.int64)
    np.add.at(total, costs.part_cost, flops[costs.part_unit] * costs.part_calls)
    complete = np.ones(costs.count, dtype=bool)
    complete[costs.part_cost[~known[costs.part_unit]]] = False
    rows = np.flatnonzero(costs.of_instance >= 0)
    rows = rows[complete[costs.of_instance[rows]]]
    ops, first = np.unique(op[rows], return_index=True)
    for number, row in zip(ops.tolist(), rows[first].tolist(), strict=True):
        result[number] = int(total[costs.of_instance[row]])
    return result
