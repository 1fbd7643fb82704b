"""Reads columns of long tables from the pages of a database that ``PageWriter`` laid out.

SQLite hands out one value after the other. Where all rows of a page are laid out alike, NumPy
takes a column of many pages at once, about ten times as fast. Pages of any other layout, say those
that another program changed, are not read here: the caller asks SQLite then.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

import numpy as np

from aggregator.sqlite_uri import read_only_uri

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from aggregator.profile import Bool, Int64, Integers

    Rows: TypeAlias = Callable[[Integers], Bool]

_LEAF, _INTERIOR = 0x0D, 0x05
_WIDTHS = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 8: 0, 9: 0}
"""Bytes of each serial type of integers; 0 is NULL, 8 and 9 are the numbers 0 and 1."""
_PAGES_AT_ONCE = 1024
_LEAST_CELL = 16
"""A page with less content than this is empty, or none of ours."""
_MAX_DEPTH = 8


class PageColumns:
    """Columns of tables of one database; valid while nobody may write it."""

    def __init__(self, file: BinaryIO, tables: dict[str, tuple[int, tuple[str, ...]]]) -> None:
        self._file = file
        self._tables = tables
        size = int.from_bytes(self._at(16, 2), "big")
        self._page_size = 65536 if size == 1 else size

    def _at(self, position: int, count: int) -> bytes:
        self._file.seek(position)
        return self._file.read(count)

    def read(
        self, table: str, names: Sequence[str], only: Rows | None = None
    ) -> list[Int64] | None:
        """Columns in order of row id; None: the table's pages are not laid out alike.

        NULL, and the row id itself, cannot be read.

        Args:
            table: Name of the table.
            names: Columns.
            only: Says by the first column which rows are wanted; None: all are.
        """
        if table not in self._tables:
            return None
        root, columns = self._tables[table]
        leaves = self._leaves(root)
        if leaves is None or not set(names) <= set(columns[1:]):
            return None
        wanted = [columns.index(name) for name in names]
        parts: list[list[Integers]] = [[] for _ in names]
        for run in _runs(leaves):
            for low in range(0, len(run), _PAGES_AT_ONCE):
                number = run[low : low + _PAGES_AT_ONCE]
                some: list[list[Integers]] = [[] for _ in names]
                if not self._read_pages(int(number[0]), len(number), wanted, some):
                    return None
                _add(parts, some, only)
        return [_joined(part) for part in parts]

    def _leaves(self, root: int) -> list[int] | None:
        """Numbers of the leaf pages in order; None: a page is of no table's tree."""
        level = [root]
        for _ in range(_MAX_DEPTH):
            first = self._at((level[0] - 1) * self._page_size, 1)
            if first == bytes([_LEAF]):
                return level
            below: list[int] = []
            for number in level:
                page = self._at((number - 1) * self._page_size, self._page_size)
                if len(page) < self._page_size or page[0] != _INTERIOR:
                    return None
                count = int.from_bytes(page[3:5], "big")
                pointers = np.frombuffer(page, ">u2", count, 12)
                below += [int.from_bytes(page[at : at + 4], "big") for at in pointers.tolist()]
                below.append(int.from_bytes(page[8:12], "big"))
            level = below
        return None

    def _read_pages(
        self, first: int, count: int, wanted: list[int], parts: list[list[Integers]]
    ) -> bool:
        """Take the columns of adjacent leaf pages; False: they are not laid out alike."""
        data = self._at((first - 1) * self._page_size, count * self._page_size)
        if len(data) < count * self._page_size:
            return False
        pages = np.frombuffer(data, np.uint8).reshape(count, self._page_size)
        content = pages[:, 5:7].copy().view(">u2")
        if not (pages[:, 0] == _LEAF).all() or content.max() > self._page_size - _LEAST_CELL:
            return False
        # Pages of one layout have the same number of rows and begin alike.
        return all(_read_alike(pages[low:high], wanted, parts) for low, high in _alike(pages))


def _add(parts: list[list[Integers]], some: list[list[Integers]], only: Rows | None) -> None:
    """Add columns that were just read, without the rows that nobody wants."""
    if only is None:
        for part, more in zip(parts, some, strict=True):
            part.extend(more)
        return
    for columns in zip(*some, strict=True):
        rows = only(columns[0])
        for part, column in zip(parts, columns, strict=True):
            part.append(column[rows])


def _alike(pages: Integers) -> Iterator[tuple[int, int]]:
    """Runs of pages with as many rows each, whose first rows are laid out alike."""
    for low, high in _equal_runs(pages[:, 1:8]):
        content, id_bytes = _first_cell(pages[low])
        at = content + 1 + id_bytes
        heads = pages[low:high, at : at + int(pages[low, at])]
        yield from ((low + first, low + stop) for first, stop in _equal_runs(heads))


def _equal_runs(rows: Integers) -> Iterator[tuple[int, int]]:
    changed = np.flatnonzero((rows[1:] != rows[:-1]).any(axis=1)) + 1
    return pairwise([0, *changed.tolist(), len(rows)])


def _first_cell(page: Integers) -> tuple[int, int]:
    """Where the first row begins, and the bytes of its row id."""
    content = int.from_bytes(page[5:7].tobytes(), "big")
    id_bytes = 1
    while id_bytes < 9 and page[content + id_bytes] & 0x80:
        id_bytes += 1
    return content, id_bytes


def _read_alike(pages: Integers, wanted: list[int], parts: list[list[Integers]]) -> bool:
    """Take the columns of pages whose rows are all laid out as the first one is."""
    count, page_size = pages.shape
    per_page = int.from_bytes(pages[0, 3:5].tobytes(), "big")
    content, id_bytes = _first_cell(pages[0])
    payload = int(pages[0, content])
    cell, at = 1 + id_bytes + payload, 1 + id_bytes
    if payload >= 0x80 or content + per_page * cell != page_size or pages[0, 1:3].any():
        return False

    def field(offset: int, kind: str) -> Any:
        return np.ndarray((count, per_page), kind, pages, content + offset, (page_size, cell))

    head = pages[0, content + at : content + at + int(pages[0, content + at])]
    same = (field(0, "u1") == payload) & (field(at, f"V{len(head)}") == np.void(head.tobytes()))
    for position in range(1, id_bytes + 1):
        same &= (field(position, "u1") >= 0x80) == (position < id_bytes)
    pointers = pages[:, 8 : 8 + 2 * per_page].copy().view(">u2")
    if not same.all() or not (pointers == content + cell * np.arange(per_page)).all():
        return False
    serials = head[1:].tolist()
    if not set(serials) <= set(_WIDTHS) or any(
        column >= len(serials) or serials[column] == 0 for column in wanted
    ):
        return False
    offsets = at + len(head) + np.cumsum([0, *(_WIDTHS[serial] for serial in serials)])
    for column, part in zip(wanted, parts, strict=True):
        part.append(_values(field, serials[column], int(offsets[column])).ravel())
    return True


def _values(field: Callable[[int, str], Any], serial: int, offset: int) -> Integers:
    """Numbers of one column.

    Those of 3 and 6 bytes are read with the bytes in front of them, which are shifted out again.
    """
    width = _WIDTHS[serial]
    if not width:
        return np.full(field(0, "u1").shape, serial - 8, dtype=np.int8)
    size = {3: 4, 6: 8}.get(width, width)
    values: Integers = field(offset - (size - width), f">i{size}").astype(f"i{size}")
    if size > width:
        values <<= 8 * (size - width)
        values >>= 8 * (size - width)
    return values


def _joined(parts: list[Integers]) -> Int64:
    """The parts of a column, each as wide as its numbers need, in one."""
    if not parts:
        return np.empty(0, dtype=np.int64)
    joined: Int64 = np.concatenate(parts, dtype=np.int64)
    parts.clear()
    return joined


def _runs(pages: list[int]) -> list[Int64]:
    """Numbers of pages in runs of adjacent ones."""
    numbers = np.array(pages, dtype=np.int64)
    return np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1)


@contextmanager
def page_columns(path: Path) -> Iterator[PageColumns]:
    """Columns of a database, which nobody can write until the block ends.

    Raises:
        sqlite3.Error: The database cannot be read, or is being written.
        OSError: The same.
    """
    with closing(sqlite3.connect(read_only_uri(path), uri=True)) as connection:
        connection.isolation_level = None
        connection.execute("BEGIN")  # reading the schema takes the lock
        found = connection.execute(
            "SELECT name, rootpage FROM sqlite_master WHERE type = 'table'"
        ).fetchall()
        tables: dict[str, tuple[int, tuple[str, ...]]] = {}
        for name, root in found:
            info: list[Any] = connection.execute(f'PRAGMA table_info("{name}")').fetchall()
            tables[str(name)] = (int(root), tuple(str(row[1]) for row in info))
        with path.open("rb") as file:
            yield PageColumns(file, tables)
        connection.execute("ROLLBACK")
