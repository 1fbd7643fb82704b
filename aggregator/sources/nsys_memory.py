"""How much memory of each GPU a run used, as far as an Nsight Systems export tells.

``dlprof`` reads NVML while the application runs and adds the samples to the export it has made.
Without them the markers tell what PyTorch's allocator held, per process, when the process ended.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from aggregator.sources import nsys_schema as names
from aggregator.sources.sqlite_files import READ_ERRORS
from aggregator.sqlite_uri import read_only_uri
from aggregator.texts import say
from aggregator.told import read_object

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aggregator.profile import Device
    from aggregator.sources.nsys_schema import Schema

MARKER_PREFIX: Final = '{"gpu_memory"'
SAMPLE_COLUMNS: Final = (
    *("utcNs", "gpu", "uuid", "memoryTotal", "memoryUsed", "gpuUtilization", "isBefore"),
)
"""``isBefore``: taken before the application started. Units: ns since 1970, bytes, %."""
MAX_MEMORY_BYTES: Final = 1 << 50
"""No GPU has a petabyte."""
NVML_ERROR: Final = "nvmlError"


def with_memory(
    devices: tuple[Device, ...],
    schema: Schema,
    gpu_of_uuid: dict[str, int],
    range_names: Iterable[str],
) -> tuple[Device, ...]:
    """The same devices with the memory that the run used.

    Args:
        devices: GPUs of the profile.
        schema: The export.
        gpu_of_uuid: GPU number on the host by ``plain_uuid``.
        range_names: Distinct range texts.
    """
    sampled, reason = _read_samples(schema, gpu_of_uuid)
    told = _read_markers(range_names, gpu_of_uuid)
    result = []
    for device in devices:
        found = sampled.get(device.device_id) or told.get(device.device_id)
        if found is None:
            result.append(replace(device, memory_reason=reason))
        else:
            total = device.memory_bytes or found.pop("total", None)
            found.pop("total", None)
            result.append(replace(device, memory_bytes=total, **found))
    return tuple(result)


def plain_uuid(uuid: object) -> str:
    """NVML writes ``GPU-`` in front of what CUDA and the export call a GPU's UUID."""
    return str(uuid or "").lower().removeprefix("gpu-")


def _read_samples(
    schema: Schema, gpu_of_uuid: dict[str, int]
) -> tuple[dict[int, dict[str, Any]], str]:
    """Peak use and mean utilisation by GPU, and why there are none."""
    try:
        with closing(sqlite3.connect(read_only_uri(schema.path), uri=True)) as connection:
            reason = _nvml_error(connection, schema)
            if not set(SAMPLE_COLUMNS) <= schema.columns(names.GPU_SAMPLES):
                return {}, reason
            rows = connection.execute(
                "SELECT uuid, gpu, max(memoryTotal), max(memoryUsed),"
                " max(CASE WHEN isBefore THEN memoryUsed END),"
                " avg(CASE WHEN NOT isBefore THEN gpuUtilization END)"
                f" FROM {schema.table(names.GPU_SAMPLES)} GROUP BY uuid, gpu"
            ).fetchall()
    except READ_ERRORS:
        # The samples are a help, not the profile.
        return {}, say("The samples of the GPU's memory cannot be read.")
    found = {}
    for uuid, gpu, total, used, before, busy in rows:
        number = _gpu(gpu_of_uuid, uuid, gpu)
        if isinstance(used, int) and number is not None:
            found[number] = {
                "total": total if isinstance(total, int) and total > 0 else None,
                "memory_used_bytes": used,
                "memory_before_bytes": before if isinstance(before, int) else None,
                "busy_pct": float(busy) if isinstance(busy, int | float) else None,
                "memory_source": "nvml",
            }
    return found, reason


def _gpu(gpu_of_uuid: dict[str, int], uuid: object, number: object) -> int | None:
    """Number on the host; another program's numbering counts only where UUIDs are not known."""
    plain = plain_uuid(uuid)
    if plain and gpu_of_uuid:
        return gpu_of_uuid.get(plain)
    return number if isinstance(number, int) else None


def _nvml_error(connection: sqlite3.Connection, schema: Schema) -> str:
    if not {"name", "value"} <= schema.columns(names.CAPTURE_NOTES):
        return ""
    query = f"SELECT value FROM {schema.table(names.CAPTURE_NOTES)} WHERE name = ?"
    row = connection.execute(query, (NVML_ERROR,)).fetchone()
    if row is None:
        return ""
    return say("NVML could not be read during the capture: {reason}.", reason=row[0])


def _read_markers(
    range_names: Iterable[str], gpu_of_uuid: dict[str, int]
) -> dict[int, dict[str, Any]]:
    """What PyTorch's allocator held at most, summed over the processes of each GPU."""
    by_process: dict[tuple[int, int], int] = {}
    for text in range_names:
        told = _content(text) if text.startswith(MARKER_PREFIX) else {}
        peak, pid = told.get("peak_reserved_bytes"), told.get("pid", 0)
        gpu = _gpu(gpu_of_uuid, told.get("uuid"), told.get("device"))
        if not isinstance(peak, int) or not 0 <= peak < MAX_MEMORY_BYTES:
            continue
        if gpu is not None and isinstance(pid, int):
            by_process[gpu, pid] = max(peak, by_process.get((gpu, pid), 0))
    found: dict[int, dict[str, Any]] = {}
    for (gpu, _), peak in by_process.items():
        used = found.setdefault(gpu, {"memory_used_bytes": 0, "memory_source": "pytorch"})
        used["memory_used_bytes"] += peak
    return found


def _content(text: str) -> dict[str, Any]:
    content = read_object(text).get("gpu_memory")
    return content if isinstance(content, dict) else {}
