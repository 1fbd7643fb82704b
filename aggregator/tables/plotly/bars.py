"""Bars per GPU and per rank, and how late each rank is in each step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from aggregator.tables.plotly.theme import (
    COLORS,
    GPU,
    IDLE,
    Figure,
    Theme,
    axis,
    empty_figure,
    figure,
)
from aggregator.tables.plotly.values import Table, choose_unit, column, row_count, rows_of
from aggregator.texts import say

if TYPE_CHECKING:
    from aggregator.replay.rank_report import Stragglers  # Loads the replay.

MOST_COLUMNS: Final = 120
"""More steps share columns: their mean is shown."""
MOST_ROWS: Final = 256
"""Of more ranks the latest ones are shown."""
_PARTS = (
    ("computing_ns", say("Computing")),
    ("exposed_transfer_ns", say("Exposed transfer")),
    ("exposed_waiting_ns", say("Exposed waiting for other ranks")),
    ("exposed_communication_ns", say("Exposed communication")),
)


def gpus(table: Table, theme: Theme = Theme.LIGHT) -> Figure:
    """Return one bar per GPU: ``device_id``, ``gpu_name`` and ``gpu_utilization_pct``."""
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
        "marker": {"color": GPU[theme]},
        "hovertemplate": "%{x} (%{customdata}): %{y} %<extra></extra>",
    }
    return figure(
        theme,
        [trace],
        showlegend=False,
        xaxis=axis(theme, "", type="category"),
        yaxis=axis(theme, say("GPU utilization (%)"), range=[0, 100]),
    )


def ranks(table: Table, theme: Theme = Theme.LIGHT) -> Figure:
    """Return the bars of the times of ``_PARTS`` per ``rank``; no bar for an unknown value.

    Exposed communication is one part where its waiting is unknown.
    """
    if not row_count(table):
        return empty_figure(theme, say("No ranks in this profile"))
    columns = {name: column(table, name) for name, *_ in _PARTS}
    is_split = any(value is not None for value in columns["exposed_waiting_ns"])
    del columns["exposed_communication_ns" if is_split else "exposed_waiting_ns"]
    unit = choose_unit(max((value or 0 for part in columns.values() for value in part), default=0))
    moving = COLORS["communication"]
    markers = {
        "computing_ns": {"color": GPU[theme]},
        "exposed_transfer_ns": {"color": moving},
        # What waits in a collective moves no data yet.
        "exposed_waiting_ns": {"color": moving, "pattern": {"shape": "/"}},
        "exposed_communication_ns": {"color": moving},
    }
    traces = [
        {
            "type": "bar",
            "name": name,
            "x": column(table, "rank"),
            "y": [None if value is None else unit.of(value) for value in columns[key]],
            "customdata": columns[key],
            "marker": markers[key],
            "hovertemplate": say("{name}: %{{customdata:,}} ns<extra></extra>", name=name),
        }
        for key, name in _PARTS
        if any(value is not None for value in columns.get(key, ()))
    ]
    return figure(
        theme,
        traces,
        barmode="group",
        xaxis=axis(theme, say("Rank"), type="category"),
        yaxis=axis(theme, say("Time ({unit})", unit=unit.symbol), rangemode="tozero"),
    )


MAX_OPS = 15  # Ops on the critical path that are drawn.


def slow_ranks(found: Stragglers, theme: Theme = Theme.LIGHT) -> Figure:
    """Return the time of each rank over the median of the others, by iteration."""
    ranks, steps = found.ranks, found.iterations
    latest = sorted(range(len(ranks)), key=lambda row: -ranks[row].late_ns)[:MOST_ROWS]
    rows = sorted(latest)
    starts = np.arange(0, len(steps), -(-len(steps) // MOST_COLUMNS))
    late = np.array([step.late_ns for step in steps], dtype=np.float64).T[rows]
    widths = np.diff(np.append(starts, len(steps)))
    late = np.rint(np.add.reduceat(late, starts, axis=1) / widths).astype(np.int64)
    unit = choose_unit(int(np.abs(late).max(initial=0)))
    trace = {
        "type": "heatmap",
        "name": say("Late"),
        "x": [steps[start].iteration_index for start in starts.tolist()],
        "y": [str(ranks[row].rank) for row in rows],
        "z": [[unit.of(value) for value in row] for row in late.tolist()],
        "zmin": 0,
        "zmax": unit.of(max(int(late.max(initial=0)), 1)),
        "customdata": late.tolist(),
        "colorscale": [[0, IDLE[theme]], [1, COLORS["cpu"]]],
        "colorbar": {"title": {"text": say("Late ({unit})", unit=unit.symbol)}},
        "hovertemplate": say("rank %{{y}}, iteration %{{x}}: %{{customdata:,}} ns<extra></extra>"),
    }
    return figure(
        theme,
        [trace],
        xaxis=axis(theme, say("Iteration"), type="category"),
        yaxis=axis(theme, say("Rank"), type="category", autorange="reversed"),
        meta={"verdict": found.verdict, "columns_of": int(widths.max(initial=1))},
    )


def critical_path(table: Table, theme: Theme = Theme.LIGHT) -> Figure:
    """Return the ops that fill most of the critical path, and what they could be later for free.

    From ``op_id``, ``op_name``, ``path_pct`` and ``slack_ns``.
    """
    rows = rows_of(table, "path_pct", "op_id", "op_name", "slack_ns")
    shown = sorted((row for row in rows if row[0]), key=lambda row: (-row[0], row[1]))[:MAX_OPS]
    if not shown:
        return empty_figure(theme, say("The steps were not replayed, or no op is on their path"))
    trace = {
        "type": "bar",
        "orientation": "h",
        "name": say("Critical path"),
        "x": [row[0] for row in shown],
        "y": [row[1] for row in shown],
        "customdata": [[row[2], "-" if row[3] is None else f"{row[3]:,} ns"] for row in shown],
        "marker": {"color": GPU[theme]},
        "hovertemplate": say(
            "%{{customdata[0]}}: %{{x:.2f}} %, slack %{{customdata[1]}}<extra></extra>"
        ),
    }
    return figure(
        theme,
        [trace],
        showlegend=False,
        xaxis=axis(theme, say("Share of the critical path (%)"), rangemode="tozero"),
        yaxis=axis(theme, "", type="category", autorange="reversed"),
    )
