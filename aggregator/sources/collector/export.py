"""Writes the records of the collector as an SQLite export in the layout of Nsight Systems.

So everything that reads such an export reads these too. Times begin with the collection.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from aggregator.errors import NoGpuActivityError
from aggregator.kernels.names import demangle, short_name
from aggregator.sources.collector import records as kinds
from aggregator.sources.collector.information import information_tables
from aggregator.sources.collector.ranges import nvtx_columns, thread_names
from aggregator.sources.collector.records import Records, read_begin, read_records
from aggregator.sources.nsys import schema as names
from aggregator.sources.nsys.schema import PID_SHIFT
from aggregator.system.arrow_arrays import from_numpy, from_values
from aggregator.system.sqlite_arrow import ArrowConnection
from aggregator.texts import say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from aggregator.profile.arrays import Bool, Int64

    Columns = dict[str, Any]

OVERHEADS: Final = "PROFILER_OVERHEAD"
_PRAGMAS: Final = ("PRAGMA synchronous = OFF", "PRAGMA journal_mode = MEMORY")
_OVERHEAD_NAMES: Final = {
    1: "Driver compiler",
    1 << 16: "CUPTI Buffer flush",
    2 << 16: "CUPTI Instrumentation",
    3 << 16: "CUPTI Resource Management",
    4 << 16: "Runtime triggered module loading",
    5 << 16: "Lazy function loading",
    6 << 16: "Command buffer full",
    7 << 16: "CUPTI Activity buffer request",
}


class Strings:
    """Texts of the export by number."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def id(self, text: str) -> int:
        """Return the number of a text."""
        return self.ids.setdefault(text, len(self.ids) + 1)

    def of(self, numbers: Int64, texts: Mapping[int, str]) -> Int64:
        """Numbers in the export of a column of numbers in one process; unknown ones are empty."""
        distinct, code = np.unique(numbers, return_inverse=True)
        found = [self.id(texts.get(int(number), "")) for number in distinct]
        return np.array(found, dtype=np.int64)[code]


def write_export(files: Sequence[Path], export: Path, system: Mapping[str, str]) -> int:
    """Write the records of all processes into one export.

    Args:
        files: Those of the collector.
        export: The file to write; it is complete or not there.
        system: Rows of the table of the system: host, CPU, driver.

    Returns:
        The number of kernels.

    Raises:
        CorruptProfileError: A file holds something else.
        NoGpuActivityError: No process recorded anything.
        OSError: The export cannot be written.
    """
    begins = {path: begin for path in sorted(files) if (begin := read_begin(path))}
    if not begins:
        raise NoGpuActivityError(say("The collector recorded nothing."))
    start, utc_ns = min(begins.values())
    part = export.with_name(f"{export.name}.part")
    part.unlink(missing_ok=True)
    try:
        kernels = _write(part, list(begins), start, utc_ns, system)
        part.replace(export)
    finally:
        part.unlink(missing_ok=True)
    return kernels


def _write(
    path: Path, files: Sequence[Path], start: int, utc_ns: int, system: Mapping[str, str]
) -> int:
    strings = Strings()
    with ArrowConnection(str(path)) as connection:
        # The file gets its name when it is complete.
        for pragma in _PRAGMAS:
            list(connection.batches(pragma))
        writer = _Writer(connection, path)
        end, kernels = start, 0
        processes = []
        for file in files:
            source = read_records(file)
            for table, columns in _tables(source, strings, start).items():
                writer.add(table, columns)
            end = max(end, _end_ns(source))
            kernels += len(source.columns[kinds.KERNEL])
            # One process at a time is held in memory.
            processes.append(source.summary())
        for table, columns in information_tables(processes, end - start, utc_ns, system).items():
            writer.add(table, columns)
        ids = np.array(list(strings.ids.values()), dtype=np.int64)
        writer.add(names.STRINGS, {"id": ids, "value": list(strings.ids)})
    return kernels


class _Writer:
    """Creates tables as they come, and appends rows."""

    def __init__(self, connection: ArrowConnection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._columns: dict[str, set[str]] = {}

    def add(self, table: str, columns: Columns) -> None:
        """Append rows to a table, which gets the columns that it lacks."""
        if not columns or not len(next(iter(columns.values()))):
            return
        arrays = {name: _arrow(values) for name, values in columns.items()}
        known = self._columns.setdefault(table, set())
        missing = [name for name in arrays if name not in known]
        if missing:
            with closing(sqlite3.connect(self._path)) as plain:
                plain.execute(_PRAGMAS[0])
                _add_columns(plain, table, missing, arrays, is_new=not known)
                plain.commit()
            known.update(missing)
        self._connection.append(table, pa.table(arrays))


def _add_columns(
    connection: sqlite3.Connection,
    table: str,
    missing: list[str],
    arrays: Mapping[str, pa.Array],
    *,
    is_new: bool,
) -> None:
    typed = [f'"{name}" {_sql_type(arrays[name].type)}' for name in missing]
    if is_new:
        if table == names.STRINGS:
            typed[0] += " PRIMARY KEY"
        connection.execute(f'CREATE TABLE "{table}" ({", ".join(typed)})')
        return
    for column in typed:
        connection.execute(f'ALTER TABLE "{table}" ADD COLUMN {column}')


def _sql_type(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "INTEGER"
    return "REAL" if pa.types.is_floating(kind) else "TEXT"


def _arrow(values: Any) -> pa.Array:
    if isinstance(values, np.ndarray):
        return from_numpy(values)
    if isinstance(values, pa.Array):
        # As text, whatever the bytes: the readers are lenient.
        return pa.Array.from_buffers(pa.large_string(), len(values), values.buffers())
    return from_values(values)


def _tables(source: Records, strings: Strings, start: int) -> dict[str, Columns]:
    process = int(source.columns[kinds.PROCESS][0]["pid"]) << PID_SHIFT
    device_of = _device_of_context(source)
    found = {
        names.API_CALLS: _api(source, strings, process, start),
        names.KERNELS: _kernels(source, strings, process, start),
        names.COPIES: _copies(source, process, start),
        names.SETS: _sets(source, process, start),
        names.SYNCS: _syncs(source, process, start, device_of),
        names.EVENTS: _events(source, process, device_of),
        names.NVTX: _nvtx(source, process, start),
        OVERHEADS: _overheads(source, strings, process, start),
        names.THREAD_NAMES: _thread_names(source, strings, process),
        names.WINDOWS: _windows(source, start),
    }
    nodes = source.columns[kinds.GRAPH_NODE]
    if len(nodes) or any(source.columns[kind]["graph_node"].any() for kind in kinds.WORK):
        found[names.GRAPH_NODES] = {
            "start": _since(nodes["time"], start),
            "end": _since(nodes["time"], start),
            "globalTid": process | nodes["thread"].astype(np.int64),
            "graphNodeId": nodes["node"].astype(np.int64),
            "originalGraphNodeId": np.ma.masked_equal(nodes["original"].astype(np.int64), 0),
        }
    return found


def _windows(source: Records, start: int) -> Columns:
    return {
        "pid": [int(source.columns[kinds.PROCESS][0]["pid"])] * len(source.windows),
        "start_ns": [max(window.start_ns - start, 0) for window in source.windows],
        "end_ns": [max(window.end_ns - start, 0) for window in source.windows],
        "ended_by": [window.ended_by for window in source.windows],
    }


def _since(times: npt.NDArray[Any], start: int) -> Int64:
    return np.maximum(times.astype(np.int64) - start, 0)


def _end_ns(source: Records) -> int:
    """When the last window of the process ended, or its last record if it did not get that far."""
    ends = [window.end_ns for window in source.windows]
    # Files of older versions have no windows: they were recorded to the end.
    if source.is_complete and not ends:
        ends = [int(source.columns[kinds.END][-1]["time_ns"])]
    return max(source.last_ns(), int(source.columns[kinds.PROCESS][0]["time_ns"]), *ends)


def _times(rows: npt.NDArray[Any], start: int) -> Columns:
    return {"start": _since(rows["start"], start), "end": _since(rows["end"], start)}


def _api(source: Records, strings: Strings, process: int, start: int) -> Columns:
    calls = source.columns[kinds.API]
    calls = calls[~_is_nested(calls)]
    return {
        **_times(calls, start),
        "eventClass": calls["is_driver"].astype(np.int64),
        "globalTid": process | calls["thread"].astype(np.int64),
        "correlationId": calls["correlation"].astype(np.int64),
        "nameId": strings.of(calls["name"], source.strings),
        "returnValue": calls["result"].astype(np.int64),
    }


def _is_nested(calls: npt.NDArray[Any]) -> Bool:
    """Return which calls of the driver a call of the runtime made, on the same thread."""
    nested = np.zeros(len(calls), dtype=np.bool_)
    outer = np.flatnonzero(calls["is_driver"] == 0)
    inner = np.flatnonzero(calls["is_driver"] != 0)
    if not len(outer) or not len(inner):
        return nested
    outer = outer[np.lexsort((calls["start"][outer], calls["thread"][outer]))]
    inner = inner[np.lexsort((calls["start"][inner], calls["thread"][inner]))]
    both = np.concatenate([outer, inner])
    # A stable sort puts a runtime call before a driver call that begins at the same time.
    order = np.lexsort((calls["start"][both], calls["thread"][both]))
    is_outer = order < len(outer)
    last = np.maximum.accumulate(np.where(is_outer, order, -1))
    place = last[~is_outer]
    row, around = both[order[~is_outer]], outer[np.maximum(place, 0)]
    nested[row] = (
        (place >= 0)
        & (calls["thread"][around] == calls["thread"][row])
        & (calls["end"][around] >= calls["end"][row])
    )
    return nested


def _work_columns(rows: npt.NDArray[Any], process: int, start: int) -> Columns:
    return {
        **_times(rows, start),
        "deviceId": rows["device"].astype(np.int64),
        "contextId": rows["context"].astype(np.int64),
        "streamId": rows["stream"].astype(np.int64),
        "correlationId": rows["correlation"].astype(np.int64),
        "globalPid": np.full(len(rows), process, dtype=np.int64),
        "graphNodeId": np.ma.masked_equal(rows["graph_node"].astype(np.int64), 0),
    }


def _finished(source: Records, kind: int) -> npt.NDArray[Any]:
    """Return the work of a type, without what the GPU had not finished when the process ended."""
    rows = source.columns[kind]
    start, end = rows["start"].astype(np.int64), rows["end"].astype(np.int64)
    return rows[(start > 0) & (end >= start)]


def _kernels(source: Records, strings: Strings, process: int, start: int) -> Columns:
    rows = _finished(source, kinds.KERNEL)
    plain = {number: demangle(text) for number, text in source.strings.items()}
    short = {number: short_name(text) for number, text in plain.items()}
    return {
        **_work_columns(rows, process, start),
        "demangledName": strings.of(rows["name"], plain),
        "shortName": strings.of(rows["name"], short),
        "mangledName": strings.of(rows["name"], source.strings),
        "launchType": rows["launch_type"].astype(np.int64),
        "registersPerThread": rows["registers"].astype(np.int64),
        **{f"grid{axis}": rows[f"grid_{axis.lower()}"].astype(np.int64) for axis in "XYZ"},
        **{f"block{axis}": rows[f"block_{axis.lower()}"].astype(np.int64) for axis in "XYZ"},
        "staticSharedMemory": rows["static_bytes"].astype(np.int64),
        "dynamicSharedMemory": rows["dynamic_bytes"].astype(np.int64),
    }


def _memory_kind(kind: npt.NDArray[Any]) -> Int64:
    """Kinds of memory as Nsight Systems numbers them: CUPTI's first is the unknown one, its 7."""
    return np.where(kind == 0, 7, kind.astype(np.int64) - 1)


def _copies(source: Records, process: int, start: int) -> Columns:
    rows = _finished(source, kinds.COPY)
    return {
        **_work_columns(rows, process, start),
        "bytes": rows["bytes"].astype(np.int64),
        "copyKind": rows["kind"].astype(np.int64),
        "srcKind": _memory_kind(rows["source"]),
        "dstKind": _memory_kind(rows["target"]),
    }


def _sets(source: Records, process: int, start: int) -> Columns:
    rows = _finished(source, kinds.SET)
    return {
        **_work_columns(rows, process, start),
        "bytes": rows["bytes"].astype(np.int64),
        "memKind": _memory_kind(rows["target"]),
    }


def _device_of_context(source: Records) -> dict[int, int]:
    found: dict[int, int] = {}
    for kind in kinds.WORK:
        rows = source.columns[kind]
        pairs = np.unique(np.stack([rows["context"], rows["device"]], axis=1), axis=0)
        found.update((int(context), int(device)) for context, device in pairs)
    return found


def _in_context(rows: npt.NDArray[Any], process: int, device_of: Mapping[int, int]) -> Columns:
    contexts, code = np.unique(rows["context"], return_inverse=True)
    devices = np.array([device_of.get(int(source), 0) for source in contexts], dtype=np.int64)
    sync = rows["event_sync"]
    return {
        "deviceId": devices[code],
        "contextId": rows["context"].astype(np.int64),
        "streamId": rows["stream"].astype(np.int64),
        "correlationId": rows["correlation"].astype(np.int64),
        "globalPid": np.full(len(rows), process, dtype=np.int64),
        "eventId": rows["event"].astype(np.int64),
        "eventSyncId": np.ma.array(sync.astype(np.int64), mask=sync == kinds.NOT_SET),
    }


def _syncs(source: Records, process: int, start: int, device_of: Mapping[int, int]) -> Columns:
    rows = source.columns[kinds.SYNC]
    in_context = _in_context(rows, process, device_of)
    return _times(rows, start) | in_context | {"syncType": rows["type"].astype(np.int64)}


def _events(source: Records, process: int, device_of: Mapping[int, int]) -> Columns:
    return _in_context(source.columns[kinds.EVENT], process, device_of)


def _nvtx(source: Records, process: int, start: int) -> Columns:
    columns = nvtx_columns(source)
    columns["start"] = _since(columns["start"], start)
    columns["end"] = np.ma.maximum(columns["end"] - start, 0)
    columns["globalTid"] = columns.pop("thread") | process
    columns["endGlobalTid"] = columns.pop("end_thread") | process
    return columns


def _overheads(source: Records, strings: Strings, process: int, start: int) -> Columns:
    rows = source.columns[kinds.OVERHEAD]
    return {
        **_times(rows, start),
        "globalTid": process | rows["thread"].astype(np.int64),
        "nameId": strings.of(
            rows["kind"],
            {
                int(kind): _OVERHEAD_NAMES.get(int(kind), "Unknown")
                for kind in np.unique(rows["kind"])
            },
        ),
        "returnValue": np.zeros(len(rows), dtype=np.int64),
    }


def _thread_names(source: Records, strings: Strings, process: int) -> Columns:
    found = thread_names(source)
    return {
        "nameId": np.array([strings.id(name) for name in found.values()], dtype=np.int64),
        "globalTid": process | np.array(list(found), dtype=np.int64),
    }
