"""Figures of a whole and its parts: donuts, and one bar where the parts are many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aggregator.figures.scale import choose_unit
from aggregator.figures.tables import Table, only_row
from aggregator.figures.theme import (
    COLOURS,
    PART_NAMES,
    PARTS,
    Figure,
    Theme,
    axis,
    base_layout,
    empty_figure,
    gpu_colour,
    idle_colour,
)
from aggregator.texts import say

_NO_VALUES = say("No values in this profile")
#: A share below this is too narrow to be labelled inside the bar.
_LABELLED_FROM_PCT = 4.0


@dataclass(frozen=True)
class _Slice:
    name: str
    value: float | None
    colour: str
    exact: str


def gpu_utilization(table: Table, theme: Theme = Theme.LIGHT) -> Figure:
    """Busy and idle share of the GPUs.

    Args:
        table: One row with ``using_gpu_pct`` and ``idle_gpu_pct``.
        theme: The look.
    """
    using, idle = only_row(table, "using_gpu_pct", "idle_gpu_pct")
    slices = [
        _percent(say("Using GPU"), using, gpu_colour(theme)),
        _percent(say("Idle GPU"), idle, idle_colour(theme)),
    ]
    return _donut(slices, theme, centre=_short_percent(using))


def tensor_core_efficiency(table: Table, theme: Theme = Theme.LIGHT) -> Figure:
    """Share of Tensor Core kernels in the kernel time of eligible ops.

    Args:
        table: One row with ``using_tc_pct`` and ``not_using_tc_pct``.
        theme: The look.
    """
    using, rest = only_row(table, "using_tc_pct", "not_using_tc_pct")
    slices = [
        _percent(PART_NAMES["tc"], using, COLOURS["tc"]),
        _percent(PART_NAMES["non_tc"], rest, COLOURS["non_tc"]),
    ]
    return _donut(slices, theme, centre=_short_percent(using))


def kernel_gpu_time(table: Table, theme: Theme = Theme.LIGHT) -> Figure:
    """GPU time of the kernels and copies, summed.

    Args:
        table: One row with ``using_tc_gpu_time_ns``, ``memory_gpu_time_ns`` and
            ``other_gpu_time_ns``.
        theme: The look.
    """
    names = ("using_tc_gpu_time_ns", "memory_gpu_time_ns", "other_gpu_time_ns")
    times = only_row(table, *names)
    labels = (PART_NAMES["tc"], say("Memory Kernels"), say("All Other Kernels"))
    colours = (COLOURS["tc"], COLOURS["memory"], COLOURS["non_tc"])
    total = sum(time or 0 for time in times)
    unit = choose_unit(total)
    slices = [
        _Slice(label, unit.of(time), colour, _exact_ns(time))
        for label, time, colour in zip(labels, times, colours, strict=True)
    ]
    figure = _donut(slices, theme, centre=f"{total / unit.ns:.3g} {unit.symbol}")
    figure["layout"]["meta"] = {"unit": unit.symbol, "unit_ns": unit.ns, "total_ns": total}
    return figure


def resource_usage(table: Table, theme: Theme = Theme.LIGHT) -> Figure:
    """Where the wall time goes, as one stacked bar.

    Args:
        table: One row with ``tc_pct``, ``non_tc_pct``, ``memory_pct``, ``dataloader_pct``,
            ``io_pct``, ``cpu_pct`` and ``other_pct``.
        theme: The look.
    """
    values = dict(zip(PARTS, only_row(table, *(f"{part}_pct" for part in PARTS)), strict=True))
    if all(value is None for value in values.values()):
        return empty_figure(theme, _NO_VALUES)
    layout = base_layout(theme) | {
        "barmode": "stack",
        "xaxis": axis(theme, say("Share of the wall time (%)"), range=[0, 100]),
        "yaxis": {"visible": False},
        "legend": {"orientation": "h", "traceorder": "normal", "x": 0, "y": 1.02},
    }
    return {"data": [_segment(part, value) for part, value in values.items()], "layout": layout}


def _segment(part: str, value: float | None) -> dict[str, Any]:
    wide = value is not None and value >= _LABELLED_FROM_PCT
    return {
        "type": "bar",
        "orientation": "h",
        "name": PART_NAMES[part],
        "meta": {"part": part},
        "x": [value],
        "y": [""],
        "marker": {"color": COLOURS[part]},
        "text": [
            say("{name}<br>{value:.1f} %", name=PART_NAMES[part], value=value) if wide else ""
        ],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "hovertemplate": say("{name}: %{{x}} %<extra></extra>", name=PART_NAMES[part]),
    }


def _donut(slices: list[_Slice], theme: Theme, *, centre: str) -> Figure:
    if all(part.value is None for part in slices):
        return empty_figure(theme, _NO_VALUES)
    trace = {
        "type": "pie",
        "hole": 0.62,
        "sort": False,
        "direction": "clockwise",
        "labels": [part.name for part in slices],
        "values": [part.value for part in slices],
        "marker": {"colors": [part.colour for part in slices]},
        "customdata": [part.exact for part in slices],
        "textinfo": "none",
        "hovertemplate": "%{label}: %{customdata} (%{percent})<extra></extra>",
    }
    note = {"text": centre, "showarrow": False, "x": 0.5, "y": 0.5, "font": {"size": 20}}
    return {"data": [trace], "layout": base_layout(theme) | {"annotations": [note]}}


def _percent(name: str, value: float | None, colour: str) -> _Slice:
    return _Slice(name, value, colour, say("unknown") if value is None else f"{value} %")


def _short_percent(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} %"


def _exact_ns(time_ns: int | None) -> str:
    return say("unknown") if time_ns is None else f"{time_ns:,} ns"
