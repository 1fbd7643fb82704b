"""Limits for databases of unknown origin, whose views and triggers are SQL of unknown origin."""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TypeVar

from aggregator.dldb.column_blobs import COLUMNS, triggers
from aggregator.errors import NotADldbError, QueryTimeoutError
from aggregator.system.select_only import authorize
from aggregator.system.sql_process import cpu_s_of
from aggregator.texts import say

T = TypeVar("T")

DAMAGE = (ValueError, TypeError, KeyError, IndexError, OverflowError)
"""What values of a damaged file raise when they are read as what they should be."""

_INSTRUCTIONS_PER_CHECK = 5_000
"""SQLite calls back after that many of its instructions: about 0.4 ms of work."""
GLANCE_S = 10.0  # Limit for reading a few values. Unit: s of processor time.
_LEAST_LIMIT_S = 60.0
_LEAST_BYTES_PER_S = 1e6  # Every database of this program is read faster than that.
_FEW = 10_000
LIMIT_VARIABLE = "DLPROF_EXPORT_TIMEOUT_S"


def guard(connection: sqlite3.Connection, is_late: Callable[[], int]) -> None:
    """Allow nothing but SELECT, and end it when ``is_late`` returns 1.

    In this process SQLite asks between two instructions. That is enough for our own SQL, whose
    instructions take microseconds; ``reader.open_database`` leaves other SQL to another process.
    """
    connection.set_progress_handler(is_late, _INSTRUCTIONS_PER_CHECK)
    connection.set_authorizer(authorize)


@contextmanager
def limited(connection: sqlite3.Connection, path: Path, limit_s: float) -> Iterator[None]:
    """Read a database whose views are not trusted: SELECT only, for a limited time.

    Args:
        connection: Its connection.
        path: The file, for the message.
        limit_s: How long the thread may compute in the block: on a busy machine or a slow disk an
            honest database takes its time, too.

    Raises:
        QueryTimeoutError: It took more.
    """

    def cpu_s() -> float:
        return time.thread_time() + cpu_s_of(connection)

    deadline = cpu_s() + limit_s
    guard(connection, lambda: int(cpu_s() > deadline))
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_INTERRUPT:
            raise
        raise QueryTimeoutError(
            say(
                "Reading '{path}' took more than {limit_s:g} s of processor time and was stopped.",
                path=str(path),
                limit_s=limit_s,
            ),
            hint=say(
                "Make it again with: dlprof --database=<nsys export>. If it is only large, raise "
                "{name}.",
                name=LIMIT_VARIABLE,
            ),
        ) from error
    finally:
        connection.set_authorizer(None)
        connection.set_progress_handler(None, 0)


def few_rows(rows: Iterable[T]) -> list[T]:
    """All rows of what has few: a view without end would fill the memory before its time is up.

    Raises:
        sqlite3.DatabaseError: There are more.
    """
    found = list(islice(rows, _FEW + 1))
    if len(found) > _FEW:
        raise sqlite3.DatabaseError(f"it holds more than {_FEW:,} rows where few belong")
    return found


def time_limit_s(path: Path) -> float:
    """Processor time for reading all of a database: what the environment says, else by its size."""
    try:
        return float(os.environ[LIMIT_VARIABLE])
    except (KeyError, ValueError):
        return _LEAST_LIMIT_S + path.stat().st_size // _LEAST_BYTES_PER_S


_COMPUTING = re.compile(r"\bCHECK\b|\bDEFAULT\s*\(", re.IGNORECASE)
_COMPUTED = """
SELECT name FROM pragma_table_list WHERE type NOT IN ('table', 'view')
UNION ALL
SELECT m.name FROM sqlite_master m, pragma_table_xinfo(m.name) c
WHERE m.type = 'table' AND c.hidden > 1
UNION ALL
SELECT i.name FROM sqlite_master m, pragma_index_list(m.name) i, pragma_index_xinfo(i.name) c
WHERE m.type = 'table' AND (i.partial OR c.cid = -2)
"""
"""Virtual tables, computed columns, and indexes on expressions or under conditions."""


def check_tables(connection: sqlite3.Connection, path: Path, tables: frozenset[str]) -> None:
    """Refuse to write to a database of this program if that would run SQL in the file.

    Args:
        connection: Open connection.
        path: The file, for the message.
        tables: Names of our tables: a view in place of one is not ours.

    Raises:
        NotADldbError: It holds a foreign trigger, a virtual table, computed columns, constraints or
            indexes that evaluate expressions, or a view in place of a table.
    """
    master = connection.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_master")
    own = {name: sql for table in COLUMNS for name, sql in triggers(table).items()}
    strange = [
        name
        for kind, name, sql in (tuple(map(str, row)) for row in master)
        if (kind == "trigger" and own.get(name) != sql)
        or (kind == "view" and name in tables)
        or (kind == "table" and _COMPUTING.search(sql))
    ]
    strange += [str(row[0]) for row in connection.execute(_COMPUTED)]
    if strange:
        raise NotADldbError(
            say(
                "'{path}' holds {name!r}, which would run SQL that is not ours.",
                path=str(path),
                name=strange[0][:80],
            ),
            hint=say("Make it again with: dlprof --database=<nsys export>"),
        )
