"""An aggregation as rows of the database's tables."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import numpy as np

from aggregator.dldb.writer import Table
from aggregator.metrics.model import LEVELS, RollupInput
from aggregator.metrics.rollup import Rollup, iteration_kinds
from aggregator.options import AggregationRequest
from aggregator.profile import Int64

LONG_ITERATION = 20_000
"""Kernels beyond which an iteration's sums are stored; ``view_iteration_ops`` says the same."""


def request_key(request: AggregationRequest) -> str:
    """One text per distinct request."""
    asked: list[object] = [request.key_node, request.iter_start, request.iter_stop]
    return json.dumps([*asked, request.gpu_peaks] if request.gpu_peaks else asked)


def aggregation_tables(
    inputs: tuple[RollupInput, ...],
    rollups: list[Rollup],
    request: AggregationRequest,
    aggr: int,
) -> list[Table]:
    """Rows of one aggregation for every table that has any."""
    tables = [
        _aggregation(rollups[0], request, aggr),
        _iterations(rollups[0], aggr),
        _issues(rollups[0], aggr),
        _long_iterations(inputs[0], rollups[0], aggr),
    ]
    for data, rollup in zip(inputs, rollups, strict=True):
        domain = data.domain + 1  # row ids begin with 1
        tables += [
            _iteration_times(rollup, aggr, domain),
            _op_metrics(rollup, aggr),
            _kernel_metrics(rollup, aggr),
            _group_metrics(rollup, aggr, domain),
            _device_metrics(data, rollup, aggr, domain),
            _single("model_metrics", {"aggr": aggr, "domain": domain, **rollup.totals}),
        ]
    return tables


def _single(name: str, values: dict[str, int | float | str]) -> Table:
    return Table(name, {key: [value] for key, value in values.items()})


def _aggregation(rollup: Rollup, request: AggregationRequest, aggr: int) -> Table:
    window = rollup.window
    values: dict[str, int | float | str] = {
        "id": aggr,
        "iter_start": window.first,
        "iter_stop": window.last,
        "key_node": window.key_node.name,
        "key_node_reason": window.key_node.reason,
        "request": request_key(request),
        "created_at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S"),
    }
    return _single("aggregations", values)


def _iterations(rollup: Rollup, aggr: int) -> Table:
    iterations = rollup.window.iterations
    number = np.arange(len(iterations), dtype=np.int64)
    bounds = rollup.times.kernel_bounds + 1  # row ids begin with 1
    return Table(
        "iterations",
        {
            "aggr": np.full(len(iterations), aggr, dtype=np.int64),
            "iter_value": number,
            "kind": iteration_kinds(rollup.window),
            "aggregated": (number >= rollup.window.first) & (number <= rollup.window.last),
            "start": iterations.start_ns,
            "stop": iterations.stop_ns,
            "kernel_low": bounds[:-1],
            "kernel_high": bounds[1:],
        },
    )


def _long_iterations(data: RollupInput, rollup: Rollup, aggr: int) -> Table:
    """Sums of the ops in iterations that would take long to sum when somebody asks."""
    bounds, window = rollup.times.kernel_bounds, rollup.window
    long = np.flatnonzero(np.diff(bounds) > LONG_ITERATION)
    ranges = [(one, slice(bounds[one], bounds[one + 1])) for one in long.tolist()]
    parts = [
        (one, _op_sums(data, rows)) for one, rows in ranges if window.first <= one <= window.last
    ]
    names = ("op", "kernels", "tc_kernels", "gpu_time", "tc_gpu_time")
    none = np.zeros(0, dtype=np.int64)
    return Table(
        "iteration_op_times",
        {
            "aggr": np.full(sum(len(sums["op"]) for _, sums in parts), aggr, dtype=np.int64),
            "iter_value": np.concatenate([none, *(np.full(len(s["op"]), i) for i, s in parts)]),
            **{name: np.concatenate([none, *(sums[name] for _, sums in parts)]) for name in names},
        },
        is_optional=True,
    )


def _op_sums(data: RollupInput, rows: slice) -> dict[str, Int64]:
    """Kernels and their time by op, of neighbouring rows of kernels."""
    pair, duration = data.kernels.op_kernel[rows], data.kernels.duration_ns[rows]
    op, uses_tc = data.op_kernels.op[pair], data.op_kernels.uses_tc[pair]
    count = len(data.ops.op_ids)
    kernels = np.bincount(op, minlength=count)
    gpu_time, tc_gpu_time = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    # Weights of bincount are floats, which would lose nanoseconds.
    np.add.at(gpu_time, op, duration)
    np.add.at(tc_gpu_time, op[uses_tc], duration[uses_tc])
    found = np.flatnonzero(kernels)
    return {
        "op": found + 1,  # row ids begin with 1
        "kernels": kernels[found],
        "tc_kernels": np.bincount(op[uses_tc], minlength=count)[found],
        "gpu_time": gpu_time[found],
        "tc_gpu_time": tc_gpu_time[found],
    }


def _iteration_times(rollup: Rollup, aggr: int, domain: int) -> Table:
    count = len(rollup.window.iterations)
    return Table(
        "iteration_times",
        {
            "aggr": np.full(count, aggr, dtype=np.int64),
            "domain": np.full(count, domain, dtype=np.int64),
            "iter_value": np.arange(count, dtype=np.int64),
            "kernels": rollup.times.kernels,
            "tc_kernels": rollup.times.tc_kernels,
            **{name: rollup.times.parts[name] for name in (*LEVELS, "other")},
            "communication": rollup.times.communication_ns,
            "exposed_communication": rollup.times.exposed_communication_ns,
        },
    )


def _op_metrics(rollup: Rollup, aggr: int) -> Table:
    ops = rollup.ops
    return Table(
        "op_metrics",
        {
            "aggr": np.full(len(ops.op), aggr, dtype=np.int64),
            "op": ops.op + 1,
            "using_tc": ops.using_tc,
            **ops.columns,
        },
    )


def _kernel_metrics(rollup: Rollup, aggr: int) -> Table:
    pairs = rollup.kernels["op_kernel"]
    columns = {name: column for name, column in rollup.kernels.items() if name != "op_kernel"}
    return Table(
        "kernel_metrics",
        {"aggr": np.full(len(pairs), aggr, dtype=np.int64), "op_kernel": pairs + 1, **columns},
    )


def _group_metrics(rollup: Rollup, aggr: int, domain: int) -> Table:
    groups = rollup.groups
    count = len(groups.names)
    return Table(
        "group_metrics",
        {
            "aggr": [aggr] * count,
            "domain": [domain] * count,
            "group_name": groups.names,
            "level": groups.levels,
            **groups.columns,
        },
    )


def _device_metrics(data: RollupInput, rollup: Rollup, aggr: int, domain: int) -> Table:
    count = len(data.devices)
    return Table(
        "device_metrics",
        {
            "aggr": [aggr] * count,
            "domain": [domain] * count,
            "device": list(range(1, count + 1)),
            "gpu_utilization": rollup.device_utilization_pct,
        },
    )


def _issues(rollup: Rollup, aggr: int) -> Table:
    issues = rollup.issues
    return Table(
        "expert_issues",
        {
            "aggr": [aggr] * len(issues),
            "detector": [issue.detector for issue in issues],
            "problem": [issue.problem for issue in issues],
            "recommendation": [issue.recommendation for issue in issues],
            "javascript_function": [issue.drill_down for issue in issues],
            "javascript_args": [""] * len(issues),
        },
    )
