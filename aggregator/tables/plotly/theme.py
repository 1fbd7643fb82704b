"""Colors and layout that all figures share."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

from aggregator.texts import say

Part: TypeAlias = dict[str, Any]
"""A trace, an axis or another part of a figure, as Plotly names its values."""
Figure: TypeAlias = Part
Number = TypeVar("Number", int, float)


class Theme(StrEnum):
    """Color themes of the viewer."""

    LIGHT = "light"
    DARK = "dark"


#: A color has the same meaning in every chart, table and report, and in both themes.
COLORS = {
    "tc": "#1b7f3b",
    "non_tc": "#8bd08f",
    "graph": "#7d6bb0",
    "memory": "#3b7dd8",
    "dataloader": "#e9b824",
    "io": "#c9935a",
    "cpu": "#e06c1f",
    "other": "#ef9fb8",
    "communication": "#c23b5a",
    "outside": "#9aa0a6",
}
PART_NAMES = {
    "tc": say("Tensor Core kernels"),
    "non_tc": say("Other kernels"),
    "communication": say("Communication"),
    "graph": say("CUDA graphs"),
    "memory": say("Copies"),
    "dataloader": say("Idle: data loader"),
    "io": say("Idle: I/O"),
    "cpu": say("Idle: CPU ops"),
    "other": say("Idle: Python or other"),
    "outside": say("Outside Aggregation"),
}
#: Parts of a wall time in the order in which they are stacked.
PARTS = (
    "tc",
    "non_tc",
    "communication",
    "graph",
    "memory",
    "dataloader",
    "io",
    "cpu",
    "other",
)
#: Parts that are left out where none of them was recorded.
RARE_PARTS = frozenset({"communication", "graph"})


def split_communication(parts: Mapping[str, Number | None]) -> dict[str, Number | None]:
    """Take communication out of ``non_tc``, which contains it in the tables."""
    non_tc, communication = parts["non_tc"], parts["communication"]
    if non_tc is None or communication is None:
        return dict(parts)
    # Means over several GPUs are rounded one by one.
    return {**parts, "non_tc": max(non_tc - communication, type(non_tc)(0))}


_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_TEXT = {Theme.LIGHT: "#1f2328", Theme.DARK: "#e6e8eb"}
_GRID = {Theme.LIGHT: "#e3e6ea", Theme.DARK: "#32373e"}
#: Lines around the aggregated iterations.
BOUNDS = {Theme.LIGHT: "#111418", Theme.DARK: "#f4f6f8"}
#: Busy and idle time of a GPU.
GPU = {Theme.LIGHT: "#4a5a70", Theme.DARK: "#8fa3bd"}
IDLE = {Theme.LIGHT: "#dcdfe5", Theme.DARK: "#343a45"}


def base_layout(theme: Theme) -> Part:
    """Return a layout with a transparent background and no title, which the page has."""
    return {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": _FONT, "size": 12, "color": _TEXT[theme]},
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "showlegend": True,
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "hoverlabel": {"font": {"family": _FONT, "size": 12}},
    }


def axis(theme: Theme, title: str, **more: Any) -> Part:
    """Return an axis with a title, in the theme's colors."""
    colors = {"gridcolor": _GRID[theme], "linecolor": _GRID[theme], "zerolinecolor": _GRID[theme]}
    return {"title": {"text": title}, "automargin": True, **colors, **more}


def figure(theme: Theme, traces: list[Part], **layout: Any) -> Figure:
    """Return traces on a layout in the theme's colors."""
    return {"data": traces, "layout": base_layout(theme) | layout}


def empty_figure(theme: Theme, reason: str) -> Figure:
    """Return a figure without data that shows the reason."""
    at = {"xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5}
    note, hidden = {"text": reason, "showarrow": False, **at}, {"visible": False}
    return figure(theme, [], annotations=[note], xaxis=hidden, yaxis=hidden)
