"""Events of a Kineto trace as columns, read block by block."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from aggregator.kernels.names import demangle
from aggregator.profile.arrays import Codes, concatenate_and_clear, narrow
from aggregator.sources.kineto.arguments import Arguments, parameter_names
from aggregator.sources.kineto.names import (
    COPY_KINDS,
    MODULE_PREFIX,
    copy_name,
    message_bytes,
    thread_name,
)
from aggregator.sources.kineto.samples import CATEGORY, Samples, add_samples
from aggregator.sources.kineto.trace_json import MEMORY_EVENT, Args, Event, TraceText, decode

if TYPE_CHECKING:
    from aggregator.profile.arrays import Int32, Int64, Integers
    from aggregator.system.progress import Progress

_MAX_NS: Final = 1 << 61
"""Sums and differences of two such times still fit 64-bit integers."""
_MAX_US: Final = Decimal(_MAX_NS) / 1000
_MAX_LENGTH_US: Final = float(_MAX_US)
_KINDS: Final = {
    "cpu_op": "ranges",
    "operator": "ranges",
    "user_annotation": "ranges",
    "python_function": "python",
    "kernel": "kernels",
    "gpu_memcpy": "copies",
    "memcpy": "copies",
    "gpu_memset": "sets",
    "memset": "sets",
    "cuda_sync": "syncs",
}
"""Table of each category of events; PyTorch before 1.12 capitalized the categories."""
_CALLS: Final = ("runtime", "driver")
"""What the categories of calls end with: those of CUDA, and ``xpu_runtime``, ``mtia_runtime``."""
_REPEATING: Final = frozenset({"gpu_user_annotation", "trace", "overhead"})
"""Categories of what other events say, too, and of what the profiler itself did."""
_LINKS: Final = frozenset("stfM")
"""Phases of arrows between events, whose numbers the events have, and of metadata."""
_OF_THE_PROFILER: Final = frozenset(
    {MEMORY_EVENT.decode(), "Iteration Start: PyTorch Profiler", "Record Window End"}
)
"""Points in time of the allocator, which are read elsewhere, and of the profiler itself."""
_KNOWN_FLOWS: Final = frozenset({"ac2g", "async", "fwdbwd", "critical_path"})
"""Arrows from calls to work and from forward to backward, which numbers in the events repeat."""
_OF_CALLS: Final = "ac2g"
_MOST_DIGITS: Final = 19
_FIRST_NODE_LINK: Final = 1 << 40
"""Arrows of ``ac2g`` from this number on join nodes of a CUDA graph (PyTorch 2.14 and later)."""
_MAX_CALL: Final = (1 << 63) - 1
_WRAPPER: Final = "autograd::engine::"
_ADDRESS: Final = re.compile(r" (?:object )?at 0x[0-9a-fA-F]+")

Columns = dict[str, Any]


@dataclass
class TraceEvents:
    """All events of a trace."""

    # Kind -> column -> values; times in ns as recorded.
    tables: dict[str, Columns] = field(default_factory=dict)
    names: Codes[str] = field(default_factory=Codes)  # Texts of ranges.
    # Names of calls, kernels, copies and sets.
    work_names: Codes[str] = field(default_factory=Codes)
    shapes: Codes[Arguments] = field(default_factory=Codes)  # Arguments as written.
    stacks: Codes[str] = field(default_factory=Codes)  # ``Call stack`` texts.
    # Modules of the work of CUDA graphs, empty: none; whether it is of their backward passes.
    annotations: Codes[tuple[str, bool]] = field(default_factory=Codes)
    # Pairs of process and thread as written.
    lanes: Codes[tuple[Any, Any]] = field(default_factory=Codes)
    # By pair of process and thread.
    thread_names: dict[tuple[Any, Any], str] = field(default_factory=dict)
    # Number of events of each category that is not read, though nothing else says the same.
    unused: Counter[str] = field(default_factory=Counter)
    # Ends of the arrows between nodes of graphs, shape (5, n): number of the arrow, whether it
    # points there, GPU and lane of the node, time in ns as recorded.
    node_links: Int64 = field(default_factory=lambda: np.empty((5, 0), dtype=np.int64))
    samples: Samples = field(default_factory=dict)  # Of the counters of GPUs.
    # Numbers of the calls that launched kernels without a possible time.
    broken_kernels: list[int] = field(default_factory=list)
    broken: int = 0  # Number of events without a possible time, or without their other end.
    odd: Counter[str] = field(default_factory=Counter)  # Number of values not understood, by name.
    reversed: int = 0  # Number of events that ended before they began.
    header: dict[str, Any] = field(default_factory=dict)  # The keys of the trace beside its events.
    records_memory: bool = False  # Whether the trace holds allocations.
    is_cut: bool = False  # Whether the file ends within the events.


def read_events(text: TraceText, progress: Progress) -> TraceEvents:
    """Read all events of a trace.

    Raises:
        ProfileError: The text is not a trace, or is damaged.
    """
    reader = _Reader(text)
    for block in text.blocks():
        progress.advance(reader.add(block))
    return reader.finish()


class _Reader:
    """Collects the columns."""

    def __init__(self, text: TraceText) -> None:
        self._text = text
        self._events = TraceEvents()
        # By process and thread: events that have begun, the innermost last.
        self._begun: dict[tuple[Any, Any], list[Event]] = defaultdict(list)
        self._parts: dict[str, dict[str, list[Integers]]] = {
            kind: defaultdict(list) for kind in (*_COLUMNS,)
        }
        self._node_links: list[Int64] = [self._events.node_links]

    def add(self, block: bytes) -> int:
        """Add a JSON array of events; returns their number."""
        events = decode(self._text.path, block, self._events.odd)
        for kind, chosen in self._by_kind(events).items():
            self._append(kind, chosen)
        return len(events)

    def _by_kind(self, events: list[Event]) -> dict[str, list[Event]]:
        groups: dict[str, list[Event]] = defaultdict(list)
        halves: list[Event] = []
        others: list[Event] = []
        for event in events:
            if event.ph == "X":
                groups[event.cat].append(event)
            elif event.ph in {"B", "E"}:
                halves.append(event)
            else:
                others.append(event)
        self._add_others(others)
        for event in self._joined(halves) if halves else ():
            groups[event.cat].append(event)
        kinds: dict[str, list[Event]] = defaultdict(list)
        for category, chosen in groups.items():
            kind = "api" if category.lower().endswith(_CALLS) else _KINDS.get(category.lower())
            if kind is not None:
                kinds[kind] += chosen
            elif category.lower() not in _REPEATING:
                self._events.unused[category or "(none)"] += len(chosen)
        return kinds

    def _add_others(self, events: list[Event]) -> None:
        """Add what takes no time: names of threads, samples of counters, and what is not read."""
        counted: list[Event] = []
        links: list[tuple[int, ...]] = []
        for event in events:
            if event.ph == "M" and event.name == "thread_name":
                key, name = (event.pid, event.tid), thread_name(event.args.name)
                known = self._events.thread_names.get(key, "")
                self._events.thread_names[key] = max(known, name)
            elif event.ph == "C" and event.cat == CATEGORY:
                counted.append(event)
            elif event.ph in ("s", "f") and (number := _node_link(event)):
                if not _is_possible(event.ts):
                    self._events.broken += 1
                    continue
                gpu, lane = _number(event.pid), _number(event.tid)
                links.append((number, event.ph == "f", gpu, lane, _ns(event)))
            elif event.ph == "s" and event.cat not in _KNOWN_FLOWS:
                self._events.unused[f"links {event.cat}".rstrip()] += 1
            elif event.ph not in _LINKS and event.name not in _OF_THE_PROFILER:
                self._events.unused[event.cat or event.name or "(none)"] += 1
        if links:
            self._node_links.append(np.array(links, dtype=np.int64).T)
        sampled = [event for event in counted if _is_possible(event.ts)]
        self._events.broken += len(counted) - len(sampled)
        for event in add_samples(self._events.samples, sampled):
            self._events.unused[event.cat or event.name or "(none)"] += 1

    def _joined(self, halves: list[Event]) -> Iterator[Event]:
        """Complete events from begins and ends; those of a thread nest.

        The format asks for the order of time in each thread, which holds within a block at least.
        """
        timed = [event for event in halves if _is_possible(event.ts)]
        self._events.broken += len(halves) - len(timed)
        for half in sorted(timed, key=attrgetter("ts")):
            begun = self._begun[half.pid, half.tid]
            if half.ph == "B":
                begun.append(half)
            elif begun:
                event = begun.pop()
                event.dur = float(half.ts - event.ts)  # type: ignore[operator] # both are possible
                event.args = half.args if event.args == Args() else event.args
                yield event
            else:
                self._events.broken += 1

    def _append(self, kind: str, events: list[Event]) -> None:
        whole = [event for event in events if _has_times(event)]
        if len(whole) < len(events):
            self._events.broken += len(events) - len(whole)
            if kind == "kernels":
                broken = (event for event in events if not _has_times(event))
                self._events.broken_kernels += [event.args.correlation for event in broken]
        if not whole:
            return
        start, length = _times(whole)
        self._events.reversed += int(np.count_nonzero(length < 0))
        parts = self._parts[kind]
        parts["start"].append(start)
        parts["end"].append(start + np.maximum(length, 0))
        for name, column in _COLUMNS[kind](self._events, whole).items():
            parts[name].append(narrow(column) if column.ndim == 1 else column)

    def finish(self) -> TraceEvents:
        """All columns, joined."""
        for kind, parts in self._parts.items():
            columns = {name: concatenate_and_clear(arrays) for name, arrays in parts.items()}
            self._events.tables[kind] = columns or _no_rows(kind)
        self._events.broken += sum(map(len, self._begun.values()))
        self._events.node_links = np.concatenate(self._node_links, axis=1)
        self._events.header = self._text.header
        self._events.records_memory = self._text.records_memory
        self._events.is_cut = self._text.is_cut
        return self._events


def _has_times(event: Event) -> bool:
    return _is_possible(event.ts) and event.dur is not None and abs(event.dur) <= _MAX_LENGTH_US


def _is_possible(time_us: Decimal | None) -> bool:
    """Whether a time is there, and one that any clock shows."""
    # Comparing rounds nothing: an exponent of a billion does not overflow.
    return time_us is not None and time_us.is_finite() and -_MAX_US <= time_us <= _MAX_US


def _node_link(event: Event) -> int:
    """Number of an arrow between nodes of a graph; 0: it is another one."""
    digits = bytes(event.id)
    is_number = event.cat == _OF_CALLS and digits.isdigit() and len(digits) < _MOST_DIGITS
    return number if is_number and (number := int(digits)) >= _FIRST_NODE_LINK else 0


def _number(place: int | str) -> int:
    """Number of a GPU or lane; -1: it has another name."""
    return place if isinstance(place, int) and abs(place) < _MAX_NS else -1


def _ns(event: Any) -> int:
    return int((event.ts * 1000).to_integral_value())


def _times(events: list[Any]) -> tuple[Int64, Int64]:
    """Start and duration in ns."""
    start = [_ns(event) for event in events]
    length = np.array([event.dur for event in events], dtype=np.float64)
    return np.array(start, dtype=np.int64), np.rint(length * 1e3).astype(np.int64)


def _no_rows(kind: str) -> Columns:
    empty = np.empty(0, dtype=np.int64)
    return {"start": empty, "end": empty} | _COLUMNS[kind](TraceEvents(), [])


def _lanes(events: TraceEvents, chosen: list[Event]) -> Int32:
    return events.lanes.codes([(event.pid, event.tid) for event in chosen])


def _ints(values: list[int]) -> Int64:
    return np.array(values, dtype=np.int64)


def _indexes(chosen: list[Event]) -> Int64:
    """Numbers in order of the starts; versions of PyTorch before 1.12 number ops only."""
    ids = [args.index if args.index >= 0 else args.external for args in (e.args for e in chosen)]
    return _ints([max(-1, min(number, _MAX_NS)) for number in ids])


def _ranges(events: TraceEvents, chosen: list[Event]) -> Columns:
    # A wrapper has its node's sequence number here, but none under emit_nvtx.
    seq = [-1 if event.name.startswith(_WRAPPER) else event.args.seq for event in chosen]
    shapes = [_arguments(event) for event in chosen]
    return {
        "lane": _lanes(events, chosen),
        "index": _indexes(chosen),
        "name": events.names.codes([event.name for event in chosen]),
        "seq": _ints(seq),
        "shapes": events.shapes.codes(shapes),
        "stack": events.stacks.codes([event.args.call_stack for event in chosen]),
    }


def _arguments(event: Event) -> Arguments:
    args = event.args
    named = bool(parameter_names(event.name))
    return Arguments(
        bytes(args.dims) or bytes(args.old_dims),
        bytes(args.types),
        bytes(args.concrete) if named else b"",
        event.name if named else "",
    )


def _python(events: TraceEvents, chosen: list[Event]) -> Columns:
    names = [event.name for event in chosen]
    names = [_ADDRESS.sub("", name) if " at 0x" in name else name for name in names]
    return {
        "lane": _lanes(events, chosen),
        "index": _indexes(chosen),
        "name": events.names.codes(names),
        "module": np.array([name.startswith(MODULE_PREFIX) for name in names], dtype=np.int8),
    }


def _api(events: TraceEvents, chosen: list[Event]) -> Columns:
    return {
        "lane": _lanes(events, chosen),
        "name": events.work_names.codes([event.name for event in chosen]),
        "kernel": events.work_names.codes([demangle(event.args.kernel) for event in chosen]),
        "correlation": _ints([event.args.correlation for event in chosen]),
    }


def _work(events: TraceEvents, chosen: list[Event]) -> Columns:
    del events
    return {
        "device": _ints([event.args.device for event in chosen]),
        "stream": _ints([_stream(event.args) for event in chosen]),
        "correlation": _ints([event.args.correlation for event in chosen]),
    }


def _stream(args: Args) -> int:
    """Stream of the program; a replay runs the work of a graph in streams of its own."""
    return args.original_stream if args.original_stream >= 0 else args.stream


def _annotations(events: TraceEvents, chosen: list[Event]) -> Int32:
    """Codes of what ``torch.cuda.graph_annotations`` wrote to the nodes of graphs."""
    arguments = (event.args for event in chosen)
    return events.annotations.codes(
        [(args.name, args.autograd_phase == "backward") for args in arguments]
    )


def _syncs(events: TraceEvents, chosen: list[Event]) -> Columns:
    return _work(events, chosen) | {
        "record": _ints([event.args.record_id for event in chosen]),
        "record_stream": _ints([event.args.record_stream for event in chosen]),
    }


def _kernels(events: TraceEvents, chosen: list[Event]) -> Columns:
    unknown = (-1, -1, -1)
    grid = [event.args.grid or unknown for event in chosen]
    block = [event.args.block or unknown for event in chosen]
    # Kineto leaves very long names mangled.
    return _work(events, chosen) | {
        "name": events.work_names.codes([demangle(event.name) for event in chosen]),
        "lane": _ints([_number(event.tid) for event in chosen]),
        "grid": np.array(grid, dtype=np.int32).reshape(-1, 3),
        "block": np.array(block, dtype=np.int32).reshape(-1, 3),
        "call": np.array([_call_number(event.args.call_id) for event in chosen], dtype=np.int64),
        "annotation": _annotations(events, chosen),
        "message": _ints([message_bytes(e.args.message, e.args.message_type) for e in chosen]),
    }


def _call_number(call_id: int | str) -> int:
    """Number of a collective, which Kineto writes as 64 bits; -1: none."""
    try:
        number = int(call_id)
    except ValueError:
        return -1
    return number & _MAX_CALL if number != -1 else -1


def _memory(events: TraceEvents, chosen: list[Event]) -> Columns:
    written = [(event.name, event.args) for event in chosen]
    names = [
        copy_name(name, args.copy_kind, args.copy_source, args.copy_target)
        for name, args in written
    ]
    unknown = sum(args.copy_kind not in COPY_KINDS for _, args in written if args.copy_kind)
    if unknown:
        events.odd["copy kind"] += unknown
    return _work(events, chosen) | {
        "name": events.work_names.codes(names),
        "bytes": _ints([event.args.num_bytes for event in chosen]),
        "annotation": _annotations(events, chosen),
    }


_COLUMNS: Final[dict[str, Callable[[TraceEvents, list[Event]], Columns]]] = {
    "ranges": _ranges,
    "python": _python,
    "api": _api,
    "kernels": _kernels,
    "copies": _memory,
    "sets": _memory,
    "syncs": _syncs,
}
