"""Make a large profile by repeating a real one: an Nsight Systems export or a Kineto trace.

    python -m benchmarks.tile PROFILE TIMES OUTPUT

Each copy begins where the previous one ends. Identifiers that are unique within a capture stay
unique: correlation ids, range ids, PyTorch's sequence numbers and op ids in the texts of ranges.
Ids of strings, threads and streams are shared. ``input_op_ids`` in the texts still refer to the
first copy; nothing reads them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

TIME_COLUMNS = ("start", "end", "timestamp")
UNIQUE_COLUMNS = ("correlationId", "rangeId", "gridId", "eventSyncId")
"""Counters of an export: each copy continues from the previous one."""
NVTX = "NVTX_EVENTS"
CREATES_DOMAIN = 75
"""Type of the event that names an NVTX domain; only the first copy needs it."""
TRACE_COUNTERS = {"correlation": 1_000_000, "Sequence number": 1_000_000, "External id": 10_000_000}
"""Counters of a trace, and by how much each copy raises them."""
_SEQ, _OP = ", seq = ", ", op_id = "


def tile(profile: Path, times: int, output: Path) -> None:
    """Write an export of Nsight Systems that holds ``times`` copies of another one."""
    shutil.copyfile(profile, output)
    with closing(sqlite3.connect(output)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        columns = _event_tables(connection)
        period = _period_ns(connection, columns)
        # All are made before the first row is added: counters go on from the capture's own.
        statements = [_insert(connection, table, names, period) for table, names in columns.items()]
        # One statement per copy: within a copy the order of the rows is kept.
        for statement in statements:
            for copy in range(1, times):
                connection.execute(statement, {"copy": copy})
        connection.commit()


def _event_tables(connection: sqlite3.Connection) -> dict[str, list[str]]:
    """Return the tables of what happened at a time, with their columns."""
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    found: dict[str, list[str]] = {}
    for (table,) in tables:
        names = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
        if "start" in names and not table.startswith(("TARGET_INFO", "META", "ANALYSIS")):
            found[table] = names
    return found


def _insert(connection: sqlite3.Connection, table: str, names: list[str], period_ns: int) -> str:
    """Return the SQL that appends copy number ``:copy`` of a table's rows."""
    expressions = ", ".join(_shifted(connection, table, name, period_ns) for name in names)
    listed = ", ".join(f'"{name}"' for name in names)
    skip = f' AND "eventType" != {CREATES_DOMAIN}' if table == NVTX else ""
    return (
        f'INSERT INTO "{table}" ({listed}) SELECT {expressions} FROM "{table}"'
        f" WHERE rowid <= {_maximum(connection, table, 'rowid')}{skip} ORDER BY rowid"
    )


def _maximum(connection: sqlite3.Connection, table: str, column: str) -> int:
    query = f'SELECT coalesce(max("{column}"), 0) FROM "{table}"'
    return int(connection.execute(query).fetchone()[0])


def _period_ns(connection: sqlite3.Connection, columns: dict[str, list[str]]) -> int:
    """Return how long one copy lasts: from 0 to the last event, and a little more. Unit: ns."""
    ends = [
        _maximum(connection, table, name)
        for table, names in columns.items()
        for name in names
        if name in TIME_COLUMNS
    ]
    return max(ends) + 1_000_000


def _shifted(connection: sqlite3.Connection, table: str, name: str, period_ns: int) -> str:
    """Return the SQL of a column's value in copy number ``:copy``."""
    if name in TIME_COLUMNS:
        return f'"{name}" + :copy * {period_ns}'
    if name in UNIQUE_COLUMNS:
        return f'"{name}" + :copy * {_counter_span(connection, name)}'
    if table == NVTX and name == "text":
        return _shifted_text(connection)
    return f'"{name}"'


def _counter_span(connection: sqlite3.Connection, name: str) -> int:
    """Return one more than the largest value of a counter in any table that has it."""
    tables = _event_tables(connection)
    return 1 + max(_maximum(connection, table, name) for table in tables if name in tables[table])


def _number_behind(marker: str) -> str:
    """SQL of the number behind a marker in the text; CAST reads the digits that it begins with."""
    position = f"instr(text, '{marker}')"
    return f"CAST(substr(text, {position} + {len(marker)}) AS INTEGER)"


def _largest_behind(connection: sqlite3.Connection, marker: str) -> int:
    query = f"SELECT coalesce(max({_number_behind(marker)}), 0) FROM {NVTX} WHERE instr(text, ?)"
    return int(connection.execute(query, (marker,)).fetchone()[0])


def _shifted_text(connection: sqlite3.Connection) -> str:
    """Return the SQL of a range's text with its own sequence number and op id."""
    text = "text"
    for marker in (_SEQ, _OP):
        number = _number_behind(marker)
        span = _largest_behind(connection, marker) + 1
        # The first occurrence is the op's own; a text without the marker stays as it is.
        old, new = f"'{marker}' || {number}", f"'{marker}' || ({number} + :copy * {span})"
        text = (
            f"CASE WHEN instr(text, '{marker}') THEN replace({text}, {old}, {new}) ELSE {text} END"
        )
    return text


def tile_trace(source: Path, copies: int, target: Path) -> None:
    """Write a Kineto trace that holds ``copies`` copies of another one."""
    trace: dict[str, Any] = json.loads(source.read_text(encoding="utf-8"))
    events = trace.pop("traceEvents")
    times = [event["ts"] for event in events if "ts" in event]
    ends = [event["ts"] + event.get("dur", 0) for event in events if "ts" in event]
    span_us = round(max(ends) - min(times)) + 1000
    with target.open("w", encoding="utf-8") as file:
        file.write(json.dumps({"schemaVersion": 1} | trace)[:-1] + ', "traceEvents": [\n')
        for copy in range(copies):
            if copy:
                file.write(",\n")
            shifted = (_shifted_event(event, copy, span_us) for event in events)
            file.write(",\n".join(map(json.dumps, shifted)))
        file.write("\n]}\n")


def _shifted_event(event: dict[str, Any], copy: int, span_us: int) -> dict[str, Any]:
    """Return the event in copy number ``copy``."""
    result = dict(event)
    if "ts" in result:
        result["ts"] = round(result["ts"] + copy * span_us, 3)
    arguments = dict(result.get("args") or {})
    for name, step in TRACE_COUNTERS.items():
        if isinstance(arguments.get(name), int):
            arguments[name] += copy * step
    if arguments:
        result["args"] = arguments
    return result


def main() -> int:
    """Write one profile."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tile", description=__doc__)
    parser.add_argument("profile", type=Path, help="SQLite export, or trace (.json)")
    parser.add_argument("times", type=int, help="number of copies")
    parser.add_argument("output", type=Path, help="profile to write")
    options = parser.parse_args()
    if options.times < 1:
        parser.error("TIMES must be 1 or more")
    repeat = tile_trace if options.profile.suffix == ".json" else tile
    repeat(options.profile, options.times, options.output)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
