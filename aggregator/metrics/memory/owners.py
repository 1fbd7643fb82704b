"""Ops and groups that hold the memory of the GPU at its peak."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np

from aggregator.events.store import EventStore
from aggregator.metrics.memory.analysis import Recording
from aggregator.metrics.memory.replay import NEVER
from aggregator.profile.arrays import NO_ROW, Int64

_PID: Final = re.compile(r"_memory_(\d+)\.pickle$")
_HALF_US: Final = 500
"""PyTorch records whole microseconds, rounded down. Unit: ns."""
_MOST_SIBLINGS: Final = 64


def peak_owners(
    store: EventStore, recordings: Sequence[Recording]
) -> tuple[dict[int, int], dict[str, int]]:
    """Return the bytes that ops, by row, and groups, by path, hold at the peak of recordings.

    The driver's allocations are the cache of PyTorch's allocator; where this was recorded too, they
    are not counted again.
    """
    own = [row for row in recordings if row.memory.source != "nsys"] or list(recordings)
    ops: dict[int, int] = defaultdict(int)
    groups: dict[str, int] = defaultdict(int)
    if own:
        instances = _Instances(store)
        for recording in own:
            _add(recording, instances, ops, groups)
    return ops, groups


class _Instances:
    """Instances of ops in order of start, and the paths of ops."""

    def __init__(self, store: EventStore) -> None:
        ops, calls = store.ops, store.op_calls()
        rows = np.flatnonzero((ops.domain == 0)[calls.op])
        self._calls = calls.rows(rows[np.argsort(calls.start_ns[rows], kind="stable")])
        pids = store.column("processes", "pid")
        self._pid = pids[store.process_of_thread[self._calls.thread]]
        self.names = {row: name for row, name in enumerate(ops.names) if ops.domain[row] == 0}
        self._groups: dict[str, str] = {}  # Groups by the ends of their paths.
        paths = {group for name in self.names.values() for group in groups_of(name)}
        for path in sorted(paths, key=lambda item: (len(item), item)):
            # An item of a list is a part of a path ("layers.0") or has two ("layers/0").
            parts = path.strip("/").replace("/", ".").split(".")
            for begin in range(len(parts)):
                self._groups.setdefault(".".join(parts[begin:]), path)

    def ops_at(self, moments: Int64, pid: int | None) -> Int64:
        """Return the innermost op at each moment; ``NO_ROW``: none of the latest ones."""
        calls = self._calls
        mine = np.ones(len(calls), dtype=np.bool_) if pid is None else self._pid == pid
        rows = np.flatnonzero(mine if mine.any() else ~mine)
        found = np.full(len(moments), NO_ROW, dtype=np.int64)
        place = np.searchsorted(calls.start_ns[rows], moments, side="right") - 1
        left = np.arange(len(moments))
        for _ in range(_MOST_SIBLINGS):
            left = left[place[left] >= 0]
            at = rows[place[left]]
            covers = calls.end_ns[at] >= moments[left]
            found[left[covers]] = calls.op[at[covers]]
            left = left[~covers]
            if not len(left):
                break
            place[left] -= 1
        return found

    def group_of(self, module: str) -> str:
        """The group of a module or of a tensor of it; empty: none has its path."""
        while module and module not in self._groups:
            module = module.rpartition(".")[0]
        return self._groups.get(module, "") if module else ""


def groups_of(op_name: str) -> list[str]:
    """Return the groups that an op is in, from the root on."""
    parts = op_name.split("/")
    return ["/".join(parts[:depth]) + "/" for depth in range(1, len(parts))]


def _add(
    recording: Recording, instances: _Instances, ops: dict[int, int], groups: dict[str, int]
) -> None:
    memory = recording.memory
    rows = np.flatnonzero(memory.at_peak)
    op = np.full(len(rows), NO_ROW, dtype=np.int64)
    event = memory.rows.alloc_event[rows]
    if recording.clock_offset_ns is not None:
        new = np.flatnonzero((event != NEVER) & ~memory.rows.is_rounding[rows])
        times = memory.time_ns[event[new]]
        shift = _HALF_US if memory.source == "snapshot" else 0
        pid = _PID.search(recording.source_file)
        moments = times - recording.clock_offset_ns + shift
        op[new] = np.where(
            times >= 0, instances.ops_at(moments, int(pid[1]) if pid else None), NO_ROW
        )
    size, module = memory.rows.size[rows], memory.whose.module[rows]
    for number in np.unique(op[op != NO_ROW]).tolist():
        ops[number] += int(size[op == number].sum())
    pairs, place = np.unique(np.stack([op, module]), axis=1, return_inverse=True)
    sums = np.zeros(pairs.shape[1], dtype=np.int64)
    np.add.at(sums, place.ravel(), size)
    known: dict[str, str] = {}
    for (number, code), total in zip(pairs.T.tolist(), sums.tolist(), strict=True):
        name = memory.whose.names[code]
        if name not in known:
            known[name] = instances.group_of(name)
        for group in groups_of(known[name] or instances.names.get(number, "/")):
            groups[group] += total
