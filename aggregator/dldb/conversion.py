"""Finds the conversion of a database of NVIDIA's DLProf: one of this program beside it.

The original is never changed. ``dlprof_dldb.sqlite`` becomes ``dlprof_dldb.open.sqlite``; the
content of the original decides whether that file is its conversion, not its name or its times.
"""

from __future__ import annotations

import hashlib
from itertools import count
from pathlib import Path

from aggregator.dldb.reader import open_database
from aggregator.errors import DatabaseError
from aggregator.texts import say

INFIX = ".open"
SOURCE_NAME, SOURCE_VERSION, SOURCE_SHA256 = (
    "converted_from",
    "converted_from_version",
    "converted_from_sha256",
)
"""Keys of ``view_profile_info`` in a conversion."""


def content_hash(path: Path) -> str:
    """Return the SHA-256 of a file's content.

    Raises:
        DatabaseError: The file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DatabaseError(
            say("'{path}' cannot be read: {error}.", path=str(path), error=error.strerror or error)
        ) from error


def conversion_notes(source: Path, version: str) -> dict[str, str]:
    """Return what a conversion says about the database that it was made from."""
    return {SOURCE_NAME: source.name, SOURCE_VERSION: version, SOURCE_SHA256: content_hash(source)}


def find_conversion(source: Path) -> tuple[Path, bool]:
    """Return the path of the conversion of a database, and whether it is there already.

    A file of that name that is something else is left alone; the conversion gets the next name.
    """
    wanted = content_hash(source)
    for number in count():
        suffix = f"_{number}" if number else ""
        path = source.with_name(f"{source.stem}{INFIX}{suffix}{source.suffix}")
        if not path.exists():
            return path, False
        if _source_hash(path) == wanted:
            return path, True
    raise AssertionError  # count() never ends


def _source_hash(path: Path) -> str:
    """Content hash of what a database was converted from; empty: it is no conversion."""
    try:
        with open_database(path) as database:
            if not database.is_ours:
                return ""
            query = "SELECT value FROM view_profile_info WHERE key = ?"
            row = database.connection.execute(query, (SOURCE_SHA256,)).fetchone()
            return str(row[0]) if row else ""
    except DatabaseError:
        return ""
