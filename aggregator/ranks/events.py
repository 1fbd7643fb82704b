"""The large tables of several databases as one, in order of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from aggregator.dldb.writer import BulkWriter, Table
from aggregator.intervals import Flattened, union_of
from aggregator.profile import Int64
from aggregator.ranks.merge import Ordered, Piece, merge
from aggregator.ranks.parts import Part

INSTANCES = Ordered(
    "op_instances",
    ("start",),
    ("start", "stop"),
    {"op": "ops", "thread": "threads", "shapes": "shape_texts", "cost": "costs"},
)
KERNELS = Ordered(
    "kernels",
    ("api_start", "start"),
    ("api_start", "start"),
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
    ("api_start", "start"),
    ("api_start", "start"),
    {"op": "ops", "name": "api_names", "device": "devices", "process": "processes"},
)
GRAPHS = Ordered(
    "graph_launches",
    ("api_start", "start"),
    ("api_start", "start"),
    {"op": "ops", "device": "devices", "process": "processes"},
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
EVENT_TABLES = (INSTANCES, KERNELS, MEMORY_OPS, GRAPHS, API_CALLS, NAMED_RANGES)
COVERED = (
    ("domain_kernels", "kernel", "kernels"),
    ("domain_memory_ops", "memory_op", "memory_ops"),
)
"""What ranges of custom domains cover: table, its column, the table that it refers to."""


def write_events(parts: list[Part], writer: BulkWriter, advance: Callable[[int], None]) -> None:
    """Merge all tables of events; small tables and ops must have been written."""
    has_domains = any(len(part.rows("domains")) > 1 for part in parts)
    has_sizes = any(part.has_rows("collective_bytes") for part in parts)
    _write_instances(parts, writer, advance)
    for table in EVENT_TABLES[1:]:
        is_covered = has_domains and table.name in {target for *_, target in COVERED}
        is_asked = is_covered or (has_sizes and table is KERNELS)
        maps = [part.new_map(table.name) for part in parts] if is_asked else []
        pieces = [_piece(part, 1, part.last_id(table.name)) for part in parts]
        merge(table, _columns(parts, table), pieces, writer, 1, maps, advance)
    for table_name, column, target in COVERED:
        for part in parts:
            writer.write(_covered(part, table_name, column, target))
    for part in parts if has_sizes else ():
        writer.write(_sizes(part))
    for busy in _busy_time(parts):
        writer.write(busy)


def count_events(parts: list[Part]) -> int:
    """Rows of all tables of events."""
    return sum(part.last_id(table.name) for part in parts for table in EVENT_TABLES)


def _columns(parts: list[Part], table: Ordered) -> tuple[str, ...]:
    return tuple(name for name in parts[0].columns(table.name) if name != "id")


def _piece(part: Part, low: int, high: int) -> Piece:
    return Piece(part.reader, low, high, part.offset_ns, part.maps)


def _write_instances(parts: list[Part], writer: BulkWriter, advance: Callable[[int], None]) -> None:
    """Instances go by domain, then by time: each part has those of a domain in one run."""
    maps = [part.new_map(INSTANCES.name) for part in parts]
    columns = _columns(parts, INSTANCES)
    runs = [_runs(part) for part in parts]
    next_id = 1
    for domain in sorted({domain for run in runs for domain in run}):
        bounds = [run.get(domain, (1, 0)) for run in runs]
        pieces = [_piece(part, *bound) for part, bound in zip(parts, bounds, strict=True)]
        next_id = merge(INSTANCES, columns, pieces, writer, next_id, maps, advance)


def _runs(part: Part) -> dict[int, tuple[int, int]]:
    """First and last instance of each domain, by the domain's new number."""
    if len(part.rows("domains")) == 1:
        return {1: (1, part.last_id("op_instances"))}
    query = (
        "SELECT o.domain, min(i.id), max(i.id) FROM op_instances AS i"
        " JOIN ops AS o ON o.id = i.op GROUP BY o.domain"
    )
    domains = part.maps["domains"]
    return {int(domains[old]): (low, high) for old, low, high in part.connection.execute(query)}


def _covered(part: Part, table: str, column: str, target: str) -> Table:
    names = part.columns(table)
    found = part.reader.read(table, names)
    if not len(found["domain"]):
        return Table(table, {name: np.empty(0, dtype=np.int64) for name in names})
    maps = {"domain": "domains", column: target, "instance": "op_instances"}
    columns: dict[str, Int64 | list[int | None]] = {
        name: part.maps[maps[name]][values] if name in maps else values
        for name, values in found.items()
    }
    if "op_kernel" in found:  # by time there is none
        pairs = part.maps["op_kernels"]
        columns["op_kernel"] = [
            None if pair < 0 else int(pairs[pair]) for pair in found["op_kernel"].tolist()
        ]
    return Table(table, columns)


def _sizes(part: Part) -> Table:
    """Sizes of collectives by kernel."""
    found = part.reader.read("collective_bytes", ("kernel", "bytes"))
    kernels = part.maps["kernels"][found["kernel"]]
    return Table("collective_bytes", {"kernel": kernels, "bytes": found["bytes"]})


def _busy_time(parts: list[Part]) -> Iterator[Table]:
    """Unions of busy time, device by device: one may have worked for ranks of several files."""
    devices = sorted({int(new) for part in parts for new in part.maps["devices"][1:]})
    domains = sorted({int(new) for part in parts for new in part.maps["domains"][1:]})
    levels = sorted(
        {int(row[0]) for row in parts[0].connection.execute("SELECT level FROM busy_time")}
    )
    for device in devices:
        found = _busy_of(parts, device)
        rows = [
            (domain, device, level, _union(found.get((domain, level), [])))
            for domain in domains
            for level in levels
        ]
        yield Table("busy_time", dict(zip(_BUSY_COLUMNS, _blobs(rows), strict=True)))


def _busy_of(parts: list[Part], device: int) -> dict[tuple[int, int], list[Flattened]]:
    """What every file tells of one device, by domain and level."""
    found: dict[tuple[int, int], list[Flattened]] = {}
    query = "SELECT domain, level, starts, stops FROM busy_time WHERE device = ?"
    for part in parts:
        for old in np.flatnonzero(part.maps["devices"] == device).tolist():
            for domain, level, starts, stops in part.connection.execute(query, (old,)):
                busy = Flattened(_int64(starts) + part.offset_ns, _int64(stops) + part.offset_ns)
                key = (int(part.maps["domains"][domain]), int(level))
                found.setdefault(key, []).append(busy)
    return found


_BUSY_COLUMNS = ("domain", "device", "level", "starts", "stops")


def _blobs(rows: list[tuple[int, int, int, Flattened]]) -> Iterator[list[int] | list[bytes]]:
    for position in range(3):
        yield [int(row[:3][position]) for row in rows]
    yield [row[3].start_ns.astype("<i8").tobytes() for row in rows]
    yield [row[3].end_ns.astype("<i8").tobytes() for row in rows]


def _union(parts: list[Flattened]) -> Flattened:
    empty = np.empty(0, dtype=np.int64)
    if not parts:
        return Flattened(empty, empty)
    return parts[0] if len(parts) == 1 else union_of(*parts)


def _int64(blob: bytes) -> Int64:
    return np.frombuffer(blob, dtype="<i8").astype(np.int64)
