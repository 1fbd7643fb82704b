"""SQL of an assistant: one SELECT, read only, with limits of rows, sizes and time."""

from __future__ import annotations

import sqlite3
from itertools import islice

from aggregator.dldb.reader import is_busy_error, primary_code
from aggregator.errors import InvalidValueError
from aggregator.tables.connection import ProfileDatabase, plain_value
from profiler_cli.assistants.answers import Answer


def select_rows(database: ProfileDatabase, query: str, limit: int) -> Answer:
    """The first rows of a SELECT; ``has_more`` says whether there are others.

    The connection itself denies everything but SELECT, and ends what takes too long.

    Raises:
        InvalidValueError: It is no SELECT, or SQLite refuses it.
        QueryTimeoutError: It took too long.
    """

    def read(connection: sqlite3.Connection) -> Answer:
        try:
            cursor = connection.execute(query)
            rows = [tuple(map(plain_value, row)) for row in islice(cursor, limit + 1)]
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
            if isinstance(error, sqlite3.OperationalError) and (
                primary_code(error) == sqlite3.SQLITE_INTERRUPT or is_busy_error(error)
            ):
                raise
            raise InvalidValueError(
                f"SQLite refuses the query: {error}.",
                hint="Write one SELECT on the views; describe lists them and their columns.",
            ) from error
        if cursor.description is None:
            raise InvalidValueError("The statement returns no rows.", hint="Write one SELECT.")
        columns = [column[0] for column in cursor.description]
        shown = {"columns": columns, "rows": [list(row) for row in rows[:limit]]}
        return {**shown, "has_more": len(rows) > limit}

    return database.read_with(read)
