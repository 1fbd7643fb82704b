"""Events of a Kineto trace as columns, one part of the text after another."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from aggregator.columns import drained, narrow
from aggregator.demangling import demangled
from aggregator.sources.kineto_arguments import WITH_PARAMETERS, Arguments
from aggregator.sources.kineto_json import Decoder, Event, ExactEvent, TraceText, damaged
from aggregator.sources.kineto_names import MODULE_PREFIX, thread_name

if TYPE_CHECKING:
    from aggregator.profile import Float64, Int32, Int64, Integers
    from aggregator.progress import Progress

EXACT_BELOW_US: Final = float(1 << 43)
"""Below it float64 tells thousandths of a microsecond apart."""
_MAX_NS: Final = 1 << 61
"""Sums and differences of two such times still are 64-bit integers."""
_KINDS: Final = {
    "cpu_op": "ranges",
    "operator": "ranges",
    "user_annotation": "ranges",
    "python_function": "python",
    "cuda_runtime": "api",
    "cuda_driver": "api",
    "runtime": "api",
    "driver": "api",
    "kernel": "kernels",
    "gpu_memcpy": "copies",
    "memcpy": "copies",
    "gpu_memset": "sets",
    "memset": "sets",
    "cuda_sync": "syncs",
}
"""What a category of events becomes; PyTorch before 1.12 wrote them with capitals."""
_WRAPPER: Final = "autograd::engine::"
_ADDRESS: Final = re.compile(r" (?:object )?at 0x[0-9a-fA-F]+")

Columns = dict[str, Any]


@dataclass
class Names:
    """Distinct texts and their codes, in order of first use."""

    code_of: dict[Any, int] = field(default_factory=dict)

    def codes(self, texts: list[Any]) -> Int32:
        """Codes of texts, new or known."""
        code_of = self.code_of
        return np.array([code_of.setdefault(text, len(code_of)) for text in texts], dtype=np.int32)

    def values(self) -> list[Any]:
        """All texts by code."""
        return list(self.code_of)


@dataclass
class TraceEvents:
    """All events of a trace.

    Attributes:
        tables: Kind -> column -> values; times in ns as recorded.
        names: Range texts.
        work_names: Names of calls, kernels, copies and sets.
        shapes: Arguments as written.
        stacks: ``Call stack`` texts.
        lanes: Pairs of process and thread as written.
        thread_names: By pair of process and thread.
        unused: How many complete events there were of each category that is not read.
        broken: Complete events without a time.
        reversed: Events that ended before they began.
        header: What stands beside the events.
    """

    tables: dict[str, Columns] = field(default_factory=dict)
    names: Names = field(default_factory=Names)
    work_names: Names = field(default_factory=Names)
    shapes: Names = field(default_factory=Names)
    stacks: Names = field(default_factory=Names)
    lanes: Names = field(default_factory=Names)
    thread_names: dict[tuple[Any, Any], str] = field(default_factory=dict)
    unused: Counter[str] = field(default_factory=Counter)
    broken: int = 0
    reversed: int = 0
    header: dict[str, Any] = field(default_factory=dict)


def read_events(text: TraceText, progress: Progress) -> TraceEvents:
    """Read all events of a trace.

    Raises:
        ProfileError: The text is no trace, or is damaged.
    """
    reader = _Reader(text)
    for part in text.parts():
        progress.advance(reader.add(part))
    return reader.finish()


class _Reader:
    """Collects the columns."""

    def __init__(self, text: TraceText) -> None:
        self._text = text
        self._decoder = Decoder(text.path, exact=False)
        self._times: Callable[[list[Any]], tuple[Int64, Int64]] = _plain_times
        self._events = TraceEvents()
        self._parts: dict[str, dict[str, list[Integers]]] = {
            kind: defaultdict(list) for kind in (*_COLUMNS,)
        }

    def add(self, part: bytes) -> int:
        """Add a part; returns how many events it holds."""
        events = self._decoder.decode(part)
        if self._times is _plain_times and any(
            event.ts is not None and event.ts >= EXACT_BELOW_US for event in events
        ):
            # Since 1970: sixteen digits before the point.
            self._decoder = Decoder(self._text.path, exact=True)
            self._times = self._exact_times
            events = self._decoder.decode(part)
        for kind, chosen in self._sorted(events).items():
            self._take(kind, chosen)
        return len(events)

    def _sorted(self, events: list[Event]) -> dict[str, list[Event]]:
        groups: dict[str, list[Event]] = defaultdict(list)
        for event in events:
            if event.ph == "X":
                groups[event.cat].append(event)
            elif event.ph == "M" and event.name == "thread_name":
                key = (event.pid, event.tid)
                self._events.thread_names[key] = thread_name(event.args.name)
        kinds: dict[str, list[Event]] = defaultdict(list)
        for category, chosen in groups.items():
            kind = _KINDS.get(category.lower())
            if kind is None:
                self._events.unused[category or "(none)"] += len(chosen)
            else:
                kinds[kind] += chosen
        return kinds

    def _take(self, kind: str, events: list[Event]) -> None:
        whole = [event for event in events if _has_times(event)]
        self._events.broken += len(events) - len(whole)
        if not whole:
            return
        start, length = self._times(whole)
        if max(np.abs(start).max(), np.abs(length).max()) > _MAX_NS:
            raise damaged(self._text.path, "a time is out of range")
        self._events.reversed += int(np.count_nonzero(length < 0))
        parts = self._parts[kind]
        parts["start"].append(start)
        parts["end"].append(start + np.maximum(length, 0))
        try:
            columns = _COLUMNS[kind](self._events, whole)
        except OverflowError as error:
            raise damaged(self._text.path, "a number is out of range") from error
        for name, column in columns.items():
            parts[name].append(narrow(column) if column.ndim == 1 else column)

    def _exact_times(self, events: list[Any]) -> tuple[Int64, Int64]:
        try:
            start = [_nanoseconds(bytes(event.ts)) for event in events]
            length = [_nanoseconds(bytes(event.dur)) for event in events]
            return np.array(start, dtype=np.int64), np.array(length, dtype=np.int64)
        except (InvalidOperation, OverflowError, ValueError) as error:
            raise damaged(self._text.path, "a time is no number") from error

    def finish(self) -> TraceEvents:
        """All columns, joined."""
        for kind, parts in self._parts.items():
            columns = {name: drained(arrays) for name, arrays in parts.items()}
            self._events.tables[kind] = columns or _no_rows(kind)
        self._events.header = self._text.header
        return self._events


def _has_times(event: Event) -> bool:
    if isinstance(event, ExactEvent):
        return bytes(event.ts) not in (b"", b"null") and bytes(event.dur) not in (b"", b"null")
    return event.ts is not None and event.dur is not None


def _no_rows(kind: str) -> Columns:
    empty = np.empty(0, dtype=np.int64)
    return {"start": empty, "end": empty} | _COLUMNS[kind](TraceEvents(), [])


def _plain_times(events: list[Event]) -> tuple[Int64, Int64]:
    start = np.array([event.ts for event in events], dtype=np.float64)
    length = np.array([event.dur for event in events], dtype=np.float64)
    return _whole_ns(start), _whole_ns(length)


def _whole_ns(times_us: Float64) -> Int64:
    """Microseconds as ns; what no integer holds becomes a time that is out of range."""
    ns = np.nan_to_num(np.rint(times_us * 1e3), nan=2.0 * _MAX_NS)
    whole: Int64 = np.clip(ns, -2 * _MAX_NS, 2 * _MAX_NS).astype(np.int64)
    return whole


def _nanoseconds(text: bytes) -> int:
    return int((Decimal(text.decode().strip('"')) * 1000).to_integral_value())


def _lanes(events: TraceEvents, chosen: list[Event]) -> Int32:
    return events.lanes.codes([(event.pid, event.tid) for event in chosen])


def _ints(values: list[int]) -> Int64:
    return np.array(values, dtype=np.int64)


def _ranges(events: TraceEvents, chosen: list[Event]) -> Columns:
    # A wrapper carries the number of its node here, and none under emit_nvtx.
    seq = [-1 if event.name.startswith(_WRAPPER) else event.args.seq for event in chosen]
    shapes = [_arguments(event) for event in chosen]
    return {
        "lane": _lanes(events, chosen),
        "name": events.names.codes([event.name for event in chosen]),
        "seq": _ints(seq),
        "shapes": events.shapes.codes(shapes),
        "stack": events.stacks.codes([event.args.call_stack for event in chosen]),
    }


def _arguments(event: Event) -> Arguments:
    args = event.args
    named = event.name in WITH_PARAMETERS
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
        "name": events.names.codes(names),
        "module": np.array([name.startswith(MODULE_PREFIX) for name in names], dtype=np.int8),
    }


def _api(events: TraceEvents, chosen: list[Event]) -> Columns:
    return {
        "lane": _lanes(events, chosen),
        "name": events.work_names.codes([event.name for event in chosen]),
        "correlation": _ints([event.args.correlation for event in chosen]),
    }


def _work(events: TraceEvents, chosen: list[Event]) -> Columns:
    del events
    return {
        "device": _ints([event.args.device for event in chosen]),
        "stream": _ints([event.args.stream for event in chosen]),
        "correlation": _ints([event.args.correlation for event in chosen]),
    }


def _kernels(events: TraceEvents, chosen: list[Event]) -> Columns:
    nothing = (-1, -1, -1)
    grid = [event.args.grid or nothing for event in chosen]
    block = [event.args.block or nothing for event in chosen]
    # Kineto leaves very long names as the compiler wrote them.
    return _work(events, chosen) | {
        "name": events.work_names.codes([demangled(event.name) for event in chosen]),
        "grid": np.array(grid, dtype=np.int32).reshape(-1, 3),
        "block": np.array(block, dtype=np.int32).reshape(-1, 3),
    }


def _memory(events: TraceEvents, chosen: list[Event]) -> Columns:
    return _work(events, chosen) | {
        "name": events.work_names.codes([event.name for event in chosen]),
        "bytes": _ints([event.args.num_bytes for event in chosen]),
    }


_COLUMNS: Final[dict[str, Callable[[TraceEvents, list[Event]], Columns]]] = {
    "ranges": _ranges,
    "python": _python,
    "api": _api,
    "kernels": _kernels,
    "copies": _memory,
    "sets": _memory,
    "syncs": _work,
}
