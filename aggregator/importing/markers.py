"""Count the markers before each call of CUDA, from which the cost of profiling is known."""

from __future__ import annotations

import numpy as np

from aggregator.profile.arrays import Int64, ordered
from aggregator.profile.profile import Profile


def markers_before_calls(profile: Profile) -> Int64:
    """Starts and ends of ranges since the call before in the thread, calls in order of start."""
    calls, marks = profile.api_calls, profile.marks
    kinds = (profile.ranges, profile.start_end_ranges)
    time = np.concatenate(
        [*(kind.start_ns for kind in kinds), *(kind.end_ns for kind in kinds), marks.time_ns]
    )
    of_thread = np.concatenate([*(kind.thread for kind in (*kinds, *kinds)), marks.thread])
    order = ordered(calls.start_ns)
    start, thread = calls.start_ns[order], calls.thread[order]
    result = np.zeros(len(start), dtype=np.int64)
    for number in np.unique(thread).tolist():
        rows = thread == number
        seen = np.searchsorted(np.sort(time[of_thread == number]), start[rows], side="right")
        result[rows] = np.diff(seen, prepend=0)
    return result
