"""Writes DLProf databases: the import into a new file, an aggregation into an existing one."""

from __future__ import annotations

import re
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import adbc_driver_manager
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aggregator.dldb.column_blobs import TABLE, encode, triggers
from aggregator.dldb.own_schema import (
    INDEXES,
    LONG_INDEXES,
    domain_views_sql,
    schema_sql,
    views_sql,
)
from aggregator.dldb.page_writer import AppendPages, page_writer
from aggregator.dldb.reader import busy, is_busy_error
from aggregator.errors import DatabaseWriteError
from aggregator.system.arrow_arrays import from_numpy, from_values
from aggregator.system.progress import NullProgress, Progress
from aggregator.system.sqlite_arrow import ArrowConnection, raise_interrupt
from aggregator.system.sqlite_uri import connect_read_only, is_busy
from aggregator.system.temporary_files import (
    announced_commit,
    file_lock,
    publish,
    remove_leftovers,
    temporary_name,
)
from aggregator.texts import Text, say, to_json

Column: TypeAlias = "NDArray[Any] | Sequence[str | int | float | bytes | NDArray[Any] | None]"
Value: TypeAlias = str | int | float | None
Columns: TypeAlias = "Mapping[str, Column]"

TURN_WAIT_S = 600.0  # How long an aggregation waits for others of the same database.
BUSY_TIMEOUT_S = 30.0  # How long an aggregation waits for another writer of the same database.
COMMIT_WAIT_S = 120.0  # How long it waits for those who read the database already.
_CLOSED_S = 15.0
"""How long no reader may begin while a writer waits for readers: longer than a query of the
viewer may take. Then others are let in for a moment, as what reads on may be no request."""
_OPEN_S = 2.0
_COMMIT_TRY_S = 0.5


@cache
def own_tables() -> frozenset[str]:
    """Return the names of all tables."""
    return frozenset(re.findall(r"CREATE TABLE (\w+)", schema_sql()))


@contextmanager
def new_database(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """Write a temporary file beside ``path`` that takes its place when the block ends well.

    Readers never see a part of it; a failure, a cancel or a full disk leaves nothing behind.

    Raises:
        DatabaseWriteError: The file exists and may not be replaced, or cannot be written.
    """
    if path.exists() and not overwrite:
        raise _exists(path)
    partial = temporary_name(path, "partial")
    with write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path.parent)
        partial.unlink(missing_ok=True)
    try:
        yield partial
        with write_errors(path):
            try:
                publish(partial, path, overwrite=overwrite)
            except FileExistsError as error:
                raise _exists(path) from error
    except DatabaseWriteError as error:
        # The user knows the name of the database, not that of the temporary file.
        if reason := error.details.get("reason"):
            raise unwritable(path, str(reason)) from error
        raise
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):
            with suppress(OSError):
                partial.with_name(partial.name + suffix).unlink(missing_ok=True)


def _exists(path: Path) -> DatabaseWriteError:
    return DatabaseWriteError(
        say("The database '{path}' exists already.", path=str(path)),
        hint=say("Use --force=true to replace it."),
    )


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Turn errors of the file system and of SQLite while writing into one sentence."""
    try:
        yield
    except (sqlite3.Error, adbc_driver_manager.Error, OSError) as error:
        if isinstance(error, adbc_driver_manager.Error):
            raise_interrupt(error)
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        if is_busy(text):
            raise busy(path) from error
        raise unwritable(path, _reason(error, text)) from error


def unwritable(path: Path, reason: str) -> DatabaseWriteError:
    """Return the error of a database that cannot be written."""
    return DatabaseWriteError(
        say("The database '{path}' cannot be written: {error}.", path=str(path), error=reason),
        hint=say("Check that the folder can be written and the disk is not full."),
        reason=reason,
    )


def _reason(error: Exception, text: str) -> str:
    return error.strerror or text if isinstance(error, OSError) else text


def create_tables(path: Path) -> None:
    """Lay out an empty database."""
    path.write_bytes(_empty_database())


@cache
def _empty_database() -> bytes:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("PRAGMA page_size = 8192")
        _run_script(connection, schema_sql() + LONG_INDEXES)
        return connection.serialize()


def finish(path: Path, *, has_custom_domains: bool) -> None:
    """Add the views and indexes, once the events are complete: that is the fastest order.

    The first aggregation commits them to the disk.
    """
    views = views_sql() + (domain_views_sql() if has_custom_domains else "")
    with closing(sqlite3.connect(path)) as connection:
        _run_script(connection, INDEXES + views)


def _run_script(connection: sqlite3.Connection, script: str) -> None:
    """Run statements in one transaction; a statement each would be flushed to the disk each."""
    connection.execute("PRAGMA synchronous = OFF")
    connection.executescript(f"BEGIN;\n{script}\nCOMMIT;")


@dataclass(frozen=True)
class Table:
    """Rows for one table, as columns; a single value instead of a column is that of every row.

    A table of single values has one row.
    """

    name: str  # Of the table.
    columns: Columns  # Its columns.
    is_optional: bool = False  # An older database may lack the table; its views then do without.

    def __init__(
        self, name: str, columns: Mapping[str, Column | Value], *, is_optional: bool = False
    ) -> None:
        """Repeat single values."""
        lengths = (len(column) for column in columns.values() if not isinstance(column, Value))
        count = next(lengths, 1)
        full = {key: _repeated(column, count) for key, column in columns.items()}
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "columns", full)
        object.__setattr__(self, "is_optional", is_optional)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


def _repeated(column: Column | Value, count: int) -> Column:
    if not isinstance(column, Value):
        return column
    return np.full(count, column) if isinstance(column, int) else [column] * count


def attributes(rows: Sequence[object], *names: str) -> dict[str, list[Any]]:
    """Return the columns of the same name as an attribute of the rows."""
    return {name: [getattr(row, name) for row in rows] for name in names}


class BulkWriter:
    """Writes columns without making a Python object of each value.

    Long tables of integers become pages of the file at once. The rest is kept, and inserted at the
    end through ADBC, twice as fast as by ``executemany``.
    """

    def __init__(self, append_pages: AppendPages) -> None:
        self._append_pages = append_pages
        self._kept: list[Table] = []
        self._texts: dict[str, Text] = {}
        self._num_rows: Counter[str] = Counter()

    def write(self, table: Table) -> None:
        """Append rows to a table, and their arrays where its columns are stored as such."""
        if not len(table):
            return
        self._texts |= _texts_of(table)
        blobs = Table(TABLE, encode(table.name, table.columns, self._num_rows[table.name] + 1))
        self._num_rows[table.name] += len(table)
        self._kept.append(blobs)
        # Rows stay in order: rows behind kept ones of the same table are kept, too.
        is_kept = any(kept.name == table.name for kept in self._kept)
        if is_kept or not self._append_pages(table.name, table.columns):
            self._kept.append(table)

    def insert_kept(self, path: Path) -> None:
        """Insert what was not written as pages, once the file is a database again."""
        made_of = [to_json(text) for text in self._texts.values()]
        self._kept.append(Table("texts", {"text": list(self._texts), "made_of": made_of}))
        with ArrowConnection(f"file:{quote(str(path))}") as connection:
            connection.begin()
            while self._kept:
                table = self._kept.pop(0)
                if len(table):
                    names = {name: _arrow(column) for name, column in table.columns.items()}
                    connection.append(table.name, pa.table(names))
            connection.commit()
        statements = [f"{sql};" for name in self._num_rows for sql in triggers(name).values()]
        with closing(sqlite3.connect(path)) as plain:
            _run_script(plain, "\n".join(statements))


def _arrow(column: Column) -> pa.Array:
    if isinstance(column, np.ndarray):
        return from_numpy(column.astype(np.int64) if column.dtype == np.bool_ else column)
    return from_values(
        [cell.tobytes() if isinstance(cell, np.ndarray) else cell for cell in column]
    )


@contextmanager
def bulk_writer(path: Path) -> Iterator[BulkWriter]:
    """Open a writer for a new database that no other process has open; complete after the block."""
    with page_writer(path) as append_pages:
        writer = BulkWriter(append_pages)
        yield writer
    writer.insert_kept(path)


def copy_database(source: Path, target: Path, profile_name: str) -> None:
    """Copy a database, even while another process writes it.

    ``profile_name``: name that the copy gets; empty: keeps its own.
    """
    with closing(connect_read_only(source)) as original, closing(sqlite3.connect(target)) as copy:
        original.backup(copy)
        if profile_name:
            copy.execute("UPDATE system_config SET profile_name = ?", (profile_name,))
        copy.commit()


@contextmanager
def aggregation_lock(path: Path, progress: Progress) -> Iterator[None]:
    """Let one process at a time aggregate a database; the others would compute in vain.

    SQLite's own locks keep the database whole; this lock spares the work and the memory.

    Raises:
        DatabaseBusyError: Another process was still aggregating it after ``TURN_WAIT_S``.
        AggregationCancelledError: Raised by ``progress`` while waiting.
    """
    try:
        with file_lock(path, TURN_WAIT_S, lambda: progress.advance(0)):
            yield
    except TimeoutError as error:
        raise busy(path) from error


@contextmanager
def aggregation_transaction(
    path: Path,
    wait_s: float = BUSY_TIMEOUT_S,
    commit_wait_s: float | None = None,
    progress: Progress | None = None,
) -> Iterator[sqlite3.Connection]:
    """Run one transaction on an existing database: readers see all of an aggregation or none.

    Args:
        path: The database.
        wait_s: How long to wait for another writer.
        commit_wait_s: How long to wait for readers; None: as long as for a writer.
        progress: What its ``advance`` raises while the commit waits ends the transaction.
    """
    with write_errors(path), closing(sqlite3.connect(path, timeout=wait_s)) as connection:
        connection.isolation_level = None
        # Spilling pages would lock readers out before the commit.
        connection.execute("PRAGMA cache_spill = OFF")
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            limit_s = wait_s if commit_wait_s is None else commit_wait_s
            _commit(connection, path, limit_s, progress or NullProgress())
        except BaseException:
            # SQLite has already done so where the disk is full.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _commit(connection: sqlite3.Connection, path: Path, wait_s: float, progress: Progress) -> None:
    """Commit, again and again while others read; what was computed and written is kept."""
    deadline = time.monotonic() + wait_s
    connection.execute(f"PRAGMA busy_timeout = {round(1000 * min(_COMMIT_TRY_S, wait_s))}")
    while True:
        with announced_commit(path):
            opened_at = time.monotonic() + _CLOSED_S
            while time.monotonic() < opened_at:
                try:
                    connection.execute("COMMIT")
                except sqlite3.OperationalError as error:
                    if not is_busy_error(error) or time.monotonic() > deadline:
                        raise
                    progress.advance(0)
                else:
                    return
        time.sleep(_OPEN_S)


def insert_rows(connection: sqlite3.Connection, table: Table) -> None:
    """Append a table's rows inside a transaction."""
    if table.is_optional and not has_table(connection, table.name):
        return
    # Tables of earlier patches lack columns.
    known = {row[1] for row in connection.execute(f'PRAGMA table_info("{table.name}")')}
    columns = {name: column for name, column in table.columns.items() if name in known}
    names = ", ".join(f'"{name}"' for name in columns)
    marks = ", ".join("?" for _ in columns)
    rows = zip(*(_plain(column) for column in columns.values()), strict=True)
    connection.executemany(f'INSERT INTO "{table.name}" ({names}) VALUES ({marks})', rows)
    texts = _texts_of(table)
    # Databases of early versions have no such table; their sentences stay in English.
    if texts and has_table(connection, "texts"):
        connection.executemany(
            "INSERT OR IGNORE INTO texts (text, made_of) VALUES (?, ?)",
            [(str(text), to_json(text)) for text in texts.values()],
        )


def has_table(connection: sqlite3.Connection, name: str) -> bool:
    """Return whether a database has a table; those of early versions lack some."""
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    return connection.execute(query, (name,)).fetchone() is not None


def _texts_of(table: Table) -> dict[str, Text]:
    """Return the sentences in a table's rows, each once."""
    columns = (column for column in table.columns.values() if not isinstance(column, np.ndarray))
    worded = (column for column in columns if Text in set(map(type, column)))
    return {str(cell): cell for column in worded for cell in column if isinstance(cell, Text)}


def _plain(column: Column) -> Sequence[object]:
    if isinstance(column, np.ndarray):
        plain: list[object] = (
            column.astype(np.int64).tolist() if column.dtype == np.bool_ else column.tolist()
        )
        return plain
    return column
