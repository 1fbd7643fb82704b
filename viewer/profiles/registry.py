"""Which databases are served, and under which ids."""

from __future__ import annotations

import functools
import glob
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from aggregator.conversion import INFIX, SOURCE_NAME
from aggregator.errors import DatabaseError
from aggregator.query.connection import opened
from aggregator.texts import say
from viewer.errors import ProfileNotServedError

DATABASE_SUFFIX = ".sqlite"
_PROBE_TIME_LIMIT_S = 2.0


@dataclass(frozen=True)
class ServedProfile:
    """One database.

    Attributes:
        id: Part of addresses; the same for the same file in every run of the viewer.
        path: The file.
    """

    id: str
    path: Path


class Registry:
    """The files named at the start, and whatever databases the folders named then hold now."""

    def __init__(self, databases: tuple[Path, ...]) -> None:
        self._databases = databases

    def all(self) -> list[ServedProfile]:
        """Every profile, in the order named; a file that is named and lost is still one.

        What was converted from a database of NVIDIA's follows it.
        """
        named = [path for entry in self._databases for path in _files_of(entry)]
        paths = dict.fromkeys(found for path in named for found in (path, *conversions_of(path)))
        return [ServedProfile(profile_id(path), path) for path in paths]

    def get(self, wanted: str) -> ServedProfile:
        """The profile of an id.

        Raises:
            ProfileNotServedError: There is none.
        """
        for served in self.all():
            if served.id == wanted:
                return served
        raise ProfileNotServedError(
            say("No profile {wanted!r} is served here.", wanted=wanted),
            hint=say("GET /api/v1/profiles/ lists those that are."),
            profile=wanted,
        )


def profile_id(path: Path) -> str:
    """A readable id: the file's name, and enough of a hash to tell same names apart."""
    stem = re.sub(r"[^a-z0-9]+", "-", path.stem.lower()).strip("-")[:40]
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:8]
    return f"{stem or 'profile'}-{digest}"


def conversions_of(path: Path) -> list[Path]:
    """Databases beside a file that say that they were converted from it."""
    beside = path.parent.glob(f"{glob.escape(path.stem)}{INFIX}*{glob.escape(path.suffix)}")
    return [
        found for found in sorted(beside) if _converted_from(found, *_state(found)) == path.name
    ]


def _state(path: Path) -> tuple[int, int]:
    """Changes whenever the file does."""
    status = path.stat()
    return status.st_mtime_ns, status.st_size


@functools.lru_cache(maxsize=1024)
def _converted_from(path: Path, modified_ns: int, size: int) -> str:
    try:
        with opened(path, time_limit_s=_PROBE_TIME_LIMIT_S) as database:
            return database.info.get(SOURCE_NAME, "")
    except DatabaseError:
        return ""


def _files_of(entry: Path) -> Iterator[Path]:
    if not entry.is_dir():
        yield entry
        return
    # A folder of runs also holds exports and other SQLite files, which are passed over.
    for path in sorted(entry.glob(f"*{DATABASE_SUFFIX}")):
        if _is_dldb(path, *_state(path)):
            yield path


@functools.lru_cache(maxsize=1024)
def _is_dldb(path: Path, modified_ns: int, size: int) -> bool:
    """Open a file once for each state of it; the last two arguments only name that state."""
    try:
        with opened(path, time_limit_s=_PROBE_TIME_LIMIT_S):
            return True
    except DatabaseError:
        return False
