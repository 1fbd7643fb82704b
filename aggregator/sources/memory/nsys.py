"""Allocations of the CUDA driver in an Nsight Systems export (``--cuda-memory-usage=true``)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from aggregator.errors import UnsupportedProfileError
from aggregator.metrics.memory.model import (
    Action,
    DeviceTrace,
    Events,
    MemoryTrace,
    no_blocks,
    no_segments,
)
from aggregator.profile.arrays import row_codes
from aggregator.sources.formats import list_tables
from aggregator.sources.nsys import schema as names
from aggregator.sources.nsys.schema import Schema
from aggregator.texts import say

_ALLOCATED, _FREED = 0, 1
_KINDS_ON_GPU: Final = (2, 3, 5)
_NEEDED: Final = frozenset({"start", "globalPid", "deviceId", "address", "bytes"})
_PROCESS_SHIFT: Final = 56
_MOST_PROCESSES: Final = 64


def read_export(path: Path) -> MemoryTrace:
    """Read the allocations of an export; all of them count as reserved and as allocated.

    Raises:
        UnsupportedProfileError: The capture did not record them.
        CorruptProfileError: The export is damaged.
    """
    schema = Schema(path, list_tables(path))
    columns = schema.columns(names.ALLOCATIONS)
    if not {*_NEEDED, "memoryOperationType"} <= columns:
        raise UnsupportedProfileError(
            say("'{path}' does not record the allocations of GPU memory.", path=path),
            hint=say("Capture it with nsys profile --cuda-memory-usage=true, or dlprof --memory."),
        )
    on_gpu = ", ".join(map(str, _KINDS_ON_GPU))
    kind = schema.column(names.ALLOCATIONS, "memKind", str(_KINDS_ON_GPU[0]))
    selected = ", ".join(
        f"CAST(coalesce({name}, 0) AS INTEGER)"
        for name in (
            *('"start"', '"globalPid"', '"deviceId"', '"address"', '"bytes"'),
            '"memoryOperationType"',
        )
    )
    query = (
        f"SELECT {selected} FROM {schema.table(names.ALLOCATIONS)} WHERE {kind} IN ({on_gpu})"
        f' AND "memoryOperationType" IN ({_ALLOCATED}, {_FREED}) ORDER BY "start", rowid'
    )
    with schema.connect() as connection:
        rows = np.array(connection.execute(query).fetchall(), dtype=np.int64).reshape(-1, 6)
    start, pid, device, address, size, operation = rows.T
    if len(pid):
        # Processes have address spaces of their own.
        address = address + (row_codes(pid)[1] % _MOST_PROCESSES << _PROCESS_SHIFT)
    action = np.where(operation == _FREED, Action.FREE_REQUESTED, Action.ALLOC).astype(np.int8)
    none = np.zeros(len(start), dtype=np.int32)
    events = Events(action, address, size, start, none, none)
    devices = tuple(
        _device(number, events.part(np.flatnonzero(device == number)))
        for number in np.unique(device).tolist()
    )
    return MemoryTrace(devices=devices, source="nsys")


def _device(number: int, events: Events) -> DeviceTrace:
    signed = np.where(events.action == Action.ALLOC, events.size, -events.size)
    held = np.cumsum(signed)
    # What was allocated before the capture began is known only when it is released.
    held -= min(int(held.min(initial=0)), 0)
    return DeviceTrace(
        device=number,
        events=events,
        blocks=no_blocks(),
        segments=no_segments(),
        end_allocated=int(held[-1]) if len(held) else 0,
        reserved=held,
    )
