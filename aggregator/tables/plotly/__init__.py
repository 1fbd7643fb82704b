"""Plotly figures as plain data: tables in, ``{"data": [...], "layout": {...}}`` out.

A table is a pandas DataFrame, or a mapping from column name to values, with the columns of the REST
API. The browser, a notebook and the HTML report show the same figures.
"""

from __future__ import annotations

from aggregator.tables.plotly.bars import critical_path, gpus, ranks
from aggregator.tables.plotly.comparison import row_samples, step_changes
from aggregator.tables.plotly.heat_map import slow_ranks
from aggregator.tables.plotly.iterations import MAX_BARS, iteration_summary
from aggregator.tables.plotly.roofline import roofline
from aggregator.tables.plotly.shares import (
    gpu_utilization,
    kernel_gpu_time,
    resource_usage,
    tensor_core_efficiency,
)
from aggregator.tables.plotly.theme import Figure, Theme, empty_figure
from aggregator.tables.plotly.values import Table

__all__ = [
    "MAX_BARS",
    "Figure",
    "Table",
    "Theme",
    "critical_path",
    "empty_figure",
    "gpu_utilization",
    "gpus",
    "iteration_summary",
    "kernel_gpu_time",
    "ranks",
    "resource_usage",
    "roofline",
    "row_samples",
    "slow_ranks",
    "step_changes",
    "tensor_core_efficiency",
]
