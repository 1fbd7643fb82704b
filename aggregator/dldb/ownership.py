"""Computes from the stored columns who owns each nanosecond of an aggregation's iterations.

Nothing of it is stored: it takes about as long as reading the columns.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from aggregator.dldb.ownership_columns import HostColumns, Launches, read_host, read_work
from aggregator.errors import IterationRangeError
from aggregator.metrics.ownership import CLASSES, DeviceWork, Owned, own
from aggregator.profile.arrays import Int64
from aggregator.texts import say

_PART_ROWS: Final = 1 << 15
_OPS: Final = 1 << 32  # Rows of ops are fewer.


@dataclass(frozen=True)
class Ownership:
    """Time of each owner in each iteration; the sum over all GPUs that ran work."""

    first: int  # First iteration.
    last: int  # Last iteration, inclusive.
    devices: int  # GPUs that ran work in the profile.
    lengths_ns: Int64  # Length of each iteration. Unit: ns.
    kind: Int64  # Class of each owner: a code into ``CLASSES``.
    reason: Int64  # A code into ``reasons``.
    op: Int64  # Row of ops, from 0; -1: none.
    group: Int64  # Row of range_names, from 0; -1: none.
    reasons: tuple[str, ...]
    owned_ns: Int64  # Shape (iterations, owners). Unit: ns.


@dataclass(frozen=True)
class Span:
    """Consecutive iterations of an aggregation."""

    first: int
    last: int  # Inclusive.
    edges_ns: Int64  # Starts, and the end of the last one. Unit: ns.


def read_span(
    connection: sqlite3.Connection, aggr: int, first: int | None = None, last: int | None = None
) -> Span:
    """The iterations of an aggregation, or others that its key node cuts.

    Raises:
        IterationRangeError: The profile lacks some of them.
    """
    query = "SELECT iter_value, aggregated, start, stop FROM iterations WHERE aggr = ? ORDER BY 1"
    rows = np.array(connection.execute(query, (aggr,)).fetchall(), dtype=np.int64).reshape(-1, 4)
    chosen = rows[:, 1] != 0
    if first is not None and last is not None:
        chosen = (rows[:, 0] >= first) & (rows[:, 0] <= last)
        if last < first or np.count_nonzero(chosen) != last - first + 1:
            raise IterationRangeError(
                say(
                    "The iteration range {first} to {last} lies outside the profile.",
                    first=first,
                    last=last,
                ),
                hint=say(
                    "The profile has the iterations 0 to {final}.", final=int(rows[:, 0].max())
                ),
            )
    rows = rows[chosen]
    return Span(int(rows[0, 0]), int(rows[-1, 0]), np.append(rows[:, 2], rows[-1, 3]))


def read_ownership(connection: sqlite3.Connection, span: Span) -> Ownership:
    """Partition consecutive iterations on every GPU that ran work."""
    launches = Launches.read(connection)
    work = read_work(connection, launches)
    columns = read_host(connection, launches)
    del launches
    devices = [work.of(device) for device in work.used()]
    del work
    keys = _Keys(columns)
    parts = []
    for edges in _parts(devices, span.edges_ns):
        low, high = int(edges[0]), int(edges[-1])
        host = columns.host.between(low, high)
        owned = [own(one.around(low, high), host, edges) for one in devices]
        parts.append(keys.summed(owned, len(edges) - 1))
    owner, owned_ns = _merged(parts)
    return Ownership(
        first=span.first,
        last=span.last,
        devices=len(devices),
        lengths_ns=np.diff(span.edges_ns),
        **keys.split(owner),
        reasons=columns.reasons,
        owned_ns=owned_ns,
    )


def _parts(devices: list[DeviceWork], edges_ns: Int64) -> Iterator[Int64]:
    """Edges of iterations in parts, so that the temporary columns of each fit the cache."""
    starts = np.sort(np.concatenate([one.start_ns for one in devices] or [edges_ns[:0]]))
    before = np.searchsorted(starts, edges_ns) // _PART_ROWS
    heads = np.flatnonzero(np.diff(before[:-1], prepend=-1))
    for low, high in pairwise([*heads.tolist(), len(edges_ns) - 1]):
        yield edges_ns[low : high + 1]


class _Keys:
    """One number for each owner."""

    def __init__(self, columns: HostColumns) -> None:
        groups = columns.host.groups.name
        self._widths = {
            "kind": len(CLASSES) + 1,
            "reason": len(columns.reasons) + 1,
            "op": _OPS,
            "group": int(groups.max(initial=0)) + 2,
        }

    def summed(self, owned: list[Owned], count: int) -> tuple[Int64, Int64]:
        """The owners of a part, and their times in each of its ``count`` iterations."""
        if not owned:
            return np.empty(0, dtype=np.int64), np.empty((count, 0), dtype=np.int64)
        key = np.concatenate([self._key(one) for one in owned])
        owner, code = _codes(key)
        cell = np.concatenate([one.iteration for one in owned]) * len(owner) + code
        length = np.concatenate([one.length_ns for one in owned])
        # Sums of doubles are exact below 2**53 ns, which is 104 days.
        sums = np.bincount(cell, weights=length, minlength=count * len(owner))
        return owner, sums.astype(np.int64).reshape(count, -1)

    def _key(self, owned: Owned) -> Int64:
        key = np.zeros(len(owned.kind), dtype=np.int64)
        for name, width in self._widths.items():
            key = key * width + getattr(owned, name) + 1
        return key

    def split(self, owner: Int64) -> dict[str, Int64]:
        """The columns of the owners."""
        columns = {}
        for name in tuple(self._widths)[::-1]:
            owner, code = np.divmod(owner, self._widths[name])
            columns[name] = code - 1
        return columns


def _merged(parts: list[tuple[Int64, Int64]]) -> tuple[Int64, Int64]:
    owner, _ = _codes(np.concatenate([keys for keys, _ in parts]))
    count = sum(len(sums) for _, sums in parts)
    result = np.zeros((count, len(owner)), dtype=np.int64)
    row = 0
    for keys, sums in parts:
        result[row : row + len(sums), np.searchsorted(owner, keys)] = sums
        row += len(sums)
    return owner, result


def _codes(values: Int64) -> tuple[Int64, Int64]:
    """Distinct values in order, and which of them each is; by sorting, which needs no table."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    is_head = np.ones(len(ordered), dtype=bool)
    is_head[1:] = ordered[1:] > ordered[:-1]
    code = np.empty(len(values), dtype=np.int64)
    code[order] = np.cumsum(is_head) - 1
    return ordered[is_head], code
