"""Who owns each nanosecond of an aggregation's iterations.

An import computes it for its aggregations and stores it. For other aggregations it is part of what
is stored if they cut the profile at the same key node; else it is computed at first use, and
``store_ownership`` keeps it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import numpy as np

from aggregator.dldb.column_blobs import decoded, narrowed
from aggregator.dldb.event_reader import stored_events
from aggregator.dldb.guarded import DAMAGE
from aggregator.dldb.writer import Table, aggregation_transaction, has_table, insert_rows
from aggregator.errors import IterationRangeError
from aggregator.metrics.owners import Ownership, OwnershipReader, Span, read_all_ownership
from aggregator.metrics.ownership import CLASSES
from aggregator.metrics.ownership_host import REASONS
from aggregator.profile.arrays import Int64
from aggregator.system.sqlite_uri import connect_read_only
from aggregator.texts import say

_STORED_CELLS: Final = 1 << 18
"""Times in one stored array: two megabytes at most."""
_MOST_CELLS: Final = 1 << 27
"""Times of an aggregation that are stored: one gigabyte at most."""
_LOCK_WAIT_S: Final = 1.0


def read_span(
    connection: sqlite3.Connection, aggr: int, first: int | None = None, last: int | None = None
) -> Span:
    """Return the iterations of an aggregation, or others that its key node cuts.

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


def read_step_span(
    connection: sqlite3.Connection, aggr: int, first: int | None = None, last: int | None = None
) -> Span | None:
    """Return the typical steps of an aggregation, or those in other iterations; None: no steps.

    A step bears the number of its iteration, or its own one where an iteration holds several.

    Raises:
        IterationRangeError: The profile lacks some of the iterations.
    """
    whole = read_span(connection, aggr, first, last)
    if not has_table(connection, "steps"):  # In older databases.
        return None
    query = (
        "SELECT step, iter_value, start, stop, is_typical, EXISTS ("
        " SELECT 1 FROM aggregations AS a CROSS JOIN steps AS t ON t.aggr = a.id"
        " AND t.step = s.step WHERE t.start = s.start AND t.stop = s.stop AND t.is_typical)"
        " FROM steps AS s WHERE aggr = ? ORDER BY step"
    )
    rows = np.array(connection.execute(query, (aggr,)).fetchall(), dtype=np.int64).reshape(-1, 6)
    step, iteration, start, stop, is_typical, is_typical_elsewhere = rows[rows[:, 3] > rows[:, 2]].T
    chosen = is_typical > 0
    if first is not None:
        inside = np.isin(iteration, whole.numbers)
        chosen = inside & (is_typical_elsewhere > 0)
        chosen = chosen if chosen.any() else inside
    # Steps of processes with loops of their own may overlap: a time has one owner.
    reached = np.maximum.accumulate(np.where(chosen, stop, 0))
    chosen[1:] &= start[1:] >= reached[:-1]
    if not chosen.any():
        return None
    start, stop = start[chosen], stop[chosen]
    edges = np.unique(np.concatenate([start, stop]))
    numbers = iteration[chosen]
    numbers = numbers if (np.diff(numbers) > 0).all() else step[chosen]
    return Span(numbers, edges, np.searchsorted(edges, start))


def read_recorded_span(connection: sqlite3.Connection, aggr: int) -> Span | None:
    """Return what stands for the step of an aggregation without steps; None: it has steps.

    It reaches from the start of the first to the end of the last GPU work that the aggregated
    iterations launched. What precedes it is the start of the program and of the recording: no
    change to the model makes it shorter.
    """
    if not has_table(connection, "typical_steps"):  # In older databases.
        return None
    query = "SELECT 1 FROM typical_steps WHERE aggr = ? AND steps = 0"
    if connection.execute(query, (aggr,)).fetchone() is None:
        return None
    store, whole = stored_events(connection), read_span(connection, aggr)
    work = store.work((int(whole.edges_ns[0]), int(whole.edges_ns[-1])))
    if not len(work.start_ns):
        return None
    edges = np.array([work.start_ns.min(), work.end_ns.max()])
    return Span(whole.numbers[:1], edges) if edges[1] > edges[0] else None


def read_ownership(connection: sqlite3.Connection, span: Span) -> Ownership:
    """Partition iterations on every GPU that ran work."""
    reader = OwnershipReader(stored_events(connection))
    return reader.read(span, reader.devices)


def read_stored_ownership(path: Path, spans: Sequence[Span]) -> list[Ownership | None]:
    """Read the stored times of a database as ``read_all_ownership`` does."""
    with closing(connect_read_only(path)) as connection:
        return read_all_ownership(stored_events(connection), spans)


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
    """Return None if nothing is stored for these iterations, or if it does not add up to them."""
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
    """Return the rows of an aggregation's ownership."""
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
