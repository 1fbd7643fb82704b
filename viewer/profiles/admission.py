"""A file is looked at before anything is done with it: what it is, and whether it is whole."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from aggregator.dldb.reader import open_database
from aggregator.errors import CorruptProfileError, NotADldbError, NsysNotFoundError, ProfileError
from aggregator.sources import check_start
from aggregator.sources.formats import GZIP_MAGIC, Format, detect_file, detect_tables, list_tables
from aggregator.system.sql_process import SqlProcess
from aggregator.texts import say
from viewer.errors import ViewerError

_HEADER_BYTES = 100
CHECK_LIMIT_S = 10.0
_PACKED = {
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ": "xz",
    b"PK\x03\x04": "zip",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstd",
}
_AGAIN = say("Copy or export it again.")
_EXPORT_AGAIN = say("Export the report again with nsys.")
_MOST_OBJECTS = 10_000
_MASTER = "SELECT type, substr(name, 1, 1000) FROM sqlite_master LIMIT ?"
_WAIT_S = 5.0


def inspect(path: Path, file_name: str, limit_s: float = CHECK_LIMIT_S) -> Format:
    """Return what a file is; anything that is not a whole profile is refused.

    Args:
        path: The file.
        file_name: Its name where it comes from: reports are known by it.
        limit_s: How long pages may be looked through; the import reads all of them.

    Raises:
        ViewerError: It is no profile, cut off or damaged, holds what no profile holds, or is a
            report and there is no Nsight Systems here.
        DatabaseError: A DLProf database that cannot be read.
    """
    try:
        found = detect_file(path, file_name)
        if found is Format.SQLITE:
            return _inspect_sqlite(path, limit_s)
        header = _read_header(path)
    except OSError as error:
        raise ViewerError(
            say("'{path}' cannot be read: {error}.", path=file_name, error=error.strerror),
            "PROFILE_REFUSED",
            hint=say("Let the viewer's user read it."),
        ) from error
    # Only by its name a packed trace differs from any other file that gzip packed.
    is_named_trace = file_name.lower().endswith((".json.gz", ".trace.gz"))
    is_packed = found is Format.TRACE and header.startswith(GZIP_MAGIC) and not is_named_trace
    if not is_packed and _is_profile(path, found):
        return found
    raise _not_a_profile(header)


def _read_header(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEADER_BYTES)


def _is_profile(path: Path, found: Format) -> bool:
    """Whether a file that is no SQLite is a profile; one that does not begin as such is refused."""
    try:
        return check_start(path, found, os.environ.get("DLPROF_NSYS_PATH", ""))
    except NsysNotFoundError as error:
        raise ViewerError(
            say("A report of Nsight Systems can be opened by nsys only, which is not installed."),
            "REPORT_NEEDS_NSYS",
            hint=say("Export it where it was made: nsys export -t sqlite <report>"),
        ) from error
    except ProfileError as error:
        if found is not Format.TRACE:
            raise ViewerError(error.message, "PROFILE_REFUSED", hint=error.hint) from error
        raise ViewerError(
            say("The file is JSON, but no complete trace of torch.profiler."),
            "PROFILE_REFUSED",
            hint=say("Take what export_chrome_trace of torch.profiler wrote (.json or .json.gz)."),
        ) from error


def _not_a_profile(header: bytes) -> ViewerError:
    for magic, kind in _PACKED.items():
        if header.startswith(magic):
            return ViewerError(
                say("The file is packed ({kind}), and packed files are not taken.", kind=kind),
                "PROFILE_REFUSED",
                hint=say("Unpack it first."),
            )
    return ViewerError(
        say("The file is no profile: neither SQLite nor a report of Nsight Systems."),
        "PROFILE_REFUSED",
        hint=say(
            "Take an SQLite export (nsys export -t sqlite), a .nsys-rep, a trace of "
            "torch.profiler, or a DLProf database."
        ),
    )


def _inspect_sqlite(path: Path, limit_s: float) -> Format:
    try:
        with closing(SqlProcess(path, _WAIT_S)) as connection:
            _limit(connection, CHECK_LIMIT_S)
            master = [tuple(map(str, row)) for row in connection.execute(_MASTER, (_MOST_OBJECTS,))]
            if len(master) == _MOST_OBJECTS:
                raise sqlite3.DatabaseError(f"it holds {_MOST_OBJECTS:,} objects or more")
            page_size = int(connection.execute("PRAGMA page_size").fetchone()[0])
            if path.stat().st_size % page_size:
                _check_length(path)
            _limit(connection, limit_s)
            _check_pages(connection)
        kind = _kind(path, {name for _, name in master})
        if kind is Format.EXPORT:
            _check_plain(path, master)
        return kind
    # SQLite's own messages may quote bytes of a damaged file.
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE_CODES:
            _check_length(path)
        raise ViewerError(
            say("The file is damaged or incomplete: {reason}.", reason=error),
            "PROFILE_REFUSED",
            hint=_AGAIN,
        ) from error


def _limit(connection: SqlProcess, limit_s: float) -> None:
    """Interrupt what runs for longer than this from now on."""
    deadline = time.monotonic() + limit_s
    connection.set_progress_handler(lambda: time.monotonic() > deadline, 0)


_DAMAGE_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _check_length(path: Path) -> None:
    """Refuse a file that was cut off, by the sizes in its header.

    Only for files that are damaged anyway: closing a database that this process uses elsewhere
    would drop the locks on it.
    """
    header = _read_header(path)
    page_size = int.from_bytes(header[16:18], "big")
    page_size = 65_536 if page_size == 1 else page_size
    pages = int.from_bytes(header[28:32], "big")
    # The count is valid only if the last writer was new enough to keep it.
    is_kept = header[24:28] == header[92:96]
    size = path.stat().st_size
    if is_kept and size < page_size * pages:
        raise ViewerError(
            say(
                "The file is cut off: it has {size:,} of {full:,} bytes.",
                size=size,
                full=page_size * pages,
            ),
            "PROFILE_REFUSED",
            hint=_AGAIN,
        )


def _check_pages(connection: SqlProcess) -> None:
    """Look through the pages, for as long as a request may take; the import reads all of them."""
    try:
        found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_INTERRUPT:
            return
        raise
    if found != "ok":
        raise ViewerError(
            say("The file is damaged or incomplete: {reason}.", reason=found.splitlines()[0][:200]),
            "PROFILE_REFUSED",
            hint=_AGAIN,
        )


def _kind(path: Path, tables: set[str]) -> Format:
    try:
        open_database(path).close()
    except NotADldbError:
        if detect_tables(frozenset(tables)) is Format.EXPORT:
            return Format.EXPORT
        raise ViewerError(
            say("The SQLite file is neither an export of Nsight Systems nor a DLProf database."),
            "PROFILE_REFUSED",
            hint=say("Make an export with: nsys export -t sqlite profile.nsys-rep"),
        ) from None
    return Format.DATABASE


def _check_plain(path: Path, master: list[tuple[str, ...]]) -> None:
    """Refuse an export in which reading a row would run SQL of the file."""
    for kind, name in master:
        if kind in {"view", "trigger"}:
            raise ViewerError(
                say(
                    "The export holds a view or a trigger ({name!r}), and exports hold plain "
                    "tables only.",
                    name=name[:80],
                ),
                "PROFILE_REFUSED",
                hint=_EXPORT_AGAIN,
            )
    try:
        list_tables(path)
    except CorruptProfileError as error:
        raise ViewerError(error.message, "PROFILE_REFUSED", hint=_EXPORT_AGAIN) from error
