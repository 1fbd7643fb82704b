"""The floor: what reading the needed columns once costs, on one ADBC connection."""

from __future__ import annotations

from pathlib import Path

from aggregator.sources.sqlite_files import arrow_connection, list_tables

COLUMNS = {
    "NVTX_EVENTS": '"start", "end", "eventType", "globalTid", "domainId", coalesce("text", \'\')',
    "CUPTI_ACTIVITY_KIND_RUNTIME": '"start", "end", "globalTid", "correlationId", "nameId"',
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        '"start", "end", "deviceId", "streamId", "correlationId", "globalPid", "demangledName",'
        ' "shortName", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"'
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        '"start", "end", "deviceId", "streamId", "correlationId", "globalPid", "bytes", "copyKind"'
    ),
    "CUPTI_ACTIVITY_KIND_MEMSET": (
        '"start", "end", "deviceId", "streamId", "correlationId", "globalPid", "bytes"'
    ),
}
"""Tables and the columns that an import cannot do without."""


def read_once(profile: Path) -> int:
    """Read the columns into Arrow batches and drop them; returns the number of rows."""
    tables = list_tables(profile)
    rows = 0
    with arrow_connection(profile) as connection:
        for table, columns in COLUMNS.items():
            if table in tables:
                query = f"SELECT {columns} FROM {table}"  # noqa: S608 (both are constants above)
                rows += sum(batch.num_rows for batch in connection.batches(query))
    return rows
