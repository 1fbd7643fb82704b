"""The database of one rank file: what is to be joined."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aggregator.errors import NotADldbError
from aggregator.ranks.reading import ColumnReader, column_reader
from aggregator.sqlite_uri import lenient_text, read_only_uri
from aggregator.texts import from_json, say

if TYPE_CHECKING:
    from aggregator.profile import Int64


@dataclass(frozen=True)
class LocalRank:
    """A rank as its own file knows it.

    Attributes:
        row: Row id in the part's table of ranks.
        number: Its number there.
        process: Row id of its process.
        device: Row id of its device; None: none.
    """

    row: int
    number: int
    process: int
    device: int | None


@dataclass
class Part:
    """One database to be joined.

    Attributes:
        path: The database.
        label: Name of the file that it was made from, for people.
        connection: Reads rows of small tables.
        reader: Reads columns of large ones.
        meta: What the database says about itself.
        texts: Its sentences, with what they were made of.
        ranks: Its ranks.
        maps: Table -> new row id by old row id, filled while joining.
        offset_ns: Added to its times. Unit: ns.
        new_ranks: Number in the job of each of its ranks.
    """

    path: Path
    label: str
    connection: sqlite3.Connection
    reader: ColumnReader
    meta: dict[str, str]
    ranks: tuple[LocalRank, ...]
    texts: dict[str, str] = field(default_factory=dict)
    maps: dict[str, Int64] = field(default_factory=dict)
    offset_ns: int = 0
    new_ranks: tuple[int, ...] = ()

    def rows(self, table: str, order: str = "rowid") -> list[dict[str, Any]]:
        """All rows of a small table."""
        cursor = self.connection.execute(f"SELECT * FROM {table} ORDER BY {order}")
        names = [column[0] for column in cursor.description]
        if table not in _SENTENCES:
            return [dict(zip(names, row, strict=True)) for row in cursor]
        told = ([self.said(value) for value in row] for row in cursor)
        return [dict(zip(names, row, strict=True)) for row in told]

    def said(self, value: Any) -> Any:
        """A sentence with what it was made of, where the database tells; all else as it is."""
        return self.texts.get(value, value) if isinstance(value, str) else value

    def columns(self, table: str) -> tuple[str, ...]:
        """Names of a table's columns."""
        found = self.connection.execute(f"PRAGMA table_info({table})")
        return tuple(str(row[1]) for row in found)

    def last_id(self, table: str) -> int:
        """Last row id of a table whose rows are numbered from 1."""
        query = f"SELECT coalesce(max(rowid), 0) FROM {table}"
        return int(self.connection.execute(query).fetchone()[0])

    def has_rows(self, table: str) -> bool:
        """Whether a table holds any."""
        return self.connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is not None

    def new_map(self, table: str) -> Int64:
        """A map for a table's row ids; 0, which stands for no row, stays 0."""
        result = np.zeros(self.last_id(table) + 1, dtype=np.int64)
        self.maps[table] = result
        return result

    @property
    def is_given(self) -> bool:
        """Whether it is a database that a user gave, not one that was made for the join."""
        return str(self.path) == self.label

    @property
    def short_label(self) -> str:
        """File name; with its folder where the name alone says nothing."""
        path = Path(self.label)
        is_usual = path.name.startswith(("dlprof_dldb", "nsys_profile"))
        return f"{path.parent.name}/{path.name}" if is_usual and path.parent.name else path.name

    @property
    def last_ns(self) -> int:
        """Its last event on its own clock. Unit: ns."""
        return int(self.meta["last_ns"])

    @property
    def start_utc_ns(self) -> int | None:
        """Time 0 of its clock, since 1970. Unit: ns. None: unknown."""
        text = self.meta.get("session_start_utc_ns", "")
        return int(text) if text else None


@contextmanager
def open_parts(paths: list[Path], labels: list[str]) -> Iterator[list[Part]]:
    """Open the databases to be joined.

    Raises:
        NotADldbError: One is damaged, or an older version wrote it.
    """
    with ExitStack() as stack:
        yield [_open(path, label, stack) for path, label in zip(paths, labels, strict=True)]


def _open(path: Path, label: str, stack: ExitStack) -> Part:
    uri = read_only_uri(path)
    connection = stack.enter_context(closing(sqlite3.connect(uri, uri=True)))
    connection.text_factory = lenient_text
    reader = stack.enter_context(column_reader(path))
    try:
        told = connection.execute(_TEXTS)
        texts = {str(text): from_json(str(raw), str(text)) for text, raw in told}
        meta = {str(key): texts.get(value, str(value)) for key, value in connection.execute(_META)}
        ranks = tuple(LocalRank(*row) for row in connection.execute(_RANKS))
        int(meta["last_ns"])
    except (sqlite3.DatabaseError, KeyError, ValueError, TypeError) as error:
        raise NotADldbError(
            say(
                "'{file}' cannot be joined with other ranks: {error}.",
                file=label,
                error=str(error).splitlines()[0],
            ),
            hint=say(
                "Give the Nsight Systems export, or make the database again with this version."
            ),
        ) from error
    return Part(path, label, connection, reader, meta, ranks, texts)


_SENTENCES = frozenset({"warnings", "ops", "devices", "model_config", "cost_units"})
"""Tables that hold sentences for people."""
_TEXTS = "SELECT text, made_of FROM texts"
_META = "SELECT key, value FROM dldb_meta"
_RANKS = "SELECT id, rank, process, device FROM ranks ORDER BY id"
