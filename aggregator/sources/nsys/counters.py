"""Samples of GPUs in an Nsight Systems export: those of NVML that ``dlprof`` adds, and GPU metrics.

GPU metrics are recorded with ``nsys profile --gpu-metrics-devices=all``. Their tables are read as
NVIDIA's documentation describes them; no capture with them has been available for a test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from aggregator.errors import CorruptProfileError
from aggregator.profile.arrays import row_codes
from aggregator.sources.arrow_columns import arrow_connection, integers
from aggregator.sources.nsys import schema as names
from aggregator.sources.nsys.gpu_memory import MAX_MEMORY_BYTES, SAMPLE_COLUMNS, gpu_key
from aggregator.sources.samples import BYTES, HUNDREDTHS, PERCENT, standing, within

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aggregator.profile.arrays import Int64
    from aggregator.profile.profile import Counter, Device
    from aggregator.sources.nsys.schema import Schema

_METRICS: Final = (
    *("GR Active", "GPU Active", "SMs Active", "SM Active", "SM Issue", "Tensor Active", "DRAM"),
    *("PCIe", "NVLink"),
)
"""Beginnings of the names of metrics that are kept: how busy the GPU is, and its traffic."""
_METRIC_UNIT: Final = "[Throughput %]"
_GPU_MASK: Final = 0xFF
_MOST_SAMPLES: Final = 20_000_000


def read_counters(
    schema: Schema,
    devices: tuple[Device, ...],
    *,
    start_utc_ns: int | None,
    offset_ns: int,
    end_ns: int,
) -> tuple[Counter, ...]:
    """Return the samples of the GPUs of a profile, within its time.

    Args:
        schema: The export.
        devices: GPUs of the profile.
        start_utc_ns: Time 0 of the profile since 1970; None: unknown.
        offset_ns: What is subtracted from the times of the export.
        end_ns: End of the profile.
    """
    found: list[Counter] = []
    try:
        if start_utc_ns is not None:
            found += _nvml(schema, devices, start_utc_ns)
        found += _metrics(schema, devices, offset_ns)
    except CorruptProfileError:
        # The profile is complete without the samples.
        return ()
    return tuple(part for part in (within(counter, end_ns) for counter in found) if part)


def _nvml(schema: Schema, devices: tuple[Device, ...], start_utc_ns: int) -> Iterator[Counter]:
    if not set(SAMPLE_COLUMNS) <= schema.columns(names.GPU_SAMPLES):
        return
    query = (
        "SELECT uuid, gpu, utcNs, memoryUsed, gpuUtilization"
        f" FROM {schema.table(names.GPU_SAMPLES)}"
        " WHERE NOT isBefore AND typeof(utcNs) = 'integer' ORDER BY utcNs"
    )
    with schema.connect() as connection:
        rows = connection.execute(query).fetchall()
    has_uuids = any(device.uuid for device in devices)
    for number, device in enumerate(devices):
        keys = {device.uuid} if has_uuids and device.uuid else {device.host_id, device.device_id}
        mine = [row[2:] for row in rows if gpu_key(*row[:2], has_uuids=has_uuids) in keys]
        memory = [(at, used) for at, used, _ in mine if _is_memory(used)]
        busy = [(at, round(pct * HUNDREDTHS)) for at, _, pct in mine if _is_share(pct)]
        for name, unit, samples in (
            ("Memory in use", BYTES, memory),
            ("Utilization", PERCENT, busy),
        ):
            at, value = np.array(samples, dtype=np.int64).reshape(-1, 2).T
            yield standing(number, name, unit, "nvml", at - start_utc_ns, value)


def _is_memory(value: object) -> bool:
    return isinstance(value, int) and 0 <= value < MAX_MEMORY_BYTES


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value <= HUNDREDTHS


def _metrics(schema: Schema, devices: tuple[Device, ...], offset_ns: int) -> Iterator[Counter]:
    known = {"typeId", "metricId", "metricName"} <= schema.columns(names.GPU_METRIC_NAMES)
    if not known or not {"timestamp", "typeId", "metricId", "value"} <= schema.columns(
        names.GPU_METRICS
    ):
        return
    texts = _metric_names(schema)
    rows = {
        device.device_id if device.host_id is None else device.host_id: number
        for number, device in enumerate(devices)
    }
    at, type_id, metric, value = _metric_samples(schema)
    heads, codes = row_codes(type_id, metric)
    order = np.lexsort((at, codes))
    edges = np.searchsorted(codes[order], np.arange(len(heads) + 1))
    for code, head in enumerate(heads.tolist()):
        key = (int(type_id[head]), int(metric[head]))
        device = rows.get(key[0] & _GPU_MASK)
        if key not in texts or device is None:
            continue
        mine = order[edges[code] : edges[code + 1]]
        mine = mine[(value[mine] >= 0) & (value[mine] <= HUNDREDTHS)]
        yield standing(
            *(device, texts[key], PERCENT, "nsys"),
            *(at[mine] - offset_ns, value[mine] * HUNDREDTHS),
        )


def _metric_names(schema: Schema) -> dict[tuple[int, int], str]:
    query = f"SELECT typeId, metricId, metricName FROM {schema.table(names.GPU_METRIC_NAMES)}"
    with schema.connect() as connection:
        rows = connection.execute(query).fetchall()
    return {
        (kind, metric): name.removesuffix(_METRIC_UNIT).strip()
        for kind, metric, name in rows
        if isinstance(name, str) and name.endswith(_METRIC_UNIT) and name.startswith(_METRICS)
    }


def _metric_samples(schema: Schema) -> Sequence[Int64]:
    columns = ("timestamp", "typeId", "metricId", "value")
    select = ", ".join(f'CAST(coalesce("{name}", -1) AS INTEGER)' for name in columns)
    query = f"SELECT {select} FROM {schema.table(names.GPU_METRICS)} LIMIT {_MOST_SAMPLES}"
    parts: list[list[Int64]] = [[np.empty(0, dtype=np.int64)] for _ in columns]
    with arrow_connection(schema.path) as connection:
        for batch in connection.batches(query):
            for position, part in enumerate(parts):
                part.append(integers(batch.column(position)))
    return [np.concatenate(part) for part in parts]
