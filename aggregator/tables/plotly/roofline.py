"""The roofline: arithmetic intensity and rate of each op, below the peak rates of the GPU."""

from __future__ import annotations

from math import isfinite, log10

from aggregator.tables.plotly.theme import (
    BOUNDS,
    Figure,
    Part,
    Theme,
    axis,
    base_layout,
    empty_figure,
)
from aggregator.tables.plotly.values import Table, rows_of
from aggregator.texts import say

MAX_POINTS = 400  # Number of ops shown, those with the most GPU time.
# Colors of their own: those of the parts of a step mean kinds of GPU work.
_COLORS = {"compute": "#6e56cf", "memory": "#0f8f9c", "link": "#8f6b3a"}
_NAMES = {
    "compute": say("Compute-bound"),
    "memory": say("Memory-bound"),
    "link": say("Bus-bound"),
}
_ROOFS = ("float16", "bfloat16", "float8", "tf32", "float32", "float64")
_BACKGROUND = {Theme.LIGHT: "rgba(255,255,255,0.75)", Theme.DARK: "rgba(23,26,33,0.75)"}
_LEAST = 1e-3
_MARGIN = 0.5  # Margin around the points. Unit: decades.
_MARKER, _LARGEST = 6.0, 34.0


def roofline(ops: Table, rates: Table, theme: Theme = Theme.LIGHT) -> Figure:
    """Draw the ops of a table under the roofs of a GPU.

    Args:
        ops: ``op_id, op_name, arithmetic_intensity, tflops_per_second, bound, gpu_time_ns,
            peak_pct, left_time_ns, precision``.
        rates: ``rate_name, rate``.
        theme: Color theme.
    """
    points = _points(ops)
    peaks = dict(rows_of(rates, "rate_name", "rate"))
    bandwidth = peaks.get("bandwidth")
    if not points:
        return empty_figure(theme, say("No op with known operations and bytes"))
    longest = max(int(point["gpu_time_ns"] or 1) for point in points)
    traces = [
        _scatter(kind, [point for point in points if point["bound"] == kind], longest)
        for kind in _NAMES
    ]
    most = max(point["arithmetic_intensity"] for point in points) * 10**_MARGIN
    used = {point["precision"] for point in points}
    if bandwidth:  # the labels are at the right end of the horizontal lines
        ridges = [peaks.get(str(name)) or 0.0 for name in used]
        most = max(most, 3e3 * max(ridges, default=0.0) / bandwidth)
    roofs = _roofs(peaks, bandwidth, used, most, theme)
    layout = base_layout(theme) | {
        "xaxis": axis(theme, say("Operations per byte"), type="log", dtick=1),
        "yaxis": axis(theme, say("TFLOP/s"), type="log", dtick=1),
        "hovermode": "closest",
    }
    shown = [trace for trace in traces if trace["x"]]
    ends = [min(x for trace in shown for x in trace["x"]) / 10**_MARGIN]
    ends += [roof["x"][-1] for roof in roofs] or [most]
    layout["xaxis"]["range"] = [log10(min(ends)), log10(max(ends))]
    ceilings = [roof["y"][-1] for roof in roofs]
    layout["annotations"] = [_label(roof, max(ends), theme) for roof in roofs]
    if roofs and bandwidth:
        layout["annotations"].append(_bandwidth_label(bandwidth, min(ends), theme))
    layout["yaxis"]["range"] = _log_range([y for t in shown for y in t["y"]] + ceilings, 0.3)
    return {"data": [*roofs, *shown], "layout": layout}


def _points(ops: Table) -> list[Part]:
    names = (
        *("op_id", "op_name", "arithmetic_intensity", "tflops_per_second", "bound"),
        *("gpu_time_ns", "peak_pct", "left_time_ns", "precision"),
    )
    rows = [dict(zip(names, row, strict=True)) for row in rows_of(ops, *names)]
    usable = [
        row
        for row in rows
        if row["bound"] in _NAMES
        and _positive(row["arithmetic_intensity"], row["tflops_per_second"])
    ]
    usable.sort(key=lambda row: -int(row["gpu_time_ns"] or 0))
    return usable[:MAX_POINTS]


def _positive(*values: float | None) -> bool:
    return all(value is not None and value > 0 and isfinite(value) for value in values)


def _scatter(kind: str, points: list[Part], longest: int) -> Part:
    """Return the ops with one bound; the area of a marker is proportional to GPU time."""
    sizes = [
        _MARKER + (_LARGEST - _MARKER) * (int(point["gpu_time_ns"] or 0) / longest) ** 0.5
        for point in points
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": _NAMES[kind],
        "x": [point["arithmetic_intensity"] for point in points],
        "y": [point["tflops_per_second"] for point in points],
        "marker": {"size": sizes, "color": _COLORS[kind], "opacity": 0.7, "line": {"width": 0}},
        "customdata": [
            [point["op_id"], point["gpu_time_ns"], point["peak_pct"], point["left_time_ns"]]
            for point in points
        ],
        "hovertemplate": say(
            "%{customdata[0]}<br>%{y:.3g} TFLOP/s at %{x:.3g} per byte<br>"
            "%{customdata[2]:.1f} % of what the GPU could do<br>"
            "%{customdata[3]:,} of %{customdata[1]:,} ns above ideal<extra></extra>"
        ),
    }


def _roofs(
    peaks: dict[str, float | None],
    bandwidth: float | None,
    used: set[str | None],
    most: float,
    theme: Theme,
) -> list[Part]:
    """Return lines: bandwidth times intensity, up to the peak of each precision that ops used."""
    if not bandwidth:
        return []
    wanted = [name for name in _ROOFS if name in used or name == "float32"]
    names: dict[float, list[str]] = {}
    for name in wanted:
        if peak := peaks.get(name):
            names.setdefault(peak, []).append(name)
    roofs = []
    for peak, precisions in names.items():  # precisions of one rate share a line
        name = ", ".join(precisions)
        ridge = peak * 1e3 / bandwidth
        x = [_LEAST, ridge, most]
        y = [_LEAST * bandwidth / 1e3, peak, peak]
        line = {"color": BOUNDS[theme], "width": 1.2}
        hidden = {"showlegend": False, "hoverinfo": "skip"}
        shape = {"type": "scatter", "mode": "lines", "name": name, "x": x, "y": y, "line": line}
        roofs.append(shape | hidden)
    return roofs


def _label(roof: Part, right: float, theme: Theme) -> Part:
    """Label of a roof at its right end, with a background so that points do not hide it."""
    peak = roof["y"][-1]
    return _note(f"{roof['name']} {peak:g} TFLOP/s", (right, peak), "right", theme)


def _bandwidth_label(bandwidth: float, left: float, theme: Theme) -> Part:
    """Return the label of the slope, above its left end."""
    x = left * 10 ** (_MARGIN / 2)
    return _note(f"{bandwidth:g} GB/s", (left, x * bandwidth / 1e3), "left", theme)


def _note(text: str, at: tuple[float, float], anchor: str, theme: Theme) -> Part:
    return {
        "text": text,
        "x": log10(at[0]),
        "y": log10(at[1]),
        "xanchor": anchor,
        "yanchor": "bottom",
        "showarrow": False,
        "bgcolor": _BACKGROUND[theme],
        "borderpad": 1,
        "font": {"size": 11},
    }


def _log_range(values: list[float], margin: float) -> list[float]:
    """Return the ends of a logarithmic axis around values."""
    return [log10(min(values)) - margin, log10(max(values)) + margin]
