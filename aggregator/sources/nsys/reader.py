"""Reads an Nsight Systems SQLite export into a ``Profile``.

Several threads read, each with its own connection and a range of row ids: ADBC and SQLite run
without the interpreter's lock, and NVTX ranges are nine tenths of a file.
"""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from aggregator.errors import NoGpuActivityError, UnsupportedNsysSchemaError
from aggregator.profile.arrays import NameCodes, dense_codes, distinct, narrow, narrowest
from aggregator.profile.profile import (
    Annotation,
    ApiCalls,
    DeviceWork,
    GraphNodes,
    Profile,
    ProfileWarning,
)
from aggregator.profile.settings import read_settings
from aggregator.sources.arrow_columns import arrow_connection, decoded, integers
from aggregator.sources.formats import no_activity
from aggregator.sources.nsys import schema as names
from aggregator.sources.nsys.columns import (
    DIMENSIONS,
    DeviceRows,
    joined_parts,
    kernel_columns,
    memory_columns,
)
from aggregator.sources.nsys.counters import read_counters
from aggregator.sources.nsys.diagnostics import read_diagnostics
from aggregator.sources.nsys.gpu_memory import with_memory
from aggregator.sources.nsys.gpu_speed import read_gpu_speed
from aggregator.sources.nsys.nvtx import (
    EVENT_CATEGORY,
    LaneRows,
    NvtxEvents,
    domain_codes,
    drop_open,
    mark_columns,
    merge_nvtx,
    range_columns,
    read_annotations,
    read_nvtx,
    read_thread_names,
    start_end_rows,
)
from aggregator.sources.nsys.reference import read_reference
from aggregator.sources.nsys.schema import PID_MASK, PID_SHIFT, Schema
from aggregator.sources.nsys.system import (
    read_capture_ns,
    read_devices,
    read_session,
    read_session_start_ns,
    read_system,
    with_settings,
)
from aggregator.sources.nsys.waits import read_blocking_streams, read_waits
from aggregator.sources.nsys.windows import read_windows
from aggregator.sources.repair import (
    RawTable,
    assign_host_graphs,
    clear_impossible_bytes,
    drop_repeated,
    fill_missing_processes,
    repair_devices,
    repair_reversed,
    repair_times,
    shift_times,
    time_offset_ns,
    warn_of_graphs,
)
from aggregator.system.resources import release_memory
from aggregator.texts import say

if TYPE_CHECKING:
    from pathlib import Path

    from aggregator.profile.arrays import Int64, Integers
    from aggregator.system.progress import Progress
    from aggregator.system.sqlite_arrow import ArrowConnection


T = TypeVar("T")


def read(path: Path, tables: frozenset[str], progress: Progress) -> Profile:
    """Read the columns of an export.

    Raises:
        NoGpuActivityError: The export holds no CUDA calls and no GPU work.
        UnsupportedNsysSchemaError: A table lacks a column that is needed.
        CorruptProfileError: The file is damaged.
    """
    schema = Schema(path, tables)
    _check_tables(schema)
    with arrow_connection(path) as connection:
        sizes = {table: _last_rowid(connection, schema, table) for table in _TABLES}
    progress.phase("read", sum(sizes.values()))
    progress.message("Reading Ops from Nsight Systems database")
    progress.message("Reading CUDA API calls from Nsight Systems database")
    with ThreadPoolExecutor(max_workers=_num_readers()) as pool:
        slices = [
            pool.submit(read_nvtx, schema, rows, progress)
            for rows in row_conditions(sizes[names.NVTX])
        ]
        pending = {
            table: [
                pool.submit(_read_table, schema, table, rows, progress)
                for rows in row_conditions(sizes[table])
            ]
            for table in _COLUMNS
        }
        strings = pool.submit(_read_strings, schema)
        nvtx = merge_nvtx(_results(slices))
        raw = {table: joined_parts(_results(futures)) for table, futures in pending.items()}
    progress.message("Reading System Information from Nsight Systems database")
    if not any(len(table["start"]) for table in raw.values()):
        raise _no_activity(path)
    profile = _assemble(schema, NameCodes(strings.result()), raw, nvtx)
    release_memory()
    return profile


def _results(futures: list[Future[T]]) -> list[T]:
    """Results in order; the list is emptied, so that it does not keep them in memory."""
    results = [future.result() for future in futures]
    futures.clear()
    return results


_WORK_TABLES = (names.KERNELS, names.COPIES, names.SETS, names.SYNCS, names.GRAPHS)
_TABLES = (names.NVTX, names.API_CALLS, names.GRAPH_NODES, *_WORK_TABLES)
_READ_ACTIVITY = (names.API_CALLS, *_WORK_TABLES, names.EVENTS, names.OVERHEAD)


def _no_activity(path: Path) -> NoGpuActivityError:
    hint = say(
        "Profile with CUDA tracing on (nsys profile -t cuda,nvtx ...) and check that the "
        "application used a GPU."
    )
    return no_activity(path, hint)


def _check_tables(schema: Schema) -> None:
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


MIN_SLICE_ROWS = 100_000


def _num_readers() -> int:
    """Number of reading threads: more than a few wait for each other."""
    return max(2, min(4, os.cpu_count() or 1))


def row_conditions(last_rowid: int) -> list[str]:
    """SQL conditions that divide the rows of a table; together they cover every row.

    They are more than the threads, so that all threads end at about the same time.
    """
    count = min(2 * _num_readers(), last_rowid // MIN_SLICE_ROWS + 1)
    inner = [last_rowid * number // count for number in range(1, count)]
    below = [f"rowid <= {high}" for high in inner] + ["1"]
    above = ["1"] + [f"rowid > {high}" for high in inner]
    return [f"{low} AND {high}" for low, high in zip(above, below, strict=True)]


def _last_rowid(connection: ArrowConnection, schema: Schema, table: str) -> int:
    if not schema.has(table):
        return 0
    query = f"SELECT coalesce(max(rowid), 0) AS n FROM {schema.table(table)}"
    return int(next(connection.batches(query)).column(0)[0].as_py())


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


_OF_WORK = {
    "device": "deviceId",
    "stream": "streamId",
    "corr": "correlationId",
    "pid": "globalPid",
}
_COLUMNS = {
    names.API_CALLS: {"tid": "globalTid", "corr": "correlationId", "name": "nameId"},
    names.KERNELS: _OF_WORK
    | {"short": "shortName", "long": "demangledName"}
    | {name: name for name in DIMENSIONS},
    names.COPIES: _OF_WORK
    | {"bytes": "bytes", "kind": "copyKind", "source": "srcKind", "target": "dstKind"},
    names.SETS: _OF_WORK | {"bytes": "bytes"},
    names.SYNCS: _OF_WORK | {"event": "eventSyncId"},
    names.GRAPHS: _OF_WORK,
    names.GRAPH_NODES: {
        "tid": "globalTid",
        "node": "graphNodeId",
        "original": "originalGraphNodeId",
    },
}
"""Columns that are read of each table, beside its times, by the name that they get here."""
_WIDE = frozenset({"start", "end", "tid", "pid"})
"""Columns that stay int64 whatever their values: offsets are added to them."""


def _read_table(
    schema: Schema, table: str, rows: str, progress: Progress
) -> dict[str, list[Integers]]:
    """The integer columns of a table batch by batch; ``rows`` is an SQL condition."""
    wanted = _COLUMNS[table] | ({"node": "graphNodeId"} if schema.has(names.GRAPH_NODES) else {})
    columns = {"start": 'coalesce("start", 0)', "end": 'coalesce("end", "start", 0)'} | {
        name: schema.column(table, column, "0" if name == "device" else "-1")
        for name, column in wanted.items()
    }
    parts: dict[str, list[Integers]] = {name: [] for name in columns}
    if not schema.has(table):
        return parts
    # A text value in one row must not change the type of the column.
    select = ", ".join(f'CAST({sql} AS INTEGER) AS "{name}"' for name, sql in columns.items())
    query = f"SELECT {select} FROM {schema.table(table)} WHERE {rows}"
    with arrow_connection(schema.path) as connection:
        for batch in connection.batches(query):
            for position, name in enumerate(columns):
                array = integers(batch.column(position))
                parts[name].append(array if name in _WIDE else narrow(array))
            progress.advance(batch.num_rows)
    return parts


def _assemble(
    schema: Schema, strings: NameCodes, raw: dict[str, RawTable], nvtx: NvtxEvents
) -> Profile:
    warnings = read_diagnostics(schema)
    offset_ns = _repair(schema, raw, nvtx, warnings)
    threads, process_keys = _threads_and_processes(raw, nvtx)
    known = read_devices(schema)
    devices = DeviceRows(known, _work(raw), process_keys)
    times = [table["end"] for table in (*raw.values(), nvtx.ranges, nvtx.others)]
    times += [nvtx.ranges["start"], nvtx.others["start"]]
    end_ns = max(int(column.max(initial=0)) for column in times)
    domain, domain_names = domain_codes(nvtx, PID_SHIFT)
    lanes = LaneRows(narrowest(np.searchsorted(threads, nvtx.tids)), narrowest(domain))
    api_calls = _api_columns(raw[names.API_CALLS], threads, strings)
    kernels = kernel_columns(raw[names.KERNELS], devices, strings)
    syncs = DeviceWork(**devices.work_columns(raw[names.SYNCS]))
    process_ids = tuple(int(key) & PID_MASK if key >= 0 else 0 for key in process_keys)
    session = read_session(schema)
    speed = read_gpu_speed(schema, devices.devices)
    return Profile(
        source_name=schema.path.name,
        end_ns=end_ns,
        strings=strings.values(),
        range_names=nvtx.labels,
        shape_texts=nvtx.size_texts,
        domain_names=domain_names,
        threads=threads,
        thread_process=np.searchsorted(process_keys, threads >> PID_SHIFT).astype(np.int32),
        process_ids=process_ids,
        devices=with_memory(devices.devices, known, schema, nvtx.labels),
        ranges=range_columns(nvtx.ranges, nvtx, lanes, end_ns),
        start_end_ranges=range_columns(start_end_rows(nvtx), nvtx, lanes, end_ns),
        marks=mark_columns(nvtx, lanes),
        api_calls=api_calls,
        kernels=kernels,
        copies=memory_columns(raw[names.COPIES], devices),
        sets=memory_columns(raw[names.SETS], devices),
        syncs=syncs,
        waits=read_waits(schema, raw[names.SYNCS]["event"], syncs, process_keys),
        blocking_streams=read_blocking_streams(schema, process_ids),
        recorded_part=read_windows(schema, offset_ns, process_ids),
        graphs=DeviceWork(**devices.work_columns(raw[names.GRAPHS])),
        graph_nodes=read_graph_nodes(raw, threads),
        annotations=_annotations(schema, nvtx),
        thread_names=read_thread_names(schema),
        system=with_settings(read_system(schema), read_settings(nvtx.labels)),
        session=session,
        reference=read_reference(schema, speed),
        warnings=[*warnings, *speed.warnings(), *_unread(schema, nvtx)],
        records_memory=schema.has(names.ALLOCATIONS),
        counters=read_counters(
            schema,
            devices.devices,
            start_utc_ns=session.start_utc_ns,
            offset_ns=offset_ns,
            end_ns=end_ns,
        ),
    )


def _unread(schema: Schema, nvtx: NvtxEvents) -> list[ProfileWarning]:
    """Count the records of kinds of activity that are not read, such as functions on the host."""
    unread = [table for table in schema.activity_tables() if table not in _READ_ACTIVITY]
    with schema.connect() as connection:
        counts = {
            table.removeprefix(names.ACTIVITY_KIND): connection.execute(
                f"SELECT count(*) FROM {schema.table(table)}"
            ).fetchone()[0]
            for table in unread
        }
    counts[names.NVTX] = nvtx.unplaced
    if not any(counts.values()):
        return []
    kinds = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    text = say("events of the trace are of kinds that are not used: {kinds}.", kinds=kinds)
    return [ProfileWarning("UNUSED_EVENTS", text, sum(counts.values()))]


def _threads_and_processes(raw: dict[str, RawTable], nvtx: NvtxEvents) -> tuple[Int64, Int64]:
    """Global thread ids, and the process parts of all ids, each sorted."""
    threads = np.union1d(distinct(raw[names.API_CALLS]["tid"]), nvtx.tids)
    of_work = [distinct(table["pid"]) >> PID_SHIFT for table in _work(raw)]
    process_keys = np.unique(np.concatenate([threads >> PID_SHIFT, *of_work]))
    # Work of a process without recorded threads needs a thread to belong to.
    silent = np.setdiff1d(process_keys, threads >> PID_SHIFT)
    return np.union1d(threads, silent << PID_SHIFT), process_keys


def _api_columns(table: RawTable, threads: Int64, strings: NameCodes) -> ApiCalls:
    tids, code = dense_codes(table.pop("tid"))
    thread = narrowest(np.searchsorted(threads, tids))[code]
    return ApiCalls(
        table["start"], table["end"], thread, table["corr"], strings.codes_of_ids(table["name"])
    )


def _annotations(schema: Schema, nvtx: NvtxEvents) -> tuple[Annotation, ...]:
    """Categories and payloads; searched only if the run has named domains or categories."""
    if not nvtx.domain_ids.any() and not (nvtx.others["kind"] == EVENT_CATEGORY).any():
        return ()
    return read_annotations(schema)


def _repair(
    schema: Schema, raw: dict[str, RawTable], nvtx: NvtxEvents, warnings: list[ProfileWarning]
) -> int:
    """Repair the tables in place; returns what was subtracted from all times."""
    work = _work(raw)
    _drop_open(nvtx, read_capture_ns(schema), warnings)
    tables = (*raw.values(), nvtx.ranges, nvtx.others)
    fill_missing_processes(raw[names.API_CALLS], work, PID_SHIFT)
    starts = [table["start"] for table in tables]
    offset_ns = time_offset_ns(starts, read_session_start_ns(schema))
    shift_times(tables, offset_ns)
    repair_times([*raw.values()], warnings, (nvtx.ranges, nvtx.others))
    repair_reversed([*raw.values()], warnings)
    drop_repeated(work, raw[names.API_CALLS], (nvtx.ranges, nvtx.others), warnings)
    assign_host_graphs(raw[names.GRAPHS], work)
    repair_devices(work, warnings)
    clear_impossible_bytes([raw[names.COPIES], raw[names.SETS]], warnings)
    warn_of_graphs(raw[names.GRAPHS], warnings)
    if not any(len(table["start"]) for table in work):
        text = say(
            "API calls have no work on a GPU in the capture: every time on the GPU is unknown."
        )
        warnings.append(ProfileWarning("NO_GPU_WORK", text, len(raw[names.API_CALLS]["start"])))
    return offset_ns


def _drop_open(nvtx: NvtxEvents, capture_ns: int, warnings: list[ProfileWarning]) -> None:
    removed, kept = drop_open(nvtx, capture_ns)
    if removed:
        text = say(
            "NVTX ranges were never closed, or only by the end of the capture; they are no ops."
        )
        warnings.append(ProfileWarning("OPEN_RANGES", text, removed))
    if kept:
        text = say("NVTX ranges were cut off by the end of the capture; they end with it.")
        warnings.append(ProfileWarning("CUT_RANGES", text, kept))


def _work(raw: dict[str, RawTable]) -> list[RawTable]:
    return [raw[table] for table in _WORK_TABLES]


if TYPE_CHECKING:
    from aggregator.profile.arrays import Int64
    from aggregator.sources.repair import RawTable


def read_graph_nodes(raw: dict[str, RawTable], threads: Int64) -> GraphNodes:
    """Return the nodes of CUDA graphs that were traced node by node."""
    table = raw[names.GRAPH_NODES]
    known = np.isin(table["tid"], threads) & (table["node"] >= 0)
    if not known.any():
        return GraphNodes()
    return GraphNodes(
        time_ns=table["start"][known],
        thread=np.searchsorted(threads, table["tid"][known]).astype(np.int32),
        node=table["node"][known].astype(np.int64),
        original=table["original"][known].astype(np.int64),
        of_work=tuple(
            raw[kind]["node"].astype(np.int64) for kind in (names.KERNELS, names.COPIES, names.SETS)
        ),
    )
