"""The forward op of each backward node.

Rule (measured on current PyTorch): the forward range of a backward node is the last range with its
sequence number that started before the node, outside the backward pass of the same process. "Any
range with that number" is wrong: ranges that record no graph node have the number that the next
recorded op will get.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aggregator.profile.arrays import NO_ROW, distinct, ordered, sorting

if TYPE_CHECKING:
    from aggregator.profile.arrays import Bool, Int32, Int64, Integers


def link_forward(
    seq: Integers, start_ns: Int64, process: Integers, is_forward: Bool, is_node: Bool
) -> tuple[Int64, Int64]:
    """Link backward nodes to forward ranges.

    Args:
        seq: Sequence number of each range; -1: none.
        start_ns: Start of each range. Unit: ns.
        process: Process of each range; sequence numbers are per process.
        is_forward: Ranges that may be the forward range of a node.
        is_node: Backward nodes.

    Returns:
        Rows of the nodes that have a sequence number, and the row of the forward range of each;
        -1: not found.
    """
    has_number = seq >= 0
    nodes = np.flatnonzero(is_node & has_number)
    result = np.full(len(nodes), NO_ROW, dtype=np.int64)
    of_node = process[nodes]
    for number in distinct(of_node).tolist():
        own = of_node == number
        forward = np.flatnonzero(is_forward & has_number & (process == number)).astype(np.int32)
        result[own] = _last_before(_by_number(forward, seq, start_ns), nodes[own], seq, start_ns)
    return nodes, result


def _by_number(rows: Int32, seq: Integers, start_ns: Int64) -> Int32:
    """Rows by number and start; numbers grow with time, so most are in this order already."""
    order = sorting(seq[rows], start_ns[rows])
    return rows if order is None else rows[order]


def _last_before(forward: Int32, nodes: Int64, seq: Integers, start_ns: Int64) -> Int64:
    """The last of ``forward``, sorted by number and start, before each node, or ``NO_ROW``."""
    number, start, time = seq[forward], start_ns[forward], start_ns[nodes]
    first = np.searchsorted(number, seq[nodes], side="left")
    low, high = first.copy(), np.searchsorted(number, seq[nodes], side="right")
    searching = np.flatnonzero(low < high)
    while len(searching):
        middle = (low[searching] + high[searching]) // 2
        is_before = start[middle] < time[searching]
        low[searching[is_before]] = middle[is_before] + 1
        high[searching[~is_before]] = middle[~is_before]
        searching = searching[low[searching] < high[searching]]
    result = np.full(len(nodes), NO_ROW, dtype=np.int64)
    found = low > first
    result[found] = forward[low[found] - 1]
    return result


def occurrence_numbers(*keys: Int64 | Int32) -> Int64:
    """Return the number of earlier rows with the same keys as each row: 0, 1, 2, ..."""
    count = len(keys[0])
    if not count:
        return np.empty(0, dtype=np.int64)
    order = ordered(*keys)
    same = np.ones(count, dtype=bool)
    for key in keys:
        values = key[order]
        same[1:] &= values[1:] == values[:-1]
    same[0] = False
    position = np.arange(count)
    heads = np.maximum.accumulate(np.where(same, 0, position))
    result = np.empty(count, dtype=np.int64)
    result[order] = position - heads
    return result
