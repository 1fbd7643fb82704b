"""Columns of device work and names, renumbered from an export's ids to rows of the profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from aggregator.profile.arrays import concatenate_and_clear, dense_codes, narrowest, total_order
from aggregator.profile.profile import Kernels, MemoryOps
from aggregator.sources.nsys.schema import PID_MASK, PID_SHIFT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aggregator.profile.arrays import Int32, Int64, Integers, NameCodes
    from aggregator.sources.nsys.system import DeviceMap
    from aggregator.sources.repair import RawTable


def joined_parts(parts: list[dict[str, list[Integers]]]) -> RawTable:
    """The columns of all parts of a table, which are emptied, in an order of their content only."""
    table = {
        name: concatenate_and_clear([array for part in parts for array in part.pop(name)])
        for name in [*parts[0]]
    }
    order = total_order(*table.values())
    return table if order is None else {name: column[order] for name, column in table.items()}


class DeviceRows:
    """Maps (process, CUDA ordinal) of device work to rows of the profile's devices."""

    def __init__(self, known: DeviceMap, work: Sequence[RawTable], process_keys: Int64) -> None:
        self._known = known
        self._process_keys = process_keys
        used = {(pid & PID_MASK, value) for table in work for pid, value in _pairs(table)[0]}
        numbered = sorted(known.numbered(used).items(), key=lambda pair: pair[1].device_id)
        self.devices = tuple(device for _, device in numbered)
        self._row = {gpu: row for row, (gpu, _) in enumerate(numbered)}

    def work_columns(self, table: RawTable) -> dict[str, Any]:
        """Return the columns that all device work shares."""
        pids, pid_code = dense_codes(table["pid"])
        process = narrowest(np.searchsorted(self._process_keys, pids >> PID_SHIFT))
        pairs, pair_of = _pairs(table)
        rows = [self._row[self._known.gpu(pid & PID_MASK, ordinal)] for pid, ordinal in pairs]
        return {
            "start_ns": table["start"],
            "end_ns": table["end"],
            "device": narrowest(np.array(rows, dtype=np.int32))[pair_of],
            "stream_id": table["stream"],
            "process": process[pid_code],
            "correlation_id": table["corr"],
        }


def _pairs(table: RawTable) -> tuple[list[tuple[int, int]], Int32]:
    """Distinct (process key, CUDA ordinal) pairs of a table, and the pair of each row."""
    pids, pid_code = dense_codes(table["pid"])
    ordinal, ordinal_code = dense_codes(table["device"])
    width = max(len(ordinal), 1)
    pair, pair_of = dense_codes(pid_code.astype(np.int64) * width + ordinal_code)
    process = pids >> PID_SHIFT
    pairs = [(int(process[code // width]), int(ordinal[code % width])) for code in pair.tolist()]
    return pairs, pair_of


DIMENSIONS = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
"""Columns of a launch's size: blocks of the grid, then threads of a block."""


def kernel_columns(table: RawTable, devices: DeviceRows, names: NameCodes) -> Kernels:
    """Return the kernels of an export."""
    # If one of the two names is missing, the other is used for both.
    short_ids = np.where(table["short"] >= 0, table["short"], table["long"])
    long_ids = np.where(table["long"] >= 0, table["long"], table["short"])
    dims = [table[name].astype(np.int32) for name in DIMENSIONS]
    return Kernels(
        **devices.work_columns(table),
        name=names.codes_of_ids(short_ids),
        long_name=names.codes_of_ids(long_ids),
        grid=narrowest(np.stack(dims[:3], axis=1)),
        block=narrowest(np.stack(dims[3:], axis=1)),
    )


HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
"""CUDA's copy kinds with the host on one side."""


def memory_columns(table: RawTable, devices: DeviceRows) -> MemoryOps:
    """Return the copies or sets of an export."""
    nothing = np.full(len(table["start"]), -1, dtype=np.int64)
    kind = table.get("kind", nothing)
    host_kind = np.where(kind == HOST_TO_DEVICE, table.get("source", nothing), nothing)
    host_kind = np.where(kind == DEVICE_TO_HOST, table.get("target", nothing), host_kind)
    return MemoryOps(
        **devices.work_columns(table),
        num_bytes=table["bytes"],
        copy_kind=kind,
        host_kind=host_kind,
    )
