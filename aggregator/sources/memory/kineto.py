"""Allocations in a trace of torch.profiler (``profile_memory=True``): its ``[memory]`` events."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from aggregator.errors import UnsupportedProfileError
from aggregator.metrics.memory.model import (
    OP_FILE,
    Action,
    DeviceTrace,
    Events,
    Int64,
    MemoryTrace,
    Stacks,
    no_blocks,
    no_segments,
)
from aggregator.sources.formats import corrupt
from aggregator.sources.kineto.system import base_ns
from aggregator.sources.kineto.trace_json import MEMORY_EVENT, TraceText
from aggregator.texts import say

_GPUS: Final = frozenset({1, 6, 12, 20})
"""Device types of CUDA, HIP, XPU and other accelerators."""
_ENGINE: Final = "autograd::engine::"
_OPTIMIZER: Final = "Optimizer.step"
_MOST_SIBLINGS: Final = 256
_NOTES: Final = ("", "F|", "B|", "O|")
_FORWARD, _BACKWARD, _OPTIMIZER_NOTE = 1, 2, 3


class _Args(msgspec.Struct, gc=False):
    kind: int = msgspec.field(name="Device Type", default=-1)
    device: int = msgspec.field(name="Device Id", default=-1)
    size: int = msgspec.field(name="Bytes", default=0)
    address: int = msgspec.field(name="Addr", default=0)
    allocated: int = msgspec.field(name="Total Allocated", default=-1)
    reserved: int = msgspec.field(name="Total Reserved", default=-1)


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str = ""
    name: str = ""
    tid: int | str = 0
    ts: Decimal | None = None
    dur: float | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")


class _Ops:
    """Ranges of ops and annotations, by thread."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, int, int, str]] = []

    def add(self, event: _Event) -> None:
        start = int((event.ts or Decimal(0)) * 1000)
        self.rows.append((str(event.tid), start, start + int((event.dur or 0) * 1000), event.name))

    def at(self, threads: list[str], times: Int64) -> tuple[list[str], list[int]]:
        """Return the innermost op and number of its note, for each of some moments."""
        engines = {thread for thread, _, _, name in self.rows if name.startswith(_ENGINE)}
        names, notes = [""] * len(threads), [0] * len(threads)
        by_thread: dict[str, list[tuple[int, int, str]]] = {}
        for thread, start, end, name in self.rows:
            by_thread.setdefault(thread, []).append((start, end, name))
        moments = np.array(threads)
        for thread, ranges in by_thread.items():
            own = np.flatnonzero(moments == thread)
            ranges.sort(key=lambda item: (item[0], -item[1]))
            starts = np.array([span[0] for span in ranges], dtype=np.int64)
            ends = np.array([span[1] for span in ranges], dtype=np.int64)
            is_op = np.array([not span[2].startswith(_OPTIMIZER) for span in ranges])
            found = _covering(starts, ends, is_op, times[own])
            steps = _covering(starts, ends, ~is_op, times[own])
            for place, op, step in zip(own.tolist(), found.tolist(), steps.tolist(), strict=True):
                names[place] = ranges[op][2] if op >= 0 else ""
                note = _BACKWARD if thread in engines else _FORWARD
                notes[place] = _OPTIMIZER_NOTE if step >= 0 else note if op >= 0 else 0
        return names, notes


def _covering(starts: Int64, ends: Int64, wanted: Any, times: Int64) -> Int64:
    """The last range of some that covers each moment; -1: none of the latest ones does."""
    chosen = np.flatnonzero(wanted)
    found = np.full(len(times), -1, dtype=np.int64)
    if not len(chosen):
        return found
    place = np.searchsorted(starts[chosen], times, side="right") - 1
    open_ = np.arange(len(times))
    for _ in range(_MOST_SIBLINGS):
        open_ = open_[place[open_] >= 0]
        covers = ends[chosen[place[open_]]] >= times[open_]
        found[open_[covers]] = chosen[place[open_[covers]]]
        open_ = open_[~covers]
        if not len(open_):
            break
        place[open_] -= 1
    return found


def read_trace(path: Path) -> MemoryTrace:
    """Read the allocations on GPUs of a trace.

    Raises:
        UnsupportedProfileError: The trace has none.
        CorruptProfileError: The trace is damaged.
    """
    decoder = msgspec.json.Decoder(list[_Event], strict=False)
    arguments = msgspec.json.Decoder(_Args, strict=False)
    ops, rows = _Ops(), []
    text = TraceText(path)
    for block in text.blocks():
        if MEMORY_EVENT not in block and b"cpu_op" not in block and b"Optimizer.step" not in block:
            continue
        try:
            events = decoder.decode(block)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise corrupt(path, error) from error
        for event in events:
            if event.name == MEMORY_EVENT.decode() and event.ts is not None:
                try:
                    rows.append((event, arguments.decode(event.args)))
                except msgspec.DecodeError as error:
                    raise corrupt(path, error) from error
            elif event.ph == "X" and event.ts is not None and _is_range(event):
                ops.add(event)
    rows = [row for row in rows if row[1].kind in _GPUS and row[1].device >= 0]
    if not rows:
        raise UnsupportedProfileError(
            say("'{path}' does not record the allocations of GPU memory.", path=path),
            hint=say("Record them with torch.profiler.profile(profile_memory=True)."),
        )
    found = _memory(ops, sorted(rows, key=lambda row: row[0].ts or Decimal(0)))
    return _shifted(found, base_ns(text.header))


def _shifted(memory: MemoryTrace, base: int) -> MemoryTrace:
    """Return the same with times since 1970, where the trace has the base of its clock."""
    devices = (
        replace(device, events=replace(device.events, time_ns=device.events.time_ns + base))
        for device in memory.devices
    )
    return replace(memory, devices=tuple(devices))


def _addresses(signed: Int64) -> Int64:
    """Make up addresses, which older traces lack: a release is of the latest of its size."""
    held: dict[int, list[int]] = {}
    found = []
    for number, size in enumerate(signed.tolist(), start=1):
        same = held.setdefault(abs(size), [])
        if size < 0:
            found.append(same.pop() if same else number)
        else:
            same.append(number)
            found.append(number)
    return np.array(found, dtype=np.int64)


def _is_range(event: _Event) -> bool:
    return event.cat.lower() in ("cpu_op", "operator") or event.name.startswith(_OPTIMIZER)


def _memory(ops: _Ops, rows: list[tuple[_Event, _Args]]) -> MemoryTrace:
    columns = np.array(
        [(row.device, row.size, row.address, row.allocated, row.reserved) for _, row in rows],
        dtype=np.int64,
    )
    device, signed, address, allocated, reserved = columns.T
    if not address.any():
        address = _addresses(signed)
    time_ns = np.array([int((event.ts or 0) * 1000) for event, _ in rows], dtype=np.int64)
    names, notes = ops.at([str(event.tid) for event, _ in rows], time_ns)
    distinct = {name: code for code, name in enumerate(dict.fromkeys(names))}
    texts = tuple(distinct)
    stacks = Stacks(
        names=texts,
        files=(OP_FILE,) * len(texts),
        lines=(0,) * len(texts),
        frames=((), *((code,) for code in range(len(texts)))),
    )
    events = Events(
        action=np.where(signed < 0, Action.FREE_REQUESTED, Action.ALLOC).astype(np.int8),
        address=address,
        size=np.abs(signed),
        time_ns=time_ns,
        stack=np.array([distinct[name] + 1 if name else 0 for name in names], dtype=np.int32),
        note=np.array(notes, dtype=np.int32),
    )
    devices = []
    for number in np.unique(device).tolist():
        own = np.flatnonzero(device == number)
        last = int(allocated[own[-1]])
        held = np.cumsum(signed[own])
        known = last if last >= 0 else int(held[-1]) - min(int(held.min()), 0)
        has_reserved = bool((reserved[own] >= 0).all())
        devices.append(
            DeviceTrace(
                device=number,
                events=events.part(own),
                blocks=no_blocks(),
                segments=no_segments(),
                end_allocated=known,
                reserved=reserved[own] if has_reserved else None,
            )
        )
    return MemoryTrace(tuple(devices), stacks=stacks, notes=_NOTES, source="kineto")
