"""A file is looked at before anything is done with it: what it is, and whether it is whole."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from enum import StrEnum
from pathlib import Path

from aggregator.dldb.reader import open_database
from aggregator.errors import NotADldbError
from aggregator.sqlite_uri import SQLITE_MAGIC, lenient_text, read_only_uri
from aggregator.texts import say
from viewer.errors import ProfileRefusedError, ReportNeedsNsysError

REPORT_SUFFIXES = (".nsys-rep", ".qdrep")
_HEADER_BYTES = 100
CHECK_LIMIT_S = 10.0
_INSTRUCTIONS_PER_CHECK = 20_000
_PACKED = {
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ": "xz",
    b"PK\x03\x04": "zip",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstd",
}
_AGAIN = say("Copy or export it again.")
_EXPORT_AGAIN = say("Export the report again with nsys.")
_MASTER = "SELECT type, name, coalesce(sql, '') FROM sqlite_master"


class Kind(StrEnum):
    """What a file is."""

    DATABASE = "database"
    EXPORT = "export"
    REPORT = "report"
    TRACE = "trace"


def inspect(
    path: Path, file_name: str, nsys_path: str = "", limit_s: float = CHECK_LIMIT_S
) -> Kind:
    """What a file is; anything that is not a whole profile is refused.

    Args:
        path: The file.
        file_name: Its name where it comes from: reports are known by it.
        nsys_path: The nsys program for reports; empty: looked for.
        limit_s: How long pages may be looked through; the import reads all of them.

    Raises:
        ProfileRefusedError: It is no profile, cut off or damaged, or holds what no profile holds.
        ReportNeedsNsysError: A report, and there is no Nsight Systems here.
        DatabaseError: A DLProf database that cannot be read.
    """
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except OSError as error:
        raise ProfileRefusedError(
            say("'{path}' cannot be read: {error}.", path=file_name, error=error.strerror),
            hint=say("Let the viewer's user read it."),
        ) from error
    if _may_be_trace(header, file_name):
        _check_trace(path)
        return Kind.TRACE
    if header[: len(SQLITE_MAGIC)] == SQLITE_MAGIC:
        return _inspect_sqlite(path, header, limit_s)
    if file_name.lower().endswith(REPORT_SUFFIXES) and header:
        _need_nsys(nsys_path)
        return Kind.REPORT
    raise _not_a_profile(header)


def _may_be_trace(header: bytes, file_name: str) -> bool:
    """Whether a file is JSON by its name or beginning; packed files are known by their names."""
    name = file_name.lower()
    if header.startswith(b"\x1f\x8b"):
        return name.endswith((".json.gz", ".trace.gz"))
    return header.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in {b"{", b"["}


def _check_trace(path: Path) -> None:
    """Refuse what does not begin as a trace; the import reads it to its end."""
    from aggregator.errors import ProfileError  # noqa: PLC0415
    from aggregator.sources.kineto_json import TraceText  # noqa: PLC0415

    try:
        TraceText(path).check_head()
    except ProfileError as error:
        raise ProfileRefusedError(
            say("The file is JSON, but no complete trace of torch.profiler."),
            hint=say("Take what export_chrome_trace of torch.profiler wrote (.json or .json.gz)."),
        ) from error


def suffix_of(kind: Kind, file_name: str) -> str:
    """Suffix under which a file is kept: some kinds are known by it."""
    if kind is Kind.REPORT:
        return ".nsys-rep"
    if kind is Kind.TRACE:
        return ".json.gz" if file_name.lower().endswith(".gz") else ".json"
    return ".sqlite"


def _not_a_profile(header: bytes) -> ProfileRefusedError:
    for magic, kind in _PACKED.items():
        if header.startswith(magic):
            return ProfileRefusedError(
                say("The file is packed ({kind}), and packed files are not taken.", kind=kind),
                hint=say("Unpack it first."),
            )
    return ProfileRefusedError(
        say("The file is no profile: neither SQLite nor a report of Nsight Systems."),
        hint=say(
            "Take an SQLite export (nsys export -t sqlite), a .nsys-rep, a trace of "
            "torch.profiler, or a DLProf database."
        ),
    )


def _need_nsys(nsys_path: str) -> None:
    # The engine's readers are loaded by the first profile that is added, not at the start.
    from aggregator.errors import NsysNotFoundError  # noqa: PLC0415
    from aggregator.sources.nsys_report import find_nsys  # noqa: PLC0415

    try:
        find_nsys(nsys_path)
    except NsysNotFoundError as error:
        raise ReportNeedsNsysError(
            say("A report of Nsight Systems can be opened by nsys only, which is not installed."),
            hint=say("Export it where it was made: nsys export -t sqlite <report>"),
        ) from error


def _inspect_sqlite(path: Path, header: bytes, limit_s: float) -> Kind:
    _check_length(path, header)
    try:
        with closing(sqlite3.connect(read_only_uri(path), uri=True)) as connection:
            connection.text_factory = lenient_text
            _limit(connection, CHECK_LIMIT_S)
            master = [tuple(map(str, row)) for row in connection.execute(_MASTER)]
            _limit(connection, limit_s)
            _check_pages(connection)
            _limit(connection, CHECK_LIMIT_S)
            kind = _kind(path, {name for _, name, _ in master})
            if kind is Kind.EXPORT:
                _check_plain(connection, master)
            return kind
    # SQLite's own words may quote bytes of a damaged file.
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise ProfileRefusedError(
            say("The file is damaged or incomplete: {reason}.", reason=error), hint=_AGAIN
        ) from error


def _limit(connection: sqlite3.Connection, limit_s: float) -> None:
    """Interrupt what runs for longer than this from now on."""
    deadline = time.monotonic() + limit_s
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _INSTRUCTIONS_PER_CHECK)


def _check_length(path: Path, header: bytes) -> None:
    """Refuse a file that was cut off; SQLite would notice when it gets there."""
    page_size = int.from_bytes(header[16:18], "big")
    page_size = 65_536 if page_size == 1 else page_size
    pages = int.from_bytes(header[28:32], "big")
    # The count is valid only if the last writer was new enough to keep it.
    is_kept = header[24:28] == header[92:96]
    size = path.stat().st_size
    if is_kept and size < page_size * pages:
        raise ProfileRefusedError(
            say(
                "The file is cut off: it has {size:,} of {full:,} bytes.",
                size=size,
                full=page_size * pages,
            ),
            hint=_AGAIN,
        )


def _check_pages(connection: sqlite3.Connection) -> None:
    """Look through the pages, for as long as a request may take; the import reads all of them."""
    try:
        found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_INTERRUPT:
            return
        raise
    if found != "ok":
        raise ProfileRefusedError(
            say("The file is damaged or incomplete: {reason}.", reason=found.splitlines()[0][:200]),
            hint=_AGAIN,
        )


def _kind(path: Path, tables: set[str]) -> Kind:
    try:
        open_database(path).close()
    except NotADldbError:
        from aggregator.sources import nsys  # noqa: PLC0415

        if nsys.is_export(frozenset(tables)):
            return Kind.EXPORT
        raise ProfileRefusedError(
            say("The SQLite file is neither an export of Nsight Systems nor a DLProf database."),
            hint=say("Make an export with: nsys export -t sqlite profile.nsys-rep"),
        ) from None
    return Kind.DATABASE


def _check_plain(connection: sqlite3.Connection, master: list[tuple[str, ...]]) -> None:
    """Refuse an export in which reading a row would run somebody's SQL."""
    for kind, name, sql in master:
        if kind in {"view", "trigger"} or sql.upper().startswith("CREATE VIRTUAL"):
            raise ProfileRefusedError(
                say(
                    "The export holds a view, a trigger or a virtual table ({name!r}), and exports "
                    "hold plain tables only.",
                    name=name[:80],
                ),
                hint=_EXPORT_AGAIN,
            )
    computed = connection.execute(
        "SELECT m.name FROM sqlite_master m, pragma_table_xinfo(m.name) c "
        "WHERE m.type = 'table' AND c.hidden > 1 LIMIT 1"
    ).fetchone()
    if computed:
        raise ProfileRefusedError(
            say(
                "The export holds a table with computed columns ({name!r}).",
                name=str(computed[0])[:80],
            ),
            hint=_EXPORT_AGAIN,
        )
