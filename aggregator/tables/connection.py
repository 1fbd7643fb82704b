"""A profile's database as the server may use it: read only, for a limited time, SELECT only."""

from __future__ import annotations

import logging
import math
import os
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from aggregator.dldb.guarded import DAMAGE, guard
from aggregator.dldb.reader import (
    BUSY_WAIT_S,
    Dldb,
    damaged,
    is_busy_error,
    primary_code,
)
from aggregator.dldb.writer import Table, insert_rows
from aggregator.errors import (
    DatabaseBusyError,
    DatabaseError,
    DatabaseWriteError,
    QueryTimeoutError,
)
from aggregator.system.select_only import authorize
from aggregator.system.sql_process import pid_of
from aggregator.system.temporary_files import await_commit
from aggregator.tables.counts import COUNTS, file_state
from aggregator.tables.open_database_cache import (
    begin_reading,
    give_back,
    open_snapshot,
    read_by_thread,
)
from aggregator.tables.sql_functions import add_functions
from aggregator.texts import ENGLISH, current_language, from_json, say

logger = logging.getLogger(__name__)

LONGEST_SERVED_BYTES = 2 * 2**20
"""Limit of a value or row that is served."""
_MOST_TEXT_BYTES = 2**28  # Limit of all texts of one query.
_MOST_TEMPORARY_BYTES = 2**31
"""Limit of the temporary files of this process, into which SQLite sorts."""
_TEMPORARY_CHECK_S = 0.5
_INFO = "view_profile_info"
_TEXTS = "view_texts"
_OPEN_PAUSE_S = 0.05
_GO_ON_ATTEMPTS = 1_200  # A writer that was let in commits an aggregation of millions of rows.

_TRY_AGAIN = say("Try again in a moment.")

ABANDONED: ContextVar[Callable[[], bool]] = ContextVar("abandoned", default=bool)
"""Whether the answer is no longer wanted: its queries are then ended."""

Params = Mapping[str, str | int | float | None]
Bindings = dict[str, Any]
"""Values of the named parameters of a statement that is being written."""
Row = tuple[Any, ...]
Result = TypeVar("Result")


class Queryable(ABC):
    """What the SQL of a table needs to know and to do."""

    @abstractmethod
    def has(self, view: str, column: str = "") -> bool:
        """Return whether there is such a view, and such a column if one is named."""

    @abstractmethod
    def iter_rows(self, sql: str, params: Params | None = None) -> Iterator[Row]:
        """Return the rows of a query, one in memory at a time."""

    def rows(self, sql: str, params: Params | None = None) -> list[Row]:
        """Return all rows of a query."""
        return list(self.iter_rows(sql, params))

    def count(self, sql: str, params: Params) -> int:
        """Return the number that a query delivers."""
        return int(self.rows(sql, params)[0][0])

    def is_measured(self, flag: str) -> bool:
        """Return whether the quantity of the flag was measured."""
        return True

    @property
    def texts(self) -> Mapping[str, str]:
        """The sentences stored in it, with what they were made of."""
        return {}

    @property
    def state(self) -> Hashable:
        """A value that changes whenever the rows may change, or None if it is unknown."""
        return None


class ProfileDatabase(Queryable):
    """An open database with limits. Not for sharing between threads."""

    def __init__(self, dldb: Dldb, *, time_limit_s: float, state: Hashable = None) -> None:
        self._dldb = dldb
        self._state = state
        self._deadline = time.monotonic() + time_limit_s
        self._time_limit_s = time_limit_s
        self._next_check = time.monotonic() + _TEMPORARY_CHECK_S
        self._is_too_large = False
        self._is_abandoned = False
        self._is_changed = False
        self._unfinished = 0  # Queries that are not read to their end.
        self._columns: dict[str, frozenset[str]] = {}
        connection = dldb.connection
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_SERVED_BYTES)
        add_functions(connection)
        guard(connection, self._is_late)

    @property
    def path(self) -> Path:
        """The file."""
        return self._dldb.path

    @property
    def version(self) -> str:
        """DLProf version that wrote the database."""
        return self._dldb.version

    @property
    def is_ours(self) -> bool:
        """Whether this project wrote it."""
        return self._dldb.is_ours

    @property
    def state(self) -> Hashable:
        """A value that changes whenever the file does, or None if it is unknown."""
        return self._state

    def has(self, view: str, column: str = "") -> bool:
        """Return whether the database offers a view, and a column of it if one is named."""
        if view not in self._dldb.views:
            return False
        return not column or column in self.columns(view)

    def columns(self, view: str) -> frozenset[str]:
        """Return the columns of a view; none if it is absent."""
        if view not in self._columns:
            present = view in self._dldb.views
            # The dldb asks by PRAGMA, which our own rule would forbid.
            self._dldb.connection.set_authorizer(None)
            try:
                with self._translated():
                    found = frozenset(self._dldb.columns(view)) if present else frozenset[str]()
            finally:
                self._dldb.connection.set_authorizer(authorize)
            self._columns[view] = found
        return self._columns[view]

    def is_measured(self, flag: str) -> bool:
        """Return whether the profile measured something; one that says nothing about it did."""
        return self.info.get(flag) != "0"

    @cached_property
    def info(self) -> dict[str, str]:
        """What the profile says about itself; empty for a database of NVIDIA's."""
        if not (self.has(_INFO, "key") and self.has(_INFO, "value")):
            return {}
        sql = "SELECT key, value FROM view_profile_info"
        if self.has("view_model_settings", "value"):
            sql += (
                " UNION ALL SELECT key, value FROM view_model_settings"
                " WHERE key = 'batch_size' AND value <> 'null'"
            )
        return {str(key): value for key, value in self.rows(sql)}

    @cached_property
    def texts(self) -> dict[str, str]:
        """The sentences stored in the database, with what they were made of; none in English.

        A stored sentence is looked up for translation; a missing one stays as it is.
        """
        if current_language() == ENGLISH or not self.has(_TEXTS):
            return {}
        rows = self.rows("SELECT text, made_of FROM view_texts")
        return {str(text): from_json(str(made_of), str(text)) for text, made_of in rows}

    def rows(self, sql: str, params: Params | None = None) -> list[Row]:
        """Return all rows of a query."""
        found: list[Row] = []
        size = 0
        with self._translated():
            for row in self._dldb.connection.execute(sql, dict(params or {})):
                found.append(tuple(map(plain_value, row)))
                size += sum(len(value) for value in found[-1] if isinstance(value, str))
                if size > _MOST_TEXT_BYTES:
                    raise sqlite3.DatabaseError("its rows hold too much text")
        return found

    def iter_rows(self, sql: str, params: Params | None = None) -> Iterator[Row]:
        """Yield the rows of a query, one in memory at a time."""
        with self._translated():
            for row in self._dldb.connection.execute(sql, dict(params or {})):
                yield tuple(row)

    def read_with(self, read: Callable[[sqlite3.Connection], Result]) -> Result:
        """Return what a function reads by many queries, within the limits of this database.

        Raises:
            DatabaseError: The database is damaged, or the queries took too long.
        """
        self._is_changed = True
        try:
            with self._translated():
                return read(self._dldb.connection)
        except (MemoryError, *DAMAGE) as error:
            raise damaged(self._dldb.path, error) from error

    def add_temporary(
        self, statements: Iterable[str], views: Iterable[str], rows: Table | None = None
    ) -> None:
        """Make a table with its rows, and views, in this connection only; the file stays as it is.

        They hide those of the file with the same names.
        """
        self._is_changed = True
        connection = self._dldb.connection
        connection.set_authorizer(None)
        connection.execute("PRAGMA query_only = OFF")
        try:
            with self._translated():
                for statement in statements:
                    connection.execute(statement)
                if rows is not None:
                    insert_rows(connection, rows)
        finally:
            connection.execute("PRAGMA query_only = ON")
            connection.set_authorizer(authorize)
        self._dldb.views |= set(views)

    def count(self, sql: str, params: Params) -> int:
        """Return the number that a query delivers; asked once while the file stays as it is."""
        return COUNTS.get(self._state, sql, params, lambda: int(self.rows(sql, params)[0][0]))

    def let_go(self) -> None:
        """Let a writer that waits commit, then read on: what is read from here on may be newer.

        Raises:
            DatabaseBusyError: The writer did not end.
        """
        # The state of the file was that of the rows read so far.
        self._state = None
        self._is_changed = True
        connection = self._dldb.connection
        connection.rollback()
        path = self._dldb.path
        for _ in range(_GO_ON_ATTEMPTS):
            if read_by_thread().count(path) < 2 and not await_commit(path, _OPEN_PAUSE_S):
                continue
            try:
                begin_reading(connection)
            except sqlite3.OperationalError as error:
                if not is_busy_error(error):
                    raise self._translate(error) from error
                time.sleep(_OPEN_PAUSE_S)
            else:
                return
        raise DatabaseBusyError(say("The database is being written to."), hint=_TRY_AGAIN)

    @property
    def is_as_opened(self) -> bool:
        """Whether nothing but whole results of queries was read from it."""
        return not (self._is_changed or self._unfinished)

    def close(self) -> None:
        """Give the file back."""
        self._dldb.close()

    def _is_late(self) -> int:
        now = time.monotonic()
        if now > self._next_check:
            self._next_check = now + _TEMPORARY_CHECK_S
            process = pid_of(self._dldb.connection)
            self._is_too_large = _temporary_bytes(process) > _MOST_TEMPORARY_BYTES
            self._is_abandoned = ABANDONED.get()()
        return int(now > self._deadline or self._is_too_large or self._is_abandoned)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        self._unfinished += 1
        try:
            yield
        except sqlite3.OperationalError as error:
            raise self._translate(error) from error
        except sqlite3.DatabaseError as error:
            raise _unreadable(error) from error
        self._unfinished -= 1

    def _translate(self, error: sqlite3.OperationalError) -> Exception:
        if self._is_too_large:
            return DatabaseError(
                say("Sorting the rows takes more temporary disk space than allowed."),
                hint=say("Filter the table further."),
            )
        if self._is_abandoned:
            return QueryTimeoutError(say("The client did not wait for the answer."))
        if primary_code(error) == sqlite3.SQLITE_INTERRUPT:
            return QueryTimeoutError(
                say(
                    "The query took longer than {time_limit_s:g} s and was stopped.",
                    time_limit_s=self._time_limit_s,
                ),
                hint=say("Filter the table further, or raise DLPROF_QUERY_TIMEOUT_S."),
            )
        if is_busy_error(error):
            return DatabaseBusyError(say("The database is being written to."), hint=_TRY_AGAIN)
        # A view on what is not there, an expression that fails: the file is not what it claims.
        return _unreadable(error)


def _unreadable(error: sqlite3.DatabaseError) -> DatabaseError:
    if primary_code(error) == sqlite3.SQLITE_TOOBIG:
        limit = LONGEST_SERVED_BYTES >> 20
        return DatabaseError(
            say("A row of the database is longer than the {limit} MiB that are read.", limit=limit),
            hint=say("Names of ops, ranges or kernels of that length come from the program."),
        )
    if primary_code(error) == sqlite3.SQLITE_FULL:
        return DatabaseWriteError(
            say("Sorting the rows takes more room than the temporary folder has."),
            hint=say("Make room in it, then try again."),
        )
    return DatabaseError(
        say("The database cannot be read: {error}.", error=error),
        hint=say("Make it anew with dlprof, or run an integrity check with sqlite3."),
    )


def _temporary_bytes(process: int) -> int:
    """Size of SQLite's temporary files that a process has open; 0 where Linux does not say."""
    total = 0
    with suppress(OSError), os.scandir(f"/proc/{process}/fd") as entries:
        for entry in entries:
            with suppress(OSError):
                if "/etilqs_" in str(Path(entry.path).readlink()):
                    total += entry.stat().st_size
    return total


def plain_value(value: Any) -> Any:
    """Return a value as JSON can hold it: infinity is no measurement, and bytes are text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def plain_tree(value: Any) -> Any:
    """Convert lists and objects of such values."""
    if isinstance(value, Mapping):
        return {str(key): plain_tree(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_tree(item) for item in value]
    return plain_value(value)


@contextmanager
def opened(
    path: Path,
    *,
    time_limit_s: float,
    wait_s: float = BUSY_WAIT_S,
    keep: bool = False,
    is_apart: bool = False,
) -> Iterator[ProfileDatabase]:
    """Open a profile's database for the length of a ``with`` block.

    Args:
        path: The database.
        time_limit_s: How long its queries may take in all.
        wait_s: How long to wait for another process that writes it.
        keep: Whether it may stay open for the next to ask for it.
        is_apart: Whether SQL of unknown origin will be run, for which a limit of time holds only
            in another process.

    Raises:
        DatabaseBusyError: Another process is writing it.
        DatabaseError: It is missing, no DLProf database, too old or too new, or a value in it is
            not what it should be.
    """
    snapshot = open_snapshot(path, wait_s, keep=keep, is_apart=is_apart)
    # No process can commit from here on, so the state is that of what will be read.
    database = ProfileDatabase(snapshot.dldb, time_limit_s=time_limit_s, state=file_state(path))
    is_done = False
    read_by_thread().append(path)
    try:
        yield database
        is_done = True
    except DAMAGE as error:
        # A value of the file is not what it should be; or an error of ours, which the log shows.
        logger.warning("'%s' cannot be read", path, exc_info=True)
        raise damaged(path, error) from error
    finally:
        read_by_thread().remove(path)
        if is_done and database.is_as_opened:
            give_back(snapshot)
        else:
            database.close()
