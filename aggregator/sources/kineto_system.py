"""What a Kineto trace tells beside its events: GPUs, versions, when it was taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from aggregator.profile import Device, Session, SystemInfo

if TYPE_CHECKING:
    from aggregator.sources.kineto_events import TraceEvents

_SINCE_1970_NS: Final = 10**18
"""Times beyond it count from 1970: they are of 2001 or later."""
_MAX_INT: Final = (1 << 63) - 1


def read_devices(events: TraceEvents) -> tuple[Device, ...]:
    """GPUs that ran work; those that were only visible tell nothing."""
    kinds = [events.tables[kind]["device"] for kind in ("kernels", "copies", "sets", "syncs")]
    used = np.unique(np.concatenate(kinds)).tolist()
    told = events.header.get("deviceProperties")
    listed = [one for one in told if isinstance(one, dict)] if isinstance(told, list) else []
    known = {number: one for one in listed if (number := _int(one, "id")) is not None}
    return tuple(_device(number, known.get(number, {})) for number in used or sorted(known))


def _device(number: int, told: dict[str, Any]) -> Device:
    major, minor = _int(told, "computeMajor"), _int(told, "computeMinor")
    name = told.get("name")
    return Device(
        device_id=number,
        name=name if isinstance(name, str) else "",
        compute_capability=(major, minor) if major is not None and minor is not None else None,
        sm_count=_int(told, "numSms"),
        memory_bytes=_int(told, "totalGlobalMem"),
    )


def _int(told: dict[str, Any], key: str) -> int | None:
    """A number that a database can hold."""
    value = told.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _MAX_INT:
        return None
    return value


def read_system(header: dict[str, Any]) -> SystemInfo:
    """Versions."""
    return SystemInfo(
        cuda_version=_cuda(_int(header, "cuda_runtime_version")),
        framework="PyTorch",
    )


def _cuda(version: int | None) -> str:
    """13000 is 13.0."""
    return f"{version // 1000}.{version % 1000 // 10}" if version else ""


def read_session(header: dict[str, Any], start_ns: int) -> Session:
    """When the first event was.

    Args:
        header: What stands beside the events.
        start_ns: Its time as recorded. Unit: ns.
    """
    base = header.get("baseTimeNanoseconds")
    if isinstance(base, str) and base.isascii() and base.isdigit() and len(base) < 20:
        base = int(base)
    start_ns += _int({"base": base}, "base") or 0
    is_known = _SINCE_1970_NS < start_ns <= _MAX_INT
    return Session(start_utc_ns=start_ns if is_known else None)


def rank_number(header: dict[str, Any]) -> int | None:
    """Number in its job that the process told; None: it told none."""
    told = header.get("distributedInfo")
    number = _int(told, "rank") if isinstance(told, dict) else None
    return number if number is not None and number >= 0 else None
