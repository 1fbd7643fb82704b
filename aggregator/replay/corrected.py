"""The step without profiling: a replay without what markers and tracing cost on the CPU.

How much an event costs relative to another kind is known from measurements
(benchmarks/OVERHEAD.md); how much in this run follows from the steps that were timed without
profiling: the costs are scaled until the replayed step is shorter by as much as the timed one was.
Where that is not enough, the profiler slowed down the program's own work, too (its threads and
buffers share cores and caches): the rest is taken evenly out of the CPU's time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from aggregator.profile.arrays import Bool, Int64
from aggregator.replay.analysis import INTERVAL_PCT, ReplayedProfile
from aggregator.replay.graph import Graph
from aggregator.replay.replay import Durations, replay
from aggregator.replay.sequence_index import cpu_chains

MARKER_NS, CALL_NS = 1_000, 4_000
"""Usual cost of the start or end of a range, and of a traced call. Unit: ns."""
MAX_SCALE = 4.0
"""Events that had to cost more than this times the usual are not what made the steps longer."""
MOST_SLOWER = 0.4
"""More than this share of the CPU's own time was not lost by profiling."""
HALVINGS = 12
SAME_STEP = 0.002
"""Steps that differ by less are equal. Unit: share of the step."""


@dataclass(frozen=True)
class CorrectedStep:
    """The step without profiling."""

    profile: ReplayedProfile  # The graph without the costs; what-ifs work on it.
    scale: float  # Cost of an event by its usual cost; 0: nothing was taken out.
    slower: float  # Share of the CPU's own time that was taken out, too.
    cost_ns: int  # Mean cost on the CPU that was taken out of a step. Unit: ns.
    unexplained_ns: int  # Time by which the timed steps are still shorter. Unit: ns.

    @property
    def step_ns(self) -> int:
        """Median step. Unit: ns."""
        return int(np.median(self.profile.measured_ns))

    @property
    def interval_ns(self) -> tuple[int, int]:
        """10th and 90th percentile of the steps. Unit: ns."""
        low, high = np.percentile(self.profile.measured_ns, INTERVAL_PCT)
        return int(low), int(high)


def correct(
    profile: ReplayedProfile, markers: Int64, unprofiled_ns: int, profiled_ns: int
) -> CorrectedStep:
    """Replay a profile without the costs of profiling.

    Args:
        profile: The profile as it was measured.
        markers: Starts and ends of ranges since the call before in the thread, by row of the calls.
        unprofiled_ns: Median step without profiling, by the program's clock. Unit: ns.
        profiled_ns: Median profiled step, by the same clock. Unit: ns.
    """
    cost = segment_costs_ns(profile.graph, markers)

    def step(scale: float, slower: float) -> float:
        durations = _durations(profile.graph, cost, scale, slower)
        times = replay(profile.graph, profile.schedule, durations)
        return float(np.median(profile.steps.lengths_ns(times.work_start_ns, times.work_end_ns)))

    measured = step(0.0, 0.0)
    wanted = measured * min(unprofiled_ns / max(profiled_ns, 1), 1.0)
    scale = slower = 0.0
    if wanted < measured * (1 - SAME_STEP):
        scale = _least(lambda value: step(value, 0.0), MAX_SCALE, wanted)
        if step(scale, 0.0) > wanted * (1 + SAME_STEP):
            slower = _least(lambda value: step(scale, value), MOST_SLOWER, wanted)
    found = without_cost(profile, cost, scale, slower)
    taken = (profile.graph.cpu_step_ns - found.graph.cpu_step_ns)[_inside(profile)]
    missing = float(np.median(found.measured_ns)) - wanted
    return CorrectedStep(
        profile=found,
        scale=scale,
        slower=slower,
        cost_ns=round(float(taken.sum()) / len(profile.steps.number)),
        unexplained_ns=round(missing) if missing > 2 * SAME_STEP * measured else 0,
    )


def _least(step: Callable[[float], float], most: float, wanted_ns: float) -> float:
    """Return the least value, up to the most, with which a step takes no longer than wanted.

    Of a step that the GPU limits, more changes nothing: the least value of those is returned.
    """
    reachable = max(wanted_ns, step(most) * (1 + SAME_STEP))
    low, high = 0.0, most
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if step(middle) > reachable else (low, middle)
    return high


def segment_costs_ns(graph: Graph, markers: Int64) -> Int64:
    """Return the usual cost of profiling in each segment of the CPU. Unit: ns.

    Half of the cost of a traced call lies between its recorded start and end, half after it.
    """
    chains = cpu_chains(graph.data.calls)
    position = chains.start_of_call
    is_outer = np.zeros(len(position), dtype=bool)
    is_outer[graph.call_row] = True
    cost = np.zeros(len(graph.cpu_step_ns) + 1, dtype=np.int64)
    # Ranges begin before the outermost call, or inside it.
    np.add.at(cost, np.where(is_outer, position, position + 1), MARKER_NS * markers)
    np.add.at(cost, position + 1, CALL_NS // 2)
    np.add.at(cost, position + 2, CALL_NS // 2)
    cost = cost[:-1]
    cost[graph.thread_first[:-1]] = 0
    return cost


def _durations(graph: Graph, cost_ns: Int64, scale: float, slower: float) -> Durations:
    """Return the durations without costs; no segment becomes shorter than nothing."""
    step = graph.cpu_step_ns
    rest = np.maximum(step - np.rint(scale * cost_ns).astype(np.int64), 0)
    shorter = np.rint(rest * (1 - slower)).astype(np.int64)
    return replace(Durations.measured(graph), cpu_step_ns=np.where(step > 0, shorter, step))


def without_cost(
    profile: ReplayedProfile, cost_ns: Int64, scale: float, slower: float
) -> ReplayedProfile:
    """Return the same profile as if it had been measured without the costs of profiling.

    Args:
        profile: The profile as it was measured.
        cost_ns: Usual cost in each segment of the CPU. Unit: ns.
        scale: Cost by its usual one.
        slower: Share of the rest of the CPU's time that is taken out, too.
    """
    return profile.with_durations(_durations(profile.graph, cost_ns, scale, slower))


def _inside(profile: ReplayedProfile) -> Bool:
    graph, time = profile.graph, profile.graph.cpu_time_ns
    low, high = profile.steps.bounds_ns(graph.work_start_ns, graph.work_end_ns)
    inside: Bool = (time >= low[0]) & (time < high[-1])
    return inside
