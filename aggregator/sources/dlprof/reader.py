"""Reads a database of NVIDIA's DLProf 1.2 to 1.8 into a profile whose ops are known.

Its ``read_only_*`` tables hold the imported profile; all other tables are per aggregation. Columns
that an older version does not have are unknown, not an error.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from aggregator.errors import NoGpuActivityError
from aggregator.profile.arrays import NameCodes, rows_of
from aggregator.profile.profile import (
    DEFAULT_DOMAIN,
    DeviceWork,
    Kernels,
    Marks,
    MemoryOps,
    ProfileWarning,
    Ranges,
    SourceFormat,
)
from aggregator.profile.recorded import RecordedInstances, RecordedOps, RecordedProfile
from aggregator.sources.dlprof import events as names
from aggregator.sources.dlprof.events import Events, Threads
from aggregator.sources.dlprof.ops import OpRows, read_ops
from aggregator.sources.dlprof.system import (
    read_devices,
    read_model_config,
    read_origin,
    read_system,
)
from aggregator.sources.dlprof.tables import UNKNOWN, DlprofTables, open_tables
from aggregator.sources.formats import NEWEST_DLPROF, check_version
from aggregator.texts import say

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from aggregator.profile.arrays import Int32, Int64
    from aggregator.system.progress import Progress


def read(path: Path, progress: Progress) -> RecordedProfile:
    """Read the imported profile of a database; the file is not changed.

    Raises:
        DldbVersionError: Written by a version that cannot be read.
        NotADldbError: The database is damaged.
        NoGpuActivityError: It holds no GPU work and no CUDA calls.
    """
    with open_tables(path, progress) as tables:
        rows = tables.texts("db_version", ("current_version",))
        version = rows[0][0].strip() if rows else ""
        check_version(path, version, NEWEST_DLPROF)
        progress.phase("read", sum(tables.size(table) for table in names.TABLES))
        return _assemble(tables, version, progress)


def _assemble(tables: DlprofTables, version: str, progress: Progress) -> RecordedProfile:
    warnings: list[ProfileWarning] = []
    dictionary = tables.dictionary()
    pool = NameCodes(dictionary)
    progress.message("Reading Ops from DLProf database")
    ops = read_ops(tables, dictionary, warnings)
    progress.message("Reading CUDA API calls from DLProf database")
    events = Events(tables, ops, pool, warnings)
    if not len(events):
        raise NoGpuActivityError(
            say("The database '{path}' holds no CUDA activity.", path=str(tables.path)),
            hint=say("Profile with CUDA tracing on and check that the application used a GPU."),
        )
    threads = Threads({**events.raw, "instances": ops.instances})
    events.collect_calls(threads.of)
    progress.message("Reading System Information from DLProf database")
    kinds = (names.KERNELS, names.COPIES, names.SETS, names.SYNCS)
    devices = read_devices(tables, [events.raw[kind]["device_id"] for kind in kinds])
    work = {kind: events.work_columns(kind, devices, threads.process_of(kind)) for kind in kinds}
    config = read_model_config(tables)
    recorded = read_origin(tables, version, [op.op_id for op in ops.ops])
    kernels = _kernels(tables, events.raw[names.KERNELS], pool, work[names.KERNELS])
    return RecordedProfile(
        source_name=tables.path.name,
        source_format=SourceFormat.DLPROF,
        end_ns=_end_ns(events, ops),
        strings=pool.values(),
        # The database has no ranges; the settings of the model come from a range in other sources.
        range_names=(json.dumps({"model_config": config}),) if config else (),
        shape_texts=(),
        domain_names=(DEFAULT_DOMAIN,),
        threads=threads.ids,
        thread_process=threads.process,
        process_ids=threads.process_ids,
        devices=devices,
        ranges=Ranges(),
        start_end_ranges=Ranges(),
        marks=Marks(),
        api_calls=events.calls,
        kernels=kernels,
        copies=_memory_ops(events.raw[names.COPIES], work[names.COPIES]),
        sets=_memory_ops(events.raw[names.SETS], work[names.SETS]),
        syncs=DeviceWork(**work[names.SYNCS]),
        system=read_system(tables),
        warnings=warnings,
        recorded=_recorded(recorded, tables, ops, events, threads),
    )


def _end_ns(events: Events, ops: OpRows) -> int:
    ends = [ops.instances["cpu_stop"]]
    for table in events.raw.values():
        ends += [table[name] for name in ("api_stop", "gpu_stop") if name in table]
    return max(int(column.max(initial=0)) for column in ends)


def _recorded(
    origin: RecordedOps, tables: DlprofTables, ops: OpRows, events: Events, threads: Threads
) -> RecordedOps:
    raw = ops.instances
    has_uses_tc = "uses_tc" in tables.columns(names.KERNELS)
    return replace(
        origin,
        ops=tuple(ops.ops),
        instances=RecordedInstances(
            op=raw["op"].astype(np.int32),
            start_ns=raw["cpu_start"],
            end_ns=raw["cpu_stop"],
            thread=threads.of["instances"],
            shapes=ops.shape_of,
        ),
        shapes=tuple(ops.shapes),
        kernels=events.owners(names.KERNELS),
        copies=events.owners(names.COPIES),
        sets=events.owners(names.SETS),
        calls=events.call_owners,
        uses_tc=events.raw[names.KERNELS]["uses_tc"] == 1 if has_uses_tc else None,
    )


def _kernels(
    tables: DlprofTables, raw: dict[str, Int64], pool: NameCodes, work: dict[str, Any]
) -> Kernels:
    sizes = tables.ints("read_only_grid_block", ("id", "x", "y", "z"))
    short = pool.codes_of_ids(raw["name_id"])
    long_ids = np.where(raw["long_name_id"] == UNKNOWN, raw["name_id"], raw["long_name_id"])
    return Kernels(
        **work,
        name=short,
        long_name=pool.codes_of_ids(long_ids),
        grid=_dimensions(sizes, raw["grid_id"]),
        block=_dimensions(sizes, raw["block_id"]),
    )


def _dimensions(sizes: dict[str, Int64], ids: Int64) -> Int32:
    """Shape (n, 3): size in x, y, z of each id; ``UNKNOWN`` if the database does not have it."""
    rows = rows_of(sizes["id"], ids)
    columns = [np.append(sizes[name], UNKNOWN)[rows] for name in ("x", "y", "z")]
    return np.stack(columns, axis=1).astype(np.int32)


def _memory_ops(raw: dict[str, Int64], work: dict[str, Any]) -> MemoryOps:
    kind = raw.get("copy_kind", np.full(len(raw["op"]), UNKNOWN, dtype=np.int64))
    return MemoryOps(
        **work,
        num_bytes=raw["num_bytes"],
        copy_kind=kind,
        host_kind=np.full(len(kind), -1, dtype=np.int64),
    )
