"""Waits for streams and events, joined to the records of the events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aggregator.profile.profile import ABSENT_RECORD, BlockingStreams, DeviceWork, Waits
from aggregator.sources.arrow_columns import arrow_connection, integers
from aggregator.sources.nsys import schema as names
from aggregator.sources.nsys.schema import PID_SHIFT, Schema

if TYPE_CHECKING:
    from aggregator.profile.arrays import Int64, Integers

NOT_SET = (1 << 32) - 1
"""CUPTI's value of an id that does not apply."""
_NEVER_RECORDED = 0
"""Its number of the record of an event that was not recorded before: waiting for it is no wait."""
_NEEDED = {"correlationId", "eventSyncId", "streamId", "globalPid"}
_ID_BITS = 40


def read_waits(schema: Schema, event: Integers, syncs: DeviceWork, process_keys: Int64) -> Waits:
    """Find where the events were recorded that synchronizations wait for.

    Args:
        schema: The export.
        event: ``eventSyncId`` of each synchronization; -1: the export has none.
        syncs: The synchronizations.
        process_keys: Process part of the ids of each row of the profile's processes.
    """
    wanted = event.astype(np.int64)
    is_event = (wanted > _NEVER_RECORDED) & (wanted != NOT_SET)
    stream = np.full(len(syncs), -1, dtype=np.int64)
    record = np.where(is_event, ABSENT_RECORD, stream)
    if len(syncs) and schema.columns(names.EVENTS) >= _NEEDED:
        pid, recorded, record_id, record_stream = _read_events(schema)
        row = np.searchsorted(process_keys, pid >> PID_SHIFT)
        key, order = np.unique(row << _ID_BITS | recorded, return_index=True)
        own = syncs.process.astype(np.int64) << _ID_BITS | wanted
        place = np.minimum(np.searchsorted(key, own), max(len(key) - 1, 0))
        if len(key):
            found = (wanted >= 0) & (wanted != NOT_SET) & (key[place] == own)
            record[found] = record_id[order[place[found]]]
            stream[found] = record_stream[order[place[found]]]
    waited = syncs.stream_id.astype(np.int64)
    return Waits(
        process=syncs.process,
        correlation_id=syncs.correlation_id.astype(np.int64),
        device=syncs.device,
        stream_id=np.where(waited == NOT_SET, -1, waited),
        record_id=record,
        record_stream_id=stream,
    )


_BLOCKING, _LEGACY_DEFAULT = 1, 3
"""CUPTI's kinds of streams."""


def read_blocking_streams(schema: Schema, process_ids: tuple[int, ...]) -> BlockingStreams:
    """Streams that wait for the legacy default stream, of processes that have such."""
    if not schema.columns(names.STREAMS) >= {"processId", "streamId", "flag"}:
        return BlockingStreams()
    select = ", ".join(
        f'CAST(coalesce("{name}", -1) AS INTEGER)' for name in ("processId", "streamId", "flag")
    )
    with arrow_connection(schema.path) as connection:
        parts = [
            np.stack([integers(column).astype(np.int64) for column in batch.columns])
            for batch in connection.batches(f"SELECT {select} FROM {schema.table(names.STREAMS)}")
        ]
    pid, stream, kind = np.concatenate([np.empty((3, 0), dtype=np.int64), *parts], axis=1)
    process = np.full(len(pid), -1, dtype=np.int64)
    for row, number in enumerate(process_ids):
        process[pid == number] = row
    keep = (process >= 0) & ((kind == _BLOCKING) | (kind == _LEGACY_DEFAULT))
    keep &= np.isin(process, process[kind == _BLOCKING])
    rows = np.unique(np.stack([process, stream, kind == _LEGACY_DEFAULT])[:, keep], axis=1)
    return BlockingStreams(*rows.astype(np.int64))


def _read_events(schema: Schema) -> list[Int64]:
    """Process, sync id, correlation id and stream of all recorded events."""
    columns = ("globalPid", "eventSyncId", "correlationId", "streamId")
    select = ", ".join(f'CAST(coalesce("{name}", -1) AS INTEGER)' for name in columns)
    parts: list[list[Int64]] = [[np.empty(0, dtype=np.int64)] for _ in columns]
    with arrow_connection(schema.path) as connection:
        for batch in connection.batches(f"SELECT {select} FROM {schema.table(names.EVENTS)}"):
            for part, column in zip(parts, batch.columns, strict=True):
                part.append(integers(column).astype(np.int64))
    return [np.concatenate(part) for part in parts]
