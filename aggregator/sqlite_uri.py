"""Names of SQLite files, without the libraries that read them fast: the viewer starts with this."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from pathlib import Path

SQLITE_MAGIC = b"SQLite format 3\x00"
"""How every SQLite file begins."""


def read_only_uri(path: Path) -> str:
    """SQLite URI that opens the file for reading only, whatever characters its name has."""
    return f"file:{quote(str(path.resolve()))}?mode=ro"


def lenient_text(raw: bytes) -> str:
    """Text factory for files that may be damaged: their text need not be UTF-8."""
    return raw.decode("utf-8", "replace")


def is_busy(text: str) -> bool:
    """Whether an SQLite error's text says that somebody else has the file locked.

    The phrase as SQLite words it: names of tables and columns may hold its words.
    """
    return any(phrase in text for phrase in _BUSY)


def is_full(text: str) -> bool:
    """Whether an SQLite error's text says that the disk has no room, or refuses."""
    return any(phrase in text for phrase in _FULL)


_FULL = ("database or disk is full", "disk I/O error")
"""``sqlite3_errstr`` of SQLITE_FULL and SQLITE_IOERR: readers, too, write temporary files."""

_BUSY = ("database is locked", "table is locked", "is busy")
"""``sqlite3_errstr`` of SQLITE_BUSY and SQLITE_LOCKED, and how ADBC may end it."""
