"""Hardware and versions in an Nsight Systems export."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from aggregator.model_settings import Setting, cudnn_version_text
from aggregator.profile import Device, Session, SystemInfo
from aggregator.sources import nsys_schema as names
from aggregator.sources.nsys_memory import plain_uuid
from aggregator.sources.nsys_schema import Schema
from aggregator.sources.sqlite_files import READ_ERRORS, corrupt
from aggregator.sqlite_uri import read_only_uri

Row: TypeAlias = "dict[str, object]"


@dataclass(frozen=True)
class DeviceMap:
    """GPUs of the host, and what each process calls them.

    Attributes:
        devices: GPU number on the host -> its properties.
        ordinals: (process id, CUDA ordinal) -> GPU number on the host. A process sees its own
            numbering when ``CUDA_VISIBLE_DEVICES`` is set.
        host_ordinals: CUDA ordinal -> GPU number on the host, for processes not in ``ordinals``:
            a GPU that CUDA cannot use takes a number on the host and no ordinal.
        gpu_of_uuid: GPU number on the host by UUID.
        shown: Ordinals on the host that ``CUDA_VISIBLE_DEVICES`` named; empty: it named none. The
            ordinals of recent exports hold all GPUs whatever it says.
    """

    devices: dict[int, Device]
    ordinals: dict[tuple[int, int], int]
    host_ordinals: dict[int, int]
    gpu_of_uuid: dict[str, int] = field(default_factory=dict)
    shown: frozenset[int] = frozenset()

    def gpu(self, pid: int, ordinal: int) -> int:
        """Number on the host of the GPU that a process calls ``ordinal``."""
        return self.ordinals.get((pid, ordinal), self.host_ordinals.get(ordinal, ordinal))

    def visible(self) -> set[int]:
        """GPUs that a process could see: those with an ordinal, or all where none is told."""
        seen = set(self.ordinals.values()) & set(self.devices) or set(self.devices)
        named = {self.host_ordinals.get(ordinal, ordinal) for ordinal in self.shown}
        return seen & named or seen


def read_system(schema: Schema) -> SystemInfo:
    """Versions and hardware; what the export does not tell stays empty."""
    try:
        with _connected(schema) as connection:
            if schema.has(names.DLPROF_SYSTEM):
                return _from_dlprof(connection, schema)
            return _from_export(connection, schema)
    except READ_ERRORS as error:
        raise corrupt(schema.path, error) from error


def read_session_start_ns(schema: Schema) -> int:
    """Start of the session since 1970; 0: unknown. Unit: ns."""
    if "utcEpochNs" not in schema.columns(names.SESSION_START):
        return 0
    query = f"SELECT CAST(max(utcEpochNs) AS INTEGER) FROM {schema.table(names.SESSION_START)}"
    try:
        with _connected(schema) as connection:
            return int(connection.execute(query).fetchone()[0] or 0)
    except READ_ERRORS as error:
        raise corrupt(schema.path, error) from error


def read_session(schema: Schema) -> Session:
    """When and where the capture was made."""
    try:
        with _connected(schema) as connection:
            host = _key_values(connection, schema, names.SYSTEM_ENV).get("Hostname", "")
    except READ_ERRORS as error:
        raise corrupt(schema.path, error) from error
    return Session(read_session_start_ns(schema) or None, host)


@contextmanager
def _connected(schema: Schema) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(read_only_uri(schema.path), uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        yield connection


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


def with_settings(system: SystemInfo, settings: dict[str, Setting]) -> SystemInfo:
    """Versions that markers told: an export alone knows the driver's CUDA and no framework."""
    framework = str(settings["framework"].value or "")
    cuda = str(settings["cuda_version"].value or "")
    cudnn = cudnn_version_text(settings["cudnn_version"].value)
    return replace(
        system,
        framework=system.framework or framework,
        cuda_version=cuda or system.cuda_version,
        cudnn_version=system.cudnn_version or cudnn,
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
    try:
        with _connected(schema) as connection:
            tables = [
                [dict(row) for row in connection.execute(f"SELECT * FROM {schema.table(table)}")]
                for table in (names.GPUS, names.OLD_GPUS)
                if schema.has(table)
            ]
            # Early 2021 both tables exist, and only the old one tells what CUDA can do with a GPU.
            rows = next((rows for rows in tables if _tells_capability(rows)), [])
            devices = _devices(rows or next(iter(tables), []))
            ordinals = _ordinals(connection, schema)
            shown = _shown(_key_values(connection, schema, names.SYSTEM_ENV))
            return DeviceMap(devices, ordinals, _host_ordinals(rows), _uuids(rows), shown)
    except READ_ERRORS as error:
        raise corrupt(schema.path, error) from error


def _shown(system: dict[str, str]) -> frozenset[int]:
    """Numbers in the ``CUDA_VISIBLE_DEVICES`` of the run; empty: not set, or set to names."""
    found = re.search(r"(?:^|;)CUDA_VISIBLE_DEVICES=([0-9,]+)(?:;|$)", system.get(ENVIRONMENT, ""))
    return frozenset(int(one) for one in found[1].split(",") if one) if found else frozenset()


ENVIRONMENT = "DeviceEnvironment"
"""Of it nothing else is read: it holds all variables."""
_ID = ("id", "deviceId", "gpuId")
_MAJOR = ("computeMajor", "computeCapabilityMajor", "ccMajor")
_MINOR = ("computeMinor", "computeCapabilityMinor", "ccMinor")
_SM_COUNT = ("smCount", "numMultiprocessors")
_MEMORY = ("totalMemory", "globalMemorySize")
_CLOCK = ("clockRate",)
_BANDWIDTH = ("memoryBandwidth",)
"""Columns of the GPU tables from 2019 (after CUPTI's device record) to today."""
_OTHER_MAKERS = ("intel", "amd", "advanced micro")


def _tells_capability(rows: list[Row]) -> bool:
    return bool(rows) and any(name in rows[0] for name in _MAJOR)


def _number(row: Row, columns: tuple[str, ...]) -> int | None:
    """First of the columns that the table has; None: it has none, or no number in it."""
    for name in columns:
        if name in row:
            value = row[name]
            return value if isinstance(value, int) else None
    return None


def _devices(rows: list[Row]) -> dict[int, Device]:
    result: dict[int, Device] = {}
    for row in rows:
        name = str(row.get("name") or "")
        major, minor = _number(row, _MAJOR), _number(row, _MINOR)
        if not _usable(name, major, tells=_tells_capability([row])):
            continue  # a GPU that CUDA cannot use, such as an integrated one of another maker
        number = _number(row, _ID)
        device_id = number if number is not None else len(result)
        result[device_id] = Device(
            device_id=device_id,
            name=name,
            compute_capability=(major, minor or 0) if major else None,
            sm_count=_number(row, _SM_COUNT) or None,
            memory_bytes=_number(row, _MEMORY) or None,
            uuid=plain_uuid(row.get("uuid")),
            clock_hz=_number(row, _CLOCK) or None,
            bandwidth=_number(row, _BANDWIDTH) or None,
        )
    return result


def _usable(name: str, major: int | None, *, tells: bool) -> bool:
    if tells:
        return major is not None and major > 0
    return not name.lower().startswith(_OTHER_MAKERS)


def _ordinals(connection: sqlite3.Connection, schema: Schema) -> dict[tuple[int, int], int]:
    if not {"gpuId", "cudaId", "pid"} <= schema.columns(names.CUDA_DEVICES):
        return {}
    rows = connection.execute(f"SELECT pid, cudaId, gpuId FROM {schema.table(names.CUDA_DEVICES)}")
    numbers = [tuple(row) for row in rows]
    return {
        (pid, ordinal): gpu
        for pid, ordinal, gpu in numbers
        if all(isinstance(value, int) for value in (pid, ordinal, gpu))
    }


def _uuids(rows: list[Row]) -> dict[str, int]:
    numbers = [(plain_uuid(row.get("uuid")), _number(row, _ID)) for row in rows]
    return {uuid: number for uuid, number in numbers if uuid and number is not None}


def _host_ordinals(rows: list[Row]) -> dict[int, int]:
    """CUDA ordinals of the host's GPUs, where the table of GPUs tells them."""
    result = {}
    for row in rows:
        ordinal, gpu, major = (_number(row, name) for name in (("cuDevice",), _ID, _MAJOR))
        if ordinal is not None and gpu is not None and ordinal >= 0 and (major or 0) > 0:
            result[ordinal] = gpu
    return result
