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

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from aggregator.profile import Integers


BLOCK_ROWS = 65536
"""Rows that share the widths of their numbers: their pages fit the processor's cache."""
MIN_ROWS = 8192
"""Shorter tables are inserted; these many rows never fit on one page."""
LOCK_BYTE = 1 << 30
"""SQLite locks this byte of a file and keeps no data on its page."""
_LEAF, _INTERIOR = 0x0D, 0x05
_LEAF_HEADER, _INTERIOR_HEADER = 8, 12
_CHILD_BYTES = 4 + 9 + 2
"""Most that a child takes on an interior page: its number, its key, the pointer to both."""
_CHANGES_AT, _PAGES_AT, _FORMAT_AT, _VALID_FOR_AT = 24, 28, 44, 92
_WIDTHS = ((1, 1), (2, 2), (3, 3), (4, 4), (6, 5), (8, 6))
"""Bytes of an integer, and the serial type that says so."""
_VARINT_STEPS = (1 << 7, 1 << 14, 1 << 21, 1 << 28, 1 << 35, 1 << 42)
"""Row ids from which on a varint takes one more byte."""


@dataclass
class _Target:
    """A table that can be written as pages.

    Attributes:
        columns: Names in order; the row id's stands first.
        root: Its root page.
        pages: Numbers of the leaf pages, in parts.
        keys: Largest row id of each leaf page, in parts.
        rows: Rows so far.
    """

    columns: tuple[str, ...]
    root: int
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
            Whether the rows were taken: not if they are few, hold anything but integers, or do not
            go on where the table ends.
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
                self._file.seek((int(part[0]) - 1) * self._page_size)
                self._file.write(rows.data)
        self._num_pages = int(numbers[-1])
        return numbers

    def close(self) -> None:
        """Write the pages above the leaves, and the file's header."""
        with self._file:
            for target in self._targets.values():
                if target.rows:
                    self._write_root(target)
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

    def _write_root(self, target: _Target) -> None:
        pages, keys = np.concatenate(target.pages), np.concatenate(target.keys)
        fan_out = (self._page_size - _INTERIOR_HEADER) // _CHILD_BYTES
        while len(pages) > fan_out:
            parts = np.array_split(np.arange(len(pages)), -(-len(pages) // fan_out))
            nodes = [self._interior(pages[part], keys[part]) for part in parts]
            keys = np.array([keys[part[-1]] for part in parts])
            stacked = np.frombuffer(b"".join(nodes), dtype=np.uint8)
            pages = self._write(stacked.reshape(len(nodes), self._page_size))
        self._file.seek((target.root - 1) * self._page_size)
        self._file.write(self._interior(pages, keys))

    def _interior(self, pages: Integers, keys: Integers) -> bytes:
        """An interior page: children with their largest row ids, the last one by itself."""
        page = bytearray(self._page_size)
        at = self._page_size
        pointers = bytearray()
        for child, key in zip(pages[:-1].tolist(), keys[:-1].tolist(), strict=True):
            cell = child.to_bytes(4, "big") + _varint(key)
            at -= len(cell)
            page[at : at + len(cell)] = cell
            pointers += at.to_bytes(2, "big")
        count = len(pages) - 1
        header = bytes([_INTERIOR, 0, 0]) + count.to_bytes(2, "big") + at.to_bytes(2, "big")
        header += b"\x00" + int(pages[-1]).to_bytes(4, "big")
        page[: len(header) + len(pointers)] = header + pointers
        return bytes(page)


@dataclass(frozen=True)
class _Layout:
    """How the rows of a block are laid out: the same for each.

    Attributes:
        id_bytes: Bytes of the row id's varint.
        head: The record's header.
        widths: Bytes of each column.
        cell: Bytes of a row.
    """

    id_bytes: int
    head: bytes
    widths: tuple[int, ...]
    cell: int

    @staticmethod
    def of(columns: Sequence[Any], last_id: int, *, constants: bool) -> _Layout:
        """The layout in which the numbers of all columns fit."""
        kinds = [_kind(column, constants=constants) for column in columns]
        widths = tuple(width for width, _ in kinds)
        # The row id stands for the first column, which is stored as NULL.
        head = bytes([len(kinds) + 2, 0, *(serial for _, serial in kinds)])
        id_bytes = len(_varint(last_id))
        return _Layout(id_bytes, head, widths, 1 + id_bytes + len(head) + sum(widths))

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
        header = bytes([_LEAF, 0, 0]) + per_page.to_bytes(2, "big") + content.to_bytes(2, "big")
        pages[:, : len(header)] = np.frombuffer(header, dtype=np.uint8)
        pointers = (content + self.cell * np.arange(per_page)).astype(">u2").view(np.uint8)
        pages[:, _LEAF_HEADER : _LEAF_HEADER + len(pointers)] = pointers

    def _place(self, pages: Integers, per_page: int, at: int, kind: str, values: Any) -> None:
        """Write one value per row at a place of its cell."""
        num_pages, page_size = pages.shape
        target: Integers = np.ndarray(
            (num_pages, per_page), kind, pages.data, at, (page_size, self.cell)
        )
        if isinstance(values, np.ndarray):
            values = values.reshape(num_pages, per_page)
        target[...] = values


def _kind(column: Any, *, constants: bool) -> tuple[int, int]:
    """Bytes and serial type of a column's numbers."""
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


def _blocks(first: int, stop: int) -> Iterator[tuple[int, int]]:
    """Parts of a range of row ids; in each all ids take equally many bytes."""
    while first < stop:
        bound = next(step for step in _VARINT_STEPS if first < step)
        yield first, min(stop, first + BLOCK_ROWS, bound)
        first = min(stop, first + BLOCK_ROWS, bound)


def _varint(value: int) -> bytes:
    """SQLite's variable-length integer, of up to eight bytes."""
    septets = [value & 0x7F]
    while value := value >> 7:
        septets.append(value & 0x7F | 0x80)
    return bytes(septets[::-1])


def _number(header: bytes, at: int) -> int:
    return int.from_bytes(header[at : at + 4], "big")


def _fits(target: _Target, columns: Mapping[str, Any]) -> bool:
    """Whether rows are integers that go on where a table ends."""
    if not set(columns) <= set(target.columns) or "id" not in columns:
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
                found[str(name)] = _Target(tuple(str(row[1]) for row in info), int(root))
    return found
