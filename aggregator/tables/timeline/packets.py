"""Packets of a Perfetto trace: tracks, the slices and samples on them, and names sent once.

Field numbers are those of protos/perfetto/trace/perfetto_trace.proto.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import IO, Final

import numpy as np

from aggregator.profile.arrays import Bool, Float64, Int64
from aggregator.tables.timeline.nesting import nested_sets
from aggregator.tables.timeline.protobuf import (
    Field,
    encoded,
    fixed64s,
    message,
    messages,
    text,
    varint,
    varints,
)

_PACKET: Final = 1  # of Trace
_TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _INTERNED, _FLAGS, _TRACK = 8, 10, 11, 12, 13, 60
_CLEARED, _NEEDED = 1, 2  # SequenceFlags
_EVENT_CATEGORIES, _EVENT_NAMES, _ANNOTATION_NAMES, _ANNOTATION_TEXTS = 1, 2, 3, 29
_CATEGORY, _ANNOTATION, _TYPE, _NAME, _TRACK_UUID, _FLOWS, _LAST_FLOWS = 3, 4, 9, 10, 11, 47, 48
_KEY, _UNSIGNED, _TEXT = 1, 3, 17  # of DebugAnnotation
_BEGIN, _END, _SAMPLE = 1, 2, 4  # TrackEvent.Type
_VALUE: Final = 44  # of TrackEvent: a counter's.
_COUNTER: Final = 8  # of TrackDescriptor.
_SIZE_BYTES: Final = 3  # CounterDescriptor.Unit
_SEQUENCE_ID: Final = 1
_ROWS: Final = 1 << 15  # Slices that are encoded at once.


@dataclass(frozen=True)
class Slices:
    """Slices of one track before they are encoded; arrays of one length, in order of start."""

    start_ns: Int64
    end_ns: Int64
    name: Int64  # Number of the name.
    category: Int64  # Index into the categories of the trace.
    texts: tuple[tuple[str, Int64], ...] = ()  # Annotations: number of a text; 0: none.
    numbers: tuple[tuple[str, Int64], ...] = ()  # Annotations: a number; negative: none.
    flows: tuple[Int64, ...] = ()  # Arrows that begin or go on here; 0: none.
    ends: tuple[Int64, ...] = ()  # Arrows that end here; 0: none.

    def rows(self, rows: Int64 | slice | Bool) -> Slices:
        """Return the chosen slices."""
        return Slices(
            *(self.start_ns[rows], self.end_ns[rows], self.name[rows], self.category[rows]),
            texts=tuple((key, column[rows]) for key, column in self.texts),
            numbers=tuple((key, column[rows]) for key, column in self.numbers),
            flows=tuple(column[rows] for column in self.flows),
            ends=tuple(column[rows] for column in self.ends),
        )

    def __len__(self) -> int:
        return len(self.start_ns)


def merged(parts: Sequence[Slices]) -> Slices:
    """Slices of several kinds in order: of equal times, those of the first kind are outside."""
    keys = dict.fromkeys(key for part in parts for key, _ in part.texts)
    numbers = dict.fromkeys(key for part in parts for key, _ in part.numbers)

    def joined(columns: list[Int64]) -> Int64:
        return np.concatenate(columns).astype(np.int64)

    def padded(part: Slices, found: Int64 | None, missing: int) -> Int64:
        return np.full(len(part), missing) if found is None else found

    together = Slices(
        joined([part.start_ns for part in parts]),
        joined([part.end_ns for part in parts]),
        joined([part.name for part in parts]),
        joined([part.category for part in parts]),
        texts=tuple(
            (key, joined([padded(part, dict(part.texts).get(key), 0) for part in parts]))
            for key in keys
        ),
        numbers=tuple(
            (key, joined([padded(part, dict(part.numbers).get(key), -1) for part in parts]))
            for key in numbers
        ),
        flows=(joined([padded(part, next(iter(part.flows), None), 0) for part in parts]),),
        ends=(joined([padded(part, next(iter(part.ends), None), 0) for part in parts]),),
    )
    kind = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    return together.rows(np.lexsort((kind, -together.end_ns, together.start_ns)))


class Names:
    """Numbers of texts, from 1 on; those not yet written are ``new``."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.new: list[tuple[int, str]] = []

    def number(self, name: str) -> int:
        """Return the number of a text."""
        known = self._numbers.get(name)
        if known is None:
            known = self._numbers[name] = len(self._numbers) + 1
            self.new.append((known, name))
        return known

    def numbers(self, names: Sequence[str]) -> Int64:
        """Return the numbers of texts."""
        return np.array([self.number(name) for name in names], dtype=np.int64)


class Packets:
    """Writes packets; a packet of slices comes after the names that it refers to."""

    def __init__(self, out: IO[bytes], categories: Sequence[str], offset_ns: int) -> None:
        """Begin a trace; ``offset_ns`` is added to all times: those of a trace are not negative."""
        self._out = out
        self._offset_ns = offset_ns
        self.names, self._keys, self.texts = Names(), Names(), Names()
        self._tracks = count(1)
        self.slices = 0  # How many were written.
        self._begin(categories)

    def track(self, name: str, parent: int = 0) -> int:
        """Return a new track; its number is the parent of others."""
        return self._add_track(text(2, name), parent)

    def process_track(self, pid: int) -> int:
        """Return the track of a process."""
        return self._add_track(message(3, varint(1, pid)))

    def thread_track(self, pid: int, tid: int, name: str, process: int) -> int:
        """Return the track of a thread below that of its process."""
        thread = varint(1, pid) + varint(2, tid) + (text(5, name) if name else b"")
        return self._add_track(message(4, thread), process)

    def write_samples(
        self, title: str, unit: str, parent: int, start_ns: Int64, value: Float64
    ) -> None:
        """Write the samples of a counter; an empty unit stands for bytes."""
        described = text(6, unit) if unit else varint(3, _SIZE_BYTES)
        track = self._add_track(text(2, title) + message(_COUNTER, described), parent)
        size = len(value)
        event = [
            varints(_TYPE, np.full(size, _SAMPLE)),
            varints(_TRACK_UUID, np.full(size, track)),
            fixed64s(_VALUE, value.view(np.int64), np.ones(size, dtype=bool)),
        ]
        self._out.write(encoded(self._timed(start_ns, event)))

    def write_lane(self, title: str, track: int, slices: Slices, *, is_own: bool = False) -> None:
        """Write the slices of a lane; those that cross others on tracks of their own."""
        for number, rows in enumerate(nested_sets(slices.start_ns, slices.end_ns)):
            target = track
            if number or not is_own:
                target = self.track(title + (f" ({number + 1})" if number else ""), track)
            self.write_slices(target, slices.rows(rows))

    def write_slices(self, track: int, slices: Slices) -> None:
        """Write slices that nest, the outer ones first."""
        for key, _ in (*slices.texts, *slices.numbers):
            self._keys.number(key)
        self._write_names()
        self.slices += len(slices)
        order, is_begin = _in_order_of_time(slices.start_ns, slices.end_ns)
        for low in range(0, len(order), _ROWS):
            rows = slice(low, low + _ROWS)
            packets = self._packets(track, slices.rows(order[rows]), is_begin[rows])
            self._out.write(encoded(packets))

    def _packets(self, track: int, slices: Slices, is_begin: Bool) -> Field:
        size = len(is_begin)
        time_ns = np.where(is_begin, slices.start_ns, slices.end_ns)
        event = [
            varints(_CATEGORY, slices.category + 1, is_begin),
            *self._annotations(slices, is_begin),
            varints(_TYPE, np.where(is_begin, _BEGIN, _END)),
            varints(_NAME, slices.name, is_begin),
            varints(_TRACK_UUID, np.full(size, track)),
            *(fixed64s(_FLOWS, flow, is_begin & (flow > 0)) for flow in slices.flows),
            *(fixed64s(_LAST_FLOWS, flow, is_begin & (flow > 0)) for flow in slices.ends),
        ]
        return self._timed(time_ns, event)

    def _timed(self, time_ns: Int64, event: list[Field]) -> Field:
        size = len(time_ns)
        packet = [
            varints(_TIMESTAMP, time_ns + self._offset_ns),
            varints(_SEQUENCE, np.full(size, _SEQUENCE_ID)),
            messages(_TRACK_EVENT, event),
            varints(_FLAGS, np.full(size, _NEEDED)),
        ]
        return messages(_PACKET, packet)

    def _annotations(self, slices: Slices, is_begin: Bool) -> Iterator[Field]:
        for key, numbers in slices.texts:
            yield self._annotation(key, _TEXT, numbers, is_begin & (numbers > 0))
        for key, numbers in slices.numbers:
            yield self._annotation(key, _UNSIGNED, numbers, is_begin & (numbers >= 0))

    def _annotation(self, key: str, field: int, values: Int64, present: Bool) -> Field:
        name = varints(_KEY, np.full(len(values), self._keys.number(key)))
        return messages(_ANNOTATION, [name, varints(field, np.maximum(values, 0))], present)

    def _begin(self, categories: Sequence[str]) -> None:
        """Write the first packet: categories, and that numbers of names start anew."""
        interned = b"".join(
            message(_EVENT_CATEGORIES, varint(1, number + 1) + text(2, name))
            for number, name in enumerate(categories)
        )
        self._packet(message(_INTERNED, interned), _CLEARED | _NEEDED)

    def _packet(self, content: bytes, flags: int = _NEEDED) -> None:
        body = varint(_SEQUENCE, _SEQUENCE_ID) + varint(_FLAGS, flags) + content
        self._out.write(message(_PACKET, body))

    def _write_names(self) -> None:
        interned = b""
        for field, names in (
            (_EVENT_NAMES, self.names),
            (_ANNOTATION_NAMES, self._keys),
            (_ANNOTATION_TEXTS, self.texts),
        ):
            interned += b"".join(
                message(field, varint(1, number) + text(2, name)) for number, name in names.new
            )
            names.new.clear()
        if interned:
            self._packet(message(_INTERNED, interned))

    def _add_track(self, described: bytes, parent: int = 0) -> int:
        number = next(self._tracks)
        body = varint(1, number) + (varint(5, parent) if parent else b"") + described
        self._packet(message(_TRACK, body))
        return number


def _in_order_of_time(start_ns: Int64, end_ns: Int64) -> tuple[Int64, Bool]:
    """Slice and kind of each packet: ends before begins at one time, but not before its own begin.

    The slices nest and are in order of start, the outer ones first.
    """
    size = len(start_ns)
    slices = np.arange(size)
    # Of equal ends the inner slice, which comes later, ends first. A slice without length ends
    # right after its begin.
    is_point = start_ns == end_ns
    time = np.concatenate([start_ns, end_ns])
    rank = np.concatenate([np.ones(size, dtype=np.int64), np.where(is_point, 1, 0)])
    within = np.concatenate([2 * slices, np.where(is_point, 2 * slices + 1, -slices)])
    order = np.lexsort((within, rank, time))
    return order % max(size, 1), order < size
