"""The format of a profile file: from its first bytes, its name and its tables.

All other code asks here, so this module loads none of the libraries that read profiles.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from aggregator.errors import (
    CorruptProfileError,
    DldbVersionError,
    NoGpuActivityError,
    ProfileError,
    UnsupportedProfileError,
)
from aggregator.system.sqlite_uri import connect_read_only, plain_tables, read_only_uri
from aggregator.texts import say

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

READ_ERRORS: Final = (sqlite3.DatabaseError, UnicodeDecodeError)
"""Errors of reading a damaged SQLite file: SQLite's own messages may quote bytes of it."""
REPORT_SUFFIXES: Final = (".nsys-rep", ".qdrep")
XPLANE_SUFFIX: Final = ".xplane.pb"
PERFETTO_SUFFIXES: Final = (".pftrace", ".perfetto-trace")
PROFILE_SUFFIXES: Final = (".sqlite", *REPORT_SUFFIXES, ".json", ".json.gz", XPLANE_SUFFIX)
SQLITE_MAGIC: Final = b"SQLite format 3\x00"
GZIP_MAGIC: Final = b"\x1f\x8b"
OLDEST_DLPROF: Final = "1.2"
"""NVIDIA's own rule: databases of DLProf 1.0 and 1.1 are not read."""
NEWEST_DLPROF: Final = "1.8"
"""NVIDIA's last release."""
_HEAD_BYTES: Final = 64
_BUSY_CODES: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_VERSIONED: Final = re.compile(r"^(?P<name>.+?)(?:_V(?P<version>\d+))?$")


class Format(StrEnum):
    """Format of a profile file."""

    REPORT = "report"
    """Nsight Systems report."""
    TRACE = "trace"
    """Chrome trace of torch.profiler, plain or gzip."""
    SQLITE = "sqlite"
    """SQLite file; its tables decide which."""
    EXPORT = "export"
    """Nsight Systems report exported to SQLite."""
    DLPROF = "dlprof"
    """Database of NVIDIA's DLProf."""
    DATABASE = "database"
    """Database of open-dlprof."""
    XPLANE = "xplane"
    """Protocol buffer of XLA's profiler: JAX, TensorFlow."""
    PERFETTO = "perfetto"
    """Protocol buffer of Perfetto."""
    NVPROF = "nvprof"
    """File of nvprof or the Visual Profiler."""
    UNKNOWN = "unknown"


def detect_file(path: Path, file_name: str) -> Format:
    """Return the format of a file by its first bytes and its name; ``SQLITE``: its tables decide.

    Args:
        path: The file.
        file_name: The name it was given; uploads are stored under another one.

    Raises:
        OSError: The file cannot be read.
    """
    if is_sqlite(path):
        return Format.SQLITE
    if file_name.lower().endswith(REPORT_SUFFIXES):
        return Format.REPORT
    # Both are protocol buffers, whose first bytes are those of any.
    if file_name.lower().endswith(XPLANE_SUFFIX):
        return Format.XPLANE
    if file_name.lower().endswith(PERFETTO_SUFFIXES):
        return Format.PERFETTO
    head = _read_head(path)
    is_json = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in {b"{", b"["}
    return Format.TRACE if is_json or head.startswith(GZIP_MAGIC) else Format.UNKNOWN


def detect_tables(tables: frozenset[str]) -> Format:
    """Return the format of an SQLite file by the names of its tables."""
    found = newest_versions(tables)
    has_records = {"NVTX_EVENTS", "TARGET_INFO_SYSTEM_ENV"} & found.keys() or any(
        name.startswith("CUPTI_ACTIVITY_KIND_") for name in found
    )
    if "StringIds" in found and has_records:
        return Format.EXPORT
    if {"read_only_ops", "db_version"} <= tables:
        return Format.DLPROF
    if "dldb_meta" in tables:
        return Format.DATABASE
    return Format.NVPROF if "StringTable" in tables else Format.UNKNOWN


def suffix_of(kind: Format, file_name: str) -> str:
    """Return the suffix under which a file is kept: some kinds are known by it."""
    if kind is Format.REPORT:
        return ".nsys-rep"
    if kind is Format.XPLANE:
        return XPLANE_SUFFIX
    if kind is Format.TRACE:
        return ".json.gz" if file_name.lower().endswith(".gz") else ".json"
    return ".sqlite"


def is_sqlite(path: Path) -> bool:
    """Return whether a file is an SQLite database.

    SQLite is asked first: closing any other descriptor of a database would drop the locks that
    connections of this process hold on it.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        uri = read_only_uri(path)
        with closing(sqlite3.connect(uri, uri=True, timeout=0)) as connection:
            connection.execute("PRAGMA schema_version").fetchone()
        return path.stat().st_size > 0
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _BUSY_CODES:
            return True
    return _read_head(path).startswith(SQLITE_MAGIC)


def _read_head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD_BYTES)


def newest_versions(tables: frozenset[str]) -> Mapping[str, str]:
    """Map plain table names to the names of their newest versions in an Nsight Systems export."""
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


def list_tables(path: Path) -> frozenset[str]:
    """Return names of the tables of an SQLite file, which can be read without running SQL in it.

    Raises:
        CorruptProfileError: The file cannot be read, or a table is computed.
    """
    try:
        with closing(connect_read_only(path)) as connection:
            return plain_tables(connection)
    except READ_ERRORS as error:
        raise corrupt(path, error) from error


def parse_version(text: str) -> tuple[int, ...]:
    """Return the numbers of a version text: ``v1.8.0`` -> (1, 8, 0); empty if there are none."""
    match = re.match(r"v?([0-9]{1,9}(?:\.[0-9]{1,9})*)", text.strip())
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def check_version(path: Path, version: str, newest: str) -> None:
    """Check that a DLProf database can be read.

    Args:
        path: The database.
        version: Version of the DLProf that wrote it.
        newest: The newest version that can be read.

    Raises:
        DldbVersionError: The version is missing, too old or too new.
    """
    numbers, newest_numbers = parse_version(version)[:2], parse_version(newest)[:2]
    if not numbers:
        raise DldbVersionError(
            say("'{path}' does not contain the DLProf version that wrote it.", path=str(path))
        )
    if numbers < parse_version(OLDEST_DLPROF):
        raise DldbVersionError(
            say(
                "'{path}' was written by DLProf {version}; versions before 1.2 cannot be read.",
                path=str(path),
                version=version,
            ),
            hint=say("Aggregate the Nsight Systems export again: dlprof --database=profile.sqlite"),
            version=version,
            is_newer=False,
        )
    if numbers > newest_numbers:
        raise DldbVersionError(
            say(
                "'{path}' was written by DLProf {version}; the newest that can be read is {known}.",
                path=str(path),
                version=version,
                known=".".join(map(str, newest_numbers)),
            ),
            hint=say("Update open-dlprof."),
            version=version,
            is_newer=True,
        )


def corrupt(path: Path, reason: object) -> CorruptProfileError:
    """Return the error for a file that cannot be read to its end."""
    return CorruptProfileError(
        say(
            "The profile '{path}' is damaged or incomplete: {error}.",
            path=str(path),
            error=str(reason).partition("\n")[0].rstrip("."),
        ),
        hint=say("Copy or export it again; a capture or a copy may have been cut off."),
    )


def empty(path: Path) -> CorruptProfileError:
    """Return the error for a file without content."""
    return CorruptProfileError(
        say("The profile '{path}' is empty.", path=str(path)), hint=say("Export it again.")
    )


def no_activity(path: Path, hint: str) -> NoGpuActivityError:
    """Return the error for a profile without any CUDA call or work of a GPU."""
    return NoGpuActivityError(
        say("The profile '{path}' holds no CUDA activity.", path=str(path)), hint=hint
    )


def not_readable(path: Path, error: OSError) -> ProfileError:
    """Return the error for a file that may not be opened."""
    return ProfileError(
        say(
            "The profile '{path}' cannot be opened: {error}.", path=str(path), error=error.strerror
        ),
        hint=say("Check the permissions of the file."),
    )


def unsupported(path: Path, found: Format, tables: frozenset[str] | None) -> ProfileError:
    """Return the error for a file that no reader takes; without tables it is no SQLite file."""
    name = str(path)
    if found is Format.DATABASE:
        text = say(
            "'{path}' is already a database of open-dlprof; there is nothing to import.", path=name
        )
        hint = say("Add an aggregation to it with: dlprof --database={path}", path=name)
    elif found is Format.PERFETTO:
        text = say("'{path}' is a trace of Perfetto, which is not read.", path=name)
        hint = say(
            "Write it as JSON: export_chrome_trace('trace.json.gz') of torch.profiler, or "
            "Perfetto's traceconv json trace.pftrace trace.json."
        )
    elif found is Format.NVPROF:
        text = say(
            "'{path}' was written by nvprof or the Visual Profiler, which are not supported.",
            path=name,
        )
        hint = say("Profile with Nsight Systems: nsys profile -t cuda,nvtx --export=sqlite ...")
    elif tables is not None:
        text = say(
            "'{path}' is an SQLite file, but neither an Nsight Systems export nor a DLProf "
            "database.",
            path=name,
        )
        hint = say("Make an export with: nsys export -t sqlite -o profile.sqlite profile.nsys-rep")
        return UnsupportedProfileError(text, hint=hint, tables=list(sorted(tables)[:20]))
    elif not path.stat().st_size:
        return empty(path)
    else:
        text = say("'{path}' is not an SQLite file.", path=name)
        hint = say(
            "Nsight Systems reports (.nsys-rep, .qdrep) need: nsys export -t sqlite <report>"
        )
    return UnsupportedProfileError(text, hint=hint)
