"""What advice and the key node of an aggregation are about: names and times of a database."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from aggregator.dldb.writer import has_table
from aggregator.profile.arrays import Int64
from aggregator.system.untrusted_json import read_list
from aggregator.tables.timeline.events import limited

_RANGES_OF_NAME: Final = (
    """SELECT r.start, r.stop FROM named_ranges AS r JOIN range_names AS n ON n.id = r.name
       WHERE n.name = ? ORDER BY r.start, r.stop DESC""",
    """SELECT i.start, i.stop FROM ops AS o JOIN op_instances AS i ON i.op = o.id
       WHERE o.op_id = ? ORDER BY i.start, i.stop DESC""",
    """SELECT i.start, i.stop FROM ops AS o JOIN op_instances AS i ON i.op = o.id
       WHERE o.op_name = ? AND o.direction = 'fprop' ORDER BY i.start, i.stop DESC""",
)
_MOST_ADVICE: Final = 8  # Pieces of advice that get a lane, those that could save most.


@dataclass(frozen=True)
class Marked:
    """What a piece of advice was measured on."""

    name: str  # Stable name of the advice.
    op_ids: frozenset[str]
    kernels: frozenset[str]  # Short names.
    numbers: tuple[int, ...]  # Iterations.


def read_marked(connection: sqlite3.Connection, aggregation: int) -> Sequence[Marked]:
    """The advice of an aggregation that names work or iterations, most gain first."""
    if not has_table(connection, "advice"):
        return ()
    sql = "SELECT advice, evidence FROM advice WHERE aggr = ? AND status = 'found' ORDER BY place"
    found = [
        _marked(str(name), read_list(str(evidence)))
        for name, evidence in connection.execute(sql, (aggregation,))
    ]
    return [one for one in found if one.op_ids or one.kernels or one.numbers][:_MOST_ADVICE]


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


def key_node_ranges(connection: sqlite3.Connection, aggregation: int) -> tuple[str, Int64, Int64]:
    """Name, starts and ends of the key node's ranges, or of its calls where it is an op."""
    row = connection.execute(
        "SELECT key_node FROM aggregations WHERE id = ?", (aggregation,)
    ).fetchone()
    name = str(row[0]) if row else ""
    for sql in _RANGES_OF_NAME:
        found = np.array(connection.execute(sql, (name,)).fetchall(), dtype=np.int64)
        if len(found):
            start = limited(found[:, 0])
            return name, start, np.maximum(limited(found[:, 1]), start)
    nothing = np.zeros(0, dtype=np.int64)
    return name, nothing, nothing
