"""The large tables of several rank databases as one, in order of time.

Rows are merged window by window: no more than a window of rows is in memory at once, however many
ranks there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aggregator.dldb.event_reader import stored_events
from aggregator.dldb.writer import BulkWriter, Column, Table
from aggregator.profile.arrays import Int64
from aggregator.profile.intervals import NOTHING, Flattened, union_of
from aggregator.ranks.rank_database import RankDatabase
from aggregator.system.sqlite_arrow import ABSENT

WINDOW_ROWS = 1 << 18
"""Approximate number of rows that are merged at once."""
SAMPLE_STEP = 1024


@dataclass(frozen=True)
class Ordered:
    """A table whose rows are in order of time."""

    name: str  # Its name.
    order: tuple[str, ...]  # Columns that order it, most significant first.
    times: tuple[str, ...]  # Columns that are points in time.
    references: Mapping[str, str]  # Column -> table whose row ids it holds.


_LAUNCHED = (("api_start", "start"), ("api_start", "start"))
INSTANCES = Ordered(
    "op_instances",
    ("start",),
    ("start", "stop"),
    {"op": "ops", "thread": "threads", "shapes": "shape_texts", "cost": "costs"},
)
KERNELS = Ordered(
    "kernels",
    *_LAUNCHED,
    {
        "op_kernel": "op_kernels",
        "instance": "op_instances",
        "name": "kernel_names",
        "device": "devices",
        "process": "processes",
        "size": "launch_sizes",
    },
)
MEMORY_OPS = Ordered(
    "memory_ops",
    *_LAUNCHED,
    {"op": "ops", "name": "api_names", "device": "devices", "process": "processes"},
)
GRAPHS = Ordered(
    "graph_launches", *_LAUNCHED, {"op": "ops", "device": "devices", "process": "processes"}
)
API_CALLS = Ordered(
    "api_calls", ("start",), ("start",), {"name": "api_names", "op": "ops", "thread": "threads"}
)
NAMED_RANGES = Ordered(
    "named_ranges",
    ("start",),
    ("start", "stop"),
    {"name": "range_names", "domain": "domains", "process": "processes"},
)
DEVICE_WAITS = Ordered(
    "device_waits", ("start",), ("start",), {"device": "devices", "process": "processes"}
)
COUNTER_SAMPLES = Ordered("counter_samples", ("start",), ("start", "stop"), {"counter": "counters"})
EVENT_TABLES = (
    *(INSTANCES, KERNELS, MEMORY_OPS, GRAPHS, API_CALLS, NAMED_RANGES, DEVICE_WAITS),
    COUNTER_SAMPLES,
)
COVERED = (
    ("domain_kernels", "kernel", "kernels"),
    ("domain_memory_ops", "memory_op", "memory_ops"),
)
"""Tables of work covered by custom domains: name, a column, and the table that it refers to."""

_AFTER = "after"
_OF_KERNELS = (
    ("collective_bytes", "bytes"),
    ("collective_calls", "call"),
    ("kernel_links", _AFTER),
)
"""Tables of kernels and their other column, which may name kernels, too."""


@dataclass
class Piece:
    """Rows of one database that take part in a merge."""

    database: RankDatabase  # The database.
    low: int  # First row id.
    high: int  # Last row id, inclusive; below ``low``: no rows.

    @property
    def count(self) -> int:
        """Number of rows."""
        return max(self.high - self.low + 1, 0)

    def read(self, table: str, columns: Sequence[str], low: int, high: int) -> dict[str, Int64]:
        """Return the columns of the rows from ``low`` to ``high``, both inclusive."""
        where = f"WHERE id BETWEEN {low} AND {high} ORDER BY id"
        return self.database.reader.integer_columns(table, columns, where)


def merge_events(
    databases: list[RankDatabase], writer: BulkWriter, advance: Callable[[int], None]
) -> None:
    """Write all tables of events; small tables and ops must have been written."""
    has_domains = any(len(database.rows("domains")) > 1 for database in databases)
    of_kernels = [
        (table, column)
        for table, column in _OF_KERNELS
        if any(database.last_id(table) > 0 for database in databases)
    ]
    _merge_instances(databases, writer, advance)
    for table in EVENT_TABLES[1:]:
        is_covered = has_domains and table.name in {target for *_, target in COVERED}
        if is_covered or (of_kernels and table is KERNELS):  # other tables refer to these rows
            for database in databases:
                database.new_map(table.name)
        pieces = [Piece(file, 1, file.last_id(table.name)) for file in databases]
        _merge(table, pieces, writer, 1, advance)
    for table_name, column, target in COVERED:
        for database in databases:
            writer.write(_covered(database, table_name, column, target))
    for name, column in of_kernels:
        for database in databases:
            found = database.reader.integer_columns(name, ("kernel", column))
            row_of = database.maps["kernels"]
            value = row_of[found[column]] if column == _AFTER else found[column]
            writer.write(Table(name, {"kernel": row_of[found["kernel"]], column: value}))
    for busy in _busy_time(databases):
        writer.write(busy)


def count_events(databases: list[RankDatabase]) -> int:
    """Return the rows of all tables of events."""
    return sum(database.last_id(table.name) for database in databases for table in EVENT_TABLES)


def _merge_instances(
    databases: list[RankDatabase], writer: BulkWriter, advance: Callable[[int], None]
) -> None:
    """Merge by domain, then by time; each database has the instances of a domain in sequence."""
    for database in databases:
        database.new_map(INSTANCES.name)
    runs = [_runs(database) for database in databases]
    next_id = 1
    for domain in sorted({domain for run in runs for domain in run}):
        bounds = [run.get(domain, (1, 0)) for run in runs]
        pieces = [Piece(file, *bound) for file, bound in zip(databases, bounds, strict=True)]
        next_id = _merge(INSTANCES, pieces, writer, next_id, advance)


def _runs(database: RankDatabase) -> dict[int, tuple[int, int]]:
    """Return the first and last instance of each domain, by the domain's new number."""
    if len(database.rows("domains")) == 1:
        return {1: (1, database.last_id("op_instances"))}
    store = stored_events(database.connection)
    (op,) = store.integers("op_instances", ("op",))
    domain = store.ops.domain[op - 1]
    rows = {int(number): np.flatnonzero(domain == number) + 1 for number in np.unique(domain)}
    domains = database.maps["domains"]
    return {int(domains[old + 1]): (int(ids[0]), int(ids[-1])) for old, ids in rows.items()}


def _merge(
    table: Ordered,
    pieces: Sequence[Piece],
    writer: BulkWriter,
    first_id: int,
    advance: Callable[[int], None],
) -> int:
    """Write the rows of all pieces in order of time, from a row id on; returns the next free one.

    A database that has a map for the table gets the new row ids in there; ``advance`` is called
    with the number of rows written.
    """
    columns = [name for name in pieces[0].database.columns(table.name) if name != "id"]
    next_id = first_id
    for bounds in _windows(table, pieces):
        filled = [
            (piece.database, np.arange(low, high + 1), _read(table, columns, piece, low, high))
            for piece, (low, high) in zip(pieces, bounds, strict=True)
            if high >= low
        ]
        if not filled:
            continue
        joined = {name: np.concatenate([rows[name] for *_, rows in filled]) for name in columns}
        order = np.lexsort([joined[name] for name in reversed(table.order)])
        ids = np.arange(next_id, next_id + len(order))
        writer.write(Table(table.name, {"id": ids, **_written(joined, order)}))
        new_ids = np.empty_like(ids)
        new_ids[order] = ids
        low = 0
        for database, old_ids, _ in filled:
            if table.name in database.maps:
                database.maps[table.name][old_ids] = new_ids[low : low + len(old_ids)]
            low += len(old_ids)
        next_id += len(order)
        advance(len(order))
    return next_id


def _written(joined: dict[str, Int64], order: Int64) -> dict[str, Column]:
    """Return the rows in order, with NULL where a value is absent."""
    ordered = {name: column[order] for name, column in joined.items()}
    return {
        name: np.ma.masked_equal(column, ABSENT) if (column == ABSENT).any() else column
        for name, column in ordered.items()
    }


def _read(
    table: Ordered, columns: Sequence[str], piece: Piece, low: int, high: int
) -> dict[str, Int64]:
    found = piece.read(table.name, columns, low, high)
    for name in table.times:
        found[name] = found[name] + piece.database.offset_ns
    for name, target in table.references.items():
        old = found[name]
        known = old != ABSENT
        new_ids = piece.database.maps[target]
        found[name] = np.where(known, new_ids[np.where(known, old, 0)], ABSENT)
    return found


def _windows(table: Ordered, pieces: Sequence[Piece]) -> Iterator[list[tuple[int, int]]]:
    """Yield the row ids (first, last) of every piece, per window of time."""
    total = sum(piece.count for piece in pieces)
    count = -(-total // WINDOW_ROWS)
    if count <= 1:
        yield [(piece.low, piece.high) for piece in pieces]
        return
    samples = [_keys(table, piece)[::SAMPLE_STEP] for piece in pieces]
    sample = np.sort(np.concatenate(samples))
    edges = np.unique(sample[np.linspace(0, len(sample) - 1, count + 1).astype(np.int64)[1:-1]])
    cuts = []
    for piece in pieces:
        inner = np.searchsorted(_keys(table, piece), edges, side="left") + piece.low
        cuts.append([piece.low, *inner.tolist(), piece.high + 1])
    for window in range(len(edges) + 1):
        yield [(cut[window], cut[window + 1] - 1) for cut in cuts]


def _keys(table: Ordered, piece: Piece) -> Int64:
    """Return the first column that orders a piece's rows, on the common clock."""
    if not piece.count:
        return np.empty(0, dtype=np.int64)
    name = table.order[0]
    found = piece.read(table.name, (name,), piece.low, piece.high)
    return found[name] + piece.database.offset_ns


def _covered(database: RankDatabase, table: str, column: str, target: str) -> Table:
    found = database.reader.integer_columns(table, database.columns(table))
    maps = {"domain": "domains", column: target, "instance": "op_instances"}
    columns: dict[str, Column] = {
        name: database.maps[maps[name]][values] if name in maps and len(values) else values
        for name, values in found.items()
    }
    if "op_kernel" in found:  # NULL in rows that are covered by time
        pairs = database.maps["op_kernels"]
        columns["op_kernel"] = [
            None if pair < 0 else int(pairs[pair]) for pair in found["op_kernel"].tolist()
        ]
    return Table(table, columns)


def _busy_time(databases: list[RankDatabase]) -> Iterator[Table]:
    """Unions of busy time, one device at a time: ranks of several files may share a device."""
    devices, domains = (
        sorted({int(new) for database in databases for new in database.maps[name][1:]})
        for name in ("devices", "domains")
    )
    query = "SELECT DISTINCT level FROM busy_time ORDER BY level"
    levels = [int(row[0]) for row in databases[0].connection.execute(query)]
    for device in devices:
        found = _busy_of(databases, device)
        rows = [
            (domain, level, union_of(*found.get((domain, level), [NOTHING])))
            for domain in domains
            for level in levels
        ]
        yield Table(
            "busy_time",
            {
                "domain": [domain for domain, _, _ in rows],
                "device": [device] * len(rows),
                "level": [level for _, level, _ in rows],
                "starts": [busy.start_ns.astype("<i8").tobytes() for *_, busy in rows],
                "stops": [busy.end_ns.astype("<i8").tobytes() for *_, busy in rows],
            },
        )


def _busy_of(databases: list[RankDatabase], device: int) -> dict[tuple[int, int], list[Flattened]]:
    found: dict[tuple[int, int], list[Flattened]] = {}
    query = "SELECT domain, level, starts, stops FROM busy_time WHERE device = ?"
    for database in databases:
        for old in np.flatnonzero(database.maps["devices"] == device).tolist():
            for domain, level, *blobs in database.connection.execute(query, (old,)):
                start, end = (
                    np.frombuffer(blob, dtype="<i8").astype(np.int64) + database.offset_ns
                    for blob in blobs
                )
                key = (int(database.maps["domains"][domain]), int(level))
                found.setdefault(key, []).append(Flattened(start, end))
    return found
