"""Integer columns of parts of a database's tables, read fast."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from aggregator.dldb.stored import reading_errors
from aggregator.sqlite_arrow import ArrowConnection
from aggregator.sqlite_uri import read_only_uri

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from aggregator.profile import Int64

ABSENT = -(2**62)
"""Stands for NULL while a column is on its way: a column must not change its type midway."""


class ColumnReader:
    """Reads integer columns of one database; opened for reading, outside any transaction."""

    def __init__(self, connection: ArrowConnection) -> None:
        self._connection = connection

    def read(self, table: str, names: tuple[str, ...], where: str = "") -> dict[str, Int64]:
        """Columns in order of row id; NULL becomes ``ABSENT``.

        Args:
            table: Name of the table, or tables joined.
            names: Columns.
            where: What follows the tables, ``WHERE id >= 5``.
        """
        select = ", ".join(f'coalesce("{name}", {ABSENT}) AS "{name}"' for name in names)
        return self.query(f"SELECT {select} FROM {table} {where}", names)

    def query(self, sql: str, names: tuple[str, ...]) -> dict[str, Int64]:
        """Columns of any query that delivers integers only."""
        columns = self._connection.integer_columns(sql, len(names))
        return dict(zip(names, columns, strict=True))


@contextmanager
def column_reader(path: Path) -> Iterator[ColumnReader]:
    """A reader of one database.

    Raises:
        NotADldbError: The database is damaged.
        DatabaseBusyError: Another process writes it.
    """
    with reading_errors(path), ArrowConnection(read_only_uri(path)) as connection:
        yield ColumnReader(connection)
