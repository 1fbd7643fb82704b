"""One capture of a side, read from its database."""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aggregator.compare.matching import Op
from aggregator.compare.result import Capture
from aggregator.dldb.aggregations import aggregation_not_found
from aggregator.dldb.ownership import Ownership, find_ownership, read_span, store_ownership
from aggregator.dldb.ownership_columns import LOADER_TYPES
from aggregator.dldb.writer import has_table
from aggregator.errors import DatabaseError, ProfileError
from aggregator.system.untrusted_json import read_json
from aggregator.texts import say

_RANK: Final = re.compile(r"^/rank_\d+(?=/)")
_SYSTEM: Final = {
    "driver_version": "driver",
    "cuda_version": "CUDA",
    "cudnn_version": "cuDNN",
    "framework": "framework",
    "cpu_model": "CPU",
    "mode_string": "mode",
    "nsys_version": "Nsight Systems",
    "original_command": "command",
}
"""Columns of ``system_config``, and what they are called."""


@dataclass(frozen=True)
class CaptureData:
    """What a comparison needs of one capture."""

    capture: Capture
    mode: str
    ownership: Ownership
    ops: tuple[Op, ...]  # By row.
    groups: tuple[str, ...]  # Names of ranges around ops, by row.
    kernels: dict[int, frozenset[str]]  # Full names of the kernels of each op, by row.
    facts: dict[str, str]  # The set-up; what was not recorded is missing.
    is_storable: bool = False  # Whether the ownership is that of an aggregation and not stored.


def read_capture(
    connection: sqlite3.Connection,
    name: str,
    aggr: int | None = None,
    iterations: tuple[int, int] | None = None,
) -> CaptureData:
    """Read a capture.

    Args:
        connection: A database of this program.
        name: How the user named it.
        aggr: Aggregation; None: that of the steady range, else the first.
        iterations: First and last iteration; None: those of the aggregation.

    Raises:
        AggregationNotFoundError: There is no such aggregation.
        IterationRangeError: The profile lacks some of the iterations.
        ProfileError: No GPU ran any work.
    """
    number, key_node = _aggregation(connection, aggr)
    span = read_span(connection, number, *(iterations or (None, None)))
    ownership, is_stored = find_ownership(connection, number, span)
    if not ownership.devices:
        raise ProfileError(
            say("'{name}' holds no work of a GPU: there is nothing to compare.", name=name)
        )
    meta = dict(connection.execute("SELECT key, value FROM dldb_meta").fetchall())
    capture = Capture(
        name=name,
        aggregation=number,
        first=span.first,
        last=span.last,
        key_node=key_node,
        devices=ownership.devices,
        lengths_ns=ownership.lengths_ns,
    )
    rows = connection.execute("SELECT name FROM range_names ORDER BY id")
    return CaptureData(
        capture=capture,
        mode=str(meta.get("mode", "")),
        ownership=ownership,
        ops=_ops(connection),
        groups=tuple(str(row[0]) for row in rows),
        kernels=_kernels(connection, number),
        facts=_facts(connection, meta, ownership),
        is_storable=iterations is None and not is_stored,
    )


def keep_ownership(path: Path, data: CaptureData) -> None:
    """Store the ownership of a capture's aggregation; a file that cannot be written stays as is."""
    if data.is_storable and os.access(path, os.W_OK):
        with suppress(DatabaseError):
            store_ownership(path, data.capture.aggregation, data.ownership)


def _aggregation(connection: sqlite3.Connection, wanted: int | None) -> tuple[int, str]:
    query = "SELECT id, key_node FROM aggregations ORDER BY id"
    known = {int(row[0]): str(row[1]) for row in connection.execute(query)}
    number = wanted
    if number is None and has_table(connection, "step_times"):
        steady = connection.execute("SELECT aggr FROM step_times WHERE is_steady").fetchone()
        number = steady[0] if steady else None
    if number is None:
        number = min(known, default=-1)
    if number not in known:
        raise aggregation_not_found(number, list(known))
    return number, known[number]


def _ops(connection: sqlite3.Connection) -> tuple[Op, ...]:
    rows = connection.execute(
        "SELECT o.op_name, o.direction, o.op_type, coalesce(x.input_shapes, ''),"
        " coalesce(x.parameters, '') FROM ops AS o LEFT JOIN shape_texts AS x ON x.id = (SELECT"
        " j.shapes FROM op_instances AS j WHERE j.op = o.id ORDER BY j.start LIMIT 1)"
        " ORDER BY o.id"
    )
    return tuple(
        Op(_common_name(str(name), str(kind)), str(direction), str(kind), str(shapes), str(more))
        for name, direction, kind, shapes, more in rows
    )


def _common_name(name: str, kind: str) -> str:
    """The name without the rank, and that of a data loader without how it loads."""
    name = _RANK.sub("", name)
    if kind.startswith(LOADER_TYPES):
        return f"{name.removesuffix(kind.replace('/', '|'))}DataLoader"
    return name


def _kernels(connection: sqlite3.Connection, aggr: int) -> dict[int, frozenset[str]]:
    columns = {row[1] for row in connection.execute("PRAGMA table_info(op_kernels)")}
    full = "n.long_name" if "kernel" in columns else "p.last_long_name"
    join = "JOIN kernel_names AS n ON n.id = p.kernel" if "kernel" in columns else ""
    rows = connection.execute(
        f"SELECT p.op - 1, {full} FROM kernel_metrics AS m"  # noqa: S608
        f" JOIN op_kernels AS p ON p.id = m.op_kernel {join} WHERE m.aggr = ?",
        (aggr,),
    )
    found: dict[int, set[str]] = {}
    for op, kernel in rows:
        found.setdefault(int(op), set()).add(str(kernel))
    return {op: frozenset(kernels) for op, kernels in found.items()}


def _facts(
    connection: sqlite3.Connection, meta: dict[str, Any], ownership: Ownership
) -> dict[str, str]:
    facts: dict[str, str] = {}
    columns = {row[1] for row in connection.execute("PRAGMA table_info(devices)")}
    clock = "clock_hz" if "clock_hz" in columns else "NULL"  # not stored before 2.1.1
    rows = connection.execute(f"SELECT name, {clock}, memory_bytes FROM devices ORDER BY id")  # noqa: S608
    devices = rows.fetchall()
    facts["GPU"] = _distinct(row[0] for row in devices)
    facts["GPUs used"] = str(ownership.devices)
    facts["GPU clock"] = _distinct(f"{row[1] / 1e6:g} MHz" for row in devices if row[1])
    facts["GPU memory"] = _distinct(f"{row[2] / 2**30:.1f} GiB" for row in devices if row[2])
    listed = ", ".join(_SYSTEM)
    system = connection.execute(f"SELECT {listed} FROM system_config").fetchone()  # noqa: S608
    facts |= dict(zip(_SYSTEM.values(), (str(value) for value in system), strict=True))
    settings = connection.execute(
        "SELECT key, value FROM model_config WHERE value IS NOT NULL ORDER BY id"
    )
    for key, value in settings:
        parsed = read_json(str(value))
        facts[str(key)] = parsed if isinstance(parsed, str) else str(value)
    loaders = connection.execute("SELECT DISTINCT op_type FROM ops ORDER BY id")
    facts["data loader"] = _distinct(
        row[0] for row in loaders if str(row[0]).startswith(LOADER_TYPES)
    )
    facts["world size"] = str(meta.get("rank_count", ""))
    return {key: value for key, value in facts.items() if value}


def _distinct(values: Any) -> str:
    return ", ".join(dict.fromkeys(str(value) for value in values if value))
