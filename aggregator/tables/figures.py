"""The figures of an aggregation, each with the tables that it is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from aggregator.errors import ReplayError
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.counts import QueryCache
from aggregator.tables.declared.efficiency import OP_EFFICIENCY, PEAK_RATES
from aggregator.tables.declared.iterations import GPUS, ITERATIONS
from aggregator.tables.declared.ops import OPS
from aggregator.tables.declared.ranks import RANKS
from aggregator.tables.declared.summaries import (
    GPU_UTILIZATION,
    KERNEL_SUMMARY,
    RESOURCE_USAGE,
    TENSOR_CORE_EFFICIENCY,
)
from aggregator.tables.plotly import bars, iterations, roofline, shares
from aggregator.tables.plotly.theme import Figure, Theme, empty_figure
from aggregator.tables.plotly.values import Table
from aggregator.tables.replay import rank_report
from aggregator.tables.spec import ObjectSpec, TableSpec


@dataclass(frozen=True)
class Look:
    """How a figure is drawn, and which iterations those that have any show."""

    theme: Theme = Theme.LIGHT  # The colors.
    start: int | None = None  # First iteration, inclusive.
    stop: int | None = None  # Last iteration, inclusive.
    only_profiled: bool = False  # Leave out what the aggregation does not cover.
    max_bars: int = iterations.MAX_BARS  # At most so many bars; iterations beyond share them.


def _row(data: AggregationData, spec: ObjectSpec) -> dict[str, list[Any]]:
    return {name: [value] for name, value in data.read_object(spec).items() if name != "unknown"}


def _kernel_gpu_time(data: AggregationData, look: Look) -> Figure:
    summary = _row(data, KERNEL_SUMMARY)
    parts = ("using_tc", "memory", "communication", "other")
    row = {f"{part}_gpu_time_ns": [summary[part][0]["gpu_time_ns"]] for part in parts}
    return shares.kernel_gpu_time(row, look.theme)


def _iteration_summary(data: AggregationData, look: Look) -> Figure:
    return iterations.iteration_summary(data.columns(ITERATIONS), **vars(look))


def _roofline(data: AggregationData, look: Look) -> Figure:
    return roofline.roofline(data.columns(OP_EFFICIENCY), data.columns(PEAK_RATES), look.theme)


def _slow_ranks(data: AggregationData, look: Look) -> Figure:
    try:
        return bars.slow_ranks(rank_report(data).answer(), look.theme)
    except ReplayError as error:
        return empty_figure(look.theme, error.message)


_Builder: TypeAlias = Callable[[AggregationData, Look], Figure]


def _of(figure: Callable[[Table, Theme], Figure], spec: TableSpec | ObjectSpec) -> _Builder:
    if isinstance(spec, TableSpec):
        return lambda data, look: figure(data.columns(spec), look.theme)
    return lambda data, look: figure(_row(data, spec), look.theme)


#: Each figure at its address.
FIGURES: dict[str, _Builder] = {
    "roofline": _roofline,
    "gpu-utilization": _of(shares.gpu_utilization, GPU_UTILIZATION),
    "resource-usage": _of(shares.resource_usage, RESOURCE_USAGE),
    "kernel-gpu-time": _kernel_gpu_time,
    "tensor-core-efficiency": _of(shares.tensor_core_efficiency, TENSOR_CORE_EFFICIENCY),
    "iteration-summary": _iteration_summary,
    "gpus": _of(bars.gpus, GPUS),
    "ranks": _of(bars.ranks, RANKS),
    "critical-path": _of(bars.critical_path, OPS),
    "slow-ranks": _slow_ranks,
}

#: Figures that show iterations, and take a range of them.
FIGURES_OF_ITERATIONS = frozenset({"iteration-summary"})

_drawn: QueryCache[Figure] = QueryCache(64)  # Each takes up to a megabyte.


def draw(name: str, data: AggregationData, look: Look) -> Figure:
    """Return a figure of ``FIGURES``; it is drawn again only if the file has changed."""
    key = f"{name} {look!r}"
    return _drawn.get(data.database.state, key, data.params, lambda: FIGURES[name](data, look))
