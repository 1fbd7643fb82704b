"""The databases that are served, and their ids."""

from __future__ import annotations

import functools
import glob
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from aggregator.dldb.conversion import INFIX, SOURCE_NAME
from aggregator.errors import DatabaseBusyError, DatabaseError, QueryTimeoutError
from aggregator.tables.connection import opened
from aggregator.tables.declared.profile import profile_id
from aggregator.texts import say
from viewer.errors import ViewerError

DATABASE_SUFFIX = ".sqlite"
_PROBE_TIME_LIMIT_S = 2.0


@dataclass(frozen=True)
class ServedProfile:
    """One database."""

    id: str  # Part of addresses; the same for the same file in every run of the viewer.
    path: Path  # The file.
    name: str = ""  # Set by a user; empty: the profile's own.
    is_stored: bool = False  # Whether the viewer stored the file itself, and so may delete it.


@dataclass(frozen=True)
class Kept:
    """What the viewer stores about a profile."""

    path: Path  # The file.
    name: str  # Set by a user; empty: the profile's own.
    is_added: bool  # Added in the page or by the API, and complete.
    is_stored: bool  # Whether the viewer stored the file itself.
    is_hidden: bool  # Removed from the list.


class Registry:
    """The files and folders named at the start, with what the folders contain now, and added ones.

    Args:
        databases: Files and folders named at the start.
        kept: What is stored about profiles, by their ids.
    """

    def __init__(self, databases: tuple[Path, ...], kept: Mapping[str, Kept] | None = None) -> None:
        self._databases = databases
        self._kept = kept or {}

    def all(self) -> list[ServedProfile]:
        """Return every profile in the order named, also files that do not exist any more.

        Databases converted from one of NVIDIA's follow it; added profiles come last.
        """
        served = map(self._served, dict.fromkeys(self._paths()))
        return [profile for profile in served if profile is not None]

    def find(self, wanted: str) -> ServedProfile | None:
        """Return the profile of an id, if it is served; folders behind it are not listed."""
        served = (self._served(path) for path in self._paths() if profile_id(path) == wanted)
        return next((profile for profile in served if profile is not None), None)

    def _paths(self) -> Iterator[Path]:
        named = chain.from_iterable(map(_files_of, self._databases))
        for path in chain(named, (kept.path for kept in self._kept.values() if kept.is_added)):
            yield path
            yield from conversions_of(path)

    def _served(self, path: Path) -> ServedProfile | None:
        found = profile_id(path)
        kept = self._kept.get(found)
        if kept is None:
            return ServedProfile(found, path)
        if kept.is_hidden:
            return None
        return ServedProfile(found, path, kept.name, kept.is_stored)

    def get(self, wanted: str) -> ServedProfile:
        """Return the profile of an id, or raise ``PROFILE_NOT_SERVED``."""
        if served := self.find(wanted):
            return served
        raise ViewerError(
            say("No profile {wanted!r} is served here.", wanted=wanted),
            "PROFILE_NOT_SERVED",
            hint=say("GET /api/v1/profiles/ lists those that are."),
            profile=wanted,
        )


def conversions_of(path: Path) -> list[Path]:
    """Return the databases in the folder of a file that were converted from it."""
    beside = path.parent.glob(f"{glob.escape(path.stem)}{INFIX}*{glob.escape(path.suffix)}")
    states = {found: _state(found) for found in sorted(beside)}
    return [
        found for found, state in states.items() if state and _source(found, *state) == path.name
    ]


def _state(path: Path) -> tuple[int, int] | None:
    """Return a value that changes with the file; None if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _files_of(entry: Path) -> Iterator[Path]:
    if not entry.is_dir():
        yield entry
        return
    # A folder of runs also holds exports and other SQLite files, which are passed over. A link that
    # leads out of the folder is not followed.
    for path in sorted(entry.glob(f"*{DATABASE_SUFFIX}")):
        state = _state(path)
        is_inside = state is not None and path.resolve().is_relative_to(entry)
        if state and is_inside and _source(path, *state) is not None:
            yield path


def _source(path: Path, modified_ns: int, size: int) -> str | None:
    """Name of the file that a database was converted from; None if it is no database of DLProf.

    A database that is locked, or slow, is listed, with its error; a locked one is opened again.
    """
    try:
        return _probe(path, modified_ns, size)
    except DatabaseBusyError:
        return ""


@functools.lru_cache(maxsize=1024)
def _probe(path: Path, modified_ns: int, size: int) -> str | None:
    """Open a file once for each of its states, which the last two arguments identify."""
    try:
        with opened(path, time_limit_s=_PROBE_TIME_LIMIT_S, wait_s=0.0) as database:
            return str(database.info.get(SOURCE_NAME, ""))
    except DatabaseBusyError:
        raise
    except QueryTimeoutError:  # remembered, too: every request looks for its profile here
        return ""
    except DatabaseError:
        return None
