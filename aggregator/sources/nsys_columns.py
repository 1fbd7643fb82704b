"""Columns of device work and names: renumbered from an export's ids to rows of the profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aggregator.columns import dense_codes, narrowest
from aggregator.profile import Kernels, MemoryOps

if TYPE_CHECKING:
    from aggregator.profile import Int32, Int64
    from aggregator.sources.nsys_devices import DeviceRows
    from aggregator.sources.repair import RawTable

DIMENSIONS = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
"""Columns of a launch's size: blocks of the grid, then threads of a block."""


class StringCodes:
    """Renumbers the export's string ids that are in use to dense codes."""

    def __init__(self, strings: dict[int, str]) -> None:
        self._strings = strings
        self._code_of: dict[str, int] = {}

    def codes(self, ids: Int64) -> Int32:
        """Codes of string ids; an id that leads nowhere becomes a name that says so."""
        unique, code = dense_codes(ids)
        names = [self._strings.get(i, f"unknown name {i}") for i in unique.tolist()]
        return np.array([self._code(name) for name in names], dtype=np.int32)[code]

    def _code(self, text: str) -> int:
        return self._code_of.setdefault(text, len(self._code_of))

    def values(self) -> tuple[str, ...]:
        """All strings in use, in the order of their codes."""
        return tuple(self._code_of)


def kernel_columns(table: RawTable, devices: DeviceRows, strings: StringCodes) -> Kernels:
    """Kernels of an export."""
    # One of the two names may be missing: the other stands for it.
    short_ids = np.where(table["short"] >= 0, table["short"], table["long"])
    long_ids = np.where(table["long"] >= 0, table["long"], table["short"])
    dims = [table[name].astype(np.int32) for name in DIMENSIONS]
    return Kernels(
        **devices.work_columns(table),
        name=strings.codes(short_ids),
        long_name=strings.codes(long_ids),
        grid=narrowest(np.stack(dims[:3], axis=1)),
        block=narrowest(np.stack(dims[3:], axis=1)),
    )


HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
"""CUDA's copy kinds with the host on one side."""


def memory_columns(table: RawTable, devices: DeviceRows) -> MemoryOps:
    """Copies or sets of an export."""
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
