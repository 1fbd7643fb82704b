"""Nsight Systems reports (``.nsys-rep``, ``.qdrep``), exported to SQLite by ``nsys``.

The format of a report is not public, so only the program that wrote it can open it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from aggregator.errors import NsysFailedError, NsysNotFoundError
from aggregator.system.temporary_files import temporary_folder
from aggregator.texts import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aggregator.system.progress import Progress

NSYS_VARIABLE = "DLPROF_NSYS"
"""Environment variable with the path of ``nsys`` or of its folder."""
INSTALL_PATTERNS = (
    "opt/nvidia/nsight-systems*/*/bin/nsys",
    "opt/nvidia/nsight-systems*/*/target-linux-*/nsys",
    "opt/nvidia/nsight-systems*/bin/nsys",
    "usr/local/cuda*/bin/nsys",
    "usr/local/cuda*/NsightSystems*/*/nsys",
)
"""Paths below the root folder where Nsight Systems and the CUDA toolkit install it."""
LAST_LINES = 5
_POLL_S = 0.2
_GRACE_S = 5.0


def find_nsys(named: str = "", root: Path = Path("/")) -> Path:
    """The ``nsys`` to run: named by the user, by the environment, on PATH, or the newest installed.

    Args:
        named: Path of the program or its folder from the user; empty: none.
        root: Root folder of the installations.

    Raises:
        NsysNotFoundError: It is not installed.
    """
    for source, value in (("", named), (NSYS_VARIABLE, os.environ.get(NSYS_VARIABLE, ""))):
        if value:
            return _named(value, source)
    if on_path := shutil.which("nsys"):
        return Path(on_path)
    installed = [path for pattern in INSTALL_PATTERNS for path in root.glob(pattern)]
    usable = [path for path in installed if os.access(path, os.X_OK) and path.is_file()]
    if usable:
        return max(usable, key=_version_in_path)
    raise NsysNotFoundError(
        say("Nsight Systems (nsys) was not found on this machine."),
        hint=say(
            "Install it (https://developer.nvidia.com/nsight-systems), name it with --nsys_path or "
            "{variable}, or export the report where it was made: nsys export -t sqlite <report>",
            variable=NSYS_VARIABLE,
        ),
    )


def _named(value: str, source: str) -> Path:
    path = Path(value).expanduser()
    candidate = path / "nsys" if path.is_dir() else path
    found = shutil.which(str(candidate))
    if found is None:
        raise NsysNotFoundError(
            say(
                "There is no program '{candidate}' (from {source}).",
                candidate=candidate,
                source=source,
            )
            if source
            else say("There is no program '{candidate}'.", candidate=candidate),
            hint=say("Give the path of the nsys program, or of the folder that holds it."),
            path=str(candidate),
        )
    return Path(found)


def _version_in_path(path: Path) -> tuple[int, ...]:
    """Numbers in a path: ``/opt/nvidia/nsight-systems/2025.3.1/bin/nsys`` -> (2025, 3, 1)."""
    match = re.search(r"\d{4}(?:\.\d+)+", str(path))
    return tuple(int(part) for part in match[0].split(".")) if match else ()


@contextmanager
def exported(report: Path, progress: Progress, nsys: str = "") -> Iterator[Path]:
    """Export the report to SQLite; the export is deleted at the end of the block.

    Raises:
        NsysNotFoundError: Nsight Systems is not installed.
        NsysFailedError: It could not export the report.
    """
    program = find_nsys(nsys)
    with temporary_folder("dlprof-nsys") as folder:
        target = folder / f"{report.stem}.sqlite"
        progress.message(f"Exporting {report.name} with {program}")
        _export(program, report, target, progress)
        yield target


def _export(program: Path, report: Path, target: Path, progress: Progress) -> None:
    command = [
        str(program),
        *("export", "--type=sqlite", "--force-overwrite=true", f"--output={target}"),
        str(report.resolve()),
    ]
    log = target.with_suffix(".log")
    try:
        with log.open("wb") as output:
            status = _run(command, output.fileno(), progress)
    except OSError as error:
        raise NsysFailedError(
            say(
                "'{program}' cannot be run: {error}.",
                program=program,
                error=error.strerror or error,
            ),
            hint=say("Check the installation of Nsight Systems."),
        ) from error
    if status == 0 and target.is_file():
        return
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    last = [line.strip() for line in lines if line.strip()][-LAST_LINES:]
    ended = (
        say("exit status {number}", number=status)
        if status >= 0
        else say("signal {number}", number=-status)
    )
    raise NsysFailedError(
        say("Nsight Systems could not export '{report}' ({ended}).", report=report, ended=ended),
        hint="\n".join(last) or say("nsys printed no message; this report may need a newer nsys."),
        return_code=status,
        last_lines=list(last),
    )


def _run(command: list[str], output: int, progress: Progress) -> int:
    """Run to the end; cancelling or interrupting it stops the program's whole process group."""
    with subprocess.Popen(  # noqa: S603 - a list of words, and no shell
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            while True:
                try:
                    return process.wait(_POLL_S)
                except subprocess.TimeoutExpired:
                    progress.advance(0)  # the listener may cancel the work here
        except BaseException:
            _stop(process)
            raise


def _stop(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
            return
