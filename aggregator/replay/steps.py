"""Find the steps of a training loop in the work of a GPU.

A step lasts from its first kernel, copy or set to the first one of the next step. Where no step is
found, the recorded span takes its place: from the start of the first to the end of the last work.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from aggregator.errors import ReplayError
from aggregator.profile.arrays import Bool, Int64
from aggregator.replay.graph import Graph
from aggregator.texts import say


@dataclass(frozen=True)
class Steps:
    """Steps that are replayed, and the rows of the work that begin them."""

    number: Int64  # Numbers of the iterations.
    first: Int64  # Row of the work that begins each step.
    next: Int64  # Row of the work that begins the step after it, or that ends the recorded span.
    processes: int = 1  # Processes whose work runs on the GPU of the steps.
    # Rows of the work of the recorded span; empty: there are steps.
    span: Int64 = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def is_whole(self) -> bool:
        """Whether it is the recorded span, because no step was found."""
        return len(self.span) > 0

    def bounds_ns(self, start_ns: Int64, end_ns: Int64) -> tuple[Int64, Int64]:
        """Return start and end of each step, by those of the rows of the work. Unit: ns."""
        if self.is_whole:
            return start_ns[self.first], end_ns[self.span].max(keepdims=True)
        return start_ns[self.first], start_ns[self.next]

    def lengths_ns(self, start_ns: Int64, end_ns: Int64) -> Int64:
        """Return the length of each step, by the times of the rows of the work. Unit: ns."""
        low, high = self.bounds_ns(start_ns, end_ns)
        return high - low


def find_steps(graph: Graph, number: Int64) -> Steps:
    """Find the steps of some iterations; without any, the recorded span of all of them.

    Args:
        graph: The graph.
        number: Numbers of the iterations, ascending.

    Raises:
        ReplayError: The profile holds too little work on a GPU.
    """
    data = graph.data
    rows = np.flatnonzero(~graph.is_arrival & ~data.work.is_earlier[graph.work_row])
    everywhere = rows
    rows = rows[_of_one_device(data.work.device[graph.work_row[rows]])]
    if len(rows) < MIN_WORK:
        raise no_work(len(rows))
    processes = len(np.unique(data.work.process[graph.work_row[rows]]))
    issued = _issued_ns(graph, rows)
    bounds = np.append(data.iteration_start_ns, data.iteration_end_ns[-1:])
    iteration = np.searchsorted(bounds, issued, side="right") - 1
    order = np.lexsort([graph.work_start_ns[rows], iteration])
    found, first = np.unique(iteration[order], return_index=True)
    begin = np.full(len(bounds) + 1, -1, dtype=np.int64)
    begin[found[found >= 0]] = rows[order[first[found >= 0]]]
    wanted = np.searchsorted(data.iteration, number)
    usable = (begin[wanted] >= 0) & (begin[wanted + 1] >= 0)
    wanted = wanted[usable]
    lengths = graph.work_start_ns[begin[wanted + 1]] - graph.work_start_ns[begin[wanted]]
    wanted = wanted[lengths > 0]
    if not len(wanted):
        span = everywhere
        if len(bounds):
            issued = _issued_ns(graph, span)
            inside = (issued >= bounds[0]) & (issued < bounds[-1])
            span = span[inside] if inside.any() else span
        first = span[[graph.work_start_ns[span].argmin()]]
        last = span[[graph.work_end_ns[span].argmax()]]
        return Steps(np.array([0]), first, last, processes=processes, span=span)
    return Steps(data.iteration[wanted], begin[wanted], begin[wanted + 1], processes=processes)


MIN_WORK = 2


def _issued_ns(graph: Graph, rows: Int64) -> Int64:
    """Return when some rows of the work were launched; without a record when they began."""
    calls, call = graph.data.calls, graph.data.work.call[graph.work_row[rows]]
    began = graph.work_start_ns[rows]
    if not len(calls):
        return began
    return np.where(call >= 0, calls.start_ns[np.maximum(call, 0)], began)


def _of_one_device(device: Int64) -> Bool:
    """Rows of the GPU with most work: those of several begin their steps in no fixed order."""
    used, count = np.unique(device, return_counts=True)
    result: Bool = device == (used[count.argmax()] if len(used) else -1)
    return result


def no_work(pieces: int = 0) -> ReplayError:
    """The error of a profile that holds too little work on a GPU: none, or a single piece."""
    return ReplayError(
        say("The profile cannot be replayed: it holds a single piece of work on a GPU.")
        if pieces
        else say("The profile cannot be replayed: it holds no work on a GPU."),
        hint=say("Capture with CUDA tracing on, over some iterations."),
    )
