"""Files as they must not be: each made from a good one by a number, always the same way."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

PAGE = 4096
DEPTH = 10_000
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    '=HYPERLINK("http://evil.example")',
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "a\x00b\x01\x1b[31m\u202e\ufeff\u2028",
    "{{7*7}} {0.__class__} %s %n ${x}",
    "'; DROP TABLE ops; --",
    "\ud7ff\U0010ffff\ufffe",
    "x" * (1 << 20),
    "/".join("deep" for _ in range(DEPTH)),
    "(" * DEPTH,
    "[" * DEPTH + "]" * DEPTH,
)
ODD_VALUES = (
    *(None, 0, -1, 1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 1.5, -1e308, 1e308),
    *("", "x", "12", b"\xff\xfe\x00", b""),
)

Edit = Callable[[sqlite3.Connection, random.Random], None]


def make(original: Path, target: Path, number: int) -> str:
    """Write the mutant of a number; what was done to it."""
    chance = random.Random(f"{original.name}/{number}")
    name, spoil = KINDS[number % len(KINDS)]
    target.write_bytes(original.read_bytes())
    spoil(target, chance, number // len(KINDS))
    return name


def _flip_pages(path: Path, chance: random.Random, step: int) -> None:
    del step
    data = bytearray(path.read_bytes())
    for _ in range(chance.choice((1, 1, 3, 20))):
        at = chance.randrange(max(1, len(data) // PAGE)) * PAGE
        how = chance.randrange(4)
        size = len(data[at : at + PAGE])
        if how == 0:
            data[at : at + size] = bytes(size)
        elif how == 1:
            data[at : at + size] = chance.randbytes(size)
        elif how == 2:
            other = chance.randrange(max(1, len(data) // PAGE)) * PAGE
            data[at : at + size] = data[other : other + size].ljust(size, b"\0")
        else:
            place = at + chance.randrange(max(1, size))
            data[place : place + 8] = chance.randbytes(len(data[place : place + 8]))
    path.write_bytes(bytes(data))


def _cut(path: Path, chance: random.Random, step: int) -> None:
    """Every 4 KB in turn, and now and then between two pages."""
    size = path.stat().st_size
    at = (step * PAGE) % size
    with path.open("rb+") as file:
        file.truncate(at if step % 3 else chance.randrange(size))


def _edited(edit: Edit) -> Callable[[Path, random.Random, int], None]:
    def spoil(path: Path, chance: random.Random, step: int) -> None:
        del step
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            for _ in range(chance.choice((1, 1, 2, 4))):
                # What SQLite itself refuses cannot be in a file that it wrote.
                with suppress(sqlite3.Error):
                    edit(connection, chance)
            connection.commit()

    return spoil


def _tables(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    )
    return sorted(str(row[0]) for row in rows)


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [str(row[1]) for row in connection.execute(f'PRAGMA table_info("{table}")')]


def _pick(connection: sqlite3.Connection, chance: random.Random) -> tuple[str, str]:
    table = chance.choice(_tables(connection))
    return table, chance.choice(_columns(connection, table))


def _some(chance: random.Random) -> str:
    """Which rows: all, one, or some."""
    odd = f"rowid % {chance.choice((2, 3, 7))} = 0"
    return chance.choice(("1", "rowid = 1", odd))


def _drop_column(connection: sqlite3.Connection, chance: random.Random) -> None:
    table, column = _pick(connection, chance)
    connection.execute("PRAGMA legacy_alter_table = ON")
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute(f'ALTER TABLE "{table}" DROP COLUMN "{column}"')


def _drop_table_or_view(connection: sqlite3.Connection, chance: random.Random) -> None:
    rows = connection.execute(
        "SELECT type, name FROM sqlite_master WHERE type IN ('table', 'view') "
        "AND name NOT LIKE 'sqlite_%' ORDER BY name"
    ).fetchall()
    kind, name = chance.choice(rows)
    connection.execute(f'DROP {kind} "{name}"')


def _empty_table(connection: sqlite3.Connection, chance: random.Random) -> None:
    connection.execute(f'DELETE FROM "{chance.choice(_tables(connection))}"')


def _retype(connection: sqlite3.Connection, chance: random.Random) -> None:
    table, column = _pick(connection, chance)
    kind = chance.choice(("TEXT", "REAL", "BLOB", "INTEGER"))
    connection.execute(
        f'UPDATE "{table}" SET "{column}" = CAST("{column}" AS {kind}) WHERE {_some(chance)}'
    )


def _odd_value(connection: sqlite3.Connection, chance: random.Random) -> None:
    table, column = _pick(connection, chance)
    value = chance.choice(ODD_VALUES)
    connection.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE {_some(chance)}', (value,))


def _nulls(connection: sqlite3.Connection, chance: random.Random) -> None:
    table, column = _pick(connection, chance)
    connection.execute(f'UPDATE "{table}" SET "{column}" = NULL WHERE {_some(chance)}')


def _end_before_start(connection: sqlite3.Connection, chance: random.Random) -> None:
    for table in _tables(connection):
        columns = _columns(connection, table)
        for first, last in (("start", "end"), ("start_ns", "stop_ns"), ("start_ns", "end_ns")):
            if first in columns and last in columns and chance.random() < 0.6:
                connection.execute(
                    f'UPDATE "{table}" SET "{first}" = "{last}", "{last}" = "{first}" '
                    f"WHERE {_some(chance)}"
                )


def _lost_ids(connection: sqlite3.Connection, chance: random.Random) -> None:
    table = chance.choice(_tables(connection))
    for column in _columns(connection, table):
        if chance.random() < 0.5:
            connection.execute(
                f'UPDATE "{table}" SET "{column}" = abs("{column}") + ? WHERE {_some(chance)}',
                (chance.choice((10**6, 2**33, -5)),),
            )


def _hostile_text(connection: sqlite3.Connection, chance: random.Random) -> None:
    table, column = _pick(connection, chance)
    text = chance.choice(HOSTILE)
    texts = f"typeof(\"{column}\") = 'text' AND {_some(chance)}"
    connection.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE {texts}', (text,))


def _more_rows(connection: sqlite3.Connection, chance: random.Random) -> None:
    table = chance.choice(_tables(connection))
    columns = _columns(connection, table)
    for _ in range(chance.choice((1, 50))):
        values = [chance.choice((*ODD_VALUES, *HOSTILE[:4])) for _ in columns]
        marks = ", ".join("?" for _ in columns)
        with suppress(sqlite3.Error):
            connection.execute(f'INSERT INTO "{table}" VALUES ({marks})', values)


def _deep(connection: sqlite3.Connection, chance: random.Random) -> None:
    """Ranges in ranges in ranges, as no program nests them."""
    if "NVTX_EVENTS" not in _tables(connection):
        _hostile_text(connection, chance)
        return
    columns = ("start", "end", "eventType", "text", "globalTid", "domainId")
    kind = chance.choice((59, 60))
    rows = [
        (level, 10**6 - level, kind, f"level {level % chance.choice((1, 5, DEPTH))}", 1, 0)
        for level in range(DEPTH)
    ]
    marks = ", ".join("?" for _ in columns)
    names = ", ".join(f'"{column}"' for column in columns)
    connection.executemany(f"INSERT INTO NVTX_EVENTS ({names}) VALUES ({marks})", rows)
    if chance.random() < 0.5:
        connection.execute("UPDATE NVTX_EVENTS SET globalTid = (SELECT max(globalTid) FROM "
                           "CUPTI_ACTIVITY_KIND_RUNTIME)")  # fmt: skip


KINDS: tuple[tuple[str, Callable[[Path, random.Random, int], None]], ...] = (
    ("flipped pages", _flip_pages),
    ("cut", _cut),
    ("column dropped", _edited(_drop_column)),
    ("table or view dropped", _edited(_drop_table_or_view)),
    ("table emptied", _edited(_empty_table)),
    ("retyped", _edited(_retype)),
    ("odd value", _edited(_odd_value)),
    ("nulls", _edited(_nulls)),
    ("end before start", _edited(_end_before_start)),
    ("ids that lead nowhere", _edited(_lost_ids)),
    ("hostile text", _edited(_hostile_text)),
    ("more rows", _edited(_more_rows)),
    ("nested 10,000 deep", _edited(_deep)),
)
