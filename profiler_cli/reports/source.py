"""What a report is made from: one aggregation and domain of a finished database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aggregator.options import Mode

# Rows that are held in memory at once: a report of any length needs some tens of MB.
CHUNK_ROWS: Final = 10_000


@dataclass(frozen=True)
class ReportSource:
    """Where a report reads.

    Attributes:
        connection: The database, read-only, with rows as ``sqlite3.Row``.
        aggr_id: The aggregation.
        domain: The NVTX domain.
        mode: How the ranges were read.
        is_extended: ``--extended=true`` asked for the columns that DLProf did not have.
        has_data_types: False: ``--detailed_mode=false`` took data types away.
        database: The file, for who opens it anew.
        domains: All domains that reports were asked for, ``domain`` among them.
    """

    connection: sqlite3.Connection
    aggr_id: int
    domain: str
    mode: Mode
    has_data_types: bool = True
    is_extended: bool = False
    database: Path = Path()
    domains: tuple[str, ...] = ()

    @property
    def has_directions(self) -> bool:
        """Whether ops are told apart by direction and know their stack traces."""
        return self.mode is Mode.PYTORCH

    def iter_chunks(
        self,
        view: str,
        columns: Sequence[str],
        order_by: Sequence[str] = (),
        *,
        per_aggregation: bool = True,
        per_domain: bool = True,
    ) -> Iterator[list[tuple[object, ...]]]:
        """Rows of a view in lists of at most ``CHUNK_ROWS``; they are never all in memory."""
        conditions: list[str] = []
        values: list[int | str] = []
        if per_aggregation:
            conditions.append("aggr_id = ?")
            values.append(self.aggr_id)
        if per_aggregation and per_domain:
            conditions.append("domain_name = ?")
            values.append(self.domain)
        # Names of views and columns are literals of this package; values are parameters.
        sql = f"SELECT {', '.join(columns)} FROM {view}"  # noqa: S608
        if conditions:
            sql += f" WHERE {' AND '.join(conditions)}"
        if order_by:
            sql += f" ORDER BY {', '.join(order_by)}"
        cursor = self.connection.cursor()
        cursor.row_factory = None
        cursor.execute(sql, values)
        while rows := cursor.fetchmany(CHUNK_ROWS):
            yield rows

    def columns(self, view: str) -> tuple[str, ...]:
        """The names of a view's columns, in order."""
        cursor = self.connection.execute(f"SELECT * FROM {view} LIMIT 0")  # noqa: S608
        return tuple(column[0] for column in cursor.description)

    def one_row(self, view: str, *, per_aggregation: bool = True) -> dict[str, object]:
        """The only row of a view that has one, as a dict; empty if it has none."""
        condition = ""
        values: tuple[int | str, ...] = ()
        if per_aggregation:
            condition = " WHERE aggr_id = ? AND domain_name = ?"
            values = (self.aggr_id, self.domain)
        cursor = self.connection.cursor()
        cursor.row_factory = sqlite3.Row
        row = cursor.execute(f"SELECT * FROM {view}{condition}", values).fetchone()  # noqa: S608
        return dict(row) if row is not None else {}
