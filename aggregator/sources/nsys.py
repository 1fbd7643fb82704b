"""Reads an Nsight Systems SQLite export into a ``Profile``.

Reading is spread over a connection per thread, the NVTX ranges split by rowid: ADBC and SQLite run
without the interpreter's lock, and NVTX ranges are nine tenths of a file.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from aggregator.columns import dense_codes, distinct, drained, narrow, narrowest
from aggregator.errors import NoGpuActivityError, UnsupportedNsysSchemaError
from aggregator.memory import give_back
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
from aggregator.sources.nsys_diagnostics import lost_events
from aggregator.sources.nsys_memory import with_memory
from aggregator.sources.nsys_nvtx import (
    LaneRows,
    NvtxEvents,
    NvtxPart,
    count_open,
    domain_codes,
    mark_columns,
    merge_nvtx,
    range_columns,
    read_nvtx,
    start_end_columns,
)
from aggregator.sources.nsys_schema import Schema, newest_versions
from aggregator.sources.nsys_slices import readers, row_conditions, slices_of
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
from aggregator.sources.sqlite_files import arrow_connection, decoded, integers
from aggregator.texts import say

if TYPE_CHECKING:
    from pathlib import Path

    from aggregator.profile import Int64, Integers
    from aggregator.progress import Progress
    from aggregator.sqlite_arrow import ArrowConnection


T = TypeVar("T")


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
    progress.message("Reading Ops from Nsight Systems database")
    progress.message("Reading CUDA API calls from Nsight Systems database")
    with ThreadPoolExecutor(max_workers=readers()) as pool:
        slices = [
            pool.submit(_read_nvtx_part, schema, low, high, progress)
            for low, high in slices_of(sizes[names.NVTX])
        ]
        pending = {
            table: [
                pool.submit(_read_table, schema, table, rows, progress)
                for rows in row_conditions(sizes[table])
            ]
            for table in _RAW
        }
        strings = pool.submit(_read_strings, schema)
        nvtx = merge_nvtx(_results(slices))
        raw = {table: _joined(_results(futures)) for table, futures in pending.items()}
    progress.message("Reading System Information from Nsight Systems database")
    tables_read = _RawTables(strings.result(), *raw.values())
    if not any(len(table["start"]) for table in (tables_read.api, *_work(tables_read))):
        raise _no_activity(path)
    profile = _assemble(schema, tables_read, nvtx)
    give_back()
    return profile


def _joined(parts: list[dict[str, list[Integers]]]) -> RawTable:
    """The columns of all parts of a table; no part is kept."""
    return {
        name: drained([array for part in parts for array in part.pop(name)]) for name in [*parts[0]]
    }


def _results(futures: list[Future[T]]) -> list[T]:
    """Results in order; the list is empty afterwards, so that nothing else keeps them."""
    results = [future.result() for future in futures]
    futures.clear()
    return results


_WORK_TABLES = (names.KERNELS, names.COPIES, names.SETS, names.SYNCS, names.GRAPHS)
_RAW = (names.API_CALLS, *_WORK_TABLES)
_TABLES = (names.NVTX, *_RAW)


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


def _last_rowid(connection: ArrowConnection, schema: Schema, table: str) -> int:
    if not schema.has(table):
        return 0
    query = f"SELECT coalesce(max(rowid), 0) AS n FROM {schema.table(table)}"
    return int(next(connection.batches(query)).column(0)[0].as_py())


def _read_nvtx_part(schema: Schema, low: int, high: int, progress: Progress) -> NvtxPart:
    with arrow_connection(schema.path) as connection:
        return read_nvtx(connection, schema, low, high, progress)


@dataclass
class _RawTables:
    """Integer columns as the export has them, plus its string table."""

    strings: dict[int, str]
    api: RawTable
    kernels: RawTable
    copies: RawTable
    sets: RawTable
    syncs: RawTable
    graphs: RawTable


def _read_strings(schema: Schema) -> dict[int, str]:
    query = (
        "SELECT CAST(id AS INTEGER), CAST(coalesce(value, '') AS TEXT) AS value"
        f" FROM {schema.table(names.STRINGS)} WHERE id IS NOT NULL"
    )
    strings: dict[int, str] = {}
    with arrow_connection(schema.path) as connection:
        for batch in connection.batches(query):
            strings.update(zip(batch.column(0).to_pylist(), decoded(batch.column(1)), strict=True))
    return strings


def _read_table(
    schema: Schema, table: str, rows: str, progress: Progress
) -> dict[str, list[Integers]]:
    """The integer columns of a table that are needed, in parts; ``rows`` is an SQL condition."""
    if table == names.API_CALLS:
        columns = _time_columns() | {
            "tid": schema.column(table, "globalTid", "-1"),
            "corr": schema.column(table, "correlationId", "-1"),
            "name": schema.column(table, "nameId", "-1"),
        }
    else:
        columns = _work_columns(schema, table, _EXTRA.get(table, {}))
    with arrow_connection(schema.path) as connection:
        return _read_ints(connection, schema, (table, rows), columns, progress)


_EXTRA = {
    names.KERNELS: {"short": "shortName", "long": "demangledName"}
    | {name: name for name in DIMENSIONS},
    names.COPIES: {
        "bytes": "bytes",
        "kind": "copyKind",
        "source": "srcKind",
        "target": "dstKind",
    },
    names.SETS: {"bytes": "bytes"},
}
_WIDE = frozenset({"start", "end", "tid", "pid"})
"""Columns that stay int64 whatever they hold: they are shifted and added to."""


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
    connection: ArrowConnection,
    schema: Schema,
    source: tuple[str, str],
    columns: dict[str, str],
    progress: Progress,
) -> dict[str, list[Integers]]:
    table, rows = source
    parts: dict[str, list[Integers]] = {name: [] for name in columns}
    if schema.has(table):
        # A column of another type, or text in it, must not change the type of the whole.
        select = ", ".join(f'CAST({sql} AS INTEGER) AS "{name}"' for name, sql in columns.items())
        query = f"SELECT {select} FROM {schema.table(table)} WHERE {rows} ORDER BY rowid"
        for batch in connection.batches(query):
            for position, name in enumerate(columns):
                array = integers(batch.column(position))
                parts[name].append(array if name in _WIDE else narrow(array))
            progress.advance(batch.num_rows)
    return parts


def _assemble(schema: Schema, raw: _RawTables, nvtx: NvtxEvents) -> Profile:
    warnings = lost_events(schema)
    _repair(schema, raw, nvtx, warnings)
    threads, process_keys = _threads_and_processes(raw, nvtx)
    known = read_devices(schema)
    devices = DeviceRows(known, _work(raw), process_keys)
    ends = [int(table["end"].max(initial=0)) for table in (raw.api, *_work(raw))]
    end_ns = max([nvtx.last_time_ns(), *ends])
    domain, domain_names = domain_codes(nvtx, PID_SHIFT)
    lanes = LaneRows(narrowest(np.searchsorted(threads, nvtx.tids)), narrowest(domain))
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
        ranges=range_columns(nvtx, lanes, end_ns),
        start_end_ranges=start_end_columns(nvtx, lanes, end_ns),
        marks=mark_columns(nvtx, lanes),
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
    threads = np.union1d(distinct(raw.api["tid"]), nvtx.tids)
    of_work = [distinct(table["pid"]) >> PID_SHIFT for table in _work(raw)]
    process_keys = np.unique(np.concatenate([threads >> PID_SHIFT, *of_work]))
    # A process of which only its work was recorded needs a thread to belong to.
    silent = np.setdiff1d(process_keys, threads >> PID_SHIFT)
    return np.union1d(threads, silent << PID_SHIFT), process_keys


def _api_columns(table: RawTable, threads: Int64, strings: StringCodes) -> ApiCalls:
    tids, code = dense_codes(table.pop("tid"))
    thread = narrowest(np.searchsorted(threads, tids))[code]
    return ApiCalls(
        table["start"], table["end"], thread, table["corr"], strings.codes(table["name"])
    )


def _annotations(schema: Schema, nvtx: NvtxEvents) -> tuple[Annotation, ...]:
    """Categories and payloads; only a run that names domains or categories is searched for them."""
    if not nvtx.domain_ids.any() and not (nvtx.others.kind == EVENT_CATEGORY).any():
        return ()
    return read_annotations(schema)


def _repair(
    schema: Schema, raw: _RawTables, nvtx: NvtxEvents, warnings: list[ProfileWarning]
) -> None:
    work = _work(raw)
    tables = (raw.api, *work)
    fill_missing_processes(raw.api, work, PID_SHIFT)
    events = (nvtx.ranges, nvtx.others)
    starts = [part.start for part in events] + [table["start"] for table in tables]
    offset_ns = time_offset_ns(starts, read_session_start_ns(schema))
    if offset_ns:
        shift_times(tables, offset_ns)
        for part in events:
            part.shift(offset_ns)
    ranges = [{"start": part.start, "end": part.end} for part in events]
    repair_times((*tables, *ranges), warnings)
    for part, repaired in zip(events, ranges, strict=True):
        part.start, part.end = repaired["start"], repaired["end"]
    repair_reversed(tables, warnings)
    place_host_graphs(raw.graphs, work)
    repair_devices(work, warnings)
    warn_of_graphs(raw.graphs, warnings)


def _work(raw: _RawTables) -> tuple[RawTable, ...]:
    return (raw.kernels, raw.copies, raw.sets, raw.syncs, raw.graphs)
