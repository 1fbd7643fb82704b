"""Which GPU of the host each piece of work of an Nsight Systems export ran on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from aggregator.columns import dense_codes, narrowest
from aggregator.profile import Device
from aggregator.sources.repair import RawTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aggregator.profile import Int32, Int64
    from aggregator.sources.nsys_system import DeviceMap

PID_SHIFT = 24
"""A global thread id is ``process part << 24 | thread id``; a global process id has thread id 0."""
PID_MASK = 0xFFFFFF


class DeviceRows:
    """Maps (process, CUDA ordinal) of device work to rows of the profile's devices."""

    def __init__(self, known: DeviceMap, work: Sequence[RawTable], process_keys: Int64) -> None:
        self._known = known
        self._process_keys = process_keys
        used = {
            self._device_id(pid, ordinal) for table in work for pid, ordinal in _pairs(table)[0]
        }
        ids = sorted(known.visible() | used)
        self.devices = tuple(known.devices.get(i, Device(i)) for i in ids)
        self._row = {device_id: row for row, device_id in enumerate(ids)}

    def _device_id(self, pid_key: int, ordinal: int) -> int:
        return self._known.gpu(pid_key & PID_MASK, ordinal)

    def work_columns(self, table: RawTable) -> dict[str, Any]:
        """Columns that all device work shares."""
        pids, pid_code = dense_codes(table["pid"])
        process = narrowest(np.searchsorted(self._process_keys, pids >> PID_SHIFT))
        pairs, pair_of = _pairs(table)
        rows = [self._row[self._device_id(pid, ordinal)] for pid, ordinal in pairs]
        return {
            "start_ns": table["start"],
            "end_ns": table["end"],
            "device": narrowest(np.array(rows, dtype=np.int32))[pair_of],
            "stream_id": table["stream"],
            "process": process[pid_code],
            "correlation_id": table["corr"],
        }


def _pairs(table: RawTable) -> tuple[list[tuple[int, int]], Int32]:
    """Distinct (process key, CUDA ordinal) of a table, and which of them each row has."""
    pids, pid_code = dense_codes(table["pid"])
    ordinal, ordinal_code = dense_codes(table["device"])
    width = max(len(ordinal), 1)
    pair, pair_of = dense_codes(pid_code.astype(np.int64) * width + ordinal_code)
    process = pids >> PID_SHIFT
    pairs = [(int(process[code // width]), int(ordinal[code % width])) for code in pair.tolist()]
    return pairs, pair_of
