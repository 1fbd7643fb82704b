"""NVTX events of an Nsight Systems export: ranges, marks, domain names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from aggregator.profile import DEFAULT_DOMAIN, Marks, Ranges
from aggregator.sources import nsys_schema as names
from aggregator.sources.nvtx_text import take_apart
from aggregator.sources.sqlite_files import decoded, iter_batches

if TYPE_CHECKING:
    import adbc_driver_sqlite.dbapi as adbc

    from aggregator.profile import Int32, Int64
    from aggregator.progress import Progress
    from aggregator.sources.nsys_schema import Schema

MAX_NAME_CHARS = 1000
"""A range's name is part of the name of every op in it."""


@dataclass
class NvtxPart:
    """Raw columns of one slice of the NVTX table; ``end`` is -1 for a range never closed."""

    start: list[Int64] = field(default_factory=list)
    end: list[Int64] = field(default_factory=list)
    tid: list[Int64] = field(default_factory=list)
    kind: list[Int64] = field(default_factory=list)
    domain: list[Int64] = field(default_factory=list)
    seq: list[Int64] = field(default_factory=list)
    label: list[pa.DictionaryArray] = field(default_factory=list)
    sizes: list[pa.DictionaryArray] = field(default_factory=list)


@dataclass
class NvtxEvents:
    """All NVTX events of an export, in the order of the table."""

    start: Int64
    end: Int64
    tid: Int64
    kind: Int64
    domain_id: Int64
    seq: Int64
    label: Int32
    sizes: Int32
    labels: tuple[str, ...]
    size_texts: tuple[str, ...]

    def last_time_ns(self) -> int:
        """Last start or end of any event. Unit: ns."""
        return int(max(self.start.max(), self.end.max())) if len(self.start) else 0

    def shift(self, offset_ns: int) -> None:
        """Subtract an offset from all times; what has none keeps none. Unit: ns."""
        self.start = np.maximum(self.start - offset_ns, 0)
        self.end = np.where(self.end >= 0, np.maximum(self.end - offset_ns, 0), -1)


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
    connection: adbc.Connection, schema: Schema, low: int, high: int, progress: Progress
) -> NvtxPart:
    """Read the NVTX rows with ``low < rowid <= high``."""
    part = NvtxPart()
    for batch in iter_batches(connection, _query(schema, low, high)):
        for column, target in enumerate((part.start, part.end, part.tid, part.kind, part.domain)):
            values = batch.column(column).to_numpy(zero_copy_only=False)
            target.append(values.astype(np.int64, copy=False))
        texts = take_apart(batch.column(5))
        part.label.append(texts.name)
        part.seq.append(texts.seq)
        part.sizes.append(texts.sizes)
        progress.advance(batch.num_rows)
    return part


def merge_nvtx(parts: list[NvtxPart]) -> NvtxEvents:
    """Join the slices into one set of columns with one code per distinct text."""

    def joined(name: str) -> Int64:
        arrays = [array for part in parts for array in getattr(part, name)]
        return np.concatenate(arrays) if arrays else np.empty(0, np.int64)

    label, labels = _merge_codes([array for part in parts for array in part.label])
    labels = tuple(_cut(text) for text in labels)
    sizes, size_texts = _merge_codes([array for part in parts for array in part.sizes])
    return NvtxEvents(
        start=joined("start"),
        end=joined("end"),
        tid=joined("tid"),
        kind=joined("kind"),
        domain_id=joined("domain"),
        seq=joined("seq"),
        label=label,
        sizes=sizes,
        labels=labels,
        size_texts=size_texts,
    )


def _merge_codes(arrays: list[pa.DictionaryArray]) -> tuple[Int32, tuple[str, ...]]:
    if not arrays:
        return np.empty(0, np.int32), ()
    merged = pa.chunked_array(arrays).unify_dictionaries().combine_chunks()
    if isinstance(merged, pa.ChunkedArray):
        merged = merged.chunk(0)
    codes = merged.indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    return codes, tuple(decoded(merged.dictionary))


def _cut(text: str) -> str:
    """A name that people can read; a marker that describes its op stays whole."""
    if len(text) <= MAX_NAME_CHARS or text.startswith("{"):
        return text
    return f"{text[:MAX_NAME_CHARS]}..."


def domain_codes(events: NvtxEvents, pid_shift: int) -> tuple[Int32, tuple[str, ...]]:
    """Code of each event's domain, and the domains' names; code 0 is the default domain.

    A domain's number is its own per process; domains of one name are one domain.
    """
    process = events.tid >> pid_shift
    created = np.flatnonzero(events.kind == names.EVENT_DOMAIN)
    named = {
        (int(process[row]), int(events.domain_id[row])): events.labels[events.label[row]]
        for row in created
    }
    domain_names = [DEFAULT_DOMAIN]
    codes = np.zeros(len(events.start), dtype=np.int32)
    keys = np.stack([process, events.domain_id], axis=1)[events.domain_id != 0]
    for pid, domain_id in np.unique(keys, axis=0).tolist() if len(keys) else []:
        name = named.get((pid, domain_id), f"domain {domain_id}")
        if name not in domain_names:
            domain_names.append(name)
        codes[(process == pid) & (events.domain_id == domain_id)] = domain_names.index(name)
    return codes, tuple(domain_names)


def range_columns(
    events: NvtxEvents, kind: int, thread: Int32, domain: Int32, end_ns: int
) -> Ranges:
    """Ranges of one event type; those never closed end with the capture."""
    rows = np.flatnonzero(events.kind == kind)
    end = events.end[rows]
    start = events.start[rows]
    has_sizes = np.array([bool(text) for text in events.size_texts], dtype=bool)
    sizes = events.sizes[rows]
    return Ranges(
        start_ns=start,
        end_ns=np.where(end < 0, end_ns, np.maximum(end, start)),
        thread=thread[rows],
        domain=domain[rows],
        name=events.label[rows],
        seq=events.seq[rows],
        shapes=np.where(has_sizes[sizes], sizes, -1).astype(np.int32) if len(rows) else sizes,
    )


def mark_columns(events: NvtxEvents, thread: Int32, domain: Int32) -> Marks:
    """NVTX marks."""
    rows = np.flatnonzero(events.kind == names.EVENT_MARK)
    return Marks(events.start[rows], thread[rows], domain[rows], events.label[rows])


def count_open(events: NvtxEvents) -> int:
    """Ranges that were never closed."""
    is_range = (events.kind == names.EVENT_RANGE) | (events.kind == names.EVENT_START_END_RANGE)
    return int(np.count_nonzero(is_range & (events.end < 0)))
