"""Time of each iteration by activity, in at most 120 stacked bars."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby

from aggregator.profile.recorded_part import BETWEEN
from aggregator.tables.plotly.theme import (
    BOUNDS,
    COLORS,
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
from aggregator.tables.plotly.values import Table, TimeUnit, choose_unit, rows_of
from aggregator.texts import say

#: A browser takes about a second for a thousand stacked bars, which are too narrow to see.
MAX_BARS = 120
_BAR_WIDTH = 0.8


@dataclass(frozen=True)
class _Iteration:
    index: int
    kind: str | None
    is_profiled: bool
    duration_ns: int
    parts_ns: dict[str, int | None]
    phase: str | None


@dataclass(frozen=True)
class _Bar:
    """Neighboring iterations of one kind, shown as their mean."""

    iterations: tuple[_Iteration, ...]

    @property
    def first(self) -> _Iteration:
        return self.iterations[0]

    @property
    def last(self) -> _Iteration:
        return self.iterations[-1]

    @property
    def duration_ns(self) -> int:
        return round(sum(row.duration_ns for row in self.iterations) / len(self.iterations))

    @property
    def phase(self) -> str | None:
        """Phase of all its iterations; None: unknown, or not the same one."""
        phases = {iteration.phase for iteration in self.iterations}
        return phases.pop() if len(phases) == 1 else None

    def part_ns(self, part: str) -> int | None:
        """Mean time of a part; that of "outside" is the duration outside the aggregation."""
        if self.first.is_profiled == (part == "outside"):
            return None
        if part == "outside":
            return self.duration_ns
        known = [time for row in self.iterations if (time := row.parts_ns[part]) is not None]
        return round(sum(known) / len(known)) if known else None


def iteration_summary(
    table: Table,
    theme: Theme = Theme.LIGHT,
    *,
    start: int | None = None,
    stop: int | None = None,
    only_profiled: bool = False,
    max_bars: int = MAX_BARS,
) -> Figure:
    """Return the stacked bars over the iterations.

    With more iterations than bars, a bar is the mean of neighbors. Iterations inside and outside
    the aggregation, and those of different kinds, never share a bar; nor do those of different
    phases, as long as that leaves few enough bars.

    Args:
        table: Rows with ``iteration_index``, ``kind``, ``is_profiled``, ``duration_ns`` and
            ``<part>_duration_ns`` for each part of the time; ``phase`` where it is known.
        theme: Color theme.
        start: First iteration to show, inclusive.
        stop: Last iteration to show, inclusive.
        only_profiled: Leave out iterations outside the aggregation.
        max_bars: Maximum number of bars.
    """
    everything = _iterations(table)
    shown = [row for row in everything if _is_shown(row, start, stop, only_profiled=only_profiled)]
    if not shown:
        return empty_figure(theme, say("No iterations here"))
    size, bars = _bucket(shown, max_bars)
    unit = choose_unit(max(bar.duration_ns for bar in bars))
    profiled = [iteration.index for iteration in everything if iteration.is_profiled]
    bounds = {"iter_start": min(profiled), "iter_stop": max(profiled)} if profiled else {}
    parts = [
        part for part in PARTS if part not in RARE_PARTS or any(bar.part_ns(part) for bar in bars)
    ]
    traces = [_trace(part, bars, unit) for part in (*parts, "outside")]
    return figure(
        theme,
        traces,
        barmode="stack",
        bargap=0,
        xaxis=axis(theme, say("Iteration"), type="linear"),
        yaxis=axis(theme, say("Duration ({unit})", unit=unit.symbol), rangemode="tozero"),
        shapes=_bounds(bounds, theme),
        meta=_meta(bars, size, unit, bounds),
    )


def _meta(bars: list[_Bar], size: int, unit: TimeUnit, bounds: dict[str, int]) -> dict[str, object]:
    """Return the values for the page's own hover card and bounds."""
    return {
        "unit": unit.symbol,
        "unit_ns": unit.ns,
        "bucket_size": size,
        "statistic": "mean",
        "first": bars[0].first.index,
        "last": bars[-1].last.index,
        "iter_start": None,
        "iter_stop": None,
        **bounds,
        "bars": [_about(bar) for bar in bars],
    }


def _iterations(table: Table) -> list[_Iteration]:
    names = ("iteration_index", "kind", "is_profiled", "duration_ns", "phase")
    rows = rows_of(table, *names, *(f"{part}_duration_ns" for part in PARTS))
    found = [
        _Iteration(
            index,
            kind,
            bool(profiled),
            duration,
            split_communication(dict(zip(PARTS, times, strict=True))),
            phase,
        )
        for index, kind, profiled, duration, phase, *times in rows
        if kind != BETWEEN  # nothing was recorded: it has no time to show
    ]
    return sorted(found, key=lambda item: item.index)


def _is_shown(one: _Iteration, start: int | None, stop: int | None, *, only_profiled: bool) -> bool:
    after_start = start is None or one.index >= start
    before_stop = stop is None or one.index <= stop
    return after_start and before_stop and (one.is_profiled or not only_profiled)


def _bucket(shown: list[_Iteration], max_bars: int) -> tuple[int, list[_Bar]]:
    """Return the smallest bucket size with at most ``max_bars`` bars, and the bars."""
    runs = _runs(shown, lambda item: (item.kind, item.is_profiled, item.phase))
    if len(runs) > max_bars // 2:
        runs = _runs(shown, lambda item: (item.kind, item.is_profiled))
    size = max(1, len(shown) // max_bars)
    while size < len(shown) and sum(-(-len(run) // size) for run in runs) > max_bars:
        size += 1
    return size, [_Bar(run[row : row + size]) for run in runs for row in range(0, len(run), size)]


def _runs(
    shown: list[_Iteration], key: Callable[[_Iteration], tuple[object, ...]]
) -> list[tuple[_Iteration, ...]]:
    return [tuple(run) for _, run in groupby(shown, key=key)]


def _trace(part: str, bars: list[_Bar], unit: TimeUnit) -> Part:
    rows = [(bar.first.index, bar.last.index, bar.first.kind, bar.part_ns(part)) for bar in bars]
    return {
        "type": "bar",
        "name": PART_NAMES[part],
        "meta": {"part": part},
        "marker": {"color": COLORS[part]},
        "x": [(first + last) / 2 for first, last, *_ in rows],
        "width": [_BAR_WIDTH * (last - first + 1) for first, last, *_ in rows],
        "y": [unit.of(time) for *_, time in rows],
        "customdata": [list(row) for row in rows],
        "hovertemplate": say(
            "{name}: %{{customdata[3]:,}} ns<extra></extra>", name=PART_NAMES[part]
        ),
    }


def _about(bar: _Bar) -> Part:
    return {
        "first": bar.first.index,
        "last": bar.last.index,
        "kind": bar.first.kind,
        "is_profiled": bar.first.is_profiled,
        "phase": bar.phase,
        "duration_ns": bar.duration_ns,
        "shortest_ns": min(iteration.duration_ns for iteration in bar.iterations),
        "longest_ns": max(iteration.duration_ns for iteration in bar.iterations),
    }


def _bounds(bounds: dict[str, int], theme: Theme) -> list[Part]:
    """Return a line before the first and one after the last aggregated iteration."""
    return [
        {
            "type": "line",
            "name": name,
            "xref": "x",
            "yref": "paper",
            "x0": index + (0.5 if name == "iter_stop" else -0.5),
            "x1": index + (0.5 if name == "iter_stop" else -0.5),
            "y0": 0,
            "y1": 1,
            "line": {"color": BOUNDS[theme], "width": 2},
        }
        for name, index in bounds.items()
    ]
