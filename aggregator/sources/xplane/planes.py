"""The planes of an XPlane file as columns: lines, events and what is said of each.

``XSpace`` holds planes (a GPU, the host's threads, CUDA calls), a plane lines (a stream, a thread),
a line events. Names, and statistics that all events of a name share, are in the plane's metadata.
From ``xplane.proto`` of OpenXLA; the messages are read by the numbers of their fields.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from aggregator.profile.arrays import NO_ROW, Bytes, Codes, Int64, empty_i64
from aggregator.sources.xplane.wire import FIXED64, MESSAGE, VARINT, Fields, read_fields

# Numbers of fields.
_PLANES: Final = 1
_PLANE_NAME, _LINES, _EVENT_METADATA, _STAT_METADATA, _PLANE_STATS = 2, 3, 4, 5, 6
_LINE_ID, _LINE_NAME, _LINE_TIME_NS, _EVENTS, _LINE_TITLE = 1, 2, 3, 4, 11
_EVENT_NAME, _OFFSET_PS, _DURATION_PS, _EVENT_STATS, _OCCURRENCES = 1, 2, 3, 4, 5
_KEY, _VALUE = 1, 2
_METADATA_NAME: Final = 2
_STAT_NAME, _DOUBLE, _UNSIGNED, _SIGNED, _TEXT, _BYTES, _REFERENCE = 1, 2, 3, 4, 5, 6, 7
_PS_PER_NS: Final = 1000


@dataclass(frozen=True)
class Stats:
    """Statistics: one row each."""

    owner: Int64  # Row of the event or of the metadata that it is of.
    name: Int64  # Id of its metadata.
    number: Int64  # A whole number; 0: it is none.
    start: Int64  # First byte of its text; 0: it is no text.
    end: Int64  # End of its text.
    reference: Int64  # Id of the metadata whose name is its text, or ``NO_ROW``.


_STAT_COLUMNS: Final = ("name", "number", "start", "end", "reference")


@dataclass(eq=False)
class Plane:
    """One plane."""

    name: str
    line_ids: Int64 = field(default_factory=empty_i64)
    line_names: tuple[str, ...] = ()
    line: Int64 = field(default_factory=empty_i64)  # Row of the line of each event.
    event_name: Int64 = field(default_factory=empty_i64)  # Id of its metadata.
    start_ns: Int64 = field(default_factory=empty_i64)  # Since 1970. Unit: ns.
    end_ns: Int64 = field(default_factory=empty_i64)  # Unit: ns.
    num_untimed: int = 0  # Events that only count occurrences.
    names: dict[int, str] = field(default_factory=dict)  # Name of each id of events' metadata.
    stat_names: dict[int, str] = field(default_factory=dict)
    stats: Stats | None = None  # Of the events.
    own: dict[str, int | str] = field(default_factory=dict)  # Statistics of the plane.
    data: Bytes = field(default_factory=lambda: np.empty(0, dtype=np.uint8))

    def __len__(self) -> int:
        return len(self.start_ns)

    def selected(self, rows: Int64) -> Plane:
        """The plane with some of its events."""
        new_row = np.full(len(self), NO_ROW, dtype=np.int64)
        new_row[rows] = np.arange(len(rows))
        stats = self.stats
        if stats is not None:
            owner = new_row[stats.owner]
            kept = np.flatnonzero(owner >= 0)
            stats = Stats(owner[kept], *(getattr(stats, name)[kept] for name in _STAT_COLUMNS))
        columns = ("line", "event_name", "start_ns", "end_ns")
        return replace(
            self,
            stats=stats,
            num_untimed=0,
            **{name: getattr(self, name)[rows] for name in columns},
        )

    def numbers(self, name: str, missing: int = -1) -> Int64:
        """A whole number of each event."""
        result = np.full(len(self), missing, dtype=np.int64)
        rows = self._rows(name)
        if self.stats is not None and len(rows):
            result[self.stats.owner[rows]] = self.stats.number[rows]
        return result

    def texts(self, name: str) -> tuple[Int64, tuple[str, ...]]:
        """Code of a text of each event (or ``NO_ROW``), and the distinct texts."""
        result = np.full(len(self), NO_ROW, dtype=np.int64)
        rows = self._rows(name)
        codes: Codes[str] = Codes()
        if self.stats is None or not len(rows):
            return result, ()
        owner, start, end, reference = (
            column[rows]
            for column in (
                *(self.stats.owner, self.stats.start),
                self.stats.end,
                self.stats.reference,
            )
        )
        for key in np.unique(reference[reference >= 0]).tolist():
            result[owner[reference == key]] = codes.code(self.stat_names.get(key, ""))
        # Texts of one length are rows of a matrix, of which the distinct ones are decoded.
        length = np.where(reference >= 0, -1, end - start)
        for width in np.unique(length[length > 0]).tolist():
            mine = np.flatnonzero(length == width)
            cells = self.data[start[mine][:, None] + np.arange(width)]
            _, first, inverse = np.unique(
                np.ascontiguousarray(cells).view(f"V{width}").ravel(),
                return_index=True,
                return_inverse=True,
            )
            texts = [_text(cells[row], 0, width) for row in first.tolist()]
            result[owner[mine]] = codes.codes(texts)[inverse.ravel()]
        return result, codes.values()

    def _rows(self, name: str) -> Int64:
        ids = [key for key, text in self.stat_names.items() if text == name]
        if self.stats is None or not ids:
            return np.empty(0, dtype=np.int64)
        return np.flatnonzero(np.isin(self.stats.name, ids))


def read_planes(data: Bytes) -> list[Plane]:
    """Read all planes of a file.

    Raises:
        WireError: The bytes are no XSpace, or end inside it.
    """
    space = read_fields(data, np.zeros(1, dtype=np.int64), np.array([len(data)]))
    planes = space.of(_PLANES, MESSAGE)
    return [
        _plane(data, *bounds)
        for bounds in zip(planes.start.tolist(), planes.end.tolist(), strict=True)
    ]


def _plane(data: Bytes, start: int, end: int) -> Plane:
    fields = read_fields(data, np.array([start]), np.array([end]))
    lines = fields.of(_LINES, MESSAGE)
    of_lines = read_fields(data, lines.start, lines.end)
    count = len(lines.row)
    titles = _texts(data, of_lines, _LINE_NAME, count)
    shown = _texts(data, of_lines, _LINE_TITLE, count)
    events = of_lines.of(_EVENTS, MESSAGE)
    of_events = read_fields(data, events.start, events.end)
    number = len(events.row)
    offset_ps = of_events.values(_OFFSET_PS, number)
    at_ns = of_lines.values(_LINE_TIME_NS, count)[events.row] + offset_ps // _PS_PER_NS
    # The parts of a nanosecond of start and duration together.
    duration_ps = of_events.values(_DURATION_PS, number) + offset_ps % _PS_PER_NS
    timed = np.ones(number, dtype=bool)
    timed[of_events.of(_OCCURRENCES, VARINT).row] = False
    kept = np.flatnonzero(timed)
    new_row = np.full(number, NO_ROW, dtype=np.int64)
    new_row[kept] = np.arange(len(kept))
    stat_names = _metadata(data, fields, _STAT_METADATA)
    own = fields.of(_PLANE_STATS, MESSAGE)
    plane = Plane(
        name=_texts(data, fields, _PLANE_NAME, 1)[0],
        line_ids=of_lines.values(_LINE_ID, count),
        line_names=tuple(b or a for a, b in zip(titles, shown, strict=True)),
        line=events.row[kept],
        event_name=of_events.values(_EVENT_NAME, number)[kept],
        start_ns=at_ns[kept],
        end_ns=(at_ns + duration_ps // _PS_PER_NS)[kept],
        num_untimed=number - len(kept),
        names=_metadata(data, fields, _EVENT_METADATA),
        stat_names=stat_names,
        stats=_stats(data, of_events.of(_EVENT_STATS, MESSAGE), new_row),
        data=data,
    )
    own_stats = _stats(data, own, np.zeros(1, dtype=np.int64))
    for name, value, first, last in zip(
        own_stats.name.tolist(),
        own_stats.number.tolist(),
        own_stats.start.tolist(),
        own_stats.end.tolist(),
        strict=True,
    ):
        text = _text(data, first, last)
        plane.own[stat_names.get(name, "")] = text or value
    return plane


def _stats(data: Bytes, messages: Fields, new_row: Int64) -> Stats:
    fields = read_fields(data, messages.start, messages.end)
    count = len(messages.row)
    number = fields.values(_UNSIGNED, count) + fields.values(_SIGNED, count)
    real = fields.of(_DOUBLE, FIXED64)
    whole = real.value.view(np.float64)
    is_whole = np.isfinite(whole) & (np.abs(whole) < 2.0**62)
    number[real.row[is_whole]] = whole[is_whole].astype(np.int64)
    start, end = np.zeros((2, count), dtype=np.int64)
    for kind in (_TEXT, _BYTES):
        texts = fields.of(kind, MESSAGE)
        start[texts.row], end[texts.row] = texts.start, texts.end
    owner = new_row[messages.row] if len(new_row) else messages.row
    kept = np.flatnonzero(owner >= 0)
    columns = (owner, fields.values(_STAT_NAME, count), number, start, end)
    reference = fields.values(_REFERENCE, count, -1)
    return Stats(*(column[kept] for column in (*columns, reference)))


def _metadata(data: Bytes, fields: Fields, number: int) -> dict[int, str]:
    """Names by id: a map of messages."""
    entries = fields.of(number, MESSAGE)
    of_entries = read_fields(data, entries.start, entries.end)
    keys = of_entries.values(_KEY, len(entries.row))
    values = of_entries.of(_VALUE, MESSAGE)
    of_values = read_fields(data, values.start, values.end)
    names = _texts(data, of_values, _METADATA_NAME, len(values.row))
    return dict(zip(keys[values.row].tolist(), names, strict=True))


def _texts(data: Bytes, fields: Fields, number: int, count: int) -> list[str]:
    result = [""] * count
    mine = fields.of(number, MESSAGE)
    for row, start, end in zip(
        mine.row.tolist(), mine.start.tolist(), mine.end.tolist(), strict=True
    ):
        result[row] = _text(data, start, end)
    return result


def _text(data: Bytes, start: int, end: int) -> str:
    return data[start:end].tobytes().decode("utf-8", "replace")
