"""Read the steady steps of an aggregation: the iterations that advice is based on."""

from __future__ import annotations

import sqlite3

import numpy as np

from aggregator.advice.facts import Steps
from aggregator.profile.arrays import Int64

MAX_STEPS = 64
"""Number of steps that are read closely, so that the cost does not grow with the profile."""
SIMILAR_WORK = 0.2  # A step launches as much work as the median step, plus or minus this share.
SLOW_START = 1.5  # Steps at the beginning that take longer than this times the median are warm-up.
MIN_STEPS = 2


class NoStepsError(Exception):
    """No GPU work was found in the aggregation."""


_ITERATIONS = """
SELECT i.iter_value, i.kernel_low, i.kernel_high, i.start, i.stop,
       i.kind = 'iteration' AND i.aggregated AS is_candidate, i.aggregated,
       (SELECT k.start FROM kernels AS k WHERE k.id = i.kernel_low AND k.id < i.kernel_high)
FROM iterations AS i WHERE i.aggr = ? ORDER BY i.iter_value
"""


def read_steps(connection: sqlite3.Connection, aggr: int) -> Steps:
    """Read the steady steps of an aggregation and choose the window that is read closely.

    Without steady steps it is all of the aggregated range.

    Raises:
        NoStepsError: The range launches no GPU work.
    """
    rows = connection.execute(_ITERATIONS, (aggr,)).fetchall()
    number, low, high, start, stop, candidate = (
        np.array([row[column] or 0 for row in rows], dtype=np.int64) for column in range(6)
    )
    graphs, graph_start = _graphs(connection, start, stop)
    launches = high - low + graphs
    begin = np.array([row[7] if row[7] is not None else -1 for row in rows], dtype=np.int64)
    begin = np.where((begin < 0) | ((graph_start >= 0) & (graph_start < begin)), graph_start, begin)
    duration = _durations(connection, rows, begin, launches)
    usable = (candidate == 1) & (begin >= 0)
    steady = steady_steps(number[usable], launches[usable], duration[usable])
    if not len(steady):
        aggregated = np.array([row[6] for row in rows], dtype=bool)
        return _single_window(number[aggregated], start[aggregated], stop[aggregated])
    first, last = window_of(steady)
    return Steps(
        number=steady,
        length_ns=duration[np.searchsorted(number, steady)],
        first=first,
        last=last,
        api_low_ns=int(start[number == first][0]),
        api_high_ns=int(stop[number == last][0]),
    )


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


def _graphs(connection: sqlite3.Connection, start: Int64, stop: Int64) -> tuple[Int64, Int64]:
    """Return per iteration the number of CUDA graphs and the start of the first; -1 if none."""
    query = "SELECT api_start, start FROM graph_launches ORDER BY id"
    launched = np.array(connection.execute(query).fetchall(), dtype=np.int64).reshape(-1, 2)
    low, high = (np.searchsorted(launched[:, 0], edge) for edge in (start, stop))
    first = np.append(launched[:, 1], -1)[np.minimum(low, len(launched))]
    return high - low, np.where(high > low, first, -1)


def _durations(
    connection: sqlite3.Connection, rows: list[tuple[int, ...]], begin: Int64, launches: Int64
) -> Int64:
    """Return the duration of each iteration on the GPU; 0 if unknown. Unit: ns.

    An iteration lasts until the next one begins on the GPU, or until its own work ends if the next
    one launches much more or less work.
    """
    duration = np.zeros(len(rows), dtype=np.int64)
    if len(rows) > 1:
        similar = 2 * np.abs(np.diff(launches)) <= np.maximum(launches[1:], launches[:-1])
        known = similar & (begin[:-1] >= 0) & (begin[1:] >= 0)
        duration[:-1] = np.where(known, np.diff(begin), 0)
    for row in np.flatnonzero((duration <= 0) & (begin >= 0)).tolist():
        query = "SELECT max(start + duration) FROM kernels WHERE id >= ? AND id < ?"
        end = connection.execute(query, (rows[row][1], rows[row][2])).fetchone()[0]
        duration[row] = max((end or 0) - int(begin[row]), 0)
    return duration


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
