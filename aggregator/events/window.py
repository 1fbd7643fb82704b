"""Read the steady steps of an aggregation: the iterations that advice is based on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aggregator.events.store import EventStore
from aggregator.profile.arrays import Int64

MAX_STEPS = 64
"""Number of steps that are read closely, so that the cost does not grow with the profile."""
SIMILAR_WORK = 0.2  # A step launches as much work as the median step, plus or minus this share.
SLOW_START = 1.5  # Steps at the beginning that take longer than this times the median are warm-up.
MIN_STEPS = 2


class NoStepsError(Exception):
    """No GPU work was found in the aggregation."""


@dataclass(frozen=True)
class Steps:
    """The steady steps of the training loop, or the whole aggregated range as a single window."""

    number: Int64  # Iteration numbers of all steady steps, ascending.
    length_ns: Int64  # Duration of each on the GPU.
    first: int  # First iteration of the window, which is read closely.
    last: int  # Last iteration of the window, inclusive.
    api_low_ns: int  # Start of iteration ``first`` on the CPU.
    api_high_ns: int  # End of iteration ``last`` on the CPU, exclusive.
    is_single: bool = False  # Whether no repeating step was found: it is one window.
    is_stored: bool = False  # Whether they are the steps of ``view_steps``.

    @property
    def count(self) -> int:
        """Number of steps in the window; 1 for a single one."""
        return 1 if self.is_single else self.last - self.first + 1


def read_steps(store: EventStore, aggr: int) -> Steps:
    """Read the steady steps of an aggregation and choose the window that is read closely.

    Without steady steps it is all of the aggregated range.

    Raises:
        NoStepsError: The range launches no GPU work.
    """
    known = _stored_steps(store, aggr)
    if known is not None:
        return known
    names = ("iter_value", "start", "stop", "aggregated", "kernel_low", "kernel_high", "kind")
    rows = store.of_aggregation("iterations", aggr, *names)
    number, start, end, aggregated, low, high = (
        np.array([row[column] or 0 for row in rows], dtype=np.int64) for column in range(6)
    )
    is_iteration = np.array([row[6] == "iteration" for row in rows], dtype=bool)
    kernel_start, duration = store.integers("kernels", ("start", "duration"))
    low, high = low - 1, high - 1  # rows of the first kernel and of that after the last one
    has_kernels = (low < high) & (low < len(kernel_start))
    begin = np.where(has_kernels, np.append(kernel_start, 0)[np.where(has_kernels, low, -1)], -1)
    graphs, graph_start = _graphs(store, start, end)
    launches = high - low + graphs
    begin = np.where((begin < 0) | ((graph_start >= 0) & (graph_start < begin)), graph_start, begin)
    lengths = _lengths(begin, launches)
    for row in np.flatnonzero((lengths <= 0) & (begin >= 0)).tolist():
        own = slice(low[row], high[row])
        last = int((kernel_start[own] + duration[own]).max(initial=0))
        lengths[row] = max(last - int(begin[row]), 0)
    usable = is_iteration & (aggregated != 0) & (begin >= 0)
    steady = steady_steps(number[usable], launches[usable], lengths[usable])
    if not len(steady):
        inside = aggregated != 0
        return _single_window(number[inside], start[inside], end[inside])
    first, last = window_of(steady)
    return Steps(
        number=steady,
        length_ns=lengths[np.searchsorted(number, steady)],
        first=first,
        last=last,
        api_low_ns=int(start[number == first][0]),
        api_high_ns=int(end[number == last][0]),
    )


def _stored_steps(store: EventStore, aggr: int) -> Steps | None:
    """Return the typical steps of an aggregation, or None if none are stored, or too few."""
    if not store.has("steps"):  # In older databases.
        return None
    names = ("iter_value", "start", "stop", "kernel_low", "kernel_high")
    rows = store.of_aggregation("iterations", aggr, *names)
    iterations = np.array(rows, dtype=np.int64).reshape(-1, 5).T
    _, begin, end, low, high = iterations
    launches = high - low + _graphs(store, begin, end)[0]
    works = launches > 0
    rows = store.of_aggregation("steps", aggr, "step", "iter_value", "start", "stop", "is_typical")
    _, number, start, stop, is_typical = np.array(rows, dtype=np.int64).reshape(-1, 5).T
    kept = (is_typical > 0) & works[number] if len(number) else is_typical > 0
    number, length = number[kept], (stop - start)[kept]
    if len(number) < MIN_STEPS or len(np.unique(number)) < len(number):
        return None
    # A window ends where the next step begins: not before a pause or the end of the program.
    is_followed = np.append(start[1:] == stop[:-1], False)[kept]
    # Iterations are cut for all ranks together: the first ones may hold parts of steps.
    usual = float(np.median(launches[number]))
    similar = np.abs(launches[number] - usual) <= SIMILAR_WORK * usual
    is_followed[: int(similar.argmax())] = False
    closed = number[is_followed] if is_followed.sum() >= MIN_STEPS else number
    first_row, last_row = _longest_run(closed)
    first, last = window_of(closed[first_row:last_row])
    return Steps(
        number=number,
        length_ns=length,
        first=first,
        last=last,
        api_low_ns=int(begin[first]),
        api_high_ns=int(end[last]),
        is_stored=True,
    )


def read_unprofiled_step(store: EventStore, aggr: int) -> int | None:
    """Return the step without profiling, measured or else given by the user; None: unknown. ns."""
    measured = str(dict(store.values("dldb_meta", "key", "value")).get("bare_step_ns") or "")
    if measured.isdecimal():
        return int(measured) or None
    if not store.has("typical_steps"):  # In older databases.
        return None
    given = [row[0] for row in store.of_aggregation("typical_steps", aggr, "given")]
    return int(given[0]) if given and given[0] is not None else None


def _longest_run(number: Int64) -> tuple[int, int]:
    """Return the longest run of steps that follow each other, the end excluded."""
    edges = np.concatenate([[0], np.flatnonzero(np.diff(number) != 1) + 1, [len(number)]])
    row = int(np.diff(edges).argmax())
    return int(edges[row]), int(edges[row + 1])


def _single_window(number: Int64, start: Int64, stop: Int64) -> Steps:
    if not len(number):
        raise NoStepsError
    return Steps(
        number=number,
        length_ns=stop - start,
        first=int(number[0]),
        last=int(number[-1]),
        api_low_ns=int(start[0]),
        api_high_ns=int(stop[-1]),
        is_single=True,
    )


def _graphs(store: EventStore, start: Int64, end: Int64) -> tuple[Int64, Int64]:
    """Return per iteration the number of CUDA graphs and the start of the first; -1 if none."""
    api_start, start_ns = store.integers("graph_launches", ("api_start", "start"))
    low, high = (np.searchsorted(api_start, edge) for edge in (start, end))
    first = np.append(start_ns, -1)[np.minimum(low, len(start_ns))]
    return high - low, np.where(high > low, first, -1)


def _lengths(begin: Int64, launches: Int64) -> Int64:
    """Return the time to the begin of the next iteration on the GPU; 0 if that is unknown.

    It is not the length of an iteration if the next one launches much more or less work.
    """
    lengths = np.zeros(len(begin), dtype=np.int64)
    if len(begin) > 1:
        similar = 2 * np.abs(np.diff(launches)) <= np.maximum(launches[1:], launches[:-1])
        known = similar & (begin[:-1] >= 0) & (begin[1:] >= 0)
        lengths[:-1] = np.where(known, np.diff(begin), 0)
    return lengths


def steady_steps(number: Int64, launches: Int64, duration_ns: Int64) -> Int64:
    """Return the numbers of the steady steps, ascending; empty if there are none.

    They reach from the first to the last iteration that launches as much work as the median one,
    without slow ones at the beginning. Unusual iterations in between are part of the training loop
    and are kept.

    Args:
        number: Iteration numbers of the candidates.
        launches: Number of GPU operations that each of them launches.
        duration_ns: Duration of each of them on the GPU; 0 if unknown. Unit: ns.
    """
    ran = launches > 0
    if int(ran.sum()) < MIN_STEPS:
        return number[:0]
    usual = float(np.median(launches[ran]))
    similar = ran & (np.abs(launches - usual) <= SIMILAR_WORK * usual) & (duration_ns > 0)
    rows = np.flatnonzero(similar)
    if len(rows) < MIN_STEPS or 2 * len(rows) < int(ran.sum()):
        return number[:0]
    median = float(np.median(duration_ns[rows]))
    quick = rows[duration_ns[rows] <= SLOW_START * median]
    if len(quick) < MIN_STEPS:
        return number[:0]
    first, last = int(quick[0]), int(rows[-1])
    inside = np.arange(first, last + 1)
    inside = inside[ran[inside] & (duration_ns[inside] > 0)]
    return number[inside]


def window_of(number: Int64) -> tuple[int, int]:
    """Return the first and last of at most ``MAX_STEPS`` iterations from the middle, inclusive."""
    surplus = len(number) - MAX_STEPS
    begin = max(surplus, 0) // 2
    end = min(begin + MAX_STEPS, len(number))
    return int(number[begin]), int(number[end - 1])
