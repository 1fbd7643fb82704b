"""NVTX events of one process, joined to ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from aggregator.sources.collector import records as kinds
from aggregator.sources.nsys.nvtx import EVENT_CATEGORY
from aggregator.sources.nsys.schema import (
    EVENT_DOMAIN,
    EVENT_MARK,
    EVENT_RANGE,
    EVENT_START_END_RANGE,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from aggregator.profile.arrays import Bool, Int64
    from aggregator.sources.collector.records import Records

_EVENT_TYPES: Final = {
    kinds.PUSH: EVENT_RANGE,
    kinds.START: EVENT_START_END_RANGE,
    kinds.MARK: EVENT_MARK,
    kinds.DOMAIN: EVENT_DOMAIN,
    kinds.CATEGORY: EVENT_CATEGORY,
}
_PAYLOADS: Final = {
    1: ("uint64Value", "<u8"),
    2: ("int64Value", "<i8"),
    3: ("doubleValue", "<f8"),
    4: ("uint32Value", "<u4"),
    5: ("int32Value", "<i4"),
    6: ("floatValue", "<f4"),
}
"""Column and type of NVTX's payloads by their number; a smaller one begins its 8 bytes."""
_MAX_INT64: Final = (1 << 63) - 1


def nvtx_columns(records: Records) -> dict[str, Any]:
    """Columns of the ranges, marks and names; times by the recorder's clock, threads by number."""
    events = records.columns[kinds.NVTX]
    rows = np.flatnonzero(np.isin(events["kind"], list(_EVENT_TYPES)))
    chosen = events[rows]
    end, end_thread = _ends(records)
    kind = chosen["kind"]
    numbered = np.isin(kind, (kinds.DOMAIN, kinds.CATEGORY))
    event_type = np.zeros(len(rows), dtype=np.int64)
    for number, value in _EVENT_TYPES.items():
        event_type[kind == number] = value
    columns: dict[str, Any] = {
        "start": chosen["time"].astype(np.int64),
        "end": np.ma.masked_equal(end[rows], -1),
        "eventType": event_type,
        "rangeId": np.ma.array(chosen["id"].astype(np.int64), mask=kind != kinds.START),
        "text": _texts(records, rows),
        "thread": chosen["thread"].astype(np.int64),
        "end_thread": np.ma.masked_equal(end_thread[rows], -1),
        "domainId": chosen["domain"].astype(np.int64),
    }
    columns |= _attributes(events, rows)
    named = np.where(numbered & (kind == kinds.CATEGORY), chosen["id"].astype(np.int64), 0)
    category = columns["category"]
    is_name = kind == kinds.CATEGORY
    columns["category"] = np.ma.array(
        np.where(is_name, named, category.data), mask=np.ma.getmaskarray(category) & ~is_name
    )
    return columns


def thread_names(records: Records) -> dict[int, str]:
    """Return the names of threads: what NVTX calls them, else what the system does."""
    found = {int(line[0]): line[1] for line in records.lines(kinds.THREADS) if len(line) == 2}
    events = records.columns[kinds.NVTX]
    rows = np.flatnonzero(events["kind"] == kinds.THREAD)
    texts = _texts(records, rows).to_pylist() if len(rows) else []
    given = [text.decode("utf-8", "replace") for text in texts]
    found.update(zip(events["id"][rows].tolist(), given, strict=True))
    return found


def _ends(records: Records) -> tuple[Int64, Int64]:
    """Return when each range ended, and on which thread; -1: not, or no range.

    A range that is open when a window ends, and another one follows, ends with the window: its
    length is unknown, and all of the next window would lie in it.
    """
    events = records.columns[kinds.NVTX]
    starts = np.array([window.start_ns for window in records.windows], dtype=np.uint64)
    window = np.searchsorted(starts, events["time"], side="right")
    end = np.full(len(events), -1, dtype=np.int64)
    thread = end.copy()
    opened, closed = _nested_pairs(events, window)
    first, last = _started_pairs(events)
    opened, closed = np.append(opened, first), np.append(closed, last)
    end[opened] = events["time"][closed]
    thread[opened] = events["thread"][closed]
    cut = (end < 0) & np.isin(events["kind"], (kinds.PUSH, kinds.START))
    cut &= (window > 0) & (window < len(starts))
    ends = np.array([window.end_ns for window in records.windows], dtype=np.int64)
    end[cut] = np.maximum(ends[window[cut] - 1], events["time"][cut].astype(np.int64))
    thread[cut] = events["thread"][cut]
    return end, thread


def _nested_pairs(events: npt.NDArray[Any], window: Int64) -> tuple[Int64, Int64]:
    """Return the rows of pushes and of the pops that close them.

    The events of a thread are in order. Within a thread, domain and window, a pop closes the push
    before it at the same depth; a pop whose push was before the window stands first at its depth.
    """
    rows = np.flatnonzero(np.isin(events["kind"], (kinds.PUSH, kinds.POP)))
    lane = events["thread"][rows].astype(np.int64) << 32 | events["domain"][rows]
    order = np.lexsort((window[rows], lane))
    rows, lane = rows[order], lane[order]
    # Lanes of windows, by number: the depth is compared within each.
    lane = np.cumsum(_changes(lane) | _changes(window[rows]))
    is_push = events["kind"][rows] == kinds.PUSH
    depth = np.cumsum(np.where(is_push, 1, -1)) + ~is_push
    # The depth runs on over the lanes: they are compared first.
    by_depth = np.lexsort((depth, lane))
    rows, lane, depth = rows[by_depth], lane[by_depth], depth[by_depth]
    is_push = is_push[by_depth]
    pairs = is_push[:-1] & ~is_push[1:] & (lane[1:] == lane[:-1]) & (depth[1:] == depth[:-1])
    first = np.flatnonzero(pairs)
    return rows[first], rows[first + 1]


def _changes(values: Int64) -> Bool:
    return np.diff(values, prepend=values[:1]).astype(np.bool_)


def _started_pairs(events: npt.NDArray[Any]) -> tuple[Int64, Int64]:
    """Return the rows of started ranges and of their ends, which have the same number."""
    started = np.flatnonzero(events["kind"] == kinds.START)
    ended = np.flatnonzero(events["kind"] == kinds.STOP)
    _, of_start, of_end = np.intersect1d(
        events["id"][started], events["id"][ended], return_indices=True
    )
    return started[of_start], ended[of_end]


def _texts(records: Records, rows: Int64) -> pa.Array:
    """Return texts of some NVTX records; those that are no UTF-8 are read as far as possible."""
    lengths = records.columns[kinds.NVTX]["text_bytes"].astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(records.nvtx_text)]
    texts = pa.Array.from_buffers(pa.large_binary(), len(lengths), buffers)
    return texts.take(pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(rows)]))


def _attributes(events: npt.NDArray[Any], rows: Int64) -> dict[str, Any]:
    """Return the category and payload of events, which stand in the record before."""
    before = np.maximum(rows - 1, 0)
    has = (events["kind"][before] == kinds.ATTRIBUTES) & (rows > 0)
    value, payload = events["time"][before], np.ascontiguousarray(events["id"][before])
    category = (value & 0xFFFFFFFF).astype(np.int64)
    payload_type = (value >> np.uint64(32)).astype(np.int64)
    columns: dict[str, Any] = {"category": np.ma.array(category, mask=~has | (category == 0))}
    for number, (name, dtype) in _PAYLOADS.items():
        is_type = has & (payload_type == number)
        if is_type.any():
            wide = payload.view("u1").reshape(-1, 8)[:, : np.dtype(dtype).itemsize]
            values = np.ascontiguousarray(wide).view(dtype).ravel()
            if number == 1:
                # SQLite has no larger numbers.
                values = np.minimum(values, _MAX_INT64).astype(np.int64)
            columns[name] = np.ma.array(values, mask=~is_type)
    return columns
