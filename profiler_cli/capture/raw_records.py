"""Raw records of dlprof's own collector: a folder beside the result, with a file for each process.

Its name holds the dlprof that made it. When the application has ended, the records become an export
and the folder goes; whatever keeps that from happening, ``dlprof --database=FOLDER`` does it later.
"""

from __future__ import annotations

import shlex
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aggregator.errors import CollectorError
from aggregator.sources.collector.folder import export_records, files_of, problems
from aggregator.sources.collector.step_times import FILES, read_steps, write_steps
from aggregator.system.temporary_files import left_folders, owner
from profiler_cli.capture.nsight import EXPORT_SUFFIX, free_base
from profiler_cli.outputs import display, output_folder

if TYPE_CHECKING:
    from profiler_cli.console import Console
    from profiler_cli.options.declared import Options

STEPS: Final = "steps"
"""Link in the folder to that of the step times, which is not on a slow file system."""
_INFIX: Final = ".records-"


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
    export_records(folder, export)
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
