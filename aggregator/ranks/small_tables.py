"""Small tables of several rank databases as one: equal rows are joined, the others renumbered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from aggregator.correlate.op_table import op_id_of, type_numbers, unique_op_id
from aggregator.dldb.writer import Table
from aggregator.importing.imported import TC_UNASSOCIATED
from aggregator.profile.profile import ONE_OF_RANKS
from aggregator.ranks.rank_database import RankDatabase

DISTINCT_TABLES = (
    *("domains", "api_names", "shape_texts", "kernel_names", "launch_sizes", "range_names"),
    "cost_units",
)
"""Tables of distinct values: an equal row of two databases is one row."""
_Row = dict[str, Any]


def as_table(name: str, rows: Sequence[_Row]) -> Table:
    """Rows as columns; without rows an empty table."""
    names = rows[0] if rows else {"id": None}
    return Table(name, {key: [row[key] for row in rows] for key in names})


def shared_tables(databases: list[RankDatabase]) -> Iterator[Table]:
    """All small tables except ops; fills the maps of each database."""
    for name in DISTINCT_TABLES:
        yield _distinct(name, databases)
    yield _appended("processes", databases)
    processes = {"process": "processes"}
    yield _appended("threads", databases, processes)
    yield _appended("blocking_streams", databases, processes)
    yield _devices(databases)
    yield _warnings(databases)
    yield _distinct("model_config", databases, ("key",))
    yield _costs(databases)
    yield _appended("marks", databases, {"thread": "threads"}, times=("time",), order_by="time")
    yield _appended("annotations", databases, {"thread": "threads"}, times=("start", "stop"))
    yield _appended("counters", databases, {"device": "devices"})
    yield _appended("windows", databases, processes, times=("start", "stop"), order_by="start")
    yield _appended("phase_ranges", databases, processes, times=("start", "stop"), order_by="start")


def _distinct(name: str, databases: list[RankDatabase], key: tuple[str, ...] = ()) -> Table:
    """Distinct rows; rows are equal if they agree in ``key``, or if it is empty in all columns."""
    numbers: dict[tuple[object, ...], int] = {}
    rows: list[_Row] = []
    for database in databases:
        renumber = database.new_map(name)
        for row in database.rows(name):
            old = row.pop("id")
            identity = tuple(row[column] for column in key or row)
            number = numbers.setdefault(identity, len(numbers) + 1)
            if number > len(rows):
                rows.append({"id": number} | row)
            renumber[old] = number
    return as_table(name, rows)


def _appended(
    name: str,
    databases: list[RankDatabase],
    references: Mapping[str, str] | None = None,
    times: tuple[str, ...] = (),
    order_by: str = "",
) -> Table:
    """Rows of all databases, one after another, or in the order of a column.

    ``references``: column -> table whose row ids it holds; NULL stays NULL. ``times`` are columns
    to move to the common clock.
    """
    found = []
    for database in databases:
        database.new_map(name)
        for row in database.rows(name):
            for column, table in (references or {}).items():
                if row[column] is not None:
                    row[column] = int(database.maps[table][row[column]])
            for column in times:
                if row[column] is not None:
                    row[column] += database.offset_ns
            found.append((database, row))
    if order_by:
        found.sort(key=lambda item: int(item[1][order_by]))
    return as_table(name, _renumbered(name, found))


def _renumbered(name: str, found: list[tuple[RankDatabase, _Row]]) -> list[_Row]:
    """Number rows in their order; fills the map of the table."""
    for new, (database, row) in enumerate(found, start=1):
        database.maps[name][row["id"]] = new
        row["id"] = new
    return [row for _, row in found]


def _devices(databases: list[RankDatabase]) -> Table:
    """GPUs, identified by UUID, else by machine and number, else by file and number.

    Numbers are unique in the job: if two machines both have a GPU 0, all GPUs are renumbered.
    """
    found: dict[tuple[object, ...], _Row] = {}
    for number, database in enumerate(databases):
        renumber = database.new_map("devices")
        for row in database.rows("devices"):
            machine = row["host"] or number
            own = ("uuid", row["uuid"]) if row["uuid"] else (machine, row["host_device_id"])
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


def _warnings(databases: list[RankDatabase]) -> Table:
    """Warnings with equal text as one row with the sum of their counts."""
    found: dict[tuple[str, str], list[_Row]] = {}
    for database in databases:
        for row in database.rows("warnings"):
            if row["code"] == ONE_OF_RANKS:
                continue  # The join says which ranks are missing.
            found.setdefault((row["code"], row["message"]), []).append(row)
    return as_table("warnings", [_joined_warning(rows) for rows in found.values()])


def _joined_warning(rows: list[_Row]) -> _Row:
    """One warning of several ranks; its share is that of what could be concerned in all of them."""
    count = sum(int(row["count"]) for row in rows)
    whole = sum(row["count"] / row["share"] for row in rows if row["share"])
    is_known = all(row["share"] for row in rows)
    return rows[0] | {"count": count, "share": count / whole if is_known and whole else None}


def _costs(databases: list[RankDatabase]) -> Table:
    """Costs made of the same units are one; they have a number of their own instead of a row id."""
    numbers: dict[tuple[tuple[int, int], ...], int] = {}
    for database in databases:
        units = database.maps["cost_units"]
        parts_of: dict[int, list[tuple[int, int]]] = {}
        for row in database.rows("op_cost_parts", "cost, unit"):
            parts_of.setdefault(row["cost"], []).append((int(units[row["unit"]]), row["calls"]))
        renumber = np.zeros(max(parts_of, default=0) + 1, dtype=np.int64)
        for old, parts in parts_of.items():
            renumber[old] = numbers.setdefault(tuple(sorted(parts)), len(numbers) + 1)
        database.maps["costs"] = renumber
    rows = [
        {"cost": number, "unit": unit, "calls": calls}
        for key, number in numbers.items()
        for unit, calls in key
    ]
    return as_table("op_cost_parts", rows)


def op_tables(databases: list[RankDatabase]) -> Iterator[Table]:
    """Ops and (op, kernel) pairs; fills the maps of each database.

    As in one capture of all processes, ops are ordered by domain, then by rank. The rank precedes
    the name of an op.
    """
    found = []
    for database in databases:
        database.new_map("ops")
        for row in database.rows("ops"):
            row["domain"] = int(database.maps["domains"][row["domain"]])
            found.append((database, row))
    found.sort(key=lambda item: int(item[1]["domain"]))  # stable: the order in a database is kept
    rows = _renumbered("ops", found)
    names = {id(database): _OpNames(database) for database in databases}
    for database, row in found:
        row["op_name"] = names[id(database)].in_job(row)
        row["process"] = int(database.maps["processes"][row["process"]])
        if row["forward"] is not None:
            row["forward"] = int(database.maps["ops"][row["forward"]])
    for domain in sorted({row["domain"] for row in rows}):
        _set_op_ids([row for row in rows if row["domain"] == domain])
    yield as_table("ops", rows)
    yield _appended("op_kernels", databases, {"op": "ops", "kernel": "kernel_names"}, order_by="op")


class _OpNames:
    """Replaces the rank in a database's op names by the rank in the job."""

    def __init__(self, database: RankDatabase) -> None:
        numbers = zip(database.ranks, database.new_ranks, strict=True)
        self._ranks = {rank.process: (rank.number, new) for rank, new in numbers}
        self._first = database.new_ranks[0] if database.new_ranks else 0
        self._has_prefixes = len(database.ranks) > 1

    def in_job(self, row: _Row) -> str:
        """Name of an op in the job; work outside the model and custom domains have no rank."""
        name = str(row["op_name"])
        if row["domain"] != 1 or row["tc_support_status"] == TC_UNASSOCIATED:
            return name
        local, new = self._ranks.get(row["process"], (0, self._first))
        if self._has_prefixes:
            name = name.removeprefix(f"/rank_{local}")
        return f"/rank_{new}/{name.removeprefix('/')}"


def _set_op_ids(rows: list[_Row]) -> None:
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
