"""NVTX events of an Nsight Systems export: ranges, marks, names, categories and payloads."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggregator.profile.arrays import (
    Codes,
    Integers,
    concatenate_and_clear,
    dense_codes,
    first_rows,
    narrow,
    narrowest,
    run_heads,
    total_order,
)
from aggregator.profile.profile import DEFAULT_DOMAIN, Annotation, Marks, Ranges
from aggregator.sources.arrow_columns import arrow_connection, integers
from aggregator.sources.nsys import schema as names
from aggregator.sources.nsys.nvtx_text import split_texts
from aggregator.system.arrow_arrays import from_numpy, to_numpy

if TYPE_CHECKING:
    from aggregator.profile.arrays import Bool, Int32, Int64
    from aggregator.sources.nsys.schema import Schema
    from aggregator.sources.repair import RawTable
    from aggregator.system.progress import Progress

MAX_NAME_CHARS = 1000
"""Longer names are cut: a range's name becomes part of the name of every op in it."""
EVENT_CATEGORY = 33
#: Comparing with a number of Python loads pandas.
_ZERO = from_numpy(np.array([0]))[0]
_PAYLOADS = (
    "uint64Value",
    "int64Value",
    "doubleValue",
    "uint32Value",
    "int32Value",
    "floatValue",
    "jsonText",
)


class Lanes:
    """Distinct (global thread id, domain number) pairs, numbered in order of first use."""

    def __init__(self) -> None:
        self.pairs: Codes[tuple[int, int]] = Codes()

    def codes(self, tid: Int64, domain_id: Int64) -> Integers:
        """Return the lane of each row; consecutive rows mostly have the same lane."""
        heads = np.union1d(run_heads(tid), run_heads(domain_id))
        found = self.pairs.codes(zip(tid[heads].tolist(), domain_id[heads].tolist(), strict=True))
        lengths = np.diff(np.append(heads, len(tid)))
        return np.repeat(found.astype(_lane_type(len(self.pairs))), lengths)

    def merge_into(self, target: Lanes) -> Integers:
        """Add the lanes to another numbering; returns the code there of each lane of this one."""
        codes = self.pairs.merge_into(target.pairs)
        return codes.astype(_lane_type(len(target.pairs)))

    def columns(self) -> tuple[Int64, Int64]:
        """Return the global thread id and domain number of each lane."""
        pairs = np.array(self.pairs.values(), dtype=np.int64).reshape(-1, 2)
        return pairs[:, 0].copy(), pairs[:, 1].copy()


def _lane_type(count: int) -> type[np.int16 | np.int32]:
    return np.int16 if count <= np.iinfo(np.int16).max else np.int32


@dataclass
class NvtxSlice:
    """Some rows of the NVTX table, columns batch by batch."""

    lanes: Lanes = field(default_factory=Lanes)
    columns: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    unplaced: int = 0  # Rows without a thread or without the number of a kind.

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a batch of rows."""
        has_place = pc.and_(batch.column(2).is_valid(), pc.greater(batch.column(3), _ZERO))
        if lost := batch.num_rows - (pc.sum(has_place).as_py() or 0):
            self.unplaced += lost
            batch = batch.filter(has_place)
        start, end, tid, kind, domain_id = (integers(batch.column(i)) for i in range(5))
        texts = split_texts(batch.column(5))
        columns = {
            "start": start,
            "end": end,
            "lane": self.lanes.codes(tid, domain_id),
            "kind": narrowest(kind),
            "seq": narrow(texts.seq),
            "label": texts.name,
            "sizes": texts.sizes,
        }
        for name, values in columns.items():
            self.columns[name].append(values)


@dataclass
class NvtxEvents:
    """All NVTX events of an export, in an order that depends on nothing but what they hold.

    Columns: start, end (-1: never closed, or a point in time; unit: ns), lane, kind (event type),
    seq (sequence number; -1: none), label and sizes (codes of the texts).
    """

    ranges: RawTable  # Push/pop ranges.
    others: RawTable  # All other events.
    tids: Int64  # Global thread id of each lane.
    domain_ids: Int64  # Domain number of each lane, as recorded.
    labels: tuple[str, ...]  # Names, in order of first use.
    size_texts: tuple[str, ...]  # Input sizes as written; empty: none.
    unplaced: int  # Rows without a thread or without the number of a kind, which are left out.


def _query(schema: Schema, rows: str) -> str:
    return f"""
        SELECT CAST(coalesce("start", 0) AS INTEGER),
               CAST({schema.column(names.NVTX, "end", "-1")} AS INTEGER),
               CAST("globalTid" AS INTEGER), CAST("eventType" AS INTEGER),
               CAST({schema.column(names.NVTX, "domainId", "0")} AS INTEGER),
               CAST({schema.text()} AS TEXT)
        FROM {schema.table(names.NVTX)} WHERE {rows}
    """


def read_nvtx(schema: Schema, rows: str, progress: Progress) -> NvtxSlice:
    """Read rows of the NVTX table; ``rows`` is an SQL condition."""
    found = NvtxSlice()
    if schema.has(names.NVTX):
        with arrow_connection(schema.path) as connection:
            for batch in connection.batches(_query(schema, rows)):
                found.add(batch)
                progress.advance(batch.num_rows)
    return found


def merge_nvtx(slices: list[NvtxSlice]) -> NvtxEvents:
    """Join the slices into one set of columns with one code per distinct text."""
    lanes = Lanes()
    for part in slices:
        code = part.lanes.merge_into(lanes)
        part.columns["lane"] = [code[values] for values in part.columns["lane"]]
    table: RawTable = {}
    texts: dict[str, list[bytes]] = {}
    for name in _COLUMNS:
        parts = [values for part in slices for values in part.columns.pop(name, ())]
        if name in ("label", "sizes"):
            parts, texts[name] = _unified(parts)
        table[name] = concatenate_and_clear(parts)
    tids, domain_ids = lanes.columns()
    _sort(table, lanes, texts)
    is_range = table["kind"] == names.EVENT_RANGE
    everything = bool(is_range.all())
    return NvtxEvents(
        ranges=table if everything else {name: table[name][is_range] for name in _COLUMNS},
        others={name: table[name][~is_range] for name in _COLUMNS},
        tids=tids,
        domain_ids=domain_ids,
        labels=tuple(_cut(text.decode("utf-8", "replace")) for text in texts["label"]),
        size_texts=tuple(text.decode("utf-8", "replace") for text in texts["sizes"]),
        unplaced=sum(part.unplaced for part in slices),
    )


_COLUMNS = ("start", "end", "lane", "kind", "seq", "label", "sizes")


def _unified(parts: list[pa.DictionaryArray]) -> tuple[list[Integers], list[bytes]]:
    """Return the codes of each part into one list of texts."""
    if not parts:
        return [], []
    chunks = pa.chunked_array(parts).unify_dictionaries().chunks
    return [to_numpy(chunk.indices) for chunk in chunks], chunks[0].dictionary.to_pylist()


def _sort(table: RawTable, lanes: Lanes, texts: dict[str, list[bytes]]) -> None:
    """Sort the rows, a range before those inside it, and number the texts by first use."""
    start, end = table["start"], table["end"]
    if (start[1:] > start[:-1]).all():
        return
    last_first = np.where(end < 0, np.iinfo(np.int64).min, -end)
    keys = [start, last_first, *(column[table["lane"]] for column in lanes.columns())]
    keys += [table["kind"], table["seq"]]
    for name, values in texts.items():
        by_text = sorted(range(len(values)), key=values.__getitem__)
        keys.append(np.argsort(by_text)[table[name]])
    order = total_order(*keys)
    if order is not None:
        table.update({name: column[order] for name, column in table.items()})
    for name, values in texts.items():
        by_use = np.argsort(first_rows(table[name]))
        table[name] = np.argsort(by_use).astype(np.int32)[table[name]]
        values[:] = [values[code] for code in by_use.tolist()]


def _cut(text: str) -> str:
    """The name, cut to a readable length; a marker that describes its op in JSON is kept whole."""
    if len(text) <= MAX_NAME_CHARS or text.startswith("{"):
        return text
    return f"{text[:MAX_NAME_CHARS]}..."


def domain_codes(events: NvtxEvents, pid_shift: int) -> tuple[Int32, tuple[str, ...]]:
    """Return the code of each lane's domain, and the domains' names; code 0 is the default domain.

    Domain numbers are per process; domains of the same name are one domain.
    """
    process, domain_ids = events.tids >> pid_shift, events.domain_ids
    others = events.others
    created = np.flatnonzero(others["kind"] == names.EVENT_DOMAIN)
    lane_of = others["lane"][created]
    named = {
        (int(process[lane]), int(domain_ids[lane])): events.labels[others["label"][row]]
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
    """Row of the profile's thread and domain of each lane."""

    thread: Int32
    domain: Int32


def start_end_rows(events: NvtxEvents) -> RawTable:
    """Return the ranges of ``nvtxRangeStart/End``."""
    rows = events.others["kind"] == names.EVENT_START_END_RANGE
    return {name: column[rows] for name, column in events.others.items()}


def range_columns(rows: RawTable, events: NvtxEvents, lanes: LaneRows, end_ns: int) -> Ranges:
    """Return ranges of ``rows``, columns of ``events``; those still open end with the capture."""
    # In place: these are the longest columns of the profile.
    end = rows["end"]
    is_open = end < 0
    np.maximum(end, rows["start"], out=end)
    if is_open.any():
        end[is_open] = end_ns
    sizes = rows["sizes"]
    if "" in events.size_texts:
        sizes[sizes == events.size_texts.index("")] = -1
    return Ranges(
        start_ns=rows["start"],
        end_ns=end,
        thread=lanes.thread[rows["lane"]],
        domain=lanes.domain[rows["lane"]],
        name=rows["label"],
        seq=rows["seq"],
        shapes=sizes,
    )


def mark_columns(events: NvtxEvents, lanes: LaneRows) -> Marks:
    """Return the NVTX marks."""
    others = events.others
    rows = np.flatnonzero(others["kind"] == names.EVENT_MARK)
    lane = others["lane"][rows]
    start, label = others["start"][rows], others["label"][rows]
    return Marks(start, lanes.thread[lane], lanes.domain[lane], label)


def drop_open(events: NvtxEvents, capture_ns: int) -> tuple[int, int]:
    """Remove ranges that were never closed, but not the last repetition of a group of ranges.

    The exporter gives them no end, or that of the capture. All that follows would lie in them.

    Args:
        events: Their ranges are changed; those that stay open have the end -1.
        capture_ns: When the capture ended; 0: unknown. Unit: ns.

    Returns:
        The numbers of ranges that were removed and that stay.
    """
    removed = kept = 0
    for name in ("ranges", "others"):
        table: RawTable = getattr(events, name)
        open_rows = table["end"] < 0
        if capture_ns:
            open_rows |= table["end"] == capture_ns
        open_rows &= np.isin(table["kind"], (names.EVENT_RANGE, names.EVENT_START_END_RANGE))
        if not open_rows.any():
            continue
        stay = _last_repetitions(table, open_rows, events)
        table["end"][stay] = -1
        gone = open_rows & ~stay
        removed, kept = removed + int(gone.sum()), kept + int(stay.sum())
        setattr(events, name, {key: column[~gone] for key, column in table.items()})
    return removed, kept


def _last_repetitions(table: RawTable, open_rows: Bool, events: NvtxEvents) -> Bool:
    """Open ranges that contain others and whose name, without its number, repeats before only."""
    plain = [re.sub(r"\d+", "#", text) for text in events.labels]
    code_of = {text: code for code, text in enumerate(dict.fromkeys(plain))}
    name = np.array([code_of[text] for text in plain], dtype=np.int64)[table["label"]]
    is_group = np.array([not text.startswith("{") for text in events.labels])[table["label"]]
    is_group &= (table["seq"] < 0) & np.array([not sizes for sizes in events.size_texts])[
        table["sizes"]
    ]
    key = dense_codes(table["lane"].astype(np.int64) * len(code_of) + name)[1]
    first_closed = np.full(len(key), np.iinfo(np.int64).max)
    np.minimum.at(first_closed, key[~open_rows], table["start"][~open_rows])
    last, last_in_lane = np.zeros((2, len(key)), dtype=np.int64)
    np.maximum.at(last, key, table["start"])
    np.maximum.at(last_in_lane, table["lane"], table["start"])
    start = table["start"]
    repeats = (first_closed[key] < start) & (last[key] == start)
    result: Bool = open_rows & is_group & repeats & (last_in_lane[table["lane"]] > start)
    return result


def read_annotations(schema: Schema) -> tuple[Annotation, ...]:
    """Return the ranges and marks that have a category or a payload, in order of time."""
    columns = schema.columns(names.NVTX)
    payloads = [f'"{name}"' for name in _PAYLOADS if name in columns]
    if "category" not in columns or not payloads:
        return ()
    payload = f"coalesce({', '.join(payloads)})" if len(payloads) > 1 else payloads[0]
    # One scan finds them and the names of categories and domains: most rows are none of these.
    query = (
        f'SELECT "start", "end", "globalTid", coalesce("domainId", 0), {schema.text()}, "category",'
        f' {payload}, "eventType" FROM {schema.table(names.NVTX)} WHERE "eventType" IN (?, ?)'
        f' OR "eventType" IN (?, ?, ?) AND ("category" IS NOT NULL OR {payload} IS NOT NULL)'
        ' AND "start" IS NOT NULL ORDER BY 1, 2, 3, 4, 5, 6, 7'
    )
    naming = (EVENT_CATEGORY, names.EVENT_DOMAIN)
    kinds = (names.EVENT_RANGE, names.EVENT_START_END_RANGE, names.EVENT_MARK)
    with schema.connect() as connection:
        rows = connection.execute(query, (*naming, *kinds)).fetchall()
    named = sorted((row for row in rows if row[7] in naming), key=lambda row: str(row[4]))
    categories = {(row[3], row[5]): str(row[4]) for row in named if row[7] == EVENT_CATEGORY}
    domains = {row[3]: str(row[4]) for row in named if row[7] == names.EVENT_DOMAIN and row[3]}
    return tuple(
        Annotation(
            start_ns=int(start),
            end_ns=int(end) if isinstance(end, int) else None,
            global_tid=int(tid) if isinstance(tid, int) else -1,
            domain=domains.get(domain, f"domain {domain}" if domain else DEFAULT_DOMAIN),
            name=str(name),
            category="" if category is None else categories.get((domain, category), str(category)),
            payload="" if value is None else str(value),
        )
        for start, end, tid, domain, name, category, value, kind in rows
        if kind in kinds
    )


def read_thread_names(schema: Schema) -> dict[int, str]:
    """Return the names of threads by global thread id."""
    if not {"nameId", "globalTid"} <= schema.columns(names.THREAD_NAMES):
        return {}
    query = (
        f'SELECT t."globalTid", s.value FROM {schema.table(names.THREAD_NAMES)} AS t'
        f' JOIN {schema.table(names.STRINGS)} AS s ON s.id = t."nameId"'
        # A damaged export may hold other values than numbers.
        ' WHERE t."globalTid" = CAST(t."globalTid" AS INTEGER) ORDER BY s.value'
    )
    with schema.connect() as connection:
        return {int(tid): str(name) for tid, name in connection.execute(query)}
