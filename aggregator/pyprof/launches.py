"""Kernels, their launching calls and the ranges around them, from nsys exports and nvprof files."""

from __future__ import annotations

import ctypes
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from aggregator.errors import (
    CorruptProfileError,
    ProfileNotFoundError,
    UnsupportedProfileError,
)
from aggregator.profile import Int64
from aggregator.sqlite_uri import lenient_text, read_only_uri
from aggregator.texts import say


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
    grid: tuple[int, int, int]
    block: tuple[int, int, int]


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

    def ranges(self) -> dict[object, RangeColumns]:
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
        say("'{path}' is neither an Nsight Systems export nor an nvprof file.", path=path),
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


OPENERS.append(_open_sqlite)

_KERNEL_COLUMNS = (
    "k.start, k.end, k.deviceId, k.streamId, gridX, gridY, gridZ, blockX, blockY, blockZ"
)


class _Sqlite:
    """Queries over one file; what is damaged becomes an error with a sentence."""

    def __init__(self, path: Path, tables: set[str]) -> None:
        self._path = path
        self._tables = tables

    def query(self, sql: str) -> Iterator[tuple[Any, ...]]:
        try:
            with closing(sqlite3.connect(read_only_uri(self._path), uri=True)) as connection:
                connection.text_factory = lenient_text
                yield from connection.execute(sql)
        except sqlite3.DatabaseError as error:
            raise CorruptProfileError(
                say("'{path}' cannot be read: {error}.", path=self._path, error=error)
            ) from error


def _by_lane(rows: list[tuple[object, int, int, int]]) -> dict[object, RangeColumns]:
    """Columns per thread of (lane, start, end, number)."""
    lanes: dict[object, list[tuple[int, int, int]]] = {}
    for lane, *times in rows:
        lanes.setdefault(lane, []).append((times[0], times[1], times[2]))
    result = {}
    for lane, ranges in lanes.items():
        columns = np.array(ranges, dtype=np.int64)
        columns = columns[np.lexsort((-columns[:, 1], columns[:, 0]))]
        result[lane] = RangeColumns(columns[:, 0], columns[:, 1], columns[:, 2])
    return result


class _Nsys(_Sqlite):
    """An SQLite export of Nsight Systems."""

    def launches(self) -> list[Launch]:
        if "CUPTI_ACTIVITY_KIND_KERNEL" not in self._tables:
            return []
        calls: dict[tuple[int, int], tuple[int, int, int]] = {}
        if "CUPTI_ACTIVITY_KIND_RUNTIME" in self._tables:
            sql = "SELECT globalTid, correlationId, start, end FROM CUPTI_ACTIVITY_KIND_RUNTIME"
            for tid, correlation, start, end in self.query(sql):
                calls[tid >> 24, correlation] = (tid, start, end)
        sql = (
            f"SELECT k.demangledName, k.globalPid, k.correlationId, {_KERNEL_COLUMNS}"
            " FROM CUPTI_ACTIVITY_KIND_KERNEL AS k ORDER BY k.rowid"
        )
        names = dict(
            self.query(
                "SELECT id, value FROM StringIds WHERE id IN"
                " (SELECT demangledName FROM CUPTI_ACTIVITY_KIND_KERNEL)"
            )
        )
        found = []
        for name, pid, correlation, start, end, device, stream, *size in self.query(sql):
            tid, *api = calls.get((pid >> 24, correlation), (None, start, start))
            found.append(
                _launch(
                    _text(names.get(name)),
                    end - start,
                    (tid, (tid or 0) & 0xFFFFFF),
                    (api[0], api[1]),
                    (device, stream, *size),
                )
            )
        return found

    def ranges(self) -> dict[object, RangeColumns]:
        if "NVTX_EVENTS" not in self._tables:
            return {}
        sql = (
            "SELECT globalTid, start, end, rowid FROM NVTX_EVENTS"
            " WHERE end > start AND globalTid IS NOT NULL"
        )
        return _by_lane(list(self.query(sql)))

    def texts(self, numbers: set[int]) -> dict[int, str]:
        columns = {str(row[1]) for row in self.query("PRAGMA table_info(NVTX_EVENTS)")}
        text = "coalesce(n.text, s.value)" if "textId" in columns else "n.text"
        join = "LEFT JOIN StringIds AS s ON s.id = n.textId" if "textId" in columns else ""
        # What stands behind the sizes is not used, and long.
        end = f"instr({text} || ', input_op_ids = ', ', input_op_ids = ')"
        head = f"substr({text}, 1, {end} - 1)"
        sql = f"SELECT n.rowid, {head} FROM NVTX_EVENTS AS n {join}"
        return {row: _text(text) for row, text in self.query(sql) if row in numbers}


class _Nvprof(_Sqlite):
    """A file of nvprof: names are mangled, ranges are a start and an end marker."""

    def launches(self) -> list[Launch]:
        names = dict(self.query("SELECT _id_, value FROM StringTable"))
        calls: dict[int, tuple[Any, ...]] = {}
        for table in ("CUPTI_ACTIVITY_KIND_DRIVER", "CUPTI_ACTIVITY_KIND_RUNTIME"):
            if table in self._tables:
                sql = f"SELECT correlationId, processId, threadId, start, end FROM {table}"
                calls |= {row[0]: row[1:] for row in self.query(sql)}
        found = []
        # With --analysis-metrics nvprof writes the first of the two instead of the second.
        for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL"):
            if table not in self._tables:
                continue
            sql = f"SELECT name, correlationId, {_KERNEL_COLUMNS} FROM {table} AS k ORDER BY _id_"
            for name, correlation, start, end, device, stream, *size in self.query(sql):
                pid, tid, *api = calls.get(correlation, (-1, 0, start, start))
                tid &= 0xFFFFFFFF  # recorded as a signed number
                found.append(
                    _launch(
                        demangled(_text(names.get(name, ""))),
                        end - start,
                        ((pid, tid), tid),
                        (api[0], api[1]),
                        (device, stream, *size),
                    )
                )
        return found

    def ranges(self) -> dict[object, RangeColumns]:
        if "CUPTI_ACTIVITY_KIND_MARKER" not in self._tables:
            return {}
        sql = "SELECT id, flags, timestamp, objectId, name, _id_ FROM CUPTI_ACTIVITY_KIND_MARKER"
        opened: dict[int, tuple[object, int, int]] = {}
        closed: dict[int, int] = {}
        for number, flags, time, thread, name, _ in self.query(sql):
            if flags & 2:
                opened[number] = (_thread(thread), time, name)
            elif flags & 4:
                closed[number] = time
        rows = [
            (lane, start, closed[number], name)
            for number, (lane, start, name) in opened.items()
            if number in closed
        ]
        return _by_lane(rows)

    def texts(self, numbers: set[int]) -> dict[int, str]:
        sql = "SELECT _id_, value FROM StringTable"
        return {row: _text(text) for row, text in self.query(sql) if row in numbers}


def _launch(
    name: str,
    duration_ns: int,
    thread: tuple[object, int],
    api: tuple[int, int],
    where: tuple[int, ...],
) -> Launch:
    """A launch from a row: device, stream, grid and block one after another."""
    device, stream, *size = where
    return Launch(
        name,
        duration_ns,
        *thread,
        *api,
        device,
        stream,
        (size[0], size[1], size[2]),
        (size[3], size[4], size[5]),
    )


def _thread(object_id: object) -> tuple[int, int]:
    """Process and thread of CUPTI's object id: 4 and 8 bytes, little-endian."""
    data = object_id if isinstance(object_id, bytes) else b""
    return (
        int.from_bytes(data[:4], "little", signed=True),
        int.from_bytes(data[4:12], "little") & 0xFFFFFFFF,
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


@lru_cache(maxsize=65536)
def demangled(name: str) -> str:
    """A C++ name as people write it; as it is where the C++ library is not at hand."""
    library = _cxx_library()
    if library is None or not name.startswith("_Z"):
        return name
    status = ctypes.c_int()
    result = library.__cxa_demangle(name.encode(), None, None, ctypes.byref(status))
    if not result:
        return name
    text = ctypes.string_at(result).decode(errors="replace")
    ctypes.CDLL(None).free(ctypes.c_void_p(result))
    return text


@lru_cache(maxsize=1)
def _cxx_library() -> ctypes.CDLL | None:
    for name in ("libstdc++.so.6", "libc++abi.so.1", "libc++.1.dylib"):
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        library.__cxa_demangle.restype = ctypes.c_void_p
        return library
    return None
