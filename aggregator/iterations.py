"""Cutting a profile into iterations at a key node, and finding a key node where none is given.

The guide's rule: N instances of the key node end N + 1 intervals,
``[0, n1.stop), [n1.stop, n2.stop), ..., [nN.stop, last)``. With several processes that have equally
many instances, the n-th boundary is the latest n-th stop; otherwise every stop is a boundary.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from difflib import get_close_matches

import numpy as np

from aggregator.errors import AmbiguousKeyNodeError, KeyNodeNotFoundError
from aggregator.profile import Int32, Int64, empty_i32, empty_i64
from aggregator.texts import say

KIND_BEFORE, KIND_ITERATION = "before", "iteration"


@dataclass(frozen=True)
class KeyNode:
    """What marks an iteration.

    Attributes:
        name: Range or op name as shown; empty: none.
        reason: Why it was chosen, in one line.
        stops_ns: Ends of its instances, one array per process, each in order. Unit: ns.
        processes: Process of each array of stops.
    """

    name: str = ""
    reason: str = ""
    stops_ns: tuple[Int64, ...] = field(default=())
    processes: tuple[int, ...] = ()

    @property
    def num_instances(self) -> int:
        """Instances over all processes."""
        return sum(len(stops) for stops in self.stops_ns)


@dataclass(frozen=True)
class Iterations:
    """Intervals that cover the profile without gap or overlap.

    Attributes:
        start_ns: Starts; the first is 0. Unit: ns.
        stop_ns: Stops, exclusive; each is the next one's start. Unit: ns.
        has_key_node: Whether a key node cut them; then interval 0 lies before the loop.
    """

    start_ns: Int64
    stop_ns: Int64
    has_key_node: bool

    def __len__(self) -> int:
        return len(self.start_ns)

    def of_time(self, time_ns: Int64) -> Int64:
        """Iteration of each time point; what lies after the last stop belongs to the last one."""
        found = np.searchsorted(self.start_ns, time_ns, side="right") - 1
        result: Int64 = np.clip(found, 0, len(self) - 1)
        return result


def boundaries(stops_ns: tuple[Int64, ...]) -> Int64:
    """Ends of iterations over all processes. Unit: ns."""
    present = [np.sort(stops) for stops in stops_ns if len(stops)]
    if not present:
        return np.empty(0, dtype=np.int64)
    if len({len(stops) for stops in present}) == 1:
        latest: Int64 = np.max(np.stack(present), axis=0)
        return latest
    return np.unique(np.concatenate(present))


def cut(key_node: KeyNode, last_ns: int) -> Iterations:
    """Cut ``[0, last)`` at the key node; without one it is a single interval."""
    stops = np.unique(boundaries(key_node.stops_ns))
    stops = stops[(stops > 0) & (stops < last_ns)]
    start = np.concatenate([[0], stops]).astype(np.int64)
    stop = np.concatenate([stops, [last_ns]]).astype(np.int64)
    return Iterations(start, stop, has_key_node=bool(len(stops)))


@dataclass(frozen=True)
class Stops:
    """Ends of the instances of a key node.

    Attributes:
        by_process: One sorted array per process. Unit: ns.
        processes: The process of each.
    """

    by_process: tuple[Int64, ...]
    processes: tuple[int, ...]

    def key_node(self, name: str, reason: str) -> KeyNode:
        """The key node that has these stops."""
        return KeyNode(name, reason, self.by_process, self.processes)


def stops_by_process(end_ns: Int64, process: Int32) -> Stops:
    """Split stops by process, each sorted. Unit: ns."""
    processes = tuple(int(number) for number in np.unique(process))
    return Stops(tuple(np.sort(end_ns[process == number]) for number in processes), processes)


@dataclass(frozen=True)
class NamedRanges:
    """Ranges that may mark an iteration: groups, data loaders, ranges of custom domains.

    Attributes:
        name: Code into ``names``.
        names: Names, counters normalised.
        start_ns: Unit: ns.
        end_ns: Unit: ns.
        process: Process of each range.
        domain: Domain of all of them, where they are of one.
    """

    name: Int32
    names: tuple[str, ...]
    start_ns: Int64
    end_ns: Int64
    process: Int32
    domain: int = 0

    @staticmethod
    def empty() -> NamedRanges:
        """No ranges at all."""
        return NamedRanges(empty_i32(), (), empty_i64(), empty_i64(), empty_i32())

    def stops_of(self, code: int) -> Stops:
        """Ends of the ranges of one name, per process. Unit: ns."""
        rows = np.flatnonzero(self.name == code)
        return stops_by_process(self.end_ns[rows], self.process[rows])


@dataclass(frozen=True)
class OpInstancesView:
    """What the choice of a key node needs of the ops.

    Attributes:
        op_ids: Op ID per op.
        op_names: Op name per op.
        directions: Direction per op.
        processes: Process per op.
        op: Op of each instance.
        end_ns: End of each instance. Unit: ns.
    """

    op_ids: tuple[str, ...]
    op_names: tuple[str, ...]
    directions: tuple[str, ...]
    processes: tuple[int, ...]
    op: Int32
    end_ns: Int64

    def stops_of(self, ops: list[int]) -> Stops:
        """Ends of the instances of some ops, per process. Unit: ns."""
        rows = np.flatnonzero(np.isin(self.op, ops))
        process = np.array(self.processes, dtype=np.int32)[self.op[rows]]
        return stops_by_process(self.end_ns[rows], process)


def resolve_key_node(wanted: str, ops: OpInstancesView, ranges: NamedRanges) -> KeyNode:
    """Find the key node a person named: an Op ID, an op name or a range name.

    Raises:
        KeyNodeNotFoundError: Nothing has that name; the hint gives the closest.
        AmbiguousKeyNodeError: Several ops of one process have that name and direction.
    """
    if wanted in ops.op_ids:
        row = ops.op_ids.index(wanted)
        return ops.stops_of([row]).key_node(wanted, say("given as Op ID"))
    normalised = re.sub(r"\d+", "#", wanted)
    range_name = next((name for name in (wanted, normalised) if name in ranges.names), "")
    # A group's range comes before the op of its own name: not every run of it makes calls.
    named = _ops_named(wanted, ops) or ([] if range_name else _ops_labelled(wanted, ops))
    if named:
        per_process: dict[int, list[int]] = {}
        for row in named:
            per_process.setdefault(ops.processes[row], []).append(row)
        if any(len(rows) > 1 for rows in per_process.values()):
            ids = [ops.op_ids[row] for row in named]
            raise AmbiguousKeyNodeError(
                say("The key node '{wanted}' names {count} ops.", wanted=wanted, count=len(ids)),
                hint=say(
                    "Give one Op ID: {names}.",
                    names=", ".join([*ids[:10], *["..."][: len(ids) > 10]]),
                ),
                op_ids=list(ids),
            )
        return ops.stops_of(named).key_node(wanted, say("given as op name"))
    if range_name:
        stops = ranges.stops_of(ranges.names.index(range_name))
        return stops.key_node(range_name, say("given as range name"))
    raise _not_found(wanted, ops, ranges)


def _ops_named(wanted: str, ops: OpInstancesView) -> list[int]:
    """Ops of a name, with or without the rank in front; both directions fit: fprop."""
    rows = [
        row
        for row, name in enumerate(ops.op_names)
        if name == wanted
        or (
            name.startswith("/rank_") and name.partition("/rank_")[2].lstrip("0123456789") == wanted
        )
    ]
    forward = [row for row in rows if ops.directions[row] != "bprop"]
    return forward or rows


def _ops_labelled(wanted: str, ops: OpInstancesView) -> list[int]:
    """Ops whose range has a name: ``aten::conv2d`` or ``conv2d``; fprop where both fit."""
    label = wanted.rpartition("::")[2]
    pattern = re.compile(rf"(?:^|/){re.escape(label)}(?:\[\d+\])?$")
    rows = [row for row, name in enumerate(ops.op_names) if pattern.search(name)]
    forward = [row for row in rows if ops.directions[row] != "bprop"]
    return forward or rows


def _not_found(wanted: str, ops: OpInstancesView, ranges: NamedRanges) -> KeyNodeNotFoundError:
    known = list(dict.fromkeys([*ops.op_ids, *ops.op_names, *ranges.names]))
    close = get_close_matches(wanted, known, n=3, cutoff=0.5)
    if not close:
        lowered = {name.lower(): name for name in known}
        close = [
            lowered[m] for m in get_close_matches(wanted.lower(), list(lowered), n=3, cutoff=0.3)
        ]
    hint = (
        say("The closest names are: {names}.", names=", ".join(repr(name) for name in close))
        if close
        else say("List the ops with --reports=detail and give an Op ID.")
    )
    return KeyNodeNotFoundError(
        say("No op or range is called '{wanted}'.", wanted=wanted),
        hint=hint,
        closest=list(close),
    )


@dataclass(frozen=True)
class LoopHints:
    """What the automatic choice looks at; each is a code into ``NamedRanges.names``.

    Attributes:
        dataloaders: Names of data loader ranges.
        numbered: Names of user ranges that count (``iteration #``).
        programs: Those of ``numbered`` that are runs of a compiled program.
        optimizers: Names of optimizer steps.
        zero_grads: Names of ranges that clear gradients: what most loops begin with.
        steps: Names of steps that the profiler itself told.
        first_child: For a numbered range or a step, what begins every one of them, and its stops.
    """

    dataloaders: tuple[int, ...]
    numbered: tuple[int, ...]
    programs: tuple[int, ...]
    optimizers: tuple[int, ...]
    zero_grads: tuple[int, ...]
    steps: tuple[int, ...]
    first_child: dict[int, tuple[str, Stops]]


def choose_key_node(ranges: NamedRanges, hints: LoopHints) -> KeyNode:
    """Find a key node where none is given; an empty one if the profile shows no loop.

    The order follows what each leaves in interval 0: before the first stop of the data loader
    nothing of the loop was launched; an optimizer step ends the first iteration, and a gradient
    scaler skips some.
    """
    loader = _most_frequent(ranges, hints.dataloaders)
    if loader is not None:
        reason = say("the data loader hands out a batch once per iteration")
        return _chosen(ranges, loader, reason)
    numbered = _most_frequent(ranges, hints.numbered)
    if numbered is not None and numbered in hints.first_child:
        return _begun(ranges, hints, numbered)
    optimizer = _most_frequent(ranges, hints.optimizers)
    zero_grad = _most_frequent(ranges, hints.zero_grads)
    if numbered is None and zero_grad is not None and optimizer is not None:
        return _chosen(ranges, zero_grad, say("clearing the gradients begins every iteration"))
    if numbered is not None:
        reason = (
            say("the program that ran most often marks the iterations")
            if hints.programs
            else say("numbered ranges mark the iterations")
        )
        return _chosen(ranges, numbered, reason)
    return _without_loop(ranges, hints, optimizer)


def _without_loop(ranges: NamedRanges, hints: LoopHints, optimizer: int | None) -> KeyNode:
    """The profiler's own steps, behind what any capture of the script shows; then the optimizer."""
    step = _most_frequent(ranges, hints.steps)
    if step is not None:
        return _begun(ranges, hints, step)
    if optimizer is not None:
        return _chosen(ranges, optimizer, say("the optimizer steps once per iteration"))
    return KeyNode("", say("no data loader, numbered range or optimizer step was found"), ())


def _begun(ranges: NamedRanges, hints: LoopHints, code: int) -> KeyNode:
    """What begins every range of a name ends an interval: before it the range did nothing."""
    if code not in hints.first_child:
        return _chosen(ranges, code, say("numbered ranges mark the iterations"))
    name, stops = hints.first_child[code]
    return stops.key_node(name, say("it begins every range '{name}'", name=ranges.names[code]))


def _most_frequent(ranges: NamedRanges, codes: tuple[int, ...]) -> int | None:
    counts = {code: int(np.count_nonzero(ranges.name == code)) for code in codes}
    usable = {code: count for code, count in counts.items() if count >= 2}
    return max(usable, key=lambda code: usable[code]) if usable else None


def _chosen(ranges: NamedRanges, code: int, reason: str) -> KeyNode:
    return ranges.stops_of(code).key_node(ranges.names[code], reason)
