"""From the parts of an address to an open database and the parameters of its queries."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from django.conf import settings

from aggregator.query.connection import ProfileDatabase, opened
from aggregator.resources.profile import domains
from aggregator.texts import say
from viewer.environment import Environment
from viewer.errors import (
    AggregationNotFoundError,
    IterationNotFoundError,
    OpNotFoundError,
    UnknownDomainError,
)
from viewer.profiles.registry import Registry, ServedProfile
from viewer.profiles.storage import kept_profiles


@dataclass(frozen=True)
class Place:
    """What an address below an aggregation names."""

    profile: str
    aggregation: int
    iteration: int | None = None
    op_id: str | None = None


@dataclass(frozen=True)
class Scope:
    """An aggregation and domain that exist, in an open database."""

    served: ServedProfile
    database: ProfileDatabase
    params: Mapping[str, str | int]

    @property
    def domain(self) -> str:
        """The domain in use."""
        return str(self.params["domain"])


def environment() -> Environment:
    """This viewer's configuration."""
    configured: Environment = settings.ENVIRONMENT
    return configured


def registry() -> Registry:
    """The profiles served."""
    return Registry(environment().databases, kept_profiles())


@contextmanager
def open_profile(profile: str) -> Iterator[tuple[ServedProfile, ProfileDatabase]]:
    """The database of a profile id."""
    served = registry().get(profile)
    with opened(served.path, time_limit_s=environment().query_timeout_s) as database:
        yield served, database


@contextmanager
def open_scope(
    place: Place, domain: str | None, *, time_limit_s: float | None = None
) -> Iterator[Scope]:
    """The aggregation, domain, iteration and op that an address names, all of them checked.

    Raises:
        NotFoundError: A part of the address does not exist.
        UnknownDomainError: The profile has no such domain.
    """
    served = registry().get(place.profile)
    limit = environment().query_timeout_s if time_limit_s is None else time_limit_s
    with opened(served.path, time_limit_s=limit) as database:
        params: dict[str, str | int] = {"aggr_id": place.aggregation}
        _check_aggregation(database, params)
        params["domain"] = _domain(database, domain)
        if place.iteration is not None:
            params["iteration"] = place.iteration
            _check_iteration(database, params)
        if place.op_id is not None:
            params["op_id"] = place.op_id
            _check_op(database, params)
        yield Scope(served, database, params)


def _check_aggregation(database: ProfileDatabase, params: Mapping[str, str | int]) -> None:
    sql = "SELECT 1 FROM view_aggregations WHERE aggr_id = :aggr_id"
    if not database.rows(sql, params):
        raise AggregationNotFoundError(
            say("The profile has no aggregation {aggr_id}.", aggr_id=params["aggr_id"]),
            hint=say("Choose another; the profile may have been made anew."),
        )


def _domain(database: ProfileDatabase, wanted: str | None) -> str:
    known = domains(database)
    if wanted is None:
        return known[0]
    if wanted not in known:
        raise UnknownDomainError(
            say("The profile has no domain {wanted!r}.", wanted=wanted),
            hint=say("It has {names}.", names=", ".join(known)),
            domain=wanted,
            known=list(known),
        )
    return wanted


def _check_iteration(database: ProfileDatabase, params: Mapping[str, str | int]) -> None:
    sql = "SELECT 1 FROM view_iterations_all WHERE aggr_id = :aggr_id AND iter_value = :iteration"
    if not database.rows(sql, params):
        raise IterationNotFoundError(
            say("The profile has no iteration {iteration}.", iteration=params["iteration"])
        )


def _check_op(database: ProfileDatabase, params: Mapping[str, str | int]) -> None:
    where = "aggr_id = :aggr_id AND domain_name = :domain"
    found = f"SELECT 1 FROM view_op_nodes WHERE {where} AND op_node_id = :op_id"  # noqa: S608
    if database.rows(found, params):
        return
    every = f"SELECT op_node_id FROM view_op_nodes WHERE {where} LIMIT 10000"  # noqa: S608
    ids = [str(op_id) for (op_id,) in database.rows(every, params)]
    close = difflib.get_close_matches(str(params["op_id"]), ids, n=3)
    raise OpNotFoundError(
        say("The aggregation has no op {op_id!r} in this domain.", op_id=params["op_id"]),
        hint=say("Did you mean {names}?", names=", ".join(close)) if close else "",
    )
