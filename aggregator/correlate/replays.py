"""Names the work that CUDA graphs replay: the ops that ran when the graphs were captured.

A replay has one call for all its kernels. Nsight Systems records when each node of a graph was
created, which is inside the call that was captured. A trace of the profiler records the captured
calls with the names of their kernels, in the order in which the graph runs them.

Each replay gets its own executions of the captured ops: they have GPU time, and no CPU time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from aggregator.correlate.instances import (
    NAMED_BY_CAPTURE,
    ROW_COLUMNS,
    Evidence,
    Instances,
    Origin,
    blank_columns,
)
from aggregator.correlate.work import ReplayedWork
from aggregator.frameworks.meaning import RangeMeaning
from aggregator.profile.arrays import (
    NO_ROW,
    Bool,
    Int32,
    Int64,
    Integers,
    empty_i64,
    ordered,
    row_codes,
)
from aggregator.profile.profile import Profile

_UPDATES = ("GraphExecUpdate", "GraphExecKernelNodeSetParams", "GraphExecNodeSetParams")
"""Calls that change a graph in place."""
_CREATING = ("GraphInstantiate", "GraphClone")
"""Calls that copy the nodes of other graphs."""
_MOST_CLONES = 8
_NESTED_CALLS = 4
"""A call of the runtime contains calls of the driver."""


@dataclass(frozen=True)
class Replays:
    """How each kernel, copy and set was launched, in this order of kinds."""

    # Row of the captured call, or -1 without one. Rows count through the calls of the profile, the
    # calls of each of its captures, and the modules of annotated nodes.
    call: tuple[Int64, ...]
    evidence: tuple[Integers, ...]  # ``Evidence`` values; ``RECORDED``: no graph launched it.


def find_replays(profile: Profile, calls: Sequence[Int32], alike: Integers) -> Replays | None:
    """Return the captured call of all work that graphs replayed, or None if there is none.

    Args:
        profile: The profile.
        calls: Launching call of each kernel, copy and set.
        alike: A number per call, equal for those of equal ops: the calls of the profile, then those
            of its captures.
    """
    works = (profile.kernels, profile.copies, profile.sets)
    is_graph = _calls_named(profile, ("GraphLaunch",))
    replayed = [_at(is_graph, call) for call in calls[: len(works)]]
    nodes = profile.graph_nodes
    if nodes.of_work:
        replayed = [
            known | (node >= 0) for known, node in zip(replayed, nodes.of_work, strict=True)
        ]
    if not any(kind.any() for kind in replayed):
        return None
    if nodes.of_work:
        found = _by_nodes(profile)
        named, missing = Evidence.NODE, Evidence.NO_CAPTURE
    else:
        found = _by_order(profile, calls[0], replayed[0], alike)
        found += [np.full(len(work), NO_ROW, dtype=np.int64) for work in works[1:]]
        named, missing = Evidence.ORDER, Evidence.NO_CAPTURE
        if any(len(capture_calls(source)) for source in (profile, *profile.captures)):
            missing = Evidence.OTHER_CAPTURE
    updated_ns = _first_update_ns(profile)
    first_node = sum(len(source.api_calls) for source in (profile, *profile.captures))
    annotations = profile.node_names.of_work or [np.full(len(work), NO_ROW) for work in works]
    evidence = []
    for work, call, known, captured, annotation in zip(
        works, calls, replayed, found, annotations, strict=False
    ):
        grade = np.where(captured >= 0, named, missing)
        grade[captured == _SEVERAL] = Evidence.AMBIGUOUS
        launched = np.where(call >= 0, profile.api_calls.start_ns[np.maximum(call, 0)], 0)
        grade[launched >= updated_ns[work.process]] = Evidence.UPDATED
        # The program's own word outlasts changes of the graph, and needs no capture.
        captured[annotation >= 0] = first_node + annotation[annotation >= 0]
        grade[annotation >= 0] = Evidence.ANNOTATED
        grade[~known] = Evidence.RECORDED
        captured[~np.isin(grade, NAMED_BY_CAPTURE)] = -1
        evidence.append(grade.astype(np.int8))
    return Replays(tuple(found), tuple(evidence))


_SEVERAL = -2
"""Several captures fit."""


def _calls_named(profile: Profile, parts: tuple[str, ...]) -> Bool:
    has = np.array([any(part in name for part in parts) for name in profile.strings], dtype=bool)
    result: Bool = has[profile.api_calls.name]
    return result


def _at(values: Bool, rows: Integers) -> Bool:
    """Return the values at rows; False at -1."""
    if not len(values):
        return np.zeros(len(rows), dtype=bool)
    result: Bool = values[np.maximum(rows, 0)] & (rows >= 0)
    return result


def capture_calls(profile: Profile) -> Int64:
    """Return the rows of the calls that begin to capture a graph."""
    return np.flatnonzero(_calls_named(profile, ("StreamBeginCapture",)))


def _first_update_ns(profile: Profile) -> Int64:
    """Return when each process first changed a graph in place. Unit: ns."""
    api = profile.api_calls
    result = np.full(len(profile.process_ids), np.iinfo(np.int64).max, dtype=np.int64)
    rows = np.flatnonzero(_calls_named(profile, _UPDATES))
    np.minimum.at(result, profile.thread_process[api.thread[rows]], api.start_ns[rows])
    return result


# --- executions of the captured ops ---------------------------------------------------------------


def add_replays(
    profile: Profile, instances: Instances, captured: Sequence[Instances], calls: Sequence[Int32]
) -> tuple[Instances, list[ReplayedWork]]:
    """Add an execution of each captured op for each replay.

    Args:
        profile: The profile.
        instances: Op instances of the profile.
        captured: Op instances of each of its captures, and of ``annotated_modules``.
        calls: Launching call of each kernel, copy and set.

    Returns:
        All instances, and what is known of the kernels, of the copies and of the sets.
    """
    columns, call_instance, paths = _sources(instances, captured)
    place = row_codes(columns["origin"], columns["label"], columns["path"])[1]
    replays = find_replays(profile, calls, place[call_instance]) if len(call_instance) else None
    if replays is None:
        return instances, []
    works = (profile.kernels, profile.copies, profile.sets)
    call, evidence = np.concatenate(replays.call), np.concatenate(replays.evidence)
    outside = (call >= 0) & (columns["origin"][call_instance[call]] == Origin.STRAY)
    call[outside], evidence[outside] = -1, Evidence.OUTSIDE
    pieces = _Pieces(
        launch=np.concatenate([call.astype(np.int64) for call in calls[: len(works)]]),
        call=call,
        evidence=evidence,
        start_ns=np.concatenate([work.start_ns for work in works]),
    )
    _mark_unknown(instances, pieces)
    more, owner = _executions(profile, columns, call_instance, pieces)
    instance: Int32 = np.where(owner >= 0, owner + len(instances), -1).astype(np.int32)
    instances.paths, instances.path = paths, columns["path"][: len(instances)]
    forward = more["forward"]
    more["forward"] = np.where(forward >= 0, forward + len(instances), -1).astype(np.int32)
    # Modules of annotated nodes follow the calls, and have no ranges.
    calls_of_sources = sum(len(source.api_calls) for source in (profile, *profile.captures))
    is_call = (owner >= 0) & (call < calls_of_sources)
    captured_call: Int32 = np.where(is_call, call, -1).astype(np.int32)
    ends = np.cumsum([len(work) for work in works])[:-1]
    return instances.extended(more), [
        ReplayedWork(*pair)
        for pair in zip(np.split(instance, ends), np.split(captured_call, ends), strict=True)
    ]


@dataclass(frozen=True)
class _Pieces:
    """Kernels, copies and sets."""

    launch: Int64  # Launching call, or ``NO_ROW``.
    call: Int64  # Captured call, or ``NO_ROW``.
    evidence: Integers  # ``Evidence`` values.
    start_ns: Int64  # Unit: ns.


def _sources(
    instances: Instances, captured: Sequence[Instances]
) -> tuple[dict[str, Integers], Int64, tuple[str, ...]]:
    parts = [{name: getattr(instances, name) for name in ROW_COLUMNS}]
    call_instance = [instances.call_instance.astype(np.int64)]
    # Two paths may be the same text: a group in one of the same name adds nothing.
    code_of: dict[str, int] = {}
    codes = [code_of.setdefault(path, len(code_of)) for path in instances.paths]
    parts[0]["path"] = np.array(codes, dtype=np.int32)[instances.path]
    first = len(instances)
    for graph in captured:
        part = {name: getattr(graph, name) for name in ROW_COLUMNS}
        codes = [code_of.setdefault(path, len(code_of)) for path in graph.paths]
        part["path"] = np.array(codes, dtype=np.int32)[graph.path]
        part["forward"] = np.where(graph.forward >= 0, graph.forward + first, -1).astype(np.int32)
        parts.append(part)
        call_instance.append(graph.call_instance.astype(np.int64) + first)
        first += len(graph)
    columns = {name: np.concatenate([part[name] for part in parts]) for name in ROW_COLUMNS}
    return columns, np.concatenate(call_instance), tuple(code_of)


def _mark_unknown(instances: Instances, pieces: _Pieces) -> None:
    """Work whose captured op is unknown belongs to the op that launched it."""
    rows = np.flatnonzero((pieces.evidence != Evidence.RECORDED) & (pieces.call < 0))
    rows = rows[pieces.launch[rows] >= 0]
    owner = instances.call_instance[pieces.launch[rows]]
    evidence = instances.evidence.copy()
    np.maximum.at(evidence, owner, pieces.evidence[rows].astype(evidence.dtype))
    instances.evidence = evidence


def _executions(
    profile: Profile, columns: dict[str, Integers], call_instance: Int64, pieces: _Pieces
) -> tuple[dict[str, Integers], Int64]:
    """Return columns of the executions, and that of each piece, or -1 if no graph launched it."""
    api = profile.api_calls
    rows = np.flatnonzero((pieces.call >= 0) & (pieces.launch >= 0))
    launch, evidence = pieces.launch[rows], pieces.evidence[rows].astype(np.int64)
    source = call_instance[pieces.call[rows]]
    first, inverse = row_codes(launch, source, evidence)
    start_ns = np.full(len(first), np.iinfo(np.int64).max)
    np.minimum.at(start_ns, inverse, pieces.start_ns[rows])
    order = ordered(api.start_ns[launch[first]], launch[first], start_ns)
    rank = np.argsort(order)
    launch, source, evidence = (column[first][order] for column in (launch, source, evidence))
    owner = np.full(len(pieces.launch), NO_ROW, dtype=np.int64)
    owner[rows] = rank[inverse]
    launch, source, evidence, forward = _with_forward(
        columns, api.start_ns, (launch, source, evidence)
    )
    more = {name: columns[name][source] for name in ROW_COLUMNS}
    more |= {
        "forward": forward,
        "start_ns": api.start_ns[launch],
        "end_ns": api.end_ns[launch],
        "cpu_time_ns": np.zeros(len(launch), dtype=np.int64),
        "thread": api.thread[launch],
        "evidence": evidence.astype(np.int8),
    }
    return more, owner


_Rows = tuple[Int64, Int64, Int64]
"""Launching call, source and evidence of executions."""


def _with_forward(
    columns: dict[str, Integers], start_ns: Int64, rows: _Rows
) -> tuple[Int64, Int64, Int64, Int64]:
    """Find the execution of the forward op of each backward one; those without work are added.

    It is in the same replay, or in the last one before: forward and backward may be two graphs.
    """
    launch, source, evidence = rows
    backward = np.flatnonzero(columns["origin"][source] == Origin.BACKWARD)
    wanted = columns["forward"][source[backward]].astype(np.int64)
    times, time_code = np.unique(start_ns[launch], return_inverse=True)
    width = len(times)
    key = source * width + time_code
    order = ordered(key)
    place = np.searchsorted(key[order], wanted * width + time_code[backward], side="right") - 1
    hit = order[np.maximum(place, 0)] if len(order) else place
    known = (place >= 0) & (source[hit] == wanted)
    lacking = backward[~known]
    pair, number = row_codes(launch[lacking], wanted[~known])
    forward = np.full(len(launch) + len(pair), NO_ROW, dtype=np.int64)
    forward[backward[known]] = hit[known]
    forward[lacking] = len(launch) + number
    return (
        np.append(launch, launch[lacking][pair]),
        np.append(source, wanted[~known][pair]),
        np.append(evidence, evidence[lacking][pair]),
        forward,
    )


# --- modules that the program wrote to the nodes --------------------------------------------------


def annotated_modules(
    profile: Profile, meaning: RangeMeaning
) -> tuple[RangeMeaning, list[Instances]]:
    """Op instances of the modules that are named at nodes, each with a call, and their labels."""
    modules = profile.node_names.modules
    if not modules:
        return meaning, []
    names = [*dict.fromkeys(name for name, _ in modules)]
    paths = [_module_path(name) for name in names]
    labels = {label: code for code, label in enumerate(meaning.labels)}
    label = [labels.setdefault(path[-1], len(labels)) for path in paths]
    count = len(names)
    columns = blank_columns(2 * count, Origin.FORWARD)
    columns["origin"] = np.repeat([Origin.FORWARD, Origin.BACKWARD], count).astype(np.int8)
    columns["label"] = np.array(2 * label, dtype=np.int32)
    columns["path"] = np.tile(np.arange(count, dtype=np.int32), 2)
    columns["forward"] = np.append(np.full(count, NO_ROW), np.arange(count)).astype(np.int32)
    zeros = np.zeros(2 * count, dtype=np.int64)
    times = dict.fromkeys(("start_ns", "end_ns", "cpu_time_ns", "thread"), zeros)
    row_of = {name: row for row, name in enumerate(names)}
    call_instance = [row_of[name] + count * is_backward for name, is_backward in modules]
    found = Instances(
        **{**columns, **times},
        call_instance=np.array(call_instance, dtype=np.int32),
        busy_start_ns=empty_i64(),
        busy_end_ns=empty_i64(),
        busy_process=empty_i64(),
        paths=tuple("".join(f"/{part}" for part in path[:-1]) + "/" for path in paths),
    )
    return replace(meaning, labels=tuple(labels)), [found]


def _module_path(name: str) -> list[str]:
    """Split ``layers.0.attention`` into its parts."""
    return [part for part in name.replace("/", "|").split(".") if part] or [name]


# --- Nsight Systems: by the creation of the nodes -------------------------------------------------


def _by_nodes(profile: Profile) -> list[Int64]:
    """The call in which the node of each kernel, copy and set was created; -1: not recorded."""
    nodes = profile.graph_nodes
    works = (profile.kernels, profile.copies, profile.sets)
    process = profile.thread_process[nodes.thread].astype(np.int64)
    call = _calls_at(profile, nodes.thread, nodes.time_ns)
    copying = _calls_named(profile, _CREATING)
    call[_at(copying, call)] = -1
    # A clone has a row of its own before the row that names its original.
    key = np.unique(np.stack([process, nodes.node]), axis=1)
    index = _Index(key)
    of_row = index.rows(process, nodes.node)
    cloned = nodes.original >= 0
    original = np.arange(key.shape[1])
    found = index.rows(process[cloned], nodes.original[cloned])
    original[of_row[cloned]] = np.where(found >= 0, found, of_row[cloned])
    for _ in range(_MOST_CLONES):
        original = original[original]
    of_node = np.full(key.shape[1], NO_ROW, dtype=np.int64)
    created = np.flatnonzero(~cloned & (call >= 0))[::-1]
    of_node[of_row[created]] = call[created]
    of_node = of_node[original]
    result = []
    for work, node in zip(works, nodes.of_work, strict=True):
        row = index.rows(work.process.astype(np.int64), node)
        result.append(np.where(row >= 0, of_node[np.maximum(row, 0)], -1).astype(np.int64))
    return result


class _Index:
    def __init__(self, key: Int64) -> None:
        self._row = {pair: row for row, pair in enumerate(zip(*key.tolist(), strict=True))}

    def rows(self, process: Int64, node: Int64) -> Int64:
        """Return the row of each pair, or -1 if it is unknown."""
        first, inverse = row_codes(process, node)
        pairs = zip(process[first].tolist(), node[first].tolist(), strict=True)
        found = np.array([self._row.get(pair, -1) for pair in pairs], dtype=np.int64)
        return found[inverse] if len(found) else np.empty(0, dtype=np.int64)


def _calls_at(profile: Profile, thread: Int32, time_ns: Int64) -> Int64:
    """The outermost of the nested calls that run on a thread at a time, or ``NO_ROW``."""
    api = profile.api_calls
    order = ordered(api.thread, api.start_ns)
    threads, starts = api.thread[order].astype(np.int64), api.start_ns[order]
    bounds = np.searchsorted(threads, np.arange(len(profile.threads) + 1))
    last = np.full(len(time_ns), NO_ROW, dtype=np.int64)
    for number in np.unique(thread).tolist():
        rows = np.flatnonzero(thread == number)
        low, high = int(bounds[number]), int(bounds[number + 1])
        last[rows] = low + np.searchsorted(starts[low:high], time_ns[rows], side="right") - 1
    result = np.full(len(time_ns), NO_ROW, dtype=np.int64)
    for back in range(_NESTED_CALLS):
        position = last - back
        fits = (position >= 0) & (position >= bounds[thread])
        row = order[np.maximum(position, 0)] if len(order) else np.zeros_like(position)
        fits &= api.end_ns[row] >= time_ns if len(order) else False
        result[fits] = row[fits]
    return result


# --- Traces of the profiler: by the order of the kernels ------------------------------------------


def _by_order(profile: Profile, call: Int32, replayed: Integers, alike: Integers) -> list[Int64]:
    """The captured call of each kernel; ``_SEVERAL``: several captures run these kernels."""
    kernels = profile.kernels
    result = np.full(len(kernels), NO_ROW, dtype=np.int64)
    captures = _captured_sequences(profile)
    rows = np.flatnonzero(replayed & (call >= 0))
    if not captures or not len(rows):
        return [result]
    rows = rows[ordered(call[rows], kernels.start_ns[rows])]
    edges = np.flatnonzero(np.diff(call[rows])) + 1
    for launch in np.split(rows, edges):
        found = captures.get(kernels.long_name[launch].astype(np.int32).tobytes(), [])
        if found:
            same = all(np.array_equal(alike[row], alike[found[0]]) for row in found[1:])
            result[launch] = found[0] if same else _SEVERAL
    return [result]


def _captured_sequences(profile: Profile) -> dict[bytes, list[Int64]]:
    code_of = {name: code for code, name in enumerate(profile.strings) if name}
    result: dict[bytes, list[Int64]] = {}
    first = 0
    for source in (profile, *profile.captures):
        api = source.api_calls
        if len(api.kernel) == len(api):
            names = np.array([code_of.get(name, -1) for name in source.strings], dtype=np.int32)
            for rows in _windows(source):
                result.setdefault(names[api.kernel[rows]].tobytes(), []).append(first + rows)
        first += len(api)
    return result


def _windows(profile: Profile) -> list[Int64]:
    """Return the calls that launch a kernel in each capture, in order."""
    api = profile.api_calls
    named = np.array([bool(name) for name in profile.strings], dtype=bool)
    launches = named[api.kernel]
    begins = capture_calls(profile)
    ends = np.flatnonzero(_calls_named(profile, ("StreamEndCapture",)))
    windows = []
    for begin in begins.tolist():
        own = ends[(api.thread[ends] == api.thread[begin])]
        own = own[api.start_ns[own] >= api.end_ns[begin]]
        if not len(own):
            continue
        end_ns = api.start_ns[own].min()
        inside = launches & (api.thread == api.thread[begin])
        inside &= (api.start_ns >= api.end_ns[begin]) & (api.start_ns < end_ns)
        rows = np.flatnonzero(inside)
        if len(rows):
            windows.append(rows[ordered(api.start_ns[rows])])
    return windows
