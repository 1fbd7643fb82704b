"""Hardware and versions in an Nsight Systems export."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass

from aggregator.profile import Device, SystemInfo
from aggregator.sources import nsys_schema as names
from aggregator.sources.nsys_schema import Schema
from aggregator.sources.sqlite_files import corrupt, read_only_uri


@dataclass(frozen=True)
class DeviceMap:
    """GPUs of the host, and what each process calls them.

    Attributes:
        devices: GPU number on the host -> its properties.
        ordinals: (process id, CUDA ordinal) -> GPU number on the host. A process sees its own
            numbering when ``CUDA_VISIBLE_DEVICES`` is set.
    """

    devices: dict[int, Device]
    ordinals: dict[tuple[int, int], int]

    def visible(self) -> set[int]:
        """GPUs that a process could see: those with an ordinal, or all where none is told."""
        seen = set(self.ordinals.values()) & set(self.devices)
        return seen or set(self.devices)


def read_system(schema: Schema) -> SystemInfo:
    """Versions and hardware; what the export does not tell stays empty."""
    try:
        with closing(sqlite3.connect(read_only_uri(schema.path), uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            if schema.has(names.DLPROF_SYSTEM):
                return _from_dlprof(connection, schema)
            return _from_export(connection, schema)
    except sqlite3.DatabaseError as error:
        raise corrupt(schema.path, error) from error


def _from_dlprof(connection: sqlite3.Connection, schema: Schema) -> SystemInfo:
    row = connection.execute(
        f"SELECT * FROM {schema.table(names.DLPROF_SYSTEM)} LIMIT 1"
    ).fetchone()
    values = {str(key): str(value or "") for key, value in dict(row).items()} if row else {}
    return SystemInfo(
        cpu_model=values.get("cpuModel", ""),
        driver_version=values.get("driverVersion", ""),
        framework=values.get("framework", ""),
        cuda_version=values.get("cudaVersion", ""),
        cudnn_version=values.get("cudnnVersion", ""),
        nsys_version=values.get("nsysVersion", ""),
        gpu_count_text=values.get("gpuCount", ""),
    )


def _key_values(connection: sqlite3.Connection, schema: Schema, table: str) -> dict[str, str]:
    if not {"name", "value"} <= schema.columns(table):
        return {}
    rows = connection.execute(f"SELECT name, value FROM {schema.table(table)}")
    return {str(row[0]): str(row[1] if row[1] is not None else "") for row in rows}


def _from_export(connection: sqlite3.Connection, schema: Schema) -> SystemInfo:
    env = _key_values(connection, schema, names.SYSTEM_ENV)
    meta = _key_values(connection, schema, names.EXPORT_META)
    meta |= _key_values(connection, schema, names.OLD_EXPORT_META)
    return SystemInfo(
        cpu_model=env.get("CpuDescription", ""),
        driver_version=env.get("NvDriverVersion", ""),
        cuda_version=cuda_version(env.get("CudaDriverVersion", "")),
        nsys_version=meta.get("EXPORT_PRODUCT_VERSION", ""),
    )


def cuda_version(number: str) -> str:
    """CUDA's version as people write it: 13000 is 13.0, 11070 is 11.7."""
    if not number.isdigit():
        return number
    return f"{int(number) // 1000}.{int(number) % 1000 // 10}" if int(number) else ""


def read_devices(schema: Schema) -> DeviceMap:
    """GPUs of the host; empty where the export has no table of them."""
    table = names.GPUS if schema.has(names.GPUS) else names.OLD_GPUS
    try:
        with closing(sqlite3.connect(read_only_uri(schema.path), uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            rows: list[sqlite3.Row] = []
            if schema.has(table):
                rows = connection.execute(f"SELECT * FROM {schema.table(table)}").fetchall()
            return DeviceMap(_devices(rows), _ordinals(connection, schema))
    except sqlite3.DatabaseError as error:
        raise corrupt(schema.path, error) from error


def _devices(rows: list[sqlite3.Row]) -> dict[int, Device]:
    result: dict[int, Device] = {}
    for row in rows:
        values = dict(row)
        major = values.get("computeMajor", values.get("ccMajor"))
        minor = values.get("computeMinor", values.get("ccMinor"))
        if major is None or int(major) <= 0:
            continue  # a GPU that CUDA cannot use, such as an integrated one of another maker
        device_id = int(values.get("id", values.get("gpuId", len(result))) or 0)
        result[device_id] = Device(
            device_id=device_id,
            name=str(values.get("name") or ""),
            compute_capability=(int(major), int(minor or 0)),
            sm_count=_int_or_none(values.get("smCount")),
            memory_bytes=_int_or_none(values.get("totalMemory")),
        )
    return result


def _int_or_none(value: object) -> int | None:
    return int(value) if isinstance(value, int) and value > 0 else None


def _ordinals(connection: sqlite3.Connection, schema: Schema) -> dict[tuple[int, int], int]:
    if not {"gpuId", "cudaId", "pid"} <= schema.columns(names.CUDA_DEVICES):
        return {}
    rows = connection.execute(f"SELECT pid, cudaId, gpuId FROM {schema.table(names.CUDA_DEVICES)}")
    return {(int(row[0]), int(row[1])): int(row[2]) for row in rows if None not in tuple(row)}
