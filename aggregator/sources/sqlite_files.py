"""Reading SQLite files fast (ADBC into Arrow) and saying clearly what is wrong with a bad one."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import adbc_driver_manager
import numpy as np
import pyarrow as pa
from adbc_driver_manager import AdbcStatusCode

from aggregator.errors import CorruptProfileError, UnsupportedProfileError
from aggregator.sources.file_heads import read_head
from aggregator.sqlite_arrow import ArrowConnection
from aggregator.sqlite_uri import SQLITE_MAGIC, read_only_uri
from aggregator.texts import say

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from aggregator.profile import Int64

READ_ERRORS = (sqlite3.DatabaseError, UnicodeDecodeError)
"""What a damaged file raises: SQLite's own error messages may quote bytes of it."""


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
    return read_head(path, len(SQLITE_MAGIC)) == SQLITE_MAGIC


def _check_magic(path: Path) -> None:
    head = read_head(path, len(SQLITE_MAGIC))
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
def arrow_connection(path: Path) -> Iterator[ArrowConnection]:
    """A read-only ADBC connection; its errors become ``CorruptProfileError``."""
    try:
        with ArrowConnection(read_only_uri(path)) as connection:
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


def integers(column: pa.Array) -> Int64:
    """Numbers of a column, copied: a view would keep the whole batch, its texts too."""
    values: Int64 = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return values


def decoded(column: pa.Array) -> list[str]:
    """Texts of a column; bytes that are no UTF-8 become the replacement character."""
    raw = column.cast(pa.binary()).to_pylist()
    return ["" if value is None else value.decode("utf-8", "replace") for value in raw]
