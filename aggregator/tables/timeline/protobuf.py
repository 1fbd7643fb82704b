"""Protocol-buffer messages from columns: one message per row, all rows of a field at once.

A library encodes one message object after the other, about a microsecond for each field. Here a
field of all rows is a matrix of bytes with a mask of those in use; a message is its fields side by
side. The wire format: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np

from aggregator.profile.arrays import Bool, Bytes, Integers

Field: TypeAlias = tuple[Bytes, Bool]
"""Bytes of a field, shape (rows, width), and which of them are in use."""
_VARINT: Final = 0
_FIXED64: Final = 1
_LENGTH_DELIMITED: Final = 2
_MOST_GROUPS: Final = 10  # of seven bits, in a number of 64


def varints(number: int, values: Integers, present: Bool | None = None) -> Field:
    """Return a field of whole numbers, one per row.

    Args:
        number: Number of the field.
        values: Shape (n,); negative ones are stored as 64-bit two's complement.
        present: Rows that have the field; None: all.
    """
    return _tagged(number, _VARINT, _varint(values), present)


def fixed64s(number: int, values: Integers, present: Bool | None = None) -> Field:
    """Return a field of 64-bit numbers of fixed width, one per row."""
    data = values.astype("<u8").view(np.uint8).reshape(-1, 8)
    return _tagged(number, _FIXED64, (data, np.ones(data.shape, dtype=bool)), present)


def messages(number: int, fields: Sequence[Field], present: Bool | None = None) -> Field:
    """Return a field that is a message itself, made of fields of the same rows."""
    data, used = hstack_fields(fields)
    length, length_used = _varint(used.sum(axis=1))
    body = np.hstack([length, data]), np.hstack([length_used, used])
    return _tagged(number, _LENGTH_DELIMITED, body, present)


def hstack_fields(fields: Sequence[Field]) -> Field:
    """Return the fields one after the other in each row."""
    return np.hstack([data for data, _ in fields]), np.hstack([used for _, used in fields])


def encoded(field: Field) -> bytes:
    """Return the bytes of all rows, one row after the other."""
    data, used = field
    return data[used].tobytes()


def text(number: int, value: str) -> bytes:
    """Return one field of text."""
    return message(number, value.encode())


def message(number: int, content: bytes) -> bytes:
    """Return one field that is a message, or bytes."""
    return _one(number << 3 | _LENGTH_DELIMITED) + _one(len(content)) + content


def varint(number: int, value: int) -> bytes:
    """Return one field of a whole number."""
    return _one(number << 3 | _VARINT) + _one(value)


def _one(value: int) -> bytes:
    return encoded(_varint(np.array([value], dtype=np.uint64)))


def _varint(values: Integers) -> Field:
    unsigned = values.astype(np.uint64, copy=False)
    highest = int(unsigned.max(initial=0))
    width = max(-(-highest.bit_length() // 7), 1)
    place = np.arange(width, dtype=np.uint64)
    groups = (unsigned[:, None] >> (place * np.uint64(7))) & np.uint64(0x7F)
    length = np.ones(len(unsigned), dtype=np.uint64)
    for number in range(1, min(width, _MOST_GROUPS)):
        length += unsigned >= np.uint64(1 << (7 * number))
    goes_on = place + np.uint64(1) < length[:, None]
    data: Bytes = groups.astype(np.uint8) | np.where(goes_on, np.uint8(0x80), np.uint8(0))
    return data, place < length[:, None]


def _tagged(number: int, wire: int, value: Field, present: Bool | None) -> Field:
    data, used = value
    tag = np.frombuffer(_one(number << 3 | wire), dtype=np.uint8)
    tags = np.broadcast_to(tag, (len(data), len(tag)))
    used = np.hstack([np.ones(tags.shape, dtype=bool), used])
    if present is not None:
        used &= present[:, None]
    return np.hstack([tags, data]), used
