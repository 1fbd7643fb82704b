"""Time in which the CPU waits for a data loader, and the step when each batch is there in time."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from aggregator.errors import UsageError
from aggregator.events.model import WorkKind
from aggregator.profile.arrays import Float64, Int64
from aggregator.profile.intervals import flatten
from aggregator.replay.graph import Graph
from aggregator.replay.inputs import Loading
from aggregator.replay.scenario import Scenario
from aggregator.texts import say

BATCH_NS: Final = 700_000
"""Time that the main process takes for a batch of a worker process, in memory that is not pinned,
however small it is: it reads it from a queue."""
TENSOR_NS: Final = 300_000
"""Time for each tensor in it: it asks the worker for the file that it lies in.

One, two and eight tensors took 0.8 to 1.1, 1.3 to 1.4 and 2.4 ms in several captures and apart from
any."""
HANDOVER_NS_A_BYTE: Final = 0.2
"""And for each byte: it lies in shared memory, whose pages are mapped when the batch is read, and
freed after it."""
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
    """Let worker processes make the batches, the next of which is there when it is asked for.

    Raises:
        UsageError: The profile does not show when input is read.
    """
    if not len(scenario.graph.data.loading.start_ns):
        raise UsageError(
            say("The profile does not show when input is read: no data loader is recorded."),
            hint=say(
                "Ranges of a torch.utils.data.DataLoader, or ranges of that name around the input "
                "code, show it."
            ),
        )
    graph, step = scenario.graph, scenario.durations.cpu_step_ns
    heads = graph.thread_first[:-1]
    loading = np.minimum(graph.loading_ns, np.maximum(step, 0))
    ready = step - loading + np.minimum(handover_ns(graph), loading)
    ready[heads] = step[heads]
    return scenario.with_durations(cpu_step_ns=ready)


def handover_ns(graph: Graph) -> Int64:
    """Return the time that batches take in each step of the CPU when workers make them. Unit: ns.

    Loaders that have workers take it already. It follows from what the thread copies to a GPU from
    memory that is not pinned, up to its next batch.
    """
    calls, loading = graph.data.calls, graph.data.loading
    result = np.zeros(len(graph.recorded_ns), dtype=np.int64)
    for low, high in pairwise(graph.thread_first.tolist()):
        thread = int(calls.thread[graph.call_row[low // 2]])
        own = np.flatnonzero((loading.thread == thread) & loading.loads)
        if not len(own):
            continue
        time = _batches_ns(graph, thread, loading.end_ns[own])
        end = low + np.searchsorted(graph.recorded_ns[low:high], loading.end_ns[own])
        inside = end < high
        np.add.at(result, end[inside], np.rint(time[inside]).astype(np.int64))
    return result


def _batches_ns(graph: Graph, thread: int, ready_ns: Int64) -> Float64:
    """Return the time for each batch of a thread, from the copies after it. Unit: ns.

    Those before its first kernel copy the tensors of the batch, one each.
    """
    work, calls = graph.data.work, graph.data.calls
    own = (work.call >= 0) & (calls.thread[work.call] == thread)
    copies = (
        own & (work.kind == WorkKind.COPY) & (work.copy_kind == _TO_DEVICE) & (work.num_bytes > 0)
    )
    copies &= work.host_kind == _PAGEABLE
    begin = calls.start_ns[work.call[copies]]
    batch = np.searchsorted(ready_ns, begin, side="right") - 1
    launched = np.sort(calls.start_ns[work.call[own & (work.kind == WorkKind.KERNEL)]])
    is_tensor = np.searchsorted(launched, begin) == np.searchsorted(launched, ready_ns)[batch]
    known = batch >= 0
    tensors = np.bincount(batch[known & is_tensor], minlength=len(ready_ns))
    taken = np.bincount(batch[known], work.num_bytes[copies][known], len(ready_ns))
    handed: Float64 = (BATCH_NS * (tensors > 0) + TENSOR_NS * tensors) + HANDOVER_NS_A_BYTE * taken
    return np.minimum(handed, MOST_NS)
