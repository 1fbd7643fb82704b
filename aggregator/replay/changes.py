"""What-if: changes of durations and edges, each as a function from durations to durations."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Final, TypeAlias

import numpy as np

from aggregator.errors import UsageError
from aggregator.events.model import WorkKind
from aggregator.kernels.traits import kernel_traits
from aggregator.profile.arrays import NO_ROW, Bool, Int64
from aggregator.profile.intervals import Flattened
from aggregator.replay.build import MAX_QUEUED_GAP_NS
from aggregator.replay.communication import communication, overlapped
from aggregator.replay.graph import NEVER, EdgeKind, Edges, Graph, Source
from aggregator.replay.op_spans import without_ops
from aggregator.replay.scenario import (
    Change,
    Scenario,
    launching_calls,
    without_calls,
    without_gaps,
)
from aggregator.texts import say

COMMUNICATION = "communication"
MIN_FACTOR, MAX_FACTOR = 0.001, 1e6
"""How many times faster work may become; times beyond do not fit into 64 bits."""
_KINDS = {
    "kernels": WorkKind.KERNEL,
    "copies": WorkKind.COPY,
    "sets": WorkKind.SET,
    "graphs": WorkKind.GRAPH,
}


def find_rows(graph: Graph, name: str) -> Bool:
    """Return the rows of the work that a name selects.

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
    if not (chosen.any() or _calls_of(graph, name).any()):
        raise _nothing_named(graph, name)
    return chosen


def find_ops(graph: Graph, name: str) -> Bool:
    """Ops with an Op ID, a path, a type or a name, and the ops that run inside an op of that name.

    An Op ID or a path selects that op alone. A namespace such as ``aten::`` counts where the
    profile has it, else it is left out.
    """
    ops = graph.data.ops
    alone = np.array(
        [name in (op_id, path) for op_id, path in zip(ops.op_ids, ops.names, strict=True)],
        dtype=bool,
    )
    if alone.any() and ("/" in name or "::" in name or name in ops.op_ids):
        return alone
    found = _ops_called(graph, name.lower(), str.lower)
    return found if found.any() else _ops_called(graph, _plain(name), _plain)


def _ops_called(graph: Graph, wanted: str, form: Callable[[str], str]) -> Bool:
    ops = graph.data.ops
    found = [
        wanted in (form(kind), op_id.lower(), form(op_name), *_parts(op_name, form))
        or ("*" in wanted and fnmatchcase(op_name.lower(), wanted))
        for kind, op_id, op_name in zip(ops.types, ops.op_ids, ops.names, strict=True)
    ]
    return np.array(found, dtype=bool)


_NAMESPACE: Final = re.compile(r"\b\w+::")


def _plain(name: str) -> str:
    return _NAMESPACE.sub("", name.lower())


def _parts(path: str, form: Callable[[str], str]) -> list[str]:
    """Return the names of the op and of what contains it, without the numbers of equal ones."""
    return [form(part.partition("[")[0]) for part in path.split("/") if part]


def _kernels_named(graph: Graph, name: str) -> Bool:
    pattern = name if "*" in name else f"*{name}*"
    found = [fnmatchcase(kernel_name, pattern) for kernel_name in graph.data.names.long]
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
    """Divide the time of the work of a name by ``factor``."""

    def apply(scenario: Scenario) -> Scenario:
        chosen = find_rows(scenario.graph, name)
        duration = scenario.durations.duration_ns
        faster = np.where(chosen, np.rint(duration / factor), duration).astype(np.int64)
        return scenario.with_durations(duration_ns=faster)

    return apply


def remove(name: str) -> Change:
    """Remove the work of a name, and its launches."""

    def apply(scenario: Scenario) -> Scenario:
        graph, edges = scenario.graph, scenario.graph.edges
        chosen, calls = find_rows(graph, name), _calls_of(graph, name)
        into = (edges.kind == EdgeKind.SYNC) & calls[_call_of(graph, edges)]
        lag = np.where(into, NEVER, scenario.durations.lag_ns)
        step = without_ops(graph, scenario.durations.cpu_step_ns, find_ops(graph, name), calls)
        return _removed(scenario.with_durations(lag_ns=lag), chosen, step)

    return apply


def _calls_of(graph: Graph, name: str) -> Bool:
    """Return which calls of the CPU chains ops of a name make."""
    return np.append(find_ops(graph, name), False)[graph.data.calls.op[graph.call_row]]


def _call_of(graph: Graph, edges: Edges) -> Int64:
    """Call of the CPU chains that each edge leads to; the last one for edges into work."""
    last = len(graph.call_row) - 1
    return np.where(edges.target_type == Source.CPU, edges.target // 2, last)


def _removed(scenario: Scenario, chosen: Bool, step: Int64) -> Scenario:
    """Leave out some rows, and the calls that launch them."""
    graph, durations = scenario.graph, scenario.durations
    launch = graph.launch[chosen & (graph.launch >= 0)]
    step[launch + 1] = 0
    return scenario.with_durations(
        cpu_step_ns=step,
        duration_ns=np.where(chosen, 0, durations.duration_ns),
        gap_ns=without_gaps(graph, durations.gap_ns, chosen),
    )


TF32_FACTOR, HALF_FACTOR, HALF_OVER_TF32 = 5.0, 6.0, 1.8
"""How much faster matrix products run: of FP32 as TF32 and with 16 bits, and of TF32 with 16 bits.

The peaks differ more. On an H100 and an H200, linear layers became 5.2 and 6.0 times faster as
TF32. With 16 bits a detector saved 22 % of a step, for which these factors give 24 %, and a model
of words 37 %, for which they give 41 %; other kernels gain too little to count (half of their time
gave 38 and 41 %)."""


def tensor_cores(scenario: Scenario) -> Scenario:
    """Run FP32 matrix products as TF32.

    Raises:
        UsageError: No such product is known.
    """
    rows = matrix_rows(scenario.graph)
    if not rows.any():
        raise UsageError(
            say("No op of the profile is known that could use Tensor Cores and does not.")
        )
    duration = scenario.durations.duration_ns
    faster = np.where(rows, np.rint(duration / TF32_FACTOR), duration).astype(np.int64)
    return replace(scenario.with_durations(duration_ns=faster), is_bound=True)


def half_precision(scenario: Scenario) -> Scenario:
    """Run matrix products with 16 bits.

    Raises:
        UsageError: All products run with 16 bits.
    """
    graph = scenario.graph
    half = np.append(graph.data.names.half, True)[graph.data.work.name[graph.work_row]]
    fp32 = matrix_rows(graph) & ~half
    tf32 = _of_products(graph) & ~matrix_rows(graph) & ~half
    if not (fp32 | tf32).any():
        raise UsageError(
            say("All matrix products of the profile run with 16 bits or fewer already.")
        )
    factor = np.where(fp32, HALF_FACTOR, np.where(tf32, HALF_OVER_TF32, 1.0))
    faster = np.rint(scenario.durations.duration_ns / factor).astype(np.int64)
    return replace(scenario.with_durations(duration_ns=faster), is_bound=True)


NCHW_NORM: Final = re.compile(
    r"\bbn_(?:fw|bw)\w*_1C11|batch_norm_(?:collect_statistics|transform_input|backward_\w+)_kernel"
)
"""Batch normalization of tensors whose channels are not last, by cuDNN and by PyTorch."""
NORM_SHARE, NORM_FACTOR = 0.4, 2.5
"""Ideal time over time of batch normalization with channels last (H100, H200: 0.41 forward, 0.44
backward), and how much faster it becomes where the ideal time is not known."""


def channels_last(scenario: Scenario) -> Scenario:
    """Leave out conversions of layouts for convolutions, and speed batch normalization up.

    The launches of the conversions go with them, and what prepares these; what leads to the first
    call of an op stays, because the op does.
    """
    graph, durations = scenario.graph, scenario.durations
    chosen = np.append(graph.data.converts, False)[graph.data.work.name[graph.work_row]]
    step = without_calls(graph, durations.cpu_step_ns, launching_calls(graph, chosen))
    op = graph.data.calls.op[graph.call_row]
    begins = np.flatnonzero(np.diff(op, prepend=NO_ROW))
    step[2 * begins] = durations.cpu_step_ns[2 * begins]
    done = _removed(scenario, chosen, step)
    norms = np.array([bool(NCHW_NORM.search(name)) for name in graph.data.names.long] + [False])
    share = np.append(graph.data.ideal_share, np.nan)[graph.data.work.op[graph.work_row]]
    ratio = np.where(np.isfinite(share), np.minimum(share / NORM_SHARE, 1), 1 / NORM_FACTOR)
    ratio[~norms[graph.data.work.name[graph.work_row]]] = 1
    duration = np.rint(done.durations.duration_ns * ratio).astype(np.int64)
    return replace(done.with_durations(duration_ns=duration), is_bound=True)


def matrix_rows(graph: Graph) -> Bool:
    """Return the rows of matrix products that could use Tensor Cores and do not."""
    uses = np.append(graph.data.names.uses_tc, True)[graph.data.work.name[graph.work_row]]
    result: Bool = _of_products(graph) & ~uses
    return result


def _of_products(graph: Graph) -> Bool:
    """Return the rows of kernels that may be the product of an op that can use Tensor Cores."""
    data, row = graph.data, graph.work_row
    # Without ops only the names of the kernels say what they compute.
    has_ops = bool(data.ops.eligible.any())
    eligible = np.append(data.ops.eligible | (not has_ops), False)[data.work.op[row]]
    products = np.array(
        [
            found.may_multiply and not found.is_helper and (has_ops or found.is_clear)
            for found in map(kernel_traits, data.names.long)
        ]
        + [False]
    )
    products[:-1] &= ~data.converts
    result: Bool = eligible & products[data.work.name[row]]
    return result


def no_synchronization(name: str = "") -> Change:
    """Let no call wait for a GPU; with a name, none that ops of that name make."""

    def apply(scenario: Scenario) -> Scenario:
        graph, edges = scenario.graph, scenario.graph.edges
        chosen = edges.kind == EdgeKind.SYNC
        if name:
            calls = _calls_of(graph, name)
            if not calls.any():
                raise _nothing_named(graph, name)
            chosen = chosen & calls[_call_of(graph, edges)]
        lag = np.where(chosen, NEVER, scenario.durations.lag_ns)
        return scenario.with_durations(lag_ns=lag)

    return apply


def fuse(name: str) -> Change:
    """Launch all work of a name in a step with one call; the work itself takes as long."""

    def apply(scenario: Scenario) -> Scenario:
        graph = scenario.graph
        chosen, calls = find_rows(graph, name), _calls_of(graph, name)
        calls[graph.launch[chosen & (graph.launch >= 0)] // 2] = True
        step = without_ops(graph, scenario.durations.cpu_step_ns, find_ops(graph, name), calls)
        return fused(scenario, chosen, step)

    return apply


def fused(scenario: Scenario, chosen: Bool, step_ns: Int64) -> Scenario:
    """Run some work back to back, with other times of the CPU."""
    gap = without_gaps(scenario.graph, scenario.durations.gap_ns, chosen)
    return replace(scenario.with_durations(cpu_step_ns=step_ns, gap_ns=gap), is_bound=True)


def graph_launch(scenario: Scenario) -> Scenario:
    """Launch all work of a step with one call, as a CUDA graph.

    Waiting for the data loader and for the GPU remains; all other time of the CPU does not.
    """
    return launch_once(LONGEST_NS)(scenario)


def launch_once(longest_ns: int) -> Change:
    """Launch as ``graph_launch`` does, but keep what takes the CPU longer than a time."""

    def apply(scenario: Scenario) -> Scenario:
        graph, step = scenario.graph, scenario.durations.cpu_step_ns
        kept = np.minimum(graph.loading_ns, np.maximum(step, 0))
        kept = np.where(step > longest_ns, step, kept)
        kept[graph.thread_first[:-1]] = step[graph.thread_first[:-1]]
        known = graph.launch[scenario.steps.first]
        kept[known[known >= 0] + 1] += GRAPH_LAUNCH_NS
        low = int(graph.work_start_ns[scenario.steps.first].min())
        lag_ns = scenario.durations.lag_ns
        is_thread = graph.edges.kind == EdgeKind.THREAD
        lag = np.where(is_thread, np.minimum(lag_ns, 0), lag_ns)
        gap = scenario.durations.gap_ns
        queued = (gap > GRAPH_GAP_NS) & (gap <= MAX_QUEUED_GAP_NS)
        queued[graph.stream_first[:-1]] = False
        return scenario.with_durations(
            cpu_step_ns=np.where(graph.cpu_time_ns >= low, kept, step),
            gap_ns=np.where(queued, GRAPH_GAP_NS, gap),
            lag_ns=np.where(lag_ns == NEVER, NEVER, lag),
        )

    return apply


LONGEST_NS = 1 << 60
GRAPH_GAP_NS = 600
"""Usual time between two nodes of a CUDA graph."""
GRAPH_LAUNCH_NS = 20_000
"""Usual time that the launch of a CUDA graph takes on the CPU."""


def roofline(name: str) -> Change:
    """Give work of a name the ideal time of its op; with no name, all work of which it is known.

    The ideal time is the longer of two: operations at the peak rate, bytes at the peak bandwidth.
    """

    def apply(scenario: Scenario) -> Scenario:
        graph, duration = scenario.graph, scenario.durations.duration_ns
        share = np.append(graph.data.ideal_share, np.nan)[graph.data.work.op[graph.work_row]]
        known = np.isfinite(share) & (share < 1)
        if name:
            known &= find_rows(graph, name)
        if not known.any():
            raise UsageError(
                say("The ideal time of none of this work is known."),
                hint=say("Record the sizes of tensors (record_shapes=True)."),
            )
        ideal = np.where(known, np.rint(duration * np.where(known, share, 1)), duration)
        done = scenario.with_durations(duration_ns=ideal.astype(np.int64))
        return replace(done, is_bound=True)

    return apply


Select: TypeAlias = Callable[[Graph], Bool]
"""Which rows of the work of a graph are changed."""

ASYNC_CALL_NS = 10_000
"""Time that the call of a copy takes that nothing waits for."""


def work_at(start_ns: Int64, end_ns: Int64) -> Select:
    """Select work by its measured times."""

    def select(graph: Graph) -> Bool:
        work, row = graph.data.work, graph.work_row
        same = np.zeros(len(work), dtype=bool)
        if len(start_ns):  # Most work is outside of the steps that are looked at closely.
            near = np.flatnonzero((work.start_ns >= start_ns.min()) & (work.end_ns <= end_ns.max()))
            same[near] = np.isin(work.start_ns[near], start_ns) & np.isin(work.end_ns[near], end_ns)
        return same[row] & ~graph.is_arrival

    return select


def speed_up_rows(select: Select, factor: float) -> Change:
    """Divide the time of some work by ``factor``."""

    def apply(scenario: Scenario) -> Scenario:
        duration = scenario.durations.duration_ns
        faster = np.where(select(scenario.graph), np.rint(duration / factor), duration)
        return scenario.with_durations(duration_ns=faster.astype(np.int64))

    return apply


def shrink_rows(select: Select, ratio: float) -> Change:
    """Multiply the times of some work, the gaps before it and its launches by ``ratio``."""

    def apply(scenario: Scenario) -> Scenario:
        graph, durations = scenario.graph, scenario.durations
        chosen = select(graph)
        calls = np.repeat(launching_calls(graph, chosen), 2)
        calls[graph.thread_first[:-1]] = False
        gaps = chosen.copy()
        gaps[graph.stream_first[:-1]] = False
        loading = np.minimum(graph.loading_ns, durations.cpu_step_ns)
        return scenario.with_durations(
            duration_ns=_scaled(durations.duration_ns, chosen, ratio),
            gap_ns=_scaled(durations.gap_ns, gaps, ratio),
            cpu_step_ns=np.maximum(_scaled(durations.cpu_step_ns, calls, ratio), loading),
        )

    return apply


def _scaled(time_ns: Int64, rows: Bool, ratio: float) -> Int64:
    """Return some of the times multiplied, where they are positive."""
    result = np.where(rows & (time_ns > 0), np.rint(time_ns * ratio), time_ns)
    return result.astype(np.int64)


def fuse_rows(select: Select, factor: float) -> Change:
    """Launch the selected work with a single call and divide its GPU time by ``factor``.

    It is the first one of those that follow each other, and what leads to it stays.
    """

    def apply(scenario: Scenario) -> Scenario:
        graph, step = scenario.graph, scenario.durations.cpu_step_ns
        chosen = select(graph)
        calls = launching_calls(graph, chosen)
        follows = np.append(False, calls[:-1])
        follows[graph.thread_first[:-1] // 2] = False
        done = fused(scenario, chosen, without_calls(graph, step, calls & follows))
        return speed_up_rows(lambda _: chosen, factor)(done)

    return apply


def overlap_rows(select: Select) -> Change:
    """Run some work beside the rest, and let nothing wait for it."""
    return lambda scenario: overlapped(scenario, select(scenario.graph))


def copy_unwaited(select: Select, duration_ns: Callable[[Int64], Int64]) -> Change:
    """Give some copies another time, and let their calls return at once.

    Args:
        select: The copies.
        duration_ns: Time of copies by their measured starts.
    """

    def apply(scenario: Scenario) -> Scenario:
        graph, edges, durations = scenario.graph, scenario.graph.edges, scenario.durations
        chosen = select(graph)
        duration = durations.duration_ns.copy()
        duration[chosen] = np.minimum(duration[chosen], duration_ns(graph.work_start_ns[chosen]))
        launch = np.unique(graph.launch[chosen & (graph.launch >= 0)])
        step = durations.cpu_step_ns.copy()
        step[launch + 1] = np.minimum(step[launch + 1], ASYNC_CALL_NS)
        waits = (edges.kind == EdgeKind.SYNC) & (edges.target_type == Source.CPU)
        waits &= np.isin(edges.target, launch + 1)
        lag = np.where(waits, NEVER, durations.lag_ns)
        done = scenario.with_durations(duration_ns=duration, cpu_step_ns=step, lag_ns=lag)
        return replace(done, is_bound=True)

    return apply


def without_cpu_time(pauses: Flattened) -> Change:
    """Return what the CPU does in some intervals takes no time."""

    def apply(scenario: Scenario) -> Scenario:
        graph, step = scenario.graph, scenario.durations.cpu_step_ns.copy()
        bounds = zip(graph.thread_first[:-1].tolist(), graph.thread_first[1:].tolist(), strict=True)
        for low, high in bounds:
            recorded = graph.recorded_ns[low:high]
            covered = np.diff(pauses.covered_before(recorded))
            stays = 1 - covered / np.maximum(np.diff(recorded), 1)
            own = step[low + 1 : high]
            step[low + 1 : high] = np.where(own > 0, np.rint(own * stays), own)
        return scenario.with_durations(cpu_step_ns=step)

    return apply
