"""Colours and the parts of a layout that all figures share."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, TypeAlias

from aggregator.texts import say

Figure: TypeAlias = dict[str, Any]


class Theme(StrEnum):
    """The two looks of the viewer."""

    LIGHT = "light"
    DARK = "dark"


#: A colour means one thing, in every chart, table and report, and in both themes.
COLOURS = {
    "tc": "#1b7f3b",
    "non_tc": "#8bd08f",
    "memory": "#3b7dd8",
    "dataloader": "#e9b824",
    "io": "#c9935a",
    "cpu": "#e06c1f",
    "other": "#ef9fb8",
    "communication": "#c23b5a",
    "outside": "#9aa0a6",
}
PART_NAMES = {
    "tc": say("Using Tensor Cores"),
    "non_tc": say("Not Using Tensor Cores"),
    "memory": say("Memory"),
    "dataloader": say("Dataloader"),
    "io": say("I/O"),
    "cpu": say("CPU"),
    "other": say("Other"),
    "outside": say("Outside Aggregation"),
}
#: Parts of a wall time in the order in which they are stacked.
PARTS = ("tc", "non_tc", "memory", "dataloader", "io", "cpu", "other")

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_TEXT = {Theme.LIGHT: "#1f2328", Theme.DARK: "#e6e8eb"}
_GRID = {Theme.LIGHT: "#e3e6ea", Theme.DARK: "#32373e"}
_BOUNDS = {Theme.LIGHT: "#111418", Theme.DARK: "#f4f6f8"}
#: A GPU at work, whatever it runs; its idle time beside it.
_GPU = {Theme.LIGHT: "#1b7f3b", Theme.DARK: "#2a9350"}
_IDLE = {Theme.LIGHT: "#dcdfe5", Theme.DARK: "#343a45"}


def bounds_colour(theme: Theme) -> str:
    """Colour of the lines around the aggregated iterations."""
    return _BOUNDS[theme]


def gpu_colour(theme: Theme) -> str:
    """Colour of a GPU that works."""
    return _GPU[theme]


def idle_colour(theme: Theme) -> str:
    """Colour of its idle time beside it."""
    return _IDLE[theme]


def base_layout(theme: Theme) -> dict[str, Any]:
    """Transparent, without a title: the page around a figure gives both."""
    return {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": _FONT, "size": 12, "color": _TEXT[theme]},
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "showlegend": True,
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "hoverlabel": {"font": {"family": _FONT, "size": 12}},
    }


def axis(theme: Theme, title: str, **more: Any) -> dict[str, Any]:
    """An axis with a title, in the theme's colours."""
    colours = {"gridcolor": _GRID[theme], "linecolor": _GRID[theme], "zerolinecolor": _GRID[theme]}
    return {"title": {"text": title}, "automargin": True, **colours, **more}


def empty_figure(theme: Theme, reason: str) -> Figure:
    """A figure that says why it shows nothing."""
    layout = base_layout(theme)
    note = {
        "text": reason,
        "showarrow": False,
        "xref": "paper",
        "yref": "paper",
        "x": 0.5,
        "y": 0.5,
    }
    hidden = {"visible": False}
    return {
        "data": [],
        "layout": layout | {"annotations": [note], "xaxis": hidden, "yaxis": hidden},
    }
