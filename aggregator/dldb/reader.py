"""Opens DLProf databases, ours and NVIDIA's, for reading only."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Self

from aggregator.dldb.versions import DB_VERSION, NEWEST_FOREIGN, OLDEST, parse_version
from aggregator.errors import (
    DatabaseBusyError,
    DldbNotFoundError,
    DldbVersionError,
    NotADldbError,
)
from aggregator.sqlite_uri import SQLITE_MAGIC, lenient_text, read_only_uri
from aggregator.texts import say

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

NEEDED_VIEWS = frozenset({"view_db_version", "view_aggregations", "view_op_nodes"})


class Dldb:
    """A DLProf database opened for reading.

    Attributes:
        path: The file.
        connection: Read-only connection; rows are ``sqlite3.Row``.
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
        _check_version(path, self.version, is_ours=self.is_ours)

    def columns(self, view: str) -> tuple[str, ...]:
        """Column names of a view; empty if the database lacks it."""
        if view not in self.views:
            return ()
        try:
            rows = self.connection.execute(f'PRAGMA table_info("{view}")').fetchall()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF in _BUSY_CODES:
                raise
            return ()  # a view on a table that is not there
        return tuple(str(row["name"]) for row in rows)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _check_version(path: Path, version: str, *, is_ours: bool) -> None:
    numbers = parse_version(version)
    if not numbers:
        raise DldbVersionError(
            say("'{path}' does not tell the DLProf version that wrote it.", path=str(path))
        )
    if numbers[:2] < OLDEST:
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
    newest = parse_version(DB_VERSION)[:2] if is_ours else NEWEST_FOREIGN
    if numbers[:2] > newest:
        known = ".".join(str(number) for number in newest)
        raise DldbVersionError(
            say(
                "'{path}' was written by DLProf {version}; the newest that can be read is {known}.",
                path=str(path),
                version=version,
                known=known,
            ),
            hint=say("Update open-dlprof."),
            version=version,
            is_newer=True,
        )


def open_database(path: Path) -> Dldb:
    """Open a database for reading.

    Raises:
        DldbNotFoundError: No file at ``path``.
        NotADldbError: Not a DLProf database, or damaged.
        DldbVersionError: Written by a version that cannot be read.
    """
    if not path.is_file():
        raise DldbNotFoundError(
            say("No database at '{path}'.", path=str(path)),
            hint=say("Make one with: dlprof --database=<nsys export>"),
            path=str(path),
        )
    try:
        with path.open("rb") as file:
            head = file.read(len(SQLITE_MAGIC))
    except OSError as error:
        raise DldbNotFoundError(
            say("'{path}' cannot be opened: {error}.", path=str(path), error=error.strerror),
            hint=say("Check the permissions of the file."),
        ) from error
    if head != SQLITE_MAGIC:
        raise NotADldbError(
            say("'{path}' is not an SQLite file.", path=str(path)),
            hint=say("dlprofviewer opens the dlprof_dldb.sqlite that dlprof wrote."),
            path=str(path),
        )
    return _connect(path)


def _connect(path: Path) -> Dldb:
    """Open a connection; what a killed writer left behind is rolled back once."""
    for attempt in range(_ATTEMPTS):
        try:
            return _connect_once(path)
        except DatabaseBusyError:
            if attempt == _ATTEMPTS - 1:
                raise
            _roll_back(path)
            time.sleep(_RETRY_S)
    raise AssertionError


_ATTEMPTS = 20
_RETRY_S = 0.05
_BUSY_CODES = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY})
"""Primary result codes of a database that another process is writing, or left half-written."""


LONGEST_VALUE_BYTES = 64 * 2**20
"""No row of a profile is longer; a view that makes a longer one fails."""
_OPEN_LIMIT_S = 5.0
_CHECK_EVERY = 20_000


def _roll_back(path: Path) -> None:
    """Let SQLite undo what a writer killed in mid-commit left in the journal."""
    if not path.with_name(f"{path.name}-journal").exists():
        return
    with suppress(sqlite3.Error), closing(sqlite3.connect(path, timeout=1.0)) as connection:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()


def _connect_once(path: Path) -> Dldb:
    connection = sqlite3.connect(read_only_uri(path), uri=True, check_same_thread=False)
    try:
        connection.row_factory = sqlite3.Row
        connection.text_factory = lenient_text
        connection.execute("PRAGMA query_only = ON")
        # Whose database it is: its views are somebody else's SQL, and opening it asks one of them.
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE_BYTES)
        deadline = time.monotonic() + _OPEN_LIMIT_S
        connection.set_progress_handler(lambda: time.monotonic() > deadline, _CHECK_EVERY)
        opened = Dldb(path, connection)
        connection.set_progress_handler(None, 0)
        return opened
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        connection.close()
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _BUSY_CODES:
            raise DatabaseBusyError(
                say("The database '{path}' is being written by another process.", path=str(path)),
                hint=say("Try again in a moment."),
            ) from error
        raise damaged(path, error) from error
    except (NotADldbError, DldbVersionError):
        connection.close()
        raise


def damaged(path: Path, error: Exception) -> NotADldbError:
    """The error for a file whose content contradicts itself."""
    return NotADldbError(
        say("'{path}' is damaged or no DLProf database: {error}.", path=str(path), error=error),
        hint=say("Make it again with: dlprof --database=<nsys export>"),
        path=str(path),
    )


def read_meta(path: Path) -> dict[str, str]:
    """Key/value pairs of one of our databases."""
    with open_database(path) as database, closing(database.connection.cursor()) as cursor:
        return {
            str(row[0]): str(row[1]) for row in cursor.execute("SELECT key, value FROM dldb_meta")
        }
