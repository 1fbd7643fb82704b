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
