"""The critical path of one step as a chain of items in order of time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aggregator.profile.arrays import Int64
from aggregator.replay.analysis import BEFORE, ReplayedProfile
from aggregator.replay.communication import communication
from aggregator.replay.op_spans import op_time_ns

_WORK_KINDS = ("kernel", "copy", "set", "graph", "communication")
WAIT, CPU = "wait", "cpu"
_MIN_WAIT_NS = 1


@dataclass(frozen=True)
class Chain:
    """Items that follow each other and fill a step; neighbors of a kind and owner are one item."""

    step: int  # Row of the step.
    offset_ns: Int64  # From the start of the step. Unit: ns.
    duration_ns: Int64  # Unit: ns.
    kind: tuple[str, ...]  # kernel, copy, set, graph, communication, cpu, before or wait.
    owner: tuple[str, ...]  # Op ID; empty: of no op.
    name: tuple[str, ...]  # First kernel or call; empty: none.
    count: Int64  # Kernels or calls that it stands for.


@dataclass(frozen=True)
class _Items:
    """Items in order of start."""

    start_ns: Int64
    end_ns: Int64
    kind: list[str]
    owner: list[str]
    name: list[str]


def step_chain(found: ReplayedProfile, row: int) -> Chain:
    """Return the chain of a step, by its row."""
    low, high = (int(edges[row]) for edges in found.bounds_ns)
    work, cpu = _work_items(found, low, high), _cpu_items(found, low, high)
    start = np.concatenate([work.start_ns, cpu.start_ns])
    end = np.concatenate([work.end_ns, cpu.end_ns])
    order = np.lexsort((end, start))
    # A chain is a sequence: what begins before its predecessor ends is cut there.
    ends = np.minimum(np.maximum.accumulate(end[order]), high)
    begins = np.maximum(start[order], np.r_[low, ends[:-1]]) if len(order) else start
    places = order[ends > begins]
    begins, ends = begins[ends > begins], ends[ends > begins]
    texts = list(
        zip(work.kind + cpu.kind, work.owner + cpu.owner, work.name + cpu.name, strict=True)
    )
    return _filled(row, low, high, begins, ends, [texts[place] for place in places.tolist()])


def _work_items(found: ReplayedProfile, low: int, high: int) -> _Items:
    graph, times = found.graph, found.times
    inside = found.path.work & (times.work_end_ns > low) & (times.work_start_ns < high)
    rows = np.flatnonzero(inside)
    source = graph.work_row[rows]
    work = graph.data.work
    kind = np.where(communication(graph)[rows], len(_WORK_KINDS) - 1, work.kind[source])
    names = (*graph.data.names.long, "")
    owners = (*graph.data.ops.op_ids, "")
    return _Items(
        times.work_start_ns[rows],
        times.work_end_ns[rows],
        [_WORK_KINDS[code] for code in kind.tolist()],
        [owners[number] for number in work.op[source].tolist()],
        [names[number] for number in work.name[source].tolist()],
    )


def _cpu_items(found: ReplayedProfile, low: int, high: int) -> _Items:
    graph, times = found.graph, found.times
    begin_ns = times.cpu_ns - found.measured.cpu_step_ns
    inside = found.path.steps & (times.cpu_ns > low) & (begin_ns < high)
    position = np.flatnonzero(inside)
    end = times.cpu_ns[position]
    calls = graph.data.calls
    row = graph.call_row[position // 2]
    is_call = position % 2 == 1
    owners, names = (*graph.data.ops.op_ids, ""), graph.data.call_names
    begin = begin_ns[position]
    # What passes before the op of a call begins is not the op's.
    inside = np.minimum(end - begin, op_time_ns(graph.data, row))
    cut = np.where(is_call, begin, end - inside)
    before = np.flatnonzero(cut > begin)
    place = np.concatenate([np.arange(len(row)), before])
    called = np.where(is_call[place], calls.name[row[place]], len(names))
    return _Items(
        np.concatenate([cut, begin[before]]),
        np.concatenate([end, cut[before]]),
        [CPU] * len(row) + [BEFORE] * len(before),
        [owners[number] for number in calls.op[row[place]].tolist()],
        [(*names, "")[number] for number in called.tolist()],
    )


def _filled(
    step: int, low: int, high: int, begins: Int64, ends: Int64, texts: list[tuple[str, str, str]]
) -> Chain:
    """Add waits between the items of the chain, and join equal neighbors."""
    starts: list[int] = []
    stops: list[int] = []
    kept: list[tuple[str, str, str]] = []
    counts: list[int] = []

    def add(start: int, stop: int, text: tuple[str, str, str]) -> None:
        if kept and kept[-1][:2] == text[:2]:
            stops[-1] = stop
            counts[-1] += 1
            return
        starts.append(start)
        stops.append(stop)
        kept.append(text)
        counts.append(1)

    at = low
    for start, stop, text in zip(begins.tolist(), ends.tolist(), texts, strict=True):
        if start - at >= _MIN_WAIT_NS and not (kept and kept[-1][:2] == text[:2]):
            add(at, start, (WAIT, "", ""))
        add(start, stop, text)
        at = stop
    if high > at:
        add(at, high, (WAIT, "", ""))
    offset = np.array(starts, dtype=np.int64) - low
    return Chain(
        step=step,
        offset_ns=offset,
        duration_ns=np.array(stops, dtype=np.int64) - low - offset,
        kind=tuple(text[0] for text in kept),
        owner=tuple(text[1] for text in kept),
        name=tuple(text[2] for text in kept),
        count=np.array(counts, dtype=np.int64),
    )
