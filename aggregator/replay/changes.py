"""What-if: changes of durations and edges, each as a function from durations to durations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TypeAlias

import numpy as np

from aggregator.errors import UsageError
from aggregator.profile.arrays import Bool, Int64
from aggregator.replay.graph import NEVER, EdgeKind, Graph
from aggregator.replay.inputs import COPY, GRAPH, KERNEL, SET
from aggregator.replay.replay import Durations
from aggregator.replay.steps import Steps
from aggregator.texts import say

Change: TypeAlias = Callable[["Scenario"], "Scenario"]


@dataclass(frozen=True)
class Scenario:
    """A changed profile."""

    graph: Graph
    steps: Steps
    durations: Durations
    # Time that a step takes at least, however well its work overlaps. Unit: ns.
    floor_ns: Int64
    is_bound: bool = False  # Whether the answer is a bound: other kernels would run.


COMMUNICATION = "communication"
_KINDS = {"kernels": KERNEL, "copies": COPY, "sets": SET, "graphs": GRAPH}


def find_rows(graph: Graph, name: str) -> Bool:
    """Rows of the work that a name selects.

    Args:
        graph: The graph.
        name: ``communication``, ``kernels``, ``copies``, ``sets``, an op type, Op ID or op name, or
            a pattern of kernel names with ``*``.

    Raises:
        UsageError: It selects nothing.
    """
    work, row = graph.data.work, graph.work_row
    if name == COMMUNICATION:
        chosen = communication(graph)
    elif name in _KINDS:
        chosen = work.kind[row] == _KINDS[name]
    else:
        ops = find_ops(graph, name)
        chosen = np.append(ops, False)[work.op[row]]
        if not ops.any():
            chosen = _kernels_named(graph, name)
    if not chosen.any():
        raise _nothing_named(graph, name)
    return chosen


def communication(graph: Graph) -> Bool:
    """Rows of kernels that move data between GPUs."""
    return np.append(graph.data.communicates, False)[graph.data.work.name[graph.work_row]]


def find_ops(graph: Graph, name: str) -> Bool:
    """Ops with a type, an Op ID or a name."""
    ops, wanted = graph.data.ops, _plain(name)
    found = [
        wanted in (_plain(kind), op_id.lower(), op_name.lower())
        for kind, op_id, op_name in zip(ops.types, ops.op_ids, ops.names, strict=True)
    ]
    return np.array(found, dtype=bool)


def _plain(name: str) -> str:
    return name.lower().rpartition("::")[2]


def _kernels_named(graph: Graph, name: str) -> Bool:
    pattern = name if "*" in name else f"*{name}*"
    found = [fnmatchcase(one, pattern) for one in graph.data.kernel_names]
    chosen = np.array([*found, False], dtype=bool)
    return chosen[graph.data.work.name[graph.work_row]]


def _nothing_named(graph: Graph, name: str) -> UsageError:
    ops = graph.data.ops
    known = [*dict.fromkeys(_plain(kind) for kind in ops.types), *_KINDS, COMMUNICATION]
    close = get_close_matches(_plain(name), known, n=3, cutoff=0.3) or known[:5]
    return UsageError(
        say("No op type, op or kernel of the profile is called '{name}'.", name=name),
        hint=say("The closest names are: {names}.", names=", ".join(close)),
    )


def speed_up(name: str, factor: float) -> Change:
    """Work of a name takes ``1 / factor`` of its time."""

    def apply(scenario: Scenario) -> Scenario:
        chosen = find_rows(scenario.graph, name)
        duration = scenario.durations.duration_ns
        faster = np.where(chosen, np.rint(duration / factor), duration).astype(np.int64)
        return _with_durations(scenario, duration_ns=faster)

    return apply


def remove(name: str) -> Change:
    """Work of a name does not run, and nothing launches it."""

    def apply(scenario: Scenario) -> Scenario:
        graph, durations = scenario.graph, scenario.durations
        chosen = find_rows(graph, name)
        step = durations.cpu_step_ns.copy()
        launch = graph.launch[chosen & (graph.launch >= 0)]
        step[launch + 1] = 0
        return _with_durations(
            scenario,
            cpu_step_ns=step,
            duration_ns=np.where(chosen, 0, durations.duration_ns),
            gap_ns=_without_gaps(graph, durations.gap_ns, chosen),
        )

    return apply


def _without_gaps(graph: Graph, gap_ns: Int64, chosen: Bool) -> Int64:
    """Gaps of the work, without those before some rows; a chain keeps the time of its start."""
    gap = np.where(chosen, np.minimum(gap_ns, 0), gap_ns)
    heads = graph.stream_first[:-1]
    gap[heads] = gap_ns[heads]
    return gap


def no_synchronization(name: str = "") -> Change:
    """No call waits for a GPU; with a name only those that ops of that name make do not."""

    def apply(scenario: Scenario) -> Scenario:
        graph, edges = scenario.graph, scenario.graph.edges
        chosen = edges.kind == EdgeKind.SYNC
        if name:
            ops = np.append(find_ops(graph, name), False)
            if not ops.any():
                raise _nothing_named(graph, name)
            call = graph.call_row[np.where(chosen, edges.target, 0) // 2]
            chosen = chosen & ops[graph.data.calls.op[call]]
        lag = np.where(chosen, NEVER, scenario.durations.lag_ns)
        return _with_durations(scenario, lag_ns=lag)

    return apply


def data_ready(scenario: Scenario) -> Scenario:
    """The next batch is always there when the program asks for it."""
    step = scenario.durations.cpu_step_ns
    heads = scenario.graph.thread_first[:-1]
    ready = np.maximum(step - scenario.graph.loading_ns, 0)
    ready[heads] = step[heads]
    return _with_durations(scenario, cpu_step_ns=ready)


def graph_launch(scenario: Scenario) -> Scenario:
    """One call launches all work of a step as a CUDA graph.

    Waiting for the data loader and for the GPU remains; all other time of the CPU does not.
    """
    graph, step = scenario.graph, scenario.durations.cpu_step_ns
    kept = np.minimum(graph.loading_ns, np.maximum(step, 0))
    kept[graph.thread_first[:-1]] = step[graph.thread_first[:-1]]
    known = graph.launch[scenario.steps.first]
    kept[known[known >= 0] + 1] += GRAPH_LAUNCH_NS
    inside = np.zeros(len(step), dtype=bool)
    low = int(graph.work_start_ns[scenario.steps.first].min())
    inside[:] = graph.cpu_time_ns >= low
    is_thread = graph.edges.kind == EdgeKind.THREAD
    lag = np.where(is_thread, np.minimum(scenario.durations.lag_ns, 0), scenario.durations.lag_ns)
    return _with_durations(
        scenario,
        cpu_step_ns=np.where(inside, kept, step),
        lag_ns=np.where(scenario.durations.lag_ns == NEVER, NEVER, lag),
    )


GRAPH_LAUNCH_NS = 20_000
"""Usual time that the launch of a CUDA graph takes on the CPU."""


def no_communication(scenario: Scenario) -> Scenario:
    """Moving data between GPUs takes no time."""
    moves = communication(scenario.graph)
    duration = np.where(moves, 0, scenario.durations.duration_ns)
    return _with_durations(scenario, duration_ns=duration)


def overlap_communication(scenario: Scenario) -> Scenario:
    """Moving data between GPUs runs beside the computation: nothing waits for it."""
    graph, steps = scenario.graph, scenario.steps
    moves = communication(graph) & ~graph.is_arrival
    busy = np.zeros(len(steps.number), dtype=np.int64)
    rows = np.flatnonzero(moves)
    step = np.searchsorted(graph.work_start_ns[steps.first], graph.work_start_ns[rows], "right") - 1
    device = graph.data.work.device[graph.work_row[rows]]
    inside = (step >= 0) & (graph.work_start_ns[rows] < graph.work_start_ns[steps.next[step]])
    for one in np.unique(device).tolist():
        mine = inside & (device == one)
        own = np.zeros_like(busy)
        np.add.at(own, step[mine], scenario.durations.duration_ns[rows[mine]])
        busy = np.maximum(busy, own)
    free = no_communication(scenario)
    return replace(free, floor_ns=np.maximum(free.floor_ns, busy))


def _with_durations(scenario: Scenario, **columns: Int64) -> Scenario:
    return replace(scenario, durations=replace(scenario.durations, **columns))
