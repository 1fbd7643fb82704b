"""Reads the kernels and ranges of a file of nvprof, a format that only PyProf's step takes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from aggregator.errors import CorruptProfileError
from aggregator.kernels.names import demangle_by_library
from aggregator.profile.arrays import Int64
from aggregator.system.sqlite_uri import connect_read_only
from profiler_cli.pyprof.launches import Launch, RangeColumns, by_lane

_KERNEL_COLUMNS = (
    "k.start, k.end, k.deviceId, k.streamId, gridX, gridY, gridZ, blockX, blockY, blockZ"
)
_KERNEL_TABLES = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL")
_OPENS, _CLOSES = 2, 4


class NvprofFile:
    """A file of nvprof, with mangled names and ranges as pairs of markers.

    A lane is a process and thread. Errors from damage become ``CorruptProfileError``.
    """

    def __init__(self, path: Path, tables: frozenset[str]) -> None:
        self._path = path
        self._tables = tables

    def launches(self) -> list[Launch]:
        """Return all kernels, in the order of the file."""
        calls: dict[int, tuple[int, ...]] = {}
        for table in ("CUPTI_ACTIVITY_KIND_DRIVER", "CUPTI_ACTIVITY_KIND_RUNTIME"):
            if table in self._tables:
                sql = f"SELECT correlationId, processId, threadId, start, end FROM {table}"
                calls |= {row[0]: tuple(row[1:]) for row in self._numbers(sql).tolist()}
        found = []
        # With --analysis-metrics nvprof writes the first table instead of the second.
        for table in _KERNEL_TABLES:
            if table not in self._tables:
                continue
            sql = f"SELECT _id_, value FROM StringTable WHERE _id_ IN (SELECT name FROM {table})"
            names = {row: demangle_by_library(_text(name)) for row, name in self._query(sql)}
            sql = f"SELECT name, correlationId, {_KERNEL_COLUMNS} FROM {table} AS k ORDER BY _id_"
            for name, correlation, start, end, device, stream, *size in self._query(sql):
                pid, tid, called, returned = calls.get(correlation, (-1, 0, start, start))
                tid &= 0xFFFFFFFF  # recorded as a signed number
                where = ((pid << 32) + tid, tid, called, returned, device, stream)
                grid, block = (size[0], size[1], size[2]), (size[3], size[4], size[5])
                found.append(Launch(names.get(name, ""), end - start, *where, grid, block))
        return found

    def ranges(self) -> Mapping[Any, RangeColumns]:
        """Return all ranges by thread."""
        table = "CUPTI_ACTIVITY_KIND_MARKER"
        if table not in self._tables:
            return {}
        threads = self._query(f"SELECT DISTINCT objectId FROM {table}")
        lanes = [_thread(row[0]) for row in threads]
        opened = [np.empty((0, 4), dtype=np.int64)]
        for (thread,), lane in zip(threads, lanes, strict=True):
            sql = f"SELECT id, timestamp, name FROM {table} WHERE flags & {_OPENS} AND objectId = "
            blob = thread.hex() if isinstance(thread, bytes) else ""
            rows = self._numbers(f"{sql} x'{blob}' ORDER BY _id_")
            opened.append(np.column_stack([rows, np.full(len(rows), lane)]))
        number, start, name, lane = np.concatenate(opened).T
        closed = self._numbers(f"SELECT id, timestamp FROM {table} WHERE flags & {_CLOSES}")
        closed = closed[np.argsort(closed[:, 0], kind="stable")]
        at = np.searchsorted(closed[:, 0], number)
        known = at < len(closed)
        known[known] = closed[at[known], 0] == number[known]
        at = at[known]
        return by_lane(lane[known], start[known], closed[at, 1], name[known])

    def texts(self, numbers: set[int]) -> dict[int, str]:
        """Return the texts of some ranges."""
        sql = (
            "SELECT s._id_, s.value FROM json_each(?) AS wanted"
            " JOIN StringTable AS s ON s._id_ = wanted.value"
        )
        found = self._query(sql, json.dumps(sorted(numbers))) if numbers else []
        return {row: _text(text) for row, text in found}

    def _query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with self._connected() as connection:
            return connection.execute(sql, values).fetchall()

    def _numbers(self, sql: str) -> Int64:
        """Return the rows of integers without NULL."""
        with self._connected() as connection:
            cursor = connection.execute(sql)
            width = len(cursor.description)
            flat = np.fromiter(chain.from_iterable(cursor), dtype=np.int64)
            return flat.reshape(-1, width)

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(connect_read_only(self._path)) as connection:
                yield connection
        except (sqlite3.DatabaseError, TypeError, ValueError, OverflowError) as error:
            raise CorruptProfileError(f"'{self._path}' cannot be read: {error}.") from error


def _thread(object_id: object) -> int:
    """Return the lane of CUPTI's object id, process and thread in 4 and 8 bytes, little-endian."""
    data = object_id if isinstance(object_id, bytes) else b""
    process = int.from_bytes(data[:4], "little", signed=True)
    return (process << 32) + (int.from_bytes(data[4:12], "little") & 0xFFFFFFFF)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
