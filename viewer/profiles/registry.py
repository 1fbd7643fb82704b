"""Which databases are served, and under which ids."""

from __future__ import annotations

import functools
import glob
import hashlib
import re
from collections.abc import Iterator, Mapping
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
        name: Given by a user; empty: the profile's own.
        is_stored: Whether the viewer stored the file itself, and so may delete it.
    """

    id: str
    path: Path
    name: str = ""
    is_stored: bool = False


@dataclass(frozen=True)
class Kept:
    """What the viewer keeps of a profile beyond its file.

    Attributes:
        path: The file.
        name: Given by a user; empty: the profile's own.
        is_added: Served although nobody named it at the start.
        is_stored: Whether the viewer stored the file itself.
        is_hidden: Not served although it was named.
    """

    path: Path
    name: str
    is_added: bool
    is_stored: bool
    is_hidden: bool


class Registry:
    """The files named at the start, what the folders named then hold now, and what was added.

    Args:
        databases: Files and folders named at the start.
        kept: What is kept of profiles, by their ids.
    """

    def __init__(self, databases: tuple[Path, ...], kept: Mapping[str, Kept] | None = None) -> None:
        self._databases = databases
        self._kept = kept or {}

    def all(self) -> list[ServedProfile]:
        """Every profile, in the order named; a file that is named and lost is still one.

        What was converted from a database of NVIDIA's follows it, and what was added comes last.
        """
        named = [path for entry in self._databases for path in _files_of(entry)]
        named += [kept.path for kept in self._kept.values() if kept.is_added]
        paths = dict.fromkeys(found for path in named for found in (path, *conversions_of(path)))
        return [served for path in paths if (served := self._served(path)) is not None]

    def find(self, wanted: str) -> ServedProfile | None:
        """The profile of an id, if it is served."""
        return next((served for served in self.all() if served.id == wanted), None)

    def _served(self, path: Path) -> ServedProfile | None:
        found = profile_id(path)
        kept = self._kept.get(found)
        if kept is None:
            return ServedProfile(found, path)
        if kept.is_hidden:
            return None
        return ServedProfile(found, path, kept.name, kept.is_stored)

    def get(self, wanted: str) -> ServedProfile:
        """The profile of an id.

        Raises:
            ProfileNotServedError: There is none.
        """
        if served := self.find(wanted):
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
    states = {found: _state(found) for found in sorted(beside)}
    return [
        found
        for found, state in states.items()
        if state and _converted_from(found, *state) == path.name
    ]


def _state(path: Path) -> tuple[int, int] | None:
    """Changes whenever the file does; None: there is no file, but a link that leads nowhere."""
    try:
        status = path.stat()
    except OSError:
        return None
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
        if (state := _state(path)) and _is_dldb(path, *state):
            yield path


@functools.lru_cache(maxsize=1024)
def _is_dldb(path: Path, modified_ns: int, size: int) -> bool:
    """Open a file once for each state of it; the last two arguments only name that state."""
    try:
        with opened(path, time_limit_s=_PROBE_TIME_LIMIT_S):
            return True
    except DatabaseError:
        return False
