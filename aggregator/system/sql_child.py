"""Runs SQL of unknown origin for another process: ``python -m aggregator.system.sql_child FD``.

It ends with the process that it works for, whatever SQLite is computing: a thread waits for that,
as SQLite computes without Python's lock. It imports little: each start is waited for.
"""

from __future__ import annotations

import importlib
import marshal
import os
import resource
import select
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from aggregator.system.select_only import authorize
from aggregator.system.sqlite_uri import connect_unread

_MOST_MEMORY_BYTES = 4 * 2**30
_BATCH_BYTES = 2**18
_FIRST_ROWS, _BATCH_ROWS = 64, 4096
IDLE_S = 30.0
"""A process that has no database open ends after so long."""


class _Server:
    """One connection at a time; each request is a tuple, as is each answer."""

    def __init__(self) -> None:
        self._connection: sqlite3.Connection | None = None
        self._cursors: dict[int, Iterator[Sequence[Any]]] = {}
        self._next = 0
        self._operations: dict[str, Callable[..., Any]] = {
            "open": self._open,
            "close": self._close,
            "execute": self._execute,
            "executemany": self._executemany,
            "fetch": self._fetch,
            "drop": self._drop,
            "rollback": self._rollback,
            "restrict": self._restrict,
            "unrestrict": self._unrestrict,
            "limit": self._limit,
            "functions": self._functions,
        }

    def answer(self, request: tuple[Any, ...]) -> Any:
        """Return the answer to ``(name of an operation, argument ...)``."""
        return self._operations[request[0]](*request[1:])

    @property
    def is_idle(self) -> bool:
        """Whether no database is open."""
        return self._connection is None

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._connection is not None and self._connection.in_transaction

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            raise sqlite3.ProgrammingError("Cannot operate on a closed database.")
        return self._connection

    def _open(self, path: str, timeout_s: float) -> None:
        self._connection = connect_unread(Path(path), timeout_s)

    def _close(self) -> None:
        self._cursors.clear()
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _execute(self, sql: str, params: Any) -> Any:
        cursor = self._opened().execute(sql, params)
        names = cursor.description and tuple(column[0] for column in cursor.description)
        self._next += 1
        self._cursors[self._next] = cursor
        return self._next, names, *self._fetch(self._next, _FIRST_ROWS)

    def _executemany(self, sql: str, rows: list[Any]) -> None:
        self._opened().executemany(sql, rows)

    def _fetch(self, number: int, most: int = _BATCH_ROWS) -> tuple[list[Any], bool]:
        """Return some rows of a cursor, and whether there may be more."""
        rows: list[Any] = []
        size = 0
        cursor = self._cursors.get(number, iter(()))
        for row in islice(cursor, most):
            rows.append(tuple(row))
            size += sum(len(value) for value in row if isinstance(value, str | bytes))
            if size > _BATCH_BYTES:
                return rows, True
        if len(rows) < most:
            self._cursors.pop(number, None)
        return rows, len(rows) == most

    def _drop(self, number: int) -> None:
        self._cursors.pop(number, None)

    def _rollback(self) -> None:
        self._opened().rollback()

    def _restrict(self) -> None:
        self._opened().set_authorizer(authorize)

    def _unrestrict(self) -> None:
        self._opened().set_authorizer(None)

    def _limit(self, category: int, limit: int) -> int:
        return self._opened().setlimit(category, limit)

    def _functions(self, module: str, name: str) -> None:
        getattr(importlib.import_module(module), name)(self._opened())


def _end_with_parent(descriptor: int) -> None:
    poll = select.poll()
    poll.register(descriptor, 0)  # its other end was closed: POLLHUP is always reported
    poll.poll()
    os._exit(0)


def serve(channel: Connection) -> None:
    """Answer until the other end is closed."""
    server = _Server()
    while not server.is_idle or channel.poll(IDLE_S):
        request = marshal.loads(channel.recv_bytes())  # noqa: S302 - of the process that started it
        try:
            reply: tuple[Any, ...] = (True, server.answer(request))
        except Exception as error:  # noqa: BLE001 - the other process raises it
            code = int(getattr(error, "sqlite_errorcode", 0) or 0)
            reply = (False, type(error).__name__, str(error), code)
        channel.send_bytes(marshal.dumps((server.in_transaction, *reply)))


def main() -> None:
    """Serve the socket whose number is the argument."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started it
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY_BYTES, _MOST_MEMORY_BYTES))
    descriptor = int(sys.argv[1])
    threading.Thread(target=_end_with_parent, args=(descriptor,), daemon=True).start()
    try:
        serve(Connection(descriptor))
    except (EOFError, OSError):
        os._exit(0)


if __name__ == "__main__":
    main()
