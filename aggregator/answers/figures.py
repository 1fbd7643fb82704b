"""The figures of an aggregation, as Plotly draws them."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Annotated, Any, Final

from msgspec import Struct

from aggregator.errors import FigureNotFoundError
from aggregator.system.replies import doc
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.figures import FIGURES, FIGURES_OF_ITERATIONS, Look, draw
from aggregator.tables.plotly.iterations import MAX_BARS
from aggregator.tables.plotly.theme import Theme
from aggregator.tables.request import check_parameters
from aggregator.texts import say

MOST_BARS: Final = 1_000  # A figure of so many takes up to a megabyte.


class Figure(Struct):
    """A Plotly figure."""

    data: list[dict[str, Any]]
    layout: dict[str, Any]


class View(StrEnum):
    """Which iterations a figure shows."""

    ALL = "all"
    PROFILED = "profiled"


def read_figure(
    data: AggregationData,
    *,
    name: str,
    theme: Annotated[Theme, doc("Colors.")] = Theme.LIGHT,
    start: Annotated[int | None, doc("First iteration, inclusive.", least=0)] = None,
    stop: Annotated[int | None, doc("Last iteration, inclusive.", least=0)] = None,
    view: Annotated[View, doc("Which iterations.")] = View.ALL,
    max_bars: Annotated[
        int,
        doc("Most bars of iterations; more iterations share them.", least=1, most=MOST_BARS),
    ] = MAX_BARS,
) -> Figure:
    """Traces and layout, as Plotly draws them.

    Raises:
        FigureNotFoundError: There is no such figure.
        UnknownFilterError: A part of the iterations of a figure that shows none.
    """
    check_figure(name, FIGURES)
    look = Look(theme, start, stop, only_profiled=view == View.PROFILED, max_bars=max_bars)
    if name not in FIGURES_OF_ITERATIONS:
        zoomed = {key: "" for key, part in vars(look).items() if part != vars(Look(theme))[key]}
        check_parameters(zoomed, ("theme",))
    return Figure(**draw(name, data, look))


def check_figure(name: str, known: Collection[str]) -> None:
    """Refuse the name of a figure that does not exist.

    Raises:
        FigureNotFoundError: It does not.
    """
    if name not in known:
        raise FigureNotFoundError(
            say("There is no figure {name!r}.", name=name),
            hint=say("Known: {names}.", names=", ".join(known)),
        )
