"""The memory of a device over a recording, replayed and attributed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from aggregator.metrics.memory.attribution import Attribution, attribute
from aggregator.metrics.memory.kinds import EVIDENCE_TEXTS, KIND_NAMES, Kind
from aggregator.metrics.memory.model import Action, Blocks, Int64, MemoryTrace, Stacks
from aggregator.metrics.memory.phases import PHASE_NAMES, read_stacks
from aggregator.metrics.memory.replay import (
    NEVER,
    Allocations,
    Replay,
    pair_allocations,
    replay,
)

_NO_ADDRESSES: Final = np.zeros(0, dtype=np.int64)
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Owner:
    """Allocations of one module, op and kind."""

    module: str  # "" if unknown.
    op: str  # "" if unknown.
    kind: Kind
    size: int  # Unit: bytes.
    count: int  # Number of allocations.
    largest: int  # Row of one of the largest of them.

    @property
    def name(self) -> str:
        """Module and op."""
        return ": ".join(filter(None, (self.module, self.op))) or "(unknown)"


@dataclass(frozen=True)
class DeviceMemory:
    """One device: its counts after each event, and whose each allocation is."""

    device: int  # Number of the device, as its process counts.
    source: str  # "snapshot", "nsys" or "kineto".
    time_ns: Int64  # Of each event, since 1970 or on the source's own clock; -1: not recorded.
    counts: Replay
    rows: Allocations
    whose: Attribution
    blocks: Blocks  # At the end.
    stacks: Stacks
    failures: int = 0  # Requests that failed because the memory was exhausted.
    failed_bytes: int = 0  # The largest of them.

    @cached_property
    def at_peak(self) -> Bool:
        """Which allocations live at the peak."""
        return self.rows.alive_after(self.counts.peak_event)

    @property
    def peak_at_ns(self) -> int | None:
        """Time of the peak, if it was recorded. Unit: ns since 1970."""
        event = self.counts.peak_event
        time_ns = int(self.time_ns[max(event, 0)]) if len(self.time_ns) else -1
        return None if time_ns < 0 else time_ns

    def bytes_by_kind(self, alive: Bool) -> dict[str, int]:
        """Return the bytes of some allocations by kind, all kinds that occur, the largest first."""
        sums = np.zeros(len(KIND_NAMES), dtype=np.int64)
        np.add.at(sums, self.whose.kind[alive], self.rows.size[alive])
        return named_kinds(sums)

    def bytes_at(self, events: Int64) -> Int64:
        """Return the bytes by kind after each of some events in order; shape (events, kinds)."""
        begin = np.searchsorted(events, self.rows.alloc_event)
        free = np.where(self.rows.free_event == NEVER, self.num_events, self.rows.free_event)
        end = np.searchsorted(events, free)
        found = np.zeros((len(events) + 1, len(KIND_NAMES)), dtype=np.int64)
        np.add.at(found, (begin, self.whose.kind), self.rows.size)
        np.subtract.at(found, (end, self.whose.kind), self.rows.size)
        return np.cumsum(found[:-1], axis=0)

    def evidence(self, alive: Bool) -> dict[str, str]:
        """Return why some allocations have their kind, by kind: the reason of most bytes."""
        whose, found = self.whose, {}
        for kind, name in enumerate(KIND_NAMES):
            own = alive & (whose.kind == kind)
            sums = np.bincount(whose.evidence[own], weights=self.rows.size[own].astype(float))
            if len(sums):
                found[name] = EVIDENCE_TEXTS[int(sums.argmax())]
        return found

    def bytes_by_phase(self, alive: Bool) -> dict[str, int]:
        """Return the bytes of some allocations by the phase that allocated them."""
        sums = np.zeros(len(PHASE_NAMES), dtype=np.int64)
        np.add.at(sums, self.whose.phase[alive], self.rows.size[alive])
        return {name: int(size) for name, size in zip(PHASE_NAMES, sums, strict=True) if size}

    def owners(self, alive: Bool) -> list[Owner]:
        """Return some allocations by module, op and kind, the largest first."""
        whose, rows = self.whose, np.flatnonzero(alive)
        keys = np.stack([whose.module[rows], whose.op[rows], whose.kind[rows]])
        distinct, owner = np.unique(keys, axis=1, return_inverse=True)
        owner = owner.ravel()
        sizes = np.zeros(distinct.shape[1], dtype=np.int64)
        np.add.at(sizes, owner, self.rows.size[rows])
        counts = np.bincount(owner, minlength=len(sizes))
        largest = np.zeros(len(sizes), dtype=np.int64)
        by_size = np.argsort(self.rows.size[rows], kind="stable")
        largest[owner[by_size]] = rows[by_size]
        return [
            Owner(
                module=whose.names[distinct[0, place]],
                op=whose.names[distinct[1, place]],
                kind=Kind(distinct[2, place]),
                size=int(sizes[place]),
                count=int(counts[place]),
                largest=int(largest[place]),
            )
            for place in np.argsort(-sizes, kind="stable").tolist()
        ]

    def is_named(self) -> Bool:
        """Return which allocations have a kind, and a module or an op."""
        whose = self.whose
        return np.asarray((whose.kind != Kind.UNKNOWN) & ((whose.module > 0) | (whose.op > 0)))

    @property
    def num_events(self) -> int:
        """Number of events."""
        return len(self.time_ns)

    @property
    def unnamed_bytes_at_peak(self) -> int:
        """Bytes at the peak of which the kind, or both the module and the op, are unknown."""
        return int(self.rows.size[self.at_peak & ~self.is_named()].sum())


@dataclass(frozen=True)
class Recording:
    """The memory of a device, and where it was recorded."""

    memory: DeviceMemory
    source_file: str  # Name of the file.
    clock_offset_ns: int | None  # Time 0 of the profile on its clock; None: unknown.


def named_kinds(sums: Int64) -> dict[str, int]:
    """Return the bytes of each kind, all kinds that occur, the largest first."""
    order = sorted(range(len(sums)), key=lambda kind: (-int(sums[kind]), kind))
    return {KIND_NAMES[kind]: int(sums[kind]) for kind in order if sums[kind]}


def analyze(memory: MemoryTrace) -> tuple[DeviceMemory, ...]:
    """Replay and attribute the recording of each device."""
    meanings = read_stacks(memory.stacks)
    found = []
    # Columns of the events are released as soon as they are not needed any more.
    traces, memory = list(memory.devices), replace(memory, devices=())
    while traces:
        trace = traces.pop(0)
        rows = pair_allocations(trace)
        trace = replace(trace, events=replace(trace.events, address=_NO_ADDRESSES))
        whose = attribute(memory, trace, rows, meanings)
        failed = trace.events.action == Action.OUT_OF_MEMORY
        found.append(
            DeviceMemory(
                device=trace.device,
                source=memory.source,
                time_ns=trace.events.time_ns,
                counts=replay(trace),
                rows=rows,
                whose=whose,
                blocks=trace.blocks,
                stacks=memory.stacks,
                failures=int(failed.sum()),
                failed_bytes=int(trace.events.size[failed].max(initial=0)),
            )
        )
    return tuple(found)


__all__ = ["NEVER", "DeviceMemory", "Owner", "Recording", "analyze", "named_kinds"]
