"""Replay: when every node of a graph runs, given durations and lags that may be changed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from aggregator.profile.arrays import Int64
from aggregator.replay.graph import NEVER, Graph, Source
from aggregator.replay.schedule import CPU_CHUNK, Schedule


@dataclass(frozen=True)
class Durations:
    """What a what-if changes: the durations of nodes and the edges that hold. Units: ns."""

    cpu_step_ns: Int64  # As in ``Graph``.
    duration_ns: Int64  # As in ``Graph``.
    gap_ns: Int64  # As in ``Graph``.
    launch_lag_ns: Int64  # As in ``Graph``.
    lag_ns: Int64  # Of the edges; ``NEVER``: the edge is removed.

    @staticmethod
    def measured(graph: Graph) -> Durations:
        """Return the durations of the profile."""
        return Durations(
            graph.cpu_step_ns,
            graph.duration_ns,
            graph.gap_ns,
            graph.launch_lag_ns,
            graph.edges.lag_ns,
        )


@dataclass(frozen=True)
class Times:
    """Times of a replay. Units: ns."""

    cpu_ns: Int64  # Time of each position of the CPU.
    work_end_ns: Int64  # End of each row of the work.
    duration_ns: Int64  # Durations of the rows that were replayed.

    @cached_property
    def work_start_ns(self) -> Int64:
        """Start of each row of the work. Unit: ns."""
        return self.work_end_ns - self.duration_ns


def replay(graph: Graph, schedule: Schedule, durations: Durations) -> Times:
    """Compute the longest paths, chunk by chunk."""
    edges = graph.edges
    # The last one is what work without a recorded launch refers to.
    cpu = np.append(durations.cpu_step_ns, NEVER)
    elapsed = add_up(graph, cpu[:-1])  # Becomes the time of each position.
    end = np.empty(len(graph.duration_ns), dtype=np.int64)
    total = queue_times_ns(graph, durations)
    arrival = durations.launch_lag_ns + durations.duration_ns - total
    step, lag = durations.cpu_step_ns, durations.lag_ns.tolist()
    sources, kinds = edges.source.tolist(), edges.source_type.tolist()
    targets = edges.target.tolist()
    thread_heads, stream_heads = set(graph.thread_first.tolist()), set(graph.stream_first.tolist())
    duration, gap, launch = durations.duration_ns, durations.gap_ns, graph.launch
    for chunk in schedule.chunks:
        low, high = chunk.low, chunk.high
        if chunk.kind == CPU_CHUNK:
            time = step[low] if low in thread_heads else cpu[low - 1] + step[low]
            for edge in chunk.edges:
                found = (cpu if kinds[edge] == Source.CPU else end)[sources[edge]] + lag[edge]
                time = max(time, found)
            elapsed[low:high] += time - elapsed[low]
            continue
        part = cpu[launch[low:high]]
        part += arrival[low:high]
        for edge in chunk.edges:
            row = targets[edge]
            found = (cpu if kinds[edge] == Source.CPU else end)[sources[edge]] + lag[edge]
            part[row - low] = max(part[row - low], found + duration[row] - total[row])
        if low not in stream_heads:
            part[0] = max(part[0], end[low - 1] - total[low - 1])
        elif part[0] < NEVER // 2:
            part[0] = gap[low] + duration[low] - total[low]
        np.maximum.accumulate(part, out=part)
        np.add(part, total[low:high], out=end[low:high])
    return Times(cpu[:-1], end, durations.duration_ns)


def queue_times_ns(graph: Graph, durations: Durations) -> Int64:
    """Sums of gaps and durations of the work; only differences within a chain have a meaning."""
    own = durations.gap_ns + durations.duration_ns
    own[graph.stream_first[:-1]] = 0
    return np.cumsum(own)


def add_up(graph: Graph, step_ns: Int64) -> Int64:
    """Replace the steps of the CPU by their sums, whose differences within a chain are the time."""
    step_ns[graph.thread_first[:-1]] = 0
    return np.cumsum(step_ns, out=step_ns)
