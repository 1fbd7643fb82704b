"""The steps of an aggregation and the typical one, as rows of its database."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from aggregator.dldb.guarded import DAMAGE
from aggregator.dldb.writer import Table, Value, has_table
from aggregator.events.steps import (
    Cycles,
    Instances,
    Launched,
    Marks,
    Statistic,
    Steps,
    TypicalStep,
    cut_cycles,
    find_period,
    find_steps,
    join_ranks,
    merge_processes,
    typical_step,
    why_uneven,
)
from aggregator.events.store import EventStore
from aggregator.metrics.loops import Kind
from aggregator.metrics.model import RollupInput
from aggregator.metrics.steady import has_several_loops
from aggregator.metrics.window import Window
from aggregator.profile.arrays import Bool, Int64
from aggregator.texts import Text, say

_MARKS: Final = {
    Kind.STEP: Marks.WHOLE,
    Kind.COUNTED: Marks.WHOLE,
    Kind.PROGRAM: Marks.COVER,
    Kind.LOADER: Marks.BEGIN,
    Kind.GRADIENTS: Marks.BEGIN,
    Kind.OPTIMIZER: Marks.END,
    Kind.FORWARD: Marks.COVER,
    Kind.RANGE: Marks.COVER,
}
_OWNERS: Final = (Kind.STEP, Kind.COUNTED, Kind.PROGRAM)
"""Kinds of candidates whose instances are the steps, whatever cuts the iterations."""


@dataclass(frozen=True)
class _Work:
    """Kernels and whole graphs in order of launch."""

    process: Int64
    launched: Launched


@dataclass(frozen=True)
class _Candidate:
    name: str
    kind: Kind
    key_node: str
    is_chosen: bool


@dataclass(frozen=True)
class _Loop:
    """The steps of a profile's loop, and the iteration in which each lies."""

    steps: Steps
    number: Int64
    reason: Text | str = ""  # How it was found, where no range marks it.


def step_tables(
    connection: sqlite3.Connection,
    store: EventStore,
    aggr: int,
    data: RollupInput,
    window: Window,
    given_ns: int,
) -> Iterator[Table]:
    """Yield the rows of the steps of an aggregation.

    Args:
        connection: The database, which holds the events.
        store: Its events.
        aggr: Number of the aggregation.
        data: The columns of the default domain.
        window: Its iterations.
        given_ns: Step without profiling that the user gave; 0: none.

    Raises:
        sqlite3.Error: The database is damaged.
    """
    if not has_table(connection, "typical_steps"):
        return
    try:
        loop = _find_loop(connection, store, data, window)
    except DAMAGE as error:
        raise sqlite3.DatabaseError(f"its values do not fit together ({error})") from error
    inside = np.zeros(0, dtype=bool)
    if loop is not None:
        inside = _inside(loop, window)
        yield _step_rows(aggr, loop, inside)
    yield _typical_row(aggr, loop, inside, given_ns)


def _inside(loop: _Loop, window: Window) -> Bool:
    """Return which steps the aggregation covers and count for the typical one."""
    covered: Bool = np.isin(loop.number, window.numbers)
    typical: Bool = covered & loop.steps.is_typical
    return typical if typical.any() else covered


def _step_rows(aggr: int, loop: _Loop, inside: Bool) -> Table:
    return Table(
        "steps",
        {
            "aggr": aggr,
            "step": np.arange(len(loop.steps), dtype=np.int64),
            "iter_value": loop.number,
            "start": loop.steps.start_ns,
            "stop": loop.steps.end_ns,
            "is_typical": inside.astype(np.int64),
        },
    )


def _typical_row(aggr: int, loop: _Loop | None, inside: Bool, given_ns: int) -> Table:
    row: dict[str, Value] = dict.fromkeys(
        ("statistic", "median", "mean", "p10", "p90", "first", "last"), None
    )
    row |= {"aggr": aggr, "given": given_ns or None, "steps": 0, "loop_steps": 0}
    row |= {"reason": "", "loop_reason": "", "gaps": "[]"}
    if loop is not None:
        row["loop_steps"] = len(loop.steps)
        row["loop_reason"] = loop.reason
        row["gaps"] = json.dumps(
            [
                {"kind": str(kind), "ns": ns, "count": count}
                for kind, ns, count in loop.steps.between
            ]
        )
    if loop is not None and inside.any():
        length, number = loop.steps.length_ns[inside], loop.number[inside]
        found = typical_step(length)
        row |= _columns(found)
        row |= {"steps": len(length), "first": int(number[0]), "last": int(number[-1])}
        if found.statistic is Statistic.MEAN:
            row["reason"] = why_uneven(length, np.flatnonzero(inside))
    return Table("typical_steps", {name: [value] for name, value in row.items()})


def _columns(found: TypicalStep) -> dict[str, Value]:
    return {
        "statistic": str(found.statistic),
        "median": found.median_ns,
        "mean": found.mean_ns,
        "p10": found.p10_ns,
        "p90": found.p90_ns,
    }


def _find_loop(
    connection: sqlite3.Connection, store: EventStore, data: RollupInput, window: Window
) -> _Loop | None:
    """The loop of the key node, or of the kernels where no range could mark one; None: no loop."""
    key_node = window.key_node
    if not key_node.name:
        return _of_kernels(store, data)
    work = _read_work(store)
    candidates = _candidates(connection)
    is_default = key_node.name == data.default_key[0]
    owner = _owner(candidates, key_node.name, is_default=is_default)
    loaders = [row.name for row in candidates if row.kind is Kind.LOADER]
    found = [
        cut_cycles(instances, _of_process(work, process))
        for process, instances in _instances(data, window, owner, loaders)
    ]
    if has_several_loops(data, window):
        parts = found
    else:
        joined = _joined(found)
        parts = [] if joined is None else [joined]
    parts = [cycles for cycles in parts if cycles.is_step.any()]
    if not parts:
        return None
    steps = merge_processes([find_steps(cycles) for cycles in parts])
    number = np.searchsorted(window.iterations.end_ns, steps.mark_ns, side="right")
    return _Loop(steps, np.minimum(number, len(window.iterations) - 1).astype(np.int64))


def _joined(found: list[Cycles]) -> Cycles | None:
    """Return the turns of all ranks, or of the one that worked most if their numbers differ."""
    if len(found) < 2:
        return found[0] if found else None
    return join_ranks(found) or max(found, key=lambda item: int(item.work.sum()))


def _candidates(connection: sqlite3.Connection) -> list[_Candidate]:
    query = "SELECT name, kind, key_node, is_chosen FROM key_node_candidates ORDER BY id"
    return [
        _Candidate(str(name), Kind(kind), str(key_node), bool(is_chosen))
        for name, kind, key_node, is_chosen in connection.execute(query)
    ]


def _owner(candidates: list[_Candidate], key_node: str, *, is_default: bool) -> tuple[str, Marks]:
    """Return the range whose instances say where steps begin and end; empty: the key node's own."""
    named = [row for row in candidates if key_node in (row.key_node, row.name)]
    is_chosen = is_default or any(row.is_chosen for row in named)
    chosen = [row for row in candidates if row.is_chosen] if is_chosen else named
    for kind in _OWNERS:
        for row in chosen:
            if row.kind is kind:
                return row.name, _MARKS[kind]
    exact = next((row for row in named if row.name == key_node), None)
    if exact is None:
        return "", Marks.BEGIN
    return ("" if _MARKS[exact.kind] is not Marks.COVER else exact.name), _MARKS[exact.kind]


def _instances(
    data: RollupInput, window: Window, owner_marks: tuple[str, Marks], loaders: Sequence[str]
) -> Iterator[tuple[int, Instances]]:
    ranges, key_node = data.ranges, window.key_node
    owner, marks = owner_marks
    for process, stops in zip(key_node.processes, key_node.stops_ns, strict=True):
        start, end = stops, stops
        if owner:
            rows = (ranges.name == ranges.names.index(owner)) & (ranges.process == process)
            order = np.argsort(ranges.start_ns[rows], kind="stable")
            start, end = ranges.start_ns[rows][order], ranges.end_ns[rows][order]
        if not len(end):
            continue
        updates = _updates(data, process)
        own_marks = marks
        if marks is Marks.BEGIN and not owner and _is_after(key_node.name, end, updates):
            own_marks = Marks.END
        if own_marks is Marks.END:
            fetches = _fetches(data, process, loaders)
            if _is_fetched_once(fetches, updates):
                start, end, own_marks = fetches, fetches, Marks.BEGIN
            else:
                end = _last_updates(data, process, end)
        yield process, Instances(start, end, own_marks, updates)


def _fetches(data: RollupInput, process: int, loaders: Sequence[str]) -> Int64:
    """Return the ends of the calls that take a batch from a data loader in a process."""
    ranges = data.ranges
    codes = [row for row, name in enumerate(ranges.names) if name in loaders]
    rows = np.isin(ranges.name, codes) & (ranges.process == process)
    return np.sort(ranges.end_ns[rows])


def _is_fetched_once(fetches_ns: Int64, updates_ns: Int64) -> bool:
    """Return whether each update has a batch of its own, and few batches have no update."""
    if not len(fetches_ns) or not len(updates_ns):
        return False
    own = np.searchsorted(fetches_ns, updates_ns) - 1
    is_own = own[0] >= 0 and bool((np.diff(own) > 0).all())
    return bool(is_own) and 2 * (len(fetches_ns) - len(own)) <= len(own)


def _last_updates(data: RollupInput, process: int, end_ns: Int64) -> Int64:
    """Ends of the last of several optimizers that take turns, from those of one of them."""
    ranges = data.ranges
    last = end_ns
    for row, name in enumerate(ranges.names):
        if not name.startswith(_UPDATE):
            continue
        rows = (ranges.name == row) & (ranges.process == process)
        other = np.sort(ranges.end_ns[rows])
        if len(other) != len(end_ns) or not (other >= last).all():
            continue
        if (other[:-1] <= end_ns[1:]).all():
            last = other
    return last


_UPDATE: Final = "Optimizer.step#"
"""Begins the names of the ranges of optimizers."""


def _is_after(name: str, end_ns: Int64, updates_ns: Int64) -> bool:
    """Return whether clearing the gradients ends a step: the first update comes before it."""
    is_clearing = "zero_grad" in name
    return is_clearing and bool(len(updates_ns)) and int(updates_ns[0]) <= int(end_ns[0])


def _updates(data: RollupInput, process: int) -> Int64:
    ranges = data.ranges
    codes = [row for row, name in enumerate(ranges.names) if name.startswith(_UPDATE)]
    rows = np.isin(ranges.name, codes) & (ranges.process == process)
    return np.sort(ranges.end_ns[rows])


def _read_work(store: EventStore) -> _Work:
    columns = ("process", "api_start", "start", "duration")
    parts = [store.integers(table, columns) for table in ("kernels", "graph_launches")]
    process, launch, start, duration = np.concatenate([np.stack(part) for part in parts], axis=1)
    order = np.argsort(launch, kind="stable")
    name, size = store.integers("kernels", ("name", "size"))
    code = np.full(len(order), -1, dtype=np.int64)
    code[: len(name)] = name * (int(size.max(initial=0)) + 1) + size
    end = start + duration
    launched = Launched(launch[order], end[order], duration[order], code[order])
    return _Work(process[order] - 1, launched)


def _of_process(work: _Work, process: int) -> Launched:
    rows, all_work = work.process == process, work.launched
    return Launched(*(getattr(all_work, name)[rows] for name in Launched.__dataclass_fields__))


def _of_kernels(store: EventStore, data: RollupInput) -> _Loop | None:
    """Return the loop that launches the same kernels again and again, or None if there is none.

    Only of programs without any range: where ranges name parts of a pass, kernels that are repeated
    are parts, too.
    """
    if len(data.ranges.names):
        return None
    work = _read_work(store)
    if not len(work.process):
        return None
    process = int(np.bincount(work.process, work.launched.duration_ns.astype(float)).argmax())
    own = _of_process(work, process)
    begins = find_period(own.name, own.duration_ns)
    if not len(begins):
        return None
    times = own.launch_ns[begins]
    # Turns that launch more have no name that says what it is.
    unnamed = replace(own, name=own.name[:0])
    steps = find_steps(cut_cycles(Instances(times, times, Marks.COVER), unnamed))
    reason = say(
        "no range marks a loop; the same kernels are launched again and again, {count} times",
        count=len(steps),
    )
    return _Loop(steps, np.zeros(len(steps), dtype=np.int64), reason)
