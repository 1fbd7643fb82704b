"""The prepared timeline of an aggregation: made at first use, then kept in a file or in memory."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

import pyarrow as pa

from aggregator.system.temporary_files import publish, remove_leftovers, temporary_name
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.counts import QueryCache
from aggregator.tables.timeline.lanes import LaneReader
from aggregator.tables.timeline.stored import (
    StoredTimeline,
    TimelineWriter,
    map_timeline,
    read_timeline,
)

_MOST_BYTES: Final = 2**30
"""Timelines of all profiles that are kept in memory, or mapped."""
_FEWEST_STORED: Final = 200_000
"""Events of a profile that is worth a file: fewer are prepared in a fraction of a second."""
_MOST_FILES: Final = 32
_SUFFIX: Final = ".timeline"

_prepared: QueryCache[StoredTimeline] = QueryCache(_MOST_BYTES, lambda found: found.size)


def prepared_timeline(data: AggregationData, folder: Path | None) -> StoredTimeline:
    """Return the lanes of an aggregation with their levels of detail.

    Args:
        data: The aggregation, of a database of this program.
        folder: Where timelines of large profiles are kept; None: in memory only.

    Raises:
        DatabaseError: The database is damaged.
    """
    aggregation = int(data.params["aggr_id"])
    state = repr((data.database.state, aggregation))
    path = None
    if folder is not None and data.database.state is not None:
        path = folder / (hashlib.sha256(state.encode()).hexdigest()[:32] + _SUFFIX)

    def find() -> StoredTimeline:
        found = None if path is None else _stored(path, state)
        return found or data.database.read_with(
            lambda connection: _prepare(LaneReader(connection, aggregation), state, path)
        )

    return _prepared.get(data.database.state, "timeline", {"aggr_id": aggregation}, find)


def _stored(path: Path, state: str) -> StoredTimeline | None:
    """Return the timeline of a file, or None if there is none of this state of the database."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        found = map_timeline(path)
        if found.state == state:
            return found
    return None


def _prepare(reader: LaneReader, state: str, path: Path | None) -> StoredTimeline:
    def write(out: IO[bytes]) -> None:
        writer = TimelineWriter(out, origin_ns=reader.origin_ns, state=state)
        for lane in reader.lanes():
            writer.add(lane)
        writer.close(reader.labels.all())

    if path is not None and reader.num_events >= _FEWEST_STORED:
        with suppress(OSError):
            _write_file(path, write)
            return map_timeline(path)
    buffer = io.BytesIO()
    write(buffer)
    return read_timeline(pa.py_buffer(buffer.getvalue()))


def _write_file(path: Path, write: Callable[[IO[bytes]], None]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path.parent)
    temporary = temporary_name(path, "partial")
    try:
        with temporary.open("wb") as out:
            write(out)
        publish(temporary, path, overwrite=True)
    finally:
        temporary.unlink(missing_ok=True)
    kept = sorted(path.parent.glob(f"*{_SUFFIX}"), key=lambda file: file.stat().st_mtime_ns)
    for old in kept[:-_MOST_FILES]:
        old.unlink(missing_ok=True)
