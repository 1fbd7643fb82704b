"""What the recordings of GPU memory in a database say, for the advisers."""

from __future__ import annotations

import sqlite3

from aggregator.advice.recorded_memory import RecordedMemory
from aggregator.dldb.writer import has_table

_RECORDINGS = (
    "SELECT recording, memory_device, peak_allocated_bytes, peak_active_bytes,"
    " peak_reserved_bytes, failures, failed_bytes FROM view_memory_recordings"
    " WHERE memory_source <> 'nsys' ORDER BY recording"
)
_KINDS = (
    "SELECT memory_kind, sum(bytes_at_peak) AS size FROM view_memory_peak WHERE recording = ?"
    " GROUP BY memory_kind ORDER BY size DESC, memory_kind"
)
_GROWTH = (
    "SELECT owner, growth_bytes, growth_steps FROM view_memory_growth WHERE recording = ?"
    " ORDER BY growth_bytes DESC, owner"
)
_CHANGES = (
    "SELECT change, peak_allocated_bytes FROM view_memory_changes WHERE recording = ?"
    " ORDER BY peak_allocated_bytes, change"
)


def read_recorded_memory(connection: sqlite3.Connection) -> tuple[RecordedMemory, ...]:
    """The recordings of PyTorch's allocator; none in databases of versions without them."""
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
