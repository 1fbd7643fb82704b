"""Databases that a user gives as ranks: looked at before they are trusted like parts made here."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from aggregator.dldb.guarded import DAMAGE
from aggregator.dldb.writer import schema_sql
from aggregator.errors import NotADldbError
from aggregator.ranks.parts import Part
from aggregator.texts import say

_TABLE = re.compile(r"^CREATE TABLE (\w+)", re.MULTILINE)
_NUMBERED = "id"
_DAMAGE = (*DAMAGE, MemoryError, sqlite3.DatabaseError)


def require_own_layout(part: Part) -> None:
    """Refuse a database whose tables are not those that this version writes.

    A view in place of a table would run somebody's SQL, and row ids that leave gaps would need
    memory that no rank needs.

    Raises:
        NotADldbError: It has others, or ones that are damaged.
    """
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
    tables = {str(row[0]) for row in part.connection.execute(query)}
    with closing(sqlite3.connect(":memory:")) as plain:
        plain.executescript(schema_sql())
        for table in _TABLE.findall(schema_sql()):
            expected = _columns(plain, table)
            if table not in tables or _columns(part.connection, table) != expected:
                raise _other_version(part)
            if expected[0][0] == _NUMBERED and not _is_dense(part.connection, table):
                raise _damaged(part, f"row ids of {table}")


def _columns(connection: sqlite3.Connection, table: str) -> list[tuple[str, str, int]]:
    """Name, type and kind (0: a plain column) of each column."""
    found = connection.execute(f"PRAGMA table_xinfo({table})")
    return [(str(row[1]), str(row[2]), int(row[6])) for row in found]


def _is_dense(connection: sqlite3.Connection, table: str) -> bool:
    query = f"SELECT count(*), coalesce(min(id), 1), coalesce(max(id), 0) FROM {table}"
    count, first, last = connection.execute(query).fetchone()
    return bool(first >= 1 and last == count)


@contextmanager
def damage_of(parts: list[Part]) -> Iterator[None]:
    """What values of a damaged database raise, as one sentence; only where one was given."""
    given = [part for part in parts if part.is_given]
    try:
        yield
    except _DAMAGE as error:
        if not given:
            raise
        raise _damaged(
            given[0], str(error).splitlines()[0][:200] or type(error).__name__
        ) from error


def _other_version(part: Part) -> NotADldbError:
    return NotADldbError(
        say(
            "'{file}' cannot be joined with other ranks: {error}.",
            file=part.label,
            error=say("another version made it"),
        ),
        hint=say("Give the Nsight Systems export, or make the database again with this version."),
    )


def _damaged(part: Part, what: str) -> NotADldbError:
    return NotADldbError(
        say("The database '{path}' is damaged: {error}.", path=part.label, error=what),
        hint=say("Give the Nsight Systems export, or make the database again with this version."),
    )
