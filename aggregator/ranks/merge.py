"""Merges time-ordered tables of several databases into one, a window of time after another.

No more than a window of rows is in memory at once, however many ranks there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from aggregator.dldb.writer import BulkWriter, Table
from aggregator.ranks.reading import ABSENT, ColumnReader

if TYPE_CHECKING:
    from aggregator.dldb.writer import Column
    from aggregator.profile import Int64

WINDOW_ROWS = 1 << 18
"""About as many rows are merged at once."""
SAMPLE_STEP = 1024


@dataclass(frozen=True)
class Ordered:
    """A table whose rows are in order of time.

    Attributes:
        name: Its name.
        order: Columns that order it, the first one foremost.
        times: Columns that are points in time.
        references: Column -> name of the map from old to new row ids.
    """

    name: str
    order: tuple[str, ...]
    times: tuple[str, ...]
    references: Mapping[str, str]


@dataclass
class Piece:
    """Rows of one database that take part in a merge.

    Attributes:
        reader: Reads its columns.
        low: First row id.
        high: Last row id, inclusive; below ``low``: no rows.
        offset_ns: Added to times. Unit: ns.
        maps: Name -> new row id by old row id; what has no map keeps its value.
    """

    reader: ColumnReader
    low: int
    high: int
    offset_ns: int
    maps: dict[str, Int64] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number of rows."""
        return max(self.high - self.low + 1, 0)


def merge(
    table: Ordered,
    columns: Sequence[str],
    pieces: Sequence[Piece],
    writer: BulkWriter,
    first_id: int,
    renumbered: Sequence[Int64] = (),
    advance: Callable[[int], None] = lambda rows: None,
) -> int:
    """Write the rows of all pieces in order of time.

    Args:
        table: The table.
        columns: Its columns besides the row id, integers all.
        pieces: Where the rows are.
        writer: Writes the merged rows.
        first_id: Row id of the first row.
        renumbered: Per piece, filled with the new row id by old row id; empty: nobody asks.
        advance: Told of the rows written.

    Returns:
        The next free row id.
    """
    next_id = first_id
    for bounds in _windows(table, pieces):
        parts, of_piece, old_ids = [], [], []
        for number, (piece, (low, high)) in enumerate(zip(pieces, bounds, strict=True)):
            if high < low:
                continue
            parts.append(_read(table, columns, piece, low, high))
            of_piece.append(np.full(high - low + 1, number))
            old_ids.append(np.arange(low, high + 1))
        if not parts:
            continue
        joined = {name: np.concatenate([part[name] for part in parts]) for name in columns}
        order = np.lexsort([joined[name] for name in reversed(table.order)])
        count = len(order)
        ids = np.arange(next_id, next_id + count)
        writer.write(Table(table.name, {"id": ids} | _written(joined, order)))
        if renumbered:
            piece_of, old = np.concatenate(of_piece)[order], np.concatenate(old_ids)[order]
            for number, target in enumerate(renumbered):
                rows = piece_of == number
                target[old[rows]] = ids[rows]
        next_id += count
        advance(count)
    return next_id


def _written(joined: dict[str, Int64], order: Int64) -> dict[str, Column]:
    """The rows in order, with NULL where a value is absent."""
    sorted_columns = {name: column[order] for name, column in joined.items()}
    return {
        name: np.ma.masked_equal(column, ABSENT) if (column == ABSENT).any() else column
        for name, column in sorted_columns.items()
    }


def _read(
    table: Ordered, columns: Sequence[str], piece: Piece, low: int, high: int
) -> dict[str, Int64]:
    where = f"WHERE id BETWEEN {low} AND {high} ORDER BY id"
    found = piece.reader.read(table.name, tuple(columns), where)
    for name in table.times:
        found[name] = found[name] + piece.offset_ns
    for name, target in table.references.items():
        old = found[name]
        known = old != ABSENT
        found[name] = np.where(known, piece.maps[target][np.where(known, old, 0)], ABSENT)
    return found


def _windows(table: Ordered, pieces: Sequence[Piece]) -> Iterator[list[tuple[int, int]]]:
    """Row ids (first, last) of every piece, per window of time."""
    total = sum(piece.count for piece in pieces)
    count = -(-total // WINDOW_ROWS)
    if count <= 1:
        yield [(piece.low, piece.high) for piece in pieces]
        return
    samples = [_keys(table, piece)[::SAMPLE_STEP] for piece in pieces]
    sample = np.sort(np.concatenate(samples))
    edges = np.unique(sample[np.linspace(0, len(sample) - 1, count + 1).astype(np.int64)[1:-1]])
    cuts = []
    for piece in pieces:
        inner = np.searchsorted(_keys(table, piece), edges, side="left") + piece.low
        cuts.append([piece.low, *inner.tolist(), piece.high + 1])
    for window in range(len(edges) + 1):
        yield [(cut[window], cut[window + 1] - 1) for cut in cuts]


def _keys(table: Ordered, piece: Piece) -> Int64:
    """What orders a piece's rows, on the common clock."""
    if not piece.count:
        return np.empty(0, dtype=np.int64)
    name = table.order[0]
    where = f"WHERE id BETWEEN {piece.low} AND {piece.high} ORDER BY id"
    return piece.reader.read(table.name, (name,), where)[name] + piece.offset_ns
