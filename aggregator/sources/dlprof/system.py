"""Hardware, versions, settings and rollups in a DLProf database."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from aggregator.options import Mode
from aggregator.profile.profile import Device, SystemInfo
from aggregator.profile.recorded import RecordedAggregation, RecordedOps
from aggregator.sources.dlprof.tables import UNKNOWN, DlprofTables, as_plain_text
from aggregator.sources.repair import IMPOSSIBLE_NS

if TYPE_CHECKING:
    from aggregator.profile.arrays import Int64

_SYSTEM = "read_only_system_config"
_SETTINGS = (
    *("num_workers", "pin_memory", "cudnn_benchmark_disabled", "detect_anomaly", "gradcheck"),
    *("gradgradcheck", "autograd_profile", "autograd_set_detect_anomaly", "emit_nvtx"),
    "amp_enabled",
)
PLACEHOLDER_OP = "SIMPLE_MODE_GLOBAL_NODE_OP_TYPE_1"
"""Op ID of the one op of simple mode."""


def read_system(tables: DlprofTables) -> SystemInfo:
    """Return the versions and hardware; empty where not recorded."""
    names = (
        *("cpu_model", "driver_version", "framework", "cuda_version", "cudnn_version"),
        *("nsys_version", "num_gpus"),
    )
    rows = tables.texts(_SYSTEM, names)
    return SystemInfo(*rows[0]) if rows else SystemInfo()


def read_origin(tables: DlprofTables, version: str, op_ids: list[str]) -> RecordedOps:
    """Return the metadata of the database; the caller adds the ops."""
    names = ("mode_string", "profile_name", "original_command", "framework")
    rows = tables.texts(_SYSTEM, names)
    mode, profile_name, command, framework = rows[0] if rows else ("", "", "", "")
    return RecordedOps(
        version=version,
        mode=_mode(mode, framework, op_ids),
        profile_name=profile_name,
        original_command=command,
        aggregations=read_aggregations(tables),
    )


def _mode(mode: str, framework: str, op_ids: list[str]) -> str:
    if mode in set(Mode) - {Mode.AUTO}:
        return mode
    if PLACEHOLDER_OP in op_ids:
        return Mode.SIMPLE
    is_tensorflow = framework.lower().startswith("tensorflow")
    return Mode.TENSORFLOW2 if is_tensorflow else Mode.PYTORCH


def read_model_config(tables: DlprofTables) -> dict[str, int]:
    """Return the settings of the training script that were recorded."""
    columns = tables.ints("read_only_model_config", _SETTINGS)
    return {
        name: int(column[0])
        for name, column in columns.items()
        if len(column) and column[0] != UNKNOWN
    }


def read_devices(tables: DlprofTables, used: list[Int64]) -> tuple[Device, ...]:
    """Return the visible GPUs, and GPUs that ran work without being described in the database."""
    columns = tables.ints(
        "read_only_gpu_infos",
        ("device_id", "compute_capability_major", "compute_capability_minor", "sm_count"),
    )
    names = tables.texts("read_only_gpu_infos", ("gpu_name",))
    memory = tables.ints("gpu_memories", ("total", "used"))
    total, used_bytes = memory["total"].tolist(), memory["used"].tolist()
    found: dict[int, Device] = {}
    for row, device_id in enumerate(columns["device_id"].tolist()):
        major, minor, sm_count = (int(columns[name][row]) for name in list(columns)[1:])
        found[device_id] = Device(
            device_id=device_id,
            name=names[row][0],
            compute_capability=(major, max(minor, 0)) if major > 0 else None,
            sm_count=sm_count if sm_count > 0 else None,
            # 0: not measured.
            memory_bytes=total[row] if row < len(total) and total[row] > 0 else None,
            memory_used_bytes=_use(total, used_bytes, row),
            memory_source="dlprof" if _use(total, used_bytes, row) is not None else "",
        )
    ran_work = np.unique(np.concatenate(used)).tolist() if used else []
    ids = sorted(set(found) | {int(device_id) for device_id in ran_work})
    return tuple(found.get(device_id, Device(device_id)) for device_id in ids)


def _use(total: list[int], used: list[int], row: int) -> int | None:
    known = row < min(len(total), len(used)) and total[row] > 0 and used[row] > 0
    return used[row] if known else None


def read_aggregations(tables: DlprofTables) -> tuple[RecordedAggregation, ...]:
    """Return the rollups of the source, from its public views; empty if they cannot be read."""
    bounds_and_name = f"{_integers('aggr_id', 'iter_start', 'iter_stop')}, key_node_name"
    rows = tables.view("view_aggregations", bounds_and_name)
    times = _integers("aggr_id", "iter_value", "start_time", "stop_time")
    iterations = tables.view("view_iterations_all", times)
    bounds: dict[int, list[tuple[int, int]]] = {}
    for aggr, _, start, stop in sorted(iterations, key=lambda row: row[1]):
        bounds.setdefault(aggr, []).append((start, stop))
    found = sorted((aggr, first, last, as_plain_text(node)) for aggr, first, last, node in rows)
    return tuple(
        _aggregation(key_node, first, last, bounds[aggr])
        for aggr, first, last, key_node in found
        if aggr in bounds and _is_valid(bounds[aggr])
    )


def _integers(*columns: str) -> str:
    return ", ".join(f'CAST(coalesce("{column}", 0) AS INTEGER)' for column in columns)


def _is_valid(bounds: list[tuple[int, int]]) -> bool:
    """Return whether iterations are in order and within the session."""
    times = [*(start for start, _ in bounds), bounds[-1][1]]
    return times[0] >= 0 and times[-1] < IMPOSSIBLE_NS and all(a < b for a, b in pairwise(times))


def _aggregation(
    key_node: str, first: int, last: int, bounds: list[tuple[int, int]]
) -> RecordedAggregation:
    final = len(bounds) - 1
    inside = 0 <= first <= last <= final
    return RecordedAggregation(
        key_node=key_node,
        iter_start=first if inside else 0,
        iter_stop=last if inside else final,
        stops_ns=tuple(start for start, _ in bounds[1:]),
        last_ns=bounds[-1][1],
    )
