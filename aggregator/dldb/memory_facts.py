"""Facts for the advisers from the recordings of GPU memory in a database."""

from __future__ import annotations

import sqlite3

from aggregator.advice.recorded_memory import RecordedMemory
from aggregator.dldb.writer import has_table

# Reads tables, not views: the views of an untrusted file must not run inside a write transaction.
_RECORDINGS = (
    "SELECT id, device, peak_allocated, peak_active, peak_reserved, failures, failed_bytes"
    " FROM memory_recordings WHERE source <> 'nsys' ORDER BY id"
)
_KINDS = (
    "SELECT k.meaning, sum(a.bytes) AS size FROM memory_allocations AS a"
    " JOIN memory_recordings AS r ON r.id = a.recording"
    " JOIN memory_codes AS k ON k.name = 'kind' AND k.code = a.kind"
    " WHERE a.recording = ? AND a.alloc_event <= r.peak_event"
    " AND (a.free_event = -1 OR a.free_event > r.peak_event)"
    " GROUP BY k.meaning ORDER BY size DESC, k.meaning"
)
_GROWTH = (
    "SELECT name, bytes, steps FROM memory_growth WHERE recording = ? ORDER BY bytes DESC, name"
)
_CHANGES = (
    "SELECT change, peak_allocated FROM memory_changes WHERE recording = ?"
    " ORDER BY peak_allocated, change"
)


def read_recorded_memory(connection: sqlite3.Connection) -> tuple[RecordedMemory, ...]:
    """Return the recordings of PyTorch's allocator; none in databases of versions without them."""
    if not has_table(connection, "memory_growth"):
        return ()
    query = "SELECT device_id, memory_bytes FROM devices"
    totals = dict(connection.execute(query).fetchall())
    return tuple(
        RecordedMemory(
            recording=number,
            device=device,
            # A process counts the GPUs that it can see; they may be others of the machine.
            total_bytes=totals.get(device) or next(iter(totals.values()), None),
            peak_allocated=allocated,
            peak_active=active,
            peak_reserved=reserved,
            failures=failures,
            failed_bytes=failed,
            kinds=dict(connection.execute(_KINDS, (number,)).fetchall()),
            growth=tuple(map(tuple, connection.execute(_GROWTH, (number,)).fetchall())),
            changes=tuple(map(tuple, connection.execute(_CHANGES, (number,)).fetchall())),
        )
        for number, device, allocated, active, reserved, failures, failed in connection.execute(
            _RECORDINGS
        ).fetchall()
    )
