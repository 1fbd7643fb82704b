"""Which ops and groups hold the memory of the GPU at its peak."""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from aggregator.dldb.column_blobs import read_columns
from aggregator.dldb.writer import Table, has_table
from aggregator.metrics.memory.analysis import Recording
from aggregator.metrics.memory.replay import NEVER
from aggregator.profile.arrays import Int64

_DEFAULT_DOMAIN: Final = 1
_PID: Final = re.compile(r"_memory_(\d+)\.pickle$")
_HALF_US: Final = 500
"""PyTorch records whole microseconds, rounded down. Unit: ns."""
_MOST_SIBLINGS: Final = 64
_NO_OP: Final = 0


def write_owners(connection: sqlite3.Connection, recordings: Sequence[Recording]) -> None:
    """Add the bytes at the peak of recordings to those of ops and groups.

    The driver's allocations are the cache of PyTorch's allocator; where this was recorded too, they
    are not counted again.
    """
    if not has_table(connection, "op_memory"):
        return
    own = [one for one in recordings if one.memory.source != "nsys"] or list(recordings)
    if not own:
        return
    instances = _Instances(connection)
    ops: dict[int, int] = defaultdict(int)
    groups: dict[str, int] = defaultdict(int)
    for recording in own:
        _add(recording, instances, ops, groups)
    for table in _tables(ops, groups):
        names = ", ".join(table.columns)
        key = next(iter(table.columns))
        marks = f"VALUES (:{', :'.join(table.columns)})"
        rows = zip(*table.columns.values(), strict=True)
        connection.executemany(
            f"INSERT INTO {table.name} ({names}) {marks} ON CONFLICT ({key})"
            " DO UPDATE SET peak_bytes = peak_bytes + excluded.peak_bytes",
            [dict(zip(table.columns, row, strict=True)) for row in rows],
        )


def _tables(ops: dict[int, int], groups: dict[str, int]) -> Iterator[Table]:
    yield Table("op_memory", {"op": list(ops), "peak_bytes": list(ops.values())})
    yield Table("group_memory", {"group_name": list(groups), "peak_bytes": list(groups.values())})


class _Instances:
    """Instances of ops in order of start, and the paths of ops."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        op, start, stop, thread = read_columns(
            connection, "op_instances", ("op", "start", "stop", "thread")
        )
        query = "SELECT id, op_name FROM ops WHERE domain = ?"
        self.names = {int(row[0]): str(row[1]) for row in connection.execute(query, (1,))}
        pids = connection.execute(
            "SELECT t.id, p.pid FROM threads AS t JOIN processes AS p ON p.id = t.process"
        ).fetchall()
        pid_of = np.zeros(max((row[0] for row in pids), default=0) + 1, dtype=np.int64)
        for number, pid in pids:
            pid_of[number] = pid
        rows = np.flatnonzero(np.isin(op, list(self.names)))
        rows = rows[np.argsort(start[rows], kind="stable")]
        self.op, self.start, self.stop = op[rows], start[rows], stop[rows]
        self.pid = pid_of[np.clip(thread[rows], 0, len(pid_of) - 1)]
        self._groups: dict[str, str] = {}  # Groups by the ends of their paths.
        paths = {group for name in self.names.values() for group in groups_of(name)}
        for path in sorted(paths, key=lambda one: (len(one), one)):
            # An item of a list is a part of a path ("layers.0") or has two ("layers/0").
            parts = path.strip("/").replace("/", ".").split(".")
            for begin in range(len(parts)):
                self._groups.setdefault(".".join(parts[begin:]), path)

    def ops_at(self, moments: Int64, pid: int | None) -> Int64:
        """The innermost op at each moment; ``_NO_OP``: none of the latest ones."""
        mine = np.ones(len(self.op), dtype=np.bool_) if pid is None else self.pid == pid
        rows = np.flatnonzero(mine if mine.any() else ~mine)
        found = np.full(len(moments), _NO_OP, dtype=np.int64)
        place = np.searchsorted(self.start[rows], moments, side="right") - 1
        left = np.arange(len(moments))
        for _ in range(_MOST_SIBLINGS):
            left = left[place[left] >= 0]
            at = rows[place[left]]
            covers = self.stop[at] >= moments[left]
            found[left[covers]] = self.op[at[covers]]
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
    """The groups that an op is in, from the root on."""
    parts = op_name.split("/")
    return ["/".join(parts[:depth]) + "/" for depth in range(1, len(parts))]


def _add(
    recording: Recording, instances: _Instances, ops: dict[int, int], groups: dict[str, int]
) -> None:
    memory = recording.memory
    rows = np.flatnonzero(memory.at_peak)
    op = np.full(len(rows), _NO_OP, dtype=np.int64)
    event = memory.rows.alloc_event[rows]
    if recording.clock_offset_ns is not None:
        new = np.flatnonzero((event != NEVER) & ~memory.rows.is_rounding[rows])
        times = memory.time_ns[event[new]]
        shift = _HALF_US if memory.source == "snapshot" else 0
        pid = _PID.search(recording.source_file)
        moments = times - recording.clock_offset_ns + shift
        op[new] = np.where(
            times >= 0, instances.ops_at(moments, int(pid[1]) if pid else None), _NO_OP
        )
    size, module = memory.rows.size[rows], memory.whose.module[rows]
    for number in np.unique(op[op != _NO_OP]).tolist():
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
