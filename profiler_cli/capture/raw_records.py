"""Raw records of dlprof's own collector: a folder beside the result, with a file for each process.

Its name holds the dlprof that made it. When the application has ended, the records become an export
and the folder goes; whatever keeps that from happening, ``dlprof --database=FOLDER`` does it later.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aggregator.errors import CollectorError, NoGpuActivityError
from aggregator.system.temporary_files import left_folders, owner
from profiler_cli.capture.nsight import EXPORT_SUFFIX, free_base
from profiler_cli.capture.step_times import FILES, read_steps, write_steps
from profiler_cli.outputs import display, output_folder

if TYPE_CHECKING:
    from profiler_cli.console import Console
    from profiler_cli.options.declared import Options

RECORDS: Final = "*.records"
STEPS: Final = "steps"
"""Link in the folder to that of the step times, which is not on a slow file system."""
_INFIX: Final = ".records-"
_MAGIC_BYTES: Final = 8
_DRIVER: Final = re.compile(r"Kernel Module.*?\s(\d+\.[\d.]+)\s")


def make_folder(base: Path, steps: Path | None) -> Path:
    """Make the folder of the records of a run.

    Args:
        base: Path of the result without extension.
        steps: Folder of the step times; None: none are measured.

    Raises:
        CollectorError: It cannot be made.
    """
    try:
        prefix = f"{base.name}{_INFIX}{owner()}-"
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=base.parent.absolute()))
        if steps is not None:
            (folder / STEPS).symlink_to(steps)
    except OSError as error:
        raise CollectorError(
            f"The folder '{base.parent}' cannot be written: {error.strerror}."
        ) from error
    return folder


def files_of(folder: Path) -> list[Path]:
    """Return the files of the processes, which may be empty on a full disk."""
    return sorted(folder.glob(RECORDS))


def keep(folder: Path, steps: Path | None) -> None:
    """Let a folder stand for itself: with the step times in it."""
    for path in sorted(steps.glob(FILES)) if steps is not None else ():
        with suppress(OSError):
            shutil.copyfile(path, folder / path.name)


def remove(folder: Path) -> None:
    """Remove a folder whose records are not needed any more."""
    shutil.rmtree(folder, ignore_errors=True)


def how_to_convert(folder: Path) -> str:
    """Return the sentence that names kept records, and the command that makes a profile of them."""
    name = shlex.quote(display(folder))
    return f"What was recorded is kept. To make a profile of it: dlprof --database={name}"


def write_export(folder: Path, export: Path) -> int:
    """Write the export of a folder of records.

    Returns:
        The number of kernels.

    Raises:
        CollectorError: There are none, or the export cannot be written.
    """
    # Not before the capture, when its threads would receive the forwarded signals.
    from aggregator.dldb.writer import write_errors  # noqa: PLC0415
    from aggregator.errors import DatabaseWriteError  # noqa: PLC0415
    from aggregator.sources.collector import export as own_export  # noqa: PLC0415

    files = [path for path in files_of(folder) if path.stat().st_size >= _MAGIC_BYTES]
    try:
        with write_errors(export):
            return own_export.write_export(files, export, _system())
    except NoGpuActivityError as error:
        reason = next(iter(problems(folder)), "The collector recorded nothing.")
        raise CollectorError(reason, hint="Does the application use the GPU?") from error
    except DatabaseWriteError as error:
        raise CollectorError(
            f"The export {display(export)} cannot be written: {error.details.get('reason')}.",
            hint="Is the disk full?",
        ) from error


def problems(folder: Path) -> list[str]:
    """Return a sentence for each process that could not write all of its records."""
    found = []
    for path in sorted(folder.glob("problem.*")):
        _, pid, error = f"{path.name}..".split(".")[:3]
        reason = ""
        with suppress(OSError):
            reason = path.read_text(errors="replace").strip()
        # On a full disk the file is empty: its name holds the number of the error.
        if not reason and error.isdecimal():
            reason = os.strerror(int(error))
        found.append(f"Process {pid} could not write all of its records: {reason or 'unknown'}.")
    return found


def convert(options: Options, sources: Sequence[Path], console: Console) -> Options:
    """Make exports of the folders of records among the inputs; returns the options with those.

    The folders stay: only what ``dlprof`` recorded in the same run is removed by it.
    """
    if not any(map(is_folder, sources)):
        return options
    with output_folder(options.output_path):
        paths = [
            _export_of(path, options, console) if is_folder(path) else path for path in sources
        ]
    return replace(options, database=",".join(map(str, paths)))


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder of records."""
    return path.is_dir() and bool(files_of(path))


def _export_of(folder: Path, options: Options, console: Console) -> Path:
    name = folder.resolve().name.partition(_INFIX)[0] or options.nsys_base_name
    base = free_base(replace(options, nsys_base_name=name))
    export = base.with_name(base.name + EXPORT_SUFFIX)
    console.message(f"Converting the records in {display(folder)} to {display(export)}")
    for problem in problems(folder):
        console.message(f"Warning: {problem}")
    write_export(folder, export)
    steps = read_steps(folder) or read_steps(folder / STEPS)
    write_steps(export, steps, "", "converted later")
    return export


def report_left(folder: Path, console: Console) -> None:
    """Say what killed captures left in a folder; what holds no records is removed."""
    for path in left_folders(folder, _INFIX):
        if files_of(path):
            console.message(
                f"{display(path)} holds the records of a capture whose dlprof was killed: make a "
                f"profile of them with dlprof --database={shlex.quote(display(path))}, or delete it"
            )
        else:
            remove(path)
            console.message(f"Removed {display(path)}, the empty folder of a killed capture")


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
