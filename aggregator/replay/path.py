"""The critical path of a replay: the chain of nodes that the last one waited for."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from aggregator.profile.arrays import Bool, Int64
from aggregator.replay.graph import NEVER, Graph, Source
from aggregator.replay.replay import Durations, Times


@dataclass(frozen=True)
class CriticalPath:
    """What lies on the critical path within an interval of time; the first one may begin before."""

    from_ns: int  # Start of the interval. Unit: ns.
    steps: Bool  # By position of the CPU: the step that leads to it.
    work: Bool  # By row of the work: its duration.
    gaps: Bool  # By row of the work: the gap before it.
    launches: Bool  # By row of the work: the lag after its launch.
    edges: Int64  # Edges whose lags are on the path.
    edge_ends_ns: Int64  # When the lag of each of them ended. Unit: ns.


def critical_path(
    graph: Graph, durations: Durations, times: Times, row: int, interval_ns: tuple[int, int]
) -> CriticalPath:
    """Find what a row of the work waited for, within an interval of time.

    Args:
        graph: The graph.
        durations: Durations that were replayed.
        times: Times of that replay.
        row: Row of the work whose start or end ends the path.
        interval_ns: From where to where; it ends where the path does. Unit: ns.
    """
    tracer = _Tracer(graph, durations, times)
    tracer.trace(row, interval_ns[0])
    return tracer.path(*interval_ns)


class _Tracer:
    """Follows the path backwards; a run of work in a stream, or of calls in a thread, at once."""

    def __init__(self, graph: Graph, durations: Durations, times: Times) -> None:
        self._graph, self._times, self._durations = graph, times, durations
        edges, start = graph.edges, times.work_start_ns
        on_cpu = edges.source_type == Source.CPU
        source = np.full(len(edges), NEVER)
        source[on_cpu] = times.cpu_ns[edges.source[on_cpu]]
        source[~on_cpu] = times.work_end_ns[edges.source[~on_cpu]]
        self._arrival = np.where(durations.lag_ns > NEVER // 2, source + durations.lag_ns, NEVER)
        self._starts = start
        self._reset = self._work_resets(start)
        self._edge_of_row = self._binding_edges(start)
        self._cpu_targets, self._cpu_edges = self._binding_calls()
        self._runs: dict[Source, list[tuple[int, int]]] = {Source.CPU: [], Source.WORK_END: []}
        self._launched: list[int] = []
        self._used: list[int] = []

    def _work_resets(self, start: Int64) -> Int64:
        """Return the row at which the run of back-to-back work that each row belongs to began."""
        waited = np.ones(len(start), dtype=bool)
        gap = self._durations.gap_ns[1:]
        waited[1:] = start[1:] > self._times.work_end_ns[:-1] + gap
        waited[self._graph.stream_first[:-1]] = True
        return np.maximum.accumulate(np.where(waited, np.arange(len(start)), 0))

    def _binding_edges(self, start: Int64) -> dict[int, int]:
        edges = self._graph.edges
        into_work = (edges.target_type == Source.WORK_END) & (self._arrival > NEVER)
        rows = np.flatnonzero(into_work)
        rows = rows[self._arrival[rows] == start[edges.target[rows]]]
        return dict(zip(edges.target[rows].tolist(), rows.tolist(), strict=True))

    def _binding_calls(self) -> tuple[list[int], list[int]]:
        """Return the positions of the CPU that waited for an edge, ascending, and that edge."""
        edges, cpu, step = self._graph.edges, self._times.cpu_ns, self._durations.cpu_step_ns
        rows = np.flatnonzero((edges.target_type == Source.CPU) & (self._arrival > NEVER))
        target = edges.target[rows]
        before = cpu[target - 1] + step[target]
        before[np.isin(target, self._graph.thread_first)] = NEVER
        rows = rows[(self._arrival[rows] == cpu[target]) & (self._arrival[rows] > before)]
        first, index = np.unique(edges.target[rows], return_index=True)
        return first.tolist(), rows[index].tolist()

    def trace(self, row: int, from_ns: int) -> None:
        """Follow the path from the start of a row of the work back to a time."""
        kind, at = Source.WORK_END, row
        edges = self._graph.edges
        while True:
            low = self._run_start(kind, at)
            self._runs[kind].append((low, at))
            if self._time_of(kind, low) <= from_ns:
                return
            edge = self._edge_into(kind, low)
            if edge >= 0:
                self._used.append(edge)
                kind, at = Source(int(edges.source_type[edge])), int(edges.source[edge])
            elif kind is Source.WORK_END and self._graph.launch[low] >= 0:
                self._launched.append(low)
                kind, at = Source.CPU, int(self._graph.launch[low])
            else:
                return

    def _run_start(self, kind: Source, at: int) -> int:
        if kind is Source.WORK_END:
            return int(self._reset[at])
        first = self._graph.thread_first
        begin = int(first[np.searchsorted(first, at, side="right") - 1])
        found = bisect_right(self._cpu_targets, at) - 1
        return max(begin, self._cpu_targets[found]) if found >= 0 else begin

    def _time_of(self, kind: Source, at: int) -> int:
        return int((self._times.cpu_ns if kind is Source.CPU else self._starts)[at])

    def _edge_into(self, kind: Source, at: int) -> int:
        if kind is Source.WORK_END:
            return self._edge_of_row.get(at, -1)
        found = bisect_right(self._cpu_targets, at) - 1
        hit = found >= 0 and self._cpu_targets[found] == at
        return self._cpu_edges[found] if hit else -1

    def path(self, from_ns: int, to_ns: int) -> CriticalPath:
        """Return what was followed, as far as it lies in an interval of time."""
        graph, times = self._graph, self._times
        work, gaps = _covered(self._runs[Source.WORK_END], len(graph.work_row))
        _, steps = _covered(self._runs[Source.CPU], len(graph.cpu_time_ns))
        inside = (times.work_end_ns > from_ns) & (times.work_end_ns <= to_ns)
        inside |= (self._starts >= from_ns) & (times.work_end_ns <= to_ns)
        launches = np.zeros(len(graph.work_row), dtype=bool)
        launches[self._launched] = True
        starts = (self._starts >= from_ns) & (self._starts <= to_ns)
        on_time = (times.cpu_ns > from_ns) & (times.cpu_ns <= to_ns)
        used = np.array(self._used, dtype=np.int64)
        reached = self._arrival[used]
        within = (reached > from_ns) & (reached <= to_ns)
        return CriticalPath(
            from_ns=from_ns,
            steps=steps & on_time,
            work=work & inside,
            gaps=gaps & starts & (self._starts > from_ns),
            launches=launches & starts & (self._starts > from_ns),
            edges=used[within],
            edge_ends_ns=reached[within],
        )


def _covered(runs: list[tuple[int, int]], count: int) -> tuple[Bool, Bool]:
    """Return rows of some runs, ends included, and the same without the first row of each run."""
    all_rows = np.zeros(count, dtype=bool)
    for low, high in runs:
        all_rows[low : high + 1] = True
    inner = all_rows.copy()
    inner[[low for low, _ in runs]] = False
    return all_rows, inner
