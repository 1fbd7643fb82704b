"""Make test data of an nsys export: only what is read of it, without what tells of its machine.

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

KEPT_TABLES = re.compile(
    r"StringIds|TARGET_INFO_.*|CUPTI_.*|NVTX_EVENTS|ThreadNames|ENUM_.*|META_DATA_EXPORT|CUDA_.*"
    r"|DLPROF_.*"
)
STRING_COLUMNS = ("nameId", "textId", "shortName", "demangledName", "mangledName")
KEPT_SYSTEM = ("CpuDescription", "NvDriverVersion", "CudaDriverVersion", "DeviceEnvironment")
KEPT_META = ("EXPORT_SCHEMA_VERSION%", "EXPORT_PRODUCT_VERSION%", "EXPORT_SCHEMA%")


def shrink(export: Path, target: Path) -> int:
    """Write the compressed remains; returns their size in bytes."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / export.name
        shutil.copyfile(export, copy)
        with closing(sqlite3.connect(copy)) as connection:
            _drop(connection)
            connection.commit()
            connection.execute("VACUUM")
        target.write_bytes(lzma.compress(copy.read_bytes(), preset=9 | lzma.PRESET_EXTREME))
    return target.stat().st_size


def _drop(connection: sqlite3.Connection) -> None:
    query = "SELECT name FROM sqlite_master WHERE type = 'table'"
    tables = [str(row[0]) for row in connection.execute(query)]
    for table in tables:
        if not KEPT_TABLES.fullmatch(table):
            connection.execute(f'DROP TABLE "{table}"')
    # Of the environment only what tells which GPUs the run could see.
    environment = "SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'DeviceEnvironment'"
    for (value,) in connection.execute(environment).fetchall():
        shown = re.search(r"CUDA_VISIBLE_DEVICES=[0-9,]+", value or "")
        connection.execute(
            "UPDATE TARGET_INFO_SYSTEM_ENV SET value = ? WHERE name = 'DeviceEnvironment'",
            (shown[0] if shown else "",),
        )
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
    _drop_strings(connection, [table for table in tables if KEPT_TABLES.fullmatch(table)])


def _drop_strings(connection: sqlite3.Connection, tables: list[str]) -> None:
    connection.execute("CREATE TEMP TABLE used (id INTEGER PRIMARY KEY)")
    for table in tables:
        if table == "StringIds" or table.startswith("ENUM_"):
            continue
        for column in connection.execute(f'PRAGMA table_info("{table}")').fetchall():
            # Other ids are numbers of their own: taken for strings they would keep any of them.
            if column[1] in STRING_COLUMNS:
                query = f'SELECT "{column[1]}" FROM "{table}" WHERE "{column[1]}" IS NOT NULL'  # noqa: S608
                connection.execute(f"INSERT OR IGNORE INTO used {query}")
    connection.execute("DELETE FROM StringIds WHERE id NOT IN (SELECT id FROM used)")


def main() -> None:
    folder, *exports = (Path(argument) for argument in sys.argv[1:])
    for export in exports:
        size = shrink(export, folder / f"{export.name}.xz")
        print(f"{export.stem}: {size:,} bytes")


if __name__ == "__main__":
    main()
