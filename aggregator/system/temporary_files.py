"""Temporary files named for the process that writes them, and locks between processes.

A killed process removes nothing. The next process that works in the same folder does: the name of a
temporary file holds its owner, and the file is removed when that process no longer exists.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import platform
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

#: Processes of another machine (or container) cannot be checked: their files are removed when not
#: modified for this long.
STRANGERS_LIMIT_S: Final = 24 * 3600.0
_OWNER: Final = r"(?P<scope>[0-9a-f]{8})-(?P<pid>\d+)-(?P<started>\d+)"
_KINDS: Final = "partial|tmp|ranks"
#: ``.NAME.OWNER.partial``, ``.NAME.ranks.OWNER.x``, and SQLite's files beside them.
_BESIDE: Final = re.compile(
    rf"\.(?P<name>.+?)\.(?:{_OWNER}\.(?:partial|tmp)(?:-journal|-wal|-shm)?"
    rf"|ranks\.(?:{_OWNER.replace('?P<', '?P<r_')}\.)?\w+)"
)
_FOLDER: Final = re.compile(rf"dlprof(?:viewer|-[a-z]+)-{_OWNER}-\w+")


def owner(pid: int | None = None) -> str:
    """Name a process, this one if it is None, in the name of a temporary file."""
    pid = os.getpid() if pid is None else pid
    return f"{_scope()}-{pid}-{_started(pid)}"


def process_scope() -> str:
    """Return where process ids mean what they mean here: one boot of one machine, one namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return platform.node()


def temporary_name(path: Path, kind: str) -> Path:
    """Return a temporary name of this process beside a file: ``.NAME.OWNER.KIND``."""
    return path.with_name(f".{path.name}.{owner()}.{kind}")


def publish(temporary: Path, path: Path, *, overwrite: bool) -> None:
    """Give a finished file its final name.

    Raises:
        FileExistsError: The name is taken, and ``overwrite`` is not set.
    """
    if overwrite:
        temporary.replace(path)
        return
    try:
        path.hardlink_to(temporary)  # unlike a rename, never replaces a file
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
        temporary.rename(path)


def folder_prefix(purpose: str, pid: int | None = None) -> str:
    """Beginning of the name of a folder of a process in the machine's temporary folder."""
    return f"{purpose}-{owner(pid)}-"


@contextmanager
def file_lock(path: Path, wait_s: float, poll: Callable[[], object]) -> Iterator[None]:
    """Let one process at a time into the block, by a lock file beside ``path``.

    The file itself is not opened: closing it would drop the locks that SQLite holds on it. Where no
    lock file can be made or locked, the block runs without it.

    Args:
        path: What the processes want to use; it need not exist.
        wait_s: How long to wait for another process.
        poll: Called about ten times a second while waiting; what it raises ends the wait.

    Raises:
        TimeoutError: Another process still holds the lock.
    """
    with _lock_file(path, "lock", wait_s, poll):
        yield


@contextmanager
def announced_commit(path: Path) -> Iterator[None]:
    """Ask other processes not to begin to read ``path`` while the block runs.

    SQLite makes new readers wait for a writer, but counts a process as one reader: while requests
    of a server with many threads overlap, its lock never falls, and a writer in another process
    waits without end. ``await_commit`` is what these threads do before they begin.
    """
    with ExitStack() as stack:
        # Who holds it has just committed, as SQLite has one writer at a time.
        with suppress(TimeoutError):
            stack.enter_context(_lock_file(path, "commit", 10 * _LOCK_PAUSE_S, int))
        yield


def await_commit(path: Path, wait_s: float) -> bool:
    """Wait while a writer announces a commit to ``path``; False: it still does after ``wait_s``."""
    announcement = _lock_path(path, "commit")
    deadline = time.monotonic() + wait_s
    while announcement.exists() and _is_locked(announcement):
        if time.monotonic() > deadline:
            return False
        time.sleep(_READER_PAUSE_S)
    return True


_LOCK_PAUSE_S: Final = 0.1
_READER_PAUSE_S: Final = 0.02


def _lock_path(path: Path, kind: str) -> Path:
    return path.with_name(f".{path.name}.{kind}")


@contextmanager
def _lock_file(path: Path, kind: str, wait_s: float, poll: Callable[[], object]) -> Iterator[None]:
    lock = _lock_path(path, kind)
    deadline = time.monotonic() + wait_s
    while (descriptor := _locked(lock)) is None:
        if time.monotonic() > deadline:
            raise TimeoutError(str(lock))
        poll()
        time.sleep(_LOCK_PAUSE_S)
    try:
        yield
    finally:
        if descriptor >= 0:
            with suppress(OSError):
                lock.unlink()
            os.close(descriptor)


def _is_locked(lock: Path) -> bool:
    """Whether a process has a lock file locked; one that a killed process left is removed."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        lock.unlink()
    except BlockingIOError:
        return True
    except OSError:
        pass
    finally:
        os.close(descriptor)
    return False


def _locked(lock: Path) -> int | None:
    """Descriptor of a lock file, locked; -1: it cannot be; None: another process has it locked."""
    try:
        # A planted link would make another file, or lock it.
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(lock, flags, 0o666)
    except OSError:
        return -1
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The process that held it may have removed the file since it was opened here.
        if os.path.samestat(os.fstat(descriptor), lock.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        os.close(descriptor)
        return -1
    os.close(descriptor)
    return None


def remove_leftovers(folder: Path, name: str | None = None) -> list[Path]:
    """Remove the temporary files of dead processes from a folder; returns their paths.

    Args:
        folder: It need not exist.
        name: A file that only the caller may write now: all temporary files for it are removed,
            whatever their owner. None: only those of dead processes.
    """
    return _remove(folder, _BESIDE, name)


def remove_leftover_folders() -> list[Path]:
    """Remove this user's folders of dead processes from the machine's temporary folder."""
    return _remove(Path(tempfile.gettempdir()), _FOLDER, None)


def left_folders(folder: Path, infix: str) -> list[Path]:
    """Return this user's folders ``NAME infix OWNER-x`` of dead processes; nothing is removed."""
    names = re.compile(rf".+{re.escape(infix)}{_OWNER}-\w+")
    found = []
    for entry in _entries(folder):
        match = names.fullmatch(entry.name)
        with suppress(OSError):
            if match is None or not entry.is_dir(follow_symlinks=False):
                continue
            status = entry.stat(follow_symlinks=False)
            if status.st_uid == os.getuid() and _is_left(match, status.st_mtime):
                found.append(folder / entry.name)
    return sorted(found)


@contextmanager
def temporary_folder(purpose: str) -> Iterator[Path]:
    """Make a private folder in the machine's temporary folder; the end of the block removes it.

    Those that dead processes left are removed first.
    """
    remove_leftover_folders()
    folder = Path(tempfile.mkdtemp(prefix=folder_prefix(purpose)))  # of mode 0700
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove(folder: Path, names: re.Pattern[str], claimed: str | None) -> list[Path]:
    removed = []
    for entry in _entries(folder):
        found = names.fullmatch(entry.name)
        if found is None:
            continue
        with suppress(OSError):
            status = entry.stat(follow_symlinks=False)
            is_claimed = claimed is not None and found["name"] == claimed
            if status.st_uid == os.getuid() and (is_claimed or _is_left(found, status.st_mtime)):
                _delete(Path(entry.path), is_folder=stat.S_ISDIR(status.st_mode))
                removed.append(Path(entry.path))
    return removed


def _entries(folder: Path) -> Iterable[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _delete(path: Path, *, is_folder: bool) -> None:
    if is_folder:
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _is_left(found: re.Match[str], changed_at: float) -> bool:
    """Return whether the owner is dead, or of another machine and has long been silent."""
    parts = found.groupdict()
    scope, pid, started = (
        str(parts[name] or parts.get(f"r_{name}")) for name in ("scope", "pid", "started")
    )
    if scope != _scope():
        return time.time() - changed_at > STRANGERS_LIMIT_S
    # Process ids are reused; the start time of the process distinguishes them.
    return str(_started(int(pid))) != started


@cache
def _scope() -> str:
    return hashlib.sha256(process_scope().encode()).hexdigest()[:8]


def is_alive(pid: int) -> bool:
    """Return whether a process exists and has not ended."""
    return _started(pid) > 0


def _started(pid: int) -> int:
    """Return when a process began, in ticks since boot; 0: no such process, or unknown."""
    try:
        words = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0
    # A zombie has ended already; the state is the third field, the time of start the 22nd.
    return 0 if words[0] in {b"Z", b"X"} else int(words[19])
