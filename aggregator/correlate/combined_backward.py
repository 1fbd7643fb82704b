"""Work of the autograd engine outside all ranges.

If the main thread has a user's range open, the work belongs to it: ``backward()`` waits there.
Otherwise a backward pass without ranges is one op, ``backward``.

DLProf's rule for a script that was not run under ``emit_nvtx``. The autograd engine runs the
backward pass on its own threads, which PyTorch names ``pt_autograd_0`` and so on. A call of such a
thread belongs to the combined op if its process has no range of a backward node at all. If the
capture has no names of a process's threads, the engine's are those that launch kernels without any
range, while another thread of the process has PyTorch's ranges.

One execution of the op is one backward pass. The forward thread waits for it, so a new one begins
after each kernel launch of the forward thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aggregator.correlate.instances import Origin, blank_columns
from aggregator.correlate.ranges import innermost
from aggregator.correlate.work import LaunchIndex
from aggregator.frameworks.meaning import RangeKind
from aggregator.profile.profile import ProfileWarning
from aggregator.texts import say

if TYPE_CHECKING:
    from aggregator.correlate.range_tree import RangeTree
    from aggregator.profile.arrays import Bool, Int32, Int64, Integers
    from aggregator.profile.profile import Profile

THREAD_PREFIX = "pt_autograd"
_MARKED = (RangeKind.WRAPPER, RangeKind.NODE)
_FORWARD = (RangeKind.OP, RangeKind.MODULE, RangeKind.GROUP, RangeKind.DATALOADER)


def find_passes(profile: Profile, tree: RangeTree, free: Int64) -> tuple[Int64, Int64]:
    """Find the calls of backward passes without ranges.

    Args:
        profile: The profile.
        tree: Its nested ranges.
        free: Calls outside all ranges.

    Returns:
        Rows of the calls in order of time per process, and the number of the pass of each.
    """
    if not len(free):
        return free, free
    api = profile.api_calls
    calls = free[_may_lack_ranges(profile, tree)[profile.thread_process[api.thread[free]]]]
    if not len(calls):
        return calls, calls
    launches = _launches(profile)
    engine = _engine_threads(profile, tree, launches)
    calls = calls[engine[api.thread[calls]]]
    if not len(calls):
        return calls, calls
    process = profile.thread_process[api.thread[calls]]
    order = np.lexsort((api.start_ns[calls], process))
    calls, process = calls[order], process[order]
    before = np.zeros(len(calls), dtype=np.int64)
    for number in np.unique(process).tolist():
        rows = process == number
        forward = _forward_launches(profile, tree, launches, engine, number)
        before[rows] = np.searchsorted(forward, api.start_ns[calls[rows]])
    changed = (np.diff(before, prepend=-1) != 0) | (np.diff(process, prepend=-1) != 0)
    kernels = int(np.count_nonzero(np.isin(launches, calls)))
    text = say(
        "kernels of the backward pass have no range, because emit_nvtx was not on: "
        "they are one op 'backward'."
    )
    profile.warnings.append(ProfileWarning("NO_BACKWARD_RANGES", text, kernels))
    return calls, (np.cumsum(changed) - 1).astype(np.int64)


def pass_columns(profile: Profile, calls: Int64, number: Int64) -> dict[str, Integers]:
    """Return columns of instances, one per backward pass, from the results of ``find_passes``."""
    api = profile.api_calls
    count = int(number[-1]) + 1 if len(number) else 0
    _, first = np.unique(number, return_index=True)
    start = api.start_ns[calls[first]]
    end = np.zeros(count, dtype=np.int64)
    np.maximum.at(end, number, api.end_ns[calls])
    return {
        **blank_columns(count, Origin.COMBINED),
        "start_ns": start,
        "end_ns": end,
        "cpu_time_ns": end - start,
        "thread": api.thread[calls[first]],
    }


def adopt_by_time(
    profile: Profile, tree: RangeTree, domain: int, call_range: Int32, launches: Int32
) -> Int32:
    """Range of each call (or ``NO_ROW``), completed for calls of the engine outside all ranges.

    Such a call belongs to the innermost group that is open on the main thread of its process, the
    one with the longest groups. Processes with ops but no range of a backward node are left out:
    their backward passes are found by ``find_passes``. ``launches`` are the calls that launched
    kernels, -1: not recorded; without names of threads they show which may be the engine's.
    """
    api, process = profile.api_calls, profile.thread_process
    count = len(profile.process_ids)
    has_ops = _has(tree.process[tree.kind == RangeKind.OP], count)
    chosen = ~has_ops | ~_may_lack_ranges(profile, tree)
    named = _is_named(profile)
    guesses = ~_has(process[named], count) & ~has_ops
    engine = named & chosen[process]
    if guesses.any():
        launching = _has(api.thread[launches[launches >= 0]], len(profile.threads))
        engine |= launching & guesses[process]
    free = np.flatnonzero((call_range < 0) & engine[api.thread])
    if not len(free):
        return call_range
    groups = np.flatnonzero(tree.is_group() & ~named[tree.thread])
    result = call_range.copy()
    for number in np.unique(process[api.thread[free]]).tolist():
        own = groups[tree.process[groups] == number]
        if not len(own):
            continue
        length = tree.nesting.end_ns[own] - tree.nesting.start_ns[own]
        main = int(np.bincount(tree.thread[own], weights=length).argmax())
        rows = free[(process[api.thread[free]] == number) & (api.thread[free] != main)]
        start = api.start_ns[rows]
        lane = np.full(len(rows), main, dtype=np.int32)
        around = innermost(tree.nesting, lane, start, start + 1, domain)
        result[rows] = np.where(around >= 0, tree.group[np.maximum(around, 0)], -1)
    return result


def has_engine_threads(profile: Profile) -> bool:
    """Return whether a thread with the autograd engine's name launched kernels."""
    launches = _launches(profile)
    return bool(_is_named(profile)[profile.api_calls.thread[launches]].any())


def _launches(profile: Profile) -> Int64:
    index = LaunchIndex(profile)
    found = [index.launching_call(work) for work in (profile.kernels, profile.graphs)]
    calls = np.unique(np.concatenate(found))
    return calls[calls >= 0].astype(np.int64)


def _is_named(profile: Profile) -> Bool:
    names = [profile.thread_names.get(tid, "") for tid in profile.threads.tolist()]
    return np.array([name.startswith(THREAD_PREFIX) for name in names], dtype=bool)


def _engine_threads(profile: Profile, tree: RangeTree, launches: Int64) -> Bool:
    """Return for each thread whether the engine runs backward passes without ranges on it."""
    count = len(profile.threads)
    process = profile.thread_process
    launching = _has(profile.api_calls.thread[launches], count)
    named = _is_named(profile)
    has_names = _has(process[named], len(profile.process_ids))
    has_ranges = _has(profile.ranges.thread, count)
    forward = _has(tree.thread[tree.is_any(*_FORWARD)], count)
    has_forward = _has(process[forward], len(profile.process_ids))
    # Ops with sequence numbers but no backward node: emit_nvtx was on, and no backward pass ran.
    numbered = _has(tree.process[tree.seq >= 0], len(profile.process_ids))
    can_guess = has_forward & ~has_names & ~numbered
    guessed = launching & ~has_ranges & can_guess[process]
    return (named | guessed) & _may_lack_ranges(profile, tree)[process]


def _may_lack_ranges(profile: Profile, tree: RangeTree) -> Bool:
    """Return for each process whether it has no range of a backward node."""
    has_backward = _has(tree.process[tree.is_any(*_MARKED)], len(profile.process_ids))
    return ~has_backward


def _has(values: Int32 | Int64, count: int) -> Bool:
    result = np.zeros(count, dtype=bool)
    result[values] = True
    return result


def _forward_launches(
    profile: Profile, tree: RangeTree, launches: Int64, engine: Bool, process: int
) -> Int64:
    """Return the starts of the launches of a process's forward thread. Unit: ns, sorted."""
    api = profile.api_calls
    thread = api.thread[launches]
    chosen = (profile.thread_process[thread] == process) & ~engine[thread]
    forward = _has(tree.thread[tree.is_any(*_FORWARD)], len(profile.threads))
    if (chosen & forward[thread]).any():
        chosen &= forward[thread]
    elif chosen.any():
        chosen &= thread == np.bincount(thread[chosen]).argmax()
    return np.sort(api.start_ns[launches[chosen]])
