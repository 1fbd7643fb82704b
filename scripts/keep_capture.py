"""Make test data of a capture: keep what the engine reads, drop what tells of the machine.

    python scripts/keep_capture.py nsys_profile.sqlite tests/data/captures/name.sqlite.xz

An export holds the environment, the command lines and the names of all processes of the machine
that it was made on. Kept are events, the strings and thread names that they refer to, and GPUs,
whose UUIDs are replaced.
"""

# ruff: noqa: S608 - names of tables and columns, all from here
from __future__ import annotations

import lzma
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

KEPT = ("NVTX_EVENTS", "StringIds", "ThreadNames", "TARGET_INFO_GPU", "TARGET_INFO_CUDA_DEVICE")
KEPT_PREFIXES = ("CUPTI_ACTIVITY_KIND_", "DLPROF_")
KEPT_VALUES = {
    "TARGET_INFO_SYSTEM_ENV": ("CpuDescription", "NvDriverVersion", "CudaDriverVersion"),
    "META_DATA_EXPORT": ("EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION"),
}
STRING_COLUMNS = ("nameId", "textId", "shortName", "demangledName", "mangledName")
TID_COLUMNS = ("globalTid",)


def main() -> None:
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    content = source.read_bytes()
    if source.suffix == ".xz":
        content = lzma.decompress(content)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "capture.sqlite"
        path.write_bytes(content)
        with closing(sqlite3.connect(path)) as connection:
            reduce(connection)
            connection.execute("VACUUM")
        target.write_bytes(lzma.compress(path.read_bytes(), preset=9))


def reduce(connection: sqlite3.Connection) -> None:
    tables = [
        name
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    ]
    for table in tables:
        if table in KEPT_VALUES:
            names = ", ".join(f"'{name}'" for name in KEPT_VALUES[table])
            connection.execute(f'DELETE FROM "{table}" WHERE name NOT IN ({names})')
        elif table not in KEPT and not table.startswith(KEPT_PREFIXES):
            connection.execute(f'DROP TABLE "{table}"')
    kept = [table for table in tables if table in KEPT or table.startswith(KEPT_PREFIXES)]
    events = [table for table in kept if table not in {"StringIds", "ThreadNames"}]
    threads = _values(connection, events, TID_COLUMNS)
    if "ThreadNames" in kept:
        connection.execute(f"DELETE FROM ThreadNames WHERE globalTid NOT IN ({threads})")
    strings = _values(connection, [*events, "ThreadNames"], STRING_COLUMNS)
    connection.execute(f"DELETE FROM StringIds WHERE id NOT IN ({strings})")
    _replace_uuids(connection, kept)
    connection.commit()


def _values(connection: sqlite3.Connection, tables: list[str], columns: tuple[str, ...]) -> str:
    """A query for all values of some columns, wherever a table has them."""
    parts = ["SELECT NULL WHERE 0"]
    for table in tables:
        present = {row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')}
        parts += [
            f'SELECT "{column}" FROM "{table}" WHERE "{column}" IS NOT NULL'
            for column in columns
            if column in present
        ]
    return " UNION ".join(parts)


def _replace_uuids(connection: sqlite3.Connection, tables: list[str]) -> None:
    columns = {row[1] for row in connection.execute("PRAGMA table_info(TARGET_INFO_GPU)")}
    rows = connection.execute("SELECT id, uuid FROM TARGET_INFO_GPU").fetchall()
    for number, uuid in rows if "uuid" in columns else []:
        made_up = f"00000000-0000-0000-0000-{number:012d}"
        replace = "UPDATE {} SET {} = replace({}, ?, ?)"
        places = {"TARGET_INFO_GPU": "uuid", "DLPROF_GPU_SAMPLES": "uuid", "NVTX_EVENTS": "text"}
        for table, column in places.items():
            if table in tables:
                connection.execute(replace.format(table, column, column), (uuid, made_up))


if __name__ == "__main__":
    main()
