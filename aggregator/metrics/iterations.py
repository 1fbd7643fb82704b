"""Key nodes: ranges and ops whose instances end the iterations, found by their names."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

import numpy as np

from aggregator.errors import AmbiguousKeyNodeError, KeyNodeNotFoundError
from aggregator.events.model import Ops
from aggregator.profile.arrays import Int32, Int64, Integers, empty_i32, empty_i64
from aggregator.profile.counters import template_of
from aggregator.texts import say


@dataclass(frozen=True)
class KeyNode:
    """Range or op whose instances end the iterations."""

    name: str = ""  # Range or op name as shown; empty: none.
    reason: str = ""  # Why it was chosen.
    # Ends of its instances, one array per process, each in order. Unit: ns.
    stops_ns: tuple[Int64, ...] = field(default=())
    processes: tuple[int, ...] = ()  # Process of each array of stops.

    def named(self, name: str, reason: str) -> KeyNode:
        """Return the same instances under a name."""
        return replace(self, name=name, reason=reason)

    @property
    def num_instances(self) -> int:
        """Instances over all processes."""
        return sum(len(stops) for stops in self.stops_ns)


def stops_by_process(end_ns: Int64, process: Integers) -> KeyNode:
    """Make a key node without a name of the ends of its instances and their processes."""
    processes = tuple(int(number) for number in np.unique(process))
    stops = tuple(np.sort(end_ns[process == number]) for number in processes)
    return KeyNode(stops_ns=stops, processes=processes)


@dataclass(frozen=True)
class NamedRanges:
    """Ranges that may mark an iteration: groups, data loaders, ranges of custom domains."""

    name: Int32  # Code into ``names``.
    names: tuple[str, ...]  # Names, with counters replaced by ``#``.
    start_ns: Int64  # Unit: ns.
    end_ns: Int64  # Unit: ns.
    process: Int32  # Process of each range.
    domain: int = 0  # Their domain, if they all have the same.

    @staticmethod
    def empty() -> NamedRanges:
        """Return no ranges at all."""
        return NamedRanges(empty_i32(), (), empty_i64(), empty_i64(), empty_i32())

    def stops_of(self, code: int) -> KeyNode:
        """Return the ends of the ranges of one name, per process. Unit: ns."""
        rows = np.flatnonzero(self.name == code)
        return stops_by_process(self.end_ns[rows], self.process[rows])


@dataclass(frozen=True)
class OpInstancesView:
    """Ops and their instances, for the search of a key node."""

    ops: Ops
    op: Int32  # Op of each instance.
    end_ns: Int64  # End of each instance. Unit: ns.

    def stops_of(self, ops: list[int]) -> KeyNode:
        """Return the ends of the instances of some ops, per process. Unit: ns."""
        rows = np.flatnonzero(np.isin(self.op, ops))
        process = self.ops.process[self.op[rows]]
        return stops_by_process(self.end_ns[rows], process)


def resolve_key_node(wanted: str, ops: OpInstancesView, ranges: NamedRanges) -> KeyNode:
    """Find a key node by Op ID, op name or range name.

    Raises:
        KeyNodeNotFoundError: Nothing has that name; the hint gives the closest.
        AmbiguousKeyNodeError: Several ops of one process have that name and direction.
    """
    if wanted in ops.ops.op_ids:
        row = ops.ops.op_ids.index(wanted)
        return ops.stops_of([row]).named(wanted, say("given as Op ID"))
    template = template_of(wanted)
    names = (wanted, template, template.replace("##", "#"))
    range_name = next((name for name in names if name in ranges.names), "")
    # The range of a group is preferred to an op of the same name: not every run makes calls.
    named = _ops_named(wanted, ops) or ([] if range_name else _ops_labeled(wanted, ops))
    if named:
        per_process: dict[int, list[int]] = {}
        for row in named:
            per_process.setdefault(int(ops.ops.process[row]), []).append(row)
        if any(len(rows) > 1 for rows in per_process.values()):
            ids = [ops.ops.op_ids[row] for row in named]
            raise AmbiguousKeyNodeError(
                say("The key node '{wanted}' names {count} ops.", wanted=wanted, count=len(ids)),
                hint=say(
                    "Give one Op ID: {names}.",
                    names=", ".join([*ids[:10], *["..."][: len(ids) > 10]]),
                ),
                op_ids=list(ids),
            )
        return ops.stops_of(named).named(wanted, say("given as op name"))
    if range_name:
        stops = ranges.stops_of(ranges.names.index(range_name))
        return stops.named(range_name, say("given as range name"))
    raise _not_found(wanted, ops, ranges)


def _ops_named(wanted: str, ops: OpInstancesView) -> list[int]:
    """Return the ops of a name, with or without the rank in front; both directions fit: fprop."""
    rows = [
        row
        for row, name in enumerate(ops.ops.names)
        if name == wanted
        or (
            name.startswith("/rank_") and name.partition("/rank_")[2].lstrip("0123456789") == wanted
        )
    ]
    forward = [row for row in rows if ops.ops.directions[row] not in ("bprop", "recompute")]
    return forward or rows


def _ops_labeled(wanted: str, ops: OpInstancesView) -> list[int]:
    """Return ops whose range has a name: ``aten::conv2d`` or ``conv2d``; fprop where both fit."""
    label = wanted.rpartition("::")[2]
    pattern = re.compile(rf"(?:^|/){re.escape(label)}(?:\[\d+\])?$")
    rows = [row for row, name in enumerate(ops.ops.names) if pattern.search(name)]
    forward = [row for row in rows if ops.ops.directions[row] not in ("bprop", "recompute")]
    return forward or rows


def _not_found(wanted: str, ops: OpInstancesView, ranges: NamedRanges) -> KeyNodeNotFoundError:
    known = list(dict.fromkeys([*ops.ops.op_ids, *ops.ops.names, *ranges.names]))
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
        say("No op or range is called '{wanted}'.", wanted=wanted), hint=hint, closest=list(close)
    )
