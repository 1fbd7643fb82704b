"""The database of one rank file, as the join reads it."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from aggregator.dldb.event_reader import stored_events
from aggregator.dldb.guarded import DAMAGE
from aggregator.dldb.own_schema import schema_sql
from aggregator.dldb.stored import reading_errors
from aggregator.errors import NotADldbError
from aggregator.profile.arrays import Int64
from aggregator.ranks.align import UNKNOWN_CLOCK, Clock
from aggregator.system.sqlite_arrow import ArrowConnection
from aggregator.system.sqlite_uri import connect_read_only, plain_tables, read_only_uri
from aggregator.texts import from_json, say

_TRANSLATED = frozenset({"warnings", "ops", "devices", "model_config", "cost_units"})
"""Tables with translatable texts."""
_TEXTS = "SELECT text, made_of FROM texts"
_META = "SELECT key, value FROM dldb_meta"
_RANKS = "SELECT id, rank, process, device FROM ranks ORDER BY id"
_TABLE = re.compile(r"^CREATE TABLE (\w+)", re.MULTILINE)
_DAMAGE = (*DAMAGE, MemoryError, sqlite3.DatabaseError)


@dataclass(frozen=True)
class LocalRank:
    """A rank as its own file numbers it."""

    row: int  # Row id in the file's table of ranks.
    number: int  # Its number there.
    process: int  # Row id of its process.
    device: int | None  # Row id of its device; None: none.


@dataclass
class RankDatabase:
    """One database to be joined."""

    path: Path  # The database.
    label: str  # Name of the rank file that it was made from.
    connection: sqlite3.Connection  # Reads rows of small tables.
    reader: ArrowConnection  # Reads columns of large ones.
    meta: dict[str, str]  # Content of ``dldb_meta``.
    ranks: tuple[LocalRank, ...]  # Its ranks.
    texts: dict[str, str] = field(default_factory=dict)  # Its translatable texts with their parts.
    # Table -> new row id by old row id, filled while joining.
    maps: dict[str, Int64] = field(default_factory=dict)
    clock: Clock = UNKNOWN_CLOCK  # How its times are moved to the common clock.
    new_ranks: tuple[int, ...] = ()  # Number in the job of each of its ranks.

    def rows(self, table: str, order: str = "rowid") -> list[dict[str, Any]]:
        """Return all rows of a small table."""
        cursor = self.connection.execute(f"SELECT * FROM {table} ORDER BY {order}")
        names = [column[0] for column in cursor.description]
        texts = self.texts if table in _TRANSLATED else {}
        return [
            {
                name: texts.get(value, value) if isinstance(value, str) else value
                for name, value in zip(names, row, strict=True)
            }
            for row in cursor
        ]

    def columns(self, table: str) -> tuple[str, ...]:
        """Return the names of a table's columns."""
        found = self.connection.execute(f"PRAGMA table_info({table})")
        return tuple(str(row[1]) for row in found)

    def last_id(self, table: str) -> int:
        """Return the last row id of a table; its rows are numbered from 1 without gaps."""
        query = f"SELECT coalesce(max(rowid), 0) FROM {table}"
        return int(self.connection.execute(query).fetchone()[0])

    def new_map(self, table: str) -> Int64:
        """Return a map for a table's row ids; 0, which stands for no row, stays 0."""
        result = np.zeros(self.last_id(table) + 1, dtype=np.int64)
        self.maps[table] = result
        return result

    @property
    def offset_ns(self) -> int:
        """Added to its times. Unit: ns."""
        return self.clock.offset_ns

    @property
    def is_from_user(self) -> bool:
        """Whether the user supplied this database; otherwise it was made for the join."""
        return str(self.path) == self.label

    @property
    def short_label(self) -> str:
        """File name, preceded by its folder where the file name is a default one."""
        path = Path(self.label)
        is_usual = path.name.startswith(("dlprof_dldb", "nsys_profile"))
        return f"{path.parent.name}/{path.name}" if is_usual and path.parent.name else path.name

    @property
    def gpus(self) -> frozenset[str]:
        """UUIDs of its GPUs."""
        return frozenset(str(row["uuid"]) for row in self.rows("devices") if row["uuid"])

    @property
    def last_ns(self) -> int:
        """Its last event on its own clock. Unit: ns."""
        return int(self.meta["last_ns"])

    @property
    def start_utc_ns(self) -> int | None:
        """Time 0 of its clock, since 1970. Unit: ns. None: unknown."""
        text = self.meta.get("session_start_utc_ns", "")
        return int(text) if text else None

    @property
    def recorded_ranks(self) -> tuple[int, ...]:
        """The number that the process itself recorded; only some sources hold it."""
        text = self.meta.get("job_rank", "")
        return (int(text),) if text.isdigit() else ()

    def fingerprint(self) -> tuple[object, ...]:
        """Return a value that is equal for two copies of one capture of the same processes."""
        query = (
            "SELECT p.pid, v.host_device_id, v.uuid FROM ranks AS r"
            " JOIN processes AS p ON p.id = r.process LEFT JOIN devices AS v ON v.id = r.device"
            " ORDER BY r.id"
        )
        places = tuple(self.connection.execute(query))
        kernels = stored_events(self.connection).kernels()
        span = (int(kernels.start_ns.min()), int(kernels.end_ns.max())) if len(kernels) else ()
        start, host = self.meta.get("session_start_utc_ns"), self.meta.get("host_name")
        return (start, host, places, len(kernels), *span)


@contextmanager
def open_rank_databases(
    paths: Sequence[Path], labels: Sequence[str]
) -> Iterator[list[RankDatabase]]:
    """Open the databases to be joined.

    Raises:
        NotADldbError: One is damaged, or an older version wrote it.
    """
    with ExitStack() as stack:
        yield [_open(path, label, stack) for path, label in zip(paths, labels, strict=True)]


def _open(path: Path, label: str, stack: ExitStack) -> RankDatabase:
    stack.enter_context(reading_errors(path))
    connection = stack.enter_context(closing(connect_read_only(path)))
    plain_tables(connection)
    reader = stack.enter_context(ArrowConnection(read_only_uri(path)))
    try:
        stored = connection.execute(_TEXTS)
        texts = {str(text): from_json(str(raw), str(text)) for text, raw in stored}
        meta = {str(key): texts.get(value, str(value)) for key, value in connection.execute(_META)}
        ranks = tuple(LocalRank(*row) for row in connection.execute(_RANKS))
        int(meta["last_ns"])
    except (sqlite3.DatabaseError, KeyError, ValueError, TypeError) as error:
        raise _not_joinable(label, str(error).splitlines()[0]) from error
    return RankDatabase(path, label, connection, reader, meta, ranks, texts)


def require_own_layout(database: RankDatabase) -> None:
    """Check that a database has the tables that this version writes.

    A view in place of a table would run SQL of unknown origin, and gaps in row ids would need
    memory in proportion to the largest id.

    Raises:
        NotADldbError: It has other tables, or damaged ones.
    """
    connection = database.connection
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
    tables = {str(row[0]) for row in connection.execute(query)}
    with closing(sqlite3.connect(":memory:")) as plain:
        plain.executescript(schema_sql())
        for table in _TABLE.findall(schema_sql()):
            expected = _columns(plain, table)
            if table not in tables or _columns(connection, table) != expected:
                raise _not_joinable(database.label, say("another version made it"))
            if expected[0][0] == "id" and not _is_dense(connection, table):
                raise _damaged(database, f"row ids of {table}")


def _columns(connection: sqlite3.Connection, table: str) -> list[tuple[str, str, int]]:
    """Return the name, type and kind (0: a plain column) of each column."""
    found = connection.execute(f"PRAGMA table_xinfo({table})")
    return [(str(row[1]), str(row[2]), int(row[6])) for row in found]


def _is_dense(connection: sqlite3.Connection, table: str) -> bool:
    query = f"SELECT count(*), coalesce(min(id), 1), coalesce(max(id), 0) FROM {table}"
    count, first, last = connection.execute(query).fetchone()
    return bool(first >= 1 and last == count)


@contextmanager
def damage_errors(databases: list[RankDatabase]) -> Iterator[None]:
    """Report errors caused by damaged values as damage, if the user supplied a database.

    Raises:
        NotADldbError: The values of a database do not fit together.
    """
    from_user = [database for database in databases if database.is_from_user]
    try:
        yield
    except _DAMAGE as error:
        if not from_user:
            raise
        text = str(error).splitlines()[0][:200] or type(error).__name__
        raise _damaged(from_user[0], text) from error


def _not_joinable(label: str, reason: str) -> NotADldbError:
    text = say("'{file}' cannot be joined with other ranks: {error}.", file=label, error=reason)
    return NotADldbError(text, hint=_hint())


def _damaged(database: RankDatabase, what: str) -> NotADldbError:
    text = say("The database '{path}' is damaged: {error}.", path=database.label, error=what)
    return NotADldbError(text, hint=_hint())


def _hint() -> str:
    return say("Give the Nsight Systems export, or make the database again with this version.")
