"""Who owns each nanosecond of an aggregation's iterations: computed at first use, then stored.

An import leaves it out: for half a gigabyte it takes a second, an eighth of the import, and most
aggregations are never asked for it. ``store_ownership`` keeps what was computed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from aggregator.dldb.column_blobs import decoded, narrowed
from aggregator.dldb.guarded import DAMAGE
from aggregator.dldb.ownership_columns import HostColumns, Launches, read_host, read_work
from aggregator.dldb.writer import Table, aggregation_transaction, has_table, insert_rows
from aggregator.errors import IterationRangeError
from aggregator.metrics.ownership import CLASSES, DeviceWork, Owned, own
from aggregator.metrics.ownership_host import REASONS
from aggregator.profile.arrays import Int64
from aggregator.texts import say

_PART_ROWS: Final = 1 << 15
_OPS: Final = 1 << 32  # Rows of ops are fewer.
_STORED_CELLS: Final = 1 << 18
"""Times in one stored array: two megabytes at most."""
_MOST_CELLS: Final = 1 << 27
"""Times of an aggregation that are stored: one gigabyte at most."""
_LOCK_WAIT_S: Final = 1.0


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

    def without_idle_owners(self) -> Ownership:
        """The same without owners that own nothing in these iterations."""
        kept = np.flatnonzero(self.owned_ns.any(axis=0))
        columns = {name: getattr(self, name)[kept] for name in ("kind", "reason", "op", "group")}
        return replace(self, **columns, owned_ns=self.owned_ns[:, kept])


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


class OwnershipReader:
    """Partitions iterations on the GPUs that ran work."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        launches = Launches.read(connection)
        work = read_work(connection, launches)
        self._columns = read_host(connection, launches)
        self._work = {device: work.of(device) for device in work.used()}

    @property
    def devices(self) -> tuple[int, ...]:
        """Rows of the GPUs."""
        return tuple(self._work)

    def read(self, span: Span, devices: Sequence[int]) -> Ownership:
        """Partition consecutive iterations on some of the GPUs."""
        works = [self._work[device] for device in devices]
        keys = _Keys(self._columns)
        parts = []
        for edges in _parts(works, span.edges_ns):
            low, high = int(edges[0]), int(edges[-1])
            host = self._columns.host.between(low, high)
            owned = [own(one.around(low, high), host, edges) for one in works]
            parts.append(keys.summed(owned, len(edges) - 1))
        owner, owned_ns = _merged(parts)
        return Ownership(
            first=span.first,
            last=span.last,
            devices=len(works),
            lengths_ns=np.diff(span.edges_ns),
            **keys.split(owner),
            reasons=self._columns.reasons,
            owned_ns=owned_ns,
        )


def read_ownership(connection: sqlite3.Connection, span: Span) -> Ownership:
    """Partition consecutive iterations on every GPU that ran work."""
    reader = OwnershipReader(connection)
    return reader.read(span, reader.devices)


def find_ownership(connection: sqlite3.Connection, aggr: int, span: Span) -> tuple[Ownership, bool]:
    """The stored times of iterations, else computed ones; and whether they were stored."""
    stored = _read_stored(connection, aggr, span)
    return (read_ownership(connection, span), False) if stored is None else (stored, True)


def _read_stored(connection: sqlite3.Connection, aggr: int, span: Span) -> Ownership | None:
    """None: nothing is stored for these iterations, or what is does not add up to them."""
    if not has_table(connection, "owners"):
        return None
    try:
        rows = connection.execute(
            "SELECT class, reason, coalesce(op, 0) - 1, coalesce(range_name, 0) - 1, samples"
            " FROM owners WHERE aggr = ? ORDER BY place",
            (aggr,),
        ).fetchall()
        return _stored(connection, aggr, span, rows) if rows else None
    except (MemoryError, *DAMAGE):
        return None


def _stored(
    connection: sqlite3.Connection,
    aggr: int,
    span: Span,
    rows: list[tuple[str, str, int, int, int]],
) -> Ownership | None:
    whole = read_span(connection, aggr)
    if not whole.first <= span.first <= span.last <= whole.last:
        return None
    query = "SELECT item_bytes, base, data FROM owner_times WHERE aggr = ? ORDER BY iter_value"
    parts = [decoded(*stored) for stored in connection.execute(query, (aggr,))]
    owned_ns = np.concatenate(parts).reshape(-1, len(rows))
    owned_ns = owned_ns[span.first - whole.first : span.last - whole.first + 1]
    devices, rest = divmod(rows[0][4], len(whole.edges_ns) - 1)
    lengths_ns = np.diff(span.edges_ns)
    if rest or not np.array_equal(owned_ns.sum(axis=1), devices * lengths_ns):
        return None
    kinds, texts, op, group, _ = zip(*rows, strict=True)
    reasons = tuple(dict.fromkeys((*REASONS, *texts)))
    code = {text: number for number, text in enumerate(reasons)}
    found = Ownership(
        first=span.first,
        last=span.last,
        devices=devices,
        lengths_ns=lengths_ns,
        kind=np.array([CLASSES.index(kind) for kind in kinds], dtype=np.int64),
        reason=np.array([code[text] for text in texts], dtype=np.int64),
        op=np.array(op, dtype=np.int64),
        group=np.array(group, dtype=np.int64),
        reasons=reasons,
        owned_ns=owned_ns,
    )
    return found if span.edges_ns.size == whole.edges_ns.size else found.without_idle_owners()


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
    first = [found.first + head for head in heads]
    return owners, Table("owner_times", {"aggr": aggr, "iter_value": first, **times})


def store_ownership(database: Path, aggr: int, ownership: Ownership) -> bool:
    """Store what ``read_ownership`` found for an aggregation; returns whether it is stored now.

    Databases of earlier versions have no tables for it.

    Raises:
        DatabaseError: The database cannot be written.
    """
    if not ownership.owned_ns.size or ownership.owned_ns.size > _MOST_CELLS:
        return False
    tables = ownership_tables(aggr, ownership)
    with aggregation_transaction(database, _LOCK_WAIT_S) as connection:
        if not has_table(connection, "owners"):
            return False
        if not connection.execute("SELECT 1 FROM aggregations WHERE id = ?", (aggr,)).fetchone():
            return False  # it was deleted meanwhile
        for table in tables:
            connection.execute(f"DELETE FROM {table.name} WHERE aggr = ?", (aggr,))
            insert_rows(connection, table)
    return True


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
