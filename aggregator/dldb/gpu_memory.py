"""Recordings of GPU memory in a database: the replayed counts and whose each allocation is."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np

from aggregator.dldb.column_blobs import (
    PART_ROWS,
    decoded,
    encode,
    kept_arrays,
    narrowed,
    read_columns,
)
from aggregator.dldb.memory_owners import write_owners
from aggregator.dldb.stored import require_aggregable
from aggregator.dldb.writer import Table, aggregation_transaction, has_table, insert_rows
from aggregator.errors import DldbVersionError
from aggregator.metrics.memory.analysis import DeviceMemory, Recording
from aggregator.metrics.memory.answers import leaks, step_peaks
from aggregator.metrics.memory.attribution import Attribution
from aggregator.metrics.memory.kinds import EVIDENCE_TEXTS, KIND_NAMES
from aggregator.metrics.memory.model import Blocks, Stacks
from aggregator.metrics.memory.overview import (
    Overview,
    Shown,
    decode_overview,
    encode_overview,
    is_large,
    overview,
)
from aggregator.metrics.memory.phases import PHASE_NAMES
from aggregator.metrics.memory.replay import Allocations, Changes, Replay
from aggregator.metrics.memory.steps import Steps
from aggregator.metrics.memory.what_if import usual_changes
from aggregator.profile.arrays import Int64
from aggregator.texts import say

_COUNTS: Final = ("time", "allocated", "active", "reserved")
_BLOCKS: Final = ("address", "size", "requested", "state", "segment")


def memory_tables(
    recordings: Sequence[Recording],
    first: int = 1,
    first_row: int = 1,
    *,
    has_overviews: bool | None = None,
) -> Iterator[Table]:
    """Rows of recordings that are numbered from ``first``, their allocations from ``first_row``.

    With ``has_overviews`` what a view shows first is stored, too; None: if one of them is large.
    """
    if not recordings:
        return
    if first == 1:
        yield _codes()
    if has_overviews is None:
        has_overviews = any(map(is_large, recordings))
    for number, recording in enumerate(recordings, start=first):
        memory = recording.memory
        yield _recording(number, recording)
        yield _counts(number, memory)
        yield _steps(number, memory)
        yield _growth(number, memory)
        yield _changes(number, memory)
        if has_overviews:
            yield _overview(number, recording)
        used = np.unique(memory.whose.stack)
        yield from _allocations(number, memory, used, first_row)
        first_row += len(memory.rows)
        names = memory.whose.names
        yield _numbered("memory_names", number, {"name": list(names)}, len(names))
        yield from _stacks(number, memory.stacks, used)
        blocks = {name: getattr(memory.blocks, name) for name in _BLOCKS}
        yield _numbered("memory_blocks", number, blocks, len(memory.blocks.size))


def _codes() -> Table:
    known = {"kind": KIND_NAMES, "evidence": EVIDENCE_TEXTS, "phase": PHASE_NAMES}
    rows = [(name, code, text) for name, texts in known.items() for code, text in enumerate(texts)]
    names, codes, meanings = zip(*rows, strict=True)
    columns = {"name": list(names), "code": list(codes), "meaning": list(meanings)}
    return Table("memory_codes", columns)


def _recording(number: int, recording: Recording) -> Table:
    memory, counts = recording.memory, recording.memory.counts
    values: dict[str, Any] = {
        "id": number,
        "device": memory.device,
        "source": memory.source,
        "source_file": recording.source_file,
        "clock_offset": recording.clock_offset_ns,
        "events": memory.num_events,
        "peak_allocated": counts.peak_allocated,
        "peak_event": counts.peak_event,
        "peak_reserved": counts.peak_reserved,
        "start_allocated": counts.start_allocated,
        "start_reserved": counts.start_reserved,
        "end_allocated": counts.end_allocated,
        "end_active": counts.end_active,
        "end_reserved": counts.end_reserved,
        "step_evidence": memory.whose.steps.evidence,
        # Other sources do not record when a stream has finished with what was released.
        "peak_active": counts.peak_active if memory.source == "snapshot" else None,
        "failures": memory.failures,
        "failed_bytes": memory.failed_bytes,
    }
    return Table("memory_recordings", {name: [value] for name, value in values.items()})


def _counts(number: int, memory: DeviceMemory) -> Table:
    counts = memory.counts
    columns = (memory.time_ns, counts.allocated, counts.active, counts.reserved)
    rows = [
        (number, name, low, *narrowed(column[low : low + PART_ROWS]))
        for name, column in zip(_COUNTS, columns, strict=True)
        for low in range(0, len(column), PART_ROWS)
    ]
    names = ("recording", "name", "first_event", "item_bytes", "base", "data")
    return Table("memory_counts", {key: [row[i] for row in rows] for i, key in enumerate(names)})


def _steps(number: int, memory: DeviceMemory) -> Table:
    peaks = step_peaks(memory)
    first = [0, *memory.whose.steps.bounds.tolist()]
    return Table(
        "memory_steps",
        {
            "recording": [number] * len(peaks),
            "step": [one.step for one in peaks],
            "first_event": [first[one.step] for one in peaks],
            "peak_event": [one.event for one in peaks],
            "peak_allocated": [one.allocated_bytes for one in peaks],
        },
    )


def _growth(number: int, memory: DeviceMemory) -> Table:
    found = leaks(memory)
    columns: dict[str, list[Any]] = {
        "recording": [number] * len(found),
        "name": [one.name for one in found],
        "bytes": [one.bytes for one in found],
        "steps": [one.steps for one in found],
    }
    return Table("memory_growth", columns, is_optional=True)


def _changes(number: int, memory: DeviceMemory) -> Table:
    found = usual_changes(memory)
    columns: dict[str, list[Any]] = {
        "recording": [number] * len(found),
        "change": [one.change for one in found],
        "peak_allocated": [one.peak_allocated_bytes for one in found],
    }
    return Table("memory_changes", columns, is_optional=True)


def _overview(number: int, recording: Recording) -> Table:
    columns = {"recording": [number], "data": [encode_overview(overview(Shown(recording)))]}
    return Table("memory_overviews", columns, is_optional=True)


def _allocations(number: int, memory: DeviceMemory, used: Int64, first_row: int) -> Iterator[Table]:
    """The allocations, some rows at a time: a large recording has millions."""
    rows, whose = memory.rows, memory.whose
    for low in range(0, len(rows), PART_ROWS):
        part = slice(low, low + PART_ROWS)
        count = len(rows.size[part])
        columns: dict[str, Any] = {
            "id": np.arange(first_row + low, first_row + low + count),
            "recording": np.full(count, number),
            "address": rows.address[part],
            "bytes": rows.size[part],
            "alloc_event": rows.alloc_event[part],
            "free_event": rows.free_event[part],
            "block": rows.block[part],
            "is_rounding": rows.is_rounding[part],
            "kind": whose.kind[part],
            "evidence": whose.evidence[part],
            "phase": whose.phase[part],
            "step": whose.step[part],
            "stack": np.searchsorted(used, whose.stack[part]),
            "module": whose.module[part],
            "op": whose.op[part],
        }
        found = {name: one.astype(np.int64) for name, one in columns.items()}
        yield Table("memory_allocations", found)


def _numbered(table: str, recording: int, columns: dict[str, Any], count: int) -> Table:
    numbers = np.arange(count)
    return Table(table, {"recording": np.full(count, recording), "number": numbers, **columns})


def _stacks(number: int, stacks: Stacks, used: Int64) -> Iterator[Table]:
    """The call stacks that are used, renumbered, with their frames."""
    chosen = [stacks.frames[stack] for stack in used.tolist()]
    frames = {frame: new for new, frame in enumerate(dict.fromkeys(chain.from_iterable(chosen)))}
    columns = {
        "name": [stacks.names[frame] for frame in frames],
        "file": [stacks.files[frame] for frame in frames],
        "line": [stacks.lines[frame] for frame in frames],
    }
    yield _numbered("memory_frames", number, columns, len(frames))
    texts = [json.dumps([frames[frame] for frame in stack]) for stack in chosen]
    yield _numbered("memory_stacks", number, {"frames": texts}, len(texts))


def add_recordings(database: Path, recordings: Sequence[Recording]) -> None:
    """Add recordings to an existing database, all or none.

    Raises:
        DatabaseError: It cannot be written, or a version before these tables wrote it.
    """
    require_aggregable(database)
    with aggregation_transaction(database) as connection:
        if not has_table(connection, "memory_recordings"):
            raise DldbVersionError(
                say("'{database}' has no tables for recordings of memory.", database=database),
                hint=say("Import the profile again: dlprof --database=profile.sqlite"),
            )
        last = "SELECT coalesce(max(id), 0) + 1 FROM"
        ((first,),) = connection.execute(f"{last} memory_recordings").fetchall()
        ((row,),) = connection.execute(f"{last} memory_allocations").fetchall()
        has_overviews = _complete_overviews(connection, recordings)
        tables = memory_tables(recordings, first, row, has_overviews=has_overviews)
        with kept_arrays(connection, "memory_allocations"):
            for table in tables:
                insert_rows(connection, table)
                arrays = encode(table.name, table.columns, row)
                insert_rows(connection, Table("column_blobs", arrays))
                row += len(table) if table.name == "memory_allocations" else 0
        write_owners(connection, recordings)
        connection.execute("INSERT OR REPLACE INTO dldb_meta VALUES ('has_memory', '1')")


def _complete_overviews(connection: sqlite3.Connection, added: Sequence[Recording]) -> bool:
    """Whether recordings need overviews with some more; stores those of earlier ones then."""
    if not has_table(connection, "memory_overviews"):
        return False
    known = "SELECT max(o.recording IS NOT NULL) FROM memory_recordings AS r"
    known += " LEFT JOIN memory_overviews AS o ON o.recording = r.id"
    ((has_some,),) = connection.execute(known).fetchall()
    if has_some or not any(map(is_large, added)):
        return bool(has_some)
    for number, recording in enumerate(read_recordings(connection), start=1):
        insert_rows(connection, _overview(number, recording))
    return True


def read_overviews(connection: sqlite3.Connection) -> tuple[Overview, ...]:
    """What a view shows first of each recording; nothing if that is stored of some only.

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
    """Time 0 of a profile's clock since 1970; None: unknown."""
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
    columns = read_columns(connection, "memory_allocations", _ALLOCATIONS)
    numbers = [row[0] for row in found]
    # The rows of a recording follow each other, in the order of recordings.
    low, high = (np.searchsorted(columns[0], numbers, side) for side in ("left", "right"))
    return tuple(
        _read(connection, tuple(row), [one[first:last] for one in columns[1:]])
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
        _read_counts(connection, number, name) for name in _COUNTS
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
    query = f"SELECT {', '.join(_BLOCKS)} FROM memory_blocks WHERE recording = ? ORDER BY number"
    rows = [tuple(row) for row in connection.execute(query, (recording,))]
    address, size, requested, state, segment = np.array(rows, dtype=np.int64).reshape(-1, 5).T
    none = np.zeros(len(size), dtype=np.int32)
    return Blocks(address, size, requested, state.astype(np.int8), segment, none)


def _read_stacks(connection: sqlite3.Connection, recording: int) -> Stacks:
    query = "SELECT name, file, line FROM memory_frames WHERE recording = ? ORDER BY number"
    frames = [tuple(row) for row in connection.execute(query, (recording,))]
    names, files, lines = zip(*frames, strict=True) if frames else ((), (), ())
    texts = _column(connection, "SELECT frames FROM memory_stacks", recording, "number")
    stacks = tuple(tuple(int(one) for one in json.loads(text)) for text in texts)
    return Stacks(names, files, lines, stacks)
