"""What each rank of a distributed job did: computing, exposed communication, waiting."""

from __future__ import annotations

from aggregator.figures.scale import choose_unit
from aggregator.figures.tables import Table, column, row_count
from aggregator.figures.theme import COLOURS, Figure, Theme, axis, base_layout, empty_figure
from aggregator.texts import say

_PARTS = (
    ("computing_ns", say("Computing"), COLOURS["tc"]),
    ("exposed_communication_ns", say("Exposed communication"), COLOURS["communication"]),
    ("waiting_ns", say("Waiting for other ranks"), COLOURS["dataloader"]),
)


def ranks(table: Table, theme: Theme = Theme.LIGHT) -> Figure:
    """Three bars per rank; what is unknown has none.

    Args:
        table: Rows with ``rank``, ``computing_ns``, ``exposed_communication_ns`` and
            ``waiting_ns``.
        theme: The look.
    """
    if not row_count(table):
        return empty_figure(theme, say("No ranks in this profile"))
    columns = {name: column(table, name) for name, *_ in _PARTS}
    unit = choose_unit(max((value or 0 for part in columns.values() for value in part), default=0))
    traces = [
        {
            "type": "bar",
            "name": name,
            "x": column(table, "rank"),
            "y": [None if value is None else unit.of(value) for value in columns[key]],
            "customdata": columns[key],
            "marker": {"color": colour},
            "hovertemplate": say("{name}: %{{customdata:,}} ns<extra></extra>", name=name),
        }
        for key, name, colour in _PARTS
    ]
    layout = base_layout(theme) | {
        "barmode": "group",
        "xaxis": axis(theme, say("Rank"), type="category"),
        "yaxis": axis(theme, say("Time ({unit})", unit=unit.symbol), rangemode="tozero"),
    }
    return {"data": traces, "layout": layout}
