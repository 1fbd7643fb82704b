"""Shares of a whole: donuts, and one stacked bar."""

from __future__ import annotations

from dataclasses import dataclass

from aggregator.tables.plotly.theme import (
    COLORS,
    GPU,
    IDLE,
    PART_NAMES,
    PARTS,
    RARE_PARTS,
    Figure,
    Part,
    Theme,
    axis,
    empty_figure,
    figure,
    split_communication,
)
from aggregator.tables.plotly.values import Table, choose_unit, only_row
from aggregator.texts import say

_NO_VALUES = say("No values in this profile")
_MIN_LABEL_PCT = 4.0  # A smaller share is too narrow for a label inside the bar.


@dataclass(frozen=True)
class _Slice:
    name: str
    value: float | None
    color: str
    exact: str


def gpu_utilization(table: Table, theme: Theme = Theme.LIGHT) -> Figure:
    """Busy and idle share of the GPUs, from ``using_gpu_pct`` and ``idle_gpu_pct`` of one row."""
    using, idle = only_row(table, "using_gpu_pct", "idle_gpu_pct")
    slices = [
        _percent(say("Using GPU"), using, GPU[theme]),
        _percent(say("Idle GPU"), idle, IDLE[theme]),
    ]
    return _donut(slices, theme, center=_short_percent(using))


def tensor_core_efficiency(table: Table, theme: Theme = Theme.LIGHT) -> Figure:
    """Return the share of Tensor Core kernels in the kernel time of eligible ops.

    From ``using_tc_pct`` and ``not_using_tc_pct`` of one row.
    """
    using, rest = only_row(table, "using_tc_pct", "not_using_tc_pct")
    slices = [
        _percent(PART_NAMES["tc"], using, COLORS["tc"]),
        _percent(PART_NAMES["non_tc"], rest, COLORS["non_tc"]),
    ]
    return _donut(slices, theme, center=_short_percent(using))


def kernel_gpu_time(table: Table, theme: Theme = Theme.LIGHT) -> Figure:
    """Return the GPU time of the kernels and copies, summed, from one row.

    Communication, where there is any, is a part of its own; the row counts it among the others.
    """
    names = ("using_tc", "memory", "communication", "other")
    using, memory, communication, other = only_row(table, *(f"{n}_gpu_time_ns" for n in names))
    rest = other if other is None else other - (communication or 0)
    times = {
        "tc": (PART_NAMES["tc"], using),
        "memory": (say("Memory Kernels"), memory),
        "communication": (say("Communication"), communication),
        "non_tc": (say("All Other Kernels"), rest),
    }
    if not communication:
        del times["communication"]
    total = sum(time or 0 for _, time in times.values())
    unit = choose_unit(total)
    slices = [
        _Slice(label, unit.of(time), COLORS[part], _exact_ns(time))
        for part, (label, time) in times.items()
    ]
    drawn = _donut(slices, theme, center=f"{total / unit.ns:.3g} {unit.symbol}")
    drawn["layout"]["meta"] = {"unit": unit.symbol, "unit_ns": unit.ns, "total_ns": total}
    return drawn


def resource_usage(table: Table, theme: Theme = Theme.LIGHT) -> Figure:
    """Return the shares of the wall time as one stacked bar, from ``<part>_pct`` of one row."""
    row = only_row(table, *(f"{part}_pct" for part in PARTS))
    values = split_communication(dict(zip(PARTS, row, strict=True)))
    if all(value is None for value in values.values()):
        return empty_figure(theme, _NO_VALUES)
    segments = [
        _segment(part, value) for part, value in values.items() if value or part not in RARE_PARTS
    ]
    return figure(
        theme,
        segments,
        barmode="stack",
        xaxis=axis(theme, say("Share of the wall time (%)"), range=[0, 100]),
        yaxis={"visible": False},
        legend={"orientation": "h", "traceorder": "normal", "x": 0, "y": 1.02},
    )


def _segment(part: str, value: float | None) -> Part:
    wide = value is not None and value >= _MIN_LABEL_PCT
    return {
        "type": "bar",
        "orientation": "h",
        "name": PART_NAMES[part],
        "meta": {"part": part},
        "x": [value],
        "y": [""],
        "marker": {"color": COLORS[part]},
        "text": [
            say("{name}<br>{value:.1f} %", name=PART_NAMES[part], value=value) if wide else ""
        ],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "hovertemplate": say("{name}: %{{x}} %<extra></extra>", name=PART_NAMES[part]),
    }


def _donut(slices: list[_Slice], theme: Theme, *, center: str) -> Figure:
    if all(part.value is None for part in slices):
        return empty_figure(theme, _NO_VALUES)
    trace = {
        "type": "pie",
        "hole": 0.62,
        "sort": False,
        "direction": "clockwise",
        "labels": [part.name for part in slices],
        "values": [part.value for part in slices],
        "marker": {"colors": [part.color for part in slices]},
        "customdata": [part.exact for part in slices],
        "textinfo": "none",
        "hovertemplate": "%{label}: %{customdata} (%{percent})<extra></extra>",
    }
    note = {"text": center, "showarrow": False, "x": 0.5, "y": 0.5, "font": {"size": 20}}
    return figure(theme, [trace], annotations=[note])


def _percent(name: str, value: float | None, color: str) -> _Slice:
    return _Slice(name, value, color, say("unknown") if value is None else f"{value} %")


def _short_percent(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} %"


def _exact_ns(time_ns: int | None) -> str:
    return say("unknown") if time_ns is None else f"{time_ns:,} ns"
