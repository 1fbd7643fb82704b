"""One capture of a side, read from its database."""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aggregator.compare.facts import read_facts
from aggregator.compare.matching import Op
from aggregator.compare.ranks import RankTimes, read_rank_times
from aggregator.compare.result import Capture
from aggregator.dldb.aggregations import aggregation_not_found
from aggregator.dldb.event_reader import EventRows, stored_events
from aggregator.dldb.ownership import (
    find_ownership,
    read_ownership,
    read_span,
    read_step_span,
    store_ownership,
)
from aggregator.dldb.writer import has_table
from aggregator.errors import DatabaseError, ProfileError
from aggregator.events.model import LOADER_TYPES
from aggregator.events.window import read_unprofiled_step
from aggregator.kernels.traits import kernel_traits
from aggregator.metrics.owners import Ownership
from aggregator.profile.limits import LimitCode
from aggregator.texts import say

_RANK: Final = re.compile(r"^/rank_\d+(?=/)")


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
    domains: tuple[str, ...] = ()  # Custom NVTX domains, by name.
    limits: frozenset[LimitCode] = frozenset()  # What was found that it does not allow to be said.
    started_ns: int | None = None  # Start of the capture, UTC; None: not recorded. Unit: ns.
    # Time of the kernels that the iterations launched, without communication. None if it is
    # unknown, and for steps: a step ends only when its kernels have ended.
    launched_ns: int | None = None
    ranks: tuple[RankTimes, ...] = ()  # Of a job of several ranks; empty: one, or unknown.
    asked: tuple[int, int] | None = None  # First and last iteration as the user named them.
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
    chosen = iterations or (None, None)
    steps = read_step_span(connection, number, *chosen)
    if steps is None:
        span = read_span(connection, number, *chosen)
        ownership, is_stored = find_ownership(connection, number, span)
    else:
        ownership, is_stored = read_ownership(connection, steps), True
    if not ownership.devices:
        raise ProfileError(
            say("'{name}' holds no work of a GPU: there is nothing to compare.", name=name)
        )
    meta = dict(connection.execute("SELECT key, value FROM dldb_meta").fetchall())
    capture = Capture(
        name=name,
        aggregation=number,
        first=int(ownership.numbers[0]),
        last=int(ownership.numbers[-1]),
        key_node=key_node,
        devices=ownership.devices,
        lengths_ns=ownership.lengths_ns,
        has_steps=steps is not None,
        unprofiled_ns=read_unprofiled_step(stored_events(connection), number),
        is_given=not meta.get("bare_step_ns"),
        numbers=ownership.numbers,
    )
    rows = connection.execute("SELECT name FROM range_names ORDER BY id")
    domains = connection.execute("SELECT name FROM domains WHERE id > 1 ORDER BY name")
    kernels = _kernels(connection, number)
    store = stored_events(connection)
    return CaptureData(
        capture=capture,
        mode=str(meta.get("mode", "")),
        ownership=ownership,
        ops=_ops(connection),
        groups=tuple(str(row[0]) for row in rows),
        kernels=_by_op(kernels),
        facts=read_facts(
            connection, meta, ownership.devices, ((name, time_ns) for _, name, time_ns in kernels)
        ),
        domains=tuple(str(row[0]) for row in domains),
        limits=stored_events(connection).limits,
        launched_ns=_launched_ns(kernels) if iterations is None and steps is None else None,
        started_ns=_started_ns(str(meta.get("session_start_utc_ns", ""))),
        ranks=read_rank_times(store, number, ownership.numbers),
        asked=iterations,
        is_storable=iterations is None and not is_stored,
    )


def _started_ns(text: str) -> int | None:
    """Dates after 1970 and before the year 2200."""
    return int(text) if text.isdecimal() and 0 < int(text) < 7_258_118_400 * 10**9 else None


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
    return tuple(
        Op(_common_name(str(name), str(kind)), str(direction), str(kind), str(shapes), str(more))
        for name, direction, kind, shapes, more in EventRows(connection).ops_of_first_calls()
    )


def _common_name(name: str, kind: str) -> str:
    name = _RANK.sub("", name)
    if kind.startswith(LOADER_TYPES):
        return f"{name.removesuffix(kind.replace('/', '|'))}DataLoader"
    return name


def _kernels(connection: sqlite3.Connection, aggr: int) -> list[tuple[int, str, int]]:
    """Row of ops, full name and time of each kernel. Unit: ns."""
    columns = {row[1] for row in connection.execute("PRAGMA table_info(op_kernels)")}
    full = "n.long_name" if "kernel" in columns else "p.last_long_name"
    join = "JOIN kernel_names AS n ON n.id = p.kernel" if "kernel" in columns else ""
    rows = connection.execute(
        f"SELECT p.op - 1, {full}, m.gpu_time_sum FROM kernel_metrics AS m"  # noqa: S608
        f" JOIN op_kernels AS p ON p.id = m.op_kernel {join} WHERE m.aggr = ?",
        (aggr,),
    )
    return [(int(op), str(name), int(time_ns)) for op, name, time_ns in rows]


def _launched_ns(kernels: list[tuple[int, str, int]]) -> int:
    return sum(time_ns for _, name, time_ns in kernels if not kernel_traits(name).is_communication)


def _by_op(kernels: list[tuple[int, str, int]]) -> dict[int, frozenset[str]]:
    found: dict[int, set[str]] = {}
    for op, name, _ in kernels:
        found.setdefault(op, set()).add(name)
    return {op: frozenset(names) for op, names in found.items()}
