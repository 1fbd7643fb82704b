"""Work that a range's thread gave to helper threads, which say nothing about it themselves.

XLA's autotuner is the case: the thread that compiles a program waits inside ``XlaCompile`` while a
pool of threads compiles candidates, fills buffers, runs the candidates and compares the results.
Only the runs themselves lie in ranges. A call of such a thread belongs to the compilation if

* it lies in no range of the framework's domain,
* its thread compiles or autotunes, and never runs a program of the user's,
* and a compilation of its process is open when it starts.

Threads that carry no range of the domain are left alone: the runtime's own transfers run there.
"""

from __future__ import annotations

import numpy as np

from aggregator.correlate.range_tree import RangeTree
from aggregator.correlate.ranges import innermost
from aggregator.frameworks.meaning import RangeKind, RangeMeaning
from aggregator.profile import Bool, Int32, Int64, Profile


def adopt_calls(
    profile: Profile, tree: RangeTree, meaning: RangeMeaning, domain: int, call_range: Int32
) -> Int32:
    """Range of each call, with those of helper threads filled in.

    Args:
        profile: The profile.
        tree: Its nested ranges.
        meaning: What the range names mean.
        domain: The framework's domain.
        call_range: Position of the innermost range of each call; -1: none.
    """
    if not meaning.helped:
        return call_range
    api = profile.api_calls
    calls = np.flatnonzero((call_range < 0) & _is_helper(profile, tree, meaning)[api.thread])
    position = np.arange(len(tree.name))
    is_owner = tree.is_group() & np.isin(tree.name, list(meaning.helped))
    owner = tree.nesting.inherit(np.where(is_owner, position, -1).astype(np.int32))
    result = call_range.copy()
    for thread in np.unique(tree.thread[is_owner]).tolist():
        same = profile.thread_process[api.thread[calls]] == profile.thread_process[thread]
        rows = calls[same & (result[calls] < 0)]
        start = api.start_ns[rows]
        lane = np.full(len(rows), thread, dtype=np.int32)
        around = innermost(tree.nesting, lane, start, start + 1, domain)
        result[rows] = np.where(around >= 0, owner[np.maximum(around, 0)], -1)
    return result


def _is_helper(profile: Profile, tree: RangeTree, meaning: RangeMeaning) -> Bool:
    """Per thread: whether it works on overhead and never runs a program."""
    groups = np.flatnonzero(tree.kind == RangeKind.GROUP)

    def carries(labels: frozenset[str]) -> Int64:
        wanted = np.array([label in labels for label in meaning.labels], dtype=bool)
        return np.unique(tree.thread[groups[wanted[tree.label[groups]]]]).astype(np.int64)

    helper = np.zeros(len(profile.threads), dtype=bool)
    helper[np.setdiff1d(carries(meaning.overhead), carries(meaning.programs))] = True
    return helper
