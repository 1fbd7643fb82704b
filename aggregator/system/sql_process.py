"""Connections to databases whose SQL is of unknown origin: SQLite runs in a process of its own.

SQLite looks whether it shall stop between two of its instructions, and one function on two long
texts is one instruction that takes minutes; so do a thousand functions in a row, and preparing a
view on a view on a view. A process can be killed at any moment.
"""

from __future__ import annotations

import marshal
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any, Final, Self

from aggregator.system.idle_pool import IdlePool

_PROGRAM: Final = "aggregator.system.sql_child"
_FOLDER: Final = str(Path(__file__).resolve().parents[2])
_POLL_S: Final = 0.02
_MOST_SPARE: Final = 4
_LONGEST_SPARE_S: Final = 15.0
"""With the half of it less than ``sql_child.IDLE_S``: one that ends by itself stays a zombie."""
_LIMITED: Final = ("open", "execute", "executemany", "fetch")


class NamedRow(tuple[Any, ...]):
    """A row whose values are also found by their names, as in ``sqlite3.Row``."""

    names: tuple[str, ...]

    def keys(self) -> list[str]:
        """Return the names of the columns."""
        return list(self.names)

    def __getitem__(self, key: Any) -> Any:
        """Return the value of a column, by its place or its name."""
        if not isinstance(key, str):
            return super().__getitem__(key)
        try:
            return super().__getitem__(self.names.index(key))
        except ValueError:
            raise IndexError("No item with that key") from None


class _Child:
    def __init__(self) -> None:
        self.channel, theirs = Pipe()
        with theirs:
            descriptor = theirs.fileno()
            # Not where the user is: a folder named "aggregator" there must not be imported.
            self.process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-m", _PROGRAM, str(descriptor)],
                cwd=_FOLDER,
                pass_fds=(descriptor,),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    def end(self) -> None:
        """Kill the process."""
        self.channel.close()
        self.process.kill()
        self.process.wait()


_SPARES: Final = IdlePool(_MOST_SPARE, _LONGEST_SPARE_S, _Child.end)
"""Processes that have no database open."""


class SqlProcess:
    """A read-only connection with the methods of ``sqlite3.Connection`` that reading needs.

    Not for use by two threads at once. The functions given to ``create_function`` would run here,
    so there is none: ``add_functions`` names those that the other process loads.
    """

    def __init__(self, path: Path, timeout_s: float) -> None:
        """Open a file, as ``connect_read_only`` does.

        Raises:
            sqlite3.Error: It cannot be opened.
        """
        self.row_factory: Any = None
        self.in_transaction = False
        self._is_late: Callable[[], int] | None = None
        self._is_killed = False
        self._child: _Child | None = _SPARES.take() or _Child()
        self._dropped: list[int] = []
        arguments = (str(path.resolve()), timeout_s)
        try:
            self._ask("open", *arguments)
        except BrokenPipeError:  # a spare one that has ended
            self._child.end()
            self._child = _Child()
            self._ask("open", *arguments)

    @property
    def pid(self) -> int:
        """The process, or 0 if it has ended."""
        return 0 if self._child is None else self._child.process.pid

    def cpu_s(self) -> float:
        """Return the processor time that the process has taken."""
        with suppress(OSError):
            stat = Path(f"/proc/{self.pid}/stat").read_bytes().rpartition(b")")[2].split()
            return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
        return 0.0

    def set_progress_handler(self, is_late: Callable[[], int] | None, instructions: int) -> None:
        """Kill the process as soon as the function returns something else than 0."""
        del instructions
        self._is_late = is_late

    def set_authorizer(self, allows: Callable[..., int] | None) -> None:
        """Allow SELECT only, or anything; the other process has ``authorize`` itself."""
        if not self._is_killed:
            self._ask("unrestrict" if allows is None else "restrict")

    def setlimit(self, category: int, limit: int) -> int:
        """Set a limit of SQLite's; returns the one before."""
        return int(self._ask("limit", category, limit))

    def add_functions(self, function: Callable[[sqlite3.Connection], None]) -> None:
        """Have a function of a module add its SQL functions to the connection."""
        self._ask("functions", function.__module__, function.__name__)

    def cursor(self) -> RemoteCursor:
        """Return a cursor that has run nothing yet."""
        return RemoteCursor(self)

    def execute(self, sql: str, params: Mapping[str, Any] | Sequence[Any] = ()) -> RemoteCursor:
        """Run a statement."""
        return self.cursor().execute(sql, params)

    def executemany(self, sql: str, rows: Iterator[Sequence[Any]]) -> None:
        """Run a statement for each row."""
        self._ask("executemany", sql, [tuple(row) for row in rows])

    def rollback(self) -> None:
        """End the transaction, if the process has not been ended with it."""
        if not self._is_killed:
            self._ask("rollback")

    def close(self) -> None:
        """Close the file; the process is used again."""
        child, self._child = self._child, None
        if child is None:
            return
        try:
            self._exchange(child, ("close",))
        except (sqlite3.Error, OSError):
            child.end()
        else:
            _SPARES.give(child)

    def __del__(self) -> None:
        """End the process of a connection that was not closed."""
        child = self.__dict__.pop("_child", None)
        if child is not None:
            child.end()

    def drop(self, cursor: int) -> None:
        """Forget the rest of a cursor's rows, with the next request: this may be any thread."""
        self._dropped.append(cursor)

    def _ask(self, *request: Any) -> Any:
        if self._is_killed:
            raise _interrupted()
        if self._child is None:
            raise sqlite3.ProgrammingError("Cannot operate on a closed database.")
        while self._dropped:
            self._exchange(self._child, ("drop", self._dropped.pop()))
        return self._exchange(self._child, request)

    def _exchange(self, child: _Child, request: tuple[Any, ...]) -> Any:
        is_late = self._is_late if request[0] in _LIMITED else None
        try:
            child.channel.send_bytes(marshal.dumps(request))
            while True:
                is_there = child.channel.poll(_POLL_S)
                # Rows without end come quickly.
                if is_late is not None and is_late():
                    self._kill(child)
                if is_there:
                    break
            reply = marshal.loads(child.channel.recv_bytes())  # noqa: S302 - of our own program
        except (EOFError, ConnectionError) as error:
            if request[0] == "open":
                raise BrokenPipeError from error
            self._kill(child, "the process that read it ended")
        self.in_transaction, is_done, *found = reply
        if is_done:
            return found[0]
        raise _error(*found)

    def _kill(self, child: _Child, reason: str = "") -> None:
        self._child = None
        child.end()
        self.in_transaction = False
        if reason:
            raise sqlite3.DatabaseError(reason)
        self._is_killed = True
        raise _interrupted()


def pid_of(connection: object) -> int:
    """Return the process that runs the SQL of a connection."""
    return connection.pid if isinstance(connection, SqlProcess) else os.getpid()


def cpu_s_of(connection: object) -> float:
    """Return the processor time of another process that runs the SQL of a connection."""
    return connection.cpu_s() if isinstance(connection, SqlProcess) else 0.0


class RemoteCursor:
    """The rows of a statement, of which some are here already."""

    def __init__(self, connection: SqlProcess) -> None:
        self._connection = connection
        self.row_factory = connection.row_factory
        self.description: tuple[tuple[str, ...], ...] | None = None
        self._names: tuple[str, ...] = ()
        self._number = 0
        self._rows: Iterator[Any] = iter(())
        self._has_more = False

    def execute(self, sql: str, params: Mapping[str, Any] | Sequence[Any] = ()) -> Self:
        """Run a statement."""
        plain = dict(params) if isinstance(params, Mapping) else tuple(params)
        self._number, names, rows, self._has_more = self._connection._ask("execute", sql, plain)
        self._names = names or ()
        self.description = names and tuple((name, *[None] * 6) for name in names)
        self._rows = iter(rows)
        return self

    def __iter__(self) -> Self:
        """Return the itself, as it has its rows once."""
        return self

    def __next__(self) -> Any:
        """Return the next row."""
        row = next(self._rows, None)
        while row is None:
            if not self._has_more:
                raise StopIteration
            rows, self._has_more = self._connection._ask("fetch", self._number)
            self._rows = iter(rows)
            row = next(self._rows, None)
        if self.row_factory is None:
            return row
        named = NamedRow(row)
        named.names = self._names
        return named

    def fetchone(self) -> Any:
        """Return the next row, or None if there is none."""
        return next(self, None)

    def fetchmany(self, size: int = 1) -> list[Any]:
        """Return the next rows, at most ``size``."""
        return list(islice(self, size))

    def fetchall(self) -> list[Any]:
        """Return all rows that are left."""
        return list(self)

    def close(self) -> None:
        """Forget the rest."""
        self.__del__()

    def __del__(self) -> None:
        """Let the other process forget the rest, too: an open one keeps its lock."""
        if self._has_more:
            self._has_more = False
            self._connection.drop(self._number)


def _interrupted() -> Exception:
    return _error("OperationalError", "interrupted", sqlite3.SQLITE_INTERRUPT)


_OTHER_ERRORS: Final = {error.__name__: error for error in (MemoryError, OverflowError, ValueError)}


def _error(name: str, message: str, code: int) -> Exception:
    """Return an error as the other process raised it."""
    known = getattr(sqlite3, name, None) or _OTHER_ERRORS.get(name)
    if not (isinstance(known, type) and issubclass(known, Exception)):
        return sqlite3.DatabaseError(f"{name}: {message}")
    error = known(message)
    if isinstance(error, sqlite3.Error):
        error.sqlite_errorcode = code
    return error
