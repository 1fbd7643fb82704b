"""Reads the recordings of GPU memory in a database."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from aggregator.dldb.column_blobs import decoded, read_columns
from aggregator.dldb.reader import is_own_database, open_database
from aggregator.dldb.stored import reading_errors
from aggregator.dldb.writer import has_table
from aggregator.errors import UnsupportedProfileError
from aggregator.metrics.memory.analysis import DeviceMemory, Recording, analyze
from aggregator.metrics.memory.attribution import Attribution
from aggregator.metrics.memory.difference import MemoryDifference, compare_peaks
from aggregator.metrics.memory.model import Blocks, Stacks
from aggregator.metrics.memory.overview import Overview, decode_overview
from aggregator.metrics.memory.replay import Allocations, Changes, Replay
from aggregator.metrics.memory.steps import Steps
from aggregator.profile.arrays import Int64
from aggregator.sources.memory import read_memory
from aggregator.texts import say

COUNTS: Final = ("time", "allocated", "active", "reserved")
BLOCKS: Final = ("address", "size", "requested", "state", "segment")


def read_devices(file: Path) -> tuple[DeviceMemory, ...]:
    """Return the devices of a snapshot, an export or a trace, or those stored in a database.

    Raises:
        DlprofError: The file cannot be used, or records no memory.
    """
    if is_own_database(file):
        with open_database(file) as dldb, reading_errors(file):
            found = tuple(recording.memory for recording in read_recordings(dldb.connection))
    else:
        found = analyze(read_memory(file))
    if not found:
        raise UnsupportedProfileError(
            say("'{file}' holds no recording of GPU memory.", file=file),
            hint=say(
                "Record one with dlprof --memory, or add a snapshot with dlprof memory --into."
            ),
        )
    return found


def compare_recordings(
    base: Sequence[DeviceMemory], new: Sequence[DeviceMemory]
) -> list[MemoryDifference]:
    """Compare the peaks of the devices that both have.

    Raises:
        UnsupportedProfileError: There are none.
    """
    found = compare_peaks(base, new)
    if not found:
        raise UnsupportedProfileError(
            say("There are no recordings of GPU memory of the same devices in both.")
        )
    return found


def read_overviews(connection: sqlite3.Connection) -> tuple[Overview, ...]:
    """Return what a view shows first of each recording; nothing if that is stored of some only.

    Raises:
        sqlite3.Error, ValueError: It is damaged.
    """
    if not has_table(connection, "memory_overviews"):
        return ()
    query = (
        "SELECT o.data FROM memory_recordings AS r"
        " LEFT JOIN memory_overviews AS o ON o.recording = r.id ORDER BY r.id"
    )
    texts = [row[0] for row in connection.execute(query)]
    return tuple(map(decode_overview, texts)) if all(texts) else ()


def start_utc_ns(connection: sqlite3.Connection) -> int | None:
    """Time 0 of a profile's clock since 1970, or None if it is unknown."""
    query = "SELECT value FROM dldb_meta WHERE key = 'session_start_utc_ns'"
    row = connection.execute(query).fetchone()
    return int(row[0]) if row and row[0] else None


def read_recordings(connection: sqlite3.Connection) -> tuple[Recording, ...]:
    """Read all recordings of a database; none if it is of a version that stored none.

    Raises:
        sqlite3.Error, ValueError, TypeError, KeyError, OverflowError, IndexError: It is damaged.
    """
    if not has_table(connection, "memory_recordings"):
        return ()
    known = (
        "SELECT id, device, source, source_file, clock_offset, start_allocated, start_reserved,"
        " end_allocated, end_active, end_reserved, step_evidence FROM memory_recordings ORDER BY id"
    )
    found = connection.execute(known).fetchall()
    if not found:
        return ()
    found_columns = read_columns(connection, "memory_allocations", _ALLOCATIONS)
    columns = [column.astype(np.int64, copy=False) for column in found_columns]
    numbers = [row[0] for row in found]
    # The rows of a recording follow each other, in the order of recordings.
    low, high = (np.searchsorted(columns[0], numbers, side) for side in ("left", "right"))
    return tuple(
        _read(connection, tuple(row), [column[first:last] for column in columns[1:]])
        for row, first, last in zip(found, low.tolist(), high.tolist(), strict=True)
    )


_ALLOCATIONS: Final = (
    *("recording", "address", "bytes", "alloc_event", "free_event", "block", "is_rounding"),
    *("kind", "evidence", "phase", "step", "stack", "module", "op"),
)
_BOUNDS: Final = (
    "SELECT first_event FROM memory_steps WHERE recording = ? AND step > 0 ORDER BY step"
)


def _read(
    connection: sqlite3.Connection, values: tuple[Any, ...], columns: list[Int64]
) -> Recording:
    number, device, source, file, offset, *totals, evidence = values
    time_ns, allocated, active, reserved = (
        _read_counts(connection, number, name) for name in COUNTS
    )
    kind, why, phase, step, stack, module, op = columns[6:]
    bounds = connection.execute(_BOUNDS, (number,)).fetchall()
    whose = Attribution(
        kind=kind.astype(np.int8),
        evidence=why.astype(np.int8),
        phase=phase.astype(np.int8),
        step=step,
        stack=stack,
        module=module.astype(np.int32),
        op=op.astype(np.int32),
        names=_texts(connection, "memory_names", number),
        steps=Steps(np.array([row[0] for row in bounds], dtype=np.int64), str(evidence)),
    )
    memory = DeviceMemory(
        device=device,
        source=str(source),
        time_ns=time_ns,
        counts=Replay(allocated, active, Changes.of(reserved), *totals),
        rows=Allocations(
            address=columns[0],
            size=columns[1],
            alloc_event=columns[2],
            free_event=columns[3],
            block=columns[4],
            is_rounding=columns[5] != 0,
        ),
        whose=whose,
        blocks=_read_blocks(connection, number),
        stacks=_read_stacks(connection, number),
    )
    return Recording(memory, str(file), offset)


@dataclass(frozen=True)
class MemoryCounts:
    """What a recording counted after each of its events."""

    number: int  # Of the recording.
    device: int  # Number of the GPU, as the recorded process counts.
    clock_offset_ns: int | None  # Time 0 of the profile on the clock of ``time_ns``; None: unknown.
    time_ns: Int64  # -1: not recorded.
    allocated: Int64  # Unit: bytes.
    reserved: Int64  # Unit: bytes.


def read_counts(connection: sqlite3.Connection) -> Iterator[MemoryCounts]:
    """Yield the counts of all recordings of a database, without their allocations.

    Raises:
        sqlite3.Error, ValueError, TypeError, KeyError, OverflowError: It is damaged.
    """
    if not has_table(connection, "memory_recordings"):
        return
    sql = "SELECT id, device, clock_offset FROM memory_recordings ORDER BY id"
    for number, device, offset in connection.execute(sql).fetchall():
        time_ns, allocated, reserved = (
            _read_counts(connection, number, name) for name in ("time", "allocated", "reserved")
        )
        yield MemoryCounts(number, device, offset, time_ns, allocated, reserved)


def _read_counts(connection: sqlite3.Connection, recording: int, name: str) -> Int64:
    query = (
        "SELECT item_bytes, base, data FROM memory_counts WHERE recording = ? AND name = ?"
        " ORDER BY first_event"
    )
    parts = [decoded(*row) for row in connection.execute(query, (recording, name))]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _column(connection: sqlite3.Connection, select: str, recording: int, order: str) -> list[Any]:
    query = f"{select} WHERE recording = ? ORDER BY {order}"
    return [row[0] for row in connection.execute(query, (recording,))]


def _texts(connection: sqlite3.Connection, table: str, recording: int) -> tuple[str, ...]:
    return tuple(map(str, _column(connection, f"SELECT name FROM {table}", recording, "number")))


def _read_blocks(connection: sqlite3.Connection, recording: int) -> Blocks:
    query = f"SELECT {', '.join(BLOCKS)} FROM memory_blocks WHERE recording = ? ORDER BY number"
    rows = [tuple(row) for row in connection.execute(query, (recording,))]
    address, size, requested, state, segment = np.array(rows, dtype=np.int64).reshape(-1, 5).T
    none = np.zeros(len(size), dtype=np.int32)
    return Blocks(address, size, requested, state.astype(np.int8), segment, none)


def _read_stacks(connection: sqlite3.Connection, recording: int) -> Stacks:
    query = "SELECT name, file, line FROM memory_frames WHERE recording = ? ORDER BY number"
    frames = [tuple(row) for row in connection.execute(query, (recording,))]
    names, files, lines = zip(*frames, strict=True) if frames else ((), (), ())
    texts = _column(connection, "SELECT frames FROM memory_stacks", recording, "number")
    stacks = tuple(tuple(int(number) for number in json.loads(text)) for text in texts)
    return Stacks(names, files, lines, stacks)
