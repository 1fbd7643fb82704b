"""The events of a profile by lane, and what a lane shows at some width."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from aggregator.errors import InvalidValueError
from aggregator.profile.arrays import Int64, dense_codes, row_codes, run_heads
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.counts import Remembered
from aggregator.tables.timeline.events import Calls, Columns, Events, Op, OpCalls, Work
from aggregator.tables.timeline.nesting import disjoint_sets, module_spans
from aggregator.texts import say

ITEMS_PER_PIXEL: Final = 2
MOST_PIXELS: Final = 8_192
MOST_LISTED: Final = 100  # Ops and events of a range.
_MOST_EVENTS: Final = 40_000_000
"""Events that are kept in memory, of all profiles together: 48 bytes each."""


@dataclass(frozen=True)
class Items(Columns):
    """What a lane shows: events, or runs of short events next to each other."""

    start_ns: Int64
    stop_ns: Int64
    count: Int64  # Events; 1: the item is an event.
    busy_ns: Int64  # Sum of their durations.
    name: Int64  # Index into the names: of the event, or of the name with most time.
    category: Int64  # ``Category`` of that; -1: none.
    op: Int64  # Index of its op's id into the names, of a run of its first event's; -1: none.
    row: Int64  # Row id in its table; of a run: of its first event.


_NOTHING: Final = Items(*(np.empty(0, dtype=np.int64) for _ in range(8)))


@dataclass(frozen=True)
class Lane:
    """A row of a timeline, with events that do not overlap where that can be had."""

    key: str  # Stable name of the lane in its aggregation.
    kind: str  # iterations, work, modules, ops or calls.
    group: str  # What it belongs to: a GPU, or a thread of a process.
    title: str
    items: Items  # All events in order of start.
    latest_ns: Int64  # Latest end of the events up to each one.


@dataclass(frozen=True)
class Timeline:
    """All lanes of an aggregation."""

    lanes: tuple[Lane, ...]
    names: tuple[str, ...]

    @property
    def num_events(self) -> int:
        """Events of all lanes."""
        return sum(len(lane.items) for lane in self.lanes)


_timelines: Remembered[Timeline] = Remembered(_MOST_EVENTS, lambda found: found.num_events + 1)
NOT_RECORDED = say("The database holds no single events: it was not written by this program.")


def read_lanes(data: AggregationData) -> dict[str, Any]:
    """The lanes of an aggregation, without their events.

    Raises:
        DatabaseError: The database is damaged.
    """
    if not data.database.is_ours:
        return {"start_ns": None, "stop_ns": None, "lanes": [], "unknown": {"lanes": NOT_RECORDED}}
    lanes = _timeline(data).lanes
    starts = [int(lane.items.start_ns[0]) for lane in lanes]
    return {
        "start_ns": min(starts, default=None),
        "stop_ns": max((int(lane.latest_ns[-1]) for lane in lanes), default=None),
        "lanes": [
            {
                "key": lane.key,
                "kind": lane.kind,
                "group": lane.group,
                "title": lane.title,
                "num_events": len(lane.items),
                "busy_ns": int(lane.items.busy_ns.sum()),
            }
            for lane in lanes
        ],
        "unknown": {},
    }


def read_items(
    data: AggregationData, keys: Sequence[str], low_ns: int, high_ns: int, pixels: int
) -> dict[str, Any]:
    """What lanes show of some time at some width.

    Args:
        data: The aggregation.
        keys: Lanes.
        low_ns: Start of the time shown.
        high_ns: Its end.
        pixels: Width; events that are shorter than a pixel are joined into runs.

    Raises:
        InvalidValueError: A lane is unknown, or the time is none.
        DatabaseError: The database is damaged.
    """
    if not 1 <= pixels <= MOST_PIXELS:
        raise InvalidValueError(say("pixels must be from 1 to {most}.", most=MOST_PIXELS))
    timeline, lanes = _chosen(data, keys, low_ns, high_ns)
    shown = {lane.key: shown_items(lane, low_ns, high_ns, pixels) for lane in lanes}
    coded = [column for items in shown.values() for column in (items.name, items.op)]
    used = np.unique(np.concatenate([*coded, [-1]]))[1:]
    return {
        "start_ns": low_ns,
        "stop_ns": high_ns,
        "names": [timeline.names[name] for name in used.tolist()],
        "lanes": [
            {
                "key": key,
                "offset_ns": (items.start_ns - low_ns).tolist(),
                "duration_ns": (items.stop_ns - items.start_ns).tolist(),
                "count": items.count.tolist(),
                "busy_ns": items.busy_ns.tolist(),
                "name": np.searchsorted(used, items.name).tolist(),
                "op": np.where(items.op < 0, -1, np.searchsorted(used, items.op)).tolist(),
                "category": items.category.tolist(),
                "row_id": items.row.tolist(),
            }
            for key, items in shown.items()
        ],
    }


def read_range(
    data: AggregationData, keys: Sequence[str], low_ns: int, high_ns: int
) -> dict[str, Any]:
    """Totals of some time by kind of work and by op, and its longest events.

    Times are those within the range: events are cut at its ends. Args and errors are those of
    ``read_items``.
    """
    timeline, lanes = _chosen(data, keys, low_ns, high_ns)
    parts = [(lane, _overlapping(lane, low_ns, high_ns)) for lane in lanes]
    work = _joined([items for lane, items in parts if lane.kind == "work"] or [_NOTHING])
    time_ns = _within(work, low_ns, high_ns)
    longest = [row for lane, items in parts for row in _longest(lane, items, timeline)]
    return {
        "start_ns": low_ns,
        "stop_ns": high_ns,
        "categories": [
            {"category": code, "num_events": count, "time_ns": total}
            for code, count, total in _sums(work.category, time_ns)
        ],
        "ops": [
            {"op_id": timeline.names[code], "num_events": count, "time_ns": total}
            for code, count, total in _sums(work.op, time_ns)
            if code >= 0
        ][:MOST_LISTED],
        "num_events": sum(len(items) for _, items in parts),
        "events": sorted(longest, key=lambda row: (-row["duration_ns"], row["start_ns"]))[
            :MOST_LISTED
        ],
    }


def _longest(lane: Lane, items: Items, timeline: Timeline) -> Iterator[dict[str, Any]]:
    for place in np.argsort(-items.busy_ns, kind="stable")[:MOST_LISTED].tolist():
        op = int(items.op[place])
        yield {
            "lane": lane.key,
            "name": timeline.names[int(items.name[place])],
            "op_id": timeline.names[op] if op >= 0 else None,
            "start_ns": int(items.start_ns[place]),
            "duration_ns": int(items.busy_ns[place]),
        }


def _sums(codes: Int64, time_ns: Int64) -> list[tuple[int, int, int]]:
    """Code, number and time of the rows of each code, most time first."""
    values, dense = dense_codes(codes)
    count = np.bincount(dense, minlength=len(values))
    total = np.zeros(len(values), dtype=np.int64)
    np.add.at(total, dense, time_ns)
    order = np.lexsort((values, -total))
    columns = (values[order], count[order], total[order])
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _within(items: Items, low_ns: int, high_ns: int) -> Int64:
    return np.minimum(items.stop_ns, high_ns) - np.maximum(items.start_ns, low_ns)


def _chosen(
    data: AggregationData, keys: Sequence[str], low_ns: int, high_ns: int
) -> tuple[Timeline, list[Lane]]:
    if low_ns >= high_ns:
        raise InvalidValueError(say("stop_ns must be after start_ns."))
    timeline = _timeline(data) if data.database.is_ours else Timeline((), ())
    lanes = {lane.key: lane for lane in timeline.lanes}
    unknown = [key for key in keys if key not in lanes]
    if unknown:
        raise InvalidValueError(say("The timeline has no lane {key!r}.", key=unknown[0]))
    return timeline, [lanes[key] for key in keys]


def _overlapping(lane: Lane, low_ns: int, high_ns: int) -> Items:
    """The events that overlap some time, or begin in it."""
    # Events before the first one that ends at ``low_ns`` or later do not reach into the time.
    first = int(np.searchsorted(lane.latest_ns, low_ns, side="left"))
    last = int(np.searchsorted(lane.items.start_ns, high_ns, side="left"))
    found = lane.items.rows(slice(first, max(first, last)))
    is_shown = (found.stop_ns > low_ns) | (found.start_ns >= low_ns)
    return found if is_shown.all() else found.rows(is_shown)


def shown_items(lane: Lane, low_ns: int, high_ns: int, pixels: int) -> Items:
    """What a lane shows of some time: at most about two items for each pixel.

    Events of a pixel or more are shown as they are; of the others, those that begin in the same
    pixel are one run. Counts and busy times of all items are those of the events that overlap the
    time, or begin in it.
    """
    found = _overlapping(lane, low_ns, high_ns)
    if len(found) <= ITEMS_PER_PIXEL * pixels:
        return found
    pixel_ns = (high_ns - low_ns) / pixels
    pixel = np.floor((found.start_ns - low_ns) / pixel_ns).astype(np.int64)
    is_wide = found.stop_ns - found.start_ns >= pixel_ns
    narrow = found.rows(~is_wide)
    runs = _runs(narrow, pixel[~is_wide])
    together = _joined([found.rows(is_wide), runs])
    return together.rows(np.argsort(together.start_ns, kind="stable"))


def _runs(items: Items, pixel: Int64) -> Items:
    """Items of one pixel as one."""
    if not len(items):
        return items
    heads = run_heads(pixel)
    run = np.repeat(np.arange(len(heads)), np.diff(np.append(heads, len(pixel))))
    top = _largest(run, items)
    return Items(
        start_ns=items.start_ns[heads],
        stop_ns=np.maximum.reduceat(items.stop_ns, heads),
        count=np.add.reduceat(items.count, heads),
        busy_ns=np.add.reduceat(items.busy_ns, heads),
        name=items.name[top],
        category=items.category[top],
        op=items.op[heads],
        row=items.row[heads],
    )


def _largest(run: Int64, items: Items) -> Int64:
    """An item of each run with the name that has the most time in it."""
    order = np.lexsort((items.name, run))
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (np.diff(run[order]) != 0) | (np.diff(items.name[order]) != 0)
    heads = np.flatnonzero(is_new)
    time_ns = np.add.reduceat(items.busy_ns[order], heads)
    by_time = np.lexsort((-time_ns, run[order[heads]]))
    chosen = by_time[run_heads(run[order[heads]][by_time])]
    return order[heads[chosen]]


def _joined(parts: Sequence[Items]) -> Items:
    return Items(
        *(
            np.concatenate(column)
            for column in zip(*(_columns(part) for part in parts), strict=True)
        )
    )


def _columns(items: Items) -> tuple[Int64, ...]:
    return (
        *(items.start_ns, items.stop_ns, items.count, items.busy_ns),
        *(items.name, items.category, items.op, items.row),
    )


def _timeline(data: AggregationData) -> Timeline:
    params = {"aggr_id": data.params["aggr_id"]}
    return _timelines.get(
        data.database.state,
        "timeline",
        params,
        lambda: data.database.read_with(
            lambda connection: _read(connection, int(data.params["aggr_id"]))
        ),
    )


def _read(connection: sqlite3.Connection, aggregation: int) -> Timeline:
    events = Events(connection)
    names = _Names()
    lanes = [*_iterations(events, aggregation, names), *_work(events, names)]
    lanes += _threads(events, aggregation, names)
    return Timeline(tuple(lanes), tuple(names.known))


class _Names:
    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def codes(self, names: Sequence[str]) -> Int64:
        codes = [self.known.setdefault(name, len(self.known)) for name in names]
        return np.array(codes, dtype=np.int64)

    def by_row(self, names: dict[int, str]) -> Int64:
        column = np.zeros(max(names, default=0) + 1, dtype=np.int64)
        column[list(names)] = self.codes(list(names.values()))
        return column


def _lanes(key: str, kind: str, group: str, title: str, items: Items) -> Iterator[Lane]:
    """An event that overlaps one before it is shown in a lane below."""
    for number, rows in enumerate(disjoint_sets(items.start_ns, items.stop_ns)):
        chosen = items.rows(rows)
        yield Lane(
            key=f"{key}.{number}",
            kind=kind,
            group=group,
            title=title if not number else "",
            items=chosen,
            latest_ns=np.maximum.accumulate(chosen.stop_ns),
        )


def _items(
    events: Work | Calls | OpCalls, name: Int64, op: Int64, category: Int64 | None = None
) -> Items:
    size = len(events)
    return Items(
        start_ns=events.start_ns,
        stop_ns=events.stop_ns,
        count=np.ones(size, dtype=np.int64),
        busy_ns=events.stop_ns - events.start_ns,
        name=name,
        category=np.full(size, -1, dtype=np.int64) if category is None else category,
        op=op,
        row=events.row,
    )


def _iterations(events: Events, aggregation: int, names: _Names) -> Iterator[Lane]:
    found = np.array(events.iterations(aggregation), dtype=np.int64).reshape(-1, 3)
    number, start, stop = found.T
    texts = [f"iteration {value}" for value in number.tolist()]
    items = Items(
        *(start, stop, np.ones_like(start), stop - start),
        *(names.codes(texts), np.full(len(start), -1), np.full(len(start), -1), number),
    )
    yield from _lanes("iterations", "iterations", "", "Iterations", items)


def _work(events: Events, names: _Names) -> Iterator[Lane]:
    work, work_names, _ = events.work()
    code = names.codes(work_names)
    op_names = names.by_row(_op_names(events.ops()))
    processes, devices = events.processes(), events.devices()
    heads, lane = row_codes(work.device, work.process, work.stream)
    are_several = len(set(work.process[heads].tolist())) > 1
    for place, first in enumerate(heads.tolist()):
        device, process, stream = (
            int(column[first]) for column in (work.device, work.process, work.stream)
        )
        chosen = work.rows(lane == place)
        number, product = devices[device]
        group = f"GPU {number}" + (f" ({product})" if product else "")
        title = f"stream {stream}" if stream >= 0 else "all streams"
        if are_several:
            title += f" (process {processes[process]})"
        items = _items(chosen, code[chosen.name], op_names[chosen.op], chosen.category)
        yield from _lanes(f"gpu{device}.{process}.{stream}", "work", group, title, items)


def _threads(events: Events, aggregation: int, names: _Names) -> Iterator[Lane]:
    ops, op_calls, calls = events.ops(), events.op_calls(), events.calls()
    call_names, op_names = names.by_row(events.call_names()), names.by_row(_op_names(ops))
    starts = np.array([row[1] for row in events.iterations(aggregation)], dtype=np.int64)
    processes = events.processes()
    for row, (process, tid, name) in sorted(events.threads().items()):
        group = f"Process {processes[process]}, thread {tid}" + (f" ({name})" if name else "")
        mine = op_calls.rows(op_calls.thread == row)
        if len(mine):
            spans = module_spans(mine, {number: op.name for number, op in ops.items()}, starts)
            order = np.lexsort((-spans.stop_ns, spans.start_ns))
            code = names.codes(spans.names)
            modules = Items(
                *(spans.start_ns[order], spans.stop_ns[order], np.ones_like(order)),
                *((spans.stop_ns - spans.start_ns)[order], code[spans.name][order]),
                *(np.full(len(order), -1), np.full(len(order), -1), np.zeros_like(order)),
            )
            yield from _lanes(f"thread{row}.modules", "modules", group, "modules", modules)
            items = _items(mine, op_names[mine.op], op_names[mine.op])
            yield from _lanes(f"thread{row}.ops", "ops", group, "ops", items)
        own = calls.rows(calls.thread == row)
        if len(own):
            items = _items(own, call_names[own.name], op_names[own.op])
            yield from _lanes(f"thread{row}.calls", "calls", group, "CUDA calls", items)


def _op_names(ops: dict[int, Op]) -> dict[int, str]:
    return {row: op.op_id or op.name for row, op in ops.items()}
