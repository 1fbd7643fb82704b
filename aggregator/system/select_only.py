"""Let SQL of unknown origin compute with what the database holds, and do nothing else."""

from __future__ import annotations

import sqlite3

_ALLOWED_ACTIONS = frozenset(
    {
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
        sqlite3.SQLITE_TRANSACTION,
    }
)
_FUNCTIONS = (
    "abs avg ceil ceiling char coalesce concat count cume_dist date datetime dense_rank exp "
    "first_value floor format glob group_concat hex ifnull iif instr is_communication julianday "
    "lag last_value lead length like likelihood likely ln log log10 log2 lower ltrim max min mod "
    "nth_value ntile nullif percent_rank pow power printf program_line quote rank replace round "
    "row_number rtrim sign sqrt strftime string_agg substr substring sum time total trim "
    "trunc typeof unicode unixepoch unlikely upper"
)
_ALLOWED_FUNCTIONS = frozenset(_FUNCTIONS.split())
"""Functions that compute; others reach outside the database or make values out of nothing."""


def authorize(
    action: int, first: str | None, second: str | None, database: str | None, trigger: str | None
) -> int:
    """Answer SQLite whether a statement may do something: SELECT only."""
    if action not in _ALLOWED_ACTIONS:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and str(second).lower() not in _ALLOWED_FUNCTIONS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK
