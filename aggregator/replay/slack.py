"""Slack: how much later each row of the work may end without delaying a later row."""

from __future__ import annotations

import numpy as np

from aggregator.profile.arrays import Int64
from aggregator.replay.graph import NEVER, Graph, Source
from aggregator.replay.replay import Durations, Times, add_up, queue_times_ns
from aggregator.replay.schedule import CPU_CHUNK, Chunk, Schedule

UNLIMITED = np.int64(1 << 60)
"""Latest time of what nothing waits for. Unit: ns."""


def slack_ns(
    graph: Graph, schedule: Schedule, durations: Durations, times: Times, row: int
) -> Int64:
    """Slack of each row of the work before the start of one row; ``UNLIMITED`` without influence.

    Computed in the reverse of the order of the replay.
    """
    latest = _Latest(graph, durations)
    latest.work[row] = times.work_end_ns[row]
    for chunk in reversed(schedule.chunks):
        if chunk.kind == CPU_CHUNK:
            latest.cpu_chunk(chunk)
        else:
            latest.work_chunk(chunk)
    late = latest.work > UNLIMITED // 2
    return np.where(late, UNLIMITED, latest.work - times.work_end_ns)


class _Latest:
    """Latest times of positions and rows, from the last to the first."""

    def __init__(self, graph: Graph, durations: Durations) -> None:
        edges = graph.edges
        self._graph, self._durations = graph, durations
        self.cpu = np.full(len(graph.cpu_time_ns), UNLIMITED)
        self.work = np.full(len(graph.duration_ns), UNLIMITED)
        self._elapsed = add_up(graph, durations.cpu_step_ns.copy())
        self._total = queue_times_ns(graph, durations)
        self._is_cpu = (edges.source_type == Source.CPU).tolist()
        self._source, self._target = edges.source.tolist(), edges.target.tolist()
        self._lag = durations.lag_ns.tolist()
        self._thread_first = set(graph.thread_first.tolist())
        self._stream_first = set(graph.stream_first.tolist())

    def _limit(self, edge: int, time_ns: int) -> None:
        if self._lag[edge] > NEVER // 2:
            latest = self.cpu if self._is_cpu[edge] else self.work
            source = self._source[edge]
            latest[source] = min(latest[source], time_ns - self._lag[edge])

    def cpu_chunk(self, chunk: Chunk) -> None:
        """Compute the positions of a thread: each has to leave time for the next."""
        low, high = chunk.low, chunk.high
        part = self.cpu[low:high] - self._elapsed[low:high]
        if high not in self._thread_first:
            part[-1] = min(part[-1], self.cpu[high] - self._elapsed[high])
        np.minimum.accumulate(part[::-1], out=part[::-1])
        np.add(part, self._elapsed[low:high], out=self.cpu[low:high])
        for edge in chunk.edges:
            self._limit(edge, int(self.cpu[low]))

    def work_chunk(self, chunk: Chunk) -> None:
        """Compute the rows of a stream: each has to leave time for the next."""
        low, high = chunk.low, chunk.high
        part = self.work[low:high] - self._total[low:high]
        if high not in self._stream_first:
            part[-1] = min(part[-1], self.work[high] - self._total[high])
        np.minimum.accumulate(part[::-1], out=part[::-1])
        np.add(part, self._total[low:high], out=self.work[low:high])
        start = self.work[low:high] - self._durations.duration_ns[low:high]
        launch = self._graph.launch[low:high]
        known = np.flatnonzero(launch >= 0)
        called = start[known] - self._durations.launch_lag_ns[low:high][known]
        np.minimum.at(self.cpu, launch[known], called)
        for edge in chunk.edges:
            self._limit(edge, int(start[self._target[edge] - low]))
