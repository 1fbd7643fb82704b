"""Opening SQLite files, without the libraries that read them fast: the viewer starts with this.

Every file that may be anyone's is opened here. SQLite parses the schema of a file before its first
statement, and computes what the columns of the statistics in it say: both are limited. Tables may
then be read in this process if ``plain_tables`` names them; views only in another one
(``sql_process``).

A database that others may be using is opened through Python's own ``sqlite3`` only. Closing any
other descriptor of the file, in whatever way it was opened, drops all locks that the process holds
on it (POSIX), and a second SQLite library in the process knows nothing of the locks of the first.
"""

from __future__ import annotations

import re
import sqlite3
import time
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

LONGEST_VALUE_BYTES = 64 * 2**20
"""No value of a profile is longer; a view that makes a longer one fails."""
LONGEST_SQL_BYTES = 32_768
"""No statement of a schema is longer: Nsight Systems writes up to 4,400 bytes, we up to 7,000."""
_SCHEMA_LIMIT_S = 0.5
"""Processor time for parsing a schema; the one of 150 tables and views takes 0.006 s."""
_INSTRUCTIONS_PER_CHECK = 10
"""One function on two texts of ``LONGEST_SQL_BYTES`` takes up to 0.02 s."""
_MOST_OBJECTS = 10_000
_OLDEST_LIBRARY = (3, 37)
"""The first one that lists the kinds of tables; ``trusted_schema`` is of 3.31."""


class SchemaLimitError(sqlite3.DatabaseError):
    """A schema is larger, or computes more, than any of a profile."""


def read_only_uri(path: Path) -> str:
    """SQLite URI that opens the file for reading only, whatever characters its name has."""
    return f"file:{quote(str(path.resolve()))}?mode=ro"


def connect_read_only(path: Path, timeout_s: float = 5.0) -> sqlite3.Connection:
    """Open a database that may be anyone's file, and read its schema within limits.

    Its SQL gets no side effects and no large values.

    Args:
        path: The file.
        timeout_s: How long each statement waits for the lock of another process.

    Raises:
        sqlite3.Error: It cannot be opened, or its schema is too large or computes.
    """
    connection = connect_unread(path, timeout_s)
    try:
        read_schema(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_unread(path: Path, timeout_s: float) -> sqlite3.Connection:
    """Open as ``connect_read_only`` does, but without limits on the schema, which is not read yet.

    For a process that can be killed, and for who calls ``read_schema`` first.
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


def read_schema(connection: sqlite3.Connection) -> None:
    """Have SQLite parse the schema: the first statement on a connection, within small limits.

    Afterwards the connection has no progress handler.

    Raises:
        SchemaLimitError: The schema is beyond the limits.
        sqlite3.Error: It cannot be read.
    """
    deadline_s = time.thread_time() + _SCHEMA_LIMIT_S
    longest = connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_SQL_BYTES)
    connection.set_progress_handler(
        lambda: time.thread_time() > deadline_s, _INSTRUCTIONS_PER_CHECK
    )
    try:
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
        # An end of reading the statistics is no error of SQLite's.
        if time.thread_time() > deadline_s:
            raise SchemaLimitError(_BEYOND)
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_TOOBIG):
            raise SchemaLimitError(_BEYOND) from error
        raise
    finally:
        connection.set_progress_handler(None, 0)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, longest)


_BEYOND = "its schema is too large, or computes"


def plain_tables(connection: sqlite3.Connection) -> frozenset[str]:
    """Return the names of the tables in a file; to read them runs no SQL that the file holds.

    What a row of the schema says about itself need not be so: its statement decides. SQLite refuses
    a file with two objects of one name.

    Raises:
        SchemaLimitError: A table is computed, or there are too many objects.
    """
    master = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL LIMIT ?"
    rows = connection.execute(master, (_MOST_OBJECTS,)).fetchall()
    if len(rows) == _MOST_OBJECTS:
        raise SchemaLimitError(f"it holds {_MOST_OBJECTS:,} objects or more")
    hidden = "SELECT 1 FROM pragma_table_xinfo(?) WHERE hidden > 1"
    names: list[str] = []
    for kind, name, sql in rows:
        if kind != "table":
            is_plain = str(sql).startswith(_OTHERS)
        else:
            found = _TABLE.match(str(sql))
            is_plain = (
                found is not None
                and _unquoted(found[1]) == name
                and not connection.execute(hidden, (name,)).fetchone()
            )
            names.append(str(name))
        if not is_plain:
            raise SchemaLimitError(f"{str(name)[:80]!r} in it is computed")
    return frozenset(names)


# SQLite stores each statement in one form, however it was written.
_TABLE = re.compile(
    r"""CREATE TABLE ("(?:[^"]|"")*"|'(?:[^']|'')*'|`(?:[^`]|``)*`|\[[^]]*\]|[^\s(,;"'`\[]+)"""
)
_OTHERS = ("CREATE VIEW ", "CREATE INDEX ", "CREATE UNIQUE INDEX ", "CREATE TRIGGER ")


def _unquoted(name: str) -> str:
    quote_mark = name[0]
    if quote_mark == "[":
        return name[1:-1]
    if quote_mark in "\"'`":
        return name[1:-1].replace(2 * quote_mark, quote_mark)
    return name


lenient_text = partial(str, encoding="utf-8", errors="replace")
"""Text factory for files that may be damaged: their text need not be UTF-8."""


def as_text(value: Any) -> str | None:
    """A text; numbers and bytes are converted, so that rows with damaged names stay different."""
    if value is None or isinstance(value, str):
        return value
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def is_busy(text: str) -> bool:
    """Return whether an SQLite error's text says that another connection has the file locked.

    The phrase as SQLite words it: names of tables and columns may hold its words.
    """
    return any(phrase in text for phrase in _BUSY)


def is_full(text: str) -> bool:
    """Return whether an SQLite error's text says that the disk is full or failed."""
    return any(phrase in text for phrase in _FULL)


_FULL = ("database or disk is full", "disk I/O error")
"""``sqlite3_errstr`` of SQLITE_FULL and SQLITE_IOERR: readers, too, write temporary files."""

_BUSY = ("database is locked", "table is locked", "is busy")
"""``sqlite3_errstr`` of SQLITE_BUSY and SQLITE_LOCKED, and how ADBC may end it."""
