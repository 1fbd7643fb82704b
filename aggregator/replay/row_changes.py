"""What-if for chosen rows of the work, as an adviser finds them, instead of names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from aggregator.profile.arrays import Bool, Int64
from aggregator.profile.intervals import Flattened
from aggregator.replay.changes import fused
from aggregator.replay.communication import overlapped
from aggregator.replay.graph import NEVER, EdgeKind, Graph, Source
from aggregator.replay.scenario import Change, Scenario, launching_calls, without_calls

Select: TypeAlias = Callable[[Graph], Bool]
"""Which rows of the work of a graph are changed."""

ASYNC_CALL_NS = 10_000
"""Time that the call of a copy takes that nothing waits for."""


def work_at(start_ns: Int64, end_ns: Int64) -> Select:
    """Select work by its measured times."""

    def select(graph: Graph) -> Bool:
        work, row = graph.data.work, graph.work_row
        same: Bool = np.isin(work.start_ns, start_ns) & np.isin(work.end_ns, end_ns)
        return same[row] & ~graph.is_arrival

    return select


def speed_up_rows(select: Select, factor: float) -> Change:
    """Some work takes ``1 / factor`` of its time."""

    def apply(scenario: Scenario) -> Scenario:
        duration = scenario.durations.duration_ns
        faster = np.where(select(scenario.graph), np.rint(duration / factor), duration)
        return scenario.with_durations(duration_ns=faster.astype(np.int64))

    return apply


def shrink_rows(select: Select, ratio: float) -> Change:
    """Some work, the gaps before it and the time to launch it take ``ratio`` of their time."""

    def apply(scenario: Scenario) -> Scenario:
        graph, durations = scenario.graph, scenario.durations
        chosen = select(graph)
        calls = np.repeat(launching_calls(graph, chosen), 2)
        calls[graph.thread_first[:-1]] = False
        gaps = chosen.copy()
        gaps[graph.stream_first[:-1]] = False
        loading = np.minimum(graph.loading_ns, durations.cpu_step_ns)
        return scenario.with_durations(
            duration_ns=_scaled(durations.duration_ns, chosen, ratio),
            gap_ns=_scaled(durations.gap_ns, gaps, ratio),
            cpu_step_ns=np.maximum(_scaled(durations.cpu_step_ns, calls, ratio), loading),
        )

    return apply


def _scaled(time_ns: Int64, rows: Bool, ratio: float) -> Int64:
    """Some of the times multiplied, where they are positive."""
    result = np.where(rows & (time_ns > 0), np.rint(time_ns * ratio), time_ns)
    return result.astype(np.int64)


def fuse_rows(select: Select, factor: float) -> Change:
    """One call launches some work of a step, which takes ``1 / factor`` of its time."""

    def apply(scenario: Scenario) -> Scenario:
        graph, step = scenario.graph, scenario.durations.cpu_step_ns
        chosen = select(graph)
        done = fused(scenario, chosen, without_calls(graph, step, launching_calls(graph, chosen)))
        return speed_up_rows(lambda _: chosen, factor)(done)

    return apply


def overlap_rows(select: Select) -> Change:
    """Some work runs beside the rest, and nothing waits for it."""
    return lambda scenario: overlapped(scenario, select(scenario.graph))


def copy_unwaited(select: Select, duration_ns: Callable[[Int64], Int64]) -> Change:
    """Some copies take another time, and their calls return at once.

    Args:
        select: The copies.
        duration_ns: Time of copies by their measured starts.
    """

    def apply(scenario: Scenario) -> Scenario:
        graph, edges, durations = scenario.graph, scenario.graph.edges, scenario.durations
        chosen = select(graph)
        duration = durations.duration_ns.copy()
        duration[chosen] = np.minimum(duration[chosen], duration_ns(graph.work_start_ns[chosen]))
        launch = np.unique(graph.launch[chosen & (graph.launch >= 0)])
        step = durations.cpu_step_ns.copy()
        step[launch + 1] = np.minimum(step[launch + 1], ASYNC_CALL_NS)
        waits = (edges.kind == EdgeKind.SYNC) & (edges.target_type == Source.CPU)
        waits &= np.isin(edges.target, launch + 1)
        lag = np.where(waits, NEVER, durations.lag_ns)
        done = scenario.with_durations(duration_ns=duration, cpu_step_ns=step, lag_ns=lag)
        return replace(done, is_bound=True)

    return apply


def without_cpu_time(pauses: Flattened) -> Change:
    """What the CPU does in some intervals takes no time."""

    def apply(scenario: Scenario) -> Scenario:
        graph, step = scenario.graph, scenario.durations.cpu_step_ns.copy()
        bounds = zip(graph.thread_first[:-1].tolist(), graph.thread_first[1:].tolist(), strict=True)
        for low, high in bounds:
            covered = np.diff(pauses.covered_before(graph.cpu_time_ns[low:high]))
            own = step[low + 1 : high]
            step[low + 1 : high] = np.where(own > 0, np.maximum(own - covered, 0), own)
        return scenario.with_durations(cpu_step_ns=step)

    return apply
