"""Steps of the training loop on a GPU: from the first work of one to that of the next."""

from __future__ import annotations

from dataclasses import dataclass

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
    next: Int64  # Row of the work that begins the step after it.
    is_whole: bool = False  # Whether it is all work, because no step was found.
    processes: int = 1  # Processes whose work runs on the GPU of the steps.

    def lengths_ns(self, start_ns: Int64) -> Int64:
        """Return the length of each step, from the starts of the rows of the work. Unit: ns."""
        return start_ns[self.next] - start_ns[self.first]


def find_steps(graph: Graph, number: Int64) -> Steps:
    """Find the steps of some iterations; without any, all work is one step.

    Args:
        graph: The graph.
        number: Numbers of the iterations, ascending.

    Raises:
        ReplayError: The profile holds too little work on a GPU.
    """
    data = graph.data
    rows = np.flatnonzero(~graph.is_arrival & ~data.work.is_earlier[graph.work_row])
    rows = rows[_of_one_device(data.work.device[graph.work_row[rows]])]
    if len(rows) < MIN_WORK:
        raise no_work(len(rows))
    processes = len(np.unique(data.work.process[graph.work_row[rows]]))
    call = data.work.call[graph.work_row[rows]]
    issued = graph.work_start_ns[rows]
    if len(data.calls):
        issued = np.where(call >= 0, data.calls.start_ns[np.maximum(call, 0)], issued)
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
        ends = graph.work_start_ns[rows]
        begin, end = rows[[ends.argmin()]], rows[[ends.argmax()]]
        return Steps(np.array([0]), begin, end, is_whole=True, processes=processes)
    return Steps(data.iteration[wanted], begin[wanted], begin[wanted + 1], processes=processes)


MIN_WORK = 2


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
