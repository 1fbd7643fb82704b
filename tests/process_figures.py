"""What a process holds, for tests that look for growth."""

from __future__ import annotations

import re
from pathlib import Path


def figures_of(pid: int) -> dict[str, int]:
    """Return the resident memory of a process in KiB, and its open files and threads."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = {
        name: int(re.findall(rf"{key}:\s+(\d+)", status)[0])
        for name, key in (("memory_kib", "VmRSS"), ("threads", "Threads"))
    }
    return {**found, "files": len(list(Path(f"/proc/{pid}/fd").iterdir()))}
