"""Two sides compared: from one step to the other, and the times of one row."""

from __future__ import annotations

from itertools import accumulate
from typing import Final

from aggregator.tables.plotly.theme import GPU, Figure, Theme, axis, empty_figure, figure
from aggregator.tables.plotly.values import Table, choose_unit, rows_of
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
        for name, base, new in rows_of(table, "name", "base_ns", "new_ns")
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
    return figure(
        theme,
        [trace],
        showlegend=False,
        xaxis=axis(theme, say("Time per step ({unit})", unit=unit.symbol), rangemode="tozero"),
        yaxis=axis(theme, "", type="category", autorange="reversed"),
    )


def row_samples(table: Table, theme: Theme = Theme.LIGHT) -> Figure:
    """Times of a row in every iteration: ``side`` (base or new), ``capture`` and ``time_ns``."""
    times: dict[tuple[str, str], list[float]] = {}
    for side, capture, time_ns in rows_of(table, "side", "capture", "time_ns"):
        times.setdefault((side, capture), []).append(float(time_ns))
    if not times:
        return empty_figure(theme, say("No time in these steps"))
    unit = choose_unit(max(map(max, times.values())))
    names = {"base": say("Base"), "new": say("New")}
    traces = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": f"{names[side]}: {capture}",
            "x": list(range(len(chosen))),
            "y": [unit.of(time) for time in chosen],
            "customdata": chosen,
            "marker": {"color": _BASE if side == "base" else _NEW, "opacity": 0.7},
            "hovertemplate": "%{customdata:,.0f} ns<extra></extra>",
        }
        for (side, capture), chosen in times.items()
    ]
    return figure(
        theme,
        traces,
        xaxis=axis(theme, say("Iteration of the capture")),
        yaxis=axis(theme, say("Time ({unit})", unit=unit.symbol), rangemode="tozero"),
    )
