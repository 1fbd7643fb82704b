"""The type of the file system that a file is on, from Linux; unknown on other systems."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

MOUNTS = Path("/proc/self/mountinfo")
#: SQLite's write-ahead log needs memory that all its users share: these have none across machines.
_NETWORK: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs",
     "glusterfs", "orangefs", "pvfs2", "ncpfs", "davfs", "coda", "virtiofs", "panfs", "weka",
     "wekafs"}
)  # fmt: skip
#: A file system in user space may be anything, and is mostly a network.
_USER_SPACE: Final = ("fuse.", "fuseblk")


def file_system(path: Path) -> str:
    """Type of the file system that a path is, or would be, on; empty: unknown."""
    try:
        lines = MOUNTS.read_text().splitlines()
    except OSError:
        return ""
    target = path.resolve()
    found, kind = Path(), ""
    for line in lines:
        before, _, after = line.partition(" - ")
        words = before.split()
        if len(words) < 5 or not after:
            continue
        mount = Path(_unescaped(words[4]))
        # Of two mounts on one folder the later is seen.
        if target.is_relative_to(mount) and len(mount.parts) >= len(found.parts):
            found, kind = mount, after.split()[0]
    return kind


def is_network(kind: str) -> bool:
    """Return whether files of such a file system are, or may be, on another machine."""
    return kind in _NETWORK or kind.startswith(_USER_SPACE)


def _unescaped(text: str) -> str:
    r"""Spaces and the like are written as ``\040``."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), text)
