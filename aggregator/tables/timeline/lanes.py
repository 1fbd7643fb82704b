"""The events of a profile by lane."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from aggregator.profile.arrays import Int64, row_codes
from aggregator.tables.timeline.events import Calls, Events, Op, OpCalls, Work
from aggregator.tables.timeline.items import EventLane, Items, Labels
from aggregator.tables.timeline.nesting import disjoint_sets, module_spans

_NO_ROWS = np.zeros(0, dtype=np.int64)


class LaneReader:
    """Reads the lanes of an aggregation; their times are counted from ``origin_ns``.

    All methods raise what those of ``Events`` raise.
    """

    def __init__(self, connection: sqlite3.Connection, aggregation: int) -> None:
        self._events = Events(connection)
        self._work, self._work_names, _ = self._events.work()
        self._calls, self._op_calls = self._events.calls(), self._events.op_calls()
        self._iterations = np.array(self._events.iterations(aggregation), dtype=np.int64).reshape(
            -1, 3
        )
        starts = [part.start_ns[:1] for part in (self._work, self._calls, self._op_calls)]
        firsts = np.concatenate([*starts, self._iterations[:1, 1]])
        self.origin_ns = int(firsts.min(initial=firsts[0] if len(firsts) else 0))
        self.labels = Labels()

    @property
    def num_events(self) -> int:
        """Events that were recorded."""
        return len(self._work) + len(self._calls) + len(self._op_calls)

    def lanes(self) -> Iterator[EventLane]:
        """The lanes from top to bottom; each has events."""
        yield from self._iteration_lanes()
        yield from self._work_lanes()
        yield from self._thread_lanes()

    def _iteration_lanes(self) -> Iterator[EventLane]:
        number, start, stop = self._iterations.T
        labels = [self.labels.number(f"iteration {value}") for value in number.tolist()]
        events = _Labeled(start, stop, np.array(labels, dtype=np.int64), number)
        yield from self._lanes("iterations", "iterations", "", "Iterations", events)

    def _work_lanes(self) -> Iterator[EventLane]:
        work, op_ids = self._work, _op_ids(self._events.ops())
        processes, devices = self._events.processes(), self._events.devices()
        heads, labels = row_codes(work.name, work.category, work.op)
        numbers = [
            self.labels.number(
                self._work_names[int(work.name[head])],
                int(work.category[head]),
                op_ids.get(int(work.op[head])),
            )
            for head in heads.tolist()
        ]
        label = np.array(numbers, dtype=np.int64)[labels] if numbers else _NO_ROWS
        heads, lane = row_codes(work.device, work.process, work.stream)
        are_several = len(set(work.process[heads].tolist())) > 1
        for place, first in enumerate(heads.tolist()):
            device, process, stream = (
                int(column[first]) for column in (work.device, work.process, work.stream)
            )
            number, product = devices[device]
            group = f"GPU {number}" + (f" ({product})" if product else "")
            title = f"stream {stream}" if stream >= 0 else "all streams"
            if are_several:
                title += f" (process {processes[process]})"
            rows = np.flatnonzero(lane == place)
            events = _labeled(work, label, rows)
            yield from self._lanes(f"gpu{device}.{process}.{stream}", "work", group, title, events)

    def _thread_lanes(self) -> Iterator[EventLane]:
        ops, processes = self._events.ops(), self._events.processes()
        op_ids, call_names = _op_ids(ops), self._events.call_names()
        op_calls, calls = self._op_calls, self._calls
        op_labels = _by_row({row: self.labels.number(op, op_id=op) for row, op in op_ids.items()})
        heads, codes = row_codes(calls.name, calls.op)
        numbers = [
            self.labels.number(
                call_names.get(int(calls.name[head]), ""), op_id=op_ids.get(int(calls.op[head]))
            )
            for head in heads.tolist()
        ]
        call_labels = np.array(numbers, dtype=np.int64)[codes] if numbers else _NO_ROWS
        for row, (process, tid, name) in sorted(self._events.threads().items()):
            group = f"Process {processes[process]}, thread {tid}" + (f" ({name})" if name else "")
            rows = np.flatnonzero(op_calls.thread == row)
            if len(rows):
                modules = self._modules(op_calls.rows(rows), ops)
                yield from self._lanes(f"thread{row}.modules", "modules", group, "modules", modules)
                events = _labeled(op_calls, op_labels[op_calls.op], rows)
                yield from self._lanes(f"thread{row}.ops", "ops", group, "ops", events)
            events = _labeled(calls, call_labels, np.flatnonzero(calls.thread == row))
            yield from self._lanes(f"thread{row}.calls", "calls", group, "CUDA calls", events)

    def _modules(self, op_calls: OpCalls, ops: dict[int, Op]) -> _Labeled:
        names = {number: op.name for number, op in ops.items()}
        spans = module_spans(op_calls, names, self._iterations[:, 1])
        numbers = [self.labels.number(name) for name in spans.names]
        order = np.lexsort((-spans.stop_ns, spans.start_ns))
        label = np.array(numbers, dtype=np.int64)[spans.name[order]] if numbers else _NO_ROWS
        start, stop = spans.start_ns[order], spans.stop_ns[order]
        return _Labeled(start, stop, label, np.zeros_like(order))

    def _lanes(
        self, key: str, kind: str, group: str, title: str, events: _Labeled
    ) -> Iterator[EventLane]:
        """An event that overlaps one before it is shown in a lane below."""
        start_ns, stop_ns = events.start_ns - self.origin_ns, events.stop_ns - self.origin_ns
        for number, rows in enumerate(disjoint_sets(start_ns, stop_ns)):
            start, stop = start_ns[rows], stop_ns[rows]
            items = Items(
                *(start, stop, np.ones_like(start), stop - start),
                *(events.label[rows], events.row[rows]),
            )
            shown_title = title if not number else ""
            yield EventLane(f"{key}.{number}", kind, group, shown_title, items)


@dataclass(frozen=True)
class _Labeled:
    start_ns: Int64
    stop_ns: Int64
    label: Int64
    row: Int64


def _labeled(events: Work | Calls | OpCalls, label: Int64, rows: Int64) -> _Labeled:
    return _Labeled(events.start_ns[rows], events.stop_ns[rows], label[rows], events.row[rows])


def _op_ids(ops: dict[int, Op]) -> dict[int, str]:
    return {row: op.op_id or op.name for row, op in ops.items()}


def _by_row(numbers: dict[int, int]) -> Int64:
    column = np.zeros(max(numbers, default=0) + 1, dtype=np.int64)
    column[list(numbers)] = list(numbers.values())
    return column
