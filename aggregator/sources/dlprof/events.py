"""GPU work and CUDA calls in a DLProf database, as the columns of a profile.

DLProf stores each call together with its work: a launch with its kernel, a copy's call with the
copy. In a profile, calls are a separate table that the work refers to.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from aggregator.profile.arrays import Int32, Int64, NameCodes, dense_codes, row_codes, rows_of
from aggregator.profile.profile import ApiCalls, Device, ProfileWarning
from aggregator.profile.recorded import Owners
from aggregator.sources.dlprof.ops import OpRows
from aggregator.sources.dlprof.tables import UNKNOWN, DlprofTables
from aggregator.sources.repair import repair_devices, repair_reversed, repair_times
from aggregator.texts import say

Raw: TypeAlias = "dict[str, Int64]"

KERNELS, COPIES, SETS = "read_only_kernels", "read_only_memcpys", "read_only_memsets"
SYNCS, CALLS = "read_only_cuda_syncs", "read_only_cuda_calls"
LAUNCH = "kernel launch"
"""Name of calls that launched a kernel: DLProf does not store the function."""

_CALL = ("read_only_ops_id", "op_instance", "process_id", "thread_id", "api_start", "api_stop")
_WORK = (*_CALL, "gpu_start", "gpu_stop", "device_id")
TABLES = {
    # First, because a launch that is also listed as a call gets its name from here.
    CALLS: (*_CALL, "name_id"),
    COPIES: (*_WORK, "name_id", "num_bytes", "copy_kind"),
    SETS: (*_WORK, "name_id", "num_bytes"),
    SYNCS: (*_WORK, "name_id"),
    KERNELS: (*_WORK, "name_id", "long_name_id", "uses_tc", "grid_id", "block_id"),
}

WORK = (COPIES, SETS, SYNCS, KERNELS)


class Events:
    """Events of the default domain's ops."""

    def __init__(
        self, tables: DlprofTables, ops: OpRows, pool: NameCodes, warnings: list[ProfileWarning]
    ) -> None:
        self._pool = pool
        self._warnings = warnings
        self.raw = {name: tables.ints(name, columns) for name, columns in TABLES.items()}
        for name, table in self.raw.items():
            table["op"] = ops.rows(table["read_only_ops_id"]).astype(np.int64)
            kept = np.flatnonzero(table["op"] != UNKNOWN)
            self.raw[name] = {column: values[kept] for column, values in table.items()}
        self._repair(ops)
        lost = sum(
            int(np.count_nonzero(rows_of(ops.ids, t["read_only_ops_id"]) < 0))
            for t in self.raw.values()
        )
        text = say("events belong to ops that the database does not have.")
        self._warn("EVENTS_WITHOUT_OP", text, lost)
        self.calls = ApiCalls()
        self.call_of: dict[str, Int32] = {}
        self.call_owners = Owners()

    def __len__(self) -> int:
        return sum(len(table["op"]) for table in self.raw.values())

    def _warn(self, code: str, text: str, count: int) -> None:
        if count:
            self._warnings.append(ProfileWarning(code, text, count))

    def _repair(self, ops: OpRows) -> None:
        spans = [(self.raw[name], "api_start", "api_stop") for name in self.raw]
        spans += [(self.raw[name], "gpu_start", "gpu_stop") for name in WORK]
        spans.append((ops.instances, "cpu_start", "cpu_stop"))
        columns = [{"start": table[start], "end": table[stop]} for table, start, stop in spans]
        repair_times(columns, self._warnings)
        repair_reversed(columns, self._warnings)
        for (table, start, stop), repaired in zip(spans, columns, strict=True):
            table[start], table[stop] = repaired["start"], repaired["end"]
        repair_devices([self.raw[name] for name in WORK], self._warnings, "device_id")

    def collect_calls(self, thread_of: dict[str, Int32]) -> None:
        """Make one table of all calls; ``call_of`` refers to it from each kind of event."""
        start, stop, op, number = _stacked(self.raw, "api_start", "api_stop", "op", "op_instance")
        thread = np.concatenate([thread_of[name] for name in self.raw])
        call_name = np.concatenate([self._call_names(name) for name in self.raw])
        # DLProf leaves 0 where it saw no call.
        recorded = np.flatnonzero(stop > 0)
        first, code = row_codes(thread[recorded], start[recorded], stop[recorded])
        rows = recorded[first]
        call = np.full(len(stop), UNKNOWN, dtype=np.int32)
        call[recorded] = code
        self.call_of = _by_table(self.raw, call)
        unknown = np.full(len(rows), UNKNOWN, dtype=np.int64)
        self.calls = ApiCalls(start[rows], stop[rows], thread[rows], unknown, call_name[rows])
        own_rows = np.arange(len(rows), dtype=np.int32)
        self.call_owners = Owners(op[rows].astype(np.int32), number[rows], own_rows)

    def _call_names(self, name: str) -> Int32:
        table = self.raw[name]
        if name == KERNELS:
            return np.full(len(table["op"]), self._pool.code(LAUNCH), dtype=np.int32)
        return self._pool.codes_of_ids(table["name_id"])

    def owners(self, name: str) -> Owners:
        """Return the owner and call of each event of a kind."""
        table = self.raw[name]
        return Owners(table["op"].astype(np.int32), table["op_instance"], self.call_of[name])

    def work_columns(
        self, name: str, devices: tuple[Device, ...], process: Int32
    ) -> dict[str, Any]:
        """Return the columns that all device work shares."""
        table = self.raw[name]
        ids = np.array([device.device_id for device in devices], dtype=np.int64)
        count = len(table["op"])
        return {
            "start_ns": table["gpu_start"],
            "end_ns": table["gpu_stop"],
            "device": rows_of(ids, table["device_id"]),
            "stream_id": np.full(count, UNKNOWN, dtype=np.int64),
            "process": process,
            "correlation_id": np.full(count, UNKNOWN, dtype=np.int64),
        }


def _stacked(tables: dict[str, Raw], *columns: str) -> list[Int64]:
    """Return some columns of all tables, one table after the other."""
    return [np.concatenate([table[name] for table in tables.values()]) for name in columns]


def _by_table(tables: dict[str, Raw], stacked: Int32) -> dict[str, Int32]:
    bounds = np.cumsum([len(table["process_id"]) for table in tables.values()])[:-1]
    return dict(zip(tables, np.split(stacked, bounds), strict=True))


class Threads:
    """Threads and processes of all events."""

    def __init__(self, tables: dict[str, Raw]) -> None:
        pid, tid = _stacked(tables, "process_id", "thread_id")
        first, code = row_codes(pid, tid)
        self.of = _by_table(tables, code)
        processes, self.process = dense_codes(pid[first])
        self.process_ids = tuple(max(number, 0) for number in processes.tolist())
        self.ids = (np.maximum(pid[first], 0) << 24) | (np.maximum(tid[first], 0) & 0xFFFFFF)

    def process_of(self, name: str) -> Int32:
        """Return the process of each event of a kind."""
        result: Int32 = self.process[self.of[name]]
        return result
