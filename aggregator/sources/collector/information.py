"""Information beside the records: GPUs, versions, the time of the capture, lost records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aggregator.sources.collector import records as kinds
from aggregator.sources.nsys import schema as names
from aggregator.sources.nsys.diagnostics import (
    OWN_DROPPED,
    OWN_ERROR,
    OWN_INCOMPLETE,
    OWN_INTERRUPTED,
    OWN_UNFINISHED,
)
from aggregator.sources.nsys.schema import PID_MASK
from aggregator.sources.nsys.system import OWN_COLLECTOR

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aggregator.sources.collector.records import Records

    Columns = dict[str, Any]

_NUMBERS: Final = ("clock", "major", "minor", "memory_clock", "bus_bits", "cache")
_MAX_TIME: Final = 1 << 62
_MAX_NUMBER: Final = 1 << 50


def information_tables(
    processes: Sequence[Records], duration_ns: int, utc_ns: int, system: Mapping[str, str]
) -> dict[str, Columns]:
    """Return the tables about the whole capture.

    Args:
        processes: What was recorded of each process.
        duration_ns: Length of the capture. Unit: ns.
        utc_ns: Its begin since 1970. Unit: ns.
        system: Properties of the host by name.
    """
    gpus, ordinals, release = _devices(processes)
    properties = {**system, **({"CudaDriverVersion": str(release)} if release else {})}
    versions = sorted({text for process in processes for text in process.notes("cupti_version")})
    return {
        names.GPUS: _columns(gpus),
        names.CUDA_DEVICES: _columns(ordinals),
        names.SYSTEM_ENV: {"name": list(properties), "value": list(properties.values())},
        names.SESSION_START: {"utcEpochNs": _one(utc_ns)},
        names.CAPTURE: {"duration": _one(duration_ns), "startTime": _one(0)},
        names.EXPORT_META: {
            "name": ["EXPORT_PRODUCT_NAME", OWN_COLLECTOR],
            "value": ["open-dlprof", ",".join(versions) or "not used"],
        },
        names.DIAGNOSTICS: _columns(_diagnostics(processes)),
    }


def _one(value: int) -> list[int]:
    return [min(max(value, 0), _MAX_TIME)]


def _columns(rows: Sequence[Mapping[str, Any]]) -> Columns:
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


def _pid(one: Records) -> int:
    return int(one.columns[kinds.PROCESS][0]["pid"]) & PID_MASK


def _devices(
    processes: Sequence[Records],
) -> tuple[list[dict[str, Any]], list[dict[str, int]], int]:
    """GPUs, their ordinals in each process, and the version of CUDA that the driver supports."""
    found: dict[str, dict[str, Any]] = {}
    ordinals, release = [], 0
    for process in processes:
        for line in process.lines(kinds.DEVICES):
            device = _device(line)
            if device is None:
                continue
            release = max(release, device.pop("release"))
            ordinal, uuid = device.pop("ordinal"), device["uuid"]
            gpu = found.setdefault(uuid, {"id": len(found), "cuDevice": len(found), **device})
            ordinals.append({"gpuId": gpu["id"], "cudaId": ordinal, "pid": _pid(process)})
    return list(found.values()), ordinals, release


def _device(line: Sequence[str]) -> dict[str, Any] | None:
    """Return a line that the collector wrote about a GPU; None if it is no such line."""
    if len(line) != 6 + len(_NUMBERS) or not all(text.isdecimal() for text in (line[0], *line[3:])):
        return None
    ordinal, uuid, name, total, release, sm_count, *numbers = line
    number = dict(zip(_NUMBERS, map(int, numbers), strict=True))
    if max(int(total), int(release), int(sm_count), *number.values()) > _MAX_NUMBER:
        return None
    # Both edges of the clock move data, bits to bytes, kHz to Hz.
    bandwidth = number["memory_clock"] * 1000 * 2 * number["bus_bits"] // 8
    return {
        "ordinal": int(ordinal),
        "release": int(release),
        "name": name,
        "uuid": "-".join(uuid[a:b] for a, b in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))),
        "totalMemory": int(total),
        "smCount": int(sm_count),
        "clockRate": number["clock"] * 1000,
        "computeMajor": number["major"],
        "computeMinor": number["minor"],
        "memoryBandwidth": bandwidth,
        "l2CacheSize": number["cache"],
    }


_ERROR: Final = 3


def _diagnostics(processes: Sequence[Records]) -> list[dict[str, Any]]:
    """Records that are missing, in rows that ``diagnostics.py`` of the reader understands."""
    rows: list[dict[str, Any]] = []

    def add(process: int, text: str) -> None:
        rows.append({"timestamp": 0, "severity": _ERROR, "text": text, "globalPid": process})

    for member in processes:
        pid = _pid(member)
        dropped = int(member.columns[kinds.END]["dropped"].max(initial=0))
        if dropped:
            add(pid, f"{OWN_DROPPED}{dropped}")
        if not member.is_complete:
            add(pid, OWN_INCOMPLETE)
        if member.unfinished:
            add(pid, f"{OWN_UNFINISHED}{member.unfinished}")
        for text in (*member.notes("cupti_error"), *member.notes("other_subscriber")):
            add(pid, f"{OWN_ERROR}{text}")
        for count in member.notes("interrupted"):
            add(pid, f"{OWN_INTERRUPTED}{count}")
    return rows
