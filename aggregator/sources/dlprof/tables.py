"""Tables of a DLProf database of any version: integer columns and texts by name."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing, contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from aggregator.errors import CorruptProfileError, NotADldbError
from aggregator.sources.arrow_columns import arrow_connection, integers
from aggregator.sources.formats import READ_ERRORS
from aggregator.system.select_only import authorize
from aggregator.system.sql_process import SqlProcess
from aggregator.system.sqlite_uri import SchemaLimitError, connect_read_only, plain_tables
from aggregator.texts import say

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from aggregator.profile.arrays import Int64
    from aggregator.system.progress import Progress
    from aggregator.system.sqlite_arrow import ArrowConnection

UNKNOWN = -1
_WAIT_S: Final = 5.0
_VIEW_LIMIT_S: Final = 10.0
_MOST: Final = 2**20


class DlprofTables:
    """Columns of one database; a missing table or column is unknown, not an error."""

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        columns: ArrowConnection,
        progress: Progress,
    ) -> None:
        self.path = path
        self._connection = connection
        self._tables = plain_tables(connection)
        views = connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'")
        self._views = frozenset(str(row[0]) for row in views)
        self._arrow = columns
        self._progress = progress
        self._known: dict[str, frozenset[str]] = {}

    def columns(self, table: str) -> frozenset[str]:
        """Return the column names of a table; empty if it is missing.

        Raises:
            SchemaLimitError: It is a view.
        """
        if table in self._views:
            raise SchemaLimitError(f"{table!r} in it is computed")
        if table not in self._known:
            query = f'PRAGMA table_info("{table}")'
            rows = self._connection.execute(query) if table in self._tables else ()
            self._known[table] = frozenset(str(row[1]) for row in rows)
        return self._known[table]

    def size(self, table: str) -> int:
        """Return the number of rows."""
        if not self.columns(table):
            return 0
        return int(self._connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0])

    def ints(self, table: str, names: tuple[str, ...]) -> dict[str, Int64]:
        """Integer columns in order of row id; ``UNKNOWN`` for a missing column or NULL."""
        parts: dict[str, list[Int64]] = {name: [] for name in names}
        if known := self.columns(table):
            select = ", ".join(
                f'CAST(coalesce("{name}", {UNKNOWN}) AS INTEGER)' if name in known else str(UNKNOWN)
                for name in names
            )
            query = f'SELECT {select} FROM "{table}" ORDER BY rowid'
            for batch in self._arrow.batches(query):
                for position, name in enumerate(names):
                    parts[name].append(integers(batch.column(position)))
                self._progress.advance(batch.num_rows)
        return {
            name: np.concatenate(part) if part else np.empty(0, dtype=np.int64)
            for name, part in parts.items()
        }

    def view(self, name: str, selected: str) -> list[tuple[Any, ...]]:
        """Return the rows of a view; empty if it is missing, or on a table or column that is.

        Raises:
            sqlite3.DatabaseError: It takes too long, or has too many rows.
        """
        with closing(SqlProcess(self.path, _WAIT_S)) as connection:
            deadline = time.monotonic() + _VIEW_LIMIT_S
            connection.set_authorizer(authorize)
            connection.set_progress_handler(lambda: int(time.monotonic() > deadline), 0)
            try:
                rows = list(islice(connection.execute(f'SELECT {selected} FROM "{name}"'), _MOST))
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
                    raise sqlite3.DatabaseError(f"{name} takes longer to read than 10 s") from error
                return []
        if len(rows) == _MOST:
            raise sqlite3.DatabaseError(f"{name} has {_MOST:,} rows or more")
        return [tuple(row) for row in rows]

    def texts(self, table: str, names: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Text columns in order of row id; empty text for a missing column or NULL."""
        known = self.columns(table)
        if not known:
            return []
        select = ", ".join(f'"{name}"' if name in known else "NULL" for name in names)
        order = "ORDER BY rowid" if table.startswith("read_only_") else ""
        rows = self._connection.execute(f'SELECT {select} FROM "{table}" {order}')
        return [tuple(as_plain_text(value) for value in row) for row in rows]

    def dictionary(self) -> dict[int, str]:
        """Return the database's pool of strings."""
        if not {"id", "string"} <= self.columns("dictionary"):
            return {}
        query = 'SELECT CAST(id AS INTEGER), "string" FROM dictionary WHERE id IS NOT NULL'
        return {int(row[0]): as_plain_text(row[1]) for row in self._connection.execute(query)}


def as_plain_text(value: object) -> str:
    """Return a text; empty for NULL."""
    if value is None:
        return ""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


@contextmanager
def open_tables(path: Path, progress: Progress) -> Iterator[DlprofTables]:
    """Open a database for reading only.

    Raises:
        NotADldbError: The database is damaged.
    """
    try:
        with (
            closing(connect_read_only(path)) as connection,
            arrow_connection(path) as columns,
        ):
            yield DlprofTables(path, connection, columns, progress)
    except (*READ_ERRORS, CorruptProfileError) as error:
        text = error.__cause__ if isinstance(error, CorruptProfileError) else error
        raise NotADldbError(
            say(
                "The database '{path}' is damaged: {error}.",
                path=str(path),
                error=str(text).splitlines()[0],
            ),
            hint=say(
                "Copy it again, or aggregate the Nsight Systems export that it was made from."
            ),
            path=str(path),
        ) from error
