"""Protocol-buffer messages as columns: the fields of many messages at once.

Where a message ends is known only when its fields were passed one after the other, so the fields of
one long message are found by a loop; those of many short ones by as many steps as the longest has
fields. The wire format: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from aggregator.profile.arrays import Bool, Bytes, Int64

VARINT: Final = 0
FIXED64: Final = 1
MESSAGE: Final = 2
_FIXED32: Final = 5
_WIDTH: Final = {FIXED64: 8, _FIXED32: 4}
_MOST_GROUPS: Final = 10  # of seven bits, in a number of 64
_FEW: Final = 16
"""Fewer messages are faster one by one."""


class WireError(ValueError):
    """The bytes are no message, or end inside one."""


@dataclass(frozen=True)
class Fields:
    """Fields of messages, in the order of each message."""

    row: Int64  # The message.
    number: Int64  # Number of the field.
    wire: Int64  # ``VARINT``, ``FIXED64``, ``MESSAGE`` or 32 bits.
    value: Int64  # Number, or bits of a fixed one; 0 of a message.
    start: Int64  # First byte of its contents.
    end: Int64  # End of its contents.

    def of(self, number: int, wire: int) -> Fields:
        """The fields of one number, if they have the type that it should have."""
        return self.where((self.number == number) & (self.wire == wire))

    def where(self, chosen: Bool) -> Fields:
        """Some of the fields."""
        return Fields(*(getattr(self, name)[chosen] for name in _COLUMNS))

    def values(self, number: int, count: int, missing: int = 0) -> Int64:
        """A number of each of ``count`` messages; the last one where it is repeated."""
        result = np.full(count, missing, dtype=np.int64)
        mine = self.of(number, VARINT)
        result[mine.row] = mine.value
        return result


_COLUMNS: Final = ("row", "number", "wire", "value", "start", "end")


def read_fields(data: Bytes, start: Int64, end: Int64) -> Fields:
    """Read the fields of messages.

    Args:
        data: All bytes.
        start: First byte of each message.
        end: Its end.

    Raises:
        WireError: The bytes are no messages.
    """
    parts: list[tuple[Int64, ...]] = []
    if len(start) < _FEW:
        for row, bounds in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
            found = np.array(_scan(data, *bounds), dtype=np.int64).reshape(-1, 5)
            parts.append((np.full(len(found), row, dtype=np.int64), *found.T))
    else:
        parts += _steps(data, start.astype(np.int64), end.astype(np.int64))
    if not parts:
        return Fields(*np.empty((6, 0), dtype=np.int64))
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return Fields(*(column[order] for column in columns))


def _scan(data: Bytes, at: int, end: int) -> list[tuple[int, int, int, int, int]]:
    view = data.data[:end]
    found = []
    try:
        while at < end:
            tag, at = _number(view, at)
            number, wire = tag >> 3, tag & 7
            value, start = 0, at
            if wire == VARINT:
                value, at = _number(view, at)
                value -= (value >> 63) << 64
            elif wire == MESSAGE:
                length, start = _number(view, at)
                at = start + length
            elif wire in _WIDTH:
                at += _WIDTH[wire]
                value = int.from_bytes(view[start:at], "little", signed=True)
            else:
                raise WireError
            if not number or at > end:
                raise WireError
            found.append((number, wire, value, start, at))
    except IndexError as error:
        raise WireError from error
    return found


def _number(view: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = view[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value & ((1 << 64) - 1), at
        shift += 7
        if shift >= 7 * _MOST_GROUPS:
            raise WireError


def _steps(data: Bytes, start: Int64, end: Int64) -> list[tuple[Int64, ...]]:
    """One field of every message that has more, again and again."""
    at = start.copy()
    parts: list[tuple[Int64, ...]] = []
    rows = np.flatnonzero(at < end)
    while len(rows):
        tag, position = _numbers(data, at[rows])
        number, wire = tag >> 3, tag & 7
        value, first = np.zeros_like(tag), position.copy()
        follows = (wire == VARINT) | (wire == MESSAGE)
        if not (follows | (wire == FIXED64) | (wire == _FIXED32)).all() or (number < 1).any():
            raise WireError
        found, after = _numbers(data, position[follows])
        is_message = wire[follows] == MESSAGE
        value[follows] = np.where(is_message, 0, found)
        first[follows] = np.where(is_message, after, position[follows])
        length = np.where(is_message, found, 0)
        if (length < 0).any() or (length > len(data)).any():
            raise WireError
        position[follows] = after + length
        for kind, width in _WIDTH.items():
            mine = np.flatnonzero(wire == kind)
            if (position[mine] + width > len(data)).any():
                raise WireError
            bytes_of = data[position[mine][:, None] + np.arange(width)]
            bits = np.ascontiguousarray(bytes_of).view(f"<i{width}").ravel()
            value[mine] = bits
            position[mine] += width
        if (position > end[rows]).any():
            raise WireError
        parts.append((rows, number, wire, value, first, position))
        at[rows] = position
        rows = rows[position < end[rows]]
    return parts


def _numbers(data: Bytes, at: Int64) -> tuple[Int64, Int64]:
    """Numbers of seven bits a byte, and the ends of them."""
    value = np.zeros(len(at), dtype=np.uint64)
    position, left = at.copy(), np.arange(len(at))
    for group in range(_MOST_GROUPS):
        if not len(left):
            break
        if (position[left] >= len(data)).any():
            raise WireError
        byte = data[position[left]].astype(np.uint64)
        value[left] |= (byte & np.uint64(127)) << np.uint64(7 * group)
        position[left] += 1
        left = left[byte >= 128]
    if len(left):
        raise WireError
    return value.view(np.int64), position
