"""Who owns each nanosecond of an aggregation's iterations.

An import computes it for its aggregations and stores it. For other aggregations it is part of what
is stored if they cut the profile at the same key node; else it is computed at first use, and
``store_ownership`` keeps it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from aggregator.dldb.column_blobs import decoded, narrowed
from aggregator.dldb.guarded import DAMAGE
from aggregator.dldb.ownership_columns import (
    Launches,
    StoredTables,
    Tables,
    read_host,
    read_work,
)
from aggregator.dldb.writer import Table, aggregation_transaction, has_table, insert_rows
from aggregator.errors import IterationRangeError
from aggregator.metrics.ownership import CLASSES, DeviceWork, Owned, partition_iterations
from aggregator.metrics.ownership_host import REASONS
from aggregator.metrics.window import Window
from aggregator.profile.arrays import Int64, dense_codes, distinct
from aggregator.system.resources import map_threads, release_memory
from aggregator.system.sqlite_uri import connect_read_only
from aggregator.texts import say

_PART_ROWS: Final = 1 << 15
_STORED_CELLS: Final = 1 << 18
"""Times in one stored array: two megabytes at most."""
_MOST_CELLS: Final = 1 << 27
"""Times of an aggregation that are stored: one gigabyte at most."""
_MOST_IMPORTED_CELLS: Final = 1 << 24
"""Iterations times ops up to which an import computes the times: about 400 MB of them at most."""
_LOCK_WAIT_S: Final = 1.0


@dataclass(frozen=True)
class Ownership:
    """Time of each owner in each iteration; the sum over all GPUs that ran work."""

    numbers: Int64  # Number of each iteration, ascending.
    devices: int  # GPUs that ran work in the profile.
    lengths_ns: Int64  # Length of each iteration. Unit: ns.
    kind: Int64  # Class of each owner: a code into ``CLASSES``.
    reason: Int64  # A code into ``reasons``.
    op: Int64  # Row of ops, from 0; -1: none.
    group: Int64  # Row of range_names, from 0; -1: none.
    reasons: tuple[str, ...]
    owned_ns: Int64  # Shape (iterations, owners). Unit: ns.

    def part(self, rows: Int64) -> Ownership:
        """Some of the iterations, without owners that own nothing in them."""
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
    """Iterations of a key node; those of one phase of the work need not be consecutive."""

    numbers: Int64  # Number of each, ascending.
    edges_ns: Int64  # Starts of all from the first to the last, and the end of that. Unit: ns.

    @property
    def rows(self) -> Int64:
        """Row of each among all from the first to the last."""
        rows: Int64 = self.numbers - self.numbers[0]
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
    """The aggregated iterations of a window."""
    low, high = int(window.numbers[0]), int(window.numbers[-1])
    iterations = window.iterations
    edges = np.append(iterations.start_ns[low : high + 1], iterations.end_ns[high])
    return Span(window.numbers, edges)


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
    numbers = rows[chosen, 0]
    rows = rows[(rows[:, 0] >= numbers[0]) & (rows[:, 0] <= numbers[-1])]
    return Span(numbers, np.append(rows[:, 2], rows[-1, 3]))


class OwnershipReader:
    """Partitions iterations on the GPUs that ran work."""

    def __init__(self, tables: Tables) -> None:
        launches = Launches.read(tables)
        work = read_work(tables, launches)
        columns = read_host(tables, launches)
        self._host = columns.host
        self._reasons = columns.reasons
        self._work = {device: work.of(device) for device in work.used()}
        del launches, work
        release_memory()
        ops, groups = (
            max((int(row[0]) for row in tables.values(name, ("id",))), default=0)
            for name in ("ops", "range_names")
        )
        self._keys = _Keys(ops, groups, len(columns.reasons))

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
            owned = [partition_iterations(one.around(low, high), host, edges) for one in works]
            return self._keys.summed(owned, len(edges) - 1)

        owner, owned_ns = _merged(map_threads(part, _parts(works, span.edges_ns)))
        count = len(span.edges_ns) - 1
        found = Ownership(
            numbers=np.arange(count) + span.numbers[0],
            devices=len(works),
            lengths_ns=np.diff(span.edges_ns),
            **self._keys.split(owner),
            reasons=self._reasons,
            owned_ns=owned_ns,
        )
        return found if len(span.numbers) == count else found.part(span.rows)


def read_ownership(connection: sqlite3.Connection, span: Span) -> Ownership:
    """Partition iterations on every GPU that ran work."""
    return _read_all(OwnershipReader(StoredTables(connection)), span)


def _read_all(reader: OwnershipReader, span: Span) -> Ownership:
    return reader.read(span, reader.devices)


def read_stored_ownership(path: Path, spans: Sequence[Span]) -> list[Ownership | None]:
    """As ``read_all_ownership``, of a database."""
    with closing(connect_read_only(path)) as connection:
        return read_all_ownership(StoredTables(connection), spans)


def read_all_ownership(tables: Tables, spans: Sequence[Span]) -> list[Ownership | None]:
    """The ownership of several aggregations; None: no GPU worked, or it would take much memory."""
    done: list[tuple[Span, Ownership | None]] = []
    reader: OwnershipReader | None = None
    ops = len(tables.values("ops", ("id",)))
    for span in spans:
        found, rows = None, None
        for whole, other in done:
            if other is not None and (rows := whole.find(span)) is not None:
                found = other.part(rows)
                break
        if rows is None and (len(span.edges_ns) - 1) * ops <= _MOST_IMPORTED_CELLS:
            reader = reader or OwnershipReader(tables)
            found = _read_all(reader, span)
        done.append((span, found if found is not None and found.owned_ns.size else None))
    return [found for _, found in done]


def find_ownership(connection: sqlite3.Connection, aggr: int, span: Span) -> tuple[Ownership, bool]:
    """The stored times of iterations, else computed ones; and whether the aggregation's are stored.

    They are not, though found, if they are part of those of another aggregation.
    """
    found = _read_stored(connection, aggr, span)
    if found is None:
        return read_ownership(connection, span), False
    query = "SELECT EXISTS (SELECT 1 FROM owners WHERE aggr = ?)"
    return found, bool(connection.execute(query, (aggr,)).fetchone()[0])


def _read_stored(connection: sqlite3.Connection, aggr: int, span: Span) -> Ownership | None:
    """None: nothing is stored for these iterations, or what is does not add up to them."""
    if not has_table(connection, "owners"):
        return None
    try:
        for holder, whole, rows in _holders(connection, aggr, span):
            if (found := _stored(connection, holder, whole)) is not None:
                return found if len(rows) == len(whole.numbers) else found.part(rows)
    except (MemoryError, *DAMAGE):
        pass
    return None


def _holders(
    connection: sqlite3.Connection, aggr: int, span: Span
) -> Iterator[tuple[int, Span, Int64]]:
    """Aggregations that have the times of some iterations, with their own; this one comes first."""
    query = "SELECT DISTINCT aggr FROM owner_times ORDER BY aggr != ?, aggr"
    for (holder,) in connection.execute(query, (aggr,)).fetchall():
        whole = read_span(connection, holder)
        if (rows := whole.find(span)) is not None:
            yield holder, whole, rows


def _stored(connection: sqlite3.Connection, aggr: int, span: Span) -> Ownership | None:
    """All that is stored with the times of an aggregation."""
    rows = connection.execute(
        "SELECT class, reason, coalesce(op, 0) - 1, coalesce(range_name, 0) - 1, samples"
        " FROM owners WHERE aggr = ? ORDER BY place",
        (aggr,),
    ).fetchall()
    query = "SELECT item_bytes, base, data FROM owner_times WHERE aggr = ? ORDER BY iter_value"
    parts = [decoded(*stored) for stored in connection.execute(query, (aggr,))]
    owned_ns = np.concatenate(parts).reshape(-1, len(rows))
    devices, rest = divmod(rows[0][4], len(span.numbers))
    if rest or not np.array_equal(owned_ns.sum(axis=1), devices * span.lengths_ns):
        return None
    kinds, texts, op, group, _ = zip(*rows, strict=True)
    reasons = tuple(dict.fromkeys((*REASONS, *texts)))
    code = {text: number for number, text in enumerate(reasons)}
    return Ownership(
        numbers=span.numbers,
        devices=devices,
        lengths_ns=span.lengths_ns,
        kind=np.array([CLASSES.index(kind) for kind in kinds], dtype=np.int64),
        reason=np.array([code[text] for text in texts], dtype=np.int64),
        op=np.array(op, dtype=np.int64),
        group=np.array(group, dtype=np.int64),
        reasons=reasons,
        owned_ns=owned_ns,
    )


def ownership_tables(aggr: int, ownership: Ownership) -> tuple[Table, Table]:
    """The rows of an aggregation's ownership."""
    found = ownership
    samples = len(found.lengths_ns) * found.devices
    owners = Table(
        "owners",
        {
            "aggr": aggr,
            "place": np.arange(len(found.kind)),
            "class": [CLASSES[code] for code in found.kind.tolist()],
            "reason": [found.reasons[code] for code in found.reason.tolist()],
            "op": [None if op < 0 else op + 1 for op in found.op.tolist()],
            "range_name": [None if name < 0 else name + 1 for name in found.group.tolist()],
            "time": found.owned_ns.sum(axis=0),
            "samples": np.full(len(found.kind), samples),
        },
    )
    step = max(_STORED_CELLS // max(len(found.kind), 1), 1)
    heads = range(0, len(found.owned_ns), step)
    stored = [narrowed(found.owned_ns[head : head + step].reshape(-1)) for head in heads]
    widths, bases, data = zip(*stored, strict=True)
    times = {"item_bytes": list(widths), "base": list(bases), "data": list(data)}
    first = found.numbers[heads].tolist()
    return owners, Table("owner_times", {"aggr": aggr, "iter_value": first, **times})


def store_ownership(database: Path, aggr: int, ownership: Ownership) -> bool:
    """Store what ``read_ownership`` found for an aggregation; returns whether it is stored now.

    Databases of earlier versions have no tables for it.

    Raises:
        DatabaseError: The database cannot be written.
    """
    if not ownership.owned_ns.size or ownership.owned_ns.size > _MOST_CELLS:
        return False
    with aggregation_transaction(database, _LOCK_WAIT_S) as connection:
        if not has_table(connection, "owners"):
            return False
        if not connection.execute("SELECT 1 FROM aggregations WHERE id = ?", (aggr,)).fetchone():
            return False  # it was deleted meanwhile
        write_ownership(connection, aggr, ownership)
    return True


def write_ownership(connection: sqlite3.Connection, aggr: int, ownership: Ownership) -> None:
    """Replace the ownership of an aggregation, inside a transaction.

    The times in each iteration are left out where those of another aggregation hold them.
    """
    owners, times = ownership_tables(aggr, ownership)
    for name in (owners.name, times.name):
        connection.execute(f"DELETE FROM {name} WHERE aggr = ?", (aggr,))
    insert_rows(connection, owners)
    if not any(_holders(connection, aggr, read_span(connection, aggr))):
        insert_rows(connection, times)


def _parts(devices: list[DeviceWork], edges_ns: Int64) -> Iterator[Int64]:
    """Edges of iterations in parts, so that the temporary columns of each fit the cache."""
    starts = np.sort(np.concatenate([one.start_ns for one in devices] or [edges_ns[:0]]))
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
        """The owners of a part, and their times in each of its ``count`` iterations."""
        if not owned:
            return np.empty(0, dtype=np.int64), np.empty((count, 0), dtype=np.int64)
        owner, code = dense_codes(np.concatenate([self._key(one) for one in owned]))
        cell = np.concatenate([one.iteration for one in owned]) * len(owner) + code
        length = np.concatenate([one.length_ns for one in owned])
        # Sums of doubles are exact below 2**53 ns, which is 104 days.
        sums = np.bincount(cell, weights=length, minlength=count * len(owner))
        return owner, sums.astype(np.int64).reshape(count, -1)

    def _key(self, owned: Owned) -> Int64:
        what = np.where(owned.group < 0, owned.op, owned.group + self._ops)
        key: Int64 = (owned.kind * self._reasons + owned.reason) * self._width + what + 1
        return key

    def split(self, owner: Int64) -> dict[str, Int64]:
        """The columns of the owners."""
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
