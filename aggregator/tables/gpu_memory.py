"""Recordings of GPU memory as the API and the page show them: the curve, and what lives when."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from aggregator.dldb.gpu_memory import read_recordings
from aggregator.errors import InvalidValueError
from aggregator.metrics.memory.analysis import DeviceMemory, Recording
from aggregator.metrics.memory.answers import fragmentation, leaks, step_peaks
from aggregator.metrics.memory.kinds import EVIDENCE_TEXTS, KIND_NAMES
from aggregator.profile.arrays import Int64
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.counts import Remembered
from aggregator.texts import say

MOST_PIXELS: Final = 4_096
MOST_OWNERS: Final = 100
MOST_STEPS: Final = 1_000
_MOST_FRAMES: Final = 60
_MOST_ROWS: Final = 20_000_000
"""Events and allocations that are kept in memory, of all profiles together: 100 bytes each."""
_KIND_ORDER: Final = (1, 3, 2, 4, 5, 6, 0)
"""From the bottom of the picture: what lives longest first, what is unknown last."""
NOT_RECORDED = say(
    "The profile holds no recording of GPU memory: record one with dlprof --memory, or add a "
    "snapshot with dlprof memory --into."
)


@dataclass(frozen=True)
class Shown:
    """A recording with the place of its events on the axis of a picture."""

    recording: Recording

    @property
    def memory(self) -> DeviceMemory:
        """The memory of the device."""
        return self.recording.memory

    @cached_property
    def has_times(self) -> bool:
        """Whether all events have times; else the axis counts events."""
        times = self.memory.time_ns
        return bool(len(times)) and int(times.min()) >= 0

    @cached_property
    def at(self) -> Int64:
        """Place of each event: time since the first, or its number."""
        if not self.has_times:
            return np.arange(self.memory.num_events, dtype=np.int64)
        times = np.maximum.accumulate(self.memory.time_ns)
        return np.asarray(times - times[0], dtype=np.int64)

    def profile_ns(self, event: int) -> int | None:
        """Time of an event on the clock of the profile; None: unknown."""
        offset = self.recording.clock_offset_ns
        if offset is None or not self.has_times or event < 0:
            return None
        return int(self.memory.time_ns[event]) - offset


_shown: Remembered[tuple[Shown, ...]] = Remembered(
    _MOST_ROWS, lambda all_: sum(len(one.memory.rows) + one.memory.num_events for one in all_) + 1
)


def read_memory_summary(data: AggregationData) -> dict[str, Any]:
    """All recordings: their totals, the peak by kind, steps, what grows, what is fragmented.

    Raises:
        DatabaseError: The database is damaged.
    """
    found = _recordings(data)
    unknown = {} if found else {"recordings": NOT_RECORDED}
    return {
        "recordings": [_summary(data, number, one) for number, one in enumerate(found, start=1)],
        "unknown": unknown,
    }


def _summary(data: AggregationData, number: int, shown: Shown) -> dict[str, Any]:
    memory, counts = shown.memory, shown.memory.counts
    evidence = memory.evidence(memory.at_peak)
    free = fragmentation(memory)
    peaks = step_peaks(memory)
    return {
        "recording": number,
        "device": memory.device,
        "recorded_by": memory.source,
        "source_file": shown.recording.source_file,
        "axis": "time_ns" if shown.has_times else "event",
        "stop": int(shown.at[-1]) if len(shown.at) else 0,
        "num_events": memory.num_events,
        "num_allocations": int((~memory.rows.is_rounding).sum()),
        "peak_allocated_bytes": counts.peak_allocated,
        "peak_event": counts.peak_event,
        "peak_reserved_bytes": counts.peak_reserved,
        "end_allocated_bytes": counts.end_allocated,
        "end_active_bytes": counts.end_active,
        "end_reserved_bytes": counts.end_reserved,
        "unnamed_bytes_at_peak": memory.unnamed_bytes_at_peak,
        "free_bytes": None if free is None else free.free_bytes,
        "largest_free_bytes": None if free is None else free.largest_bytes,
        "kinds": [
            {"kind": kind, "bytes": size, "evidence": evidence.get(kind, "")}
            for kind, size in memory.bytes_by_kind(memory.at_peak).items()
        ],
        "num_steps": len(peaks),
        "steps": [
            {
                "step": one.step,
                "event": one.event,
                "allocated_bytes": one.allocated_bytes,
                "iteration_index": _iteration(data, shown, one.event),
            }
            for one in peaks[:MOST_STEPS]
        ],
        "leaks": [asdict(leak) for leak in leaks(memory)],
    }


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
    shown = _recording(data, number)
    memory, counts = shown.memory, shown.memory.counts
    events = chosen_events(shown, low, high, pixels)
    kinds = memory.bytes_at(events)[:, list(_KIND_ORDER)]
    used = np.flatnonzero(kinds.any(axis=0)) if len(kinds) else np.zeros(0, dtype=np.int64)
    return {
        "recording": number,
        "low": low,
        "high": high,
        "event": events.tolist(),
        "at": shown.at[events].tolist(),
        "allocated_bytes": counts.allocated[events].tolist(),
        "active_bytes": counts.active[events].tolist(),
        "reserved_bytes": counts.reserved[events].tolist(),
        "kinds": [
            {"kind": KIND_NAMES[_KIND_ORDER[kind]], "bytes": kinds[:, kind].tolist()}
            for kind in used.tolist()
        ],
    }


def chosen_events(shown: Shown, low: int, high: int, pixels: int) -> Int64:
    """The events that a picture of a part of the axis shows, at most three for each pixel."""
    counts = shown.memory.counts
    first = int(np.searchsorted(shown.at, low, side="left"))
    last = int(np.searchsorted(shown.at, high, side="right"))
    if first >= last:
        return np.arange(max(first - 1, 0), first, dtype=np.int64)
    width = (high - low) / pixels
    pixel = ((shown.at[first:last] - low) / width).astype(np.int64)
    heads = np.flatnonzero(np.diff(pixel, prepend=-1))
    lengths = np.diff(np.append(heads, len(pixel)))
    chosen = [heads + lengths - 1]
    for column in (counts.allocated[first:last], counts.reserved[first:last]):
        most = np.repeat(np.maximum.reduceat(column, heads), lengths)
        run = np.repeat(np.arange(len(heads)), lengths)
        places = np.flatnonzero(column == most)
        _, begins = np.unique(run[places], return_index=True)
        chosen.append(places[begins])
    found = np.unique(np.concatenate(chosen)) + first
    return np.append(first - 1, found) if first else found


def read_memory_alive(data: AggregationData, number: int, event: int) -> dict[str, Any]:
    """What lives after an event: by kind, and by module, op and kind with a call stack.

    Raises:
        InvalidValueError: There is no such recording or event.
        DatabaseError: The database is damaged.
    """
    shown = _recording(data, number)
    memory = shown.memory
    if not -1 <= event < memory.num_events:
        raise InvalidValueError(say("event must be from -1 to {last}.", last=memory.num_events - 1))
    alive = memory.rows.alive_after(event)
    counts = memory.counts
    is_start = event < 0
    owners = memory.owners(alive)
    return {
        "recording": number,
        "event": event,
        "at": None if is_start else int(shown.at[event]),
        "profile_ns": shown.profile_ns(event),
        "iteration_index": _iteration(data, shown, event),
        "allocated_bytes": counts.start_allocated if is_start else int(counts.allocated[event]),
        "active_bytes": None if is_start else int(counts.active[event]),
        "reserved_bytes": counts.start_reserved if is_start else int(counts.reserved[event]),
        "kinds": [
            {"kind": kind, "bytes": size} for kind, size in memory.bytes_by_kind(alive).items()
        ],
        "num_owners": len(owners),
        "owners": _with_ops(
            data,
            [
                {
                    "module": one.module,
                    "op": one.op,
                    "kind": KIND_NAMES[one.kind],
                    "evidence": EVIDENCE_TEXTS[memory.whose.evidence[one.largest]],
                    "bytes": one.size,
                    "allocations": one.count,
                    "stack": _stack(memory, one.largest),
                }
                for one in owners[:MOST_OWNERS]
            ],
        ),
    }


def _stack(memory: DeviceMemory, row: int) -> list[str]:
    stacks = memory.stacks
    frames = stacks.frames[memory.whose.stack[row]][:_MOST_FRAMES]
    return [f"{stacks.names[one]} ({stacks.files[one]}:{stacks.lines[one]})" for one in frames]


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


def _iteration(data: AggregationData, shown: Shown, event: int) -> int | None:
    time_ns = shown.profile_ns(event)
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


_spans: Remembered[Int64] = Remembered(1_000_000, lambda rows: rows.size + 1)


def _recordings(data: AggregationData) -> Sequence[Shown]:
    if not data.database.is_ours:
        return ()

    def read(connection: sqlite3.Connection) -> tuple[Shown, ...]:
        return tuple(Shown(one) for one in read_recordings(connection))

    return _shown.get(data.database.state, "gpu memory", {}, lambda: data.database.read_with(read))


def _recording(data: AggregationData, number: int) -> Shown:
    found = _recordings(data)
    if not 1 <= number <= len(found):
        raise InvalidValueError(
            say("There is no recording {number} of GPU memory.", number=number),
            hint=say("The profile has {count} of them.", count=len(found)),
        )
    return found[number - 1]
