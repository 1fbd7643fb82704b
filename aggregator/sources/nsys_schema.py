"""The only place that knows the table and column names of Nsight Systems exports."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from aggregator.sources.sqlite_files import READ_ERRORS, corrupt
from aggregator.sqlite_uri import read_only_uri

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

API_CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES = "CUPTI_ACTIVITY_KIND_MEMCPY"
SETS = "CUPTI_ACTIVITY_KIND_MEMSET"
SYNCS = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
NVTX = "NVTX_EVENTS"
STRINGS = "StringIds"
GPUS = "TARGET_INFO_GPU"
OLD_GPUS = "TARGET_INFO_CUDA_GPU"
CUDA_DEVICES = "TARGET_INFO_CUDA_DEVICE"
SYSTEM_ENV = "TARGET_INFO_SYSTEM_ENV"
SESSION_START = "TARGET_INFO_SESSION_START_TIME"
EXPORT_META = "META_DATA_EXPORT"
OLD_EXPORT_META = "EXPORT_META_DATA"
DLPROF_SYSTEM = "SystemInfo"
"""Added to the export, in place, by NVIDIA's DLProf."""
GPU_SAMPLES = "DLPROF_GPU_SAMPLES"
"""Added to the export of its own capture by dlprof: what NVML told during the run."""
CAPTURE_NOTES = "DLPROF_CAPTURE_NOTES"
"""Added by dlprof as well: why there are no samples, say."""

EVENT_MARK = 34
EVENT_RANGE = 59
EVENT_START_END_RANGE = 60
EVENT_DOMAIN = 75

_VERSIONED = re.compile(r"^(?P<name>.+?)(?:_V(?P<version>\d+))?$")


class Schema:
    """Tables and columns that one export really has.

    Exports name the same table ``X``, ``X_V2`` or ``X_V3``; the highest version present is used.
    """

    def __init__(self, path: Path, tables: frozenset[str]) -> None:
        self.path = path
        self._tables = newest_versions(tables)
        self._columns: dict[str, frozenset[str]] = {}

    def has(self, table: str) -> bool:
        """Whether the export holds the table, in any version."""
        return table in self._tables

    def table(self, table: str) -> str:
        """Quoted name of the table as it stands in this export."""
        return f'"{self._tables[table]}"'

    def columns(self, table: str) -> frozenset[str]:
        """Column names of a table; empty if the export lacks it."""
        if not self.has(table):
            return frozenset()
        if table not in self._columns:
            self._columns[table] = self._read_columns(table)
        return self._columns[table]

    def column(self, table: str, name: str, default: str) -> str:
        """SQL for a column that may be missing or NULL: the default stands in."""
        return f'coalesce("{name}", {default})' if name in self.columns(table) else default

    def _read_columns(self, table: str) -> frozenset[str]:
        try:
            with closing(sqlite3.connect(read_only_uri(self.path), uri=True)) as connection:
                rows = connection.execute(f"PRAGMA table_info({self.table(table)})")
                return frozenset(str(row[1]) for row in rows)
        except READ_ERRORS as error:
            raise corrupt(self.path, error) from error


def newest_versions(tables: frozenset[str]) -> Mapping[str, str]:
    """Plain table name -> name of its newest version in the export."""
    found: dict[str, tuple[int, str]] = {}
    for table in tables:
        match = _VERSIONED.match(table)
        if match is None:
            continue
        version = int(match["version"] or 1)
        name = match["name"]
        if name not in found or version > found[name][0]:
            found[name] = (version, table)
    return {name: table for name, (_, table) in found.items()}
