"""Reading SQLite files fast (ADBC into Arrow) and saying clearly what is wrong with a bad one."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import adbc_driver_manager
import adbc_driver_sqlite.dbapi as adbc
import numpy as np
import pyarrow as pa
from adbc_driver_manager import AdbcStatusCode

from aggregator.errors import CorruptProfileError, ProfileError, UnsupportedProfileError
from aggregator.sqlite_uri import SQLITE_MAGIC, read_only_uri
from aggregator.texts import say

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from aggregator.profile import Int64

READ_ERRORS = (sqlite3.DatabaseError, UnicodeDecodeError)
"""What a damaged file raises: SQLite's own error messages may quote bytes of it."""
BATCH_ROWS = 65536
"""Rows per Arrow batch: a batch's fixed cost vanishes, and it fits the cache."""


def list_tables(path: Path) -> frozenset[str]:
    """Names of all tables and views of an SQLite file.

    Raises:
        UnsupportedProfileError: Not an SQLite file.
        CorruptProfileError: An SQLite file that cannot be read.
        ProfileError: The file may not be opened.
    """
    _check_magic(path)
    try:
        with closing(sqlite3.connect(read_only_uri(path), uri=True)) as connection:
            rows = connection.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
            )
            return frozenset(str(row[0]) for row in rows)
    except READ_ERRORS as error:
        raise corrupt(path, error) from error


def is_sqlite(path: Path) -> bool:
    """Whether a file is an SQLite file by its first bytes.

    Raises:
        ProfileError: The file may not be opened.
    """
    return _head(path) == SQLITE_MAGIC


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(len(SQLITE_MAGIC))
    except OSError as error:
        raise ProfileError(
            say(
                "The profile '{path}' cannot be opened: {error}.",
                path=str(path),
                error=error.strerror,
            ),
            hint=say("Check the permissions of the file."),
        ) from error


def _check_magic(path: Path) -> None:
    head = _head(path)
    if head == SQLITE_MAGIC:
        return
    if not head:
        raise CorruptProfileError(
            say("The profile '{path}' is empty.", path=str(path)), hint=say("Export it again.")
        )
    raise UnsupportedProfileError(
        say("'{path}' is not an SQLite file.", path=str(path)),
        hint=say("Nsight Systems reports (.nsys-rep, .qdrep) need: nsys export -t sqlite <report>"),
    )


def corrupt(path: Path, error: Exception) -> CorruptProfileError:
    """The error for a file that SQLite cannot read to its end."""
    return CorruptProfileError(
        say(
            "The profile '{path}' is damaged or incomplete: {error}.",
            path=str(path),
            error=str(error).splitlines()[0],
        ),
        hint=say("Copy or export it again; a capture or a copy may have been cut off."),
    )


@contextmanager
def arrow_connection(path: Path) -> Iterator[adbc.Connection]:
    """A read-only ADBC connection; its errors become ``CorruptProfileError``."""
    try:
        with adbc.connect(read_only_uri(path)) as connection:
            yield connection
    except adbc_driver_manager.Error as error:
        raise_interrupt(error)
        raise corrupt(path, error) from error


def raise_interrupt(error: adbc_driver_manager.Error) -> None:
    """Ctrl-C during an ADBC call: the driver is asked to cancel, which SQLite's cannot.

    Raises:
        KeyboardInterrupt: The error stands for an interrupt.
    """
    if error.status_code in (AdbcStatusCode.NOT_IMPLEMENTED, AdbcStatusCode.CANCELLED):
        raise KeyboardInterrupt from error


def iter_batches(connection: adbc.Connection, query: str) -> Iterator[pa.RecordBatch]:
    """Run a query; yields Arrow batches of at most ``BATCH_ROWS`` rows.

    ADBC takes a column's type from the first batch, so a query must not deliver NULL in some
    rows only: wrap with ``coalesce``.
    """
    with connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(BATCH_ROWS)})
        cursor.execute(query)
        yield from cursor.fetch_record_batch()


def integers(column: pa.Array) -> Int64:
    """Numbers of a column, copied: a view would keep the whole batch, its texts too."""
    values: Int64 = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return values


def decoded(column: pa.Array) -> list[str]:
    """Texts of a column; bytes that are no UTF-8 become the replacement character."""
    raw = column.cast(pa.binary()).to_pylist()
    return ["" if value is None else value.decode("utf-8", "replace") for value in raw]
