"""One aggregation from beginning to end: a request and the columns in, rows for the tables out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aggregator.expert import Evidence, Issue, find_issues
from aggregator.metrics.group_metrics import GroupMetrics, compute_group_metrics
from aggregator.metrics.iteration_times import (
    IterationTimes,
    compute_iteration_times,
    device_utilization_pct,
)
from aggregator.metrics.kernel_metrics import compute_kernel_metrics
from aggregator.metrics.model import RollupInput
from aggregator.metrics.model_metrics import compute_model_metrics
from aggregator.metrics.op_metrics import OpMetrics, compute_op_metrics
from aggregator.metrics.window import Window, open_window
from aggregator.options import AggregationRequest
from aggregator.profile import Int64
from aggregator.progress import Progress


@dataclass(frozen=True)
class Rollup:
    """All results of one aggregation."""

    window: Window
    times: IterationTimes
    ops: OpMetrics
    kernels: dict[str, Int64]
    groups: GroupMetrics
    totals: dict[str, int | float]
    device_utilization_pct: list[float]
    issues: list[Issue]


def roll_up(
    inputs: tuple[RollupInput, ...], request: AggregationRequest, progress: Progress
) -> list[Rollup]:
    """Aggregate every domain; the default one comes first.

    Raises:
        UsageError, IterationRangeError, KeyNodeNotFoundError, AmbiguousKeyNodeError: The request
            does not fit the profile.
    """
    window = open_window(inputs, request)
    progress.phase("aggregate", len(inputs) * STEPS)
    return [_roll_up_domain(data, window, request, progress) for data in inputs]


STEPS = 4
"""Steps of one domain that progress is told of."""


def _roll_up_domain(
    data: RollupInput, window: Window, request: AggregationRequest, progress: Progress
) -> Rollup:
    times = compute_iteration_times(data, window)
    progress.advance(1)
    ops = compute_op_metrics(data, window)
    progress.advance(1)
    kernels = compute_kernel_metrics(data, window)
    groups = compute_group_metrics(data, window, ops)
    progress.advance(1)
    totals = compute_model_metrics(data, window, ops, times)
    evidence = Evidence(data, window, ops, totals, request.key_node)
    issues = find_issues(evidence) if data.domain == 0 else []
    progress.advance(1)
    return Rollup(
        window=window,
        times=times,
        ops=ops,
        kernels=kernels,
        groups=groups,
        totals=totals,
        device_utilization_pct=device_utilization_pct(data, window, times),
        issues=issues,
    )


def iteration_kinds(window: Window) -> list[str]:
    """``before`` for what lies before a loop, ``iteration`` for the rest."""
    kinds = np.full(len(window.iterations), "iteration", dtype=object)
    if window.iterations.has_key_node:
        kinds[0] = "before"
    return [str(kind) for kind in kinds]
