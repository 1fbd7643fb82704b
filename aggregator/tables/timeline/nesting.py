"""Find the events of a lane that nest, and the modules around the ops of a thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from aggregator.events.model import OpCalls
from aggregator.profile.arrays import Bool, Int64, Integers, run_heads

_MOST_SETS = 200


def nested_sets(start_ns: Int64, end_ns: Int64) -> Iterator[Int64]:
    """Divide events into sets whose events nest: two of a set are disjoint, or one holds the other.

    Args:
        start_ns: Starts in order, of equal ones the longer event first.
        end_ns: Ends.

    Yields:
        Rows of each set in order; together all rows.
    """
    rows = np.arange(len(start_ns), dtype=np.int64)
    number = 0
    while len(rows):
        number += 1
        if number > _MOST_SETS:
            chosen = _disjoint(start_ns[rows], end_ns[rows])
        else:
            chosen = _nesting(start_ns[rows], end_ns[rows])
        yield rows[chosen]
        rows = rows[~chosen]


def disjoint_sets(start_ns: Int64, end_ns: Int64) -> Iterator[Int64]:
    """Divide events into sets without overlaps; the last of many sets may have some.

    Args:
        start_ns: Starts in order.
        end_ns: Ends.

    Yields:
        Rows of each set in order; together all rows.
    """
    rows = np.arange(len(start_ns), dtype=np.int64)
    number = 0
    while len(rows):
        number += 1
        chosen = np.ones(len(rows), dtype=bool)
        if number < _MOST_ROWS:
            chosen = _disjoint(start_ns[rows], end_ns[rows])
        yield rows[chosen]
        rows = rows[~chosen]


_MOST_ROWS = 40


def _nesting(start: Int64, stop: Int64) -> Bool:
    """Return a choice of events that nest, from the first on."""
    chosen = np.ones(len(start), dtype=bool)
    while True:
        crossing = np.flatnonzero(chosen)[_crossing(start[chosen], stop[chosen])]
        if not len(crossing):
            return chosen
        chosen[crossing] = False


def _crossing(start: Int64, stop: Int64) -> Int64:
    """Return the events that end after an event in which they begin."""
    ends = np.sort(np.maximum(stop, start + 1))
    depth = np.arange(len(start)) - np.searchsorted(ends, start, side="right")
    crossing: list[Int64] = []
    for level in range(1, int(depth.max(initial=0)) + 1):
        inner = np.flatnonzero(depth == level)
        outer = np.flatnonzero(depth == level - 1)
        around = outer[np.maximum(np.searchsorted(outer, inner) - 1, 0)]
        crossing.append(inner[(stop[inner] > stop[around]) | (around > inner)])
    return np.sort(np.concatenate(crossing)) if crossing else np.empty(0, dtype=np.int64)


def _disjoint(start: Int64, stop: Int64) -> Bool:
    """Return the events that begin after all before them have ended; the first always does."""
    ended = np.maximum.accumulate(np.maximum(stop, start))
    chosen: Bool = np.append(True, start[1:] >= ended[:-1])
    return chosen


@dataclass(frozen=True)
class ModuleSpans:
    """Times in which a thread ran ops of one module after the other."""

    start_ns: Int64
    end_ns: Int64
    name: Int64  # Index into ``names``.
    names: tuple[str, ...]


def module_spans(
    op_calls: OpCalls,
    names: Mapping[int, str],
    iteration_start_ns: Int64,
    *,
    is_cut: bool = False,
) -> ModuleSpans:
    """Return the modules of a thread's ops, from the paths in their names.

    Calls that follow each other in one module and iteration make one span; a span ends with the
    last of them.

    Args:
        op_calls: Calls of one thread in order of start.
        names: Path of each op by row, such as ``/GPT2/h/0/attn/Linear``.
        iteration_start_ns: Starts of iterations in order.
        is_cut: A span ends where the next one of its level begins, even within a call.
    """
    paths = _module_paths(names)
    deepest = max((len(path) for path in paths.values()), default=0)
    codes: dict[str, int] = {}
    iteration = np.searchsorted(iteration_start_ns, op_calls.start_ns, side="right")
    around: Integers = iteration  # Number of the run of the level above that each call is in.
    parts: list[tuple[Int64, Int64, Int64]] = []
    for level in range(deepest):
        code_of = np.full(max(names, default=0) + 1, -1, dtype=np.int64)
        for row, path in paths.items():
            if level < len(path):
                code_of[row] = codes.setdefault(path[level], len(codes))
        code = code_of[op_calls.op]
        run = np.cumsum(_changes(code) | _changes(around))
        heads = run_heads(run)
        if len(heads):
            stop = np.maximum.reduceat(op_calls.end_ns, heads)
            if is_cut:
                stop[:-1] = np.minimum(stop[:-1], op_calls.start_ns[heads[1:]])
            in_module = code[heads] >= 0
            span = op_calls.start_ns[heads], stop, code[heads]
            parts.append(tuple(column[in_module] for column in span))  # type: ignore[arg-type]
        around = run
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else []
    start, stop, name = columns or [np.empty(0, dtype=np.int64)] * 3
    return ModuleSpans(start, stop, name, tuple(codes))


def _module_paths(names: Mapping[int, str]) -> dict[int, tuple[str, ...]]:
    """Return the paths of the modules around each op, outermost first.

    An op whose path is that of a module itself, as the range of an iteration, is within it.
    """
    around = {row: _prefixes(name) for row, name in names.items()}
    modules = {path for paths in around.values() for path in paths[:-1]}
    return {
        row: paths if paths and paths[-1] in modules else paths[:-1]
        for row, paths in around.items()
    }


def _prefixes(name: str) -> tuple[str, ...]:
    words = name.strip("/").split("/")
    return tuple("/" + "/".join(words[: number + 1]) for number in range(len(words)))


def _changes(column: Integers) -> Bool:
    """Return the rows whose value is not that of the row before; the first one is none."""
    changes = np.zeros(len(column), dtype=bool)
    changes[1:] = column[1:] != column[:-1]
    return changes
