"""A profile as a Perfetto trace: a stream of ``TracePacket`` messages for ui.perfetto.dev.

Field numbers are those of protos/perfetto/trace/perfetto_trace.proto. All names are sent once and
referred to by number. Slices of a track must nest: events that cross others get a track of their
own, so that none is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import IO, Final

import numpy as np

from aggregator.profile.arrays import Bool, Int64
from aggregator.tables.timeline.counters import BYTES, read_counters
from aggregator.tables.timeline.events import CATEGORY_NAMES, Calls, Category, Events, OpCalls, Work
from aggregator.tables.timeline.nesting import module_spans, nested_sets
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
_TYPED = tuple(CATEGORY_NAMES.values())
_OTHERS = ("iteration", "module", "op", "CUDA call")
_CATEGORIES: Final = (*_TYPED, *_OTHERS)


@dataclass(frozen=True)
class Slices:
    """Slices of one track before they are encoded; arrays of one length, in order of start."""

    start_ns: Int64
    stop_ns: Int64
    name: Int64  # Number of the name.
    category: Int64  # Index into ``_CATEGORIES``.
    texts: tuple[tuple[str, Int64], ...] = ()  # Annotations: number of a text; 0: none.
    numbers: tuple[tuple[str, Int64], ...] = ()  # Annotations: a number; negative: none.
    flows: tuple[Int64, ...] = ()  # Arrows that begin or go on here; 0: none.
    ends: tuple[Int64, ...] = ()  # Arrows that end here; 0: none.

    def rows(self, rows: Int64 | slice | Bool) -> Slices:
        """The chosen slices."""
        return Slices(
            *(self.start_ns[rows], self.stop_ns[rows], self.name[rows], self.category[rows]),
            texts=tuple((key, column[rows]) for key, column in self.texts),
            numbers=tuple((key, column[rows]) for key, column in self.numbers),
            flows=tuple(column[rows] for column in self.flows),
            ends=tuple(column[rows] for column in self.ends),
        )

    def __len__(self) -> int:
        return len(self.start_ns)


def write_trace(events: Events, aggregation: int, out: IO[bytes]) -> int:
    """Write the events as a Perfetto trace.

    Args:
        events: A database, or a part of its time.
        aggregation: The aggregation whose iterations are shown.
        out: Where to write, in pieces.

    Returns:
        The number of slices.
    """
    return _Trace(events, aggregation, out).write()


class _Names:
    """Numbers of texts, from 1 on; those not yet written are ``new``."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.new: list[tuple[int, str]] = []

    def number(self, name: str) -> int:
        known = self._numbers.get(name)
        if known is None:
            known = self._numbers[name] = len(self._numbers) + 1
            self.new.append((known, name))
        return known

    def numbers(self, names: Sequence[str]) -> Int64:
        return np.array([self.number(name) for name in names], dtype=np.int64)


class _Trace:
    def __init__(self, events: Events, aggregation: int, out: IO[bytes]) -> None:
        self._events = events
        self._out = out
        self._names, self._keys, self._texts = _Names(), _Names(), _Names()
        self._tracks = count(1)
        self._slices = 0
        self._iterations = events.iterations(aggregation)
        self._ops = events.ops()
        self._processes = events.processes()
        self._offset_ns = 0
        self._gpus: dict[int, int] = {}  # Track of each GPU by its number.

    def write(self) -> int:
        work, work_names, full_names = self._events.work()
        calls, op_calls = self._events.calls(), self._events.op_calls()
        starts = [*(column.start_ns[:1] for column in (work, calls, op_calls))]
        first = [int(part[0]) for part in starts if len(part)] + [
            start for _, start, _ in self._iterations
        ]
        # A trace's times are not negative.
        self._offset_ns = -min(0, *first, 0)
        self._write_first()
        self._write_iterations()
        flow_of_work, ends, flow_of_call = _launches(work, calls, self._threads_process())
        self._write_work(work, work_names, full_names, flow_of_work, ends)
        del work
        self._write_threads(calls, op_calls, flow_of_call)
        self._write_counters()
        return self._slices

    def _threads_process(self) -> Int64:
        threads = self._events.threads()
        process = np.zeros(max(threads, default=0) + 1, dtype=np.int64)
        for row, (owner, _, _) in threads.items():
            process[row] = owner
        return process

    def _write_first(self) -> None:
        """The first packet: categories, and that numbers of names start anew."""
        interned = b"".join(
            message(_EVENT_CATEGORIES, varint(1, number + 1) + text(2, name))
            for number, name in enumerate(_CATEGORIES)
        )
        self._packet(message(_INTERNED, interned), _CLEARED | _NEEDED)

    def _packet(self, content: bytes, flags: int = _NEEDED) -> None:
        body = varint(_SEQUENCE, _SEQUENCE_ID) + varint(_FLAGS, flags) + content
        self._out.write(message(_PACKET, body))

    def _write_names(self) -> None:
        interned = b""
        for field, names in (
            (_EVENT_NAMES, self._names),
            (_ANNOTATION_NAMES, self._keys),
            (_ANNOTATION_TEXTS, self._texts),
        ):
            interned += b"".join(
                message(field, varint(1, number) + text(2, name)) for number, name in names.new
            )
            names.new.clear()
        if interned:
            self._packet(message(_INTERNED, interned))

    def _track(self, name: str, parent: int = 0, more: bytes = b"") -> int:
        number = next(self._tracks)
        body = varint(1, number) + (varint(5, parent) if parent else b"")
        body += more or text(2, name)
        self._packet(message(_TRACK, body))
        return number

    def _write_iterations(self) -> None:
        if not self._iterations:
            return
        numbers, starts, stops = np.array(self._iterations, dtype=np.int64).T
        names = self._names.numbers([f"iteration {number}" for number in numbers])
        category = np.full(len(names), len(_TYPED))
        self._write_slices(self._track("Iterations"), Slices(starts, stops, names, category))

    def _write_work(
        self,
        work: Work,
        work_names: list[str],
        full_names: dict[int, str],
        flows: Int64,
        ends: Int64,
    ) -> None:
        names = self._names.numbers(work_names)
        full = _by_row({row: self._texts.number(name) for row, name in full_names.items()})
        full = np.append(full, np.zeros(max(len(names) - len(full), 0), dtype=np.int64))
        size_of, size_texts = self._events.launch_sizes()
        sizes = _by_row({row: self._texts.number(name) for row, name in size_texts.items()})
        is_kernel = work.category <= Category.COMMUNICATION
        slices = Slices(
            *(work.start_ns, work.stop_ns, names[work.name], work.category),
            texts=(
                ("op", self._op_texts()[work.op]),
                ("kernel", np.where(is_kernel, full[work.name], 0)),
                ("size", np.where(is_kernel, sizes[size_of[_kernel_rows(work)]], 0)),
            ),
            numbers=(
                ("tensor_core", np.where(is_kernel, work.category == Category.TENSOR_CORE, -1)),
                ("row_id", work.row),
            ),
            flows=(flows,),
            ends=(ends,),
        )
        devices = self._events.devices()
        for device in np.unique(work.device).tolist():
            number, name = devices[device]
            on_device = work.device == device
            gpu = self._track(f"GPU {number}" + (f" ({name})" if name else ""))
            self._gpus[number] = gpu
            for process, stream in _distinct_pairs(work.process[on_device], work.stream[on_device]):
                rows = on_device & (work.stream == stream) & (work.process == process)
                title = f"stream {stream}" if stream >= 0 else "all streams"
                title += f" (process {self._processes[process]})"
                self._write_lane(title, gpu, slices.rows(rows))

    def _write_threads(self, calls: Calls, op_calls: OpCalls, flow_of_call: Int64) -> None:
        processes: dict[int, int] = {}
        call_names = _by_row(
            {row: self._names.number(name) for row, name in self._events.call_names().items()}
        )
        shapes = _by_row(
            {row: self._texts.number(name) for row, name in self._events.shape_texts().items()}
        )
        of_ops = self._op_slices(op_calls, shapes)
        for row, (process, tid, name) in sorted(self._events.threads().items()):
            mine, own_calls = op_calls.thread == row, calls.thread == row
            if not (mine.any() or own_calls.any()):
                continue
            pid = self._processes[process]
            if process not in processes:
                processes[process] = self._track("", more=message(3, varint(1, pid)))
            thread = varint(1, pid) + varint(2, tid) + (text(5, name) if name else b"")
            track = self._track("", processes[process], message(4, thread))
            parts = [
                self._module_slices(op_calls.rows(mine)),
                of_ops.rows(mine),
                self._call_slices(calls.rows(own_calls), call_names, flow_of_call[own_calls]),
            ]
            self._write_lane(name or f"thread {tid}", track, _merged(parts), is_own=True)

    def _write_counters(self) -> None:
        """Samples in the time of the events; a trace cannot say until when one stands."""
        for counter in read_counters(self._events.connection, self._events.window):
            unit = varint(3, _SIZE_BYTES) if counter.unit == BYTES else text(6, "%")
            title = f"GPU {counter.device}: {counter.title}"
            more = text(2, title) + message(_COUNTER, unit)
            track = self._track("", self._gpus.get(counter.device, 0), more)
            size = len(counter.value)
            value = counter.value.astype(np.float64)
            value = value if counter.unit == BYTES else value / 100
            event = [
                varints(_TYPE, np.full(size, _SAMPLE)),
                varints(_TRACK_UUID, np.full(size, track)),
                fixed64s(_VALUE, value.view(np.int64), np.ones(size, dtype=bool)),
            ]
            packet = [
                varints(_TIMESTAMP, counter.start_ns + self._offset_ns),
                varints(_SEQUENCE, np.full(size, _SEQUENCE_ID)),
                messages(_TRACK_EVENT, event),
                varints(_FLAGS, np.full(size, _NEEDED)),
            ]
            self._out.write(encoded(messages(_PACKET, packet)))

    def _op_slices(self, op_calls: OpCalls, shapes: Int64) -> Slices:
        names = _by_row({row: self._names.number(op.name) for row, op in self._ops.items()})
        known = np.where(op_calls.shapes < len(shapes), op_calls.shapes, 0)
        flows, ends = _backward(op_calls, {row: op.forward for row, op in self._ops.items()})
        return Slices(
            *(op_calls.start_ns, op_calls.stop_ns, names[op_calls.op]),
            np.full(len(op_calls), _CATEGORIES.index("op")),
            texts=(("op", self._op_texts()[op_calls.op]), ("shapes", shapes[known])),
            numbers=(("row_id", op_calls.row),),
            flows=(flows,),
            ends=(ends,),
        )

    def _module_slices(self, op_calls: OpCalls) -> Slices:
        starts = np.array([start for _, start, _ in self._iterations], dtype=np.int64)
        names = {row: op.name for row, op in self._ops.items()}
        spans = module_spans(op_calls, names, starts)
        return Slices(
            *(spans.start_ns, spans.stop_ns, self._names.numbers(spans.names)[spans.name]),
            np.full(len(spans.start_ns), _CATEGORIES.index("module")),
        )

    def _call_slices(self, calls: Calls, names: Int64, flows: Int64) -> Slices:
        return Slices(
            *(calls.start_ns, calls.stop_ns, names[calls.name]),
            np.full(len(calls), _CATEGORIES.index("CUDA call")),
            numbers=(("row_id", calls.row),),
            flows=(flows,),
        )

    def _op_texts(self) -> Int64:
        """Number of the text of each op by row; 0: none. Row 0 is no op."""
        return _by_row({row: self._texts.number(op.op_id) for row, op in self._ops.items()})

    def _write_lane(self, title: str, track: int, slices: Slices, *, is_own: bool = False) -> None:
        """Write the slices of a lane; those that cross others on tracks of their own."""
        for number, rows in enumerate(nested_sets(slices.start_ns, slices.stop_ns)):
            target = track
            if number or not is_own:
                target = self._track(title + (f" ({number + 1})" if number else ""), track)
            self._write_slices(target, slices.rows(rows))

    def _write_slices(self, track: int, slices: Slices) -> None:
        for key, _ in (*slices.texts, *slices.numbers):
            self._keys.number(key)
        self._write_names()
        self._slices += len(slices)
        order, is_begin = _in_order_of_time(slices.start_ns, slices.stop_ns)
        for low in range(0, len(order), _ROWS):
            rows = slice(low, low + _ROWS)
            packets = self._packets(track, slices.rows(order[rows]), is_begin[rows])
            self._out.write(encoded(packets))

    def _packets(self, track: int, slices: Slices, is_begin: Bool) -> Field:
        size = len(is_begin)
        time_ns = np.where(is_begin, slices.start_ns, slices.stop_ns) + self._offset_ns
        event = [
            varints(_CATEGORY, slices.category + 1, is_begin),
            *self._annotations(slices, is_begin),
            varints(_TYPE, np.where(is_begin, _BEGIN, _END)),
            varints(_NAME, slices.name, is_begin),
            varints(_TRACK_UUID, np.full(size, track)),
            *(fixed64s(_FLOWS, flow, is_begin & (flow > 0)) for flow in slices.flows),
            *(fixed64s(_LAST_FLOWS, flow, is_begin & (flow > 0)) for flow in slices.ends),
        ]
        packet = [
            varints(_TIMESTAMP, time_ns),
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


def _by_row(values: dict[int, int]) -> Int64:
    """Values by row id; 0 where there is none."""
    column = np.zeros(max(values, default=0) + 1, dtype=np.int64)
    column[list(values)] = list(values.values())
    return column


def _kernel_rows(work: Work) -> Int64:
    """Index of each kernel among all kernels; 0 for other work."""
    return np.where(work.category <= Category.COMMUNICATION, work.row - 1, 0)


def _distinct_pairs(first: Int64, second: Int64) -> list[tuple[int, int]]:
    pairs = np.unique(np.stack([first, second], axis=1), axis=0)
    return [(int(a), int(b)) for a, b in pairs.tolist()]


def _merged(parts: Sequence[Slices]) -> Slices:
    """Slices of several kinds in order: of equal times, those of the first kind are outside."""
    keys = dict.fromkeys(key for part in parts for key, _ in part.texts)
    numbers = dict.fromkeys(key for part in parts for key, _ in part.numbers)

    def joined(columns: list[Int64]) -> Int64:
        return np.concatenate(columns).astype(np.int64)

    def padded(part: Slices, found: Int64 | None, missing: int) -> Int64:
        return np.full(len(part), missing) if found is None else found

    together = Slices(
        joined([part.start_ns for part in parts]),
        joined([part.stop_ns for part in parts]),
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
    return together.rows(np.lexsort((kind, -together.stop_ns, together.start_ns)))


def _in_order_of_time(start_ns: Int64, stop_ns: Int64) -> tuple[Int64, Bool]:
    """Slice and kind of each packet: ends before begins at one time, but not before its own begin.

    The slices nest and are in order of start, the outer ones first.
    """
    size = len(start_ns)
    slices = np.arange(size)
    # Of equal ends the inner slice, which comes later, ends first. A slice without length ends
    # right after its begin.
    is_point = start_ns == stop_ns
    time = np.concatenate([start_ns, stop_ns])
    rank = np.concatenate([np.ones(size, dtype=np.int64), np.where(is_point, 1, 0)])
    within = np.concatenate([2 * slices, np.where(is_point, 2 * slices + 1, -slices)])
    order = np.lexsort((within, rank, time))
    return order % max(size, 1), order < size


def _launches(work: Work, calls: Calls, process_of: Int64) -> tuple[Int64, Int64, Int64]:
    """Arrows from calls to their work: number at the work (going on, or ending), and at the call.

    A call's work has its start and duration, and was launched in the same process.
    """
    through, last = np.zeros(len(work), dtype=np.int64), np.zeros(len(work), dtype=np.int64)
    at_call = np.zeros(len(calls), dtype=np.int64)
    if not len(work) or not len(calls):
        return through, last, at_call
    length = calls.stop_ns - calls.start_ns
    of_call = np.stack([calls.start_ns, length, process_of[calls.thread]], axis=1)
    of_work = np.stack([work.api_start_ns, work.api_duration_ns, work.process], axis=1)
    _, codes = np.unique(np.concatenate([of_call, of_work]), axis=0, return_inverse=True)
    codes = codes.ravel()
    first_call = np.full(int(codes.max()) + 1, -1, dtype=np.int64)
    first_call[codes[: len(calls)][::-1]] = np.arange(len(calls))[::-1]
    found = first_call[codes[len(calls) :]]
    launched = np.bincount(found[found >= 0], minlength=len(calls))
    at_call[launched > 0] = calls.row[launched > 0]
    is_found = found >= 0
    number = np.where(is_found, calls.row[found], 0)
    is_only = is_found & (launched[found] == 1)
    last[is_only] = number[is_only]
    through[is_found & ~is_only] = number[is_found & ~is_only]
    return through, last, at_call


_BACKWARD_FLOWS: Final = 1 << 48  # Numbers of arrows from forward to backward ops start here.


def _backward(op_calls: OpCalls, forward: dict[int, int | None]) -> tuple[Int64, Int64]:
    """Arrows from forward to backward calls, where both ops were called equally often."""
    flows, ends = np.zeros(len(op_calls), dtype=np.int64), np.zeros(len(op_calls), dtype=np.int64)
    order = np.argsort(op_calls.op, kind="stable")
    rows = np.split(order, np.flatnonzero(np.diff(op_calls.op[order])) + 1) if len(order) else []
    of_op = {int(op_calls.op[part[0]]): part for part in rows}
    # An op may have several backward ones; each arrow has one end, so the first is shown.
    taken: set[int] = set()
    for op, source in forward.items():
        if source is None or source in taken or op not in of_op or source not in of_op:
            continue
        if len(of_op[op]) != len(of_op[source]):
            continue
        taken.add(source)
        number = _BACKWARD_FLOWS + op_calls.row[of_op[source]]
        flows[of_op[source]] = number
        ends[of_op[op]] = number
    return flows, ends
