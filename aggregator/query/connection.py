"""A profile's database as the server may use it: read only, for a limited time, SELECT only."""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from aggregator.dldb.guarded import authorize, guard
from aggregator.dldb.reader import Dldb, open_database
from aggregator.errors import (
    DatabaseBusyError,
    DatabaseError,
    NotADldbError,
    QueryTimeoutError,
)
from aggregator.program_line import program_line
from aggregator.query.counts import COUNTS, file_state
from aggregator.texts import ENGLISH, from_json, say
from aggregator.texts.language import current_language

_ROWS_PER_FETCH = 2_000
_INFO = "view_profile_info"
_TEXTS = "view_texts"
_OPEN_ATTEMPTS = 20
_OPEN_PAUSE_S = 0.05
#: A writer that was let in commits an aggregation of millions of rows.
_GO_ON_ATTEMPTS = 1_200
#: What SQLite says while somebody else writes.
_PASSING = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY})

_TRY_AGAIN = say("Try again in a moment.")

Params = Mapping[str, str | int | float | None]
Row = tuple[Any, ...]


def _program_line(stack_trace: object) -> str | None:
    """For SQL; a value of another kind, which a strange file may hold, has none."""
    return program_line(stack_trace) if isinstance(stack_trace, str) else None


class Queryable(Protocol):
    """What the SQL of a table needs to know and to do."""

    def has(self, view: str, column: str = "") -> bool:
        """Whether there is such a view, and such a column if one is named."""

    def is_measured(self, flag: str) -> bool:
        """Whether what the flag stands for was measured."""

    @property
    def texts(self) -> Mapping[str, str]:
        """The sentences stored in it, with what they were made of."""

    def rows(self, sql: str, params: Params | None = None) -> list[Row]:
        """All rows of a query."""

    def iter_rows(self, sql: str, params: Params | None = None) -> Iterator[Row]:
        """Rows of a query, not all in memory at once."""

    def count(self, sql: str, params: Params) -> int:
        """The number that a query delivers."""

    @property
    def state(self) -> Hashable:
        """What changes whenever the rows may; None: it cannot be told."""


class ProfileDatabase:
    """An open database with limits. Not for sharing between threads."""

    def __init__(self, dldb: Dldb, *, time_limit_s: float, state: Hashable = None) -> None:
        self._dldb = dldb
        self._state = state
        self._deadline = time.monotonic() + time_limit_s
        self._time_limit_s = time_limit_s
        self._columns: dict[str, frozenset[str]] = {}
        connection = dldb.connection
        connection.create_function("program_line", 1, _program_line, deterministic=True)
        guard(connection, self._is_late)

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
        """What changes whenever the file does; None: it cannot be told."""
        return self._state

    def has(self, view: str, column: str = "") -> bool:
        """Whether the database offers a view, and a column of it if one is named."""
        if view not in self._dldb.views:
            return False
        return not column or column in self.columns(view)

    def columns(self, view: str) -> frozenset[str]:
        """Columns of a view; none if it is absent."""
        if view not in self._columns:
            present = view in self._dldb.views
            # The dldb asks by PRAGMA, which our own rule would forbid.
            self._dldb.connection.set_authorizer(None)
            self._columns[view] = frozenset(self._dldb.columns(view)) if present else frozenset()
            self._dldb.connection.set_authorizer(authorize)
        return self._columns[view]

    def is_measured(self, flag: str) -> bool:
        """Whether the profile measured something; one that says nothing about it did."""
        return self.info.get(flag) != "0"

    @cached_property
    def info(self) -> dict[str, str]:
        """What the profile says about itself; empty for a database of NVIDIA's."""
        if not (self.has(_INFO, "key") and self.has(_INFO, "value")):
            return {}
        return {
            str(key): value for key, value in self.rows("SELECT key, value FROM view_profile_info")
        }

    @cached_property
    def texts(self) -> dict[str, str]:
        """The sentences stored in the database, with what they were made of; none in English.

        A stored sentence is looked up to be translated; whatever is missing stays as it is.
        """
        if current_language() == ENGLISH or not self.has(_TEXTS):
            return {}
        rows = self.rows("SELECT text, made_of FROM view_texts")
        return {str(text): from_json(str(made_of), str(text)) for text, made_of in rows}

    def rows(self, sql: str, params: Params | None = None) -> list[Row]:
        """All rows of a query."""
        with self._translated():
            cursor = self._dldb.connection.execute(sql, dict(params or {}))
            return [tuple(map(plain_value, row)) for row in cursor.fetchall()]

    def iter_rows(self, sql: str, params: Params | None = None) -> Iterator[Row]:
        """Rows of a query, a few thousand in memory at a time."""
        with self._translated():
            cursor = self._dldb.connection.execute(sql, dict(params or {}))
            while batch := cursor.fetchmany(_ROWS_PER_FETCH):
                yield from (tuple(row) for row in batch)

    def count(self, sql: str, params: Params) -> int:
        """The number that a query delivers; asked once while the file stays as it is."""
        return COUNTS.get(self._state, sql, params, lambda: int(self.rows(sql, params)[0][0]))

    def let_go(self) -> None:
        """Let a writer that waits commit, then read on: what is read from here on may be newer.

        Raises:
            DatabaseBusyError: The writer did not end.
        """
        # The state of the file was that of the rows read so far.
        self._state = None
        connection = self._dldb.connection
        connection.rollback()
        for _ in range(_GO_ON_ATTEMPTS):
            try:
                _begin_reading(connection)
            except sqlite3.OperationalError as error:
                if not _is_passing(error):
                    raise self._translate(error) from error
                time.sleep(_OPEN_PAUSE_S)
            else:
                return
        raise DatabaseBusyError(say("The database is being written to."), hint=_TRY_AGAIN)

    def close(self) -> None:
        """Give the file back."""
        self._dldb.close()

    def _is_late(self) -> int:
        return int(time.monotonic() > self._deadline)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise self._translate(error) from error
        except sqlite3.DatabaseError as error:
            raise DatabaseError(
                say("The database cannot be read: {error}.", error=error),
                hint=say("Make it anew with dlprof, or run an integrity check with sqlite3."),
            ) from error

    def _translate(self, error: sqlite3.OperationalError) -> Exception:
        code = _primary_code(error)
        if code == sqlite3.SQLITE_INTERRUPT:
            return QueryTimeoutError(
                say(
                    "The query took longer than {time_limit_s:g} s and was stopped.",
                    time_limit_s=self._time_limit_s,
                ),
                hint=say("Filter the table further, or raise DLPROF_QUERY_TIMEOUT_S."),
            )
        if code in _PASSING:
            return DatabaseBusyError(say("The database is being written to."), hint=_TRY_AGAIN)
        # A view on what is not there, an expression that fails: the file is not what it claims.
        return DatabaseError(
            say("The database cannot be read: {error}.", error=error),
            hint=say("Make it anew with dlprof, or run an integrity check with sqlite3."),
        )


def plain_value(value: Any) -> Any:
    """A value as JSON can hold it: infinity is no measurement, and bytes are text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def plain_tree(value: Any) -> Any:
    """Lists and objects of such values."""
    if isinstance(value, Mapping):
        return {str(key): plain_tree(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_tree(item) for item in value]
    return plain_value(value)


@contextmanager
def opened(path: Path, *, time_limit_s: float) -> Iterator[ProfileDatabase]:
    """A profile's database for the length of a ``with`` block.

    Raises:
        DatabaseError: It is missing, no DLProf database, too old or too new.
    """
    snapshot = _open_snapshot(path)
    # Nobody can commit from here on, so the state is that of what will be read.
    database = ProfileDatabase(snapshot, time_limit_s=time_limit_s, state=file_state(path))
    try:
        yield database
    finally:
        database.close()


def _open_snapshot(path: Path) -> Dldb:
    """Open a file and keep it from changing: all queries of a request see the same state.

    While a writer commits, SQLite may tell a reader that the file is locked, or (a race in its
    search for a left-over journal, which a read-only connection cannot roll back) that it is
    read-only. Both pass.
    """
    for _ in range(_OPEN_ATTEMPTS):
        try:
            return _begin(open_database(path))
        except NotADldbError as error:
            if not _is_passing(error.__cause__):
                raise
        except sqlite3.OperationalError as error:
            if not _is_passing(error):
                raise
        time.sleep(_OPEN_PAUSE_S)
    raise DatabaseBusyError(
        say("The database is being written to, or its last change was broken off in the middle."),
        hint=say("Try again; if that does not help, aggregate it anew, which repairs it."),
    )


def _begin(dldb: Dldb) -> Dldb:
    try:
        _begin_reading(dldb.connection)
    except sqlite3.OperationalError:
        dldb.close()
        raise
    return dldb


def _begin_reading(connection: sqlite3.Connection) -> None:
    """All that is read until the end of the transaction is of one state."""
    if not connection.in_transaction:
        connection.execute("BEGIN")
    # The lock is taken by the first read, not by BEGIN.
    connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()


def _is_passing(error: BaseException | None) -> bool:
    return isinstance(error, sqlite3.OperationalError) and _primary_code(error) in _PASSING


def _primary_code(error: sqlite3.OperationalError) -> int:
    """The kind of an error, without the details that SQLite keeps in the upper bits."""
    return error.sqlite_errorcode & 0xFF
