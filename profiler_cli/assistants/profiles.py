"""The profiles that an assistant may ask about, and their addresses in the viewer's page."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from aggregator.errors import AggregationNotFoundError, ProfileNotFoundError
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.connection import ABANDONED, ProfileDatabase, opened
from aggregator.tables.declared.iterations import AGGREGATIONS
from aggregator.tables.declared.profile import DEFAULT_DOMAIN, domains, profile_id

TIME_LIMIT_S: Final = 30.0
"""Limit of the queries of one answer; an assistant waits about a minute."""


STOPPING: Final = threading.Event()
"""Set when the server has been asked to end: queries then end, too."""


@contextmanager
def _ended_with_server() -> Iterator[None]:
    token = ABANDONED.set(STOPPING.is_set)
    try:
        yield
    finally:
        ABANDONED.reset(token)


@dataclass(frozen=True)
class Profile:
    """One database."""

    name: str  # How an assistant names it.
    database: Path
    source: Path  # The file that the user named: the database, or what it was imported from.

    @contextmanager
    def open_apart(self) -> Iterator[ProfileDatabase]:
        """Open the database in another process, for SQL of unknown origin."""
        with (
            _ended_with_server(),
            opened(self.database, time_limit_s=TIME_LIMIT_S, is_apart=True) as database,
        ):
            yield database


@dataclass(frozen=True)
class Scope:
    """One aggregation of an open profile."""

    profile: Profile
    aggregation: int
    data: AggregationData
    viewer: str  # Address of the viewer, without a slash at its end.

    def link(self, view: str, **params: str) -> str:
        """Address of a view of the page."""
        named = {"profile": profile_id(self.profile.source.resolve()), "view": view}
        query = urlencode({**named, "aggregation": str(self.aggregation), **params})
        return f"{self.viewer}/?{query}"


@dataclass(frozen=True)
class Profiles:
    """All profiles of a server."""

    known: dict[str, Profile]
    viewer: str

    @contextmanager
    def scope(self, name: str | None, aggregation: int | None) -> Iterator[Scope]:
        """Open an aggregation for reading, in the default domain.

        Args:
            name: Name of the profile; None: the only one.
            aggregation: Its number; None: the default one, else the newest.

        Raises:
            ProfileNotFoundError: There is no such profile, or none was named where there are more.
            AggregationNotFoundError: There is no such aggregation.
            DatabaseError: The file cannot be read.
        """
        profile = self.find(name)
        with _ended_with_server(), opened(profile.database, time_limit_s=TIME_LIMIT_S) as database:
            data = AggregationData(database, {})
            number = _choose(data.rows(AGGREGATIONS), aggregation)
            names = domains(database)
            domain = DEFAULT_DOMAIN if DEFAULT_DOMAIN in names else names[0]
            scoped = data.narrowed({"aggr_id": number, "domain": domain})
            yield Scope(profile, number, scoped, self.viewer)

    def find(self, name: str | None) -> Profile:
        """The profile of a name; None: the only one.

        Raises:
            ProfileNotFoundError: There is none, or several and no name.
        """
        if name is None and len(self.known) == 1:
            return next(iter(self.known.values()))
        if name is None or name not in self.known:
            message = f"There is no profile '{name}'." if name else "Several profiles are open."
            raise ProfileNotFoundError(message, hint=f"Name one of: {', '.join(self.known)}.")
        return self.known[name]


def _choose(rows: list[dict[str, Any]], wanted: int | None) -> int:
    known = [int(row["id"]) for row in rows]
    defaults = [int(row["id"]) for row in rows if row.get("is_default")]
    if wanted is None and known:
        return max(defaults or known)
    if wanted is None or wanted not in known:
        listed = ", ".join(map(str, known)) or "none"
        raise AggregationNotFoundError(
            f"There is no aggregation {wanted}.", hint=f"The profile has: {listed}."
        )
    return wanted


def name_profiles(databases: list[tuple[Path, Path]]) -> dict[str, Profile]:
    """Short distinct names: that of the file, with that of its folder where files are alike.

    Args:
        databases: The database and the file that the user named, for each profile.
    """
    stems = [_plain(source.stem) for _, source in databases]
    known: dict[str, Profile] = {}
    for (database, source), stem in zip(databases, stems, strict=True):
        name = stem
        if stems.count(stem) > 1:
            name = f"{_plain(source.resolve().parent.name)}-{stem}"
        base, number = name, 2
        while name in known:
            name, number = f"{base}-{number}", number + 1
        known[name] = Profile(name, database, source)
    return known


def _plain(name: str) -> str:
    return re.sub(r"[^\w.]+", "-", name).strip("-")[:60] or "profile"
