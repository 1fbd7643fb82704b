"""The SQL that makes a database, and whether a database holds no other SQL."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path

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


def _sql(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def schema_sql() -> str:
    """Statements that make the tables."""
    return _sql("schema.sql")


def views_sql() -> str:
    """Statements that make the views."""
    return _sql("views.sql")


def domain_views_sql() -> str:
    """Statements that make the views of a profile with domains of its own."""
    return _sql("domain_views.sql")


def holds_own_sql_only(connection: sqlite3.Connection) -> bool:
    """Whether reading a database runs no SQL but that of this version of the program.

    Triggers do not matter: they run when rows are written.
    """
    rows = connection.execute(_SCHEMA).fetchall()
    return all(tuple(row) in _own() or str(row[1]).startswith("sqlite_") for row in rows)


@cache
def _own() -> frozenset[tuple[str, str, str]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(f"{schema_sql()}{LONG_INDEXES}{INDEXES}{views_sql()}")
        found = connection.execute(_SCHEMA).fetchall()
        # They replace some of the views.
        connection.executescript(domain_views_sql())
        return frozenset(found) | frozenset(connection.execute(_SCHEMA))
