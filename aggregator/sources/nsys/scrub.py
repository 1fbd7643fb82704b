"""Copies an export without what it holds of the machine's processes: their environments and output.

Nsight Systems records the environment of every process of the machine, as texts of ``StringIds``
whose variables are separated by NUL, and the output of the profiled one. No event refers to either.
"""

from __future__ import annotations

import errno
import re
import sqlite3
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aggregator.errors import UsageError
from aggregator.sources.formats import (
    READ_ERRORS,
    Format,
    corrupt,
    detect_tables,
    list_tables,
    unsupported,
)
from aggregator.sources.nsys import schema as names
from aggregator.sources.nsys.schema import Schema
from aggregator.system.sqlite_uri import SchemaLimitError, connect_read_only, is_full, lenient_text
from aggregator.system.temporary_files import publish, remove_leftovers, temporary_name
from aggregator.texts import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_VISIBLE: Final = re.compile(r"(?:^|;)(CUDA_VISIBLE_DEVICES=[0-9,]*)(?=;|$)")
_ASSIGNMENT: Final = re.compile(r"(?:^|[\0;\n])[A-Za-z_][A-Za-z0-9_]*=")
_REFERENCE: Final = re.compile(r'^\s*"?(\w+)"?[^\n]*REFERENCES\s+StringIds', re.MULTILINE)
_NAMES_A_STRING: Final = re.compile(
    r"(?i)(?:name|(?<!con)text|symbol|module|message|label)(?:id)?$"
)
"""Columns that refer to ``StringIds`` in exports without that comment; ids of contexts do not."""
_OUTPUT_COLUMN: Final = "contentId"
_METADATA: Final = re.compile(r"META_DATA_|TARGET_INFO_|EXPORT_META_DATA")
_FILES: Final = "ANALYSIS_FILE"
_READ: Final = re.compile(
    "StringIds|NVTX_|CUPTI_|CUDA_|TARGET_INFO_|META_DATA_|EXPORT_META_DATA|ENUM_|GPU_METRICS"
    "|ThreadNames|ANALYSIS_DETAILS|DLPROF_|sqlite_"
)
"""Tables that are read, or whose texts are names of the export; names of ranges assign values."""
_COMMAND_KEYS: Final = re.compile(
    r"PROCESS_\d+:(?:COMMAND|ARGUMENT_\d+|WORKING_DIR|USER_NAME)|EXPORT_USER|EXPORT_PARAM_\w*PATH\w*"
)


@dataclass(frozen=True)
class Scrubbed:
    """What was removed."""

    texts: int  # Texts of no event: environments, command lines and output of processes.
    settings: int  # Values in the tables of the capture and of the machine.


def scrub(
    source: Path, target: Path, *, keep_commands: bool = False, overwrite: bool = False
) -> Scrubbed:
    """Copy an export of Nsight Systems without environments, output and command lines.

    The events and everything that an analysis reads stay as they are.

    Args:
        source: The export; it is not changed.
        target: The copy; it appears when it is complete.
        keep_commands: Keep the command line, folder and user name of the profiled program.
        overwrite: Replace an existing file.

    Raises:
        UsageError: ``target`` is ``source``, or exists and ``overwrite`` is not set.
        UnsupportedProfileError: ``source`` is no export.
        CorruptProfileError: ``source`` is damaged.
        OSError: ``target`` cannot be written.
    """
    if target.exists() and (target.samefile(source) or not overwrite):
        raise UsageError(say("The file '{path}' exists already.", path=str(target)))
    tables = list_tables(source)
    if (found := detect_tables(tables)) is not Format.EXPORT:
        raise unsupported(source, found, tables)
    remove_leftovers(target.parent, target.name)
    copy = temporary_name(target, "partial")
    try:
        with ExitStack() as stack:
            for suffix in ("", "-journal"):  # SQLite writes it beside a copy on a full disk
                stack.callback(copy.with_name(copy.name + suffix).unlink, missing_ok=True)
            _copy(source, copy)
            with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
                connection.text_factory = lenient_text
                connection.execute("PRAGMA journal_mode = OFF")
                connection.execute("PRAGMA ignore_check_constraints = ON")
                # What is removed is overwritten with zeros, so the copy needs no second one.
                connection.execute("PRAGMA secure_delete = ON")
                connection.execute("BEGIN")
                result = Scrubbed(
                    _clear_strings(connection, Schema(copy, tables)),
                    _clear_settings(connection, tables, keep_commands=keep_commands)
                    + _clear_free_texts(connection, keep_commands=keep_commands),
                )
                connection.execute("COMMIT")
            publish(copy, target, overwrite=overwrite)
    except READ_ERRORS as error:
        if is_full(str(error)):
            raise OSError(errno.ENOSPC, str(error)) from error
        raise corrupt(source, error) from error
    return result


_RUNS_AT_CHANGES: Final = """
SELECT name FROM sqlite_master WHERE type = 'trigger'
UNION ALL
SELECT i.name
FROM sqlite_master AS m, pragma_index_list(m.name) AS i, pragma_index_xinfo(i.name) AS c
WHERE m.type = 'table' AND (i.partial OR c.cid = -2)
"""


def _copy(source: Path, target: Path) -> None:
    """Write a copy without free pages, of a file in which a change runs nothing."""
    with closing(connect_read_only(source)) as connection:
        if connection.execute(_RUNS_AT_CHANGES).fetchone():
            raise SchemaLimitError("it holds a trigger or an index that computes")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 2**31 - 1)  # as long as SQLite takes
        connection.execute("PRAGMA query_only = OFF")
        connection.execute("VACUUM INTO ?", (str(target),))


def _clear_strings(connection: sqlite3.Connection, schema: Schema) -> int:
    """Clear the texts that no event refers to, and every text that is an environment."""
    connection.execute("CREATE TEMP TABLE kept (id INTEGER PRIMARY KEY)")
    for table, column in _references(connection):
        connection.execute(
            f'INSERT OR IGNORE INTO kept SELECT "{column}" FROM "{table}"'
            f" WHERE typeof(\"{column}\") = 'integer'"
        )
    found = connection.execute(
        f"UPDATE {schema.table(names.STRINGS)} SET value = '' WHERE value <> ''"
        " AND (instr(value, char(0)) > 0 OR id NOT IN (SELECT id FROM kept))"
    )
    return found.rowcount


def _references(connection: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """Yield the columns with ids of strings, but those of a program's output."""
    tables = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'StringIds%'"
    ).fetchall()
    for table, sql in tables:
        noted = set(_REFERENCE.findall(str(sql)))
        for row in connection.execute(f'PRAGMA table_info("{table}")').fetchall():
            column = str(row[1])
            if column != _OUTPUT_COLUMN and (column in noted or _NAMES_A_STRING.search(column)):
                yield str(table), column


def _clear_settings(
    connection: sqlite3.Connection, tables: frozenset[str], *, keep_commands: bool
) -> int:
    count = 0
    for table in sorted(tables):
        columns = {row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')}
        if not _METADATA.match(table) or not {"name", "value"} <= columns:
            continue
        query = f'SELECT rowid, name, value FROM "{table}"'
        for row, name, value in connection.execute(query).fetchall():
            text = _without_secrets(str(name), str(value or ""), keep_commands=keep_commands)
            if text != str(value or ""):
                count += 1
                connection.execute(f'UPDATE "{table}" SET value = ? WHERE rowid = ?', (text, row))
    return count


def _clear_free_texts(connection: sqlite3.Connection, *, keep_commands: bool) -> int:
    """Clear names of files, and texts that assign a variable in tables that no analysis reads."""
    count = 0
    if not keep_commands:
        count += _clear(connection, _FILES, bool)
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    for table in (str(row[0]) for row in tables):
        if not _READ.match(table):
            count += _clear(connection, table, lambda text: bool(_ASSIGNMENT.search(text)))
    return count


def _clear(connection: sqlite3.Connection, table: str, is_secret: Callable[[str], bool]) -> int:
    connection.create_function("is_secret", 1, is_secret)
    count = 0
    for row in connection.execute(f'PRAGMA table_info("{table}")').fetchall():
        where = f'typeof("{row[1]}") = \'text\' AND is_secret("{row[1]}")'
        found = connection.execute(f'UPDATE "{table}" SET "{row[1]}" = \'\' WHERE {where}')
        count += found.rowcount
    return count


def _without_secrets(name: str, value: str, *, keep_commands: bool) -> str:
    if _COMMAND_KEYS.fullmatch(name):
        return value if keep_commands else ""
    if "ENVIRONMENT" in name.upper() or _ASSIGNMENT.search(value):
        # Analysis needs to know which GPUs the run could see.
        return ";".join(_VISIBLE.findall(value))
    return value
