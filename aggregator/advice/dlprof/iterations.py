"""Detectors that look at the iterations of the aggregated range."""

from __future__ import annotations

import numpy as np

from aggregator.advice.dlprof.evidence import Evidence, Issue
from aggregator.options import Mode
from aggregator.profile.arrays import Int64
from aggregator.texts import say

HIGH_VARIATION = 0.5
"""From this ratio of standard deviation to mean of the iteration times a range is reported."""
SIMILAR = 0.25  # Iterations are similar if they differ from the median by at most this share of it.
FEWEST_ITERATIONS = 4  # The variation of fewer iterations is not judged.


def detect_no_iterations(evidence: Evidence) -> Issue | None:
    """Detect that no key node was found; simple mode has no iterations by design."""
    if evidence.window.iterations.has_key_node or evidence.data.mode == Mode.SIMPLE:
        return None
    return Issue(
        detector="no_iterations_detector",
        problem=say(
            "Unable to split profile into training iterations: key op {name} not found",
            name=evidence.requested_key_node,
        ),
        recommendation=say("Specify key op by setting the --key_op argument"),
    )


def detect_bad_iteration_range(evidence: Evidence) -> Issue | None:
    """Detect that the times of the aggregated iterations vary a lot; recommend a steady range.

    Within the steady range of the profile there is nothing to recommend.
    """
    window, steady = evidence.window, evidence.steady
    if window.count < FEWEST_ITERATIONS or not window.iterations.has_key_node:
        return None
    if steady is not None and steady[0] <= window.first and window.last <= steady[1]:
        return None
    length = window.iterations.length_ns[window.inside]
    mean = float(length.mean())
    if mean <= 0 or float(length.std()) / mean < HIGH_VARIATION:
        return None
    run = _recommended(evidence)
    if run is not None and run != (window.first, window.last):
        advice = say(
            "Try limiting the iteration range to a steady range by rerunning with the --database "
            "option and setting --iter_start={start} --iter_stop={stop}",
            start=run[0],
            stop=run[1],
        )
    else:
        advice = say(
            "No range of similar iterations was found. Profile more iterations, or select another "
            "key node with --key_node"
        )
    return Issue(
        detector="bad_iteration_range_detector",
        problem=say(
            "The aggregated iteration range of {first} to {last} contains a lot of variation",
            first=window.first,
            last=window.last,
        ),
        recommendation=advice,
    )


def _recommended(evidence: Evidence) -> tuple[int, int] | None:
    """First and last iteration of a range to aggregate: the steady range, else similar ones."""
    window, steady = evidence.window, evidence.steady
    if steady is not None and window.first <= steady[0] and steady[1] <= window.last:
        return steady
    run = steady_run(window.iterations.length_ns[window.inside])
    return None if run is None else (window.first + run[0], window.first + run[1])


def steady_run(length_ns: Int64) -> tuple[int, int] | None:
    """Find the longest run of similar iterations.

    A run may contain single iterations that are not similar.

    Args:
        length_ns: Iteration times. Unit: ns.

    Returns:
        First and last row, inclusive; None if there is no such run.
    """
    if len(length_ns) < FEWEST_ITERATIONS:
        return None
    median = float(np.median(length_ns))
    similar = np.abs(length_ns - median) <= SIMILAR * median
    rows = np.flatnonzero(similar)
    if len(rows) < 2:
        return None
    runs = np.split(rows, np.flatnonzero(np.diff(rows) > 2) + 1)
    longest = max(runs, key=len)
    return (int(longest[0]), int(longest[-1])) if len(longest) >= 2 else None
