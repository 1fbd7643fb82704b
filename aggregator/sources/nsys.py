"""Reads an Nsight Systems SQLite export into a ``Profile``.

Reading is spread over two connections on two threads, split by rowid: ADBC and SQLite run without
the interpreter's lock, and NVTX ranges are nine tenths of a file.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from aggregator.errors import NoGpuActivityError, UnsupportedNsysSchemaError
from aggregator.model_settings import read_settings
from aggregator.profile import (
    Annotation,
    ApiCalls,
    DeviceWork,
    Profile,
    ProfileWarning,
)
from aggregator.sources import nsys_schema as names
from aggregator.sources.nsys_annotations import (
    EVENT_CATEGORY,
    read_annotations,
    read_thread_names,
)
from aggregator.sources.nsys_columns import (
    DIMENSIONS,
    StringCodes,
    kernel_columns,
    memory_columns,
)
from aggregator.sources.nsys_devices import PID_MASK, PID_SHIFT, DeviceRows
from aggregator.sources.nsys_memory import with_memory
from aggregator.sources.nsys_nvtx import (
    NvtxEvents,
    NvtxPart,
    count_open,
    domain_codes,
    mark_columns,
    merge_nvtx,
    range_columns,
    read_nvtx,
)
from aggregator.sources.nsys_schema import Schema, newest_versions
from aggregator.sources.nsys_system import (
    read_devices,
    read_session,
    read_session_start_ns,
    read_system,
    with_settings,
)
from aggregator.sources.repair import (
    RawTable,
    fill_missing_processes,
    place_host_graphs,
    repair_devices,
    repair_reversed,
    repair_times,
    shift_times,
    time_offset_ns,
    warn_of_graphs,
)
from aggregator.sources.sqlite_files import arrow_connection, decoded, iter_batches
from aggregator.texts import say

if TYPE_CHECKING:
    from pathlib import Path

    import adbc_driver_sqlite.dbapi as adbc

    from aggregator.profile import Int64
    from aggregator.progress import Progress


def is_export(tables: frozenset[str]) -> bool:
    """Whether an SQLite file with these tables looks like an Nsight Systems export."""
    found = newest_versions(tables)
    return names.STRINGS in found and (
        names.NVTX in found
        or names.SYSTEM_ENV in found
        or any(name.startswith("CUPTI_ACTIVITY_KIND_") for name in found)
    )


def read(path: Path, tables: frozenset[str], progress: Progress) -> Profile:
    """Read the columns of an export.

    Raises:
        NoGpuActivityError: The export holds no CUDA calls and no GPU work.
        UnsupportedNsysSchemaError: A table lacks a column that is needed.
        CorruptProfileError: The file breaks off.
    """
    schema = Schema(path, tables)
    _check_tables(schema)
    with arrow_connection(path) as connection:
        sizes = {table: _last_rowid(connection, schema, table) for table in _TABLES}
    progress.phase("read", sum(sizes.values()))
    with ThreadPoolExecutor(max_workers=2) as pool:
        middle = sizes[names.NVTX] // 2
        halves = [
            pool.submit(_read_nvtx_part, schema, low, high, progress)
            for low, high in ((0, middle), (middle, sizes[names.NVTX]))
            if high > low
        ]
        progress.message("Reading Ops from Nsight Systems database")
        with arrow_connection(path) as connection:
            progress.message("Reading CUDA API calls from Nsight Systems database")
            tables_read = _RawTables.read(connection, schema, progress)
        nvtx = merge_nvtx([half.result() for half in halves])
    progress.message("Reading System Information from Nsight Systems database")
    if not any(len(table["start"]) for table in (tables_read.api, *_work(tables_read))):
        raise _no_activity(path)
    return _assemble(schema, tables_read, nvtx)


_WORK_TABLES = (names.KERNELS, names.COPIES, names.SETS, names.SYNCS, names.GRAPHS)
_TABLES = (names.NVTX, names.API_CALLS, *_WORK_TABLES)


def _no_activity(path: Path) -> NoGpuActivityError:
    return NoGpuActivityError(
        say("The profile '{path}' holds no CUDA activity.", path=str(path)),
        hint=say(
            "Profile with CUDA tracing on (nsys profile -t cuda,nvtx ...) and check that the "
            "application used a GPU."
        ),
    )


def _check_tables(schema: Schema) -> None:
    """Refuse an export without any CUDA activity, and one whose tables lack what is needed."""
    if not any(schema.has(table) for table in (names.API_CALLS, *_WORK_TABLES)):
        raise _no_activity(schema.path)
    work = {"start", "end", "correlationId"}
    needed = {
        names.API_CALLS: work | {"globalTid", "nameId"},
        names.KERNELS: work,
        names.COPIES: work,
        names.SETS: work,
        names.GRAPHS: work,
        names.NVTX: {"start", "end", "eventType", "text", "globalTid"},
    }
    for table, columns in needed.items():
        missing = sorted(columns - schema.columns(table)) if schema.has(table) else []
        if missing:
            raise UnsupportedNsysSchemaError(
                say(
                    "The export '{path}' has a table {table} without {names}.",
                    path=str(schema.path),
                    table=table,
                    names=", ".join(missing),
                ),
                hint=say("Export the report again with a current Nsight Systems."),
                table=table,
                missing=list(missing),
            )


def _last_rowid(connection: adbc.Connection, schema: Schema, table: str) -> int:
    if not schema.has(table):
        return 0
    query = f"SELECT coalesce(max(rowid), 0) AS n FROM {schema.table(table)}"
    return int(next(iter_batches(connection, query)).column(0)[0].as_py())


def _read_nvtx_part(schema: Schema, low: int, high: int, progress: Progress) -> NvtxPart:
    with arrow_connection(schema.path) as connection:
        return read_nvtx(connection, schema, low, high, progress)


@dataclass
class _RawTables:
    """Integer columns as the export has them, plus its string table."""

    api: RawTable
    kernels: RawTable
    copies: RawTable
    sets: RawTable
    syncs: RawTable
    graphs: RawTable
    strings: dict[int, str]

    @staticmethod
    def read(connection: adbc.Connection, schema: Schema, progress: Progress) -> _RawTables:
        def table(name: str, columns: dict[str, str]) -> RawTable:
            return _read_ints(connection, schema, name, columns, progress)

        def work(name: str, **extra: str) -> RawTable:
            return table(name, _work_columns(schema, name, extra))

        dims = {name: name for name in DIMENSIONS}
        api = _time_columns() | {
            "tid": schema.column(names.API_CALLS, "globalTid", "-1"),
            "corr": schema.column(names.API_CALLS, "correlationId", "-1"),
            "name": schema.column(names.API_CALLS, "nameId", "-1"),
        }
        query = (
            "SELECT CAST(id AS INTEGER), CAST(coalesce(value, '') AS TEXT) AS value"
            f" FROM {schema.table(names.STRINGS)} WHERE id IS NOT NULL"
        )
        strings: dict[int, str] = {}
        for batch in iter_batches(connection, query):
            strings.update(zip(batch.column(0).to_pylist(), decoded(batch.column(1)), strict=True))
        return _RawTables(
            api=table(names.API_CALLS, api),
            kernels=work(names.KERNELS, short="shortName", long="demangledName", **dims),
            copies=work(names.COPIES, bytes="bytes", kind="copyKind"),
            sets=work(names.SETS, bytes="bytes"),
            syncs=work(names.SYNCS),
            graphs=work(names.GRAPHS),
            strings=strings,
        )


def _time_columns() -> dict[str, str]:
    return {"start": 'coalesce("start", 0)', "end": 'coalesce("end", "start", 0)'}


def _work_columns(schema: Schema, table: str, extra: dict[str, str]) -> dict[str, str]:
    columns = _time_columns() | {
        "device": schema.column(table, "deviceId", "0"),
        "stream": schema.column(table, "streamId", "-1"),
        "corr": schema.column(table, "correlationId", "-1"),
        "pid": schema.column(table, "globalPid", "-1"),
    }
    return columns | {name: schema.column(table, column, "-1") for name, column in extra.items()}


def _read_ints(
    connection: adbc.Connection,
    schema: Schema,
    table: str,
    columns: dict[str, str],
    progress: Progress,
) -> RawTable:
    parts: dict[str, list[Int64]] = {name: [] for name in columns}
    if schema.has(table):
        # A column of another type, or text in it, must not change the type of the whole.
        select = ", ".join(f'CAST({sql} AS INTEGER) AS "{name}"' for name, sql in columns.items())
        query = f"SELECT {select} FROM {schema.table(table)} ORDER BY rowid"
        for batch in iter_batches(connection, query):
            for position, name in enumerate(columns):
                array = batch.column(position).to_numpy(zero_copy_only=False)
                parts[name].append(array.astype(np.int64, copy=False))
            progress.advance(batch.num_rows)
    return {
        name: np.concatenate(arrays) if arrays else np.empty(0, np.int64)
        for name, arrays in parts.items()
    }


def _assemble(schema: Schema, raw: _RawTables, nvtx: NvtxEvents) -> Profile:
    warnings: list[ProfileWarning] = []
    _repair(schema, raw, nvtx, warnings)
    threads, process_keys = _threads_and_processes(raw, nvtx)
    known = read_devices(schema)
    devices = DeviceRows(known, _work(raw), process_keys)
    ends = [int(table["end"].max(initial=0)) for table in (raw.api, *_work(raw))]
    end_ns = max([nvtx.last_time_ns(), *ends])
    domain, domain_names = domain_codes(nvtx, PID_SHIFT)
    nvtx_thread = np.searchsorted(threads, nvtx.tid).astype(np.int32)
    if open_count := count_open(nvtx):
        text = say("NVTX ranges were still open at the end of the capture; they end with it.")
        warnings.append(ProfileWarning("OPEN_RANGES", text, open_count))
    strings = StringCodes(raw.strings)
    api_calls = _api_columns(raw.api, threads, strings)
    kernels = kernel_columns(raw.kernels, devices, strings)
    return Profile(
        source_name=schema.path.name,
        end_ns=end_ns,
        strings=strings.values(),
        range_names=nvtx.labels,
        shape_texts=nvtx.size_texts,
        domain_names=domain_names,
        threads=threads,
        thread_process=np.searchsorted(process_keys, threads >> PID_SHIFT).astype(np.int32),
        process_ids=tuple(int(key) & PID_MASK if key >= 0 else 0 for key in process_keys),
        devices=with_memory(devices.devices, schema, known.gpu_of_uuid, nvtx.labels),
        ranges=range_columns(nvtx, names.EVENT_RANGE, nvtx_thread, domain, end_ns),
        start_end_ranges=range_columns(
            nvtx, names.EVENT_START_END_RANGE, nvtx_thread, domain, end_ns
        ),
        marks=mark_columns(nvtx, nvtx_thread, domain),
        api_calls=api_calls,
        kernels=kernels,
        copies=memory_columns(raw.copies, devices),
        sets=memory_columns(raw.sets, devices),
        syncs=DeviceWork(**devices.work_columns(raw.syncs)),
        graphs=DeviceWork(**devices.work_columns(raw.graphs)),
        annotations=_annotations(schema, nvtx),
        thread_names=read_thread_names(schema),
        system=with_settings(read_system(schema), read_settings(nvtx.labels)),
        session=read_session(schema),
        warnings=warnings,
    )


def _threads_and_processes(raw: _RawTables, nvtx: NvtxEvents) -> tuple[Int64, Int64]:
    """Global thread ids, and the process parts of all ids, each sorted."""
    threads = np.unique(np.concatenate([raw.api["tid"], nvtx.tid]))
    of_work = [table["pid"] >> PID_SHIFT for table in _work(raw) if len(table["pid"])]
    process_keys = np.unique(np.concatenate([threads >> PID_SHIFT, *of_work]))
    # A process of which only its work was recorded needs a thread to belong to.
    silent = np.setdiff1d(process_keys, threads >> PID_SHIFT)
    return np.union1d(threads, silent << PID_SHIFT), process_keys


def _api_columns(table: RawTable, threads: Int64, strings: StringCodes) -> ApiCalls:
    thread = np.searchsorted(threads, table["tid"]).astype(np.int32)
    return ApiCalls(
        table["start"], table["end"], thread, table["corr"], strings.codes(table["name"])
    )


def _annotations(schema: Schema, nvtx: NvtxEvents) -> tuple[Annotation, ...]:
    """Categories and payloads; only a run that names domains or categories is searched for them."""
    if not ((nvtx.domain_id != 0) | (nvtx.kind == EVENT_CATEGORY)).any():
        return ()
    return read_annotations(schema)


def _repair(
    schema: Schema, raw: _RawTables, nvtx: NvtxEvents, warnings: list[ProfileWarning]
) -> None:
    work = _work(raw)
    tables = (raw.api, *work)
    fill_missing_processes(raw.api, work, PID_SHIFT)
    starts = [nvtx.start, *(table["start"] for table in tables)]
    offset_ns = time_offset_ns(starts, read_session_start_ns(schema))
    if offset_ns:
        shift_times(tables, offset_ns)
        nvtx.shift(offset_ns)
    ranges = {"start": nvtx.start, "end": nvtx.end}
    repair_times((*tables, ranges), warnings)
    nvtx.start, nvtx.end = ranges["start"], ranges["end"]
    repair_reversed(tables, warnings)
    place_host_graphs(raw.graphs, work)
    repair_devices(work, warnings)
    warn_of_graphs(raw.graphs, warnings)


def _work(raw: _RawTables) -> tuple[RawTable, ...]:
    return (raw.kernels, raw.copies, raw.sets, raw.syncs, raw.graphs)
