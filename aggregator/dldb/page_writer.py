"""Writes long tables of whole numbers as pages of SQLite's file format.

SQLite searches the place of every row that is inserted, which takes half a microsecond. Rows in the
order of their ids need no search: NumPy lays out whole pages of them at once, about ten times as
fast, which saves 18 % of the import of a large profile. The pages are those that SQLite writes
itself (https://www.sqlite.org/fileformat2.html), except that all numbers of a column in a block of
rows have the same width. A test compares them with rows that SQLite inserted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from aggregator.profile.arrays import Int64, Integers, ordered

BLOCK_ROWS = 65536
"""Rows that share the widths of their numbers: their pages fit the processor's cache."""
MIN_ROWS = 8192  # Shorter tables are inserted; these many rows never fit on one page.
LOCK_BYTE = 1 << 30  # SQLite locks this byte of a file and keeps no data on its page.
_LEAF_HEADER = 8
_LEAF, _INDEX_LEAF = 0x0D, 0x0A
_WIDTHS = ((1, 1), (2, 2), (3, 3), (4, 4), (6, 5), (8, 6))
"""Bytes of an integer, and the serial type of that size."""
_INTERIOR, _INDEX_INTERIOR = 0x05, 0x02
_INTERIOR_HEADER = 12
_CHILD_BYTES = 4 + 2
"""Bytes of a child on an interior page without its key: its number, the pointer to both."""
_CHANGES_AT, _PAGES_AT, _FORMAT_AT, _VALID_FOR_AT = 24, 28, 44, 92
_INDEX_PAGES = 128  # Pages of an index that are laid out at a time.
_VARINT_STEPS = (1 << 7, 1 << 14, 1 << 21, 1 << 28, 1 << 35, 1 << 42)
"""Row ids from which on a varint takes one more byte."""


@dataclass
class _Index:
    columns: tuple[str, ...]  # Names in order, without the row id's.
    root: int  # Its root page.
    parts: list[list[Integers]] = field(default_factory=list)  # Values of the columns, in parts.


@dataclass
class _Target:
    columns: tuple[str, ...]  # Names in order; the row id's stands first.
    root: int  # Its root page.
    indexes: list[_Index]  # Its indexes.
    pages: list[Integers] = field(default_factory=list)  # Numbers of the leaf pages, in parts.
    # Largest row id of each leaf page, in parts.
    keys: list[Integers] = field(default_factory=list)
    rows: int = 0  # Rows so far.


AppendPages: TypeAlias = "Callable[[str, Mapping[str, Any]], bool]"


@contextmanager
def page_writer(path: Path) -> Iterator[AppendPages]:
    """Write rows of empty tables as pages of a database that no other process has open.

    Yields a function of a table's name and columns that appends rows in the order of their ids and
    returns whether it took them; see ``_PageWriter.append``. The file is a database again after the
    block; if the block raises, it is left unusable.
    """
    writer = _PageWriter(path)
    with writer.file:
        yield writer.append
        writer.finish()


class _PageWriter:
    """Appends rows to empty tables; the file is a database again after ``finish``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._targets: dict[str, _Target] = {}  # Of a long table's first rows on.
        self.file = path.open("rb+")
        header = self.file.read(100)
        size = int.from_bytes(header[16:18], "big")
        self._page_size = 65536 if size == 1 else size
        self._num_pages = _number(header, _PAGES_AT)
        self._changes = _number(header, _CHANGES_AT)
        self._has_constants = _number(header, _FORMAT_AT) >= 4

    def append(self, table: str, columns: Mapping[str, Any]) -> bool:
        """Append rows in order of their ids; a column that is left out is NULL.

        Returns whether the rows were taken: not if they are few, hold anything but integers, do not
        go on where the table ends, or lack a column of an index.
        """
        if not self._targets and len(columns.get("id", ())) >= MIN_ROWS:
            self._targets = _targets(self._path)
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
        layout = _Layout.of(columns, first_id + count - 1, constants=self._has_constants)
        per_page = (self._page_size - _LEAF_HEADER) // (layout.cell + 2)
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
                self.file.seek((int(part[0]) - 1) * self._page_size)
                self.file.write(rows.data)
        self._num_pages = int(numbers[-1])
        return numbers

    def finish(self) -> None:
        """Write the pages above the leaves, and the header of the file."""
        for target in self._targets.values():
            if target.rows:
                keys = [_varint(key) for key in np.concatenate(target.keys).tolist()]
                self._write_root(_INTERIOR, target.root, np.concatenate(target.pages), keys)
                self._write_indexes(target)
        changes = (self._changes + 1).to_bytes(4, "big")
        for at, value in (
            (_CHANGES_AT, changes),
            (_PAGES_AT, self._num_pages.to_bytes(4, "big")),
            (_VALID_FOR_AT, changes),
        ):
            self.file.seek(at)
            self.file.write(value)

    def _write_root(self, kind: int, root: int, pages: Integers, keys: list[bytes]) -> None:
        """Write the pages of a kind above others; ``keys`` part each of them from the next one."""
        fan_out = (self._page_size - _INTERIOR_HEADER) // (_CHILD_BYTES + max(map(len, keys)))
        while len(pages) > fan_out:
            parts = np.array_split(np.arange(len(pages)), -(-len(pages) // fan_out))
            bounds = [slice(int(part[0]), int(part[-1]) + 1) for part in parts]
            nodes = [self._interior(kind, pages[part], keys[part]) for part in bounds]
            keys = [keys[part.stop - 1] for part in bounds]
            stacked = np.frombuffer(b"".join(nodes), dtype=np.uint8)
            pages = self._write(stacked.reshape(len(nodes), self._page_size))
        self.file.seek((root - 1) * self._page_size)
        self.file.write(self._interior(kind, pages, keys))

    def _interior(self, kind: int, pages: Integers, keys: list[bytes]) -> bytes:
        """An interior page: children with the keys between them, the last one without a key."""
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
        """Write the pages of an index from its columns, the row id last.

        A row stands either on a leaf or, to part two leaves, above them.
        """
        layout = _Layout.of(columns, None, constants=self._has_constants)
        order, count = ordered(*columns[:-1]), len(columns[-1])
        per_leaf = (self._page_size - _LEAF_HEADER) // (layout.cell + 2)
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
        self, layout: _Layout, columns: list[Integers], rows: Int64, count: int
    ) -> Integers:
        pages = np.zeros((count, self._page_size), dtype=np.uint8)
        values = [column[rows] for column in columns]
        layout.fill(pages, len(rows) // count, 0, values, slice(0, len(rows)))
        return pages


def _blocks(first: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a range of row ids; in each all ids take equally many bytes."""
    while first < stop:
        bound = next(step for step in _VARINT_STEPS if first < step)
        yield first, min(stop, first + BLOCK_ROWS, bound)
        first = min(stop, first + BLOCK_ROWS, bound)


def _number(header: bytes, at: int) -> int:
    return int.from_bytes(header[at : at + 4], "big")


def _fits(target: _Target, columns: Mapping[str, Any]) -> bool:
    """Return whether rows are integers that go on where a table ends."""
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
    """Return the indexes of an empty table."""
    query = "SELECT name, rootpage FROM sqlite_master WHERE type = 'index' AND tbl_name = ?"
    found = []
    for name, root in connection.execute(query, (table,)).fetchall():
        info = connection.execute(f'PRAGMA index_info("{name}")').fetchall()
        found.append(_Index(tuple(str(row[2]) for row in info), int(root)))
    return found


@dataclass(frozen=True)
class _Layout:
    """How the rows of a block are laid out: the same for each."""

    kind: int  # Of the leaf pages.
    id_bytes: int  # Bytes of the row id's varint; 0: of an index, where it is the last column.
    head: bytes  # The record's header.
    widths: tuple[int, ...]  # Bytes of each column.
    cell: int  # Bytes of a row.

    @staticmethod
    def of(columns: Sequence[Any], last_id: int | None, *, constants: bool) -> _Layout:
        """The layout in which the numbers of all columns fit; without a last row id an index's."""
        kinds = [_kind(column, constants=constants) for column in columns]
        widths = tuple(width for width, _ in kinds)
        serials = [serial for _, serial in kinds]
        if last_id is None:
            head = bytes([len(kinds) + 1, *serials])
            return _Layout(_INDEX_LEAF, 0, head, widths, 1 + len(head) + sum(widths))
        # The row id stands for the first column, which is stored as NULL.
        head = bytes([len(kinds) + 2, 0, *serials])
        id_bytes = len(_varint(last_id))
        return _Layout(_LEAF, id_bytes, head, widths, 1 + id_bytes + len(head) + sum(widths))

    def cells(self, columns: Sequence[Integers]) -> list[bytes]:
        """Return the rows of an index as they stand on a page."""
        head = bytes([len(self.head) + sum(self.widths)]) + self.head
        return [
            head
            + b"".join(
                value.to_bytes(width, "big", signed=True) if width else b""
                for value, width in zip(row, self.widths, strict=True)
            )
            for row in zip(*(column.tolist() for column in columns), strict=True)
        ]

    def fill(
        self, pages: Integers, per_page: int, first_id: int, columns: Sequence[Any], rows: slice
    ) -> None:
        """Fill pages with as many rows each.

        A number of 3 or 6 bytes is written as one of 4 or 8: what it spoils in front of it is
        written after it.
        """
        page_size = pages.shape[1]
        content = page_size - per_page * self.cell
        at = content + self.cell
        for column, width in zip(columns[::-1], self.widths[::-1], strict=True):
            at -= width
            if width:
                size = {3: 4, 6: 8}.get(width, width)
                self._place(pages, per_page, at - (size - width), f">i{size}", column[rows])
        head = np.frombuffer(self.head, dtype=np.uint8)
        for position, value in enumerate(head.tolist()):
            self._place(pages, per_page, at - len(head) + position, "u1", value)
        ids = np.arange(first_id + rows.start, first_id + rows.stop)
        for number in range(self.id_bytes):
            septet = (ids >> (7 * (self.id_bytes - 1 - number))) & 0x7F
            more = 0x80 if number < self.id_bytes - 1 else 0
            self._place(pages, per_page, content + 1 + number, "u1", septet | more)
        self._place(pages, per_page, content, "u1", len(self.head) + sum(self.widths))
        header = bytes([self.kind, 0, 0]) + per_page.to_bytes(2, "big") + content.to_bytes(2, "big")
        pages[:, : len(header)] = np.frombuffer(header, dtype=np.uint8)
        pointers = (content + self.cell * np.arange(per_page)).astype(">u2").view(np.uint8)
        pages[:, _LEAF_HEADER : _LEAF_HEADER + len(pointers)] = pointers

    def _place(self, pages: Integers, per_page: int, at: int, kind: str, values: Any) -> None:
        num_pages, page_size = pages.shape
        target: Integers = np.ndarray(
            (num_pages, per_page), kind, pages.data, at, (page_size, self.cell)
        )
        if isinstance(values, np.ndarray):
            values = values.reshape(num_pages, per_page)
        target[...] = values


def _kind(column: Any, *, constants: bool) -> tuple[int, int]:
    """Return the bytes and serial type of a column's numbers."""
    if column is None:
        return 0, 0
    low, high = int(column.min()), int(column.max())
    if constants and low == high and low in (0, 1):
        return 0, 8 + low
    for width, serial in _WIDTHS:
        limit = 1 << (8 * width - 1)
        if -limit <= low and high < limit:
            return width, serial
    raise OverflowError("a number of more than 64 bits")


def _varint(value: int) -> bytes:
    """Return SQLite's variable-length integer, of up to eight bytes."""
    septets = [value & 0x7F]
    while value := value >> 7:
        septets.append(value & 0x7F | 0x80)
    return bytes(septets[::-1])
