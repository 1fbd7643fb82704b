"""A timeline as one file, or the same in memory: compressed columns of every level of its lanes.

Parts of a lane's items lie one after the other: columns of the smallest integer types, their bytes
by significance, compressed. An index at the end says which times each part spans. A window is read
from the parts that overlap it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa

from aggregator.dldb.column_blobs import decoded, narrowed
from aggregator.profile.arrays import Bool, Int64
from aggregator.tables.timeline.items import COUNTER, EventLane, Items, Label, Scale, joined
from aggregator.tables.timeline.levels import EVENTS, lane_levels, shown_items

PART_ITEMS: Final = 8_192
_MAGIC: Final = b"DLPROF timeline 4\n"
_LENGTH_BYTES: Final = 8
_MOST_INDEX_BYTES: Final = 2**30
_CODEC: Final = pa.Codec("zstd")


@dataclass(frozen=True)
class Part:
    """Some items of a level, in order of start."""

    offset: int  # Of its bytes.
    size: int
    first_ns: int  # Start of the first item.
    last_ns: int  # Start of the last item.
    latest_ns: int  # Latest end.
    num_items: int
    columns: tuple[tuple[int, int], ...]  # Bytes per item and smallest value of each column.


@dataclass(frozen=True)
class StoredLane:
    """A lane whose items are read as they are asked for."""

    key: str
    kind: str
    group: str
    title: str
    num_events: int
    busy_ns: int
    labels: tuple[tuple[int, int], ...]  # Number of events of each label that it has.
    levels: tuple[tuple[int, tuple[Part, ...]], ...]  # Shift and parts, the finest level first.
    data: pa.Buffer
    scale: Scale | None = None  # Of a counter.

    def shown(self, shift: int, first: int, last: int) -> Items:
        """What bins ``first <= bin < last`` of ``2**shift`` ns show, as ``shown_items`` says."""
        parts = next(parts for level, parts in reversed(self.levels) if level <= shift)
        found = self._between(parts, first << shift, last << shift)
        return shown_items(found, shift, first, last, are_samples=self.kind == COUNTER)

    def events(self, low_ns: int, high_ns: int) -> Items:
        """The events that overlap some time, or begin in it."""
        return _overlapping(self._between(self.levels[0][1], low_ns, high_ns), low_ns, high_ns)

    def num_events_between(self, low_ns: int, high_ns: int) -> int:
        """Number of the events that overlap some time, or begin in it."""
        total = 0
        for part in self.levels[0][1]:
            if low_ns <= part.first_ns and part.last_ns < high_ns:
                total += part.num_items
            elif part.first_ns < high_ns and (part.last_ns >= low_ns or part.latest_ns > low_ns):
                total += len(_overlapping(_unpacked(self.data, part), low_ns, high_ns))
        return total

    def labeled(self, wanted: Bool, low_ns: int, high_ns: int) -> Iterator[Items]:
        """The events whose labels are wanted, a part at a time in order of start.

        Args:
            wanted: By label.
            low_ns: Parts that end before this are left out.
            high_ns: Parts that begin then or later are left out.
        """
        if not any(wanted[label] for label, _ in self.labels):
            return
        for part in self.levels[0][1]:
            if part.last_ns < low_ns or part.first_ns >= high_ns:
                continue
            items = _unpacked(self.data, part)
            yield items.rows(wanted[items.label])

    def longest(self, low_ns: int, high_ns: int, most: int) -> Items:
        """The longest of the events that overlap some time, or begin in it."""
        for shift, parts in reversed(self.levels):
            found = _overlapping(self._between(parts, low_ns, high_ns), low_ns, high_ns)
            is_event = found.count == 1
            if shift != EVENTS:  # Shorter events may be hidden in runs.
                is_event &= found.busy_ns >= (1 << shift)
            if shift == EVENTS or np.count_nonzero(is_event) >= most:
                chosen = found.rows(is_event)
                return chosen.rows(np.argsort(-chosen.busy_ns, kind="stable")[:most])
        raise AssertionError("every lane has its events")

    def _between(self, parts: tuple[Part, ...], low_ns: int, high_ns: int) -> Items:
        wanted = [
            part
            for part in parts
            if part.first_ns < high_ns and (part.last_ns >= low_ns or part.latest_ns > low_ns)
        ]
        return joined([_unpacked(self.data, part) for part in wanted])


class StoredTimeline:
    """The lanes of an aggregation, in a buffer or a file."""

    def __init__(self, data: pa.Buffer, index: Mapping[str, Any]) -> None:
        self.size = data.size
        self.origin_ns = int(index["origin_ns"])
        self.end_ns = None if index["stop_ns"] is None else int(index["stop_ns"])
        self.state = str(index["state"])
        self.labels = tuple(Label(**label) for label in index["labels"])
        self.lanes = {lane["key"]: _lane(lane, data) for lane in index["lanes"]}

    @cached_property
    def category_of_label(self) -> Int64:
        """``Category`` by label, or ``NO_ROW``."""
        return np.array([label.category for label in self.labels], dtype=np.int64)

    @cached_property
    def ops(self) -> tuple[tuple[tuple[str, str], ...], Int64]:
        """Id and path of the distinct ops, and which of them each label has, or ``NO_ROW``."""
        known: dict[tuple[str, str], int] = {}
        codes = [
            -1
            if label.op_id is None
            else known.setdefault((label.op_id, label.op_name), len(known))
            for label in self.labels
        ]
        return tuple(known), np.array(codes, dtype=np.int64)


class TimelineWriter:
    """Writes lanes one after the other."""

    def __init__(self, out: IO[bytes], *, origin_ns: int, state: str) -> None:
        self._out = out
        self._offset = out.write(_MAGIC)
        self._index: dict[str, Any] = {"origin_ns": origin_ns, "state": state, "lanes": []}
        self._end_ns: int | None = None

    def add(self, lane: EventLane) -> None:
        """Write a lane with its levels."""
        levels = [
            (shift, [vars(part) for part in self._parts(items)])
            for shift, items in lane_levels(lane.events, are_samples=lane.kind == COUNTER)
        ]
        end_ns = int(lane.events.end_ns.max())
        self._end_ns = end_ns if self._end_ns is None else max(self._end_ns, end_ns)
        self._index["lanes"].append(
            {
                **{name: getattr(lane, name) for name in ("key", "kind", "group", "title")},
                "num_events": len(lane.events),
                "busy_ns": sum(lane.events.busy_ns.tolist()),
                "labels": list(_counts(lane.events.label)),
                "levels": levels,
                "scale": None if lane.scale is None else asdict(lane.scale),
            }
        )

    def close(self, labels: tuple[Label, ...]) -> None:
        """Write the index."""
        index = self._index | {"stop_ns": self._end_ns, "labels": [asdict(row) for row in labels]}
        text = json.dumps(index, separators=(",", ":")).encode()
        compressed = bytes(_CODEC.compress(text))
        self._out.write(compressed)
        for length in (len(text), len(compressed)):
            self._out.write(length.to_bytes(_LENGTH_BYTES, "little"))

    def _parts(self, items: Items) -> Iterator[Part]:
        for low in range(0, len(items), PART_ITEMS):
            some = items.rows(slice(low, low + PART_ITEMS))
            columns, data = _packed(some)
            size = self._out.write(data)
            yield Part(
                *(self._offset, size, int(some.start_ns[0]), int(some.start_ns[-1])),
                *(int(some.end_ns.max()), len(some), columns),
            )
            self._offset += size


def read_timeline(data: pa.Buffer) -> StoredTimeline:
    """A timeline from its bytes.

    Raises:
        ValueError, KeyError, TypeError: They are damaged, or of another version.
    """
    view = memoryview(data)
    if bytes(view[: len(_MAGIC)]) != _MAGIC:
        raise ValueError("the file holds no timeline of this version")
    end = len(view) - 2 * _LENGTH_BYTES
    length, compressed = (
        int.from_bytes(view[low : low + _LENGTH_BYTES], "little")
        for low in (end, end + _LENGTH_BYTES)
    )
    start = end - compressed
    if start < len(_MAGIC) or length > _MOST_INDEX_BYTES:
        raise ValueError("the file is cut off")
    text = _CODEC.decompress(data.slice(start, compressed), length)
    return StoredTimeline(data, json.loads(bytes(text)))


def map_timeline(path: Path) -> StoredTimeline:
    """A timeline from its file, which is read as its parts are asked for.

    Raises:
        OSError: It cannot be read.
        ValueError, KeyError, TypeError: It is damaged, or of another version.
    """
    with pa.memory_map(str(path)) as file:
        return read_timeline(file.read_buffer())


def _overlapping(items: Items, low_ns: int, high_ns: int) -> Items:
    overlaps = (items.start_ns >= low_ns) | (items.end_ns > low_ns)
    return items.rows(overlaps & (items.start_ns < high_ns))


def _lane(stored: Mapping[str, Any], data: pa.Buffer) -> StoredLane:
    levels = tuple(
        (int(shift), tuple(Part(**{**part, "columns": tuple(part["columns"])}) for part in parts))
        for shift, parts in stored["levels"]
    )
    labels = tuple((int(label), int(count)) for label, count in stored["labels"])
    scale = None if stored["scale"] is None else Scale(**stored["scale"])
    parts = {"levels": levels, "labels": labels, "scale": scale}
    return StoredLane(**{**stored, **parts}, data=data)


def _counts(labels: Int64) -> Iterator[tuple[int, int]]:
    counts = np.bincount(labels)
    used = np.flatnonzero(counts)
    return zip(used.tolist(), counts[used].tolist(), strict=True)


def _packed(items: Items) -> tuple[tuple[tuple[int, int], ...], bytes]:
    length = items.end_ns - items.start_ns
    columns = (
        np.diff(items.start_ns, prepend=items.start_ns[0]),
        *(length, length - items.busy_ns, items.count, items.label),
        np.diff(items.row, prepend=0),
    )
    parts = [narrowed(column) for column in columns]
    planes = [np.frombuffer(data, dtype=np.uint8).reshape(-1, width).T for width, _, data in parts]
    compressed: pa.Buffer = _CODEC.compress(b"".join(plane.tobytes() for plane in planes))
    return tuple((width, base) for width, base, _ in parts), bytes(compressed)


def _unpacked(data: pa.Buffer, part: Part) -> Items:
    size = part.num_items * sum(width for width, _ in part.columns)
    planes = np.frombuffer(
        _CODEC.decompress(data.slice(part.offset, part.size), size), dtype=np.uint8
    )
    columns, offset = [], 0
    for width, base in part.columns:
        plane = planes[offset : offset + width * part.num_items].reshape(width, -1)
        columns.append(decoded(width, base, plane.T.tobytes()))
        offset += width * part.num_items
    gap, length, idle, count, label, row = columns
    start = part.first_ns + np.cumsum(gap)
    return Items(start, start + length, count, length - idle, label, np.cumsum(row))
