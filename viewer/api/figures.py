"""The figures of an aggregation."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from aggregator.errors import InvalidValueError
from aggregator.system.untrusted_json import read_count
from aggregator.tables import figures
from aggregator.tables.figures import FIGURES, FIGURES_OF_ITERATIONS, Look
from aggregator.tables.plotly import MAX_BARS, Theme
from aggregator.tables.request import check_parameters
from aggregator.texts import say
from viewer.api.schema import DOMAIN, ResourceView, query
from viewer.api.scope import open_scope
from viewer.api.serializers.shared import FigureSerializer
from viewer.errors import ViewerError

_COMMON = ("domain", "theme")
_ZOOM = ("start", "stop", "view", "max_bars")
_VIEWS = ("all", "profiled")
MOST_BARS = 1_000  # A figure of so many takes up to a megabyte.


class FigureView(ResourceView):
    """One figure."""

    query_names = None

    @extend_schema(
        parameters=[
            DOMAIN,
            query("theme", "Colors.", enum=list(Theme)),
            query("start", "First iteration, inclusive.", "integer"),
            query("stop", "Last iteration, inclusive.", "integer"),
            query("view", "Which iterations.", enum=list(_VIEWS)),
            query(
                "max_bars",
                "Most bars of iterations; more iterations share them.",
                "integer",
                minimum=1,
                maximum=MOST_BARS,
                default=MAX_BARS,
            ),
        ],
        responses=FigureSerializer,
    )
    def get(self, request: Request, name: str, **parts: Any) -> Response:
        """Traces and layout, as Plotly draws them."""
        check_figure(name, FIGURES)
        params = request.query_params.dict()
        check_parameters(params, (*_COMMON, *(_ZOOM if name in FIGURES_OF_ITERATIONS else ())))
        look = Look(
            theme=Theme(one_of(params, "theme", tuple(Theme))),
            start=_index(params, "start"),
            stop=_index(params, "stop"),
            only_profiled=one_of(params, "view", _VIEWS) == "profiled",
            max_bars=_bars(params),
        )
        with open_scope(request, parts) as scope:
            return Response(figures.draw(name, scope.data, look))


def check_figure(name: str, known: Collection[str]) -> None:
    """Raise ``ViewerError`` if there is no figure of that name."""
    if name not in known:
        raise ViewerError(
            say("There is no figure {name!r}.", name=name),
            "FIGURE_NOT_FOUND",
            404,
            hint=say("Known: {names}.", names=", ".join(known)),
        )


def one_of(params: Mapping[str, str], name: str, known: tuple[str, ...]) -> str:
    """A parameter that is one of few words; the first one if it is left out."""
    raw = params.get(name, known[0])
    if raw not in known:
        raise InvalidValueError(
            say(
                "{name} must be one of {names}, not {raw!r}.",
                name=name,
                names=", ".join(known),
                raw=raw,
            )
        )
    return raw


def _bars(params: Mapping[str, str]) -> int:
    number = _index(params, "max_bars")
    if number is None:
        return MAX_BARS
    if not 1 <= number <= MOST_BARS:
        raise InvalidValueError(
            say("max_bars must be from 1 to {most}, not {number}.", most=MOST_BARS, number=number)
        )
    return number


def _index(params: Mapping[str, str], name: str) -> int | None:
    raw = params.get(name)
    if raw is None:
        return None
    number = read_count(raw)
    if number is None:
        raise InvalidValueError(
            say("{name} must be a whole number from 0 on, not {raw!r}.", name=name, raw=raw)
        )
    return number
