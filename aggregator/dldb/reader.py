"""Opens DLProf databases, ours and NVIDIA's, for reading only."""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Self, cast

from aggregator.dldb.own_schema import has_long_names, holds_own_sql_only, state_of
from aggregator.errors import DatabaseBusyError, DldbNotFoundError, NotADldbError
from aggregator.sources.formats import NEWEST_DLPROF, check_version, parse_version
from aggregator.system.sql_process import SqlProcess, cpu_s_of
from aggregator.system.sqlite_uri import connect_unread
from aggregator.texts import say

with Path(__file__).with_name("schema.sql").open(encoding="utf-8") as _schema:
    DB_VERSION = _schema.readline().split()[-1]
"""Version of the databases written here, in the first line of their schema; NVIDIA's last: 1.8.0.

Any change of the tables raises it: the patch where files of the version before can be aggregated
without what is new (a test does so with one), else the minor.
"""
NEEDED_VIEWS = frozenset({"view_db_version", "view_aggregations", "view_op_nodes"})


def is_aggregable(version: str) -> bool:
    """Whether aggregations can be added to a database that this version of the program wrote.

    Minor versions before 1.0 of this project differ in their tables: an older file is shown, and
    what it lacks is unknown, but only its profile can be aggregated again.
    """
    return parse_version(version)[:2] == parse_version(DB_VERSION)[:2]


class Dldb:
    """A DLProf database opened for reading.

    Attributes:
        path: The file.
        connection: Read-only connection, of another process if the file holds SQL of others; rows
            are ``sqlite3.Row``.
        version: Version of the DLProf that wrote it.
        is_ours: Whether this project wrote it.
        views: Views it offers.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.connection = connection
        rows = connection.execute("SELECT type, name FROM sqlite_master").fetchall()
        self.views = frozenset(str(row["name"]) for row in rows if row["type"] == "view")
        self.is_ours = any(row["name"] == "dldb_meta" for row in rows)
        if not self.views >= NEEDED_VIEWS:
            raise NotADldbError(
                say("'{path}' is no DLProf database.", path=str(path)),
                hint=say(
                    "Make one from an Nsight Systems export: dlprof --database=profile.sqlite"
                ),
                path=str(path),
            )
        row = connection.execute("SELECT current_version FROM view_db_version").fetchone()
        self.version = str(row[0]) if row else ""
        check_version(path, self.version, DB_VERSION if self.is_ours else NEWEST_DLPROF)

    def columns(self, view: str) -> tuple[str, ...]:
        """Return the column names of a view; empty if the database lacks it."""
        if view not in self.views:
            return ()
        try:
            rows = self.connection.execute(f'PRAGMA table_info("{view}")').fetchall()
        except sqlite3.OperationalError as error:
            if is_busy_error(error) or primary_code(error) == sqlite3.SQLITE_INTERRUPT:
                raise
            return ()  # a view on a table that is not there
        return tuple(str(row["name"]) for row in rows)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_own_database(path: Path) -> bool:
    """Return whether a file is a readable database that this program wrote."""
    if not path.is_file() or not os.access(path, os.R_OK):
        return False
    try:
        with open_database(path) as database:
            return database.is_ours
    except NotADldbError:
        return False


def open_database(path: Path, wait_s: float | None = None, *, is_apart: bool = False) -> Dldb:
    """Open a database for reading.

    Args:
        path: The file.
        wait_s: How long to wait for another process that writes it; None: ``BUSY_WAIT_S``.
        is_apart: Run SQL in another process in any case: the caller's is of unknown origin.

    Raises:
        DldbNotFoundError: No file at ``path``.
        NotADldbError: Not a DLProf database, or damaged.
        DldbVersionError: Written by a version that cannot be read.
        DatabaseBusyError: Another process had it locked for that long.
    """
    if not path.is_file():
        raise DldbNotFoundError(
            say("No database at '{path}'.", path=str(path)),
            hint=say("Make one with: dlprof --database=<nsys export>"),
            path=str(path),
        )
    deadline = time.monotonic() + (BUSY_WAIT_S if wait_s is None else wait_s)
    while True:
        try:
            return _connect(path, max(deadline - time.monotonic(), 0.0), is_apart=is_apart)
        except DatabaseBusyError:
            if time.monotonic() > deadline:
                raise
            _roll_back(path)
            time.sleep(_RETRY_S)


BUSY_WAIT_S = 2.0  # How long opening a database waits for another process that writes it.
_RETRY_S = 0.05
_BUSY_CODES = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY})
"""Primary result codes of a database that another process is writing, or left half-written."""
_OPEN_LIMIT_S, _OPEN_CPU_S = 10.0, 1.0
"""Opening takes 0.01 s of processor time; how much time passes, machine and disk decide."""
_INSTRUCTIONS_PER_CHECK = 20_000
_REMEMBERED_S, _MOST_REMEMBERED = 60.0, 256
_STOPPED: dict[tuple[int, ...], float] = {}
"""States of files whose opening was stopped, and until when they are refused for it."""


def is_busy_error(error: BaseException | None) -> bool:
    """Return whether an error means that another process is writing the database, which passes."""
    return isinstance(error, sqlite3.OperationalError) and primary_code(error) in _BUSY_CODES


def busy(path: Path) -> DatabaseBusyError:
    """Return the error of a database that another process is writing."""
    return DatabaseBusyError(
        say("The database '{path}' is being written by another process.", path=str(path)),
        hint=say("Try again when that one has finished."),
    )


def primary_code(error: Exception) -> int:
    """SQLite's code of an error without the details in its upper bits; 0: it has none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _roll_back(path: Path) -> None:
    """Let SQLite undo what a writer that was killed during its commit left in the journal."""
    if not path.with_name(f"{path.name}-journal").exists():
        return
    with suppress(sqlite3.Error), closing(sqlite3.connect(path, timeout=_RETRY_S)) as connection:
        connection.execute("PRAGMA schema_version").fetchone()  # parses no schema


def _connect(path: Path, timeout_s: float, *, is_apart: bool) -> Dldb:
    connection: sqlite3.Connection | None = None
    state = state_of(path)
    if _STOPPED.get(state, 0.0) > time.monotonic():
        raise damaged(path, _TOO_LONG)
    try:
        if not path.stat().st_size:
            raise _no_sqlite_file(path)
        connection = connect_unread(path, timeout_s)
        if is_apart or not holds_own_sql_only(connection) or has_long_names(connection, path):
            connection.close()
            connection = cast("sqlite3.Connection", SqlProcess(path, timeout_s))
        # Its views may be anyone's SQL, and opening it queries one of them.
        _limit(connection)
        connection.row_factory = sqlite3.Row
        opened = Dldb(path, connection)
        connection.set_progress_handler(None, 0)
    except BaseException as error:
        if connection is not None:
            connection.close()
        if not isinstance(error, sqlite3.DatabaseError | UnicodeDecodeError):
            raise
        raise _unopened(path, state, error) from error
    return opened


def _unopened(path: Path, state: tuple[int, ...], error: Exception) -> Exception:
    """Return the error for a file that could not be opened; what took too long is remembered."""
    if is_busy_error(error):
        return busy(path)
    code = primary_code(error)
    if code == sqlite3.SQLITE_CANTOPEN:
        denied = "" if os.access(path, os.R_OK) else os.strerror(errno.EACCES)
        return DldbNotFoundError(
            say("'{path}' cannot be opened: {error}.", path=str(path), error=denied or error),
            hint=say("Check the permissions of the file."),
        )
    if code == sqlite3.SQLITE_NOTADB:
        return _no_sqlite_file(path)
    if code == sqlite3.SQLITE_INTERRUPT:
        if len(_STOPPED) >= _MOST_REMEMBERED:
            _STOPPED.clear()
        _STOPPED[state] = time.monotonic() + _REMEMBERED_S
        return damaged(path, _TOO_LONG)
    return damaged(path, error)


_TOO_LONG = sqlite3.DatabaseError("opening it takes too long")


def _limit(connection: sqlite3.Connection) -> None:
    def cpu_s() -> float:
        return time.thread_time() + cpu_s_of(connection)

    deadline, cpu_limit_s = time.monotonic() + _OPEN_LIMIT_S, cpu_s() + _OPEN_CPU_S
    connection.set_progress_handler(
        lambda: time.monotonic() > deadline or cpu_s() > cpu_limit_s, _INSTRUCTIONS_PER_CHECK
    )


def _no_sqlite_file(path: Path) -> NotADldbError:
    return NotADldbError(
        say("'{path}' is not an SQLite file.", path=str(path)),
        hint=say("dlprofviewer opens the dlprof_dldb.sqlite that dlprof wrote."),
        path=str(path),
    )


def damaged(path: Path, error: Exception) -> NotADldbError:
    """Return the error for a file with inconsistent content."""
    return NotADldbError(
        say("'{path}' is damaged or no DLProf database: {error}.", path=str(path), error=error),
        hint=say("Make it again with: dlprof --database=<nsys export>"),
        path=str(path),
    )
