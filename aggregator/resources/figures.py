"""The figures of an aggregation, each with the tables that it is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aggregator import figures
from aggregator.errors import DatabaseError
from aggregator.figures import Figure, Theme
from aggregator.query.connection import ProfileDatabase
from aggregator.query.counts import Remembered
from aggregator.query.request import parse_list_query
from aggregator.query.spec import ObjectSpec, TableSpec
from aggregator.query.sql import bind, read_columns
from aggregator.resources.efficiency import OP_EFFICIENCY, PEAK_RATES
from aggregator.resources.iterations import GPUS, ITERATIONS
from aggregator.resources.objects import read_object
from aggregator.resources.ranks import RANKS
from aggregator.resources.summaries import (
    GPU_UTILIZATION,
    KERNEL_SUMMARY,
    RESOURCE_USAGE,
    TENSOR_CORE_EFFICIENCY,
)
from aggregator.texts import say


@dataclass(frozen=True)
class Look:
    """How a figure is drawn, and which iterations those that have any show.

    Attributes:
        theme: The colours.
        start: First iteration, inclusive.
        stop: Last iteration, inclusive.
        only_profiled: Leave out what the aggregation does not cover.
        max_bars: At most so many bars; iterations beyond share them.
    """

    theme: Theme = Theme.LIGHT
    start: int | None = None
    stop: int | None = None
    only_profiled: bool = False
    max_bars: int = figures.MAX_BARS


@dataclass(frozen=True)
class Place:
    """An aggregation and domain of an open database."""

    database: ProfileDatabase
    params: Mapping[str, str | int]

    def object(self, spec: ObjectSpec) -> dict[str, list[Any]]:
        """An object as a table of one row."""
        values = read_object(spec, self.database, self.params)
        return {name: [value] for name, value in values.items() if name != "unknown"}

    def table(self, spec: TableSpec) -> dict[str, Sequence[Any]]:
        """A whole table by columns.

        Raises:
            DatabaseError: A value is missing that each row has.
        """
        table = bind(spec, self.database, self.params)
        columns = read_columns(table, parse_list_query(spec, {}), self.database)
        for name, column in table.columns.items():
            if not column.nullable and name not in table.unknown and None in columns[name]:
                raise DatabaseError(
                    say(
                        "The database is damaged: it holds no {name} where each row has one.",
                        name=name,
                    ),
                    hint=say("Make it anew with dlprof, or run an integrity check with sqlite3."),
                )
        return columns


def _gpu_utilization(place: Place, look: Look) -> Figure:
    return figures.gpu_utilization(place.object(GPU_UTILIZATION), look.theme)


def _resource_usage(place: Place, look: Look) -> Figure:
    return figures.resource_usage(place.object(RESOURCE_USAGE), look.theme)


def _tensor_core_efficiency(place: Place, look: Look) -> Figure:
    return figures.tensor_core_efficiency(place.object(TENSOR_CORE_EFFICIENCY), look.theme)


def _kernel_gpu_time(place: Place, look: Look) -> Figure:
    summary = place.object(KERNEL_SUMMARY)
    parts = ("using_tc", "memory", "other")
    row = {f"{part}_gpu_time_ns": [summary[part][0]["gpu_time_ns"]] for part in parts}
    return figures.kernel_gpu_time(row, look.theme)


def _iteration_summary(place: Place, look: Look) -> Figure:
    return figures.iteration_summary(
        place.table(ITERATIONS),
        look.theme,
        start=look.start,
        stop=look.stop,
        only_profiled=look.only_profiled,
        max_bars=look.max_bars,
    )


def _gpus(place: Place, look: Look) -> Figure:
    return figures.gpus(place.table(GPUS), look.theme)


def _ranks(place: Place, look: Look) -> Figure:
    return figures.ranks(place.table(RANKS), look.theme)


def _roofline(place: Place, look: Look) -> Figure:
    return figures.roofline(place.table(OP_EFFICIENCY), place.table(PEAK_RATES), look.theme)


#: Each figure at its address.
FIGURES: dict[str, Callable[[Place, Look], Figure]] = {
    "roofline": _roofline,
    "gpu-utilization": _gpu_utilization,
    "resource-usage": _resource_usage,
    "kernel-gpu-time": _kernel_gpu_time,
    "tensor-core-efficiency": _tensor_core_efficiency,
    "iteration-summary": _iteration_summary,
    "gpus": _gpus,
    "ranks": _ranks,
}

#: Drawn once for a state of the file; each takes up to a megabyte.
_drawn: Remembered[Figure] = Remembered(64)


def draw(name: str, place: Place, look: Look) -> Figure:
    """A figure of ``FIGURES``, drawn anew only where its file has changed."""
    what = f"{name} {look!r}"
    return _drawn.get(place.database.state, what, place.params, lambda: FIGURES[name](place, look))


#: Those that show iterations, and so take a range of them.
FIGURES_OF_ITERATIONS = frozenset({"iteration-summary"})
