"""NVTX events of an Nsight Systems export: ranges, marks, domain names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from aggregator.columns import drained, narrow, run_heads
from aggregator.profile import DEFAULT_DOMAIN, Integers, Marks, Ranges
from aggregator.sources import nsys_schema as names
from aggregator.sources.nvtx_text import take_apart
from aggregator.sources.sqlite_files import integers

if TYPE_CHECKING:
    import pyarrow as pa

    from aggregator.profile import Int32, Int64
    from aggregator.progress import Progress
    from aggregator.sources.nsys_schema import Schema
    from aggregator.sqlite_arrow import ArrowConnection

MAX_NAME_CHARS = 1000
"""A range's name is part of the name of every op in it."""


class TextCodes:
    """Distinct texts, numbered in the order in which they were met."""

    def __init__(self) -> None:
        self._code_of: dict[bytes, int] = {}

    def codes(self, texts: pa.DictionaryArray) -> Int32:
        """Code of each row of a batch."""
        code_of = self._code_of
        found = [code_of.setdefault(text, len(code_of)) for text in texts.dictionary.to_pylist()]
        rows = texts.indices.to_numpy(zero_copy_only=False)
        codes: Int32 = np.array(found, dtype=np.int32)[rows]
        return codes

    def moved_to(self, target: TextCodes) -> Int32:
        """Code in another numbering of each text of this one."""
        code_of = target._code_of
        found = [code_of.setdefault(text, len(code_of)) for text in self._code_of]
        return np.array(found, dtype=np.int32)

    def values(self) -> tuple[str, ...]:
        """The texts; bytes that are no UTF-8 become the replacement character."""
        return tuple(text.decode("utf-8", "replace") for text in self._code_of)


class Lanes:
    """Distinct (global thread id, domain number) pairs, numbered as they were met."""

    def __init__(self) -> None:
        self._code_of: dict[tuple[int, int], int] = {}

    def codes(self, tid: Int64, domain_id: Int64) -> Integers:
        """Lane of each row; threads write many rows on end."""
        heads = np.union1d(run_heads(tid), run_heads(domain_id))
        pairs = zip(tid[heads].tolist(), domain_id[heads].tolist(), strict=True)
        code_of = self._code_of
        found = [code_of.setdefault(pair, len(code_of)) for pair in pairs]
        lengths = np.diff(np.append(heads, len(tid)))
        return np.repeat(np.array(found, dtype=_lane_type(len(code_of))), lengths)

    def moved_to(self, target: Lanes) -> Integers:
        """Code in another numbering of each lane of this one."""
        code_of = target._code_of
        found = [code_of.setdefault(pair, len(code_of)) for pair in self._code_of]
        return np.array(found, dtype=_lane_type(len(code_of)))

    def tids(self) -> Int64:
        """Global thread id of each lane."""
        return np.array([tid for tid, _ in self._code_of], dtype=np.int64)

    def domain_ids(self) -> Int64:
        """Domain number of each lane."""
        return np.array([domain for _, domain in self._code_of], dtype=np.int64)


def _lane_type(count: int) -> type[np.int16 | np.int32]:
    return np.int16 if count <= np.iinfo(np.int16).max else np.int32


_COLUMNS = ("start", "end", "lane", "kind", "seq", "label", "sizes")


@dataclass
class NvtxPart:
    """One slice of the NVTX table: columns in parts; push/pop ranges apart from the rest."""

    lanes: Lanes = field(default_factory=Lanes)
    labels: TextCodes = field(default_factory=TextCodes)
    sizes: TextCodes = field(default_factory=TextCodes)
    ranges: dict[str, list[Integers]] = field(default_factory=lambda: {n: [] for n in _COLUMNS})
    others: dict[str, list[Integers]] = field(default_factory=lambda: {n: [] for n in _COLUMNS})

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in a batch of rows."""
        start, end, tid, kind, domain_id = (integers(batch.column(i)) for i in range(5))
        texts = take_apart(batch.column(5))
        columns = {
            "start": start,
            "end": end,
            "lane": self.lanes.codes(tid, domain_id),
            "kind": kind,
            "seq": narrow(texts.seq),
            "label": self.labels.codes(texts.name),
            "sizes": self.sizes.codes(texts.sizes),
        }
        is_range = kind == names.EVENT_RANGE
        whole = bool(is_range.all())
        for name, values in columns.items():
            if name != "kind":
                self.ranges[name].append(values if whole else values[is_range])
            if not whole:
                self.others[name].append(values[~is_range])


@dataclass
class NvtxRows:
    """Columns of some NVTX events, in the order of the table.

    Attributes:
        start: Unit: ns.
        end: -1: never closed, or a point in time. Unit: ns.
        lane: Row of the lanes of ``NvtxEvents``.
        kind: Event type; empty where all are push/pop ranges.
        seq: Sequence number; -1: none.
        label: Code into the labels.
        sizes: Code into the texts of sizes.
    """

    start: Int64
    end: Int64
    lane: Integers
    kind: Integers
    seq: Integers
    label: Int32
    sizes: Int32

    def shift(self, offset_ns: int) -> None:
        """Subtract an offset from all times; what has none keeps none. Unit: ns."""
        self.start = np.maximum(self.start - offset_ns, 0)
        self.end = np.where(self.end >= 0, np.maximum(self.end - offset_ns, 0), -1)

    def last_time_ns(self) -> int:
        """Last start or end of any event. Unit: ns."""
        return int(max(self.start.max(), self.end.max())) if len(self.start) else 0


@dataclass
class NvtxEvents:
    """All NVTX events of an export.

    Attributes:
        ranges: Push/pop ranges.
        others: Everything else.
        tids: Global thread id of each lane.
        domain_ids: Domain number of each lane, as recorded.
        labels: Names.
        size_texts: Input sizes as written; empty: none.
    """

    ranges: NvtxRows
    others: NvtxRows
    tids: Int64
    domain_ids: Int64
    labels: tuple[str, ...]
    size_texts: tuple[str, ...]

    def last_time_ns(self) -> int:
        """Last start or end of any event. Unit: ns."""
        return max(self.ranges.last_time_ns(), self.others.last_time_ns())


def _query(schema: Schema, low: int, high: int) -> str:
    text = schema.column(names.NVTX, "text", "''")
    if schema.has(names.STRINGS) and "textId" in schema.columns(names.NVTX):
        registered = f'(SELECT value FROM {schema.table(names.STRINGS)} WHERE id = "textId")'
        text = f"coalesce(\"text\", {registered}, '')"
    return f"""
        SELECT CAST(coalesce("start", 0) AS INTEGER),
               CAST({schema.column(names.NVTX, "end", "-1")} AS INTEGER),
               CAST("globalTid" AS INTEGER), CAST(coalesce("eventType", -1) AS INTEGER),
               CAST({schema.column(names.NVTX, "domainId", "0")} AS INTEGER), CAST({text} AS TEXT)
        FROM {schema.table(names.NVTX)}
        WHERE rowid > {low} AND rowid <= {high} AND "globalTid" IS NOT NULL ORDER BY rowid
    """


def read_nvtx(
    connection: ArrowConnection, schema: Schema, low: int, high: int, progress: Progress
) -> NvtxPart:
    """Read the NVTX rows with ``low < rowid <= high``."""
    part = NvtxPart()
    for batch in connection.batches(_query(schema, low, high)):
        part.add(batch)
        progress.advance(batch.num_rows)
    return part


def merge_nvtx(parts: list[NvtxPart]) -> NvtxEvents:
    """Join the slices into one set of columns with one code per distinct text."""
    lanes, labels, sizes = Lanes(), TextCodes(), TextCodes()
    for part in parts:
        moves = {
            "lane": part.lanes.moved_to(lanes),
            "label": part.labels.moved_to(labels),
            "sizes": part.sizes.moved_to(sizes),
        }
        for name, codes in moves.items():
            if not np.array_equal(codes, np.arange(len(codes))):
                for columns in (part.ranges[name], part.others[name]):
                    columns[:] = [codes[values] for values in columns]
    return NvtxEvents(
        ranges=_joined([part.ranges for part in parts]),
        others=_joined([part.others for part in parts]),
        tids=lanes.tids(),
        domain_ids=lanes.domain_ids(),
        labels=tuple(_cut(text) for text in labels.values()),
        size_texts=sizes.values(),
    )


def _joined(parts: list[dict[str, list[Integers]]]) -> NvtxRows:
    columns: dict[str, Any] = {}
    for name in _COLUMNS:
        columns[name] = drained([values for part in parts for values in part[name]])
        for part in parts:
            part[name].clear()
    return NvtxRows(**columns)


def _cut(text: str) -> str:
    """A name that people can read; a marker that describes its op stays whole."""
    if len(text) <= MAX_NAME_CHARS or text.startswith("{"):
        return text
    return f"{text[:MAX_NAME_CHARS]}..."


def domain_codes(events: NvtxEvents, pid_shift: int) -> tuple[Int32, tuple[str, ...]]:
    """Code of each lane's domain, and the domains' names; code 0 is the default domain.

    A domain's number is its own per process; domains of one name are one domain.
    """
    process, domain_ids = events.tids >> pid_shift, events.domain_ids
    others = events.others
    created = np.flatnonzero(others.kind == names.EVENT_DOMAIN)
    lane_of = others.lane[created]
    named = {
        (int(process[lane]), int(domain_ids[lane])): events.labels[others.label[row]]
        for row, lane in zip(created.tolist(), lane_of.tolist(), strict=True)
    }
    domain_names = [DEFAULT_DOMAIN]
    codes = np.zeros(len(process), dtype=np.int32)
    keys = np.stack([process, domain_ids], axis=1)[domain_ids != 0]
    for pid, domain_id in np.unique(keys, axis=0).tolist() if len(keys) else []:
        name = named.get((pid, domain_id), f"domain {domain_id}")
        if name not in domain_names:
            domain_names.append(name)
        codes[(process == pid) & (domain_ids == domain_id)] = domain_names.index(name)
    return codes, tuple(domain_names)


@dataclass(frozen=True)
class LaneRows:
    """What a lane means: rows of the profile's threads and domains."""

    thread: Int32
    domain: Int32


def range_columns(events: NvtxEvents, lanes: LaneRows, end_ns: int) -> Ranges:
    """Push/pop ranges; those never closed end with the capture."""
    return _ranges(events.ranges, events, lanes, end_ns)


def start_end_columns(events: NvtxEvents, lanes: LaneRows, end_ns: int) -> Ranges:
    """Ranges of ``nvtxRangeStart/End``; those never closed end with the capture."""
    rows = events.others.kind == names.EVENT_START_END_RANGE
    chosen = {name: getattr(events.others, name)[rows] for name in _COLUMNS}
    return _ranges(NvtxRows(**chosen), events, lanes, end_ns)


def _ranges(rows: NvtxRows, events: NvtxEvents, lanes: LaneRows, end_ns: int) -> Ranges:
    # In place: these are the longest columns of all.
    end = rows.end
    is_open = end < 0
    np.maximum(end, rows.start, out=end)
    if is_open.any():
        end[is_open] = end_ns
    sizes = rows.sizes
    if "" in events.size_texts:
        sizes[sizes == events.size_texts.index("")] = -1
    return Ranges(
        start_ns=rows.start,
        end_ns=end,
        thread=lanes.thread[rows.lane],
        domain=lanes.domain[rows.lane],
        name=rows.label,
        seq=rows.seq,
        shapes=sizes,
    )


def mark_columns(events: NvtxEvents, lanes: LaneRows) -> Marks:
    """NVTX marks."""
    others = events.others
    rows = np.flatnonzero(others.kind == names.EVENT_MARK)
    lane = others.lane[rows]
    return Marks(others.start[rows], lanes.thread[lane], lanes.domain[lane], others.label[rows])


def count_open(events: NvtxEvents) -> int:
    """Ranges that were never closed."""
    others = events.others
    apart = (others.kind == names.EVENT_START_END_RANGE) & (others.end < 0)
    return int(np.count_nonzero(events.ranges.end < 0)) + int(np.count_nonzero(apart))
