"""Processes on Linux: environment, terminal, and which of them dlprof may end."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aggregator.errors import UsageError
from aggregator.options import Mode
from aggregator.system.temporary_files import owner
from profiler_cli.capture.nsight import TAKES_OVER, split_nsys_opts

if TYPE_CHECKING:
    from profiler_cli.options.declared import Options

_PR_SET_PDEATHSIG: Final = 1
PROFILERS: Final = ("nsys", "CudaGpuInfoDumper", "Qdstrm")
"""How the names of the programs of Nsight Systems begin."""
CAPTURE_VARIABLE: Final = "DLPROF_CAPTURE"
"""Names the capture in the environment of all its processes."""
GRACE_S: Final = 5.0
_POLL_S: Final = 0.05
_LIBC: Final = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None

MARKERS_PACKAGE: Final = "dlprof_nvtx"
MARKERS_FOLDER: Final = "inject"
ENABLE_VARIABLE: Final = "DLPROF_NVTX"
MEMORY_VARIABLE: Final = "DLPROF_MEMORY"
DETAIL_VARIABLE: Final = "DLPROF_NVTX_DETAIL"
_MARKED_MODES: Final = frozenset({Mode.AUTO, Mode.PYTORCH})


def owns_terminal() -> bool:
    """Return whether Ctrl-C on the terminal reaches the process group of this process."""
    with suppress(OSError, ValueError, AttributeError):
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    return False


def end_with_parent() -> None:
    """Let a new process get SIGTERM when its parent dies, even by SIGKILL."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def application_processes(root: int, *, is_helper: bool) -> list[int]:
    """Return the processes of the application that a request to end it is meant for.

    What the application started in a session of its own, such as an upload that is to outlive it,
    gets no signal, as without dlprof.

    Args:
        root: The process that dlprof started.
        is_helper: Whether that is Nsight Systems, which starts the application itself.
    """
    children = _children()
    waiting: list[tuple[int, bool, int | None]] = [(root, is_helper, None)]
    found: list[int] = []
    while waiting:
        pid, is_tool, session = waiting.pop()
        own = _session(pid)
        if not is_tool:
            if session not in {None, own}:
                continue
            session = own
            found.append(pid)
        waiting += [
            (child, is_tool and is_profiler(child), session) for child in children.get(pid, ())
        ]
    return found or [root]


def is_profiler(pid: int) -> bool:
    """Return whether a process runs a program of Nsight Systems."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/exe").readlink().name.startswith(PROFILERS)
    return False


def _session(pid: int) -> int | None:
    with suppress(OSError):
        return os.getsid(pid)
    return None


def send(pids: Iterable[int], number: int) -> None:
    """Send a signal to processes, of which some may have ended."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def of_capture(mark: str) -> list[int]:
    """Return the processes that began with ``CAPTURE_VARIABLE`` set to this text.

    They are found wherever they belong now: a daemon is no longer a descendant.
    """
    wanted = f"{CAPTURE_VARIABLE}={mark}".encode()
    found = []
    for pid in _all_processes():
        with suppress(OSError):
            if wanted in (Path(f"/proc/{pid}/environ").read_bytes()).split(b"\0"):
                found.append(pid)
    return found


def end_profilers(mark: str) -> None:
    """End what Nsight Systems left running of a capture: first by a request, then by force."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + GRACE_S
        left = [pid for pid in of_capture(mark) if is_profiler(pid)]
        send(left, number)
        while left and time.monotonic() < deadline:
            time.sleep(_POLL_S)
            left = [pid for pid in left if is_profiler(pid)]
        if not left:
            return


def process_name(pid: int) -> str:
    """Return the name of a process; empty if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    return ""


def _all_processes() -> list[int]:
    with suppress(OSError):
        return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return []


def _children() -> dict[int, list[int]]:
    """Return the children of each process, including zombies."""
    children: dict[int, list[int]] = {}
    for pid in _all_processes():
        with suppress(OSError, ValueError, IndexError):
            # The name in parentheses may contain any character, including parentheses.
            text = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2]
            children.setdefault(int(text.split()[1]), []).append(pid)
    return children


def descendants(root: int) -> set[int]:
    """Return all descendants of a process, including zombies."""
    children = _children()
    found: set[int] = set()
    waiting = [root]
    while waiting:
        for child in children.get(waiting.pop(), []):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


def signal_group(pid: int, number: int) -> None:
    """Send a signal to the group of a process, as a terminal does."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(os.getpgid(pid), number)


def application_environment(options: Options, snapshot: Path | None = None) -> dict[str, str]:
    """Return the environment for the application, which adds the markers to it.

    Python imports a module ``sitecustomize`` at its start, in every process that the application
    starts. The one in ``dlprof_nvtx/inject`` waits until torch is imported. In the modes of other
    frameworks it only provides ``nvtx.plugins.tf``. ``DLPROF_NVTX=0`` turns the markers off.
    """
    environment = {**os.environ, CAPTURE_VARIABLE: owner()}
    folder = _markers_folder()
    if folder is None or environment.get(ENABLE_VARIABLE) == "0":
        return environment
    before = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = f"{folder}{os.pathsep}{before}" if before else str(folder)
    environment[ENABLE_VARIABLE] = "1" if options.mode in _MARKED_MODES else "plugins"
    if options.mode in _MARKED_MODES and not begins_late(options):
        environment.setdefault(DETAIL_VARIABLE, options.detail)
    if snapshot is not None and options.mode in _MARKED_MODES:
        environment[MEMORY_VARIABLE] = str(snapshot.resolve())
    return environment


def begins_late(options: Options) -> bool:
    """Whether an option says when the collection begins: the first steps may not be in it."""
    given = split_nsys_opts(options.nsys_opts)
    is_own = any(word.partition("=")[0] in TAKES_OVER for word in given)
    return bool(options.delay or options.duration or options.nsys_profile_range or is_own)


def _markers_folder() -> Path | None:
    package = markers_package()
    folder = package / MARKERS_FOLDER if package is not None else None
    return folder if folder is not None and folder.is_dir() else None


def markers_package() -> Path | None:
    """Return the folder of what runs in the application; None if it is not installed."""
    spec = importlib.util.find_spec(MARKERS_PACKAGE)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def check_application(application: Sequence[str]) -> None:
    """Check that the application can be started.

    Raises:
        UsageError: It is not an executable program.
    """
    first = application[0]
    if shutil.which(first) is not None:
        return
    if Path(first).is_file():
        hint = (
            f"Put python in front: dlprof ... python {shlex.join(application)}"
            if first.endswith(".py")
            else f"Make it executable: chmod +x {shlex.quote(first)}"
        )
        raise UsageError(f"'{first}' is not an executable program.", hint=hint)
    raise UsageError(
        f"Program '{first}' was not found.",
        hint="Options of dlprof come before the application, its own options after it.",
    )
