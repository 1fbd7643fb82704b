"""Ownership of the iterations of a profile, summed by owner: see ``metrics.ownership``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np

from aggregator.events.store import EventStore
from aggregator.metrics.ownership import Owned, OwnedWork, partition_iterations
from aggregator.metrics.ownership_columns import owned_work, read_host, used_devices
from aggregator.metrics.window import Window
from aggregator.profile.arrays import Int64, dense_codes, distinct
from aggregator.system.resources import map_threads, release_memory

_PART_ROWS: Final = 1 << 15
_MOST_IMPORTED_CELLS: Final = 1 << 24
"""Iterations times ops up to which an import computes the times: about 400 MB of them at most."""


@dataclass(frozen=True)
class Ownership:
    """Time of each owner in each iteration; the sum over all GPUs that ran work."""

    numbers: Int64  # Number of each iteration, ascending.
    devices: int  # GPUs that ran work in the profile.
    lengths_ns: Int64  # Length of each iteration. Unit: ns.
    kind: Int64  # Class of each owner: a code into ``CLASSES``.
    reason: Int64  # A code into ``reasons``.
    op: Int64  # Row of ops, from 0, or ``NO_ROW``.
    group: Int64  # Row of range_names, from 0, or ``NO_ROW``.
    reasons: tuple[str, ...]
    owned_ns: Int64  # Shape (iterations, owners). Unit: ns.

    def part(self, rows: Int64) -> Ownership:
        """Return some of the iterations, without owners that own nothing in them."""
        owned_ns = self.owned_ns[rows]
        kept = np.flatnonzero(owned_ns.any(axis=0))
        columns = {name: getattr(self, name)[kept] for name in ("kind", "reason", "op", "group")}
        return replace(
            self,
            numbers=self.numbers[rows],
            lengths_ns=self.lengths_ns[rows],
            **columns,
            owned_ns=owned_ns[:, kept],
        )


@dataclass(frozen=True)
class Span:
    """Iterations or steps; those of one phase of the work need not be consecutive."""

    numbers: Int64  # Number of each, ascending.
    edges_ns: Int64  # Starts of all from the first to the last, and the end of that. Unit: ns.
    places: Int64 | None = None  # Row of each among these; None: that of its number.

    @property
    def rows(self) -> Int64:
        """Row of each among all from the first to the last."""
        rows: Int64 = self.numbers - self.numbers[0] if self.places is None else self.places
        return rows

    @property
    def lengths_ns(self) -> Int64:
        """Length of each. Unit: ns."""
        lengths: Int64 = np.diff(self.edges_ns)[self.rows]
        return lengths

    def find(self, part: Span) -> Int64 | None:
        """Row of each iteration of another span; None: they are not the same iterations."""
        found = np.searchsorted(self.numbers, part.numbers)
        found = np.minimum(found, len(self.numbers) - 1)
        if not np.array_equal(self.numbers[found], part.numbers):
            return None
        here, there = self.rows[found], part.rows
        is_same = all(
            np.array_equal(self.edges_ns[here + side], part.edges_ns[there + side])
            for side in (0, 1)
        )
        return found if is_same else None


def window_span(window: Window) -> Span:
    """Return the aggregated iterations of a window."""
    low, high = int(window.numbers[0]), int(window.numbers[-1])
    iterations = window.iterations
    edges = np.append(iterations.start_ns[low : high + 1], iterations.end_ns[high])
    return Span(window.numbers, edges)


class OwnershipReader:
    """Partitions iterations on the GPUs that ran work."""

    def __init__(self, store: EventStore) -> None:
        calls, work = store.calls(), store.work()
        columns = read_host(store, work, calls)
        self._host = columns.host
        self._reasons = columns.reasons
        owned = owned_work(store, work, calls)
        self._work = {
            device: owned.rows(np.flatnonzero(work.device == device))
            for device in used_devices(work)
        }
        groups = max((int(row[0]) for row in store.values("range_names", "id")), default=0)
        self._keys = _Keys(len(store.ops), groups, len(columns.reasons))
        del calls, work, owned, store
        release_memory()

    @property
    def devices(self) -> tuple[int, ...]:
        """Rows of the GPUs."""
        return tuple(self._work)

    def read(self, span: Span, devices: Sequence[int]) -> Ownership:
        """Partition iterations on some of the GPUs."""
        works = [self._work[device] for device in devices]

        def part(edges: Int64) -> tuple[Int64, Int64]:
            low, high = int(edges[0]), int(edges[-1])
            host = self._host.between(low, high)
            owned = [partition_iterations(work.around(low, high), host, edges) for work in works]
            return self._keys.summed(owned, len(edges) - 1)

        owner, owned_ns = _merged(map_threads(part, _parts(works, span.edges_ns)))
        count = len(span.edges_ns) - 1
        found = Ownership(
            numbers=np.arange(count),
            devices=len(works),
            lengths_ns=np.diff(span.edges_ns),
            **self._keys.split(owner),
            reasons=self._reasons,
            owned_ns=owned_ns,
        )
        chosen = found if len(span.numbers) == count else found.part(span.rows)
        return replace(chosen, numbers=span.numbers)


def _read_all(reader: OwnershipReader, span: Span) -> Ownership:
    return reader.read(span, reader.devices)


def read_all_ownership(store: EventStore, spans: Sequence[Span]) -> list[Ownership | None]:
    """The ownership of several aggregations; None: no GPU worked, or it would take much memory."""
    done: list[tuple[Span, Ownership | None]] = []
    reader: OwnershipReader | None = None
    ops = len(store.ops)
    for span in spans:
        found, rows = None, None
        for whole, other in done:
            if other is not None and (rows := whole.find(span)) is not None:
                found = other.part(rows)
                break
        if rows is None and (len(span.edges_ns) - 1) * ops <= _MOST_IMPORTED_CELLS:
            reader = reader or OwnershipReader(store)
            found = _read_all(reader, span)
        done.append((span, found if found is not None and found.owned_ns.size else None))
    return [found for _, found in done]


def _parts(devices: list[OwnedWork], edges_ns: Int64) -> Iterator[Int64]:
    """Yield edges of iterations in parts, so that the temporary columns of each fit the cache."""
    starts = np.sort(np.concatenate([device.start_ns for device in devices] or [edges_ns[:0]]))
    before = np.searchsorted(starts, edges_ns) // _PART_ROWS
    heads = np.flatnonzero(np.diff(before[:-1], prepend=-1))
    for low, high in pairwise([*heads.tolist(), len(edges_ns) - 1]):
        yield edges_ns[low : high + 1]


class _Keys:
    """One number for each owner; it has an op, or the group around what is no op, or neither."""

    def __init__(self, ops: int, groups: int, reasons: int) -> None:
        self._ops = ops
        self._width = ops + groups + 1
        self._reasons = reasons

    def summed(self, owned: list[Owned], count: int) -> tuple[Int64, Int64]:
        """Return the owners of a part, and their times in each of its ``count`` iterations."""
        if not owned:
            return np.empty(0, dtype=np.int64), np.empty((count, 0), dtype=np.int64)
        owner, code = dense_codes(np.concatenate([self._key(part) for part in owned]))
        cell = np.concatenate([part.iteration for part in owned]) * len(owner) + code
        length = np.concatenate([part.length_ns for part in owned])
        # Sums of doubles are exact below 2**53 ns, which is 104 days.
        sums = np.bincount(cell, weights=length, minlength=count * len(owner))
        return owner, sums.astype(np.int64).reshape(count, -1)

    def _key(self, owned: Owned) -> Int64:
        what = np.where(owned.group < 0, owned.op, owned.group + self._ops)
        key: Int64 = (owned.kind * self._reasons + owned.reason) * self._width + what + 1
        return key

    def split(self, owner: Int64) -> dict[str, Int64]:
        """Return the columns of the owners."""
        owner, what = np.divmod(owner, self._width)
        kind, reason = np.divmod(owner, self._reasons)
        what -= 1
        is_group = what >= self._ops
        op, group = np.where(is_group, -1, what), np.where(is_group, what - self._ops, -1)
        return {"kind": kind, "reason": reason, "op": op, "group": group}


def _merged(parts: list[tuple[Int64, Int64]]) -> tuple[Int64, Int64]:
    owner = distinct(np.concatenate([keys for keys, _ in parts]))
    count = sum(len(sums) for _, sums in parts)
    result = np.zeros((count, len(owner)), dtype=np.int64)
    row = 0
    for keys, sums in parts:
        result[row : row + len(sums), np.searchsorted(owner, keys)] = sums
        row += len(sums)
    return owner, result
