"""Recordings of GPU memory as the API and the page show them: the curve, and what lives when."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import numpy as np

from aggregator.dldb.memory_reader import compare_recordings, read_overviews, read_recordings
from aggregator.errors import InvalidValueError
from aggregator.metrics.memory.difference import to_document
from aggregator.metrics.memory.overview import (
    PIXELS,
    Moment,
    Overview,
    Shown,
    Totals,
    curve,
    live_blocks_at,
    narrower,
    totals,
)
from aggregator.profile.arrays import Int64
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.connection import ProfileDatabase
from aggregator.tables.counts import QueryCache
from aggregator.texts import say

One = TypeVar("One")
MOST_PIXELS: Final = 4_096
_MOST_ROWS: Final = 20_000_000
"""Events and allocations that are kept in memory, of all profiles together: 100 bytes each."""
_MOST_OVERVIEWS: Final = 16
NOT_RECORDED = say(
    "The profile holds no recording of GPU memory: record one with dlprof --memory, or add a "
    "snapshot with dlprof memory --into."
)


_shown: QueryCache[tuple[Shown, ...]] = QueryCache(
    _MOST_ROWS, lambda all_: sum(len(run.memory.rows) + run.memory.num_events for run in all_) + 1
)
_overviews: QueryCache[tuple[Overview, ...]] = QueryCache(
    _MOST_OVERVIEWS, lambda all_: len(all_) + 1
)


def read_memory_summary(data: AggregationData) -> dict[str, Any]:
    """All recordings: their totals, the peak by kind, steps, what grows, what is fragmented.

    Raises:
        DatabaseError: The database is damaged.
    """
    stored = _stored(data)
    if stored:
        known = [(recording["totals"], recording["clock_offset_ns"]) for recording in stored]
    else:
        known = [(totals(run), run.recording.clock_offset_ns) for run in _recordings(data.database)]
    return {
        "recordings": [
            _summary(data, number, found, offset)
            for number, (found, offset) in enumerate(known, start=1)
        ],
        "unknown": {} if known else {"recordings": NOT_RECORDED},
    }


def _summary(
    data: AggregationData, number: int, found: Totals, offset_ns: int | None
) -> dict[str, Any]:
    steps = [
        {
            "step": step["step"],
            "event": step["event"],
            "allocated_bytes": step["allocated_bytes"],
            "iteration_index": _iteration(data, _profile_ns(step["time_ns"], offset_ns)),
        }
        for step in found["steps"]
    ]
    return {"recording": number, **found, "steps": steps}


def read_memory_curve(
    data: AggregationData, number: int, low: int, high: int, pixels: int
) -> dict[str, Any]:
    """What is counted at the events of a part of the axis that a picture needs.

    Of each pixel these are the first event with most allocated, that with most reserved, and the
    last; the event before the part begins the picture. Kinds add up to what is allocated.

    Raises:
        InvalidValueError: There is no such recording, or the part is none.
        DatabaseError: The database is damaged.
    """
    if not 1 <= pixels <= MOST_PIXELS or low >= high:
        raise InvalidValueError(
            say("low must be below high, and pixels from 1 to {most}.", most=MOST_PIXELS)
        )
    stored = _stored(data)
    whole = _numbered(stored, number) if stored else None
    if whole and (low, high) == (0, max(whole["totals"]["stop"], 1)) and PIXELS % pixels == 0:
        points = narrower(whole["curve"], high, pixels)
    else:
        points = curve(_numbered(_recordings(data.database), number), low, high, pixels)
    return {"recording": number, "low": low, "high": high, **points}


def read_memory_alive(data: AggregationData, number: int, event: int) -> dict[str, Any]:
    """What lives after an event: by kind, and by module, op and kind with a call stack.

    Raises:
        InvalidValueError: There is no such recording or event.
        DatabaseError: The database is damaged.
    """
    found, offset_ns = _moment(data, number, event)
    profile_ns = _profile_ns(found["time_ns"], offset_ns)
    reply: dict[str, Any] = {
        "recording": number,
        **found,
        "profile_ns": profile_ns,
        "iteration_index": _iteration(data, profile_ns),
        "owners": _with_ops(data, [{**owner} for owner in found["owners"]]),
    }
    del reply["time_ns"]
    return reply


def _moment(data: AggregationData, number: int, event: int) -> tuple[Moment, int | None]:
    """What lives after an event, and the offset of the recording's clock."""
    stored = _stored(data)
    known = _numbered(stored, number) if stored else None
    if known and event == known["peak"]["event"]:
        return known["peak"], known["clock_offset_ns"]
    shown = _numbered(_recordings(data.database), number)
    if not -1 <= event < shown.memory.num_events:
        last = shown.memory.num_events - 1
        raise InvalidValueError(say("event must be from -1 to {last}.", last=last))
    return live_blocks_at(shown, event), shown.recording.clock_offset_ns


def _profile_ns(time_ns: int | None, offset_ns: int | None) -> int | None:
    """A time of a recording on the clock of the profile; None: unknown."""
    return None if time_ns is None or offset_ns is None else time_ns - offset_ns


def read_memory_difference(base: ProfileDatabase, new: ProfileDatabase) -> dict[str, Any]:
    """What makes the peaks of one profile higher or lower than those of another, by device.

    Raises:
        UnsupportedProfileError: They have no recordings of the same devices.
        DatabaseError: A database is damaged.
    """
    sides = [[recording.memory for recording in _recordings(side)] for side in (base, new)]
    return {"differences": [to_document(recording) for recording in compare_recordings(*sides)]}


def _with_ops(data: AggregationData, owners: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the path of each module in the names of ops, where it has ops."""
    rows = data.database.rows(
        "SELECT DISTINCT op_node_name FROM view_op_nodes WHERE aggr_id = :aggr_id", data.params
    )
    names = "\n".join(f"{row[0]}/" for row in rows)
    paths: dict[str, str] = {}
    for owner in owners:
        module = owner["module"]
        if module not in paths:
            path = f"/{module.replace('.', '/')}/"
            paths[module] = path if module and path in names else ""
        owner["op_path"] = paths[module] or None
    return owners


def _iteration(data: AggregationData, time_ns: int | None) -> int | None:
    """The iteration at a time of the profile; None: none, or the time is unknown."""
    if time_ns is None:
        return None
    low_ns, high_ns, numbers = _iterations(data)
    place = int(np.searchsorted(low_ns, time_ns, side="right")) - 1
    return int(numbers[place]) if place >= 0 and time_ns < high_ns[place] else None


def _iterations(data: AggregationData) -> tuple[Int64, Int64, Int64]:
    rows = _spans.get(
        data.database.state,
        "iterations",
        {"aggr_id": data.params["aggr_id"]},
        lambda: np.array(
            data.database.rows(
                "SELECT start_time, stop_time, iter_value FROM view_iterations_all"
                " WHERE aggr_id = :aggr_id ORDER BY start_time",
                data.params,
            ),
            dtype=np.int64,
        ).reshape(-1, 3),
    )
    return rows[:, 0], rows[:, 1], rows[:, 2]


_spans: QueryCache[Int64] = QueryCache(1_000_000, lambda rows: rows.size + 1)


def _recordings(database: ProfileDatabase) -> Sequence[Shown]:
    if not database.is_ours:
        return ()

    def read(connection: sqlite3.Connection) -> tuple[Shown, ...]:
        return tuple(Shown(recording) for recording in read_recordings(connection))

    return _shown.get(database.state, "gpu memory", {}, lambda: database.read_with(read))


def _stored(data: AggregationData) -> Sequence[Overview]:
    """What is stored of all recordings; nothing if they are small or an earlier version's."""
    if not data.database.is_ours:
        return ()
    return _overviews.get(
        data.database.state, "overviews", {}, lambda: data.database.read_with(read_overviews)
    )


def _numbered(found: Sequence[One], number: int) -> One:
    """The item of a recording."""
    if not 1 <= number <= len(found):
        raise InvalidValueError(
            say("There is no recording {number} of GPU memory.", number=number),
            hint=say("The profile has {count} of them.", count=len(found)),
        )
    return found[number - 1]
