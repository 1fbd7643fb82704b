"""The corrected step of an aggregation: its replay without the costs of profiling, as a row."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final

import numpy as np

from aggregator.dldb.column_blobs import decoded, narrowed_parts
from aggregator.dldb.guarded import DAMAGE
from aggregator.dldb.writer import Table, Value, has_table, insert_rows
from aggregator.errors import ReplayError
from aggregator.events.store import EventStore
from aggregator.importing.imported import ImportedProfile
from aggregator.profile.arrays import Int64
from aggregator.replay.analysis import ReplayedProfile
from aggregator.replay.corrected import (
    CorrectedStep,
    correct,
    segment_costs_ns,
    without_cost,
)
from aggregator.replay.reader import read_replayed

_TABLE: Final = "corrected_steps"


def marker_tables(data: ImportedProfile) -> Iterator[Table]:
    """Markers before each call, which the correction needs; only of runs that have a reference."""
    counts = data.profile.call_markers
    for low, width, base, content in narrowed_parts(counts):
        yield Table(
            "call_markers",
            {"first_call": [low + 1], "item_bytes": [width], "base": [base], "data": [content]},
        )


def add_corrected_step(connection: sqlite3.Connection, store: EventStore, aggr: int) -> None:
    """Add the corrected step to an aggregation, if the profile says what profiling cost.

    Raises:
        sqlite3.Error: The database is damaged.
    """
    if not (has_table(connection, _TABLE) and has_table(connection, "call_markers")):
        return
    meta = dict(connection.execute("SELECT key, value FROM dldb_meta").fetchall())
    unprofiled, profiled = meta.get("bare_step_ns"), meta.get("profiled_step_ns")
    if not (unprofiled and profiled and int(profiled) > 0):
        return
    try:
        markers = read_markers(connection)
        profile = read_replayed(store, aggr)
        if len(markers) != len(profile.graph.data.calls) or len(profile.steps.number) < 2:
            return
        found = correct(profile, markers, int(unprofiled), int(profiled))
        row = _row(aggr, found, int(np.median(profile.measured_ns)))
        if not _has_slower(connection):
            del row["slower"]
        insert_rows(connection, Table(_TABLE, row))
    except ReplayError:
        return
    except DAMAGE as error:
        raise sqlite3.DatabaseError(f"its values do not fit together ({error})") from error


def read_corrected(
    connection: sqlite3.Connection, store: EventStore, aggr: int, profile: ReplayedProfile
) -> ReplayedProfile | None:
    """A replay of steps of an aggregation without the costs of profiling; None: unknown.

    Args:
        connection: The database, which has the corrected step of the aggregation.
        store: Its events.
        aggr: Number of the aggregation.
        profile: A replay of some of its steps as they were measured.
    """
    if not (has_table(connection, _TABLE) and has_table(connection, "call_markers")):
        return None
    if not _has_slower(connection):
        return None
    query = f"SELECT scale, slower FROM {_TABLE} WHERE aggr = ?"
    row = connection.execute(query, (aggr,)).fetchone()
    calls = profile.graph.data.calls
    if row is None or not len(calls):
        return None
    first = store.first_row("api_calls", int(calls.start_ns[0]))
    markers = read_markers(connection)[first : first + len(calls)]
    if len(markers) != len(calls):
        return None
    return without_cost(profile, segment_costs_ns(profile.graph, markers), *map(float, row))


def _has_slower(connection: sqlite3.Connection) -> bool:
    """Return whether the table has the column, which earlier versions lack."""
    query = "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?"
    row = connection.execute(query, (_TABLE,)).fetchone()
    return row is not None and " slower " in str(row[0])


def read_markers(connection: sqlite3.Connection) -> Int64:
    """Starts and ends of ranges before each call; empty: they are not stored."""
    query = "SELECT item_bytes, base, data FROM call_markers ORDER BY first_call"
    parts = [decoded(*row) for row in connection.execute(query)]
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])


def _row(aggr: int, found: CorrectedStep, measured_ns: int) -> dict[str, list[Value]]:
    low, high = found.interval_ns
    mean = round(float(found.profile.measured_ns.mean()))
    busy = found.profile.busy_ns
    row: dict[str, Value] = {
        "aggr": aggr,
        "measured": measured_ns,
        "step": found.step_ns,
        "p10": low,
        "p90": high,
        "mean": mean,
        "busy": busy,
        "cost": found.cost_ns,
        "scale": round(found.scale, 4),
        "slower": round(found.slower, 4),
        "unexplained": found.unexplained_ns,
    }
    row |= {f"{limit}_pct": round(pct, 2) for limit, pct in found.profile.limits_pct.items()}
    return {name: [value] for name, value in row.items()}
