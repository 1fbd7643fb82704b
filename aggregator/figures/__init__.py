"""Plotly figures as plain data: tables in, ``{"data": [...], "layout": {...}}`` out.

Nothing is drawn or written here. A table is a pandas DataFrame, or a mapping from column name to
values, with the columns of the REST API; the browser, a notebook and an HTML report get the same
figure of it.
"""

from __future__ import annotations

from aggregator.figures.gpus import gpus
from aggregator.figures.iterations import MAX_BARS, iteration_summary
from aggregator.figures.parts import (
    gpu_utilization,
    kernel_gpu_time,
    resource_usage,
    tensor_core_efficiency,
)
from aggregator.figures.ranks import ranks
from aggregator.figures.roofline import roofline
from aggregator.figures.tables import Table
from aggregator.figures.theme import Figure, Theme

__all__ = [
    "MAX_BARS",
    "Figure",
    "Table",
    "Theme",
    "gpu_utilization",
    "gpus",
    "iteration_summary",
    "kernel_gpu_time",
    "ranks",
    "resource_usage",
    "roofline",
    "tensor_core_efficiency",
]
