"""A profile as a Perfetto trace: a stream of ``TracePacket`` messages for ui.perfetto.dev.

Slices of a track must nest: events that cross others get a track of their own, so that none is
lost.
"""

from __future__ import annotations

from typing import IO, Final

import numpy as np

from aggregator.events.model import Calls, OpCalls, Work, find_calls
from aggregator.profile.arrays import Int64
from aggregator.tables.timeline.counters import BYTES, read_counters
from aggregator.tables.timeline.events import (
    CATEGORY_NAMES,
    Category,
    Events,
    ShownOpCalls,
    ShownWork,
    WorkNames,
)
from aggregator.tables.timeline.lanes import by_row
from aggregator.tables.timeline.nesting import module_spans
from aggregator.tables.timeline.packets import Packets, Slices, merged

_TYPED = tuple(CATEGORY_NAMES.values())
_OTHERS = ("iteration", "module", "op", "CUDA call")
_CATEGORIES: Final = (*_TYPED, *_OTHERS)


def write_trace(events: Events, aggregation: int, out: IO[bytes]) -> int:
    """Write the events as a Perfetto trace.

    Returns:
        The number of slices.
    """
    return _Trace(events, aggregation, out).write()


class _Trace:
    def __init__(self, events: Events, aggregation: int, out: IO[bytes]) -> None:
        self._events = events
        self._out = out
        self._iterations = events.iterations(aggregation)
        self._ops = events.ops()
        self._processes = events.processes()
        self._gpus: dict[int, int] = {}  # Track of each GPU by its number.

    def write(self) -> int:
        work, work_names = self._events.work()
        calls, op_calls = self._events.calls(), self._events.op_calls()
        starts = [*(column.start_ns[:1] for column in (work, calls, op_calls))]
        first = [int(part[0]) for part in starts if len(part)] + [
            start for _, start, _ in self._iterations
        ]
        self._packets = Packets(self._out, _CATEGORIES, offset_ns=-min(0, *first, 0))
        self._write_iterations()
        flow_of_work, ends, flow_of_call = _launches(work, calls)
        self._write_work(work, work_names, flow_of_work, ends)
        del work
        self._write_threads(calls, op_calls, flow_of_call)
        self._write_counters()
        return self._packets.slices

    def _write_iterations(self) -> None:
        if not self._iterations:
            return
        numbers, starts, stops = np.array(self._iterations, dtype=np.int64).T
        names = self._packets.names.numbers([f"iteration {number}" for number in numbers])
        category = np.full(len(names), len(_TYPED))
        self._packets.write_slices(
            self._packets.track("Iterations"), Slices(starts, stops, names, category)
        )

    def _write_work(
        self,
        work: ShownWork,
        work_names: WorkNames,
        flows: Int64,
        ends: Int64,
    ) -> None:
        names = self._packets.names.numbers(work_names.shown)
        full = self._packets.texts.numbers(work_names.full)
        size_of, size_texts = self._events.launch_sizes()
        sizes = by_row({row: self._packets.texts.number(name) for row, name in size_texts.items()})
        is_kernel = work.category <= Category.COMMUNICATION
        slices = Slices(
            *(work.start_ns, work.end_ns, names[work.title], work.category),
            texts=(
                ("op", self._op_texts()[work.op]),
                ("kernel", np.where(is_kernel, full[work.title], 0)),
                ("size", np.where(is_kernel, sizes[size_of[_kernel_rows(work)]], 0)),
            ),
            numbers=(
                ("tensor_core", np.where(is_kernel, work.category == Category.TENSOR_CORE, -1)),
                ("row_id", work.row_id),
            ),
            flows=(flows,),
            ends=(ends,),
        )
        devices = self._events.devices()
        for device in np.unique(work.device).tolist():
            number, name = devices[device]
            on_device = work.device == device
            gpu = self._packets.track(f"GPU {number}" + (f" ({name})" if name else ""))
            self._gpus[number] = gpu
            for process, stream in _distinct_pairs(work.process[on_device], work.stream[on_device]):
                rows = on_device & (work.stream == stream) & (work.process == process)
                title = f"stream {stream}" if stream >= 0 else "all streams"
                title += f" (process {self._processes[process]})"
                self._packets.write_lane(title, gpu, slices.rows(rows))

    def _write_threads(self, calls: Calls, op_calls: ShownOpCalls, flow_of_call: Int64) -> None:
        processes: dict[int, int] = {}
        call_names = self._packets.names.numbers(self._events.call_names())
        shapes = by_row(
            {
                row: self._packets.texts.number(name)
                for row, name in self._events.shape_texts().items()
            }
        )
        of_ops = self._op_slices(op_calls, shapes)
        for row, (process, tid, name) in sorted(self._events.threads().items()):
            mine, own_calls = op_calls.thread == row, calls.thread == row
            if not (mine.any() or own_calls.any()):
                continue
            pid = self._processes[process]
            if process not in processes:
                processes[process] = self._packets.process_track(pid)
            track = self._packets.thread_track(pid, tid, name, processes[process])
            parts = [
                self._module_slices(op_calls.rows(mine)),
                of_ops.rows(mine),
                self._call_slices(calls.rows(own_calls), call_names, flow_of_call[own_calls]),
            ]
            self._packets.write_lane(name or f"thread {tid}", track, merged(parts), is_own=True)

    def _write_counters(self) -> None:
        """Samples in the time of the events; a trace cannot say until when one stands."""
        for counter in read_counters(self._events.connection, self._events.window):
            is_size = counter.unit == BYTES
            self._packets.write_samples(
                f"GPU {counter.device}: {counter.title}",
                "" if is_size else "%",
                self._gpus.get(counter.device, 0),
                counter.start_ns,
                counter.value.astype(np.float64) / (1 if is_size else 100),
            )

    def _op_slices(self, op_calls: ShownOpCalls, shapes: Int64) -> Slices:
        names = by_row({row: self._packets.names.number(op.name) for row, op in self._ops.items()})
        known = np.where(op_calls.shapes < len(shapes), op_calls.shapes, 0)
        flows, ends = _backward(op_calls, {row: op.forward for row, op in self._ops.items()})
        return Slices(
            *(op_calls.start_ns, op_calls.end_ns, names[op_calls.op]),
            np.full(len(op_calls), _CATEGORIES.index("op")),
            texts=(("op", self._op_texts()[op_calls.op]), ("shapes", shapes[known])),
            numbers=(("row_id", op_calls.row_id),),
            flows=(flows,),
            ends=(ends,),
        )

    def _module_slices(self, op_calls: OpCalls) -> Slices:
        starts = np.array([start for _, start, _ in self._iterations], dtype=np.int64)
        names = {row: op.name for row, op in self._ops.items()}
        spans = module_spans(op_calls, names, starts)
        return Slices(
            *(spans.start_ns, spans.end_ns, self._packets.names.numbers(spans.names)[spans.name]),
            np.full(len(spans.start_ns), _CATEGORIES.index("module")),
        )

    def _call_slices(self, calls: Calls, names: Int64, flows: Int64) -> Slices:
        return Slices(
            *(calls.start_ns, calls.end_ns, names[calls.name]),
            np.full(len(calls), _CATEGORIES.index("CUDA call")),
            numbers=(("row_id", calls.row_id),),
            flows=(flows,),
        )

    def _op_texts(self) -> Int64:
        """Number of the text of each op by row; 0: none."""
        return by_row({row: self._packets.texts.number(op.op_id) for row, op in self._ops.items()})


def _kernel_rows(work: ShownWork) -> Int64:
    """Index of each kernel among all kernels; 0 for other work."""
    return np.where(work.category <= Category.COMMUNICATION, work.row_id - 1, 0)


def _distinct_pairs(first: Int64, second: Int64) -> list[tuple[int, int]]:
    pairs = np.unique(np.stack([first, second], axis=1), axis=0)
    return [(int(a), int(b)) for a, b in pairs.tolist()]


def _launches(work: Work, calls: Calls) -> tuple[Int64, Int64, Int64]:
    """Arrows from calls to their work: number at the work (going on, or ending), and at the call.

    A call's work has its start and duration, and was launched in the same process.
    """
    through, last = np.zeros(len(work), dtype=np.int64), np.zeros(len(work), dtype=np.int64)
    at_call = np.zeros(len(calls), dtype=np.int64)
    if not len(work) or not len(calls):
        return through, last, at_call
    found = find_calls(calls, work.process, work.api_start_ns, work.api_end_ns)
    launched = np.bincount(found[found >= 0], minlength=len(calls))
    at_call[launched > 0] = calls.row_id[launched > 0]
    is_found = found >= 0
    number = np.where(is_found, calls.row_id[found], 0)
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
        number = _BACKWARD_FLOWS + op_calls.row_id[of_op[source]].astype(np.int64)
        flows[of_op[source]] = number
        ends[of_op[op]] = number
    return flows, ends
