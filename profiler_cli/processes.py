"""Processes on Linux: who owns the terminal, what was started, and how to end all of it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
GRACE_S: Final = 5.0
_POLL_S: Final = 0.05
_LIBC: Final = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def owns_terminal() -> bool:
    """Whether Ctrl-C on the terminal reaches this process and whatever shares its group."""
    with suppress(OSError, ValueError, AttributeError):
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    return False


def end_with_parent() -> None:
    """In a new process: be asked to end when the parent dies, even of SIGKILL."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _prctl(option: int, value: int) -> None:
    if _LIBC is not None:
        _LIBC.prctl(option, value, 0, 0, 0)


@contextmanager
def no_orphans() -> Iterator[None]:
    """Whatever the block starts, directly or not, is ended when the block is left.

    Processes whose parent died come to this one instead of to init, so that they are found.
    """
    before = descendants(os.getpid())
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        _end_all(before)
        _prctl(_PR_SET_CHILD_SUBREAPER, 0)


def _end_all(spared: set[int]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + GRACE_S
        left = descendants(os.getpid()) - spared
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        while left and time.monotonic() < deadline:
            _reap(left)
            left = descendants(os.getpid()) - spared
            if left:
                time.sleep(_POLL_S)
        if not left:
            return


def _reap(pids: set[int]) -> None:
    for pid in pids:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def descendants(root: int) -> set[int]:
    """Children of a process, their children, and so on; zombies too."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir() if Path("/proc").is_dir() else ():
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                # The name in parentheses may hold anything, spaces and parentheses too.
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
    """Signal a process and its group, as a terminal does."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(os.getpgid(pid), number)


def signal_tree(pid: int, number: int) -> None:
    """Signal a process and everything below it."""
    for target in {pid, *descendants(pid)}:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(target, number)
