"""Files as they must not be: each made from a good one by a number, always the same way."""

from __future__ import annotations

import random
import re
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

ODD_TEXTS = (
    *("-1", "0", "9" * 25, "9" * 5_000, "1e999", "NaN", "1.5", "null", "None", "true", "[]", "{}"),
    *("b'x'", "{1, 2}", "(1,)", "1j", "...", "[[1], 2]", '"x"', '"\\ud800"', "9223372036854775807"),
)
_ATTEMPTS = 50
_DEEP_TEXTS = (
    "/".join("deep" for _ in range(DEPTH)),
    "/" * DEPTH,
    "[" * DEPTH + "]" * DEPTH,
    '{"a": ' * DEPTH + "1" + "}" * DEPTH,
    f"[{'[' * DEPTH}1{']' * DEPTH}]",
)

Edit = Callable[[sqlite3.Connection, random.Random], bool]
"""Whether anything changed."""


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
    """Between two pages, or anywhere (at every 4 KB: ``test_cut_at_every_page``)."""
    size = path.stat().st_size
    with path.open("rb+") as file:
        file.truncate((step * PAGE) % size if step % 3 else chance.randrange(size))


def _edited(edit: Edit) -> Callable[[Path, random.Random, int], None]:
    """A change of what the file holds; made again until something has changed."""

    def spoil(path: Path, chance: random.Random, step: int) -> None:
        del step
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            # Tables can then be renamed and dropped although views name them.
            connection.execute("PRAGMA legacy_alter_table = ON")
            connection.execute("BEGIN")
            wanted, done = chance.choice((1, 1, 2, 4)), 0
            for _ in range(_ATTEMPTS):
                done += _attempt(connection, chance, edit)
                if not connection.in_transaction:
                    # No row id is left: SQLite takes back all that was done.
                    connection.execute("BEGIN")
                    done = 0
                if done >= wanted:
                    break
            connection.execute("COMMIT")
        if not done:
            raise AssertionError(f"nothing of {path.name} could be damaged in this way")

    return spoil


def _attempt(connection: sqlite3.Connection, chance: random.Random, edit: Edit) -> bool:
    connection.execute("SAVEPOINT edit")
    try:
        return edit(connection, chance)
    except sqlite3.Error:
        # What SQLite itself refuses cannot be in a file that it wrote.
        connection.execute("ROLLBACK TO edit")
        return False


def _tables(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    )
    return sorted(str(row[0]) for row in rows)


def _columns(connection: sqlite3.Connection, table: str) -> dict[str, str]:
    """Declared type by name."""
    rows = connection.execute(f'PRAGMA table_info("{table}")')
    return {str(row[1]): str(row[2]) for row in rows}


def _pick(connection: sqlite3.Connection, chance: random.Random) -> tuple[str, str]:
    table = chance.choice(_tables(connection))
    return table, chance.choice(sorted(_columns(connection, table)))


def _some(chance: random.Random) -> str:
    """Which rows: all, one, or some."""
    odd = f"rowid % {chance.choice((2, 3, 7))} = 0"
    return chance.choice(("1", "rowid = 1", odd))


def _rebuild(connection: sqlite3.Connection, table: str, columns: dict[str, str]) -> None:
    """The table anew, of some columns, without constraints and indexes: others wrote it."""
    made = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
    kept = ", ".join(f'"{name}"' for name in columns)
    connection.execute(f'CREATE TABLE "made anew" ({made})')
    connection.execute(f'INSERT INTO "made anew" SELECT {kept} FROM "{table}"')
    connection.execute(f'DROP TABLE "{table}"')
    connection.execute(f'ALTER TABLE "made anew" RENAME TO "{table}"')


def _free(connection: sqlite3.Connection, table: str) -> None:
    """Lift the constraints of a table: NOT NULL, UNIQUE, CHECK and keys."""
    _rebuild(connection, table, _columns(connection, table))


def _drop_column(connection: sqlite3.Connection, chance: random.Random) -> bool:
    table, column = _pick(connection, chance)
    columns = _columns(connection, table)
    del columns[column]
    if columns:
        _rebuild(connection, table, columns)
    return bool(columns)


def _drop_table_or_view(connection: sqlite3.Connection, chance: random.Random) -> bool:
    rows = connection.execute(
        "SELECT type, name FROM sqlite_master WHERE type IN ('table', 'view') "
        "AND name NOT LIKE 'sqlite_%' ORDER BY name"
    ).fetchall()
    kind, name = chance.choice(rows)
    connection.execute(f'DROP {kind} "{name}"')
    return True


def _empty_table(connection: sqlite3.Connection, chance: random.Random) -> bool:
    return connection.execute(f'DELETE FROM "{chance.choice(_tables(connection))}"').rowcount > 0


def _retype(connection: sqlite3.Connection, chance: random.Random) -> bool:
    """Another type: of the column as declared, of all its values, or of some of them."""
    table, column = _pick(connection, chance)
    kind = chance.choice(("TEXT", "REAL", "BLOB", "INTEGER"))
    other = f'"{column}" IS NOT NULL AND typeof("{column}") <> \'{kind.lower()}\''
    if connection.execute(f'SELECT 1 FROM "{table}" WHERE {other}').fetchone() is None:
        return False
    declared = chance.choice((kind, ""))
    _rebuild(connection, table, _columns(connection, table) | {column: declared})
    found = connection.execute(
        f'UPDATE "{table}" SET "{column}" = CAST("{column}" AS {kind}) '
        f"WHERE {other} AND {_some(chance)}"
    )
    return bool(declared) or found.rowcount > 0


def _odd_value(connection: sqlite3.Connection, chance: random.Random) -> bool:
    table, column = _pick(connection, chance)
    value = chance.choice(ODD_VALUES)
    _free(connection, table)
    found = connection.execute(
        f'UPDATE "{table}" SET "{column}" = ? WHERE "{column}" IS NOT ? AND {_some(chance)}',
        (value, value),
    )
    return found.rowcount > 0


def _nulls(connection: sqlite3.Connection, chance: random.Random) -> bool:
    table, column = _pick(connection, chance)
    _free(connection, table)
    found = connection.execute(
        f'UPDATE "{table}" SET "{column}" = NULL WHERE "{column}" IS NOT NULL AND {_some(chance)}'
    )
    return found.rowcount > 0


def _end_before_start(connection: sqlite3.Connection, chance: random.Random) -> bool:
    done = 0
    for table in _tables(connection):
        pairs = _times(_columns(connection, table))
        if not pairs or chance.random() < 0.4:
            continue
        _free(connection, table)
        for change in pairs:
            found = connection.execute(f'UPDATE "{table}" SET {change} WHERE {_some(chance)}')
            done += found.rowcount
    return done > 0


def _times(columns: dict[str, str]) -> list[str]:
    """How to turn each pair of a start and an end around, and each length."""
    turned = [f'"{name}" = -1 - "{name}"' for name in columns if "duration" in name]
    for first in columns:
        for word in ("end", "stop"):
            last = first.replace("start", word)
            if last != first and last in columns:
                turned.append(f'"{first}" = "{last}" + 1, "{last}" = "{first}"')
    return turned


def _lost_ids(connection: sqlite3.Connection, chance: random.Random) -> bool:
    table = chance.choice(_tables(connection))
    _free(connection, table)
    done = 0
    for column in _columns(connection, table):
        if chance.random() < 0.5:
            found = connection.execute(
                f'UPDATE "{table}" SET "{column}" = abs("{column}") + ? '
                f"WHERE typeof(\"{column}\") = 'integer' AND {_some(chance)}",
                (chance.choice((10**6, 2**33, -5)),),
            )
            done += found.rowcount
    return done > 0


def _hostile_text(connection: sqlite3.Connection, chance: random.Random) -> bool:
    table, column = _pick(connection, chance)
    return _set_texts(connection, chance, table, column, chance.choice(HOSTILE))


def _set_texts(
    connection: sqlite3.Connection, chance: random.Random, table: str, column: str, text: str
) -> bool:
    _free(connection, table)
    texts = f"typeof(\"{column}\") = 'text' AND {_some(chance)}"
    found = connection.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE {texts}', (text,))
    return found.rowcount > 0


def _more_rows(connection: sqlite3.Connection, chance: random.Random) -> bool:
    table = chance.choice(_tables(connection))
    if chance.random() < 0.7:
        _free(connection, table)
    columns = _columns(connection, table)
    done = 0
    for _ in range(chance.choice((1, 50))):
        values = [chance.choice((*ODD_VALUES, *HOSTILE[:4])) for _ in columns]
        marks = ", ".join("?" for _ in columns)
        with suppress(sqlite3.Error):
            done += connection.execute(f'INSERT INTO "{table}" VALUES ({marks})', values).rowcount
    return done > 0


def _holding(connection: sqlite3.Connection, pattern: str) -> list[tuple[str, str]]:
    """Columns with a value that holds one of some characters."""
    return [
        (table, column)
        for table in _tables(connection)
        for column in _columns(connection, table)
        if connection.execute(
            f"SELECT 1 FROM \"{table}\" WHERE typeof(\"{column}\") IN ('text', 'blob') "
            f'AND "{column}" GLOB ?',
            (pattern,),
        ).fetchone()
    ]


def _damaged_text(connection: sqlite3.Connection, chance: random.Random) -> bool:
    """Lists, objects, markers and arrays of bytes that do not hold together any more."""
    found = _holding(connection, chance.choice(("*[[{]*", "*[[{]*", "*")))
    if not found:
        return False
    table, column = chance.choice(found)
    _free(connection, table)
    rows = connection.execute(
        f'SELECT rowid, "{column}" FROM "{table}" WHERE typeof("{column}") IN (\'text\', \'blob\')'
    ).fetchall()
    changed = [(damaged(value, chance), row) for row, value in rows if chance.random() < 0.6]
    connection.executemany(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?', changed)
    return bool(changed)


def damaged(value: str | bytes, chance: random.Random) -> str | bytes:
    """A text that a program writes, or an array of numbers, with a mistake in it."""
    at = chance.randrange(len(value) + 1)
    if isinstance(value, bytes):
        return chance.choice((value[:at], value[at:], value + b"\x07", value + bytes(8)))
    inner = chance.choice(("[]", "()", "{}"))
    deep = inner[0] * DEPTH + chance.choice((inner[1] * DEPTH, ""))
    ways = (
        lambda: value[:at],
        lambda: value[:at] + value[at + chance.randrange(1, 20) :],
        lambda: value[:at] + chance.choice("[]{}(),:;'\"\\= ") + value[at:],
        lambda: _replaced(r"\d+", value, chance.choice(ODD_TEXTS), chance),
        lambda: _replaced(r"\[[^\[\]]*\]|\([^()]*\)", value, chance.choice(ODD_TEXTS), chance),
        lambda: _replaced(
            r'"\w*"|\'\w*\'|\b(true|false|None)\b', value, chance.choice(ODD_TEXTS), chance
        ),
        lambda: _replaced(r"\d+|\[\]", value, deep, chance, once=True),
    )
    return chance.choice(ways)()


def _replaced(
    pattern: str, value: str, odd: str, chance: random.Random, *, once: bool = False
) -> str:
    """Replace matches, at one place or everywhere."""
    places = [found.span() for found in re.finditer(pattern, value)]
    if places and (once or chance.random() < 0.5):
        places = [chance.choice(places)]
    for start, end in reversed(places):
        value = value[:start] + odd + value[end:]
    return value


def _deep(connection: sqlite3.Connection, chance: random.Random) -> bool:
    """Ranges in ranges in ranges, as no program nests them; groups and lists in databases."""
    if "NVTX_EVENTS" not in _tables(connection):
        table, column = chance.choice(_holding(connection, "*[/[{]*"))
        return _set_texts(connection, chance, table, column, chance.choice(_DEEP_TEXTS))
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
    return True


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
    ("damaged texts", _edited(_damaged_text)),
    ("nested 10,000 deep", _edited(_deep)),
)
