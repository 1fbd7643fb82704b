"""Lateness of each rank in each step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from aggregator.tables.plotly.theme import COLORS, IDLE, Figure, Theme, axis, figure
from aggregator.tables.plotly.values import choose_unit
from aggregator.texts import say

if TYPE_CHECKING:
    from aggregator.replay.rank_report import Stragglers  # Loads the replay.

MOST_COLUMNS: Final = 120
"""More steps share columns: their mean is shown."""
MOST_ROWS: Final = 256
"""Of more ranks the latest ones are shown."""


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
