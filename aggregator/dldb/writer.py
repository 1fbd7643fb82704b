"""Writes DLProf databases: the import into a new file, an aggregation into an existing one."""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

import adbc_driver_manager
import numpy as np
import pyarrow as pa

from aggregator.dldb.domain_views import with_domains
from aggregator.dldb.pages import PageWriter
from aggregator.errors import DatabaseBusyError, DatabaseWriteError
from aggregator.leftovers import beside, remove_leftovers
from aggregator.sources.sqlite_files import raise_interrupt
from aggregator.sqlite_arrow import ArrowConnection
from aggregator.sqlite_uri import is_busy, read_only_uri
from aggregator.texts import Text, say, to_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Column: TypeAlias = "NDArray[Any] | Sequence[str | int | float | bytes | NDArray[Any] | None]"
    Columns: TypeAlias = "Mapping[str, Column]"

BUSY_TIMEOUT_S = 30.0
"""How long an aggregation waits for another writer of the same database."""
CHUNK_ROWS = 131072
"""Rows per insert statement's batch: how often progress is told and a cancel is seen."""

LONG_INDEXES = "CREATE INDEX IF NOT EXISTS op_instances_by_op ON op_instances (op, start);"
"""Made before the table has rows, because its pages are laid out along with the table's."""
INDEXES = """
    CREATE INDEX IF NOT EXISTS op_metrics_by_aggr ON op_metrics (aggr, op);
    CREATE INDEX IF NOT EXISTS kernel_metrics_by_aggr ON kernel_metrics (aggr, op_kernel);
    CREATE INDEX IF NOT EXISTS op_kernels_by_op ON op_kernels (op);
    CREATE UNIQUE INDEX IF NOT EXISTS ops_by_op_id ON ops (op_id, domain);
    CREATE INDEX IF NOT EXISTS group_metrics_by_aggr ON group_metrics (aggr, domain);
"""


def _sql(name: str) -> str:
    return resources.files("aggregator.dldb").joinpath(name).read_text(encoding="utf-8")


def schema_sql() -> str:
    """Statements that make the tables."""
    return _sql("schema.sql")


@cache
def own_tables() -> frozenset[str]:
    """Names of all tables."""
    return frozenset(re.findall(r"CREATE TABLE (\w+)", schema_sql()))


def views_sql(*, has_custom_domains: bool) -> str:
    """Statements that make the views.

    Kernel views that look at custom domains as well sort more slowly: only who has any pays.
    """
    views = _sql("views.sql")
    return with_domains(views) if has_custom_domains else views


@contextmanager
def new_database(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """A temporary file beside ``path`` that takes its place when the block ends well.

    Readers never see a part of it; a failure, a cancel or a full disk leaves nothing behind.

    Raises:
        DatabaseWriteError: The file exists and may not be replaced, or cannot be written.
    """
    if path.exists() and not overwrite:
        raise _exists(path)
    partial = beside(path, "partial")
    with write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path.parent)
        partial.unlink(missing_ok=True)
    try:
        yield partial
        with write_errors(path):
            _publish(partial, path, overwrite=overwrite)
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):
            with suppress(OSError):
                partial.with_name(partial.name + suffix).unlink(missing_ok=True)


def _exists(path: Path) -> DatabaseWriteError:
    return DatabaseWriteError(
        say("The database '{path}' exists already.", path=str(path)),
        hint=say("Use --force=true to replace it."),
    )


def _publish(partial: Path, path: Path, *, overwrite: bool) -> None:
    """Give the finished file its name; what somebody else made meanwhile is never replaced."""
    if overwrite:
        partial.replace(path)
        return
    try:
        path.hardlink_to(partial)
    except FileExistsError as error:
        raise _exists(path) from error
    except OSError:  # a file system without hard links
        partial.rename(path)


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
            raise DatabaseBusyError(
                say("The database '{path}' is being written by another process.", path=str(path)),
                hint=say("Try again when that one has finished."),
            ) from error
        raise unwritable(path, _reason(error, text)) from error


def unwritable(path: Path, reason: str) -> DatabaseWriteError:
    """The error of a database that cannot be written."""
    return DatabaseWriteError(
        say("The database '{path}' cannot be written: {error}.", path=str(path), error=reason),
        hint=say("Check that the folder can be written and the disk is not full (--output_path)."),
        reason=reason,
    )


def _reason(error: Exception, text: str) -> str:
    return error.strerror or text if isinstance(error, OSError) else text


def create_tables(path: Path) -> None:
    """Lay out an empty database."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA page_size = 8192")
        _run_script(connection, schema_sql() + LONG_INDEXES)


def finish(path: Path, *, has_custom_domains: bool) -> None:
    """Add the views and indexes, last: indexes are quickest over complete tables."""
    views = views_sql(has_custom_domains=has_custom_domains)
    with closing(sqlite3.connect(path)) as connection:
        _run_script(connection, INDEXES + views)
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _run_script(connection: sqlite3.Connection, script: str) -> None:
    """Run statements in one transaction; a statement each would be flushed to the disk each."""
    connection.execute("PRAGMA synchronous = OFF")
    connection.executescript(f"BEGIN;\n{script}\nCOMMIT;")


@dataclass(frozen=True)
class Table:
    """Rows for one table, as columns.

    Attributes:
        name: Of the table.
        columns: Its columns.
        is_optional: An older database may lack the table; its views then do without.
    """

    name: str
    columns: Columns
    is_optional: bool = False

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


class BulkWriter:
    """Writes columns without making Python objects of them.

    Long tables of integers become pages of the file at once. The rest is kept until ``finish``,
    which inserts it through ADBC: twice as fast as ``executemany``.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pages = PageWriter(path)
        self._kept: list[Table] = []
        self._texts: dict[str, Text] = {}

    def write(self, table: Table) -> None:
        """Append the rows."""
        if not len(table):
            return
        self._texts |= _texts_of(table)
        # Rows stay in order: what follows kept rows of the same table is kept, too.
        is_kept = any(kept.name == table.name for kept in self._kept)
        if is_kept or not self._pages.append(table.name, table.columns):
            self._kept.append(table)

    def finish(self) -> None:
        """Complete the pages and insert what was kept."""
        self._pages.close()
        with ArrowConnection(f"file:{quote(str(self._path))}") as connection:
            connection.begin()
            self._kept += self._made_of()
            while self._kept:
                table = self._kept.pop(0)
                names = {name: _arrow(column) for name, column in table.columns.items()}
                connection.append(table.name, pa.table(names))
            connection.commit()

    def _made_of(self) -> list[Table]:
        """What the sentences in the rows were made of."""
        made_of = [to_json(text) for text in self._texts.values()]
        table = Table("texts", {"text": list(self._texts), "made_of": made_of})
        return [table] if made_of else []

    def abandon(self) -> None:
        """Leave the file as it is: it will be thrown away."""
        self._pages.abandon()


def _arrow(column: Column) -> pa.Array:
    if isinstance(column, np.ndarray):
        return pa.array(column.astype(np.int64) if column.dtype == np.bool_ else column)
    return pa.array([one.tobytes() if isinstance(one, np.ndarray) else one for one in column])


@contextmanager
def bulk_writer(path: Path) -> Iterator[BulkWriter]:
    """A writer for a new database that nobody else has open; complete when the block ends well."""
    writer = BulkWriter(path)
    try:
        yield writer
        writer.finish()
    finally:
        writer.abandon()


def copy_database(source: Path, target: Path, profile_name: str) -> None:
    """Copy one of our databases as it stands, whoever else writes it.

    Args:
        source: The database; it is only read.
        target: The new file.
        profile_name: Name that the copy gets; empty: keeps its own.
    """
    with (
        closing(sqlite3.connect(read_only_uri(source), uri=True)) as original,
        closing(sqlite3.connect(target)) as copy,
    ):
        original.backup(copy)
        if profile_name:
            copy.execute("UPDATE system_config SET profile_name = ?", (profile_name,))
        copy.commit()


@contextmanager
def aggregation_transaction(path: Path) -> Iterator[sqlite3.Connection]:
    """One transaction on an existing database: readers see all of an aggregation or none."""
    with write_errors(path), closing(sqlite3.connect(path, timeout=BUSY_TIMEOUT_S)) as connection:
        connection.isolation_level = None
        # Spilling pages would lock readers out before the commit.
        connection.execute("PRAGMA cache_spill = OFF")
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")


def insert_rows(connection: sqlite3.Connection, table: Table) -> None:
    """Append a table's rows inside a transaction."""
    if table.is_optional and not _has_table(connection, table.name):
        return
    names = ", ".join(f'"{name}"' for name in table.columns)
    marks = ", ".join("?" for _ in table.columns)
    rows = zip(*(_plain(column) for column in table.columns.values()), strict=True)
    connection.executemany(f'INSERT INTO "{table.name}" ({names}) VALUES ({marks})', rows)
    texts = _texts_of(table)
    # Databases of early versions have no such table; their sentences stay in English.
    if texts and _has_table(connection, "texts"):
        connection.executemany(
            "INSERT OR IGNORE INTO texts (text, made_of) VALUES (?, ?)",
            [(str(text), to_json(text)) for text in texts.values()],
        )


def _has_table(connection: sqlite3.Connection, name: str) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    return connection.execute(query, (name,)).fetchone() is not None


def _texts_of(table: Table) -> dict[str, Text]:
    """The sentences in a table's rows, each once."""
    columns = (column for column in table.columns.values() if not isinstance(column, np.ndarray))
    return {str(one): one for column in columns for one in column if isinstance(one, Text)}


def _plain(column: Column) -> Sequence[object]:
    if isinstance(column, np.ndarray):
        plain: list[object] = (
            column.astype(np.int64).tolist() if column.dtype == np.bool_ else column.tolist()
        )
        return plain
    return column
