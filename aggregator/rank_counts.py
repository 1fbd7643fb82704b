"""How many rank files one machine imports at the same time: cores, memory and sizes tell."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

WORKERS_VARIABLE = "DLPROF_RANK_WORKERS"
"""Environment variable: rank files that one machine imports at the same time."""
_BYTES_PER_HELPER = 48 * 2**20
"""A process that starts costs about a second: less to read is read sooner without it."""
_BASE_BYTES = 200 * 2**20
_BYTES_PER_FILE_BYTE = 2
"""Memory of an import: a base, and so much of the file's size, rounded up from what is measured."""
_MEMORY_SHARE = 0.8
"""Of the memory that is free now, what helpers may take together."""
_MEMINFO = Path("/proc/meminfo")
_CGROUPS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ),
)
"""Limit and use of memory of this container, as the two versions of control groups tell."""


def worker_count(
    sources: Sequence[Path],
    variables: Mapping[str, str] = os.environ,
    free_bytes: int | None = None,
) -> int:
    """How many rank files this machine shall import at the same time, from 1 on.

    ``DLPROF_RANK_WORKERS`` says; else one where there is a broker, whose other workers hear of
    the files too, and as many as cores, free memory and the size of the files allow elsewhere.
    A file that is not there counts as empty: whoever reads it says so.

    Args:
        sources: The rank files.
        variables: The environment.
        free_bytes: Memory that may be taken; None: asked of the system.
    """
    if wanted := variables.get(WORKERS_VARIABLE, ""):
        return max(1, min(int(wanted), len(sources))) if wanted.isdigit() else 1
    if variables.get("DLPROF_BROKER_URL"):
        return 1
    sizes = [path.stat().st_size if path.is_file() else 0 for path in sources]
    each = _BASE_BYTES + _BYTES_PER_FILE_BYTE * max(sizes)
    free = free_memory_bytes() if free_bytes is None else free_bytes
    room = len(sources) if free is None else int(_MEMORY_SHARE * free) // each
    worth = 1 + sum(sizes) // _BYTES_PER_HELPER
    return max(1, min(len(os.sched_getaffinity(0)), len(sources), room, worth))


def free_memory_bytes() -> int | None:
    """Memory that a new process may take here and in this container; None: not told."""
    found = []
    with suppress(OSError, ValueError, IndexError):
        lines = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines())
        found.append(int(lines["MemAvailable"].split()[0]) * 1024)
    for limit, used in _CGROUPS:
        with suppress(OSError, ValueError):
            found.append(int(limit.read_text()) - int(used.read_text()))
    return max(0, min(found)) if found else None
