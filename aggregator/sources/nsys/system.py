"""Hardware, versions and the time of an Nsight Systems export."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeAlias

from aggregator.profile.profile import Device, Session, SystemInfo
from aggregator.profile.settings import Setting, cudnn_version_text
from aggregator.sources.nsys import schema as names
from aggregator.sources.nsys.schema import Schema
from aggregator.system.sqlite_uri import lenient_text
from aggregator.system.untrusted_json import read_count

Row: TypeAlias = "dict[str, object]"


@dataclass(frozen=True)
class DeviceMap:
    """GPUs of the host, and the ordinals that CUDA gives them."""

    devices: dict[int, Device]  # Id of the GPU in the export -> its properties.
    # (process id, CUDA ordinal) -> id. A process has its own numbering when
    # ``CUDA_VISIBLE_DEVICES`` is set.
    ordinals: dict[tuple[int, int], int]
    # CUDA ordinal -> id, for processes not in ``ordinals``. Ids have another order, and a GPU that
    # CUDA cannot use has no ordinal.
    host_ordinals: dict[int, int]
    # Ordinals on the host in ``CUDA_VISIBLE_DEVICES``; empty: none. In recent exports ``ordinals``
    # holds all GPUs, whatever the variable says.
    shown: frozenset[int] = frozenset()

    def gpu(self, pid: int, ordinal: int) -> int:
        """Return the id of the GPU with a CUDA ordinal of a process."""
        return self.ordinals.get((pid, ordinal), self.host_ordinals.get(ordinal, ordinal))

    def visible(self) -> set[int]:
        """GPUs that a process could see: those with an ordinal, or all if none is recorded."""
        seen = set(self.ordinals.values()) & set(self.devices) or set(self.devices)
        named = {self.host_ordinals.get(ordinal, ordinal) for ordinal in self.shown}
        return seen & named or seen

    def numbered(self, used: set[tuple[int, int]]) -> dict[int, Device]:
        """Return the visible and used GPUs by id, each with its CUDA ordinal as number.

        If processes have the same ordinal for different GPUs, the ordinals of the host are the
        numbers, and without those the ids.

        Args:
            used: Pairs of process id and CUDA ordinal that ran work.
        """
        of_work = {ordinal: self.gpu(pid, ordinal) for pid, ordinal in sorted(used)}
        gpus = self.visible() | {self.gpu(pid, ordinal) for pid, ordinal in used}
        host = {gpu: ordinal for ordinal, gpu in self.host_ordinals.items()}
        seen = {gpu: ordinal for (_, ordinal), gpu in sorted(self.ordinals.items())}
        own = {gpu: ordinal for ordinal, gpu in of_work.items()}
        for number in (host | seen | own, host, {gpu: gpu for gpu in gpus}):
            if gpus <= number.keys() and len({number[gpu] for gpu in gpus}) == len(gpus):
                break
        known = {gpu: self.devices.get(gpu, Device(gpu)) for gpu in gpus}
        return {gpu: replace(known[gpu], device_id=number[gpu], host_id=gpu) for gpu in gpus}


def read_system(schema: Schema) -> SystemInfo:
    """Return the versions and hardware; empty where not recorded."""
    with _connected(schema) as connection:
        if schema.has(names.DLPROF_SYSTEM):
            return _from_dlprof(connection, schema)
        return _from_export(connection, schema)


def read_session_start_ns(schema: Schema) -> int:
    """Return the start of the session since 1970, or 0 if it is unknown. Unit: ns."""
    if "utcEpochNs" not in schema.columns(names.SESSION_START):
        return 0
    query = f"SELECT CAST(max(utcEpochNs) AS INTEGER) FROM {schema.table(names.SESSION_START)}"
    with _connected(schema) as connection:
        return int(connection.execute(query).fetchone()[0] or 0)


def read_capture_ns(schema: Schema) -> int:
    """Return the length of the capture, which is also its end, or 0 if it is unknown. Unit: ns."""
    if "duration" not in schema.columns(names.CAPTURE):
        return 0
    query = f"SELECT CAST(max(duration) AS INTEGER) FROM {schema.table(names.CAPTURE)}"
    with _connected(schema) as connection:
        return int(connection.execute(query).fetchone()[0] or 0)


def read_session(schema: Schema) -> Session:
    """Return when and where the capture was made."""
    with _connected(schema) as connection:
        host = _key_values(connection, schema, names.SYSTEM_ENV).get("Hostname", "")
    return Session(read_session_start_ns(schema) or None, host)


@contextmanager
def _connected(schema: Schema) -> Iterator[sqlite3.Connection]:
    with schema.connect() as connection:
        connection.row_factory = sqlite3.Row
        connection.text_factory = lenient_text
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
    """Add the versions from markers: an export only has the driver's CUDA and no framework."""
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
    rows = connection.execute(f"SELECT name, value FROM {schema.table(table)} ORDER BY name, value")
    return {str(row[0]): str(row[1] if row[1] is not None else "") for row in rows}


def _from_export(connection: sqlite3.Connection, schema: Schema) -> SystemInfo:
    env = _key_values(connection, schema, names.SYSTEM_ENV)
    meta = _key_values(connection, schema, names.EXPORT_META)
    meta |= _key_values(connection, schema, names.OLD_EXPORT_META)
    return SystemInfo(
        cpu_model=env.get("CpuDescription", ""),
        driver_version=env.get("NvDriverVersion", ""),
        cuda_version=cuda_version(env.get("CudaDriverVersion", "")),
        nsys_version=meta.get("EXPORT_PRODUCT_VERSION", "") or _own_collector(meta),
    )


OWN_COLLECTOR = "DLPROF_COLLECTOR"
"""Row of the metadata of an export that dlprof's own collector made: the version of CUPTI."""


def _own_collector(meta: dict[str, str]) -> str:
    """What recorded a capture that Nsight Systems did not; empty: unknown."""
    return f"none (dlprof, CUPTI {meta[OWN_COLLECTOR]})" if OWN_COLLECTOR in meta else ""


def cuda_version(number: str) -> str:
    """Return CUDA's version to show: 13000 is 13.0, 11070 is 11.7."""
    version = read_count(number)
    if version is None:
        return number
    return f"{version // 1000}.{version % 1000 // 10}" if version else ""


def read_devices(schema: Schema) -> DeviceMap:
    """Return the GPUs of the host; empty if the export has no table of them."""
    with _connected(schema) as connection:
        tables = [
            sorted(map(dict, connection.execute(f"SELECT * FROM {schema.table(table)}")), key=str)
            for table in (names.GPUS, names.OLD_GPUS)
            if schema.has(table)
        ]
        # Exports of early 2021 have both tables; only the old one has the compute capability.
        rows = next((rows for rows in tables if _has_capability(rows)), [])
        devices = _devices(rows or next(iter(tables), []))
        ordinals = _ordinals(connection, schema)
        shown = _visible_devices(_key_values(connection, schema, names.SYSTEM_ENV))
        return DeviceMap(devices, ordinals, _host_ordinals(rows), shown)


def _visible_devices(system: dict[str, str]) -> frozenset[int]:
    """Return the numbers in ``CUDA_VISIBLE_DEVICES``; empty if it is unset or holds names."""
    found = re.search(r"(?:^|;)CUDA_VISIBLE_DEVICES=([0-9,]+)(?:;|$)", system.get(ENVIRONMENT, ""))
    return frozenset(int(row) for row in found[1].split(",") if row) if found else frozenset()


ENVIRONMENT = "DeviceEnvironment"
"""Row with all environment variables; only ``CUDA_VISIBLE_DEVICES`` is read."""
_ID = ("id", "deviceId", "gpuId")
_MAJOR = ("computeMajor", "computeCapabilityMajor", "ccMajor")
_MINOR = ("computeMinor", "computeCapabilityMinor", "ccMinor")
_SM_COUNT = ("smCount", "numMultiprocessors")
_MEMORY = ("totalMemory", "globalMemorySize")
_CLOCK = ("clockRate",)
_BANDWIDTH = ("memoryBandwidth",)
"""Columns of the GPU tables from 2019 (after CUPTI's device record) to today."""
_OTHER_MAKERS = ("intel", "amd", "advanced micro")


def _has_capability(rows: list[Row]) -> bool:
    return bool(rows) and any(name in rows[0] for name in _MAJOR)


def _number(row: Row, columns: tuple[str, ...]) -> int | None:
    """Value of the first of the columns that exists; None: no such column, or not a number."""
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
        if not _usable(name, major, has_capability=_has_capability([row])):
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


def plain_uuid(uuid: object) -> str:
    """Return a GPU's UUID without the prefix ``GPU-``, which NVML writes and CUDA does not."""
    return str(uuid or "").lower().removeprefix("gpu-")


def _usable(name: str, major: int | None, *, has_capability: bool) -> bool:
    if has_capability:
        return major is not None and major > 0
    return not name.lower().startswith(_OTHER_MAKERS)


def _ordinals(connection: sqlite3.Connection, schema: Schema) -> dict[tuple[int, int], int]:
    if not {"gpuId", "cudaId", "pid"} <= schema.columns(names.CUDA_DEVICES):
        return {}
    rows = connection.execute(
        f"SELECT pid, cudaId, gpuId FROM {schema.table(names.CUDA_DEVICES)} ORDER BY 1, 2, 3"
    )
    numbers = [tuple(row) for row in rows]
    return {
        (pid, ordinal): gpu
        for pid, ordinal, gpu in numbers
        if all(isinstance(value, int) for value in (pid, ordinal, gpu))
    }


def _host_ordinals(rows: list[Row]) -> dict[int, int]:
    """Return the CUDA ordinals of the host's GPUs, if the table of GPUs has them."""
    result = {}
    for row in rows:
        ordinal, gpu, major = (_number(row, name) for name in (("cuDevice",), _ID, _MAJOR))
        if ordinal is not None and gpu is not None and ordinal >= 0 and (major or 0) > 0:
            result[ordinal] = gpu
    return result
