"""Figures of an aggregation, as Plotly draws them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from aggregator.errors import InvalidValueError
from aggregator.figures import Theme
from aggregator.query.request import check_parameters
from aggregator.resources import figures
from aggregator.resources.figures import FIGURES, FIGURES_OF_ITERATIONS, Look
from aggregator.texts import say
from viewer.api.base import ResourceView
from viewer.api.documents import DOMAIN, Parameter, Schema, array, record
from viewer.api.scope import Place, open_scope
from viewer.errors import FigureNotFoundError

_COMMON = ("domain", "theme")
_ZOOM = ("start", "stop", "view")
_VIEWS = ("all", "profiled")

Params = Mapping[str, str]


class FigureView(ResourceView):
    """One figure."""

    def parameters(self, method: str) -> tuple[Parameter, ...]:
        """The look, and what the iteration summary shows."""
        return (
            DOMAIN,
            Parameter("theme", "The look.", (("type", "string"), ("enum", list(Theme)))),
            Parameter("start", "First iteration, inclusive.", (("type", "integer"),)),
            Parameter("stop", "Last iteration, inclusive.", (("type", "integer"),)),
            Parameter("view", "Which iterations.", (("type", "string"), ("enum", list(_VIEWS)))),
        )

    def reply(self, method: str) -> Schema:
        """A Plotly figure."""
        anything: Schema = {"type": "object", "additionalProperties": True}
        return record({"data": array(anything), "layout": anything})

    def get(self, request: Request, name: str, **parts: Any) -> Response:
        """Its traces and layout."""
        if name not in FIGURES:
            raise FigureNotFoundError(
                say("There is no figure {name!r}.", name=name),
                hint=say("Known: {names}.", names=", ".join(FIGURES)),
            )
        params = request.query_params.dict()
        check_parameters(params, (*_COMMON, *(_ZOOM if name in FIGURES_OF_ITERATIONS else ())))
        look = _look(params)
        with open_scope(Place(**parts), params.get("domain")) as scope:
            place = figures.Place(scope.database, scope.params)
            return Response(figures.draw(name, place, look))


def _look(params: Params) -> Look:
    view = params.get("view", "all")
    if view not in _VIEWS:
        raise InvalidValueError(
            say("view must be one of {names}, not {view!r}.", names=", ".join(_VIEWS), view=view)
        )
    return Look(
        theme=_theme(params.get("theme", Theme.LIGHT)),
        start=_index(params, "start"),
        stop=_index(params, "stop"),
        only_profiled=view == "profiled",
    )


def _theme(raw: str) -> Theme:
    if raw not in set(Theme):
        raise InvalidValueError(
            say("theme must be one of {names}, not {raw!r}.", names=", ".join(Theme), raw=raw)
        )
    return Theme(raw)


def _index(params: Params, name: str) -> int | None:
    raw = params.get(name)
    if raw is None:
        return None
    if not raw.isascii() or not raw.isdigit():
        raise InvalidValueError(
            say("{name} must be a whole number from 0 on, not {raw!r}.", name=name, raw=raw)
        )
    return int(raw)
