"""Time in which the CPU waits for a data loader, and the step when each batch is there in time."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from aggregator.profile.arrays import Int64
from aggregator.profile.intervals import flatten
from aggregator.replay.graph import Graph
from aggregator.replay.inputs import COPY, Loading
from aggregator.replay.scenario import Scenario

HANDOVER_NS_A_BYTE: Final = 0.3
"""Time that the main process takes for a batch of a worker process, in memory that is not pinned:
it lies in shared memory, whose pages are mapped when the batch is read, and freed after it."""
MOST_NS: Final = 1e12
"""No batch takes longer; sizes in a file may be wrong."""
_TO_DEVICE, _PAGEABLE = 1, 0


def loading_ns(loading: Loading, time_ns: Int64, thread: Int64, first: Int64) -> Int64:
    """Part of each step of the CPU in which its thread waited for a data loader. Unit: ns.

    Args:
        loading: When threads waited.
        time_ns: Time of each position of the CPU. Unit: ns.
        thread: Thread of each call: of two positions.
        first: First position of each chain of the CPU, and the number of positions.
    """
    result = np.zeros(len(time_ns), dtype=np.int64)
    for low, high in pairwise(first.tolist()):
        own = loading.thread == thread[low // 2]
        if own.any():
            waits = flatten(loading.start_ns[own], loading.end_ns[own])
            result[low + 1 : high] = np.diff(waits.covered_before(time_ns[low:high]))
    return result


def data_ready(scenario: Scenario) -> Scenario:
    """Worker processes make the batches, and the next one is there when the program asks for it."""
    graph, step = scenario.graph, scenario.durations.cpu_step_ns
    heads = graph.thread_first[:-1]
    loading = np.minimum(graph.loading_ns, np.maximum(step, 0))
    ready = step - loading + np.minimum(handover_ns(graph), loading)
    ready[heads] = step[heads]
    return scenario.with_durations(cpu_step_ns=ready)


def handover_ns(graph: Graph) -> Int64:
    """Time that batches take in each step of the CPU when workers make them. Unit: ns.

    Loaders that have workers take it already. It follows from the bytes that the thread copies to a
    GPU from memory that is not pinned, up to its next batch.
    """
    work, calls, loading = graph.data.work, graph.data.calls, graph.data.loading
    result = np.zeros(len(graph.recorded_ns), dtype=np.int64)
    copies = (work.kind == COPY) & (work.copy_kind == _TO_DEVICE) & (work.host_kind == _PAGEABLE)
    copies &= (work.call >= 0) & (work.num_bytes > 0)
    call, num_bytes = work.call[copies], work.num_bytes[copies]
    for low, high in pairwise(graph.thread_first.tolist()):
        thread = calls.thread[graph.call_row[low // 2]]
        own = np.flatnonzero((loading.thread == thread) & loading.loads)
        mine = calls.thread[call] == thread
        if not (len(own) and mine.any()):
            continue
        batch = np.searchsorted(loading.end_ns[own], calls.start_ns[call[mine]], side="right") - 1
        taken = np.bincount(batch[batch >= 0], num_bytes[mine][batch >= 0], len(own))
        end = low + np.searchsorted(graph.recorded_ns[low:high], loading.end_ns[own])
        inside = end < high
        time = np.minimum(HANDOVER_NS_A_BYTE * taken[inside], MOST_NS)
        np.add.at(result, end[inside], np.rint(time).astype(np.int64))
    return result
