"""Which iterations are steps of a loop at its steady pace."""

from __future__ import annotations

import numpy as np

from aggregator.profile import Int64

MOST_STEPS = 64
"""Steps that the advice looks at closely: the cost stays the same however long a profile is."""
SIMILAR_WORK = 0.2
"""A step launches as much as the median one, give or take this share."""
SLOW_START = 1.5
"""Steps at the beginning that take longer than this times the median are warm-up."""
FEWEST_STEPS = 2


def steady_steps(number: Int64, launches: Int64, length_ns: Int64) -> Int64:
    """Numbers of the steady steps, ascending; empty: no loop was found.

    From the first to the last iteration that launches as much as the median one, without the
    slow ones at the beginning. What is odd in between stays: it is part of the loop.

    Args:
        number: Numbers of the candidates: aggregated iterations that are not before the loop.
        launches: GPU work that each launches.
        length_ns: Length of each on the GPU; 0: unknown. Unit: ns.
    """
    ran = launches > 0
    if int(ran.sum()) < FEWEST_STEPS:
        return number[:0]
    usual = float(np.median(launches[ran]))
    alike = ran & (np.abs(launches - usual) <= SIMILAR_WORK * usual) & (length_ns > 0)
    rows = np.flatnonzero(alike)
    if len(rows) < FEWEST_STEPS or 2 * len(rows) < int(ran.sum()):
        return number[:0]
    median = float(np.median(length_ns[rows]))
    quick = rows[length_ns[rows] <= SLOW_START * median]
    if len(quick) < FEWEST_STEPS:
        return number[:0]
    first, last = int(quick[0]), int(rows[-1])
    inside = np.arange(first, last + 1)
    inside = inside[ran[inside] & (length_ns[inside] > 0)]
    return number[inside]


def window_of(number: Int64) -> tuple[int, int]:
    """First and last iteration to look at closely, inclusive: at most ``MOST_STEPS``."""
    surplus = len(number) - MOST_STEPS
    begin = max(surplus, 0) // 2
    end = min(begin + MOST_STEPS, len(number))
    return int(number[begin]), int(number[end - 1])
