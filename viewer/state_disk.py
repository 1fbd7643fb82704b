"""How SQLite keeps the viewer's state, by the disk that it lies on."""

from __future__ import annotations

from pathlib import Path

from aggregator.disks import file_system, is_network

#: The page asks for a job's progress while the worker writes it.
_LOCAL = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
#: Readers and writers wait for each other, but no memory has to be shared.
_NETWORK = "PRAGMA journal_mode=TRUNCATE; PRAGMA synchronous=FULL;"


def journal_commands(state_dir: Path) -> str:
    """What each connection to the state begins with."""
    return _NETWORK if is_network(file_system(state_dir)) else _LOCAL


def remark(state_dir: Path) -> str:
    """What is wrong with the place of the state; empty: nothing."""
    kind = file_system(state_dir)
    if not is_network(kind):
        return ""
    return (
        f"the state folder {state_dir} is on a network file system ({kind}): one server only may "
        "use it, and it is slower; set DLPROF_STATE_DIR to a folder on a local disk"
    )
