"""Profiles compared with each other, and what profiles of one name did over time."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from aggregator.compare.document import to_document
from aggregator.compare.history import read_history
from aggregator.compare.history import to_document as history_document
from aggregator.compare.result import Comparison
from aggregator.compare.sides import Source, compare_files
from aggregator.dldb.stored import require_aggregable
from aggregator.errors import InvalidValueError, ProfileError
from aggregator.system.progress import NullProgress
from aggregator.system.untrusted_json import read_count
from aggregator.texts import say
from viewer.api.schema import ResourceView, query
from viewer.api.scope import environment, registry
from viewer.api.serializers import (
    ComparisonSerializer,
    HistorySerializer,
    RowSamplesSerializer,
)
from viewer.profiles.registry import ServedProfile
from viewer.profiles.summary import describe

MOST_CAPTURES = 20
_SIDES = (
    query("base", "Captures of the base: PROFILE or PROFILE@AGGREGATION, with commas between."),
    query("new", "Captures of the new side, likewise."),
)


class CompareView(ResourceView):
    """Why the step changed between two sides."""

    query_names = ("base", "new")

    @extend_schema(parameters=list(_SIDES), responses=ComparisonSerializer)
    def get(self, request: Request) -> Response:
        """The whole comparison, as ``dlprof compare --format=json`` writes it."""
        return Response(to_document(_comparison(request)))


class CompareRowView(ResourceView):
    """One row of a comparison."""

    query_names = ("base", "new", "row")

    @extend_schema(
        parameters=[*_SIDES, query("row", "Number of the row, from 0.", "integer", required=True)],
        responses=RowSamplesSerializer,
    )
    def get(self, request: Request) -> Response:
        """The times of the row in every iteration, one list per capture."""
        comparison = _comparison(request)
        text = request.query_params.get("row", "")
        number = read_count(text)
        if number is None or number >= len(comparison.rows):
            raise InvalidValueError(
                say("The comparison has no row '{row}'.", row=text),
                hint=say("It has {count} rows, from 0.", count=len(comparison.rows)),
                parameter="row",
            )
        row = comparison.rows[number]
        return Response(
            {
                "base_ns": [part.tolist() for part in row.base_samples],
                "new_ns": [part.tolist() for part in row.new_samples],
            }
        )


class HistoryView(ResourceView):
    """What profiles did over time."""

    query_names = ("name",)

    @extend_schema(
        parameters=[query("name", "Name of the profiles; all profiles if left out.")],
        responses=HistorySerializer,
    )
    def get(self, request: Request) -> Response:
        """Step, classes and ops of each profile, by date, and where they changed."""
        wanted = request.query_params.get("name")
        limit = environment().query_timeout_s
        named = [
            (served, str(describe(served, time_limit_s=limit)["name"]))
            for served in registry().all()
        ]
        chosen = [served for served, name in named if wanted is None or name == wanted]
        if not chosen:
            raise InvalidValueError(
                say("No profile has the name '{name}'.", name=wanted or ""), parameter="name"
            )
        return Response(history_document(read_history([(one.id, one.path) for one in chosen])))


def _comparison(request: Request) -> Comparison:
    base, new = (_sources(request, name) for name in ("base", "new"))
    times = tuple(source.path.stat().st_mtime_ns for source in (*base, *new))
    return _compared(tuple(base), tuple(new), times)


@functools.lru_cache(maxsize=4)
def _compared(
    base: tuple[Source, ...], new: tuple[Source, ...], times: tuple[int, ...]
) -> Comparison:
    """The rows of a comparison are asked for one after the other; files may be replaced."""
    return compare_files(base, new, NullProgress())


def _sources(request: Request, name: str) -> Sequence[Source]:
    words = [word for word in request.query_params.get(name, "").split(",") if word]
    if not 1 <= len(words) <= MOST_CAPTURES:
        raise InvalidValueError(
            say("The parameter {name} needs 1 to {most} captures.", name=name, most=MOST_CAPTURES),
            parameter=name,
        )
    return [_source(word, name) for word in words]


def _source(word: str, parameter: str) -> Source:
    profile, at, number = word.partition("@")
    served = registry().get(profile)
    aggregation = read_count(number) if at else None
    if at and aggregation is None:
        raise InvalidValueError(
            say("'{word}' is no PROFILE@AGGREGATION.", word=word), parameter=parameter
        )
    _require_ours(served)
    return Source(word, served.path, aggr=aggregation)


def _require_ours(served: ServedProfile) -> None:
    if describe(served, time_limit_s=environment().query_timeout_s).get("is_foreign"):
        raise ProfileError(
            say("A database of NVIDIA's DLProf is compared after an aggregation of it."),
            hint=say("Aggregate it once, and choose the converted profile."),
        )
    require_aggregable(served.path)
