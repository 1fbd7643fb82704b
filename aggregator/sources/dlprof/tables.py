"""Tables of a DLProf database of any version: integer columns and texts by name."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import numpy as np

from aggregator.errors import CorruptProfileError, NotADldbError
from aggregator.sources.arrow_columns import arrow_connection, integers
from aggregator.sources.formats import READ_ERRORS
from aggregator.system.sqlite_uri import lenient_text, read_only_uri
from aggregator.texts import say

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from aggregator.profile.arrays import Int64
    from aggregator.system.progress import Progress
    from aggregator.system.sqlite_arrow import ArrowConnection

UNKNOWN = -1


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
        self._arrow = columns
        self._progress = progress
        self._known: dict[str, frozenset[str]] = {}

    def columns(self, table: str) -> frozenset[str]:
        """Column names of a table or view; empty if it is missing or cannot be computed."""
        if table not in self._known:
            try:
                rows = self._connection.execute(f'PRAGMA table_info("{table}")').fetchall()
            except sqlite3.OperationalError:  # a view on a missing table
                rows = []
            self._known[table] = frozenset(str(row[1]) for row in rows)
        return self._known[table]

    def size(self, table: str) -> int:
        """Number of rows."""
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

    def numbers(self, view: str, names: tuple[str, ...]) -> list[tuple[int, ...]]:
        """Integer columns of a view, which has no row ids; 0 for NULL."""
        select = ", ".join(f'CAST(coalesce("{name}", 0) AS INTEGER)' for name in names)
        return [tuple(row) for row in self._connection.execute(f'SELECT {select} FROM "{view}"')]

    def texts(self, table: str, names: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Text columns in order of row id; empty text for a missing column or NULL."""
        known = self.columns(table)
        if not known:
            return []
        select = ", ".join(f'"{name}"' if name in known else "NULL" for name in names)
        order = "ORDER BY rowid" if table.startswith("read_only_") else ""
        rows = self._connection.execute(f'SELECT {select} FROM "{table}" {order}')
        return [tuple(_text(value) for value in row) for row in rows]

    def dictionary(self) -> dict[int, str]:
        """The database's pool of strings."""
        if not {"id", "string"} <= self.columns("dictionary"):
            return {}
        query = 'SELECT CAST(id AS INTEGER), "string" FROM dictionary WHERE id IS NOT NULL'
        return {int(row[0]): _text(row[1]) for row in self._connection.execute(query)}


def _text(value: object) -> str:
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
            closing(sqlite3.connect(read_only_uri(path), uri=True)) as connection,
            arrow_connection(path) as columns,
        ):
            connection.text_factory = lenient_text
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
