"""Make test data from an nsys export: only the data that is read, nothing about its machine.

Usage: python scripts/shrink_capture.py FOLDER export.sqlite ...
"""

from __future__ import annotations

import lzma
import re
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from aggregator.sources.nsys.scrub import scrub

KEPT_TABLES = re.compile(
    r"StringIds|TARGET_INFO_.*|CUPTI_.*|NVTX_EVENTS|ThreadNames|ENUM_.*|META_DATA_EXPORT|CUDA_.*"
    r"|DLPROF_.*|DIAGNOSTIC_EVENT"
)
KEPT_SYSTEM = ("CpuDescription", "NvDriverVersion", "CudaDriverVersion", "DeviceEnvironment")
KEPT_META = ("EXPORT_SCHEMA_VERSION%", "EXPORT_PRODUCT_VERSION%", "EXPORT_SCHEMA%")


def shrink(export: Path, target: Path) -> int:
    """Write the compressed, reduced export; return its size in bytes."""
    with tempfile.TemporaryDirectory() as folder:
        copy, clean = Path(folder) / export.name, Path(folder) / "clean.sqlite"
        shutil.copyfile(export, copy)
        with closing(sqlite3.connect(copy)) as connection:
            _drop(connection)
            connection.commit()
        scrub(copy, clean)
        target.write_bytes(lzma.compress(clean.read_bytes(), preset=9 | lzma.PRESET_EXTREME))
    return target.stat().st_size


def _drop(connection: sqlite3.Connection) -> None:
    query = "SELECT name FROM sqlite_master WHERE type = 'table'"
    tables = [str(row[0]) for row in connection.execute(query)]
    for table in tables:
        if not KEPT_TABLES.fullmatch(table):
            connection.execute(f'DROP TABLE "{table}"')
    marks = ", ".join("?" for _ in KEPT_SYSTEM)
    query = f"DELETE FROM TARGET_INFO_SYSTEM_ENV WHERE name NOT IN ({marks})"  # noqa: S608
    connection.execute(query, KEPT_SYSTEM)
    if "META_DATA_EXPORT" in tables:
        wanted = " OR ".join("name LIKE ?" for _ in KEPT_META)
        query = f"DELETE FROM META_DATA_EXPORT WHERE NOT ({wanted})"  # noqa: S608
        connection.execute(query, KEPT_META)
    if "ThreadNames" in tables:
        events = [t for t in ("NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME") if t in tables]
        threads = " UNION ".join(f"SELECT globalTid FROM {table}" for table in events)  # noqa: S608
        query = f"DELETE FROM ThreadNames WHERE globalTid NOT IN ({threads})"  # noqa: S608
        connection.execute(query)


def main() -> None:
    folder, *exports = (Path(argument) for argument in sys.argv[1:])
    for export in exports:
        size = shrink(export, folder / f"{export.name}.xz")
        print(f"{export.stem}: {size:,} bytes")


if __name__ == "__main__":
    main()
