"""The forward op of each backward node.

Rule (measured on today's PyTorch): the forward range of a backward node is the last-started range
with its sequence number outside the backward pass of the same process, before the node started.
"Any range with that number" is wrong: ranges that record no graph node carry the number that the
next recorded op will get.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from aggregator.profile import Bool, Int32, Int64


def link_forward(
    seq: Int64, start_ns: Int64, process: Int32, is_forward: Bool, is_node: Bool
) -> tuple[Int64, Int64]:
    """Link backward nodes to forward ranges.

    Args:
        seq: Sequence number of each range; -1: none.
        start_ns: Start of each range. Unit: ns.
        process: Process of each range: every process counts its own numbers.
        is_forward: Ranges that may be the forward side.
        is_node: Backward nodes.

    Returns:
        Rows of the nodes that have a sequence number, and the row of the forward range of each;
        -1: none found.
    """
    forward = np.flatnonzero(is_forward & (seq >= 0))
    nodes = np.flatnonzero(is_node & (seq >= 0))
    result = np.full(len(nodes), -1, dtype=np.int64)
    if not len(forward) or not len(nodes):
        return nodes, result
    order = np.lexsort((start_ns[forward], seq[forward], process[forward]))
    forward = forward[order]
    group = _group_numbers(process[forward], seq[forward])
    heads = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]]))
    node_group = _find_groups(process, seq, forward[heads], nodes)
    # One sorted key (group, start) finds the last start before the node within its own group.
    # Ranks stand for the times: hours in ns and a million groups do not fit one int64 together.
    times = np.unique(np.concatenate([start_ns[forward], start_ns[nodes]]))
    span = len(times) + 1
    key = group * span + np.searchsorted(times, start_ns[forward])
    wanted = node_group * span + np.searchsorted(times, start_ns[nodes])
    found = np.searchsorted(key, wanted, side="left") - 1
    valid = (node_group >= 0) & (found >= 0)
    valid[valid] = group[found[valid]] == node_group[valid]
    result[valid] = forward[found[valid]]
    return nodes, result


def _group_numbers(process: Int32, seq: Int64) -> Int64:
    changed = (process[1:] != process[:-1]) | (seq[1:] != seq[:-1])
    return np.concatenate([[0], np.cumsum(changed)]).astype(np.int64)


def _find_groups(process: Int32, seq: Int64, heads: Int64, nodes: Int64) -> Int64:
    """Number of the (process, seq) group of each node; -1: no forward range has that number."""
    width = int(max(seq[heads].max(), seq[nodes].max())) + 1
    keys = process[heads].astype(np.int64) * width + seq[heads]
    wanted = process[nodes].astype(np.int64) * width + seq[nodes]
    found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    groups: Int64 = np.where(keys[found] == wanted, found, -1).astype(np.int64)
    return groups


def occurrence_numbers(*keys: Int64 | Int32) -> Int64:
    """For each row, how many earlier rows have the same keys: 0, 1, 2, ..."""
    count = len(keys[0])
    if not count:
        return np.empty(0, dtype=np.int64)
    order = np.lexsort(tuple(reversed(keys)))
    same = np.ones(count, dtype=bool)
    for key in keys:
        ordered = key[order]
        same[1:] &= ordered[1:] == ordered[:-1]
    same[0] = False
    position = np.arange(count)
    heads = np.maximum.accumulate(np.where(same, 0, position))
    result = np.empty(count, dtype=np.int64)
    result[order] = position - heads
    return result
