"""Allocations of GPU memory: PyTorch snapshots, Nsight Systems exports and Kineto traces."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from aggregator.errors import ProfileNotFoundError, UnsupportedProfileError
from aggregator.metrics.memory.model import MemoryTrace
from aggregator.sources.formats import Format, detect_file, detect_tables, list_tables, not_readable
from aggregator.texts import say

_PICKLE: Final = 0x80


def read_memory(path: Path) -> MemoryTrace:
    """Read the allocations that a file records.

    Raises:
        ProfileNotFoundError: There is no such file.
        UnsupportedProfileError: It records no allocations.
        ProfileError: It is damaged.
    """
    if not path.is_file():
        raise ProfileNotFoundError(
            say("The file '{path}' does not exist.", path=path), path=str(path)
        )
    try:
        with path.open("rb") as file:
            is_pickle = file.read(1) == bytes([_PICKLE])
        if is_pickle:
            from aggregator.sources.memory.snapshot import read_snapshot  # noqa: PLC0415

            return read_snapshot(path)
        found = detect_file(path, path.name)
    except OSError as error:
        raise not_readable(path, error) from error
    if found is Format.SQLITE:
        found = detect_tables(list_tables(path))
    if found is Format.EXPORT:
        from aggregator.sources.memory.nsys import read_export  # noqa: PLC0415

        return read_export(path)
    if found in (Format.DATABASE, Format.DLPROF):
        raise UnsupportedProfileError(
            say("'{path}' is a DLProf database, which holds no allocations.", path=path),
            hint=say("Name the export or trace that it was made from, or a snapshot."),
        )
    if found is Format.TRACE:
        from aggregator.sources.memory.kineto import read_trace  # noqa: PLC0415

        return read_trace(path)
    raise UnsupportedProfileError(
        say(
            "'{path}' is no memory snapshot, no export and no trace of torch.profiler.",
            path=path,
        ),
        hint=say("Write a snapshot with torch.cuda.memory._dump_snapshot()."),
    )
