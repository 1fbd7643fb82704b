"""A folder of raw records: a file for each process, and the export that is made of them."""

from __future__ import annotations

import os
import platform
import re
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from aggregator.errors import CollectorError, NoGpuActivityError
from aggregator.texts import say

RECORDS: Final = "*.records"
EXPORT_SUFFIX: Final = ".sqlite"
_PROBLEM: Final = "problem"
_MAGIC_BYTES: Final = 8
_DRIVER: Final = re.compile(r"Kernel Module.*?\s(\d+\.[\d.]+)\s")


def files_of(folder: Path) -> list[Path]:
    """Return the files of the processes, which may be empty on a full disk."""
    return sorted(folder.glob(RECORDS))


def export_records(folder: Path, export: Path) -> int:
    """Write the export of a folder of records.

    Returns:
        The number of kernels.

    Raises:
        CollectorError: There are none, or the export cannot be written.
    """
    # Not before a capture, when its threads would receive the forwarded signals.
    import adbc_driver_manager  # noqa: PLC0415

    from aggregator.sources.collector.export import write_export  # noqa: PLC0415
    from aggregator.system.sqlite_arrow import raise_interrupt  # noqa: PLC0415

    files = [path for path in files_of(folder) if path.stat().st_size >= _MAGIC_BYTES]
    try:
        return write_export(files, export, _system())
    except NoGpuActivityError as error:
        reason = next(iter(problems(folder)), say("The collector recorded nothing."))
        raise CollectorError(reason, hint=say("Does the application use the GPU?")) from error
    except (sqlite3.Error, adbc_driver_manager.Error, OSError) as error:
        if isinstance(error, adbc_driver_manager.Error):
            raise_interrupt(error)
        reason = (isinstance(error, OSError) and error.strerror) or str(error).partition("\n")[0]
        raise CollectorError(
            say("The export {path} cannot be written: {reason}.", path=str(export), reason=reason),
            hint=say("Is the disk full?"),
        ) from error


def problems(folder: Path) -> list[str]:
    """Return a sentence for each process that could not write all of its records."""
    found: list[str] = []
    for path in sorted(folder.glob(f"{_PROBLEM}.*")):
        _, pid, error = f"{path.name}..".split(".")[:3]
        reason = ""
        with suppress(OSError):
            reason = path.read_text(errors="replace").strip()
        # On a full disk the file is empty: its name holds the number of the error.
        if not reason and error.isdecimal():
            reason = os.strerror(int(error))
        found.append(
            say(
                "Process {pid} could not write all of its records: {reason}.",
                pid=pid,
                reason=reason or "unknown",
            )
        )
    return found


def forget_problems(folder: Path) -> None:
    """Remove the messages of processes that could not write their records."""
    for path in folder.glob(f"{_PROBLEM}.*"):
        path.unlink(missing_ok=True)


def _system() -> Mapping[str, str]:
    """Properties of the host, by the names that Nsight Systems gives them."""
    found = {"Hostname": platform.node(), "CpuCores": str(os.cpu_count() or "")}
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
        model = next((line for line in lines if line.startswith("model name")), "")
        found["CpuDescription"] = model.partition(":")[2].strip()
    with suppress(OSError):
        text = Path("/proc/driver/nvidia/version").read_text(errors="replace")
        found["NvDriverVersion"] = driver_version(text)
    return {name: value for name, value in found.items() if value}


def driver_version(text: str) -> str:
    """Return the version of the driver in its own description; empty if it is not there."""
    match = _DRIVER.search(text)
    return match[1] if match else ""
