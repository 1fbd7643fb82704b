"""Gives each aggregation its owners of time, also where the file does not hold them yet.

A reader never writes the file: what is computed goes into tables of the connection, which hide the
empty ones of the file. The file gets them from the import, and for aggregations that were added
later from ``dlprof compare`` and ``dlprof history``.
"""

from __future__ import annotations

import re
import sqlite3
from functools import cache
from typing import Final

from aggregator.dldb.own_schema import schema_sql, views_sql
from aggregator.dldb.ownership import find_ownership, ownership_tables, read_span
from aggregator.dldb.reader import is_aggregable
from aggregator.dldb.writer import Table
from aggregator.tables.connection import ProfileDatabase
from aggregator.tables.counts import QueryCache

VIEWS: Final = ("view_owners", "view_owner_sums")
_kept: QueryCache[Table] = QueryCache(16)


def provide_owners(database: ProfileDatabase, aggr: int) -> None:
    """Fill the views of owners for one aggregation, unless the file has its rows.

    Raises:
        DatabaseError: The database is damaged.
    """
    if not database.is_ours or not is_aggregable(database.version):
        return
    has_views = all(map(database.has, VIEWS))
    query = "SELECT 1 FROM view_owners WHERE aggr_id = :aggr LIMIT 1"
    if has_views and database.rows(query, {"aggr": aggr}):
        return
    database.add_temporary(_statements(), VIEWS, _owners(database, aggr))


def _owners(database: ProfileDatabase, aggr: int) -> Table:
    """Return the rows of ``owners``; kept while the file stays as it is."""

    def read(connection: sqlite3.Connection) -> Table:
        found, _ = find_ownership(connection, aggr, read_span(connection, aggr))
        return ownership_tables(aggr, found)[0]

    return _kept.get(database.state, "owners", {"aggr": aggr}, lambda: database.read_with(read))


@cache
def _statements() -> tuple[str, ...]:
    table = re.search(r"CREATE TABLE owners \(.*?\) WITHOUT ROWID;", schema_sql(), re.DOTALL)
    views = (re.search(rf"CREATE VIEW {view} AS.*?;", views_sql(), re.DOTALL) for view in VIEWS)
    return tuple(
        found[0].replace("CREATE ", "CREATE TEMP ", 1)
        for found in (table, *views)
        if found is not None
    )
