"""GPU work and CUDA calls in a DLProf database, as the columns of a profile.

DLProf stores every call with what it did: a launch with its kernel, a copy's call with the copy.
Here calls are one table, and the work refers to them.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from aggregator.given import Owners
from aggregator.profile import ApiCalls, Device, Int32, Int64, ProfileWarning
from aggregator.sources.dlprof_ops import OpRows
from aggregator.sources.dlprof_tables import UNKNOWN, DlprofTables, StringPool, row_codes, rows_of
from aggregator.sources.repair import repair_devices, repair_reversed, repair_times
from aggregator.texts import say

Raw: TypeAlias = "dict[str, Int64]"

KERNELS, COPIES, SETS = "read_only_kernels", "read_only_memcpys", "read_only_memsets"
SYNCS, CALLS = "read_only_cuda_syncs", "read_only_cuda_calls"
LAUNCH = "kernel launch"
"""Name of calls that launched a kernel: DLProf does not store which function it was."""

_CALL = ("read_only_ops_id", "op_instance", "process_id", "thread_id", "api_start", "api_stop")
_WORK = (*_CALL, "gpu_start", "gpu_stop", "device_id")
TABLES = {
    # The names of calls come first: where a launch is listed as a call as well, its name is known.
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
        self, tables: DlprofTables, ops: OpRows, pool: StringPool, warnings: list[ProfileWarning]
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
        text = say("events belong to ops that the database lacks.")
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
        places = [(self.raw[name], "api_start", "api_stop") for name in self.raw]
        places += [(self.raw[name], "gpu_start", "gpu_stop") for name in WORK]
        places.append((ops.instances, "cpu_start", "cpu_stop"))
        columns = [{"start": table[start], "end": table[stop]} for table, start, stop in places]
        repair_times(columns, self._warnings)
        repair_reversed(columns, self._warnings)
        for (table, start, stop), repaired in zip(places, columns, strict=True):
            table[start], table[stop] = repaired["start"], repaired["end"]
        repair_devices([self.raw[name] for name in WORK], self._warnings, "device_id")

    def collect_calls(self, thread_of: dict[str, Int32]) -> None:
        """Make one table of all calls; ``call_of`` refers to it from each kind of event."""
        parts = {
            "start": [table["api_start"] for table in self.raw.values()],
            "stop": [table["api_stop"] for table in self.raw.values()],
            "op": [table["op"] for table in self.raw.values()],
            "number": [table["op_instance"] for table in self.raw.values()],
            "thread": [thread_of[name].astype(np.int64) for name in self.raw],
            "name": [self._call_names(name).astype(np.int64) for name in self.raw],
        }
        columns = {name: np.concatenate(part) for name, part in parts.items()}
        # DLProf leaves 0 where it saw no call.
        recorded = columns["stop"] > 0
        key = row_codes({name: columns[name] for name in ("thread", "start", "stop")})
        key[~recorded] = -1
        distinct, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        has_none = int(len(distinct) > 0 and distinct[0] == -1)
        rows = first[has_none:]
        call = (inverse.ravel() - has_none).astype(np.int32)
        bounds = np.cumsum([0, *(len(table["op"]) for table in self.raw.values())])
        for position, name in enumerate(self.raw):
            self.call_of[name] = call[bounds[position] : bounds[position + 1]]
        self.calls = ApiCalls(
            start_ns=columns["start"][rows],
            end_ns=columns["stop"][rows],
            thread=columns["thread"][rows].astype(np.int32),
            correlation_id=np.full(len(rows), UNKNOWN, dtype=np.int64),
            name=columns["name"][rows].astype(np.int32),
        )
        self.call_owners = Owners(
            columns["op"][rows].astype(np.int32),
            columns["number"][rows],
            np.arange(len(rows), dtype=np.int32),
        )

    def _call_names(self, name: str) -> Int32:
        table = self.raw[name]
        if name == KERNELS:
            return np.full(len(table["op"]), self._pool.code(LAUNCH), dtype=np.int32)
        return self._pool.codes(table["name_id"])

    def owners(self, name: str) -> Owners:
        """Owner and call of each event of a kind."""
        table = self.raw[name]
        return Owners(table["op"].astype(np.int32), table["op_instance"], self.call_of[name])

    def work_columns(
        self, name: str, devices: tuple[Device, ...], process: Int32
    ) -> dict[str, Any]:
        """Columns that all device work shares."""
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


class Threads:
    """Threads and processes of all events."""

    def __init__(self, tables: dict[str, Raw]) -> None:
        pid = np.concatenate([table["process_id"] for table in tables.values()])
        tid = np.concatenate([table["thread_id"] for table in tables.values()])
        code = row_codes({"pid": pid, "tid": tid})
        _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
        bounds = np.cumsum([0, *(len(table["process_id"]) for table in tables.values())])
        self.of = {
            name: inverse.ravel()[bounds[i] : bounds[i + 1]].astype(np.int32)
            for i, name in enumerate(tables)
        }
        processes, process = np.unique(pid[first], return_inverse=True)
        self.process_ids = tuple(max(int(number), 0) for number in processes)
        self.process = process.ravel().astype(np.int32)
        self.ids = (np.maximum(pid[first], 0) << 24) | (np.maximum(tid[first], 0) & 0xFFFFFF)

    def process_of(self, name: str) -> Int32:
        """Process of each event of a kind."""
        result: Int32 = self.process[self.of[name]]
        return result
