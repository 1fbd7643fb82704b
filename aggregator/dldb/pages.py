"""Writes long tables of whole numbers as pages of SQLite's file format.

SQLite looks for the place of every row that is inserted and takes half a microsecond for it. Rows
that come in the order of their ids need no place to be looked for: NumPy lays out whole pages of
them at once, about ten times as fast. What is written is what SQLite writes itself
(https://www.sqlite.org/fileformat2.html), but that the numbers of a block of rows share one width.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from aggregator.columns import ordered
from aggregator.dldb.page_layout import LEAF_HEADER, Layout, varint

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from aggregator.profile import Int64, Integers


BLOCK_ROWS = 65536
"""Rows that share the widths of their numbers: their pages fit the processor's cache."""
MIN_ROWS = 8192
"""Shorter tables are inserted; these many rows never fit on one page."""
LOCK_BYTE = 1 << 30
"""SQLite locks this byte of a file and keeps no data on its page."""
_INTERIOR, _INDEX_INTERIOR = 0x05, 0x02
_INTERIOR_HEADER = 12
_CHILD_BYTES = 4 + 2
"""What a child takes on an interior page beside its key: its number, the pointer to both."""
_CHANGES_AT, _PAGES_AT, _FORMAT_AT, _VALID_FOR_AT = 24, 28, 44, 92
_INDEX_PAGES = 128
"""Pages of an index that are laid out at a time."""
_VARINT_STEPS = (1 << 7, 1 << 14, 1 << 21, 1 << 28, 1 << 35, 1 << 42)
"""Row ids from which on a varint takes one more byte."""


@dataclass
class _Index:
    """An index of a table that is written as pages.

    Attributes:
        columns: Names in order, without the row id's.
        root: Its root page.
        parts: Values of the columns, in parts.
    """

    columns: tuple[str, ...]
    root: int
    parts: list[list[Integers]] = field(default_factory=list)


@dataclass
class _Target:
    """A table that can be written as pages.

    Attributes:
        columns: Names in order; the row id's stands first.
        root: Its root page.
        indexes: Its indexes.
        pages: Numbers of the leaf pages, in parts.
        keys: Largest row id of each leaf page, in parts.
        rows: Rows so far.
    """

    columns: tuple[str, ...]
    root: int
    indexes: list[_Index]
    pages: list[Integers] = field(default_factory=list)
    keys: list[Integers] = field(default_factory=list)
    rows: int = 0


class PageWriter:
    """Appends rows to empty tables of a database that nobody else has open.

    The file is a database again after ``close``.
    """

    def __init__(self, path: Path) -> None:
        self._targets = _targets(path)
        self._file = path.open("rb+")
        header = self._file.read(100)
        size = int.from_bytes(header[16:18], "big")
        self._page_size = 65536 if size == 1 else size
        self._num_pages = _number(header, _PAGES_AT)
        self._changes = _number(header, _CHANGES_AT)
        self._has_constants = _number(header, _FORMAT_AT) >= 4

    def append(self, table: str, columns: Mapping[str, Any]) -> bool:
        """Append rows in order of their ids.

        Args:
            table: Name of the table.
            columns: ``id`` and other columns; one that is left out is NULL.

        Returns:
            Whether the rows were taken: not if they are few, hold anything but integers, do not
            go on where the table ends, or lack a column of an index.
        """
        target = self._targets.get(table)
        if target is None or not _fits(target, columns):
            return False
        others = [columns.get(name) for name in target.columns[1:]]
        first, count = target.rows + 1, len(columns["id"])
        for low, high in _blocks(first, first + count):
            part = [None if c is None else c[low - first : high - first] for c in others]
            self._append_block(target, low, high - low, part)
        target.rows += count
        for index in target.indexes:
            index.parts.append([columns[name] for name in index.columns])
        return True

    def _append_block(
        self, target: _Target, first_id: int, count: int, columns: Sequence[Any]
    ) -> None:
        layout = Layout.of(columns, first_id + count - 1, constants=self._has_constants)
        per_page = (self._page_size - LEAF_HEADER) // (layout.cell + 2)
        num_pages = -(-count // per_page)
        pages = np.zeros((num_pages, self._page_size), dtype=np.uint8)
        full = count // per_page
        if full:
            rows = slice(0, full * per_page)
            layout.fill(pages[:full], per_page, first_id, columns, rows)
        if full < num_pages:
            rows = slice(full * per_page, count)
            layout.fill(pages[full:], count - full * per_page, first_id, columns, rows)
        target.pages.append(self._write(pages))
        last = first_id - 1 + np.minimum(np.arange(1, num_pages + 1) * per_page, count)
        target.keys.append(last)

    def _write(self, pages: Integers) -> Integers:
        """Write pages behind the last one; returns their numbers."""
        numbers = np.arange(self._num_pages + 1, self._num_pages + 1 + len(pages))
        lock_page = LOCK_BYTE // self._page_size + 1
        numbers[numbers >= lock_page] += int(self._num_pages < lock_page)
        split = int(np.searchsorted(numbers, lock_page))
        for part, rows in ((numbers[:split], pages[:split]), (numbers[split:], pages[split:])):
            if len(part):
                self._file.seek((int(part[0]) - 1) * self._page_size)
                self._file.write(rows.data)
        self._num_pages = int(numbers[-1])
        return numbers

    def close(self) -> None:
        """Write the pages above the leaves, and the file's header."""
        with self._file:
            for target in self._targets.values():
                if target.rows:
                    keys = [varint(key) for key in np.concatenate(target.keys).tolist()]
                    self._write_root(_INTERIOR, target.root, np.concatenate(target.pages), keys)
                    self._write_indexes(target)
            changes = (self._changes + 1).to_bytes(4, "big")
            for at, value in (
                (_CHANGES_AT, changes),
                (_PAGES_AT, self._num_pages.to_bytes(4, "big")),
                (_VALID_FOR_AT, changes),
            ):
                self._file.seek(at)
                self._file.write(value)

    def abandon(self) -> None:
        """Close the file as it is: it will be thrown away."""
        self._file.close()

    def _write_root(self, kind: int, root: int, pages: Integers, keys: list[bytes]) -> None:
        """Write the pages above others.

        Args:
            kind: Of these pages.
            root: Number of the topmost one.
            pages: Numbers of the pages below.
            keys: What parts each of them from the next one.
        """
        fan_out = (self._page_size - _INTERIOR_HEADER) // (_CHILD_BYTES + max(map(len, keys)))
        while len(pages) > fan_out:
            parts = np.array_split(np.arange(len(pages)), -(-len(pages) // fan_out))
            bounds = [slice(int(part[0]), int(part[-1]) + 1) for part in parts]
            nodes = [self._interior(kind, pages[part], keys[part]) for part in bounds]
            keys = [keys[part.stop - 1] for part in bounds]
            stacked = np.frombuffer(b"".join(nodes), dtype=np.uint8)
            pages = self._write(stacked.reshape(len(nodes), self._page_size))
        self._file.seek((root - 1) * self._page_size)
        self._file.write(self._interior(kind, pages, keys))

    def _interior(self, kind: int, pages: Integers, keys: list[bytes]) -> bytes:
        """An interior page: children with what parts them, the last one by itself."""
        cells = [
            child.to_bytes(4, "big") + key
            for child, key in zip(pages[:-1].tolist(), keys[:-1], strict=True)
        ]
        places = self._page_size - np.cumsum([len(cell) for cell in cells])
        at = int(places[-1]) if cells else self._page_size
        header = bytes([kind, 0, 0]) + len(cells).to_bytes(2, "big") + at.to_bytes(2, "big")
        header += b"\x00" + int(pages[-1]).to_bytes(4, "big")
        head = header + places.astype(">u2").tobytes()
        return head.ljust(at, b"\x00") + b"".join(cells[::-1])

    def _write_indexes(self, target: _Target) -> None:
        for index in target.indexes:
            columns = [np.concatenate(parts) for parts in zip(*index.parts, strict=True)]
            index.parts.clear()
            self._write_index(index.root, [*columns, np.arange(1, target.rows + 1)])

    def _write_index(self, root: int, columns: list[Integers]) -> None:
        """Write the pages of an index.

        A row stands either on a leaf or, to part two leaves, above them.

        Args:
            root: Number of its topmost page.
            columns: Its columns, the row id last.
        """
        layout = Layout.of(columns, None, constants=self._has_constants)
        order, count = ordered(*columns[:-1]), len(columns[-1])
        per_leaf = (self._page_size - LEAF_HEADER) // (layout.cell + 2)
        while count % (per_leaf + 1) == 0:  # nothing would be left for the last leaf
            per_leaf -= 1
        step = per_leaf + 1
        num_full = count // step
        pages = []
        for low in range(0, num_full, _INDEX_PAGES):
            high = min(low + _INDEX_PAGES, num_full)
            rows = order[low * step : high * step].reshape(-1, step)[:, :-1].ravel()
            pages.append(self._write(self._index_leaves(layout, columns, rows, high - low)))
        rows = order[num_full * step :]
        pages.append(self._write(self._index_leaves(layout, columns, rows, 1)))
        parting = order[per_leaf : num_full * step : step]
        keys = layout.cells([column[parting] for column in columns])
        self._write_root(_INDEX_INTERIOR, root, np.concatenate(pages), [*keys, b""])

    def _index_leaves(
        self, layout: Layout, columns: list[Integers], rows: Int64, count: int
    ) -> Integers:
        pages = np.zeros((count, self._page_size), dtype=np.uint8)
        values = [column[rows] for column in columns]
        layout.fill(pages, len(rows) // count, 0, values, slice(0, len(rows)))
        return pages


def _blocks(first: int, stop: int) -> Iterator[tuple[int, int]]:
    """Parts of a range of row ids; in each all ids take equally many bytes."""
    while first < stop:
        bound = next(step for step in _VARINT_STEPS if first < step)
        yield first, min(stop, first + BLOCK_ROWS, bound)
        first = min(stop, first + BLOCK_ROWS, bound)


def _number(header: bytes, at: int) -> int:
    return int.from_bytes(header[at : at + 4], "big")


def _fits(target: _Target, columns: Mapping[str, Any]) -> bool:
    """Whether rows are integers that go on where a table ends."""
    indexed = {name for index in target.indexes for name in index.columns}
    if not set(columns) <= set(target.columns) or not {"id", *indexed} <= set(columns):
        return False
    arrays = [column for column in columns.values() if isinstance(column, np.ndarray)]
    if len(arrays) < len(columns) or not all(column.dtype.kind in "bi" for column in arrays):
        return False
    ids = columns["id"]
    if not len(ids) or (not target.rows and len(ids) < MIN_ROWS):
        return False
    return bool(ids[0] == target.rows + 1 and (np.diff(ids) == 1).all())


def _targets(path: Path) -> dict[str, _Target]:
    """Empty tables whose first column is the row id and whose other ones have no default."""
    found: dict[str, _Target] = {}
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute(
            "SELECT name, rootpage, sql FROM sqlite_master WHERE type = 'table'"
        ).fetchall()
        for name, root, sql in tables:
            info = connection.execute(f'PRAGMA table_info("{name}")').fetchall()
            has_id = info[0][1] == "id" and info[0][2] == "INTEGER" and info[0][5] == 1
            plain = all(row[4] is None and row[2] == "INTEGER" for row in info)
            if not has_id or not plain or "WITHOUT ROWID" in sql.upper():
                continue
            if connection.execute(f'SELECT 1 FROM "{name}" LIMIT 1').fetchone() is None:
                names = tuple(str(row[1]) for row in info)
                found[str(name)] = _Target(names, int(root), _indexes(connection, str(name)))
    return found


def _indexes(connection: sqlite3.Connection, table: str) -> list[_Index]:
    """Indexes of an empty table."""
    query = "SELECT name, rootpage FROM sqlite_master WHERE type = 'index' AND tbl_name = ?"
    found = []
    for name, root in connection.execute(query, (table,)).fetchall():
        info = connection.execute(f'PRAGMA index_info("{name}")').fetchall()
        found.append(_Index(tuple(str(row[2]) for row in info), int(root)))
    return found
