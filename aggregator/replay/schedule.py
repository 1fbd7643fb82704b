"""The order in which a replay computes the chains: chunks whose sources are computed before them.

A chain of the CPU between two edges is one chunk: its times are sums. A chain of a GPU is computed
as far as something waits for it. The order depends on the graph only, so every what-if uses it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from aggregator.profile.arrays import Int64
from aggregator.replay.graph import Graph, Source

CPU_CHUNK, GPU_CHUNK = 0, 1


@dataclass(frozen=True)
class Chunk:
    """Positions of one chain that are computed at once."""

    kind: int  # ``CPU_CHUNK`` or ``GPU_CHUNK``.
    low: int  # First position or row.
    high: int  # Last position or row, exclusive.
    edges: tuple[int, ...]  # Edges into ``low`` (CPU), or into any of the rows (GPU).


@dataclass(frozen=True)
class Schedule:
    """All chunks in an order in which they can be computed."""

    chunks: tuple[Chunk, ...]
    dropped: int  # Edges left out because they would close a circle.


@dataclass
class _State:
    """What has been computed so far."""

    cpu_next: list[int]  # Next position of each chain of the CPU.
    work_next: list[int]  # Next row of each chain of a GPU.
    cpu_edge: list[int]  # Next edge into each chain of the CPU, in its list.
    work_edge: list[int]  # Next edge into each chain of a GPU, in its list.
    chunks: list[Chunk] = field(default_factory=list)
    busy: set[tuple[int, int]] = field(default_factory=set)
    dropped: set[int] = field(default_factory=set)


def make_schedule(graph: Graph) -> Schedule:
    """Find the order of the chunks of a graph."""
    return _Scheduler(graph).run()


class _Scheduler:
    """Computes chains on request, as far as requested."""

    def __init__(self, graph: Graph) -> None:
        edges = graph.edges
        self._graph = graph
        self._source_type, self._source = edges.source_type.tolist(), edges.source.tolist()
        self._target_type, self._target = edges.target_type.tolist(), edges.target.tolist()
        self._cpu_edges = self._by_chain(Source.CPU, graph.thread_first)
        self._work_edges = self._by_chain(Source.WORK_END, graph.stream_first)
        self._thread_first, self._stream_first = graph.thread_first, graph.stream_first
        self._state = _State(
            cpu_next=graph.thread_first[:-1].tolist(),
            work_next=graph.stream_first[:-1].tolist(),
            cpu_edge=[0] * (len(graph.thread_first) - 1),
            work_edge=[0] * (len(graph.stream_first) - 1),
        )

    def _by_chain(self, kind: Source, first: Int64) -> list[list[int]]:
        edges = self._graph.edges
        rows = np.flatnonzero(edges.target_type == kind)
        rows = rows[np.argsort(edges.target[rows], kind="stable")]
        bounds = np.searchsorted(edges.target[rows], first).tolist()
        return [rows[low:high].tolist() for low, high in pairwise(bounds)]

    def run(self) -> Schedule:
        """Follow the edges in order of time, then complete all chains."""
        for edge, kind in enumerate(self._target_type):
            if kind == Source.CPU:
                self._cpu(self._target[edge])
            else:
                self._need(edge)
        for last in (self._thread_first[1:] - 1).tolist():
            self._cpu(last)
        for last in (self._stream_first[1:] - 1).tolist():
            self._work(last)
        return Schedule(tuple(self._state.chunks), len(self._state.dropped))

    def _need(self, edge: int) -> bool:
        """Compute the source of an edge; False if the edge would close a circle."""
        if self._source_type[edge] == Source.CPU:
            fits = self._cpu(self._source[edge])
        else:
            fits = self._work(self._source[edge])
        if not fits:
            self._state.dropped.add(edge)
        return fits

    def _cpu(self, position: int) -> bool:
        chain = int(np.searchsorted(self._thread_first, position, side="right")) - 1
        state = self._state
        if position < state.cpu_next[chain]:
            return True
        if (CPU_CHUNK, chain) in state.busy:
            return False
        state.busy.add((CPU_CHUNK, chain))
        listed = self._cpu_edges[chain]
        while (at := state.cpu_edge[chain]) < len(listed) and (
            target := self._target[listed[at]]
        ) <= position:
            end = at
            while end < len(listed) and self._target[listed[end]] == target:
                end += 1
            # What is waited for may have been launched by the calls before.
            self._emit_cpu(chain, target, ())
            kept = tuple(edge for edge in listed[at:end] if self._need(edge))
            state.cpu_edge[chain] = end
            self._emit_cpu(chain, target + 1, kept)
        self._emit_cpu(chain, position + 1, ())
        state.busy.discard((CPU_CHUNK, chain))
        return True

    def _emit_cpu(self, chain: int, high: int, edges: tuple[int, ...]) -> None:
        low = self._state.cpu_next[chain]
        if low < high:
            self._state.chunks.append(Chunk(CPU_CHUNK, low, high, edges))
            self._state.cpu_next[chain] = high

    def _work(self, row: int) -> bool:
        chain = int(np.searchsorted(self._stream_first, row, side="right")) - 1
        state = self._state
        low = state.work_next[chain]
        if row < low:
            return True
        if (GPU_CHUNK, chain) in state.busy:
            return False
        state.busy.add((GPU_CHUNK, chain))
        listed, at = self._work_edges[chain], state.work_edge[chain]
        end = at
        while end < len(listed) and self._target[listed[end]] <= row:
            end += 1
        kept = tuple(edge for edge in listed[at:end] if self._need(edge))
        fits = self._need_launches(low, row + 1)
        if fits:
            state.work_edge[chain] = end
            state.chunks.append(Chunk(GPU_CHUNK, low, row + 1, kept))
            state.work_next[chain] = row + 1
        state.busy.discard((GPU_CHUNK, chain))
        return fits

    def _need_launches(self, low: int, high: int) -> bool:
        """Compute the calls that launched some rows."""
        launch = self._graph.launch[low:high]
        top = int(launch.max())
        fits = True
        while top >= 0:
            fits = self._cpu(top) and fits
            chain = int(np.searchsorted(self._thread_first, top, side="right")) - 1
            begin = int(self._thread_first[chain])
            below = launch[launch < begin]
            top = int(below.max()) if len(below) else -1
        return fits
