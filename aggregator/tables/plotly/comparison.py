"""Two sides compared: from one step to the other, and the times of one row."""

from __future__ import annotations

from itertools import accumulate
from typing import Final

from aggregator.tables.plotly.theme import GPU, Figure, Theme, axis, base_layout, empty_figure
from aggregator.tables.plotly.values import Table, choose_unit, column, row_count
from aggregator.texts import say

SLOWER: Final = "#c23b5a"
FASTER: Final = "#1b7f3b"
_BASE: Final = "#3b7dd8"
_NEW: Final = "#e06c1f"


def step_changes(table: Table, theme: Theme = Theme.LIGHT) -> Figure:
    """From the base step to the new one: ``name``, ``base_ns`` and ``new_ns`` of each part.

    The parts add up to the steps, so the last bar ends at the new step.
    """
    rows = [
        (name, float(base), float(new))
        for name, base, new in zip(
            *(column(table, name) for name in ("name", "base_ns", "new_ns")), strict=True
        )
        if base or new
    ]
    if not rows:
        return empty_figure(theme, say("No time in these steps"))
    before, after = sum(base for _, base, _ in rows), sum(new for _, _, new in rows)
    changes = [new - base for _, base, new in rows]
    edges = list(accumulate(changes, initial=before))
    unit = choose_unit(max(before, after, *edges))
    lows = [0.0, *map(min, edges[:-1], edges[1:]), 0.0]
    lengths = [before, *map(abs, changes), after]
    texts = [f"{unit.of(before):.3f}", *(f"{unit.of(change):+.3f}" for change in changes)]
    trace = {
        "type": "bar",
        "orientation": "h",
        "y": [say("Base step"), *(name for name, _, _ in rows), say("New step")],
        "x": [unit.of(length) for length in lengths],
        "base": [unit.of(low) for low in lows],
        "text": [*texts, f"{unit.of(after):.3f}"],
        "textposition": "outside",
        "cliponaxis": False,
        "customdata": [before, *changes, after],
        "marker": {
            "color": [GPU[theme], *(SLOWER if step > 0 else FASTER for step in changes), GPU[theme]]
        },
        "hovertemplate": "%{y}: %{customdata:,.0f} ns<extra></extra>",
    }
    layout = base_layout(theme) | {
        "showlegend": False,
        "xaxis": axis(theme, say("Time per step ({unit})", unit=unit.symbol), rangemode="tozero"),
        "yaxis": axis(theme, "", type="category", autorange="reversed"),
    }
    return {"data": [trace], "layout": layout}


def row_samples(table: Table, theme: Theme = Theme.LIGHT) -> Figure:
    """Times of a row in every iteration: ``side`` (base or new), ``capture`` and ``time_ns``."""
    if not row_count(table):
        return empty_figure(theme, say("No time in these steps"))
    sides, captures = column(table, "side"), column(table, "capture")
    times = [float(value) for value in column(table, "time_ns")]
    unit = choose_unit(max(times))
    traces = []
    for (side, capture), color in _colors(sides, captures).items():
        chosen = [
            time for time, *of in zip(times, sides, captures, strict=True) if of == [side, capture]
        ]
        names = {"base": say("Base"), "new": say("New")}
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": f"{names[side]}: {capture}",
                "x": list(range(len(chosen))),
                "y": [unit.of(time) for time in chosen],
                "customdata": chosen,
                "marker": {"color": color, "opacity": 0.7},
                "hovertemplate": "%{customdata:,.0f} ns<extra></extra>",
            }
        )
    layout = base_layout(theme) | {
        "xaxis": axis(theme, say("Iteration of the capture")),
        "yaxis": axis(theme, say("Time ({unit})", unit=unit.symbol), rangemode="tozero"),
    }
    return {"data": traces, "layout": layout}


def _colors(sides: list[str], captures: list[str]) -> dict[tuple[str, str], str]:
    """Return the color of each capture, in order."""
    pairs = dict.fromkeys(zip(sides, captures, strict=True))
    return {pair: _BASE if pair[0] == "base" else _NEW for pair in pairs}
