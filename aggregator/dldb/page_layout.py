"""How rows of whole numbers stand on the leaf pages of SQLite's file format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aggregator.profile import Integers

LEAF_HEADER = 8
_LEAF, _INDEX_LEAF = 0x0D, 0x0A
_WIDTHS = ((1, 1), (2, 2), (3, 3), (4, 4), (6, 5), (8, 6))
"""Bytes of an integer, and the serial type that says so."""


@dataclass(frozen=True)
class Layout:
    """How the rows of a block are laid out: the same for each.

    Attributes:
        kind: Of the leaf pages.
        id_bytes: Bytes of the row id's varint; 0: of an index, where it is the last column.
        head: The record's header.
        widths: Bytes of each column.
        cell: Bytes of a row.
    """

    kind: int
    id_bytes: int
    head: bytes
    widths: tuple[int, ...]
    cell: int

    @staticmethod
    def of(columns: Sequence[Any], last_id: int | None, *, constants: bool) -> Layout:
        """The layout in which the numbers of all columns fit; without a last row id an index's."""
        kinds = [_kind(column, constants=constants) for column in columns]
        widths = tuple(width for width, _ in kinds)
        serials = [serial for _, serial in kinds]
        if last_id is None:
            head = bytes([len(kinds) + 1, *serials])
            return Layout(_INDEX_LEAF, 0, head, widths, 1 + len(head) + sum(widths))
        # The row id stands for the first column, which is stored as NULL.
        head = bytes([len(kinds) + 2, 0, *serials])
        id_bytes = len(varint(last_id))
        return Layout(_LEAF, id_bytes, head, widths, 1 + id_bytes + len(head) + sum(widths))

    def cells(self, columns: Sequence[Integers]) -> list[bytes]:
        """Rows of an index as they stand on a page."""
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
        pages[:, LEAF_HEADER : LEAF_HEADER + len(pointers)] = pointers

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


def varint(value: int) -> bytes:
    """SQLite's variable-length integer, of up to eight bytes."""
    septets = [value & 0x7F]
    while value := value >> 7:
        septets.append(value & 0x7F | 0x80)
    return bytes(septets[::-1])
