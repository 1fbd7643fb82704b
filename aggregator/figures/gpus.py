"""Utilisation of each GPU."""

from __future__ import annotations

from aggregator.figures.tables import Table, column, row_count
from aggregator.figures.theme import Figure, Theme, axis, base_layout, empty_figure, gpu_colour
from aggregator.texts import say


def gpus(table: Table, theme: Theme = Theme.LIGHT) -> Figure:
    """One bar per GPU.

    Args:
        table: Rows with ``device_id``, ``gpu_name`` and ``gpu_utilization_pct``.
        theme: The look.
    """
    if not row_count(table):
        return empty_figure(theme, say("No GPU in this profile"))
    values = column(table, "gpu_utilization_pct")
    trace = {
        "type": "bar",
        "name": say("GPU utilization"),
        "x": [f"GPU {device}" for device in column(table, "device_id")],
        "y": values,
        "text": ["" if value is None else f"{value:.1f} %" for value in values],
        "customdata": column(table, "gpu_name"),
        "marker": {"color": gpu_colour(theme)},
        "hovertemplate": "%{x} (%{customdata}): %{y} %<extra></extra>",
    }
    layout = base_layout(theme) | {
        "showlegend": False,
        "xaxis": axis(theme, "", type="category"),
        "yaxis": axis(theme, say("GPU utilization (%)"), range=[0, 100]),
    }
    return {"data": [trace], "layout": layout}
