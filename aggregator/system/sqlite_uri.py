"""Opening SQLite files, without the libraries that read them fast: the viewer starts with this.

A database that others may be using is opened through Python's own ``sqlite3`` only. Closing any
other descriptor of the file, in whatever way it was opened, drops all locks that the process holds
on it (POSIX), and a second SQLite library in the process knows nothing of the locks of the first.
"""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

LONGEST_VALUE_BYTES = 64 * 2**20
"""No value of a profile is longer; a view that makes a longer one fails."""
_OLDEST_LIBRARY = (3, 37)
"""The first one that lists the kinds of tables; ``trusted_schema`` is of 3.31."""


def read_only_uri(path: Path) -> str:
    """SQLite URI that opens the file for reading only, whatever characters its name has."""
    return f"file:{quote(str(path.resolve()))}?mode=ro"


def connect_read_only(path: Path, timeout_s: float = 5.0) -> sqlite3.Connection:
    """Open a database that may be anyone's file: its SQL gets no side effects and no large values.

    Args:
        path: The file.
        timeout_s: How long each statement waits for the lock of another process.

    Raises:
        sqlite3.Error: It cannot be opened.
    """
    if sqlite3.sqlite_version_info < _OLDEST_LIBRARY:
        needed = ".".join(map(str, _OLDEST_LIBRARY))
        raise sqlite3.NotSupportedError(
            f"SQLite {needed} or newer is needed, and Python has {sqlite3.sqlite_version}"
        )
    connection = sqlite3.connect(
        read_only_uri(path), uri=True, timeout=timeout_s, check_same_thread=False
    )
    connection.text_factory = lenient_text
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE_BYTES)
    for pragma in ("query_only", "cell_size_check"):
        connection.execute(f"PRAGMA {pragma} = ON")
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


lenient_text = partial(str, encoding="utf-8", errors="replace")
"""Text factory for files that may be damaged: their text need not be UTF-8."""


def as_text(value: Any) -> str | None:
    """A text; numbers and bytes are converted, so that rows with damaged names stay different."""
    if value is None or isinstance(value, str):
        return value
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def is_busy(text: str) -> bool:
    """Whether an SQLite error's text says that another connection has the file locked.

    The phrase as SQLite words it: names of tables and columns may hold its words.
    """
    return any(phrase in text for phrase in _BUSY)


def is_full(text: str) -> bool:
    """Whether an SQLite error's text says that the disk is full or failed."""
    return any(phrase in text for phrase in _FULL)


_FULL = ("database or disk is full", "disk I/O error")
"""``sqlite3_errstr`` of SQLITE_FULL and SQLITE_IOERR: readers, too, write temporary files."""

_BUSY = ("database is locked", "table is locked", "is busy")
"""``sqlite3_errstr`` of SQLITE_BUSY and SQLITE_LOCKED, and how ADBC may end it."""
