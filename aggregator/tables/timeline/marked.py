"""Events that advice and the key node of an aggregation name."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from aggregator.dldb.writer import has_table
from aggregator.events.store import EventStore
from aggregator.profile.arrays import Int64
from aggregator.system.untrusted_json import read_list
from aggregator.tables.timeline.events import limited

_MOST_ADVICE: Final = 8  # Pieces of advice that get a lane, those that could save most.


@dataclass(frozen=True)
class Marked:
    """What a piece of advice was measured on."""

    name: str  # Stable name of the advice.
    op_ids: frozenset[str]
    kernels: frozenset[str]  # Short names.
    numbers: tuple[int, ...]  # Iterations.


def read_marked(connection: sqlite3.Connection, aggregation: int) -> Sequence[Marked]:
    """Return the advice of an aggregation that names work or iterations, most gain first."""
    if not has_table(connection, "advice"):
        return ()
    sql = "SELECT advice, evidence FROM advice WHERE aggr = ? AND status = 'found' ORDER BY place"
    found = [
        _marked(str(name), read_list(str(evidence)))
        for name, evidence in connection.execute(sql, (aggregation,))
    ]
    return [mark for mark in found if mark.op_ids or mark.kernels or mark.numbers][:_MOST_ADVICE]


def _marked(name: str, items: list[Any]) -> Marked:
    by_kind: dict[str, list[str]] = {}
    for item in items:
        if isinstance(item, dict):
            by_kind.setdefault(str(item.get("kind")), []).append(str(item.get("name")))
    numbers = [int(text) for text in by_kind.get("iteration", ()) if text.isdecimal()]
    return Marked(
        name=name,
        op_ids=frozenset(text.split(" ")[0] for text in by_kind.get("op", ())),
        kernels=frozenset(by_kind.get("kernel", ())),
        numbers=tuple(numbers),
    )


def key_node_ranges(
    connection: sqlite3.Connection, store: EventStore, aggregation: int
) -> tuple[str, Int64, Int64]:
    """Name, starts and ends of the key node's ranges, or of its calls where it is an op."""
    row = connection.execute(
        "SELECT key_node FROM aggregations WHERE id = ?", (aggregation,)
    ).fetchone()
    name = str(row[0]) if row else ""
    start, end = _times_of_name(store, name)
    order = np.lexsort((-end, start))
    start = limited(start[order])
    return name, start, np.maximum(limited(end[order]), start)


def _times_of_name(store: EventStore, name: str) -> tuple[Int64, Int64]:
    codes = [int(row[0]) for row in store.values("range_names", "id", "name") if row[1] == name]
    code, start, end = store.integers("named_ranges", ("name", "start", "stop"))
    rows = np.flatnonzero(np.isin(code, codes))
    if len(rows):
        return start[rows], end[rows]
    ops, calls = store.ops, store.op_calls()
    by_id = [row for row, op_id in enumerate(ops.op_ids) if op_id == name]
    forward = zip(ops.names, ops.directions, strict=True)
    by_name = [row for row, value in enumerate(forward) if value == (name, "fprop")]
    for wanted in (by_id, by_name):
        rows = np.flatnonzero(np.isin(calls.op, wanted))
        if len(rows):
            break
    return calls.start_ns[rows], calls.end_ns[rows]
