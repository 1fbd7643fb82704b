"""Processes on Linux: environment, terminal, and how to end everything that was started."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aggregator.errors import UsageError
from aggregator.options import Mode
from profiler_cli.capture.nsight import TAKES_OVER, split_nsys_opts

if TYPE_CHECKING:
    from profiler_cli.options.declared import Options

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
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
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _prctl(option: int, value: int) -> None:
    if _LIBC is not None:
        _LIBC.prctl(option, value, 0, 0, 0)


@contextmanager
def no_orphans() -> Iterator[None]:
    """End all processes that the block started, directly or indirectly, when it is left.

    Orphaned processes become children of this process instead of init, so that they are found.
    """
    before = descendants(os.getpid())
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        _end_all(before)
        _prctl(_PR_SET_CHILD_SUBREAPER, 0)


def _end_all(excluded: set[int]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + GRACE_S
        left = descendants(os.getpid()) - excluded
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        while left and time.monotonic() < deadline:
            _reap(left)
            left = descendants(os.getpid()) - excluded
            if left:
                time.sleep(_POLL_S)
        if not left:
            return


def _reap(pids: set[int]) -> None:
    for pid in pids:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def descendants(root: int) -> set[int]:
    """Return all descendants of a process, including zombies."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir() if Path("/proc").is_dir() else ():
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                # The name in parentheses may contain any character, including parentheses.
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry.name))
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


def signal_tree(pid: int, number: int) -> None:
    """Send a signal to a process and all its descendants."""
    for target in {pid, *descendants(pid)}:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(target, number)


def application_environment(options: Options, snapshot: Path | None = None) -> dict[str, str]:
    """Return the environment for the application, which adds the markers to it.

    Python imports a module ``sitecustomize`` at its start, in every process that the application
    starts. The one in ``dlprof_nvtx/inject`` waits until torch is imported. In the modes of other
    frameworks it only provides ``nvtx.plugins.tf``. ``DLPROF_NVTX=0`` turns the markers off.
    """
    environment = dict(os.environ)
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
