"""Memory of each GPU that a run used, from an Nsight Systems export.

``dlprof`` reads NVML while the application runs and adds the samples to the export it has made.
Without samples, the allocations that ``--cuda-memory-usage=true`` recorded are added up. Without
these, a marker at the end of each process holds the peak of PyTorch's allocator.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from aggregator.errors import CorruptProfileError
from aggregator.profile.arrays import row_codes
from aggregator.sources.nsys import schema as names
from aggregator.sources.nsys.schema import PID_MASK, PID_SHIFT
from aggregator.sources.nsys.system import plain_uuid
from aggregator.system.untrusted_json import read_object
from aggregator.texts import say

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from aggregator.profile.profile import Device
    from aggregator.sources.nsys.schema import Schema
    from aggregator.sources.nsys.system import DeviceMap

MARKER_PREFIX: Final = '{"gpu_memory"'
SAMPLE_COLUMNS: Final = (
    *("utcNs", "gpu", "uuid", "memoryTotal", "memoryUsed", "gpuUtilization", "isBefore"),
)
"""``isBefore``: taken before the application started. Units: ns since 1970, bytes, %."""
MAX_MEMORY_BYTES: Final = 1 << 50
"""No GPU has a petabyte."""
NVML_ERROR: Final = "nvmlError"
_ALLOCATED: Final = 0
_FREED: Final = 1
_KINDS_ON_GPU: Final = (2, 3, 5)
"""Device memory, arrays and static device memory; the others may be in the host's."""
GpuKey: TypeAlias = "str | int | None"
"""UUID of a GPU, or its number."""


def with_memory(
    devices: tuple[Device, ...],
    known: DeviceMap,
    schema: Schema,
    range_names: Iterable[str],
) -> tuple[Device, ...]:
    """Return the same devices with the memory that the run used."""
    has_uuids = any(device.uuid for device in devices)
    sampled, reason = _read_samples(schema, has_uuids=has_uuids)
    marked = _read_markers(range_names, has_uuids=has_uuids)
    allocated = _read_allocations(schema, known)
    result = []
    for device in devices:
        number, uuid = device.host_id, device.uuid
        found = sampled.get(uuid) or sampled.get(number) or allocated.get(number)
        found = found or marked.get(uuid) or marked.get(number)
        if found is None:
            result.append(replace(device, memory_reason=reason))
        else:
            total = device.memory_bytes or found.pop("total", None)
            found.pop("total", None)
            result.append(replace(device, memory_bytes=total, **found))
    return tuple(result)


def _read_samples(schema: Schema, *, has_uuids: bool) -> tuple[dict[GpuKey, dict[str, Any]], str]:
    """Return the peak use and mean utilization by GPU, and the reason if there are none."""
    try:
        with schema.connect() as connection:
            reason = _nvml_error(connection, schema)
            if not set(SAMPLE_COLUMNS) <= schema.columns(names.GPU_SAMPLES):
                return {}, reason
            rows = connection.execute(
                "SELECT uuid, gpu, max(memoryTotal), max(memoryUsed),"
                " max(CASE WHEN isBefore THEN memoryUsed END),"
                " avg(CASE WHEN NOT isBefore THEN gpuUtilization END)"
                f" FROM {schema.table(names.GPU_SAMPLES)} GROUP BY uuid, gpu"
            ).fetchall()
    except CorruptProfileError:
        # The profile is complete without the samples.
        return {}, say("The samples of the GPU's memory cannot be read.")
    found: dict[GpuKey, dict[str, Any]] = {}
    for uuid, gpu, total, used, before, busy in rows:
        number = gpu_key(uuid, gpu, has_uuids=has_uuids)
        if isinstance(used, int) and number is not None:
            found[number] = {
                "total": total if isinstance(total, int) and total > 0 else None,
                "memory_used_bytes": used,
                "memory_before_bytes": before if isinstance(before, int) else None,
                "busy_pct": float(busy) if isinstance(busy, int | float) else None,
                "memory_source": "nvml",
            }
    return found, reason


def _read_allocations(schema: Schema, known: DeviceMap) -> dict[GpuKey, dict[str, Any]]:
    """Return the most memory that the processes had allocated at once, by id of the GPU.

    What was allocated before the capture began is known only when it is freed.
    """
    columns = schema.columns(names.ALLOCATIONS)
    if not {"start", "globalPid", "deviceId", "bytes", "memoryOperationType"} <= columns:
        return {}
    on_gpu = ", ".join(map(str, _KINDS_ON_GPU))
    kind = f'coalesce("memKind", {_KINDS_ON_GPU[0]})' if "memKind" in columns else _KINDS_ON_GPU[0]
    selected = ", ".join(
        f'CAST(coalesce("{name}", 0) AS INTEGER)'
        for name in ("globalPid", "deviceId", "memoryOperationType", "bytes")
    )
    query = (
        f"SELECT {selected} FROM {schema.table(names.ALLOCATIONS)}"
        f" WHERE {kind} IN ({on_gpu}) AND memoryOperationType IN ({_ALLOCATED}, {_FREED})"
        ' ORDER BY "start", "memoryOperationType" DESC'
    )
    with schema.connect() as connection:
        rows = connection.execute(query).fetchall()
    pid, ordinal, operation, size = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    first, code = row_codes(pid, ordinal)
    gpus = [
        known.gpu(process >> PID_SHIFT & PID_MASK, number)
        for process, number in zip(pid[first].tolist(), ordinal[first].tolist(), strict=True)
    ]
    of_event = np.array(gpus, dtype=np.int64)[code] if gpus else pid
    signed = np.where(operation == _FREED, -size, size)
    found: dict[GpuKey, dict[str, Any]] = {}
    for gpu in set(gpus):
        held = np.cumsum(signed[of_event == gpu])
        peak = int(held.max(initial=0)) - int(held.min(initial=0))
        found[gpu] = {"memory_used_bytes": peak, "memory_source": "cuda"}
    return found


def gpu_key(uuid: object, number: object, *, has_uuids: bool) -> GpuKey:
    """Return the UUID of a GPU; another program's number is used only if UUIDs are unknown."""
    plain = plain_uuid(uuid)
    if plain and has_uuids:
        return plain
    return number if isinstance(number, int) else None


def _nvml_error(connection: sqlite3.Connection, schema: Schema) -> str:
    if not {"name", "value"} <= schema.columns(names.CAPTURE_NOTES):
        return ""
    query = f"SELECT value FROM {schema.table(names.CAPTURE_NOTES)} WHERE name = ?"
    row = connection.execute(query, (NVML_ERROR,)).fetchone()
    if row is None:
        return ""
    return say("NVML could not be read during the capture: {reason}.", reason=row[0])


def _read_markers(range_names: Iterable[str], *, has_uuids: bool) -> dict[GpuKey, dict[str, Any]]:
    """Return the peak of PyTorch's allocator, summed over the processes of each GPU."""
    by_process: dict[tuple[GpuKey, int], int] = {}
    for text in range_names:
        marker = _content(text) if text.startswith(MARKER_PREFIX) else {}
        peak, pid = marker.get("peak_reserved_bytes"), marker.get("pid", 0)
        gpu = gpu_key(marker.get("uuid"), marker.get("device"), has_uuids=has_uuids)
        if not isinstance(peak, int) or not 0 <= peak < MAX_MEMORY_BYTES:
            continue
        if gpu is not None and isinstance(pid, int):
            by_process[gpu, pid] = max(peak, by_process.get((gpu, pid), 0))
    found: dict[GpuKey, dict[str, Any]] = {}
    for (gpu, _), peak in by_process.items():
        used = found.setdefault(gpu, {"memory_used_bytes": 0, "memory_source": "pytorch"})
        used["memory_used_bytes"] += peak
    return found


def _content(text: str) -> dict[str, Any]:
    content = read_object(text).get("gpu_memory")
    return content if isinstance(content, dict) else {}
