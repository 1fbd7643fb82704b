"""Ops of all ranks in one table: each keeps its identity, its rank goes in front of its name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from aggregator.correlate.op_table import op_id_of, type_numbers, unique_op_id
from aggregator.dldb.writer import Table
from aggregator.imported import TC_UNASSOCIATED
from aggregator.ranks.parts import Part
from aggregator.ranks.shared_tables import as_table


def op_tables(parts: list[Part]) -> Iterator[Table]:
    """Ops and (op, kernel) pairs; fills each part's maps.

    As in one capture of all processes, ops go by domain, then by rank.
    """
    rows = _joined_ops(parts)
    for domain in sorted({row["domain"] for row in rows}):
        _number([row for row in rows if row["domain"] == domain])
    yield as_table("ops", rows)
    yield _op_kernels(parts)


def _joined_ops(parts: list[Part]) -> list[dict[str, Any]]:
    found = []
    for number, part in enumerate(parts):
        domains = part.maps["domains"]
        for row in part.rows("ops"):
            row["domain"] = int(domains[row["domain"]])
            found.append((row["domain"], number, row))
    found.sort(key=lambda item: item[:2])  # stable: a part's own order stays
    for new, (_, number, row) in enumerate(found, start=1):
        maps = parts[number].maps
        if "ops" not in maps:
            parts[number].new_map("ops")
        maps["ops"][row["id"]] = new
    for part in parts:
        if "ops" not in part.maps:
            part.new_map("ops")
    renamers = [_Renamer(part) for part in parts]
    for _, number, row in found:
        maps = parts[number].maps
        row["op_name"] = renamers[number].name(row)
        row["id"] = int(maps["ops"][row["id"]])
        row["process"] = int(maps["processes"][row["process"]])
        if row["forward"] is not None:
            row["forward"] = int(maps["ops"][row["forward"]])
    return [row for _, _, row in found]


class _Renamer:
    """Puts the rank in the job in front of a part's op names, where the part's own rank was."""

    def __init__(self, part: Part) -> None:
        numbers = zip(part.ranks, part.new_ranks, strict=True)
        self._ranks = {rank.process: (rank.number, new) for rank, new in numbers}
        self._first = part.new_ranks[0] if part.new_ranks else 0
        self._has_prefixes = len(part.ranks) > 1
        self._separator = "" if part.meta.get("has_ops") == "1" else "/"

    def name(self, row: dict[str, Any]) -> str:
        """Name of an op in the job; work outside the model and custom domains have no rank."""
        name = str(row["op_name"])
        if row["domain"] != 1 or row["tc_support_status"] == TC_UNASSOCIATED:
            return name
        local, new = self._ranks.get(row["process"], (0, self._first))
        if self._has_prefixes:
            name = name.removeprefix(f"/rank_{local}")
        return f"/rank_{new}{self._separator}{name}"


def _number(rows: list[dict[str, Any]]) -> None:
    """Op IDs, unique in a domain: running numbers per type over all ranks."""
    first = rows[0]["id"]
    types = [str(row["op_type"]) for row in rows]
    forward = np.array(
        [-1 if row["forward"] is None else row["forward"] - first for row in rows], dtype=np.int64
    )
    numbers = type_numbers(types, forward)
    used: set[str] = set()
    for row, number, before in zip(rows, numbers.tolist(), forward.tolist(), strict=True):
        op_id = op_id_of(row["op_type"], number, backward=before >= 0)
        row["op_id"] = unique_op_id(op_id, used)


def _op_kernels(parts: list[Part]) -> Table:
    found = []
    for part in parts:
        ops = part.maps["ops"]
        part.new_map("op_kernels")
        for row in part.rows("op_kernels"):
            row["op"] = int(ops[row["op"]])
            found.append((row["op"], part, row))
    found.sort(key=lambda item: item[0])
    for new, (_, part, row) in enumerate(found, start=1):
        part.maps["op_kernels"][row["id"]] = new
        row["id"] = new
    return as_table("op_kernels", [row for _, _, row in found])
