"""Kernels, their launching calls and the ranges around them, from nsys exports and nvprof files."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from aggregator.demangling import demangled
from aggregator.errors import (
    CorruptProfileError,
    ProfileNotFoundError,
    UnsupportedProfileError,
)
from aggregator.profile import Int64, Integers
from aggregator.progress import NullProgress
from aggregator.sqlite_uri import lenient_text, read_only_uri
from aggregator.texts import say

Size = tuple[int, int, int]


class Launch(NamedTuple):
    """One kernel with its launching call.

    Attributes:
        name: Demangled name.
        duration_ns: Time on the GPU. Unit: ns.
        lane: Thread, as the source tells threads apart.
        tid: Thread id of the operating system.
        api_start_ns: Start of the call. Unit: ns.
        api_end_ns: End of the call. Unit: ns.
        grid: Blocks in x, y, z.
        block: Threads of a block in x, y, z.
    """

    name: str
    duration_ns: int
    lane: object
    tid: int
    api_start_ns: int
    api_end_ns: int
    device: int
    stream: int
    grid: Size
    block: Size


@dataclass(frozen=True)
class RangeColumns:
    """Ranges of one thread, ordered by start.

    Attributes:
        start_ns: Unit: ns.
        end_ns: Unit: ns.
        number: Number by which the source knows its text.
    """

    start_ns: Int64
    end_ns: Int64
    number: Int64


class LaunchSource(Protocol):
    """What a kind of file has to deliver to be parsed."""

    def launches(self) -> list[Launch]:
        """All kernels, in the order of the file."""

    def ranges(self) -> Mapping[Any, RangeColumns]:
        """All ranges by thread."""

    def texts(self, numbers: set[int]) -> dict[int, str]:
        """Texts of some ranges."""


Opener = Callable[[Path], "LaunchSource | None"]
OPENERS: list[Opener] = []
"""One per kind of file; the first that knows the file reads it."""


def open_launches(path: Path) -> LaunchSource:
    """The reader of a file.

    Raises:
        ProfileNotFoundError: No such file.
        UnsupportedProfileError: A file of no kind that is known.
    """
    if not path.is_file():
        raise ProfileNotFoundError(say("No such file '{path}'.", path=path))
    for opener in OPENERS:
        source = opener(path)
        if source is not None:
            return source
    raise UnsupportedProfileError(
        say("'{path}' is no Nsight Systems export, nvprof file or Kineto trace.", path=path),
        hint=say("Export a report with: nsys export --type=sqlite report.nsys-rep"),
    )


def _open_sqlite(path: Path) -> LaunchSource | None:
    with path.open("rb") as file:
        if file.read(16) != b"SQLite format 3\x00":
            return None
    try:
        with closing(sqlite3.connect(read_only_uri(path), uri=True)) as connection:
            rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            tables = {str(row[0]) for row in rows}
    except sqlite3.DatabaseError as error:
        raise CorruptProfileError(
            say("'{path}' cannot be read: {error}.", path=path, error=error)
        ) from error
    if "StringTable" in tables:
        return _Nvprof(path, tables)
    return _Nsys(path, tables) if "StringIds" in tables else None


def _open_trace(path: Path) -> LaunchSource | None:
    # The engine's readers take half a second to load, with libraries that nothing else here needs.
    from aggregator.sources.kineto_files import is_trace  # noqa: PLC0415

    if not is_trace(path):
        return None
    from aggregator.pyprof.kineto_launches import KinetoLaunches  # noqa: PLC0415
    from aggregator.sources import open_profile  # noqa: PLC0415

    return KinetoLaunches(open_profile(path, NullProgress()))


OPENERS += [_open_sqlite, _open_trace]

_KERNEL_COLUMNS = (
    "k.start, k.end, k.deviceId, k.streamId, gridX, gridY, gridZ, blockX, blockY, blockZ"
)
_KERNEL_TABLES = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL")
_OPENS, _CLOSES = 2, 4


class _Sqlite:
    """Queries over one file; what is damaged becomes an error with a sentence."""

    def __init__(self, path: Path, tables: set[str]) -> None:
        self._path = path
        self._tables = tables

    def query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with self._connected() as connection:
            return connection.execute(sql, values).fetchall()

    def numbers(self, sql: str) -> Int64:
        """Rows of whole numbers; none may be missing."""
        with self._connected() as connection:
            cursor = connection.execute(sql)
            width = len(cursor.description)
            flat = np.fromiter(chain.from_iterable(cursor), dtype=np.int64)
            return flat.reshape(-1, width)

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(read_only_uri(self._path), uri=True)) as connection:
                connection.text_factory = lenient_text
                yield connection
        except (sqlite3.DatabaseError, TypeError, ValueError, OverflowError) as error:
            raise CorruptProfileError(
                say("'{path}' cannot be read: {error}.", path=self._path, error=error)
            ) from error


def by_lane(lanes: Integers, starts: Int64, ends: Int64, numbers: Int64) -> dict[int, RangeColumns]:
    """Columns per lane, each ordered by start and, where that is the same, outermost first."""
    order = np.lexsort((-ends, starts, lanes))
    found, firsts = np.unique(lanes[order], return_index=True)
    parts = np.split(order, firsts[1:])
    return {
        lane: RangeColumns(starts[part], ends[part], numbers[part])
        # Of no rows at all there still is one part.
        for lane, part in zip(found.tolist(), parts, strict=False)
    }


class _Nsys(_Sqlite):
    """An SQLite export of Nsight Systems; a lane is the thread's global number."""

    def launches(self) -> list[Launch]:
        table = _KERNEL_TABLES[0]
        if table not in self._tables:
            return []
        calls: dict[tuple[int, int], tuple[int, int, int]] = {}
        if "CUPTI_ACTIVITY_KIND_RUNTIME" in self._tables:
            sql = (
                "SELECT globalTid, correlationId, start, end FROM CUPTI_ACTIVITY_KIND_RUNTIME"
                f" WHERE correlationId IN (SELECT correlationId FROM {table})"
            )
            calls = {
                (tid >> 24, number): (tid, start, end)
                for tid, number, start, end in self.numbers(sql).tolist()
            }
        sql = (
            f"SELECT k.demangledName, k.globalPid, k.correlationId, {_KERNEL_COLUMNS}"
            f" FROM {table} AS k ORDER BY k.rowid"
        )
        names = dict(
            self.query(
                f"SELECT id, value FROM StringIds WHERE id IN (SELECT demangledName FROM {table})"
            )
        )
        found = []
        for name, pid, correlation, start, end, device, stream, *size in self.query(sql):
            tid, called, returned = calls.get((pid >> 24, correlation), (None, start, start))
            where = (tid, (tid or 0) & 0xFFFFFF, called, returned, device, stream)
            found.append(_launch(_text(names.get(name)), end - start, where, size))
        return found

    def ranges(self) -> Mapping[Any, RangeColumns]:
        if "NVTX_EVENTS" not in self._tables:
            return {}
        sql = (
            "SELECT globalTid, start, end, rowid FROM NVTX_EVENTS"
            " WHERE end > start AND globalTid IS NOT NULL"
        )
        return by_lane(*self.numbers(sql).T)

    def texts(self, numbers: set[int]) -> dict[int, str]:
        columns = {str(row[1]) for row in self.query("PRAGMA table_info(NVTX_EVENTS)")}
        text = "coalesce(n.text, s.value)" if "textId" in columns else "n.text"
        join = "LEFT JOIN StringIds AS s ON s.id = n.textId" if "textId" in columns else ""
        # What stands behind the sizes is not used, and long.
        end = f"instr({text} || ', input_op_ids = ', ', input_op_ids = ')"
        sql = (
            f"SELECT n.rowid, substr({text}, 1, {end} - 1) FROM json_each(?) AS wanted"
            f" JOIN NVTX_EVENTS AS n ON n.rowid = wanted.value {join}"
        )
        found = self.query(sql, json.dumps(sorted(numbers))) if numbers else []
        return {row: _text(text) for row, text in found}


class _Nvprof(_Sqlite):
    """A file of nvprof: names are mangled, ranges are a start and an end marker.

    A lane is the process with its thread.
    """

    def launches(self) -> list[Launch]:
        calls: dict[int, tuple[int, ...]] = {}
        for table in ("CUPTI_ACTIVITY_KIND_DRIVER", "CUPTI_ACTIVITY_KIND_RUNTIME"):
            if table in self._tables:
                sql = f"SELECT correlationId, processId, threadId, start, end FROM {table}"
                calls |= {row[0]: tuple(row[1:]) for row in self.numbers(sql).tolist()}
        found = []
        # With --analysis-metrics nvprof writes the first of the two instead of the second.
        for table in _KERNEL_TABLES:
            if table not in self._tables:
                continue
            sql = f"SELECT _id_, value FROM StringTable WHERE _id_ IN (SELECT name FROM {table})"
            names = {row: demangled(_text(name)) for row, name in self.query(sql)}
            sql = f"SELECT name, correlationId, {_KERNEL_COLUMNS} FROM {table} AS k ORDER BY _id_"
            for name, correlation, start, end, device, stream, *size in self.query(sql):
                pid, tid, called, returned = calls.get(correlation, (-1, 0, start, start))
                tid &= 0xFFFFFFFF  # recorded as a signed number
                where = ((pid << 32) + tid, tid, called, returned, device, stream)
                found.append(_launch(names.get(name, ""), end - start, where, size))
        return found

    def ranges(self) -> Mapping[Any, RangeColumns]:
        table = "CUPTI_ACTIVITY_KIND_MARKER"
        if table not in self._tables:
            return {}
        threads = self.query(f"SELECT DISTINCT objectId FROM {table}")
        lanes = [_thread(row[0]) for row in threads]
        opened = [np.empty((0, 4), dtype=np.int64)]
        for (thread,), lane in zip(threads, lanes, strict=True):
            sql = f"SELECT id, timestamp, name FROM {table} WHERE flags & {_OPENS} AND objectId = "
            blob = thread.hex() if isinstance(thread, bytes) else ""
            rows = self.numbers(f"{sql} x'{blob}' ORDER BY _id_")
            opened.append(np.column_stack([rows, np.full(len(rows), lane)]))
        number, start, name, lane = np.concatenate(opened).T
        closed = self.numbers(f"SELECT id, timestamp FROM {table} WHERE flags & {_CLOSES}")
        closed = closed[np.argsort(closed[:, 0], kind="stable")]
        at = np.searchsorted(closed[:, 0], number)
        known = at < len(closed)
        known[known] = closed[at[known], 0] == number[known]
        at = at[known]
        return by_lane(lane[known], start[known], closed[at, 1], name[known])

    def texts(self, numbers: set[int]) -> dict[int, str]:
        sql = (
            "SELECT s._id_, s.value FROM json_each(?) AS wanted"
            " JOIN StringTable AS s ON s._id_ = wanted.value"
        )
        found = self.query(sql, json.dumps(sorted(numbers))) if numbers else []
        return {row: _text(text) for row, text in found}


def _launch(
    name: str,
    duration_ns: int,
    where: tuple[object, int, int, int, int, int],
    size: list[int],
) -> Launch:
    """A launch; ``where``: its lane, thread, call's start and end, device and stream."""
    grid, block = (size[0], size[1], size[2]), (size[3], size[4], size[5])
    return Launch(name, duration_ns, *where, grid, block)


def _thread(object_id: object) -> int:
    """Lane of CUPTI's object id, process and thread in 4 and 8 bytes, little-endian."""
    data = object_id if isinstance(object_id, bytes) else b""
    process = int.from_bytes(data[:4], "little", signed=True)
    return (process << 32) + (int.from_bytes(data[4:12], "little") & 0xFFFFFFFF)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
