"""The only place that knows the table and column names of Nsight Systems exports."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from aggregator.sources.formats import READ_ERRORS, corrupt, newest_versions
from aggregator.system.sqlite_uri import connect_read_only

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from pathlib import Path

API_CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES = "CUPTI_ACTIVITY_KIND_MEMCPY"
SETS = "CUPTI_ACTIVITY_KIND_MEMSET"
SYNCS = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
EVENTS = "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
STREAMS = "TARGET_INFO_CUDA_STREAM"
GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
OVERHEAD = "CUPTI_ACTIVITY_KIND_OVERHEAD"
"""What the profiler itself did."""
ACTIVITY_KIND = "CUPTI_ACTIVITY_KIND_"
GRAPH_NODES = "CUDA_GRAPH_NODE_EVENTS"
NVTX = "NVTX_EVENTS"
STRINGS = "StringIds"
THREAD_NAMES = "ThreadNames"
ALLOCATIONS = "CUDA_GPU_MEMORY_USAGE_EVENTS"
GPUS = "TARGET_INFO_GPU"
OLD_GPUS = "TARGET_INFO_CUDA_GPU"
CUDA_DEVICES = "TARGET_INFO_CUDA_DEVICE"
SYSTEM_ENV = "TARGET_INFO_SYSTEM_ENV"
SESSION_START = "TARGET_INFO_SESSION_START_TIME"
CAPTURE = "ANALYSIS_DETAILS"
DIAGNOSTICS = "DIAGNOSTIC_EVENT"
EXPORT_META = "META_DATA_EXPORT"
OLD_EXPORT_META = "EXPORT_META_DATA"
DLPROF_SYSTEM = "SystemInfo"
"""Added to the export, in place, by NVIDIA's DLProf."""
GPU_METRICS = "GPU_METRICS"
GPU_METRIC_NAMES = "TARGET_INFO_GPU_METRICS"
GPU_SAMPLES = "DLPROF_GPU_SAMPLES"
"""Added by dlprof to the export of its own capture: samples of NVML during the run."""
CAPTURE_NOTES = "DLPROF_CAPTURE_NOTES"
"""Also added by dlprof: for example the reason why there are no samples."""
STEP_TIMES = "DLPROF_STEP_TIMES"
"""Also added by dlprof: times of steps that the application measured itself."""
WINDOWS = "DLPROF_WINDOW"
"""Written by dlprof's own collector: when it recorded each process, and what ended each time."""
LOOPS = "DLPROF_LOOPS"
"""Added by dlprof: the loops of each process, their steps, and how many of them were recorded."""

PID_SHIFT = 24
"""A global thread id is ``process part << 24 | thread id``; a global process id has thread id 0."""
PID_MASK = 0xFFFFFF
EVENT_MARK = 34
EVENT_RANGE = 59
EVENT_START_END_RANGE = 60
EVENT_DOMAIN = 75


class Schema:
    """Tables and columns of one export.

    Exports name the same table ``X``, ``X_V2`` or ``X_V3``; the highest version present is used.
    """

    def __init__(self, path: Path, tables: frozenset[str]) -> None:
        self.path = path
        self._tables = newest_versions(tables)
        self._columns: dict[str, frozenset[str]] = {}

    def has(self, table: str) -> bool:
        """Return whether the export holds the table, in any version."""
        return table in self._tables

    def activity_tables(self) -> list[str]:
        """Return the tables of activity on GPUs, also of kinds that newer versions add."""
        found = (table for table in self._tables if table.startswith(ACTIVITY_KIND))
        return sorted(table for table in found if table.isidentifier())

    def table(self, table: str) -> str:
        """Return the quoted name of the table in this export."""
        return f'"{self._tables[table]}"'

    def columns(self, table: str) -> frozenset[str]:
        """Return the column names of a table; empty if the export lacks it."""
        if not self.has(table):
            return frozenset()
        if table not in self._columns:
            self._columns[table] = self._read_columns(table)
        return self._columns[table]

    def column(self, table: str, name: str, default: str) -> str:
        """Return the SQL for a column that may be missing or NULL, which gives the default."""
        return f'coalesce("{name}", {default})' if name in self.columns(table) else default

    def _read_columns(self, table: str) -> frozenset[str]:
        with self.connect() as connection:
            rows = connection.execute(f"PRAGMA table_info({self.table(table)})")
            return frozenset(str(row[1]) for row in rows)

    def text(self) -> str:
        """SQL for the text of an NVTX event, which may be stored as the id of a string."""
        if not self.has(STRINGS) or "textId" not in self.columns(NVTX):
            return self.column(NVTX, "text", "''")
        registered = f'(SELECT value FROM {self.table(STRINGS)} WHERE id = "textId")'
        return f"coalesce(\"text\", {registered}, '')"

    @contextmanager
    def connect(self) -> Iterator[sqlite3.Connection]:
        """Open the export for reading.

        Raises:
            CorruptProfileError: Reading failed because the file is damaged.
        """
        try:
            with closing(connect_read_only(self.path)) as connection:
                yield connection
        except READ_ERRORS as error:
            raise corrupt(self.path, error) from error
