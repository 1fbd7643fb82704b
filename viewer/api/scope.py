"""From the parts of an address to an open database and the parameters of its queries."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from rest_framework.request import Request

from aggregator.dldb.aggregations import aggregation_not_found
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.connection import ProfileDatabase, opened
from aggregator.tables.declared.profile import display_name, domains
from aggregator.texts import say
from viewer.api.event_copies import event_copy, same_aggregation
from viewer.environment import Environment
from viewer.errors import ViewerError
from viewer.exports.header import ExportHeader
from viewer.profiles.registry import Registry, ServedProfile
from viewer.profiles.storage import kept_profiles


@dataclass(frozen=True)
class Scope:
    """An aggregation and domain that exist, in an open database."""

    served: ServedProfile
    data: AggregationData

    @property
    def database(self) -> ProfileDatabase:
        """The database."""
        return self.data.database

    def header(self, table: str, title: str, columns: tuple[str, ...] = ()) -> ExportHeader:
        """The heading of a file with some of it."""
        name = self.served.name or display_name(self.served.path, self.database)
        aggregation, domain = int(self.data.params["aggr_id"]), str(self.data.params["domain"])
        return ExportHeader(name, table, title, aggregation, domain, columns)


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
    with opened(served.path, time_limit_s=environment().query_timeout_s, keep=True) as database:
        yield served, database


@contextmanager
def open_scope(
    request: Request, parts: Mapping[str, Any], *, time_limit_s: float | None = None
) -> Iterator[Scope]:
    """Open the aggregation, domain, iteration and op that a request names; check that they exist.

    Args:
        request: Its parameter ``domain`` names the domain.
        parts: Of the address: ``profile`` and ``aggregation``; ``iteration`` and ``op_id`` if any.
        time_limit_s: Limit of all queries; None: that of a request.

    Raises:
        ViewerError: A part of the address, or the domain, does not exist.
    """
    served = registry().get(parts["profile"])
    limit = environment().query_timeout_s if time_limit_s is None else time_limit_s
    with opened(served.path, time_limit_s=limit, keep=True) as database:
        params: dict[str, str | int] = {"aggr_id": parts["aggregation"]}
        _check_aggregation(database, params)
        params["domain"] = _domain(database, request.query_params.get("domain"))
        if "iteration" in parts:
            params["iteration"] = parts["iteration"]
            _check_iteration(database, params)
        if "op_id" in parts:
            params["op_id"] = parts["op_id"]
            _check_op(database, params)
        yield Scope(served, AggregationData(database, params))


@contextmanager
def open_event_scope(request: Request, parts: Mapping[str, Any]) -> Iterator[Scope]:
    """The same for what needs single events: a copy of a database of NVIDIA's has them.

    Raises:
        ViewerError: A part of the address, or the domain, does not exist.
    """
    # A large profile is prepared, or copied, at its first use: that takes longer than a query.
    limit_s = environment().export_timeout_s
    with open_scope(request, parts, time_limit_s=limit_s) as scope:
        if scope.database.is_ours:
            yield scope
            return
        copy = event_copy(scope.served.path, timeline_folder(), limit_s)
        with opened(copy, time_limit_s=limit_s) as database:
            params = same_aggregation(scope.database, database, scope.data.params)
            yield Scope(scope.served, AggregationData(database, params))


def timeline_folder() -> Path:
    """Where prepared timelines, and copies of databases for them, are kept."""
    return environment().state_dir / "timelines"


def _check_aggregation(database: ProfileDatabase, params: Mapping[str, str | int]) -> None:
    sql = "SELECT 1 FROM view_aggregations WHERE aggr_id = :aggr_id"
    if not database.rows(sql, params):
        every = database.rows("SELECT aggr_id FROM view_aggregations ORDER BY aggr_id LIMIT 1000")
        raise aggregation_not_found(params["aggr_id"], [int(number) for (number,) in every])


def _domain(database: ProfileDatabase, wanted: str | None) -> str:
    known = domains(database)
    if wanted is None:
        return known[0]
    if wanted not in known:
        raise ViewerError(
            say("The profile has no domain {wanted!r}.", wanted=wanted),
            "UNKNOWN_DOMAIN",
            hint=say("It has {names}.", names=", ".join(known)),
            domain=wanted,
            known=list(known),
        )
    return wanted


def _check_iteration(database: ProfileDatabase, params: Mapping[str, str | int]) -> None:
    sql = "SELECT 1 FROM view_iterations_all WHERE aggr_id = :aggr_id AND iter_value = :iteration"
    if not database.rows(sql, params):
        raise ViewerError(
            say("The profile has no iteration {iteration}.", iteration=params["iteration"]),
            "ITERATION_NOT_FOUND",
        )


def _check_op(database: ProfileDatabase, params: Mapping[str, str | int]) -> None:
    where = "aggr_id = :aggr_id AND domain_name = :domain"
    found = f"SELECT 1 FROM view_op_nodes WHERE {where} AND op_node_id = :op_id"  # noqa: S608
    if database.rows(found, params):
        return
    every = f"SELECT op_node_id FROM view_op_nodes WHERE {where} LIMIT 10000"  # noqa: S608
    ids = [str(op_id) for (op_id,) in database.rows(every, params)]
    close = difflib.get_close_matches(str(params["op_id"]), ids, n=3)
    raise ViewerError(
        say("The aggregation has no op {op_id!r} in this domain.", op_id=params["op_id"]),
        "OP_NOT_FOUND",
        hint=say("Did you mean {names}?", names=", ".join(close)) if close else "",
    )
