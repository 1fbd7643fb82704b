"""The SQL that makes a database, and whether a database holds no other SQL."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path

from aggregator.system.sqlite_uri import SchemaLimitError, read_schema

LONG_INDEXES = "CREATE INDEX IF NOT EXISTS op_instances_by_op ON op_instances (op, start);"
"""Made before the table has rows, because its pages are laid out along with the table's."""
INDEXES = """
    CREATE INDEX IF NOT EXISTS op_metrics_by_aggr ON op_metrics (aggr, op);
    CREATE INDEX IF NOT EXISTS kernel_metrics_by_aggr ON kernel_metrics (aggr, op_kernel);
    CREATE INDEX IF NOT EXISTS op_kernels_by_op ON op_kernels (op);
    CREATE UNIQUE INDEX IF NOT EXISTS ops_by_op_id ON ops (op_id, domain);
    CREATE INDEX IF NOT EXISTS group_metrics_by_aggr ON group_metrics (aggr, domain);
    CREATE INDEX IF NOT EXISTS ranks_by_process ON ranks (process);
"""
_SCHEMA = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND type <> 'trigger'"
_STATISTICS = frozenset(
    {
        ("table", "sqlite_stat1", "CREATE TABLE sqlite_stat1(tbl,idx,stat)"),
        ("table", "sqlite_stat4", "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)"),
    }
)
"""What SQLite's own ANALYZE makes."""


def _sql(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def schema_sql() -> str:
    """Return the statements that make the tables."""
    return _sql("schema.sql")


def views_sql() -> str:
    """Return the statements that make the views."""
    return _sql("views.sql")


def domain_views_sql() -> str:
    """Return the statements that make the views of a profile with domains of its own."""
    return _sql("domain_views.sql")


def holds_own_sql_only(connection: sqlite3.Connection) -> bool:
    """Return whether reading a database runs no SQL but that of this version of the program.

    Triggers do not matter: they run when rows are written.

    Args:
        connection: One that has run nothing yet, as ``connect_unread`` makes it.
    """
    try:
        read_schema(connection)
    except SchemaLimitError:
        return False
    return all(tuple(row) in _own() for row in connection.execute(_SCHEMA))


def state_of(path: Path) -> tuple[int, ...]:
    """Return a value that changes whenever a file does."""
    found = path.stat()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def has_long_names(connection: sqlite3.Connection, path: Path) -> bool:
    """Return whether a name in a database is so long that a view of ours takes long for its row.

    The answer is kept while the file stays as it is: all names are looked at.
    """
    state = state_of(path)
    if state not in _LONG:
        if len(_LONG) >= _MOST_KNOWN:
            _LONG.clear()
        try:
            _LONG[state] = any(connection.execute(query).fetchone() for query in _LONG_NAMES)
        except sqlite3.OperationalError:  # no such table, or there are too many of them to look at
            return True
    return _LONG[state]


_LONG: dict[tuple[int, ...], bool] = {}
_MOST_KNOWN = 256
_LONGEST_NAME = 16_384
"""Characters: the views cut the last part off a path, which compares each with 2,000 others. That
takes 0.2 s for such a name, and half a minute for one of 2 MiB."""
_NAMES = (("ops", "op_name"), ("group_metrics", "group_name"), ("range_names", "name"))
_LONG_NAMES = tuple(
    f"SELECT 1 FROM {table} WHERE length({name}) > {_LONGEST_NAME} LIMIT 1"
    for table, name in _NAMES
)


@cache
def _own() -> frozenset[tuple[str, str, str]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(f"{schema_sql()}{LONG_INDEXES}{INDEXES}{views_sql()}")
        found = connection.execute(_SCHEMA).fetchall()
        # They replace some of the views.
        connection.executescript(domain_views_sql())
        return frozenset(found) | frozenset(connection.execute(_SCHEMA)) | _STATISTICS
