"""Builds the graph of a profile: chains, edges, and the lags that reproduce the measured times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aggregator.profile.arrays import Bool, Int64, narrow
from aggregator.replay.edges import (
    TOLERANCE_NS,
    WAITS_ONLY,
    EdgeFinder,
    FoundEdges,
    presumed_waits,
)
from aggregator.replay.graph import NEVER, EdgeKind, Edges, Graph, Source
from aggregator.replay.inputs import ReplayInput
from aggregator.replay.loading import loading_ns
from aggregator.replay.sequence_index import CpuChains, StreamChains, cpu_chains, stream_chains
from aggregator.replay.threads import thread_edges
from aggregator.texts import Text, say

USUAL_GAP_NS = 1_500
"""Time between two pieces of work in one queue, where the profile shows none."""
USUAL_LAUNCH_NS = 6_000
"""Time between a launch and its work on an idle GPU, where the profile shows none."""
MAX_QUEUED_GAP_NS = 4_000
"""Work that begins so soon after the work before it had been waiting in the queue."""
USUAL_RETURN_NS = 5_000
"""Time until a call returns after the work that it waited for, where the profile shows none."""
USUAL_CALL_NS = 5_000
"""Time that a call takes which need not wait, where the profile shows none."""
MAX_RETURN_NS = 100_000
"""A call that only waits and returns later after the work that it waited for waited for more."""
MAX_LAUNCH_NS = 200_000
"""Where no work begins sooner after its launch, the clocks of CPU and GPU do not fit."""
MIN_LAUNCHES = 5
"""So many launches on an idle GPU show whether the clocks fit."""
USUAL_FACTOR = 3
"""A lag longer than the usual one by this factor is idle time that no edge explains."""
MIN_UNMATCHED_PCT = 1
"""Share of the time of the GPU above which collectives without their other ranks are named."""
MAX_ORDER_LAG_NS = 10_000
"""Work that begins so soon after work of another stream may have waited for it."""


def build_graph(data: ReplayInput) -> Graph:
    """Build the graph of a profile."""
    cpu, streams = cpu_chains(data.calls), stream_chains(data.work, data.calls)
    finder = EdgeFinder(data, cpu, streams)
    found = [finder.events(), finder.legacy(), finder.collectives(), finder.syncs()]
    found += [finder.graph_nodes(), finder.queues(), thread_edges(data, cpu, streams)]
    notes: list[Text] = []
    found = [_forward(part, cpu, streams, notes) for part in found]
    launch = _launches(data, cpu, streams)
    lags = _work_lags(data, cpu, streams, launch, found)
    observed = _forward(_observed_order(streams, launch, lags), cpu, streams, notes)
    if len(observed.source):
        found.append(observed)
        lags = _work_lags(data, cpu, streams, launch, found)
    step, edges = _cpu_steps(cpu, streams, found, data)
    notes += _notes(data, streams, launch) + _clock_notes(lags)
    return Graph(
        data=data,
        call_row=cpu.row,
        cpu_time_ns=cpu.time_ns,
        recorded_ns=cpu.time_ns,
        cpu_step_ns=step,
        thread_first=cpu.first,
        loading_ns=narrow(
            loading_ns(data.loading, cpu.time_ns, data.calls.thread[cpu.row], cpu.first)
        ),
        work_row=streams.row,
        is_arrival=streams.is_arrival,
        work_start_ns=streams.start_ns,
        duration_ns=streams.end_ns - streams.start_ns,
        gap_ns=lags.gap_ns,
        launch=launch,
        launch_lag_ns=lags.launch_ns,
        launch_binds=lags.launch_binds,
        stream_first=streams.first,
        unexplained_ns=lags.unexplained_ns,
        edges=_ordered(_joined([*edges, *lags.edges]), cpu, streams),
        notes=tuple(notes),
    )


def _times(ends: FoundEdges, cpu: CpuChains, streams: StreamChains) -> tuple[Int64, Int64]:
    source = (cpu.time_ns if ends.source_type is Source.CPU else streams.end_ns)[ends.source]
    target = (cpu.time_ns if ends.target_type is Source.CPU else streams.start_ns)[ends.target]
    return source, target


def _forward(
    found: FoundEdges, cpu: CpuChains, streams: StreamChains, notes: list[Text]
) -> FoundEdges:
    """Leave out edges whose target was before their source: the clocks or the records are wrong."""
    source, target = _times(found, cpu, streams)
    fits = source <= target + TOLERANCE_NS
    lost = int(np.count_nonzero(~fits))
    if lost and 20 * lost > len(fits):
        notes.append(
            say(
                "{count} of {total} dependencies contradict the recorded times; they are left out.",
                count=lost,
                total=len(fits),
            )
        )
    return found.selected(fits)


def _launches(data: ReplayInput, cpu: CpuChains, streams: StreamChains) -> Int64:
    """Position of the CPU that launched each row of the work; -1: not recorded."""
    call = data.work.call[streams.row]
    result = np.full(len(call), -1, dtype=np.int64)
    known = call >= 0
    result[known] = cpu.start_of_call[call[known]]
    # A call after its work: the clocks do not fit there.
    late = np.zeros(len(call), dtype=bool)
    late[known] = cpu.time_ns[result[known]] > streams.start_ns[known] + TOLERANCE_NS
    result[late | _transfers(streams)] = -1
    return result


@dataclass
class _Lags:
    """Lags into the rows of the work."""

    gap_ns: Int64
    launch_ns: Int64
    launch_binds: Bool
    unexplained_ns: Int64
    edges: list[Edges]


def _work_lags(
    data: ReplayInput,
    cpu: CpuChains,
    streams: StreamChains,
    launch: Int64,
    found: list[FoundEdges],
) -> _Lags:
    """Return the lags of the work: the measured one where it waited, the usual one elsewhere."""
    start, previous = streams.start_ns, streams.previous_end_ns
    known = launch >= 0
    called = np.full(len(launch), NEVER)
    called[known] = cpu.time_ns[launch[known]]
    into_work = [part for part in found if part.target_type is Source.WORK_END]
    event = np.full(len(launch), NEVER)
    for part in into_work:
        np.maximum.at(event, part.target, _times(part, cpu, streams)[0])
    gap = start - previous
    is_near = (gap >= -TOLERANCE_NS) & (gap <= MAX_QUEUED_GAP_NS)
    usual_gap = _median(gap[(gap >= 0) & is_near], USUAL_GAP_NS)
    usual_launch = _usual_launch(data, streams, called, np.maximum(previous, event))
    by_previous, by_event = previous + usual_gap, event + usual_gap
    by_launch = called + usual_launch
    follows = is_near | ((by_previous >= by_launch) & (by_previous >= by_event))
    launched = known & ~follows & (by_launch >= by_event)
    waited = ~follows & ~launched & (event > NEVER)
    follows = ~launched & ~waited
    alone = follows & (previous == NEVER)
    own_gap = np.where(follows | (gap < usual_gap), gap, usual_gap)
    launch_ns = np.where(launched, start - called, np.minimum(usual_launch, start - called))
    unexplained = np.where(follows & ~alone, np.maximum(gap - MAX_QUEUED_GAP_NS, 0), 0)
    late = np.maximum(start - called - USUAL_FACTOR * usual_launch, 0)
    unexplained = np.where(launched, np.minimum(late, np.maximum(gap, 0)), unexplained)
    own_gap = np.where(previous == NEVER, start, own_gap)
    transfers = _transfers(streams)
    own_gap[transfers] = unexplained[transfers] = 0
    edges = [_edge_lags(part, cpu, streams, waited, usual_gap, event) for part in into_work]
    for edge in edges:
        is_late = edge.binds & (edge.kind != EdgeKind.COLLECTIVE)
        beyond = edge.lag_ns[is_late] - max(MAX_QUEUED_GAP_NS, USUAL_FACTOR * usual_gap)
        np.maximum.at(unexplained, edge.target[is_late], beyond)
    return _Lags(own_gap, launch_ns, launched, unexplained, edges)


def _transfers(streams: StreamChains) -> Bool:
    """Return the rows of the transfer of a collective: each follows the row of its arrival."""
    result = np.zeros(len(streams), dtype=bool)
    result[1:] = streams.is_arrival[:-1]
    return result


def _median(values: Int64, default: int) -> int:
    return int(np.median(values)) if len(values) else default


def _usual_launch(data: ReplayInput, streams: StreamChains, called: Int64, ready: Int64) -> Int64:
    kind = data.work.kind[streams.row]
    latency = streams.start_ns - called
    idle = (called > NEVER) & (called >= ready) & ~streams.is_arrival
    result = np.full(len(kind), USUAL_LAUNCH_NS, dtype=np.int64)
    for code in np.unique(kind).tolist():
        result[kind == code] = _median(latency[idle & (kind == code)], USUAL_LAUNCH_NS)
    return result


def _edge_lags(
    found: FoundEdges,
    cpu: CpuChains,
    streams: StreamChains,
    waited: Bool,
    usual_ns: int,
    latest: Int64,
) -> Edges:
    """Return the lags of edges into work: the measured one where the work waited for that edge."""
    source, target = _times(found, cpu, streams)
    binds = waited[found.target] & (source == latest[found.target])
    lag = np.where(binds, target - source, np.minimum(usual_ns, target - source))
    if found.kind is EdgeKind.COLLECTIVE:
        binds, lag = np.ones(len(source), dtype=bool), np.minimum(target - source, 0)
    return _edges(found, lag, binds)


def _edges(found: FoundEdges, lag: Int64, binds: Bool) -> Edges:
    count = len(found.source)
    return Edges(
        kind=np.full(count, found.kind, dtype=np.int64),
        source_type=np.full(count, found.source_type, dtype=np.int64),
        source=found.source,
        target_type=np.full(count, found.target_type, dtype=np.int64),
        target=found.target,
        lag_ns=lag,
        binds=binds,
        lost_ns=np.zeros(count, dtype=np.int64),
    )


def _observed_order(streams: StreamChains, launch: Int64, lags: _Lags) -> FoundEdges:
    """Return the work that began right when work of the same launch ended in another stream."""
    row = np.flatnonzero((lags.unexplained_ns > 0) & (launch >= 0))
    order = np.argsort(streams.end_ns, kind="stable")
    place = np.searchsorted(streams.end_ns[order], streams.start_ns[row], side="right") - 1
    source = order[np.maximum(place, 0)]
    keep = (place >= 0) & (launch[source] == launch[row])
    keep &= streams.chain[source] != streams.chain[row]
    keep &= streams.start_ns[row] - streams.end_ns[source] <= MAX_ORDER_LAG_NS
    return FoundEdges(EdgeKind.GRAPH, Source.WORK_END, source[keep], Source.WORK_END, row[keep])


def _cpu_steps(
    cpu: CpuChains, streams: StreamChains, found: list[FoundEdges], data: ReplayInput
) -> tuple[Int64, list[Edges]]:
    """Steps of the CPU without the time in which they waited, and the edges that they waited for.

    A call that waits takes as long as calls of its name take that do not have to. Of several pieces
    of work, it waited for the one that ended last.
    """
    step = np.diff(cpu.time_ns, prepend=0)
    step[cpu.first[:-1]] = cpu.time_ns[cpu.first[:-1]]
    own, edges = step.copy(), []
    for part in found:
        if part.target_type is not Source.CPU or not len(part.target):
            continue
        source, target = _times(part, cpu, streams)
        before = target - step[part.target]
        waited = source > before
        if part.kind is EdgeKind.THREAD:
            waited = np.ones(len(source), dtype=bool)
            own[part.target] = np.where(cpu.is_first[part.target], NEVER, 0)
            lag = target - source
        else:
            position, code = np.unique(part.target, return_inverse=True)
            latest = np.full(len(position), NEVER)
            np.maximum.at(latest, code, source)
            waited &= source == latest[code]
            rows = part.target[waited]
            own[rows] = np.minimum(own[rows], _usual_calls(cpu, data, rows))
            returned = _median((target - source)[waited], USUAL_RETURN_NS)
            lag = np.where(waited, target - source, np.minimum(returned, target - source))
        found_edges = _edges(part, lag, waited)
        if part.kind is EdgeKind.SYNC:
            waits = data.calls_named(*WAITS_ONLY)[cpu.row[part.target // 2]]
            beyond = lag - MAX_RETURN_NS
            found_edges.lost_ns[:] = np.where(waited & waits, np.maximum(beyond, 0), 0)
        edges.append(found_edges)
    return own, edges


def _usual_calls(cpu: CpuChains, data: ReplayInput, position: Int64) -> Int64:
    """Median duration of calls of the same name as those that end there and that do not wait."""
    name = data.calls.name[cpu.row]
    taken = cpu.time_ns[1::2] - cpu.time_ns[0::2]
    waits = np.zeros(len(name), dtype=bool)
    waits[position // 2] = True
    of_target = name[position // 2]
    result = np.zeros(len(position), dtype=np.int64)
    for number in np.unique(of_target).tolist():
        result[of_target == number] = _median(taken[(name == number) & ~waits], USUAL_CALL_NS)
    return result


def _joined(parts: list[Edges]) -> Edges:
    empty = [np.empty(0, dtype=np.int64)]
    columns = {
        name: np.concatenate([*empty, *(getattr(part, name) for part in parts)])
        for name in Edges.__dataclass_fields__
    }
    columns["binds"] = columns["binds"].astype(bool)
    return Edges(**columns)


def _ordered(edges: Edges, cpu: CpuChains, streams: StreamChains) -> Edges:
    time = np.empty(len(edges), dtype=np.int64)
    on_cpu = edges.target_type == Source.CPU
    time[on_cpu] = cpu.time_ns[edges.target[on_cpu]]
    time[~on_cpu] = streams.start_ns[edges.target[~on_cpu]]
    order = np.lexsort([edges.source, edges.target, edges.target_type, time])
    return Edges(**{name: column[order] for name, column in vars(edges).items()})


def _notes(data: ReplayInput, streams: StreamChains, launch: Int64) -> list[Text]:
    notes = []
    if not data.has_waits and len(streams.process) > 1:
        notes.append(say("The capture records no events: only the order within a stream is known."))
    if presumed := len(presumed_waits(data)):
        notes.append(
            say(
                "The events for which streams wait {count} times are not recorded: each is taken "
                "for the latest work of another stream.",
                count=presumed,
            )
        )
    if data.lost_records:
        notes.append(say("The recorder lost events."))
    if data.is_clock_moved:
        notes.append(
            say("Work of GPUs was moved, because the clocks of CPU and GPU do not fit together.")
        )
    work, is_earlier = data.work, data.work.is_earlier
    alone = (launch < 0) & ~_transfers(streams) & ~is_earlier[streams.row]
    before = alone & (work.call[streams.row] >= 0)
    if 100 * (early := int(np.count_nonzero(before))) > len(launch):
        notes.append(
            say(
                "{count} pieces of work begin before their launch: the clocks of CPU and GPU "
                "do not fit.",
                count=early,
            )
        )
    lost = int(np.count_nonzero(alone & ~before))
    if 100 * lost > len(launch):
        notes.append(say("{count} pieces of work have no call that launched them.", count=lost))
    if idle := _launches_without_work(data):
        notes.append(say("{count} launches have no work in the capture.", count=idle))
    unmatched = np.append(data.names.communicates, False)[work.name] & (work.collective < 0)
    taken = work.end_ns - work.start_ns
    if 100 * int(taken[unmatched & ~is_earlier].sum()) > MIN_UNMATCHED_PCT * int(taken.sum()):
        notes.append(
            say("Waiting for ranks that are not in the profile counts as time of its collectives.")
        )
    return notes


def _clock_notes(lags: _Lags) -> list[Text]:
    """Whether the GPU begins all work so late after its launch that its clock must be ahead."""
    late = lags.launch_ns[lags.launch_binds]
    if len(late) < MIN_LAUNCHES or (least := int(late.min())) <= MAX_LAUNCH_NS:
        return []
    return [
        say(
            "No work begins sooner than {ms} ms after its launch: the clocks of CPU and GPU "
            "do not fit.",
            ms=f"{least / 1e6:.1f}",
        )
    ]


def _launches_without_work(data: ReplayInput) -> int:
    """Count launches in the steps without recorded kernels; 0 if there are as few as always."""
    calls = data.calls
    launches = data.calls_named("LaunchKernel", "LaunchCooperativeKernel")
    if len(data.iteration):
        launches &= calls.start_ns >= data.iteration_start_ns[0]
        launches &= calls.start_ns < data.iteration_end_ns[-1]
    found = np.zeros(len(calls), dtype=bool)
    found[data.work.call[data.work.call >= 0]] = True
    lost = int(np.count_nonzero(launches & ~found))
    return lost if 100 * lost > int(np.count_nonzero(launches)) else 0
