"""A changed profile, and what changes of it have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from aggregator.profile.arrays import Bool, Int64
from aggregator.replay.graph import Graph
from aggregator.replay.replay import Durations
from aggregator.replay.steps import Steps

Change: TypeAlias = Callable[["Scenario"], "Scenario"]


@dataclass(frozen=True)
class Scenario:
    """A changed profile."""

    graph: Graph
    steps: Steps
    durations: Durations
    # Time that a step takes at least, however well its work overlaps. Unit: ns.
    floor_ns: Int64
    is_bound: bool = False  # Whether the answer is a bound: other kernels would run.

    def with_durations(self, **columns: Int64) -> Scenario:
        """Return the same with some other columns of ``Durations``."""
        return replace(self, durations=replace(self.durations, **columns))


def without_calls(graph: Graph, step_ns: Int64, calls: Bool) -> Int64:
    """Return the steps of the CPU without some calls and the time before each of them."""
    step = step_ns.copy()
    heads = graph.thread_first[:-1]
    step[0::2][calls] = np.minimum(step[0::2][calls], 0)
    step[1::2][calls] = 0
    step[heads] = step_ns[heads]
    return step


def without_gaps(graph: Graph, gap_ns: Int64, chosen: Bool) -> Int64:
    """Gaps of the work, without those before some rows; a chain keeps the time of its start."""
    gap = np.where(chosen, np.minimum(gap_ns, 0), gap_ns)
    heads = graph.stream_first[:-1]
    gap[heads] = gap_ns[heads]
    return gap


def find_step(scenario: Scenario, rows: Int64) -> Int64:
    """Return the row of the step in which each row of the work began; -1: in none."""
    start = scenario.graph.work_start_ns
    begin, end = scenario.steps.bounds_ns(start, scenario.graph.work_end_ns)
    step = np.searchsorted(begin, start[rows], "right") - 1
    inside = (step >= 0) & (start[rows] < end[step])
    return np.where(inside, step, -1)


def launching_calls(graph: Graph, chosen: Bool) -> Bool:
    """Return calls that launch some rows of the work and no others, and those made to prepare them.

    Those are the ones since the launch before it in the thread: queries, settings, allocations.
    """
    launch = graph.launch // 2
    known = graph.launch >= 0
    count = len(graph.call_row)
    calls = np.zeros(count, dtype=bool)
    calls[launch[chosen & known]] = True
    calls[launch[~chosen & known]] = False
    launches = np.full(count, count)
    launches[launch[known]] = launch[known]
    next_one = np.minimum.accumulate(launches[::-1])[::-1]
    # Calls after the last launch of a thread prepare nothing.
    bounds = graph.thread_first // 2
    last = np.repeat(bounds[1:], np.diff(bounds))
    inside = next_one < last
    result: Bool = inside & calls[np.where(inside, next_one, 0)]
    return result
