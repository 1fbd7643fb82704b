"""Names, deletes and prefers aggregations of a database that this program wrote.

What people choose about aggregations is kept in ``dldb_meta``, which every version has.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from aggregator.dldb.stored import require_aggregable
from aggregator.dldb.writer import aggregation_transaction, has_table, own_tables
from aggregator.errors import AggregationNotFoundError, LastAggregationError
from aggregator.texts import say

NAME = "aggregation_name."  # Key of a name: followed by the number of the aggregation.
DEFAULT = "default_aggregation"  # Key of the number of the one that is shown first.
_HIGHEST = "last_aggregation"  # Key of the highest number that was ever used.
_WAIT_S = 5.0  # How long a change waits for another writer: a client waits for the answer.
_COMMIT_WAIT_S = 15.0  # How long it waits for readers: longer than their queries may take.


def next_number(connection: sqlite3.Connection) -> int:
    """Number of the next aggregation: never one that was deleted, which links may still name."""
    highest = connection.execute("SELECT coalesce(max(id), 0) FROM aggregations").fetchone()[0]
    used = _read(connection, _HIGHEST)
    return max(int(highest), int(used) if used.isdecimal() else 0) + 1


def change_aggregation(
    database: Path, aggr: int, *, name: str | None = None, is_default: bool | None = None
) -> None:
    """Name an aggregation (empty: without a name), or make it the one that is shown first.

    Raises:
        AggregationNotFoundError: There is no such aggregation.
        DatabaseError: The database cannot be written.
    """
    require_aggregable(database)
    with aggregation_transaction(database, _WAIT_S, _COMMIT_WAIT_S) as connection:
        _numbers(connection, aggr)
        if name is not None:
            _write(connection, f"{NAME}{aggr}", name)
        if is_default or (is_default is False and _read(connection, DEFAULT) == str(aggr)):
            _write(connection, DEFAULT, str(aggr) if is_default else "")


def delete_aggregation(database: Path, aggr: int) -> None:
    """Delete an aggregation from all tables; its space in the file is used again.

    Raises:
        AggregationNotFoundError: There is no such aggregation.
        LastAggregationError: The database has no other.
        DatabaseError: The database cannot be written.
    """
    require_aggregable(database)
    with aggregation_transaction(database, _WAIT_S, _COMMIT_WAIT_S) as connection:
        known = _numbers(connection, aggr)
        if len(known) == 1:
            raise LastAggregationError(
                say("The last aggregation of a profile cannot be deleted."),
                hint=say("Aggregate other iterations first."),
            )
        _write(connection, _HIGHEST, str(next_number(connection) - 1))
        for table in _tables_of_aggregations(connection):
            connection.execute(f'DELETE FROM "{table}" WHERE aggr = ?', (aggr,))
        connection.execute("DELETE FROM aggregations WHERE id = ?", (aggr,))
        _write(connection, f"{NAME}{aggr}", "")
        if _read(connection, DEFAULT) == str(aggr):
            _write(connection, DEFAULT, "")


def _numbers(connection: sqlite3.Connection, wanted: int) -> list[int]:
    """Return the numbers of all aggregations, if ``wanted`` is one of them."""
    known = [int(row[0]) for row in connection.execute("SELECT id FROM aggregations ORDER BY id")]
    if wanted not in known:
        raise aggregation_not_found(wanted, known)
    return known


def aggregation_not_found(wanted: object, known: list[int]) -> AggregationNotFoundError:
    """Return the error of an aggregation that does not exist."""
    return AggregationNotFoundError(
        say("The profile has no aggregation {wanted}.", wanted=wanted),
        hint=say("It has {names}.", names=", ".join(map(str, known)) or "none"),
    )


def _tables_of_aggregations(connection: sqlite3.Connection) -> list[str]:
    """Return the tables with rows of aggregations; older databases lack some."""
    columns = "SELECT 1 FROM pragma_table_info(?) WHERE name = 'aggr'"
    return [
        table
        for table in sorted(own_tables())
        if has_table(connection, table) and connection.execute(columns, (table,)).fetchone()
    ]


def _read(connection: sqlite3.Connection, key: str) -> str:
    row = connection.execute("SELECT value FROM dldb_meta WHERE key = ?", (key,)).fetchone()
    return "" if row is None else str(row[0])


def _write(connection: sqlite3.Connection, key: str, value: str) -> None:
    """Store a value; an empty one is deleted."""
    connection.execute("DELETE FROM dldb_meta WHERE key = ?", (key,))
    if value:
        connection.execute("INSERT INTO dldb_meta (key, value) VALUES (?, ?)", (key, value))
