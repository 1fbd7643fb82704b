"""Metrics of groups: every prefix of the op paths, with statistics over iterations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aggregator.columns import narrowest, ordered
from aggregator.metrics.model import RollupInput
from aggregator.metrics.op_metrics import OpMetrics
from aggregator.metrics.statistics import GroupOrder
from aggregator.metrics.window import Window
from aggregator.profile import Int64

COMPLETE_MODEL = "_CompleteModel_"
METRICS = ("cpu_time", "gpu_time", "cpu_overhead", "gpu_idle")


@dataclass
class GroupMetrics:
    """One row per group.

    Attributes:
        names: Prefixes that end in a slash, sorted, then ``_CompleteModel_``.
        levels: Depth; ``/`` is 1.
        columns: Counts and ``<metric>_{sum,avg,min,max}``; averages are REAL. Unit: ns.
    """

    names: list[str]
    levels: list[int]
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
        values = (calls, int(data.ops.tc_eligible[member].sum()), int(using_tc[member].sum()))
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
    """Names of groups and the ops in each."""
    members: dict[str, list[int]] = {}
    for op in active.tolist():
        name = data.ops.names[op]
        position = name.find("/")
        while position == 0 or (position > 0 and name.startswith("/")):
            members.setdefault(name[: position + 1], []).append(op)
            position = name.find("/", position + 1)
    names = sorted(members)
    lists = [np.array(members[name], dtype=np.int64) for name in names]
    return [*names, COMPLETE_MODEL], [*lists, active]


def _innermost(data: RollupInput) -> Int64:
    """A number per op, the same for ops that are in the same groups."""
    number_of: dict[str, int] = {}
    prefixes = (name[: name.rfind("/") + 1] for name in data.ops.names)
    numbers = [number_of.setdefault(prefix, len(number_of)) for prefix in prefixes]
    return np.array(numbers, dtype=np.int64)


class _IterationSums:
    """Sums per (innermost group, iteration), kept sparse: some groups run in one iteration only."""

    def __init__(self, data: RollupInput, window: Window, innermost: Int64) -> None:
        bounds = window.row_bounds(data.instances.start_ns)[window.first : window.last + 2]
        rows = slice(int(bounds[0]), int(bounds[-1]))
        iteration = np.repeat(np.arange(window.count, dtype=np.int32), np.diff(bounds))
        group = narrowest(innermost)[data.instances.op[rows]]
        # Rows are in the order of time: those of one group stay in that of their iterations.
        order = ordered(group)
        key = group[order].astype(np.int64) * window.count + iteration[order]
        cells = GroupOrder.along(order, key)
        self._innermost = innermost
        self._iteration = cells.groups % window.count
        self._calls = cells.counts
        bounds = np.arange(int(innermost.max(initial=-1)) + 2) * window.count
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
