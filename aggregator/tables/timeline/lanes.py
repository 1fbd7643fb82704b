"""The events of a profile by lane."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from aggregator.events.model import LOADER_TYPES, Calls, OpCalls, Work
from aggregator.metrics.ownership_host import is_blocking
from aggregator.profile.arrays import Bool, Int64, Integers, row_codes
from aggregator.profile.intervals import flatten
from aggregator.tables.timeline.counters import counter_items, read_counters
from aggregator.tables.timeline.events import Events, Window
from aggregator.tables.timeline.items import COUNTER, EventLane, Items, Labels
from aggregator.tables.timeline.marked import Marked, key_node_ranges, read_marked
from aggregator.tables.timeline.nesting import disjoint_sets, module_spans

_NO_ROWS = np.zeros(0, dtype=np.int64)
IDLE = "idle"
"""Name of the time in which a GPU runs nothing."""
CPU = "CPU"
"""Name of the CPU's own work outside of calls and ops, on the critical path."""


class LaneReader:
    """Reads the lanes of an aggregation; their times are counted from ``origin_ns``.

    All methods raise what those of ``Events`` raise.
    """

    def __init__(self, connection: sqlite3.Connection, aggregation: int) -> None:
        self._connection, self._aggregation = connection, aggregation
        self._events = Events(connection)
        self._work, self._work_names = self._events.work()
        self._calls, self._op_calls = self._events.calls(), self._events.op_calls()
        self._iterations = np.array(self._events.iterations(aggregation), dtype=np.int64).reshape(
            -1, 3
        )
        self._ops, self._processes = self._events.ops(), self._events.processes()
        self._threads = self._events.threads()
        starts = [part.start_ns[:1] for part in (self._work, self._calls, self._op_calls)]
        firsts = np.concatenate([*starts, self._iterations[:1, 1]])
        self.origin_ns = int(firsts.min(initial=firsts[0] if len(firsts) else 0))
        lasts = [part.end_ns for part in (self._work, self._calls, self._op_calls)]
        self._end_ns = max(int(ends.max(initial=self.origin_ns)) for ends in lasts)
        self.labels = Labels()
        self.labels.number(CPU)

    @property
    def num_events(self) -> int:
        """Events that were recorded."""
        return len(self._work) + len(self._calls) + len(self._op_calls)

    def lanes(self) -> Iterator[EventLane]:
        """The lanes from top to bottom; each has events.

        Where the profile has several ranks, all of a rank follow each other.
        """
        yield from self._iteration_lanes()
        marked = read_marked(self._connection, self._aggregation)
        yield from self._advice_lanes(marked)
        ranks = self._events.ranks()
        if len(ranks) > 1:
            for process, rank in ranks.items():
                yield from self._work_lanes({process}, f"Rank {rank}: ")
                yield from self._thread_lanes({process}, f"Rank {rank}: ")
        shown = set(ranks) if len(ranks) > 1 else set()
        yield from self._work_lanes(set(self._processes) - shown, "")
        yield from self._thread_lanes(set(self._processes) - shown, "")
        yield from self._counter_lanes()

    def _iteration_lanes(self) -> Iterator[EventLane]:
        number, start, stop = self._iterations.T
        labels = [self.labels.number(f"iteration {value}") for value in number.tolist()]
        events = Labeled(start, stop, np.array(labels, dtype=np.int64), number)
        yield from self._lanes("iterations", "iterations", "", "Iterations", events)
        name, start, stop = key_node_ranges(self._connection, self._events.store, self._aggregation)
        label = np.full(len(start), self.labels.number(name) if len(start) else 0)
        marks = Labeled(start, stop, label, np.arange(1, len(start) + 1))
        yield from self._lanes("key", "key", "", "Key node", marks)

    def _advice_lanes(self, marked: Sequence[Marked]) -> Iterator[EventLane]:
        work = self._work
        by_op = {op.op_id: row for row, op in self._ops.items()}
        for advice in marked:
            ops = [by_op[name] for name in advice.op_ids if name in by_op]
            names = [
                number
                for number, name in enumerate(self._work_names.short)
                if name in advice.kernels
            ]
            rows = np.flatnonzero(np.isin(work.op, ops) | np.isin(work.title, names))
            start, stop = work.start_ns[rows], work.end_ns[rows]
            if not len(rows):
                chosen = np.isin(self._iterations[:, 0], advice.numbers)
                _, start, stop = self._iterations[chosen].T
            label = np.full(len(start), self.labels.number(advice.name))
            events = Labeled(start, stop, label, np.zeros_like(start))
            yield from self._lanes(f"advice.{advice.name}", "advice", "Advice", advice.name, events)

    @cached_property
    def _work_labels(self) -> Int64:
        work = self._work
        heads, labels = row_codes(work.title, work.category, work.op)
        numbers = [
            self.labels.number(
                self._work_names.shown[int(work.title[head])],
                int(work.category[head]),
                self._ops.get(int(work.op[head])),
                self._work_names.full[int(work.title[head])],
            )
            for head in heads.tolist()
        ]
        return np.array(numbers, dtype=np.int64)[labels] if numbers else _NO_ROWS

    @cached_property
    def _streams(self) -> list[tuple[tuple[int, int, int], Int64]]:
        work = self._work
        heads, codes = row_codes(work.process, work.device, work.stream)
        keys = zip(
            *(column[heads].tolist() for column in (work.process, work.device, work.stream)),
            strict=True,
        )
        return list(zip(keys, rows_by_code(codes, len(heads)), strict=True))

    def _work_lanes(self, processes: set[int], before: str) -> Iterator[EventLane]:
        devices = self._events.devices()
        chosen = [entry for entry in self._streams if entry[0][0] in processes]
        are_several = len({process for (process, _, _), _ in chosen}) > 1
        for device in sorted({device for (_, device, _), _ in chosen}):
            number, product = devices[device]
            group = f"{before}GPU {number}" + (f" ({product})" if product else "")
            mine = [entry for entry in chosen if entry[0][1] == device]
            every = np.sort(np.concatenate([rows for _, rows in mine]))
            yield from self._idle_lane(f"idle{device + 1}.{min(processes) + 1}", group, every)
            for (process, _, stream), rows in mine:
                title = f"stream {stream}" if stream >= 0 else "all streams"
                if are_several:
                    title += f" (process {self._processes[process]})"
                events = labeled(self._work, self._work_labels, rows)
                key = f"gpu{device + 1}.{process + 1}.{stream}"
                yield from self._lanes(key, "work", group, title, events)

    def _idle_lane(self, key: str, group: str, rows: Int64) -> Iterator[EventLane]:
        """The time of the profile in which a GPU ran nothing."""
        busy = flatten(self._work.start_ns[rows], self._work.end_ns[rows])
        start = np.append(self.origin_ns, busy.end_ns)
        stop = np.append(busy.start_ns, max(self._end_ns, int(busy.end_ns.max(initial=0))))
        start, stop = start[stop > start], stop[stop > start]
        label = np.full(len(start), self.labels.number(IDLE))
        events = Labeled(start, stop, label, np.zeros_like(start))
        yield from self._lanes(key, "idle", group, IDLE, events)

    @cached_property
    def _call_labels(self) -> tuple[Int64, Bool]:
        calls, names = self._calls, self._events.call_names()
        heads, codes = row_codes(calls.name, calls.op)
        texts = [(*names, "")[calls.name[head]] for head in heads.tolist()]
        numbers = [
            self.labels.number(text, op=self._ops.get(int(calls.op[head])))
            for text, head in zip(texts, heads.tolist(), strict=True)
        ]
        if not numbers:
            return _NO_ROWS, np.zeros(0, dtype=bool)
        waits = [is_blocking(text) for text in texts]
        return np.array(numbers, dtype=np.int64)[codes], np.array(waits, dtype=bool)[codes]

    def _thread_lanes(self, processes: set[int], before: str) -> Iterator[EventLane]:
        op_calls, calls = self._op_calls, self._calls
        op_labels = by_row(
            {row: self.labels.number(op.title, op=op) for row, op in self._ops.items()}
        )
        is_loader = by_row(
            {row: int(op.type.startswith(LOADER_TYPES)) for row, op in self._ops.items()}
        )
        call_labels, waits = self._call_labels
        for row, (process, tid, name) in sorted(self._threads.items()):
            if process not in processes:
                continue
            group = f"{before}Process {self._processes[process]}, thread {tid}"
            group += f" ({name})" if name else ""
            rows, key = self._op_rows.get(row, _NO_ROWS), f"thread{row + 1}"
            if len(rows):
                modules = self._modules(op_calls.rows(rows))
                yield from self._lanes(f"{key}.modules", "modules", group, "modules", modules)
                events = labeled(op_calls, op_labels[op_calls.op], rows)
                yield from self._lanes(f"{key}.ops", "ops", group, "ops", events)
                loads = rows[is_loader[op_calls.op[rows]] > 0]
                events = labeled(op_calls, op_labels[op_calls.op], loads)
                yield from self._lanes(f"{key}.loader", "loader", group, "data loader", events)
            own = self._call_rows.get(row, _NO_ROWS)
            for kind, title, chosen in (
                ("calls", "CUDA calls", own[~waits[own]]),
                ("waits", "synchronization", own[waits[own]]),
            ):
                events = labeled(calls, call_labels, chosen)
                yield from self._lanes(f"{key}.{kind}", kind, group, title, events)

    @cached_property
    def _op_rows(self) -> dict[int, Int64]:
        return rows_by_value(self._op_calls.thread)

    @cached_property
    def _call_rows(self) -> dict[int, Int64]:
        return rows_by_value(self._calls.thread)

    def _modules(self, op_calls: OpCalls) -> Labeled:
        names = {number: op.name for number, op in self._ops.items()}
        spans = module_spans(op_calls, names, self._iterations[:, 1], is_cut=True)
        numbers = [self.labels.number(name) for name in spans.names]
        order = np.lexsort((-spans.end_ns, spans.start_ns))
        label = np.array(numbers, dtype=np.int64)[spans.name[order]] if numbers else _NO_ROWS
        start, stop = spans.start_ns[order], spans.end_ns[order]
        return Labeled(start, stop, label, np.zeros_like(order))

    def _counter_lanes(self) -> Iterator[EventLane]:
        """Samples of GPUs, as far as they were taken in the time of the events."""
        window = Window(self.origin_ns, max(self._end_ns, self.origin_ns + 1))
        for counter in read_counters(self._connection, window):
            label = self.labels.number(counter.title)
            items, scale = counter_items(counter, label, self.origin_ns)
            group = f"GPU {counter.device}: counters"
            yield EventLane(counter.key, COUNTER, group, counter.title, items, scale)

    def _lanes(
        self, key: str, kind: str, group: str, title: str, events: Labeled
    ) -> Iterator[EventLane]:
        """An event that overlaps one before it is shown in a lane below."""
        start_ns, end_ns = events.start_ns - self.origin_ns, events.end_ns - self.origin_ns
        for number, rows in enumerate(disjoint_sets(start_ns, end_ns)):
            start, stop = start_ns[rows], end_ns[rows]
            items = Items(
                *(start, stop, np.ones_like(start), stop - start),
                *(events.label[rows], events.row[rows]),
            )
            shown_title = title if not number else ""
            yield EventLane(f"{key}.{number}", kind, group, shown_title, items)


@dataclass(frozen=True)
class Labeled:
    """Events of a lane in order of start, before they are divided into rows."""

    start_ns: Int64
    end_ns: Int64
    label: Int64
    row: Int64


def labeled(events: Work | Calls | OpCalls, label: Int64, rows: Int64) -> Labeled:
    """Some of the events with their labels."""
    return Labeled(events.start_ns[rows], events.end_ns[rows], label[rows], events.row_id[rows])


def rows_by_code(codes: Integers, count: int) -> list[Int64]:
    """The rows of each dense code, in order."""
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.cumsum(np.bincount(codes, minlength=count))[:-1]) if count else []


def rows_by_value(values: Int64) -> dict[int, Int64]:
    """The rows of each value, in order."""
    heads, codes = row_codes(values)
    return dict(zip(values[heads].tolist(), rows_by_code(codes, len(heads)), strict=True))


def by_row(numbers: dict[int, int]) -> Int64:
    """Arrange numbers by row; the last one, 0, stands for no row."""
    column = np.zeros(max(numbers, default=-1) + 2, dtype=np.int64)
    column[list(numbers)] = list(numbers.values())
    return column
