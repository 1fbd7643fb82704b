"""The backward pass where nothing marked it: all its work is one op, ``backward``.

The guide's rule for a script that was not run under ``emit_nvtx``. The autograd engine runs the
backward pass on threads of its own, which PyTorch names ``pt_autograd_0`` and so on. A call of such
a thread belongs to the combined op if its process wrote no range of a backward node at all. Where
the capture tells no names of a process's threads, the engine's are those that launch kernels and
carry no range, while another thread of the process carries PyTorch's.

One execution of the op is one backward pass: the forward thread waits for it. So a new one begins
where the forward thread launched a kernel in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aggregator.correlate.launches import LaunchIndex
from aggregator.frameworks.meaning import RangeKind
from aggregator.profile import ProfileWarning
from aggregator.texts import say

if TYPE_CHECKING:
    from aggregator.correlate.range_tree import RangeTree
    from aggregator.profile import Bool, Int32, Int64, Integers, Profile

THREAD_PREFIX = "pt_autograd"
_MARKED = (RangeKind.WRAPPER, RangeKind.NODE)
_FORWARD = (RangeKind.OP, RangeKind.MODULE, RangeKind.GROUP, RangeKind.DATALOADER)


def find_passes(profile: Profile, tree: RangeTree, free: Int64) -> tuple[Int64, Int64]:
    """Calls of unmarked backward passes.

    Args:
        profile: The profile.
        tree: Its nested ranges.
        free: Calls that lie in no range.

    Returns:
        Rows of the calls in order of time per process, and the number of the pass of each.
    """
    if not len(free):
        return free, free
    api = profile.api_calls
    calls = free[_may_be_unmarked(profile, tree)[profile.thread_process[api.thread[free]]]]
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
        "kernels of the backward pass carry no range, because emit_nvtx was not on: "
        "they are one op 'backward'."
    )
    profile.warnings.append(ProfileWarning("NO_BACKWARD_RANGES", text, kernels))
    return calls, (np.cumsum(changed) - 1).astype(np.int64)


def pass_columns(profile: Profile, calls: Int64, number: Int64) -> dict[str, Integers]:
    """Columns of instances, one per backward pass; ``origin`` is the caller's.

    Args:
        profile: The profile.
        calls: As ``find_passes`` gives them.
        number: The pass of each.
    """
    api = profile.api_calls
    count = int(number[-1]) + 1 if len(number) else 0
    _, first = np.unique(number, return_index=True)
    start = api.start_ns[calls[first]]
    end = np.zeros(count, dtype=np.int64)
    np.maximum.at(end, number, api.end_ns[calls])
    none = np.full(count, -1, dtype=np.int32)
    return {
        "origin": none,
        "label": none,
        "path": np.zeros(count, dtype=np.int32),
        "range_name": none,
        "marker": none,
        "forward": none,
        "start_ns": start,
        "end_ns": end,
        "cpu_time_ns": end - start,
        "thread": api.thread[calls[first]],
        "shapes": none,
    }


def has_engine_threads(profile: Profile) -> bool:
    """Whether a thread that PyTorch names as its autograd engine's launched kernels."""
    launches = _launches(profile)
    return bool(_is_named(profile)[profile.api_calls.thread[launches]].any())


def _launches(profile: Profile) -> Int64:
    """Rows of the calls that launched a kernel or a graph."""
    index = LaunchIndex(profile)
    found = [index.launching_call(work) for work in (profile.kernels, profile.graphs)]
    calls = np.unique(np.concatenate(found))
    return calls[calls >= 0].astype(np.int64)


def _is_named(profile: Profile) -> Bool:
    names = [profile.thread_names.get(tid, "") for tid in profile.threads.tolist()]
    return np.array([name.startswith(THREAD_PREFIX) for name in names], dtype=bool)


def _engine_threads(profile: Profile, tree: RangeTree, launches: Int64) -> Bool:
    """Per thread: whether the engine runs unmarked backward passes on it."""
    count = len(profile.threads)
    process = profile.thread_process
    launching = _has(profile.api_calls.thread[launches], count)
    named = _is_named(profile)
    tells_names = _has(process[named], len(profile.process_ids))
    carries = _has(profile.ranges.thread, count)
    forward = _has(tree.thread[tree.is_any(*_FORWARD)], count)
    has_forward = _has(process[forward], len(profile.process_ids))
    # Numbered ops without a backward node: emit_nvtx was on, and nothing was differentiated.
    numbered = _has(tree.process[tree.seq >= 0], len(profile.process_ids))
    can_guess = has_forward & ~tells_names & ~numbered
    guessed = launching & ~carries & can_guess[process]
    result: Bool = (named | guessed) & _may_be_unmarked(profile, tree)[process]
    return result


def _may_be_unmarked(profile: Profile, tree: RangeTree) -> Bool:
    """Per process: whether it wrote no range of a backward node."""
    marked = _has(tree.process[tree.is_any(*_MARKED)], len(profile.process_ids))
    result: Bool = ~marked
    return result


def _has(values: Int32 | Int64, count: int) -> Bool:
    result = np.zeros(count, dtype=bool)
    result[values] = True
    return result


def _forward_launches(
    profile: Profile, tree: RangeTree, launches: Int64, engine: Bool, process: int
) -> Int64:
    """Starts of the launches of a process's forward thread. Unit: ns, sorted."""
    api = profile.api_calls
    thread = api.thread[launches]
    mine = (profile.thread_process[thread] == process) & ~engine[thread]
    carries = _has(tree.thread[tree.is_any(*_FORWARD)], len(profile.threads))
    if (mine & carries[thread]).any():
        mine &= carries[thread]
    elif mine.any():
        mine &= thread == np.bincount(thread[mine]).argmax()
    starts: Int64 = np.sort(api.start_ns[launches[mine]])
    return starts
