"""A run as an event file of TensorBoard: one scalar per iteration and quantity.

A file is a sequence of records (length, checksum of the length, data, checksum of the data), each
a message ``Event`` of TensorFlow's ``event.proto``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final

from aggregator.tables.timeline.protobuf import message, text, varint

_WALL_TIME, _STEP, _FILE_VERSION, _SUMMARY = 1, 2, 3, 5  # Fields of Event.
_VALUE, _TAG, _SIMPLE_VALUE = 1, 1, 2  # Fields of Summary, and of its values.
_POLYNOMIAL: Final = 0x82F63B78
_MASK_DELTA: Final = 0xA282EAD8


def write_events(
    stream: BinaryIO,
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    started_s: float,
) -> None:
    """Write iterations as scalars: times in milliseconds, counts as they are.

    Args:
        stream: The file.
        rows: Rows of the table of iterations.
        columns: Columns to write; unknown values are left out.
        started_s: Start of the profile, since 1970.
    """
    _write(stream, _double(_WALL_TIME, started_s) + text(_FILE_VERSION, "brain.Event:2"))
    for row in rows:
        values = b"".join(_values(row, columns))
        if values:
            at_s = started_s + row["start_time_ns"] / 1e9
            step = varint(_STEP, row["iteration_index"])
            _write(stream, _double(_WALL_TIME, at_s) + step + message(_SUMMARY, values))


def _values(row: Mapping[str, Any], columns: Sequence[str]) -> Iterator[bytes]:
    for name in columns:
        value = row[name]
        if value is not None:
            is_time = name.endswith("_ns")
            tag = f"dlprof/{name.removesuffix('_ns')}_ms" if is_time else f"dlprof/{name}"
            number = value / 1e6 if is_time else value
            body = text(_TAG, tag) + bytes([_SIMPLE_VALUE << 3 | 5]) + struct.pack("<f", number)
            yield message(_VALUE, body)


def _double(number: int, value: float) -> bytes:
    return bytes([number << 3 | 1]) + struct.pack("<d", value)


def _write(stream: BinaryIO, data: bytes) -> None:
    length = struct.pack("<Q", len(data))
    stream.write(length + _masked_crc(length) + data + _masked_crc(data))


def _table() -> tuple[int, ...]:
    entries = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        entries.append(crc)
    return tuple(entries)


_TABLE: Final = _table()


def _masked_crc(data: bytes) -> bytes:
    """Return the CRC-32C, rotated and shifted as in TensorFlow's records."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF)
