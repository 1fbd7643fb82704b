"""Small tables of several databases as one: equal rows are joined, others renumbered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from aggregator.dldb.writer import Table
from aggregator.ranks.parts import Part

DISTINCT_TABLES = (
    "domains",
    "api_names",
    "shape_texts",
    "kernel_names",
    "launch_sizes",
    "range_names",
    "cost_units",
)
"""Tables of distinct values: an equal row of two parts is one row."""


def as_table(name: str, rows: Sequence[dict[str, Any]]) -> Table:
    """Rows as columns; no rows make an empty table."""
    names = rows[0] if rows else {"id": None}
    return Table(name, {key: [row[key] for row in rows] for key in names})


def shared_tables(parts: list[Part]) -> Iterator[Table]:
    """All small tables besides ops; fills each part's maps."""
    for name in DISTINCT_TABLES:
        yield _distinct(name, parts)
    yield _appended("processes", parts, {})
    yield _appended("threads", parts, {"process": "processes"})
    yield _devices(parts)
    yield _warnings(parts)
    yield as_table("model_config", _first_of_each(parts, "model_config", "key"))
    yield _costs(parts)
    yield _marks(parts)
    yield _annotations(parts)


def _distinct(name: str, parts: list[Part]) -> Table:
    numbers: dict[tuple[object, ...], int] = {}
    rows: list[dict[str, Any]] = []
    for part in parts:
        renumber = part.new_map(name)
        for row in part.rows(name):
            old = row.pop("id")
            number = numbers.setdefault(tuple(row.values()), len(numbers) + 1)
            if number > len(rows):
                rows.append({"id": number} | row)
            renumber[old] = number
    return as_table(name, rows)


def _appended(name: str, parts: list[Part], references: dict[str, str]) -> Table:
    rows: list[dict[str, Any]] = []
    for part in parts:
        renumber = part.new_map(name)
        for row in part.rows(name):
            renumber[row["id"]] = len(rows) + 1
            moved = {key: int(part.maps[table][row[key]]) for key, table in references.items()}
            rows.append(row | {"id": len(rows) + 1} | moved)
    return as_table(name, rows)


def _devices(parts: list[Part]) -> Table:
    """GPUs told apart by their UUID, else by machine and number, else by file and number.

    Numbers are unique in the job: where two machines both have a GPU 0, all are counted through.
    """
    found: dict[tuple[object, ...], dict[str, Any]] = {}
    for number, part in enumerate(parts):
        renumber = part.new_map("devices")
        for row in part.rows("devices"):
            place = row["host"] or number
            own = ("uuid", row["uuid"]) if row["uuid"] else (place, row["host_device_id"])
            known = found.setdefault(own, row | {"id": len(found) + 1})
            for key, value in row.items():
                if known[key] in (None, ""):
                    known[key] = value
            renumber[row["id"]] = known["id"]
    rows = list(found.values())
    if len({row["device_id"] for row in rows}) < len(rows):
        for number, row in enumerate(rows):
            row["device_id"] = number
    return as_table("devices", rows)


def _warnings(parts: list[Part]) -> Table:
    """The same sentence about several ranks is said once, with all events."""
    counts: dict[tuple[str, str], int] = {}
    for part in parts:
        for row in part.rows("warnings"):
            key = (row["code"], row["message"])
            counts[key] = counts.get(key, 0) + int(row["count"])
    rows = [{"code": c, "message": m, "count": n} for (c, m), n in counts.items()]
    return as_table("warnings", rows)


def _first_of_each(parts: list[Part], table: str, key: str) -> list[dict[str, Any]]:
    rows: dict[object, dict[str, Any]] = {}
    for part in parts:
        for row in part.rows(table):
            rows.setdefault(row[key], row | {"id": len(rows) + 1})
    return list(rows.values())


def _costs(parts: list[Part]) -> Table:
    """Costs made of the same units are one; they have no row ids but a number of their own."""
    numbers: dict[tuple[tuple[int, int], ...], int] = {}
    for part in parts:
        units, made_of = part.maps["cost_units"], _by_cost(part)
        renumber = np.zeros(max(made_of, default=0) + 1, dtype=np.int64)
        for old, parts_of in made_of.items():
            key = tuple(sorted((int(units[unit]), calls) for unit, calls in parts_of))
            renumber[old] = numbers.setdefault(key, len(numbers) + 1)
        part.maps["costs"] = renumber
    rows = [
        {"cost": number, "unit": unit, "calls": calls}
        for key, number in numbers.items()
        for unit, calls in key
    ]
    return as_table("op_cost_parts", rows)


def _by_cost(part: Part) -> dict[int, list[tuple[int, int]]]:
    found: dict[int, list[tuple[int, int]]] = {}
    for row in part.rows("op_cost_parts", "cost, unit"):
        found.setdefault(row["cost"], []).append((row["unit"], row["calls"]))
    return found


def _marks(parts: list[Part]) -> Table:
    rows: list[dict[str, Any]] = []
    for part in parts:
        threads = part.maps["threads"]
        for row in part.rows("marks"):
            row["thread"] = int(threads[row["thread"]])
            row["time"] += part.offset_ns
            rows.append(row)
    rows.sort(key=lambda row: int(row["time"]))
    return as_table("marks", [row | {"id": number} for number, row in enumerate(rows, start=1)])


def _annotations(parts: list[Part]) -> Table:
    rows: list[dict[str, Any]] = []
    for part in parts:
        threads = part.maps["threads"]
        for row in part.rows("annotations"):
            if row["thread"] is not None:
                row["thread"] = int(threads[row["thread"]])
            row["start"] += part.offset_ns
            row["stop"] = None if row["stop"] is None else row["stop"] + part.offset_ns
            rows.append(row | {"id": len(rows) + 1})
    return as_table("annotations", rows)
