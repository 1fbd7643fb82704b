"""Recordings of GPU memory as the API and the page show them: the curve, and what lives when."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Annotated, Final, TypeVar

import numpy as np
from msgspec import Struct, structs

from aggregator.dldb.memory_reader import compare_recordings, read_overviews, read_recordings
from aggregator.errors import InvalidValueError
from aggregator.metrics.memory.difference import MemoryDifference
from aggregator.metrics.memory.overview import (
    PIXELS,
    CurvePoints,
    Moment,
    MomentOfRecording,
    Overview,
    OwnerAt,
    Shown,
    Totals,
    TotalsOfRecording,
    curve,
    live_blocks_at,
    narrower,
    totals,
)
from aggregator.profile.arrays import Int64
from aggregator.system.replies import Unknown, doc
from aggregator.tables.aggregation_data import AggregationData, remembered
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


class MemoryStep(Struct):
    """The peak of one step."""

    step: Annotated[int, doc("From 0.")]
    event: Annotated[int, doc("First event after which most was allocated.")]
    allocated_bytes: int
    iteration_index: Annotated[
        int | None, doc("Iteration of the profile then; null: none, or unknown.")
    ]


class MemoryRecording(Totals, kw_only=True):
    """The memory of one GPU over a recording."""

    recording: Annotated[int, doc("Number of the recording, from 1.")]
    steps: Annotated[list[MemoryStep], doc("The first 1,000 of them.")]


class Memory(Struct):
    """The recordings of GPU memory of a profile."""

    recordings: list[MemoryRecording]
    unknown: Unknown


class MemoryCurve(CurvePoints, kw_only=True):
    """What is counted after some events: columns of one length."""

    recording: int
    low: int
    high: int


class MemoryOwner(OwnerAt, kw_only=True):
    """Living allocations of one module, op and kind."""

    op_path: Annotated[str | None, doc("Part of the names of the module's ops.")]


class MemoryAlive(Moment, kw_only=True):
    """What lives after an event."""

    recording: int
    profile_ns: Annotated[int | None, doc("Time on the profile's clock.")]
    iteration_index: Annotated[int | None, doc("Iteration of the profile then.")]
    owners: Annotated[list[MemoryOwner], doc("The 100 largest.")]


class MemoryDifferences(Struct):
    """The peaks of two profiles."""

    differences: list[MemoryDifference]


RecordingNumber = Annotated[int, doc("Number of the recording, from 1.", least=1)]


_shown: QueryCache[tuple[Shown, ...]] = QueryCache(
    _MOST_ROWS, lambda all_: sum(len(run.memory.rows) + run.memory.num_events for run in all_) + 1
)
_overviews: QueryCache[tuple[Overview, ...]] = QueryCache(
    _MOST_OVERVIEWS, lambda all_: len(all_) + 1
)


def read_memory_summary(data: AggregationData) -> Memory:
    """Totals of each recording, its peak by kind, its steps, what grows, free blocks.

    Raises:
        DatabaseError: The database is damaged.
    """
    stored = _stored(data)
    if stored:
        known = [(recording.totals, recording.clock_offset_ns) for recording in stored]
    else:
        known = [(totals(run), run.recording.clock_offset_ns) for run in _recordings(data.database)]
    return Memory(
        recordings=[
            _summary(data, number, found, offset)
            for number, (found, offset) in enumerate(known, start=1)
        ],
        unknown={} if known else {"recordings": NOT_RECORDED},
    )


def _summary(
    data: AggregationData, number: int, found: TotalsOfRecording, offset_ns: int | None
) -> MemoryRecording:
    steps = [
        MemoryStep(
            step=step.step,
            event=step.event,
            allocated_bytes=step.allocated_bytes,
            iteration_index=_iteration(data, _profile_ns(step.time_ns, offset_ns)),
        )
        for step in found.steps
    ]
    return MemoryRecording(**structs.asdict(found) | {"recording": number, "steps": steps})


def read_memory_curve(
    data: AggregationData,
    *,
    recording: RecordingNumber = 1,
    low: Annotated[int, doc("Begin of the part of the axis: ns, or events.")],
    high: Annotated[int, doc("Its end.")],
    pixels: Annotated[
        int, doc("Width: each pixel has at most three events.", least=1, most=MOST_PIXELS)
    ] = 1_000,
) -> MemoryCurve:
    """Allocated bytes by kind, active and reserved bytes after some events, as columns.

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
    whole = _numbered(stored, recording) if stored else None
    if whole and (low, high) == (0, max(whole.totals.stop, 1)) and PIXELS % pixels == 0:
        points = narrower(whole.curve, high, pixels)
    else:
        points = curve(_numbered(_recordings(data.database), recording), low, high, pixels)
    return MemoryCurve(recording=recording, low=low, high=high, **structs.asdict(points))


def read_memory_alive(
    data: AggregationData,
    *,
    recording: RecordingNumber = 1,
    event: Annotated[int, doc("Number of the event; -1: before all.")],
) -> MemoryAlive:
    """What lives after an event: by kind, and by module and op with their call stacks.

    Raises:
        InvalidValueError: There is no such recording or event.
        DatabaseError: The database is damaged.
    """
    found, offset_ns = _moment(data, recording, event)
    fields = structs.asdict(found)
    profile_ns = _profile_ns(fields.pop("time_ns"), offset_ns)
    more = {"recording": recording, "owners": _owners(data, found.owners)}
    iteration = _iteration(data, profile_ns)
    return MemoryAlive(**fields | more, profile_ns=profile_ns, iteration_index=iteration)


def _moment(data: AggregationData, number: int, event: int) -> tuple[MomentOfRecording, int | None]:
    """Return what lives after an event, and the offset of the recording's clock."""
    stored = _stored(data)
    known = _numbered(stored, number) if stored else None
    if known and event == known.peak.event:
        return known.peak, known.clock_offset_ns
    shown = _numbered(_recordings(data.database), number)
    if not -1 <= event < shown.memory.num_events:
        last = shown.memory.num_events - 1
        raise InvalidValueError(say("event must be from -1 to {last}.", last=last))
    return live_blocks_at(shown, event), shown.recording.clock_offset_ns


def _profile_ns(time_ns: int | None, offset_ns: int | None) -> int | None:
    """Return a time of a recording on the clock of the profile, or None if it is unknown."""
    return None if time_ns is None or offset_ns is None else time_ns - offset_ns


def read_memory_difference(base: ProfileDatabase, new: ProfileDatabase) -> MemoryDifferences:
    """What makes the peaks of one profile higher or lower than those of another, by device.

    Raises:
        UnsupportedProfileError: They have no recordings of the same devices.
        DatabaseError: A database is damaged.
    """
    sides = [[recording.memory for recording in _recordings(side)] for side in (base, new)]
    return MemoryDifferences(compare_recordings(*sides))


def _owners(data: AggregationData, owners: Sequence[OwnerAt]) -> list[MemoryOwner]:
    rows = data.database.rows(
        "SELECT DISTINCT op_node_name FROM view_op_nodes WHERE aggr_id = :aggr_id", data.params
    )
    names = "\n".join(f"{row[0]}/" for row in rows)
    paths: dict[str, str | None] = {}
    for module in {owner.module for owner in owners}:
        path = f"/{module.replace('.', '/')}/"
        paths[module] = path if module and path in names else None
    return [MemoryOwner(**structs.asdict(row), op_path=paths[row.module]) for row in owners]


def _iteration(data: AggregationData, time_ns: int | None) -> int | None:
    """Return the iteration that contains a time, or None if none does or the time is unknown."""
    if time_ns is None:
        return None
    low_ns, high_ns, numbers = _iterations(data)
    place = int(np.searchsorted(low_ns, time_ns, side="right")) - 1
    return int(numbers[place]) if place >= 0 and time_ns < high_ns[place] else None


@remembered(16, "aggr_id")
def _iterations(data: AggregationData) -> tuple[Int64, Int64, Int64]:
    sql = (
        "SELECT start_time, stop_time, iter_value FROM view_iterations_all"
        " WHERE aggr_id = :aggr_id ORDER BY start_time"
    )
    rows = np.array(data.database.rows(sql, data.params), dtype=np.int64).reshape(-1, 3)
    return rows[:, 0], rows[:, 1], rows[:, 2]


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
    """Return the item of a recording."""
    if not 1 <= number <= len(found):
        raise InvalidValueError(
            say("There is no recording {number} of GPU memory.", number=number),
            hint=say("The profile has {count} of them.", count=len(found)),
        )
    return found[number - 1]
