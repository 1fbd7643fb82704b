"""Input of a report: one aggregation and domain of a finished database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aggregator.options import Mode

if TYPE_CHECKING:
    from aggregator.tables.spec import Column, TableSpec

# Which rows of a view, which statements call ``t``.
WHOLE_PROFILE: Final = ""
OF_AGGREGATION: Final = "t.aggr_id = :aggr_id"
OF_DOMAIN: Final = f"{OF_AGGREGATION} AND t.domain_name = :domain"

# Rows in memory at a time: a report of any length needs a few tens of MB.
CHUNK_ROWS: Final = 10_000


@dataclass(frozen=True)
class ReportSource:
    """Input of a report."""

    connection: sqlite3.Connection  # The database, read-only, with rows as ``sqlite3.Row``.
    aggr_id: int  # The aggregation.
    domain: str  # The NVTX domain.
    mode: Mode  # Mode in which the ranges were read.
    has_data_types: bool = True  # Whether to write data types; not with ``--detailed_mode=false``.
    is_extended: bool = False  # Whether to write the columns of ``--extended=true``.
    database: Path = Path()  # Path of the database.
    domains: tuple[str, ...] = ()  # All requested domains, including ``domain``.

    @property
    def has_directions(self) -> bool:
        """Whether ops have directions and stack traces."""
        return self.mode is Mode.PYTORCH

    def iter_chunks(
        self,
        view: str,
        columns: Sequence[str],
        order_by: Sequence[str] = (),
        *,
        where: str = OF_DOMAIN,
    ) -> Iterator[list[tuple[object, ...]]]:
        """Yield the rows of a view in lists of at most ``CHUNK_ROWS``.

        Args:
            view: The view, which expressions call ``t``.
            columns: What to select.
            order_by: What sorts the rows; names sort as bytes.
            where: ``WHOLE_PROFILE``, ``OF_AGGREGATION`` or ``OF_DOMAIN``.
        """
        # Names of views and columns are literals of this project; values are parameters.
        sql = f"SELECT {', '.join(columns)} FROM {view} AS t"  # noqa: S608
        if where:
            sql += f" WHERE {where}"
        if order_by:
            sql += f" ORDER BY {', '.join(order_by)}"
        cursor = self.connection.cursor()
        cursor.row_factory = None
        cursor.execute(sql, {"aggr_id": self.aggr_id, "domain": self.domain})
        while rows := cursor.fetchmany(CHUNK_ROWS):
            yield rows

    def iter_table(
        self, table: TableSpec, columns: Sequence[Column]
    ) -> Iterator[list[tuple[object, ...]]]:
        """Yield the rows of a table, in its order, with some of its columns."""
        order = [table.by_name[name].sql for name in table.default_ordering]
        return self.iter_chunks(
            table.source.view,
            [column.sql for column in columns],
            [*order, table.row_id] if table.row_id else order,
            where=table.source.where,
        )

    def columns(self, view: str) -> tuple[str, ...]:
        """Return the names of the columns of a view."""
        cursor = self.connection.execute(f"SELECT * FROM {view} LIMIT 0")  # noqa: S608
        return tuple(column[0] for column in cursor.description)

    def one_row(self, view: str, *, where: str = OF_DOMAIN) -> dict[str, object]:
        """Return the only row of a view as a dict.

        It is empty if there is none, or no such view: the database is of an older version.
        """
        known = "SELECT 1 FROM sqlite_master WHERE name = ?"
        if self.connection.execute(known, (view,)).fetchone() is None:
            return {}
        columns = self.columns(view)
        rows = next(self.iter_chunks(view, columns, where=where), [])
        return dict(zip(columns, rows[0], strict=True)) if rows else {}
