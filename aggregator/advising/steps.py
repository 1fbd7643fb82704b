"""The steady steps of an aggregation, read from its database."""

from __future__ import annotations

import sqlite3

import numpy as np

from aggregator.expert.advice.facts import Steps
from aggregator.expert.steps import steady_steps, window_of
from aggregator.profile import Int64


class NoSteps(Exception):
    """The aggregation holds no loop at a steady pace."""


_ITERATIONS = """
SELECT i.iter_value, i.kernel_low, i.kernel_high, i.start, i.stop,
       i.kind = 'iteration' AND i.aggregated AS is_candidate,
       (SELECT k.start FROM kernels AS k WHERE k.id = i.kernel_low AND k.id < i.kernel_high)
FROM iterations AS i WHERE i.aggr = ? ORDER BY i.iter_value
"""


def read_steps(connection: sqlite3.Connection, aggr: int) -> Steps:
    """Steady steps and the window of them to look at closely.

    Raises:
        NoSteps: There are none.
    """
    rows = connection.execute(_ITERATIONS, (aggr,)).fetchall()
    number, low, high, start, stop, candidate = (
        np.array([row[column] or 0 for row in rows], dtype=np.int64) for column in range(6)
    )
    graphs, graph_start = _graphs(connection, start, stop)
    launches = high - low + graphs
    begin = np.array([row[6] if row[6] is not None else -1 for row in rows], dtype=np.int64)
    begin = np.where((begin < 0) | ((graph_start >= 0) & (graph_start < begin)), graph_start, begin)
    length = _lengths(connection, rows, begin, launches)
    usable = (candidate == 1) & (begin >= 0)
    steady = steady_steps(number[usable], launches[usable], length[usable])
    if not len(steady):
        raise NoSteps
    first, last = window_of(steady)
    return Steps(
        number=steady,
        length_ns=length[np.searchsorted(number, steady)],
        first=first,
        last=last,
        api_low_ns=int(start[number == first][0]),
        api_high_ns=int(stop[number == last][0]),
    )


def _graphs(connection: sqlite3.Connection, start: Int64, stop: Int64) -> tuple[Int64, Int64]:
    """CUDA graphs launched per iteration, and when the first of them began; -1: none."""
    query = "SELECT api_start, start FROM graph_launches ORDER BY id"
    launched = np.array(connection.execute(query).fetchall(), dtype=np.int64).reshape(-1, 2)
    low, high = (np.searchsorted(launched[:, 0], edge) for edge in (start, stop))
    first = np.append(launched[:, 1], -1)[np.minimum(low, len(launched))]
    return high - low, np.where(high > low, first, -1)


def _lengths(
    connection: sqlite3.Connection, rows: list[tuple[int, ...]], begin: Int64, launches: Int64
) -> Int64:
    """Length of each iteration on the GPU; 0: unknown. Unit: ns.

    Up to the begin of the next one; where that does other things, to the end of its own work.
    """
    length = np.zeros(len(rows), dtype=np.int64)
    if len(rows) > 1:
        like = 2 * np.abs(np.diff(launches)) <= np.maximum(launches[1:], launches[:-1])
        known = like & (begin[:-1] >= 0) & (begin[1:] >= 0)
        length[:-1] = np.where(known, np.diff(begin), 0)
    for row in np.flatnonzero((length <= 0) & (begin >= 0)).tolist():
        query = "SELECT max(start + duration) FROM kernels WHERE id >= ? AND id < ?"
        end = connection.execute(query, (rows[row][1], rows[row][2])).fetchone()[0]
        length[row] = max((end or 0) - int(begin[row]), 0)
    return length
