"""Recordings of GPU memory in a database: the replayed counts and whose each allocation is."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from aggregator.dldb.column_blobs import (
    encode,
    kept_arrays,
    narrowed_parts,
)
from aggregator.dldb.event_reader import stored_events
from aggregator.dldb.memory_reader import BLOCKS, COUNTS, read_recordings
from aggregator.dldb.stored import require_aggregable
from aggregator.dldb.writer import Table, aggregation_transaction, has_table, insert_rows
from aggregator.errors import DldbVersionError
from aggregator.events.store import EventStore
from aggregator.metrics.memory.analysis import DeviceMemory, Recording
from aggregator.metrics.memory.answers import leaks, step_peaks
from aggregator.metrics.memory.kinds import EVIDENCE_TEXTS, KIND_NAMES
from aggregator.metrics.memory.model import Stacks
from aggregator.metrics.memory.overview import (
    Shown,
    encode_overview,
    is_large,
    overview,
)
from aggregator.metrics.memory.owners import peak_owners
from aggregator.metrics.memory.phases import PHASE_NAMES
from aggregator.metrics.memory.what_if import usual_changes
from aggregator.profile.arrays import Int64, parts_of
from aggregator.texts import say


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
        blocks = {name: getattr(memory.blocks, name) for name in BLOCKS}
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
        (number, name, *stored)
        for name, column in zip(COUNTS, columns, strict=True)
        for stored in narrowed_parts(column)
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
            "step": [peak.step for peak in peaks],
            "first_event": [first[peak.step] for peak in peaks],
            "peak_event": [peak.event for peak in peaks],
            "peak_allocated": [peak.allocated_bytes for peak in peaks],
        },
    )


def _growth(number: int, memory: DeviceMemory) -> Table:
    found = leaks(memory)
    columns: dict[str, list[Any]] = {
        "recording": [number] * len(found),
        "name": [leak.name for leak in found],
        "bytes": [leak.bytes for leak in found],
        "steps": [leak.steps for leak in found],
    }
    return Table("memory_growth", columns, is_optional=True)


def _changes(number: int, memory: DeviceMemory) -> Table:
    found = usual_changes(memory)
    columns: dict[str, list[Any]] = {
        "recording": [number] * len(found),
        "change": [outcome.change for outcome in found],
        "peak_allocated": [outcome.peak_allocated_bytes for outcome in found],
    }
    return Table("memory_changes", columns, is_optional=True)


def _overview(number: int, recording: Recording) -> Table:
    columns: dict[str, Any] = {
        "recording": [number],
        "data": [encode_overview(overview(Shown(recording)))],
    }
    return Table("memory_overviews", columns, is_optional=True)


def _allocations(number: int, memory: DeviceMemory, used: Int64, first_row: int) -> Iterator[Table]:
    """Yield the allocations, some rows at a time: a large recording has millions."""
    rows, whose = memory.rows, memory.whose
    for part in parts_of(0, len(rows)):
        columns: dict[str, Any] = {
            "id": np.arange(first_row + part.start, first_row + part.stop),
            "recording": np.full(part.stop - part.start, number),
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
        found = {name: column.astype(np.int64) for name, column in columns.items()}
        yield Table("memory_allocations", found)


def _numbered(table: str, recording: int, columns: dict[str, Any], count: int) -> Table:
    numbers = np.arange(count)
    return Table(table, {"recording": np.full(count, recording), "number": numbers, **columns})


def _stacks(number: int, stacks: Stacks, used: Int64) -> Iterator[Table]:
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
        write_owners(connection, stored_events(connection), recordings)
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


def write_owners(
    connection: sqlite3.Connection, store: EventStore, recordings: Sequence[Recording]
) -> None:
    """Add the bytes at the peak of recordings to those of ops and groups."""
    if not has_table(connection, "op_memory"):
        return
    ops, groups = peak_owners(store, recordings)
    for table, key, rows in (
        ("op_memory", "op", {row + 1: size for row, size in ops.items()}.items()),
        ("group_memory", "group_name", groups.items()),
    ):
        connection.executemany(
            f"INSERT INTO {table} ({key}, peak_bytes) VALUES (?, ?) ON CONFLICT ({key})"
            " DO UPDATE SET peak_bytes = peak_bytes + excluded.peak_bytes",
            rows,
        )
