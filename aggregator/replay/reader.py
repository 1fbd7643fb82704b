"""Read the input of the replay from an event store."""

from __future__ import annotations

from typing import Final

import numpy as np

from aggregator.events.model import (
    UNKNOWN,
    Calls,
    OpCalls,
    Ops,
    Work,
    WorkKind,
    find_calls,
    launching_calls,
)
from aggregator.events.store import EventStore
from aggregator.events.window import NoStepsError, read_steps
from aggregator.kernels.names import LAYOUT_CONVERSION
from aggregator.profile.arrays import NO_ROW, Float64, Int64
from aggregator.replay.analysis import ReplayedProfile
from aggregator.replay.inputs import BlockingStreams, LinkedWaits, LinkedWork, Loading, ReplayInput
from aggregator.replay.steps import no_work


def read_replayed(store: EventStore, aggr: int) -> ReplayedProfile:
    """Read an aggregation and replay its steady steps.

    Raises:
        ReplayError: It holds too little work on a GPU.
        sqlite3.Error, ValueError, TypeError, KeyError, OverflowError, IndexError: It is damaged.
    """
    try:
        steps = read_steps(store, aggr)
    except NoStepsError as error:
        raise no_work() from error
    number = steps.number[:0] if steps.is_single else steps.number
    return ReplayedProfile(read_replay_input(store, aggr), number)


REPLAYED_STEPS = 16


def read_window(store: EventStore, aggr: int, number: Int64) -> ReplayedProfile:
    """Replay a few steps from the middle of a window, whatever the length of the profile.

    Args:
        store: The events.
        aggr: Number of the aggregation.
        number: Numbers of the steady iterations of the window, ascending.

    Raises:
        As for ``read_replayed``.
    """
    begin = max(len(number) - REPLAYED_STEPS, 0) // 2
    chosen = number[begin : begin + REPLAYED_STEPS]
    # The step before begins with the CPU as far ahead as usual; the one after ends the last step.
    around = (int(chosen[0]) - 1, int(chosen[-1]) + 1)
    return ReplayedProfile(read_replay_input(store, aggr, around), chosen)


def read_replay_input(
    store: EventStore, aggr: int, around: tuple[int, int] | None = None
) -> ReplayInput:
    """Read calls, work and waits of a profile, and the iterations of an aggregation.

    Args:
        store: The events.
        aggr: Number of the aggregation.
        around: First and last iteration whose calls are read; None: all calls are.

    Raises:
        sqlite3.Error, ValueError, TypeError, KeyError, OverflowError, IndexError: It is damaged.
    """
    iteration, start, end = _read_iterations(store, aggr, around)
    time_ns = None if around is None else (int(start[0]), int(end[-1]))
    calls, op_calls, names = store.calls(time_ns), store.op_calls(time_ns), store.names
    waits = _read_waits(store, calls, time_ns)
    work = store.work(time_ns)
    return ReplayInput(
        calls=calls,
        call_names=store.call_names,
        work=_linked_work(store, work, calls),
        waits=waits,
        blocking_streams=_read_blocking_streams(store),
        links=_read_links(store, work),
        loading=_loading(store.ops, op_calls),
        ops=store.ops,
        ideal_share=_ideal_share(store, aggr),
        op_calls=op_calls,
        names=names,
        converts=np.array(
            [bool(LAYOUT_CONVERSION.search(name)) for name in names.long], dtype=bool
        ),
        iteration=iteration,
        iteration_start_ns=start,
        iteration_end_ns=end,
        has_waits=bool(len(waits)),
        lost_records=store.lost_records,
        is_clock_moved=store.is_clock_moved,
    )


def _ideal_share(store: EventStore, aggr: int) -> Float64:
    share = np.full(len(store.ops), np.nan)
    if store.has("op_efficiency"):
        rows = store.of_aggregation("op_efficiency", aggr, "op", "ideal_time", "ideal_gpu_time")
        known = [row for row in rows if (row[1] or 0) > 0 and (row[2] or 0) > 0]
        op, ideal, actual = np.array(known, dtype=np.int64).reshape(-1, 3).T
        share[op - 1] = ideal / actual
    return share


def _read_iterations(store: EventStore, aggr: int, around: tuple[int, int] | None) -> Int64:
    """Read number, start and end of each."""
    names = ("iter_value", "start", "stop", "aggregated", "kind")
    rows = store.of_aggregation("iterations", aggr, *names)
    chosen = [
        row[:3]
        for row in rows
        if row[4] == "iteration"
        and (row[3] if around is None else around[0] <= row[0] <= around[1])
    ]
    result: Int64 = np.array(chosen, dtype=np.int64).reshape(-1, 3).T
    return result


def _linked_work(store: EventStore, work: Work, calls: Calls) -> LinkedWork:
    call = launching_calls(calls, work)
    collective, moved, num_bytes = (np.full(len(work), UNKNOWN, dtype=np.int64) for _ in range(3))
    num_bytes[:] = work.num_bytes
    kernels = np.flatnonzero(work.kind == WorkKind.KERNEL)
    first = int(work.row_id[0]) - 1 if len(kernels) else 0
    found = store.collectives
    found = found.rows((found.kernel >= first) & (found.kernel < first + len(kernels)))
    row = found.kernel - first
    matched = (found.communicator >= 0) & (found.sequence >= 0) & (found.num_ranks > 1)
    places = np.stack([found.communicator, found.sequence])
    _, code = np.unique(places, axis=1, return_inverse=True)
    collective[row] = np.where(matched, code.ravel(), NO_ROW)
    num_bytes[row] = found.num_bytes
    # A capture of one rank does not show how many there are: with two, the least is moved.
    others = np.maximum(found.num_ranks, 2) - 1
    terms = np.array([_MOVED.get(kind, (1, 0, 0)) for kind in found.kind], dtype=np.float64)
    whole, parts, copies = terms.reshape(-1, 3).T
    total = found.num_bytes * (whole + parts * others / (others + 1) + copies * others)
    moved[row] = np.where(found.num_bytes >= 0, np.rint(total), UNKNOWN)
    columns = vars(work) | {"num_bytes": num_bytes}
    return LinkedWork(**columns, call=call, collective=collective, moved_bytes=moved)


_MOVED: Final = {
    "AllReduce": (0, 2, 0),
    "ReduceScatter": (0, 1, 0),
    "AllToAll": (0, 1, 0),
    "AllGather": (0, 0, 1),
}
"""Data that a rank moves over its link, by what it contributes: whole, n - 1 parts of n, or a copy
for each of the n - 1 others. The kinds that are not listed move it once."""


def _read_waits(store: EventStore, calls: Calls, time_ns: tuple[int, int] | None) -> LinkedWaits:
    waits = store.waits(time_ns)
    record = find_calls(calls, waits.process, waits.start_ns - waits.record_ago_ns)
    record[waits.record_ago_ns < 0] = NO_ROW
    call = find_calls(calls, waits.process, waits.start_ns)
    return LinkedWaits(call, waits.device, waits.stream, record, waits.recorded_stream)


def _read_links(store: EventStore, work: Work) -> Int64:
    """Read the dependencies of kernels of CUDA graphs on kernels of other streams; shape (2, n)."""
    if not store.has("kernel_links"):
        return np.empty((2, 0), dtype=np.int64)
    links = np.stack(store.integers("kernel_links", ("after", "kernel")))
    kernels = np.flatnonzero(work.kind == WorkKind.KERNEL)  # In order of their ids.
    row_id = work.row_id[kernels]
    place = np.minimum(np.searchsorted(row_id, links), max(len(kernels) - 1, 0))
    inside = (
        (row_id[place] == links).all(axis=0) if len(kernels) else np.zeros(links.shape[1], bool)
    )
    return kernels[place[:, inside]]


def _read_blocking_streams(store: EventStore) -> BlockingStreams:
    process, stream, is_default = np.empty((3, 0), dtype=np.int64)
    if store.has("blocking_streams"):
        names = ("process", "stream_id", "is_default")
        process, stream, is_default = store.integers("blocking_streams", names)
    return BlockingStreams(process - 1, stream, is_default > 0)


LOADS_ITSELF: Final = "_SingleProcess"
"""Part of the type of a loader without worker processes, as PyTorch calls it."""


def _loading(ops: Ops, op_calls: OpCalls) -> Loading:
    loads = ops.is_loader
    calls = op_calls.rows(np.flatnonzero(loads[op_calls.op]))
    alone = np.array([LOADS_ITSELF in kind for kind in ops.types], dtype=bool)
    return Loading(calls.start_ns, calls.end_ns, calls.thread, alone[calls.op])
