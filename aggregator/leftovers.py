"""Names for temporary files that tell who writes them, so that what the dead left can be removed.

A process that is killed outright cleans nothing up. Whoever works in the same folder next does it:
the name of a temporary file holds its owner, and a file whose owner is gone belongs to nobody.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

#: Processes of another machine (or container) cannot be looked for: their files go when nobody has
#: touched them for so long.
STRANGERS_LIMIT_S: Final = 24 * 3600.0
_OWNER: Final = r"(?P<scope>[0-9a-f]{8})-(?P<pid>\d+)-(?P<started>\d+)"
_KINDS: Final = "partial|tmp|ranks"
#: ``.NAME.OWNER.partial``, ``.NAME.ranks.OWNER.x``, and SQLite's files beside them.
_BESIDE: Final = re.compile(
    rf"\.(?P<name>.+?)\.(?:{_OWNER}\.(?:partial|tmp)(?:-journal|-wal|-shm)?"
    rf"|ranks\.{_OWNER.replace('?P<', '?P<r_')}\.\w+)"
)
_FOLDER: Final = re.compile(rf"dlprof(?:viewer|-[a-z]+)-{_OWNER}-\w+")


def owner() -> str:
    """This process, for the name of a temporary file."""
    pid = os.getpid()
    return f"{_scope()}-{pid}-{_started(pid)}"


def process_scope() -> str:
    """Where process ids mean what they mean here: one boot of one machine, one namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return platform.node()


def beside(path: Path, kind: str) -> Path:
    """A temporary name of this process beside a file: ``.NAME.OWNER.KIND``."""
    return path.with_name(f".{path.name}.{owner()}.{kind}")


def folder_prefix(purpose: str) -> str:
    """Beginning of the name of a folder of this process in the machine's temporary folder."""
    return f"{purpose}-{owner()}-"


def remove_leftovers(folder: Path, name: str | None = None) -> list[Path]:
    """Remove the temporary files of dead processes from a folder; tells which.

    Args:
        folder: It need not exist.
        name: A file that only the caller may write now: whatever was begun for it goes, whoever
            the owner is. None: only what belongs to nobody.
    """
    return _remove(folder, _BESIDE, name)


def remove_leftover_folders() -> list[Path]:
    """Remove this user's folders of dead processes from the machine's temporary folder."""
    return _remove(Path(tempfile.gettempdir()), _FOLDER, None)


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
    """Whether the owner is dead, or of another machine and has long been silent."""
    parts = found.groupdict()
    scope, pid, started = (
        str(parts[name] or parts.get(f"r_{name}")) for name in ("scope", "pid", "started")
    )
    if scope != _scope():
        return time.time() - changed_at > STRANGERS_LIMIT_S
    # A process id is used again; the time of the process's start tells them apart.
    return str(_started(int(pid))) != started


@cache
def _scope() -> str:
    return hashlib.sha256(process_scope().encode()).hexdigest()[:8]


def _started(pid: int) -> int:
    """When a process began, in ticks since boot; 0: there is none, or nobody tells."""
    try:
        words = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0
    # A zombie has ended already; the state is the third field, the time of start the 22nd.
    return 0 if words[0] in {b"Z", b"X"} else int(words[19])
