"""Summary of a recording for a view: totals, a curve, and what lives at one moment.

A recording of a gigabyte takes a second to read, so what a view shows first is stored beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Final

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from aggregator.metrics.memory.analysis import DeviceMemory, Recording
from aggregator.metrics.memory.answers import fragmentation, leaks, step_peaks
from aggregator.metrics.memory.kinds import EVIDENCE_TEXTS, KIND_NAMES
from aggregator.system.replies import doc

Int64 = npt.NDArray[np.int64]
Whole = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]

PIXELS: Final = 4_000
"""Width of a stored curve; those of its divisors are made of it."""
MOST_OWNERS: Final = 100
MOST_STEPS: Final = 1_000
_LARGE: Final = 1 << 18
"""Events from which on an overview is stored: fewer are read in less than a tenth of a second."""
_MOST_FRAMES: Final = 60
_FAR: Final = 1 << 62
"""Beyond every place."""
_KIND_ORDER: Final = (1, 3, 2, 4, 5, 6, 0)
"""From the bottom of the picture: what lives longest first, what is unknown last."""


class MemoryKind(Struct):
    """Bytes of one kind."""

    kind: Annotated[
        str,
        doc("parameter, gradient, optimizer state, activation, temporary, workspace or unknown."),
    ]
    bytes: Whole


class MemoryKindAtPeak(MemoryKind):
    """Bytes of one kind at the peak."""

    evidence: Annotated[str, doc("Why most of them have that kind; empty: unknown.")]


class StepAt(Struct):
    """The peak of one step."""

    step: Whole
    event: Whole
    time_ns: Whole | None  # On the clock of the recording.
    allocated_bytes: Whole


class MemoryLeak(Struct):
    """What each step allocates and no later one releases."""

    name: Annotated[str, doc("Module and op.")]
    bytes: Annotated[Whole, doc("All of it at the end.")]
    steps: Annotated[Whole, doc("Number of steps that added to it.")]


class Totals(Struct, kw_only=True):
    """A recording as a whole, without its steps."""

    device: Annotated[Whole, doc("Number of the GPU, as the recorded process counts.")]
    recorded_by: Annotated[str, doc("snapshot, kineto or nsys.")]
    source_file: str
    axis: Annotated[str, doc("time_ns: time since the first event; event: number of the event.")]
    stop: Annotated[Whole, doc("Place of the last event on the axis.")]
    num_events: Whole
    num_allocations: Whole
    peak_allocated_bytes: Whole
    peak_event: Annotated[Whole, doc("First event after which that was; -1: before all.")]
    peak_reserved_bytes: Whole
    end_allocated_bytes: Whole
    end_active_bytes: Whole
    end_reserved_bytes: Whole
    unnamed_bytes_at_peak: Annotated[Whole, doc("Without a kind, or without module and op.")]
    free_bytes: Annotated[Whole | None, doc("In the allocator's cache at the end.")]
    largest_free_bytes: Annotated[Whole | None, doc("Largest block of them.")]
    kinds: Annotated[list[MemoryKindAtPeak], doc("At the peak, the largest first.")]
    num_steps: Whole
    leaks: list[MemoryLeak]


class TotalsOfRecording(Totals, kw_only=True):
    """A recording as a whole, with its steps on its own clock."""

    steps: list[StepAt]


class MemoryCurveKind(Struct):
    """Bytes of one kind over time."""

    kind: str
    bytes: list[Whole]


class CurvePoints(Struct):
    """What is counted after some events, as columns."""

    event: list[Whole]
    at: Annotated[list[Whole], doc("Place on the axis.")]
    allocated_bytes: list[Whole]
    active_bytes: list[Whole]
    reserved_bytes: list[Whole]
    kinds: Annotated[list[MemoryCurveKind], doc("They add up to what is allocated.")]


class OwnerAt(MemoryKindAtPeak):
    """Living allocations of one module, op and kind."""

    module: Annotated[str, doc("Path of the module; empty: unknown.")]
    op: Annotated[str, doc("Op, or line of the program; empty: unknown.")]
    allocations: Whole
    stack: Annotated[list[str], doc("Call stack of a largest one, innermost first.")]


class Moment(Struct, kw_only=True):
    """What lives after an event, without its owners."""

    event: Whole
    at: Annotated[Whole | None, doc("Place on the axis; null: before all events.")]
    allocated_bytes: Whole
    active_bytes: Whole | None
    reserved_bytes: Whole
    kinds: list[MemoryKind]
    num_owners: Whole


class MomentOfRecording(Moment, kw_only=True):
    """What lives after an event, on the clock of the recording."""

    time_ns: Whole | None
    owners: list[OwnerAt]


class Overview(Struct):
    """What a view shows first."""

    clock_offset_ns: Whole | None
    totals: TotalsOfRecording
    curve: CurvePoints
    peak: MomentOfRecording


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

    @property
    def stop(self) -> int:
        """Place of the last event."""
        return int(self.at[-1]) if len(self.at) else 0

    def time_ns(self, event: int) -> int | None:
        """Return the time of an event on the clock of the recording, or None if it is unknown."""
        return int(self.memory.time_ns[event]) if self.has_times and event >= 0 else None


def overview(shown: Shown) -> Overview:
    """Return what a view shows first of a recording."""
    return Overview(
        clock_offset_ns=shown.recording.clock_offset_ns,
        totals=totals(shown),
        curve=curve(shown, 0, max(shown.stop, 1), PIXELS),
        peak=live_blocks_at(shown, shown.memory.counts.peak_event),
    )


_STORED: Final = msgspec.json.Decoder(Overview)


def encode_overview(found: Overview) -> str:
    """Return an overview as JSON."""
    return msgspec.json.encode(found).decode()


def decode_overview(text: str) -> Overview:
    """Return what ``encode_overview`` made of an overview.

    Raises:
        ValueError: It is damaged.
    """
    try:
        found = _STORED.decode(text)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error
    points = found.curve
    columns = [points.at, points.allocated_bytes, points.active_bytes, points.reserved_bytes]
    columns += [point.bytes for point in points.kinds]
    if any(len(column) != len(points.event) for column in columns):
        raise ValueError("the columns of a stored curve differ in length")
    return found


def is_large(recording: Recording) -> bool:
    """Return whether it takes long to read a recording."""
    return recording.memory.num_events >= _LARGE


def totals(shown: Shown) -> TotalsOfRecording:
    """A recording as a whole: its totals, the peak by kind, steps, what grows, free blocks."""
    memory, counts = shown.memory, shown.memory.counts
    evidence = memory.evidence(memory.at_peak)
    free = fragmentation(memory)
    peaks = step_peaks(memory)
    return TotalsOfRecording(
        device=memory.device,
        recorded_by=memory.source,
        source_file=shown.recording.source_file,
        axis="time_ns" if shown.has_times else "event",
        stop=shown.stop,
        num_events=memory.num_events,
        num_allocations=int((~memory.rows.is_rounding).sum()),
        peak_allocated_bytes=counts.peak_allocated,
        peak_event=counts.peak_event,
        peak_reserved_bytes=counts.peak_reserved,
        end_allocated_bytes=counts.end_allocated,
        end_active_bytes=counts.end_active,
        end_reserved_bytes=counts.end_reserved,
        unnamed_bytes_at_peak=memory.unnamed_bytes_at_peak,
        free_bytes=None if free is None else free.free_bytes,
        largest_free_bytes=None if free is None else free.largest_bytes,
        kinds=[
            MemoryKindAtPeak(kind=kind, bytes=size, evidence=evidence.get(kind, ""))
            for kind, size in memory.bytes_by_kind(memory.at_peak).items()
        ],
        num_steps=len(peaks),
        steps=[
            StepAt(
                step=peak.step,
                event=peak.event,
                time_ns=shown.time_ns(peak.event),
                allocated_bytes=peak.allocated_bytes,
            )
            for peak in peaks[:MOST_STEPS]
        ],
        leaks=[
            MemoryLeak(name=leak.name, bytes=leak.bytes, steps=leak.steps) for leak in leaks(memory)
        ],
    )


def curve(shown: Shown, low: int, high: int, pixels: int) -> CurvePoints:
    """Return what is counted at the events of a part of the axis that a picture needs."""
    memory, counts = shown.memory, shown.memory.counts
    first = int(np.searchsorted(shown.at, min(max(low, -1), _FAR), side="left"))
    last = int(np.searchsorted(shown.at, min(max(high, -1), _FAR), side="right"))
    part = slice(first, last)
    found = first + chosen_points(
        shown.at[part], counts.allocated[part], counts.reserved[part], low, high, pixels
    )
    # The event before the part begins the picture.
    events = np.append(first - 1, found) if first else found
    kinds = memory.bytes_at(events)[:, list(_KIND_ORDER)]
    used = np.flatnonzero(kinds.any(axis=0)) if len(kinds) else np.zeros(0, dtype=np.int64)
    return CurvePoints(
        event=events.tolist(),
        at=shown.at[events].tolist(),
        allocated_bytes=counts.allocated[events].tolist(),
        active_bytes=counts.active[events].tolist(),
        reserved_bytes=counts.reserved[events].tolist(),
        kinds=[
            MemoryCurveKind(kind=KIND_NAMES[_KIND_ORDER[kind]], bytes=kinds[:, kind].tolist())
            for kind in used.tolist()
        ],
    )


def narrower(points: CurvePoints, high: int, pixels: int) -> CurvePoints:
    """Return the curve from 0 to ``high`` with the pixels of a divisor of ``PIXELS``."""
    at, allocated, reserved = (
        np.array(column, dtype=np.int64)
        for column in (points.at, points.allocated_bytes, points.reserved_bytes)
    )
    rows = chosen_points(at, allocated, reserved, 0, high, pixels)
    return CurvePoints(
        event=_taken(points.event, rows),
        at=at[rows].tolist(),
        allocated_bytes=allocated[rows].tolist(),
        active_bytes=_taken(points.active_bytes, rows),
        reserved_bytes=reserved[rows].tolist(),
        kinds=[
            MemoryCurveKind(kind=point.kind, bytes=taken)
            for point in points.kinds
            if any(taken := _taken(point.bytes, rows))
        ],
    )


def _taken(values: list[int], rows: Int64) -> list[int]:
    return [values[row] for row in rows.tolist()]


def chosen_points(
    at: Int64, allocated: Int64, reserved: Int64, low: int, high: int, pixels: int
) -> Int64:
    """Choose for each pixel the first point with most allocated or most reserved, and the last.

    Places are whole, so pixels begin at whole places, too: those of fewer pixels are some of those
    of a multiple of them, and so are their points.
    """
    edges = [low + -(-(high - low) * pixel // pixels) for pixel in range(pixels + 1)]
    heads = np.unique(np.searchsorted(at, [min(max(edge, -1), _FAR) for edge in edges]))
    heads = heads[heads < len(at)]
    if not len(heads):
        return heads.astype(np.int64)
    lengths = np.diff(np.append(heads, len(at)))
    chosen = [heads + lengths - 1]
    for column in (allocated, reserved):
        most = np.repeat(np.maximum.reduceat(column, heads), lengths)
        places = np.flatnonzero(column == most)
        chosen.append(places[np.searchsorted(places, heads)])
    return np.unique(np.concatenate(chosen)).astype(np.int64)


def live_blocks_at(shown: Shown, event: int) -> MomentOfRecording:
    """Return what lives after an event; -1: before all."""
    memory, counts = shown.memory, shown.memory.counts
    alive = memory.rows.alive_after(event)
    is_start = event < 0
    owners = memory.owners(alive)
    return MomentOfRecording(
        event=event,
        at=None if is_start else int(shown.at[event]),
        time_ns=shown.time_ns(event),
        allocated_bytes=counts.start_allocated if is_start else int(counts.allocated[event]),
        active_bytes=None if is_start else int(counts.active[event]),
        reserved_bytes=counts.start_reserved if is_start else int(counts.reserved[event]),
        kinds=[
            MemoryKind(kind=kind, bytes=size) for kind, size in memory.bytes_by_kind(alive).items()
        ],
        num_owners=len(owners),
        owners=[
            OwnerAt(
                module=owner.module,
                op=owner.op,
                kind=KIND_NAMES[owner.kind],
                evidence=EVIDENCE_TEXTS[memory.whose.evidence[owner.largest]],
                bytes=owner.size,
                allocations=owner.count,
                stack=_stack(memory, owner.largest),
            )
            for owner in owners[:MOST_OWNERS]
        ],
    )


def _stack(memory: DeviceMemory, row: int) -> list[str]:
    stacks = memory.stacks
    frames = stacks.frames[memory.whose.stack[row]][:_MOST_FRAMES]
    return [f"{stacks.names[at]} ({stacks.files[at]}:{stacks.lines[at]})" for at in frames]
