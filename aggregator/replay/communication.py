"""What-if for data that moves between GPUs: free, hidden, on a faster link, in other buckets."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from aggregator.errors import UsageError
from aggregator.profile.arrays import Bool, Float64, Int64
from aggregator.replay.graph import NEVER, EdgeKind, Graph, Source
from aggregator.replay.scenario import Change, Scenario, find_step, without_calls, without_gaps
from aggregator.texts import say

USUAL_LATENCY_NS = 20_000
"""Time that a collective of no data takes, where the profile does not show it."""

FASTEST_PCT = 10
"""Percentile of the rates of buckets that stands for those with nothing beside them."""


def communication(graph: Graph) -> Bool:
    """Return the rows of kernels that move data between GPUs."""
    return np.append(graph.data.names.communicates, False)[graph.data.work.name[graph.work_row]]


def no_communication(scenario: Scenario) -> Scenario:
    """Let moving data between GPUs take no time."""
    moves = _rows_of(scenario.graph)
    duration = np.where(moves, 0, scenario.durations.duration_ns)
    return scenario.with_durations(duration_ns=duration)


def overlap_communication(scenario: Scenario) -> Scenario:
    """Move data between GPUs beside the computation: nothing waits for it."""
    graph = scenario.graph
    return overlapped(scenario, _rows_of(graph) & ~graph.is_arrival)


def _rows_of(graph: Graph) -> Bool:
    """Return the rows of communication.

    Raises:
        UsageError: There is none.
    """
    rows = communication(graph)
    if not rows.any():
        raise UsageError(say("The profile has no communication between GPUs."))
    return rows


def overlapped(scenario: Scenario, rows_beside: Bool) -> Scenario:
    """Run some rows of the work beside the rest: only their sum limits the step."""
    graph, steps, duration = scenario.graph, scenario.steps, scenario.durations.duration_ns
    busy = np.zeros(len(steps.number), dtype=np.int64)
    rows = np.flatnonzero(rows_beside)
    step = find_step(scenario, rows)
    device = graph.data.work.device[graph.work_row[rows]]
    for number in np.unique(device).tolist():
        mine = (step >= 0) & (device == number)
        own = np.zeros_like(busy)
        np.add.at(own, step[mine], duration[rows[mine]])
        busy = np.maximum(busy, own)
    free = scenario.with_durations(duration_ns=np.where(rows_beside, 0, duration))
    return replace(free, floor_ns=np.maximum(free.floor_ns, busy))


def link_speed(gbytes_per_second: float) -> Change:
    """Let collectives of known sizes take as long as their data on a link of some speed.

    Waiting for ranks that are part of the profile is not shortened.
    """

    def apply(scenario: Scenario) -> Scenario:
        graph, duration = scenario.graph, scenario.durations.duration_ns
        moved = _moved_bytes(graph)
        known = moved >= 0
        if not known.any():
            raise _no_sizes()
        least = np.rint(moved / gbytes_per_second).astype(np.int64)
        faster = np.where(known, np.minimum(duration, least), duration)
        return replace(scenario.with_durations(duration_ns=faster), is_bound=True)

    return apply


def _moved_bytes(graph: Graph) -> Int64:
    """Data that each row moves over the link of its GPU; -1: not recorded, or no transfer."""
    return np.where(graph.is_arrival, -1, graph.data.work.moved_bytes[graph.work_row])


def _no_sizes() -> UsageError:
    return UsageError(
        say("The profile records no sizes of collectives."),
        hint=say("Record the sizes of tensors (record_shapes=True)."),
    )


def bucket_size(mbytes: float) -> Change:
    """Join the gradients of all-reduces to buckets of a size, or cut them to it.

    As DistributedDataParallel does, a bucket is closed when it has reached the size. A joined one
    is sent when the last of its parts is ready, and takes the time of all of them, less the time
    that each takes without data; the last of a step, which has no backward pass beside it, takes
    it at the rate of the fastest. A bucket that is cut is sent in equal parts, ready one after the
    other since the bucket before it was, or since the backward pass began.
    """

    def apply(scenario: Scenario) -> Scenario:
        graph = scenario.graph
        found = _buckets(scenario)
        if not len(found.row):
            raise _no_sizes()
        latency = _latency_ns(found)
        size = round(mbytes * (1 << 20))
        close = _closing(found, size)
        group = np.cumsum(np.r_[False, close[:-1]])
        total = np.bincount(group, found.duration_ns).astype(np.int64)
        count = np.bincount(group)
        sent = np.flatnonzero(close)
        duration = total - (count - 1) * latency
        last = np.flatnonzero(np.diff(found.chain, append=-1))
        alone = np.rint(_alone_ns(found, group, latency)).astype(np.int64)
        duration[group[last]] = np.minimum(duration, alone)[group[last]]
        single = count == 1
        duration = np.where(single, _cut(found, latency, size)[sent], np.maximum(duration, latency))
        result = scenario.durations.duration_ns.copy()
        joined = np.ones(len(found.row), dtype=bool)
        joined[sent] = False
        result[found.row[joined]] = 0
        result[found.row[sent]] = duration
        return replace(_without_launches(scenario, graph, found.row[joined], result), is_bound=True)

    return apply


@dataclass(frozen=True)
class _Buckets:
    """All-reduces of known size within the steps, in order of stream and start."""

    row: Int64  # Row of the transfer.
    chain: Int64  # Step and stream.
    num_bytes: Int64  # Unit: bytes.
    duration_ns: Int64  # Unit: ns.
    ready_ns: Int64  # When its gradients were. Unit: ns.
    begun_ns: Int64  # When the first gradient of its step was begun, or ``ready_ns``. Unit: ns.


def _buckets(scenario: Scenario) -> _Buckets:
    graph, work = scenario.graph, scenario.graph.data.work
    is_reduce = np.array(["AllReduce" in name for name in graph.data.names.long] + [False])
    rows = np.flatnonzero(
        ~graph.is_arrival
        & is_reduce[work.name[graph.work_row]]
        & (work.num_bytes[graph.work_row] > 0)
    )
    step = find_step(scenario, rows)
    rows, step = rows[step >= 0], step[step >= 0]
    stream = np.searchsorted(graph.stream_first, rows, side="right")
    ready = _ready_ns(graph, rows)
    begun = _backward_begin(scenario)[step, work.device[graph.work_row[rows]]]
    return _Buckets(
        row=rows,
        chain=stream * (len(scenario.steps.number) + 1) + step,
        num_bytes=work.num_bytes[graph.work_row[rows]],
        duration_ns=scenario.durations.duration_ns[rows],
        ready_ns=ready,
        begun_ns=np.minimum(begun, ready),
    )


def _ready_ns(graph: Graph, rows: Int64) -> Int64:
    """Return when collectives were launched and what their streams waited for had ended. Unit: ns.

    Waiting for the collective before does not count, where it is known what else they waited for.
    """
    edges, first = graph.edges, rows - np.r_[False, graph.is_arrival[:-1]][rows]
    waited = np.full(len(graph.work_row), NEVER)
    own = (edges.kind == EdgeKind.EVENT) & (edges.source_type == Source.WORK_END)
    end = (graph.work_start_ns + graph.duration_ns)[edges.source[own]]
    np.maximum.at(waited, edges.target[own], end)
    waited = np.maximum(waited[rows], waited[first])
    launch = graph.launch[first]
    called = np.where(launch >= 0, graph.cpu_time_ns[np.maximum(launch, 0)], NEVER)
    started = graph.work_start_ns[first]
    known = (waited > NEVER) & (called > NEVER)
    result: Int64 = np.where(known, np.minimum(np.maximum(waited, called), started), started)
    return result


def _backward_begin(scenario: Scenario) -> Int64:
    """Start of the backward pass in each step on each GPU, shape (steps, GPUs). Unit: ns."""
    graph, work = scenario.graph, scenario.graph.data.work
    backward = np.array([direction == "bprop" for direction in graph.data.ops.directions] + [False])
    rows = np.flatnonzero(backward[work.op[graph.work_row]] & ~communication(graph))
    step = find_step(scenario, rows)
    rows, step = rows[step >= 0], step[step >= 0]
    devices = int(work.device.max(initial=0)) + 1
    result = np.full((len(scenario.steps.number), devices), np.iinfo(np.int64).max)
    np.minimum.at(result, (step, work.device[graph.work_row[rows]]), graph.work_start_ns[rows])
    return result


def _latency_ns(found: _Buckets) -> int:
    """Time of a collective without data: from the fastest of the smallest and of the largest."""
    small, large = int(found.num_bytes.min()), int(found.num_bytes.max())
    if large < 2 * small:
        return min(USUAL_LATENCY_NS, int(found.duration_ns.min()))
    times: Float64 = np.array(
        [np.median(found.duration_ns[found.num_bytes == size]) for size in (small, large)]
    )
    latency = times[0] - small * max(times[1] - times[0], 0.0) / (large - small)
    return int(np.clip(latency, 0, times[0]))


def _alone_ns(found: _Buckets, group: Int64, latency_ns: int) -> Float64:
    """Time of each group of buckets in one, at the rate of the fastest buckets. Unit: ns."""
    rate = (found.duration_ns - latency_ns) / found.num_bytes
    size = np.bincount(group, found.num_bytes)
    result: Float64 = latency_ns + size * np.percentile(rate, FASTEST_PCT)
    return result


def _closing(found: _Buckets, size: int) -> Bool:
    """Return which buckets are the last of a joined one."""
    close = np.zeros(len(found.row), dtype=bool)
    close[np.flatnonzero(np.diff(found.chain, append=-1))] = True
    before = np.cumsum(found.num_bytes) - found.num_bytes
    start = 0
    ends = np.flatnonzero(close)
    while start < len(close):  # once for each joined bucket
        reached = int(np.searchsorted(before + found.num_bytes, before[start] + size))
        last = min(reached, int(ends[np.searchsorted(ends, start)]))
        close[last] = True
        start = last + 1
    return close


def _cut(found: _Buckets, latency_ns: int, size: int) -> Int64:
    """Time that the stream takes from the start of each bucket until its last part is sent.

    Parts are ready one after the other since the bucket before it was ready, and the stream is free
    for them when that one is sent. Unit: ns.
    """
    parts = np.maximum(-(-found.num_bytes // size), 1)
    each = (found.duration_ns - latency_ns) / parts + latency_ns
    each = np.where(parts > 1, each, found.duration_ns)
    first = np.flatnonzero(np.diff(found.chain, prepend=-1))
    before = np.roll(found.ready_ns, 1)
    before[first] = found.begun_ns[first]
    early = before + (found.ready_ns - before) / parts
    result = found.duration_ns.astype(np.float64)
    sent, row = np.full(len(first), -np.inf), first
    stop = np.append(first[1:], len(parts))
    chains = np.arange(len(first))
    while len(row):  # once for each bucket of a step
        ready, free = found.ready_ns[row], sent[chains]
        done = np.maximum(free, early[row]) + parts[row] * each[row]
        done = np.maximum(done, ready + each[row])
        result[row] = done - np.maximum(ready, free)
        sent[chains] = done
        more = row + 1 < stop[chains]
        row, chains = row[more] + 1, chains[more]
    return np.rint(result).astype(np.int64)


def _without_launches(
    scenario: Scenario, graph: Graph, joined: Int64, duration_ns: Int64
) -> Scenario:
    """Remove the launches of parts that were joined to a later one."""
    chosen = np.zeros(len(duration_ns), dtype=bool)
    chosen[joined] = True
    chosen[joined[graph.is_arrival[joined - 1] & (joined > 0)] - 1] = True
    launch = graph.launch[chosen & (graph.launch >= 0)]
    calls = np.zeros(len(graph.call_row), dtype=bool)
    calls[launch // 2] = True
    return scenario.with_durations(
        duration_ns=duration_ns,
        gap_ns=without_gaps(graph, scenario.durations.gap_ns, chosen),
        cpu_step_ns=without_calls(graph, scenario.durations.cpu_step_ns, calls),
    )
