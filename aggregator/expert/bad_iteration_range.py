"""An aggregated range whose iterations differ a lot, with the range that would be steady."""

from __future__ import annotations

import numpy as np

from aggregator.expert.evidence import Evidence, Issue
from aggregator.profile import Int64
from aggregator.texts import say

HIGH_VARIATION = 0.5
"""Standard deviation over mean of the iterations' lengths from which a range counts as bad."""
SIMILAR = 0.25
"""Iterations are alike when they differ from the median by no more than this share of it."""
FEWEST_ITERATIONS = 4
"""Fewer say nothing about variation."""


def steady_run(length_ns: Int64) -> tuple[int, int] | None:
    """First and last row of the longest run of like iterations, inclusive; None: there is none.

    A run may hold single iterations that are not alike: as long as those around it are, it goes on.

    Args:
        length_ns: Lengths of the iterations. Unit: ns.
    """
    if len(length_ns) < FEWEST_ITERATIONS:
        return None
    median = float(np.median(length_ns))
    alike = np.abs(length_ns - median) <= SIMILAR * median
    rows = np.flatnonzero(alike)
    if len(rows) < 2:
        return None
    pieces = np.split(rows, np.flatnonzero(np.diff(rows) > 2) + 1)
    longest = max(pieces, key=len)
    return (int(longest[0]), int(longest[-1])) if len(longest) >= 2 else None


def detect(evidence: Evidence) -> Issue | None:
    """Fires when the lengths of the aggregated iterations vary a lot."""
    window = evidence.window
    if window.count < FEWEST_ITERATIONS or not window.iterations.has_key_node:
        return None
    inside = slice(window.first, window.last + 1)
    length = (window.iterations.stop_ns - window.iterations.start_ns)[inside]
    mean = float(length.mean())
    if mean <= 0 or float(length.std()) / mean < HIGH_VARIATION:
        return None
    run = steady_run(length)
    if run is not None and (run[0] > 0 or run[1] < window.count - 1):
        advice = say(
            "Rerun dlprof with --database and --iter_start={start} --iter_stop={stop}, a range in "
            "which the iterations are alike",
            start=window.first + run[0],
            stop=window.first + run[1],
        )
    else:
        advice = say(
            "No range of like iterations was found. Profile more iterations, or name another key "
            "node with --key_node"
        )
    return Issue(
        detector="bad_iteration_range_detector",
        problem=say(
            "The iteration range {first} to {last} contains a lot of variation between iterations",
            first=window.first,
            last=window.last,
        ),
        recommendation=advice,
    )
