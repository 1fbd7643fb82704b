"""Input of a report: one aggregation and domain of a finished database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aggregator.options import Mode

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
        per_aggregation: bool = True,
        per_domain: bool = True,
    ) -> Iterator[list[tuple[object, ...]]]:
        """Yield the rows of a view in lists of at most ``CHUNK_ROWS``."""
        wanted: dict[str, int | str] = {"aggr_id": self.aggr_id} if per_aggregation else {}
        if per_aggregation and per_domain:
            wanted["domain_name"] = self.domain
        # Names of views and columns are literals of this package; values are parameters.
        sql = f"SELECT {', '.join(columns)} FROM {view}"  # noqa: S608
        if wanted:
            sql += f" WHERE {' AND '.join(f'{name} = ?' for name in wanted)}"
        if order_by:
            sql += f" ORDER BY {', '.join(order_by)}"
        cursor = self.connection.cursor()
        cursor.row_factory = None
        cursor.execute(sql, tuple(wanted.values()))
        while rows := cursor.fetchmany(CHUNK_ROWS):
            yield rows

    def columns(self, view: str) -> tuple[str, ...]:
        """Return the names of the columns of a view."""
        cursor = self.connection.execute(f"SELECT * FROM {view} LIMIT 0")  # noqa: S608
        return tuple(column[0] for column in cursor.description)

    def one_row(self, view: str, *, per_aggregation: bool = True) -> dict[str, object]:
        """Return the only row of a view as a dict.

        It is empty if there is none, or no such view: the database is of an older version.
        """
        known = "SELECT 1 FROM sqlite_master WHERE name = ?"
        if self.connection.execute(known, (view,)).fetchone() is None:
            return {}
        columns = self.columns(view)
        rows = next(self.iter_chunks(view, columns, per_aggregation=per_aggregation), [])
        return dict(zip(columns, rows[0], strict=True)) if rows else {}
