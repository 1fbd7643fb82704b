"""The figures of a comparison, as Plotly draws them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aggregator.compare.result import Change, Comparison
from aggregator.tables.plotly.comparison import row_samples, step_changes
from aggregator.tables.plotly.theme import Figure, Theme

FIGURES: Final = ("classes", "causes", "row")
"""``row`` is that of one row, the others are those of the step."""


def draw(comparison: Comparison, name: str, row: int = 0, theme: Theme = Theme.LIGHT) -> Figure:
    """One of ``FIGURES``: from the base step to the new one, or the iterations of a row."""
    if name == "row":
        return _row(comparison, row, theme)
    return _changes(comparison.classes if name == "classes" else comparison.causes, theme)


def _changes(changes: Sequence[Change], theme: Theme) -> Figure:
    return step_changes(
        {
            "name": [change.name for change in changes],
            "base_ns": [float(change.base_ns) for change in changes],
            "new_ns": [float(change.new_ns) for change in changes],
        },
        theme,
    )


def _row(comparison: Comparison, number: int, theme: Theme) -> Figure:
    row = comparison.rows[number]
    sides = (
        ("base", comparison.base.captures, row.base_samples),
        ("new", comparison.new.captures, row.new_samples),
    )
    points = [
        (side, capture.name, time_ns)
        for side, captures, samples in sides
        for capture, part in zip(captures, samples, strict=True)
        for time_ns in part.tolist()
    ]
    names, captures, times = zip(*points, strict=True)
    return row_samples({"side": names, "capture": captures, "time_ns": times}, theme)
