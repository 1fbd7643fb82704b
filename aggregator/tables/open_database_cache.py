"""Opens a file and keeps it from changing; between two requests an unchanged one stays open.

For each connection SQLite parses the whole schema anew: 6 ms of CPU time for a database's views.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path

from aggregator.dldb.reader import Dldb, is_busy_error, open_database
from aggregator.errors import DatabaseBusyError
from aggregator.system.idle_pool import IdlePool
from aggregator.system.temporary_files import await_commit
from aggregator.tables.counts import file_state
from aggregator.texts import say

_OPEN_PAUSE_S = 0.05
_MOST_IDLE = 8
_LONGEST_IDLE_S = 5.0  # The space of a deleted file is free that long after the last request.


@dataclass(frozen=True)
class Snapshot:
    """An open database within a transaction: all queries see the same state."""

    dldb: Dldb
    state: Hashable  # Of the file since before it was opened; None: it changed, or may be changing.


def _idle_pool() -> IdlePool[Snapshot]:
    return IdlePool(_MOST_IDLE, _LONGEST_IDLE_S, lambda snapshot: snapshot.dldb.close())


_IDLE = _idle_pool()
"""Open databases that are not in use. They hold no lock, so that others may write the file."""


def _take_idle(path: Path) -> Snapshot | None:
    """Return one of a file that has not changed since it was opened."""
    state = file_state(path)
    return _IDLE.take(lambda snapshot: snapshot.dldb.path == path and snapshot.state == state)


def open_snapshot(
    path: Path, wait_s: float, *, keep: bool = False, is_apart: bool = False
) -> Snapshot:
    """Open a file and keep it from changing: all queries of a request see the same state.

    A writer that announces its commit is let in first, unless this thread reads the file already:
    it would wait for itself.

    While a writer commits, SQLite may say that the file is locked or (a race in its search for a
    left-over journal, which a read-only connection cannot roll back) read-only. Both pass.

    Args:
        path: The file.
        wait_s: How long to wait for another process that writes it.
        keep: It may be one that was opened before, and ``give_back`` may keep it open.
        is_apart: As for ``open_database``.

    Raises:
        DatabaseBusyError: The writer did not end within ``wait_s``.
        DatabaseError: The file is missing, no DLProf database, too old or too new.
    """
    deadline = time.monotonic() + wait_s
    if path not in read_by_thread() and not await_commit(path, wait_s):
        raise _busy()
    wait_s = max(deadline - time.monotonic(), 0.0)
    if keep and (snapshot := _take_idle(path)) is not None:
        if _begin_again(snapshot, wait_s):
            return snapshot
        snapshot.dldb.close()
    before = file_state(path)
    dldb = _wait_and_open(path, wait_s, is_apart=is_apart)
    # No process can commit from here on, but another file may have got the name.
    is_settled = keep and before == file_state(path) and not _has_write_ahead_log(dldb)
    return Snapshot(dldb, before if is_settled else None)


_thread = threading.local()


def read_by_thread() -> list[Path]:
    """Return the files of which this thread has snapshots."""
    found: list[Path] = _thread.__dict__.setdefault("read", [])
    return found


def give_back(snapshot: Snapshot) -> None:
    """End the transaction, whose queries have all ended; keep the database open if it may be."""
    connection = snapshot.dldb.connection
    if snapshot.state is None:
        connection.close()
        return
    connection.set_authorizer(None)
    connection.set_progress_handler(None, 0)
    connection.rollback()
    _IDLE.give(snapshot)


def begin_reading(connection: sqlite3.Connection) -> None:
    """Begin a transaction in which all that is read is of one state."""
    if not connection.in_transaction:
        connection.execute("BEGIN")
    # The lock is taken by the first read, not by BEGIN.
    connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()


def _has_write_ahead_log(dldb: Dldb) -> bool:
    """Whether changes do not show in the file, and an open connection keeps the log there."""
    found: str = dldb.connection.execute("PRAGMA journal_mode").fetchone()[0]
    return found == "wal"


def _begin_again(snapshot: Snapshot, wait_s: float) -> bool:
    """Whether the file, now that it cannot be changed, is still as it was when it was opened."""
    connection = snapshot.dldb.connection
    try:
        connection.execute("PRAGMA busy_timeout = 0")
        begin_reading(connection)
        connection.execute(f"PRAGMA busy_timeout = {round(1000 * wait_s)}")
    except sqlite3.Error:
        return False
    return snapshot.state == file_state(snapshot.dldb.path)


def _wait_and_open(path: Path, wait_s: float, *, is_apart: bool) -> Dldb:
    deadline = time.monotonic() + wait_s
    while True:
        try:
            left_s = max(deadline - time.monotonic(), 0.0)
            return _begin(open_database(path, left_s, is_apart=is_apart))
        except (DatabaseBusyError, sqlite3.OperationalError) as error:
            if isinstance(error, sqlite3.OperationalError) and not is_busy_error(error):
                raise
            if time.monotonic() > deadline:
                raise _busy() from error
        time.sleep(_OPEN_PAUSE_S)


def _busy() -> DatabaseBusyError:
    return DatabaseBusyError(
        say("The database is being written to, or its last change was broken off in the middle."),
        hint=say("Try again; if that does not help, aggregate it anew, which repairs it."),
    )


def _begin(dldb: Dldb) -> Dldb:
    try:
        begin_reading(dldb.connection)
    except sqlite3.OperationalError:
        dldb.close()
        raise
    return dldb
