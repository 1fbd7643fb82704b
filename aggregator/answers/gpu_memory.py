"""Recordings of GPU memory as the API and the page show them: the curve, and what lives when."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Annotated, Any, Final, TypeVar

import numpy as np
from msgspec import Struct

from aggregator.dldb.memory_reader import compare_recordings, read_overviews, read_recordings
from aggregator.errors import InvalidValueError
from aggregator.metrics.memory.difference import PeakDifference, to_document
from aggregator.metrics.memory.overview import (
    PIXELS,
    Moment,
    Overview,
    OwnerAt,
    Shown,
    Totals,
    curve,
    live_blocks_at,
    narrower,
    totals,
)
from aggregator.profile.arrays import Int64
from aggregator.system.replies import Unknown, doc
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


class MemoryKind(Struct):
    """Bytes of one kind."""

    kind: Annotated[
        str,
        doc("parameter, gradient, optimizer state, activation, temporary, workspace or unknown."),
    ]
    bytes: int


class MemoryKindAtPeak(MemoryKind):
    """Bytes of one kind at the peak."""

    evidence: Annotated[str, doc("Why most of them have that kind; empty: unknown.")]


class MemoryStep(Struct):
    """The peak of one step."""

    step: Annotated[int, doc("From 0.")]
    event: Annotated[int, doc("First event after which most was allocated.")]
    allocated_bytes: int
    iteration_index: Annotated[
        int | None, doc("Iteration of the profile then; null: none, or unknown.")
    ]


class MemoryLeak(Struct):
    """What each step allocates and no later one releases."""

    name: Annotated[str, doc("Module and op.")]
    bytes: Annotated[int, doc("All of it at the end.")]
    steps: Annotated[int, doc("Number of steps that added to it.")]


class MemoryRecording(Struct):
    """The memory of one GPU over a recording."""

    recording: Annotated[int, doc("Number of the recording, from 1.")]
    device: Annotated[int, doc("Number of the GPU, as the recorded process counts.")]
    recorded_by: Annotated[str, doc("snapshot, kineto or nsys.")]
    source_file: str
    axis: Annotated[str, doc("time_ns: time since the first event; event: number of the event.")]
    stop: Annotated[int, doc("Place of the last event on the axis.")]
    num_events: int
    num_allocations: int
    peak_allocated_bytes: int
    peak_event: Annotated[int, doc("First event after which that was; -1: before all.")]
    peak_reserved_bytes: int
    end_allocated_bytes: int
    end_active_bytes: int
    end_reserved_bytes: int
    unnamed_bytes_at_peak: Annotated[int, doc("Without a kind, or without module and op.")]
    free_bytes: Annotated[int | None, doc("In the allocator's cache at the end.")]
    largest_free_bytes: Annotated[int | None, doc("Largest block of them.")]
    kinds: Annotated[list[MemoryKindAtPeak], doc("At the peak, the largest first.")]
    num_steps: int
    steps: Annotated[list[MemoryStep], doc("The first 1,000 of them.")]
    leaks: list[MemoryLeak]


class Memory(Struct):
    """The recordings of GPU memory of a profile."""

    recordings: list[MemoryRecording]
    unknown: Unknown


class MemoryCurveKind(Struct):
    """Bytes of one kind over time."""

    kind: str
    bytes: list[int]


class MemoryCurve(Struct):
    """What is counted after some events: columns of one length."""

    recording: int
    low: int
    high: int
    event: list[int]
    at: Annotated[list[int], doc("Place on the axis.")]
    allocated_bytes: list[int]
    active_bytes: list[int]
    reserved_bytes: list[int]
    kinds: Annotated[list[MemoryCurveKind], doc("They add up to what is allocated.")]


class MemoryOwner(MemoryKindAtPeak):
    """Living allocations of one module, op and kind."""

    module: Annotated[str, doc("Path of the module; empty: unknown.")]
    op: Annotated[str, doc("Op, or line of the program; empty: unknown.")]
    op_path: Annotated[str | None, doc("Part of the names of the module's ops.")]
    allocations: int
    stack: Annotated[list[str], doc("Call stack of a largest one, innermost first.")]


class MemoryAlive(Struct):
    """What lives after an event."""

    recording: int
    event: int
    at: Annotated[int | None, doc("Place on the axis; null: before all events.")]
    profile_ns: Annotated[int | None, doc("Time on the profile's clock.")]
    iteration_index: Annotated[int | None, doc("Iteration of the profile then.")]
    allocated_bytes: int
    active_bytes: int | None
    reserved_bytes: int
    kinds: list[MemoryKind]
    num_owners: int
    owners: Annotated[list[MemoryOwner], doc("The 100 largest.")]


class MemoryDifferencePart(Struct):
    """What one kind, or one owner, holds at both peaks."""

    kind: str
    owner: Annotated[str, doc("Module and op; empty: all of the kind.")]
    base_bytes: int
    new_bytes: int
    difference_bytes: int


class MemoryDifference(Struct):
    """The peaks of one GPU in two recordings."""

    device: int
    base_peak_allocated_bytes: int
    new_peak_allocated_bytes: int
    difference_bytes: int
    kinds: Annotated[list[MemoryDifferencePart], doc("The largest difference first.")]
    owners: Annotated[list[MemoryDifferencePart], doc("The largest difference first.")]


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
        known = [(recording["totals"], recording["clock_offset_ns"]) for recording in stored]
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
    data: AggregationData, number: int, found: Totals, offset_ns: int | None
) -> MemoryRecording:
    steps = [
        MemoryStep(
            step=step["step"],
            event=step["event"],
            allocated_bytes=step["allocated_bytes"],
            iteration_index=_iteration(data, _profile_ns(step["time_ns"], offset_ns)),
        )
        for step in found["steps"]
    ]
    kinds = [MemoryKindAtPeak(**kind) for kind in found["kinds"]]
    leaks = [MemoryLeak(**leak) for leak in found["leaks"]]
    totals_shown: dict[str, Any] = {**found, "kinds": kinds, "steps": steps, "leaks": leaks}
    return MemoryRecording(recording=number, **totals_shown)


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
    if whole and (low, high) == (0, max(whole["totals"]["stop"], 1)) and PIXELS % pixels == 0:
        points = narrower(whole["curve"], high, pixels)
    else:
        points = curve(_numbered(_recordings(data.database), recording), low, high, pixels)
    kinds = [MemoryCurveKind(**kind) for kind in points["kinds"]]
    columns: dict[str, Any] = {**points, "kinds": kinds}
    return MemoryCurve(recording=recording, low=low, high=high, **columns)


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
    profile_ns = _profile_ns(found["time_ns"], offset_ns)
    return MemoryAlive(
        recording=recording,
        event=found["event"],
        at=found["at"],
        profile_ns=profile_ns,
        iteration_index=_iteration(data, profile_ns),
        allocated_bytes=found["allocated_bytes"],
        active_bytes=found["active_bytes"],
        reserved_bytes=found["reserved_bytes"],
        kinds=[MemoryKind(**kind) for kind in found["kinds"]],
        num_owners=found["num_owners"],
        owners=_owners(data, found["owners"]),
    )


def _moment(data: AggregationData, number: int, event: int) -> tuple[Moment, int | None]:
    """Return what lives after an event, and the offset of the recording's clock."""
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
    """Return a time of a recording on the clock of the profile, or None if it is unknown."""
    return None if time_ns is None or offset_ns is None else time_ns - offset_ns


def read_memory_difference(base: ProfileDatabase, new: ProfileDatabase) -> MemoryDifferences:
    """What makes the peaks of one profile higher or lower than those of another, by device.

    Raises:
        UnsupportedProfileError: They have no recordings of the same devices.
        DatabaseError: A database is damaged.
    """
    sides = [[recording.memory for recording in _recordings(side)] for side in (base, new)]
    return MemoryDifferences([_difference(found) for found in compare_recordings(*sides)])


def _difference(found: PeakDifference) -> MemoryDifference:
    document = to_document(found)
    for name in ("kinds", "owners"):
        document[name] = [MemoryDifferencePart(**part) for part in document[name]]
    return MemoryDifference(**document)


def _owners(data: AggregationData, owners: Sequence[OwnerAt]) -> list[MemoryOwner]:
    """Add the path of each module in the names of ops, where it has ops."""
    rows = data.database.rows(
        "SELECT DISTINCT op_node_name FROM view_op_nodes WHERE aggr_id = :aggr_id", data.params
    )
    names = "\n".join(f"{row[0]}/" for row in rows)
    paths: dict[str, str | None] = {}
    for module in {owner["module"] for owner in owners}:
        path = f"/{module.replace('.', '/')}/"
        paths[module] = path if module and path in names else None
    return [MemoryOwner(**owner, op_path=paths[owner["module"]]) for owner in owners]


def _iteration(data: AggregationData, time_ns: int | None) -> int | None:
    """Return the iteration that contains a time, or None if none does or the time is unknown."""
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
    """Return the item of a recording."""
    if not 1 <= number <= len(found):
        raise InvalidValueError(
            say("There is no recording {number} of GPU memory.", number=number),
            hint=say("The profile has {count} of them.", count=len(found)),
        )
    return found[number - 1]
