"""Metrics of ops, (op, kernel) pairs and groups: sums over what starts or is launched in a window.

A group is a prefix of op paths; its statistics are over iterations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aggregator.correlate.op_table import UNASSOCIATED
from aggregator.metrics.model import RollupInput
from aggregator.metrics.statistics import GroupOrder, Groups
from aggregator.metrics.window import Window
from aggregator.profile.arrays import Bool, Int64, narrowest, ordered

COMPLETE_MODEL = "_CompleteModel_"
METRICS = ("cpu_time", "gpu_time", "cpu_overhead", "gpu_idle")


@dataclass(frozen=True)
class OpMetrics:
    """One row per op that has instances or kernels in the window."""

    op: Int64  # Row of the op.
    using_tc: Bool  # Whether any kernel uses Tensor Cores.
    # ``num_calls``, ``kernel_calls``, ``kernel_time``, ``tc_kernel_time`` and
    # ``<metric>_{sum,min,max}`` for cpu_time, gpu_time, cpu_overhead and gpu_idle. Unit: ns.
    columns: dict[str, Int64]


def compute_op_metrics(data: RollupInput, window: Window) -> OpMetrics:
    """Roll op instances and kernels up to ops."""
    rows = window.rows(data.instances.start_ns)
    instances = Groups(data.instances.op[rows])
    kernel_rows = window.rows(data.kernels.api_start_ns)
    pair = data.kernels.code[kernel_rows]
    kernels = Groups(data.op_kernels.op[pair])
    duration = data.kernels.duration_ns[kernel_rows]
    uses_tc = data.op_kernels.uses_tc[pair]
    ops = np.union1d(instances.groups, kernels.groups)
    metrics = {
        "cpu_time": data.instances.cpu_time_ns[rows],
        "gpu_time": data.instances.gpu_time_ns[rows],
        "cpu_overhead": data.instances.cpu_overhead_ns[rows],
        "gpu_idle": data.instances.gpu_idle_ns[rows],
    }
    columns = {
        "num_calls": _spread(ops, instances, instances.counts),
        "kernel_calls": _spread(ops, kernels, kernels.counts),
        "kernel_time": _spread(ops, kernels, kernels.sum(duration)),
        "tc_kernel_time": _spread(ops, kernels, kernels.sum(np.where(uses_tc, duration, 0))),
    }
    for name, values in metrics.items():
        for column, result in instances.statistics(name, values).items():
            columns[column] = _spread(ops, instances, result)
    tc_launches = _spread(ops, kernels, kernels.sum(uses_tc.astype(np.int64)))
    return OpMetrics(ops, tc_launches > 0, columns)


def _spread(ops: Int64, groups: Groups, values: Int64) -> Int64:
    """Return the values of some ops laid out over all; the others have none: 0."""
    result = np.zeros(len(ops), dtype=np.int64)
    result[np.searchsorted(ops, groups.groups)] = values
    return result


def compute_kernel_metrics(data: RollupInput, window: Window) -> dict[str, Int64]:
    """Return the metrics of (op, kernel) pairs.

    Returns:
        Columns ``op_kernel, calls, gpu_time_{sum,min,max}, api_time_{sum,min,max}``. Unit: ns.
    """
    rows = window.rows(data.kernels.api_start_ns)
    pairs = Groups(data.kernels.code[rows])
    return {
        "op_kernel": pairs.groups,
        "calls": pairs.counts,
        **pairs.statistics("gpu_time", data.kernels.duration_ns[rows]),
        **pairs.statistics("api_time", data.kernels.api_duration_ns[rows]),
    }


@dataclass
class GroupMetrics:
    """One row per group."""

    names: list[str]  # Prefixes that end in a slash, sorted, then ``_CompleteModel_``.
    levels: list[int]  # Depth; ``/`` is 1.
    # Counts and ``<metric>_{sum,avg,min,max}``; averages are REAL. Unit: ns.
    columns: dict[str, list[float]]


def compute_group_metrics(data: RollupInput, window: Window, ops: OpMetrics) -> GroupMetrics:
    """Sum the instances of each iteration in each group.

    Statistics are over the iterations in which the group ran at all.
    """
    names, members = _groups(data, ops.op)
    sums_of = _IterationSums(data, window, _innermost(data))
    result = GroupMetrics(names, [_level(name) for name in names], {})
    using_tc = np.zeros(len(data.ops), dtype=bool)
    using_tc[ops.op] = ops.using_tc
    keys = ("num_calls", "num_tc_eligible_ops", "num_ops_using_tc")
    columns: dict[str, list[float]] = {key: [] for key in keys}
    for metric in METRICS:
        columns |= {f"{metric}_{statistic}": [] for statistic in ("sum", "avg", "min", "max")}
    for member in members:
        calls, sums = sums_of.ops(member)
        values = (calls, int(data.ops.eligible[member].sum()), int(using_tc[member].sum()))
        for key, value in zip(keys, values, strict=True):
            columns[key].append(value)
        for metric, per_iteration in sums.items():
            _append_statistics(columns, metric, per_iteration)
    result.columns = columns
    return result


def _append_statistics(columns: dict[str, list[float]], metric: str, values: Int64) -> None:
    total = int(values.sum())
    columns[f"{metric}_sum"].append(total)
    columns[f"{metric}_avg"].append(round(total / len(values), 6) if len(values) else 0.0)
    columns[f"{metric}_min"].append(int(values.min()) if len(values) else 0)
    columns[f"{metric}_max"].append(int(values.max(initial=0)))


def _level(name: str) -> int:
    return 0 if name == COMPLETE_MODEL else name.count("/")


def _groups(data: RollupInput, active: Int64) -> tuple[list[str], list[Int64]]:
    members: dict[str, list[int]] = {}
    for op in active.tolist():
        name = data.ops.names[op]
        # Names of TensorFlow in DLProf's databases do not begin with a slash.
        position = -1 if name.startswith(UNASSOCIATED) else name.find("/")
        while position >= 0:
            members.setdefault(name[: position + 1], []).append(op)
            position = name.find("/", position + 1)
    names = sorted(members)
    lists = [np.array(members[name], dtype=np.int64) for name in names]
    return [*names, COMPLETE_MODEL], [*lists, active]


def _innermost(data: RollupInput) -> Int64:
    """Return a number per op, the same for ops that are in the same groups."""
    number_of: dict[str, int] = {}
    prefixes = (name[: name.rfind("/") + 1] for name in data.ops.names)
    numbers = [number_of.setdefault(prefix, len(number_of)) for prefix in prefixes]
    return np.array(numbers, dtype=np.int64)


class _IterationSums:
    """Sums per (innermost group, iteration), kept sparse: some groups run in one iteration only."""

    def __init__(self, data: RollupInput, window: Window, innermost: Int64) -> None:
        rows, iteration = window.numbered_rows(data.instances.start_ns)
        width = window.last + 1
        group = narrowest(innermost)[data.instances.op[rows]]
        # Rows are in the order of time: those of one group stay in that of their iterations.
        order = ordered(group)
        key = group[order].astype(np.int64) * width + iteration[order]
        cells = GroupOrder.along(order, key)
        self._innermost = innermost
        self._iteration = cells.groups % width
        self._calls = cells.counts
        bounds = np.arange(int(innermost.max(initial=-1)) + 2) * width
        bounds = np.searchsorted(cells.groups, bounds)
        self._low, self._high = bounds[:-1], bounds[1:]
        sources = (
            data.instances.cpu_time_ns,
            data.instances.gpu_time_ns,
            data.instances.cpu_overhead_ns,
            data.instances.gpu_idle_ns,
        )
        self._sums = {
            name: cells.sum(column[rows]) for name, column in zip(METRICS, sources, strict=True)
        }

    def ops(self, ops: Int64) -> tuple[int, dict[str, Int64]]:
        """Calls of all ops of a group, and per metric their sums in each iteration that has any."""
        groups = np.unique(self._innermost[ops])
        length = self._high[groups] - self._low[groups]
        start = np.repeat(self._low[groups] - np.cumsum(length) + length, length)
        cells = start + np.arange(int(length.sum()))
        order = GroupOrder.of(self._iteration[cells])
        sums = {name: order.sum(values[cells]) for name, values in self._sums.items()}
        return int(self._calls[cells].sum()), sums
