"""The steady range: iterations after warm-up and before the end of the program.

The first iterations of a program allocate memory, tune and compile kernels and fill queues; the
last interval holds what the program does after its loop. Neither says how long a step takes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aggregator.events.steps import PAUSE, RARE
from aggregator.metrics.model import RollupInput
from aggregator.metrics.window import Window
from aggregator.profile.arrays import Bool, Float64, Int64
from aggregator.texts import Text, say

MIN_STEPS = 4
"""Fewer steps show no steady state."""
_TOLERANCE = 0.25
"""Share of the median by which a step's time may differ from it."""
_KERNEL_TOLERANCE = 0.1
"""Share of the median by which a step's number of kernels may differ from it."""
_MIN_TYPICAL = 0.5
"""Share of the steps of a steady range that must be typical."""
_RUN = 3
"""So many typical steps one after another begin a steady range."""


_EMPTY = 0.8
"""Share of a step in which nothing is recorded, from which on it holds a pause."""


_OUTWEIGHS = 0.5
"""Pauses split the steady range if they are more than this share of the time of all steps."""


@dataclass(frozen=True)
class StepTimes:
    """Distribution of the times of an aggregation's steps."""

    steps: int  # Number of steps.
    median_ns: int | None  # Median time of a step; None: no steps. Unit: ns.
    p10_ns: int | None  # 10th percentile. Unit: ns.
    p90_ns: int | None  # 90th percentile. Unit: ns.


@dataclass(frozen=True)
class SteadyRange:
    """The steady iterations, or why there are none."""

    first: int  # First iteration; -1: there is no range.
    last: int  # Last iteration, inclusive; -1: there is no range.
    note: str  # What was left out and why, or why there is no range; one sentence.
    is_even: bool = True  # Its steps are alike; False: they are all that launch kernels.

    @property
    def exists(self) -> bool:
        """Whether there is a range."""
        return self.first >= 0


def has_several_loops(data: RollupInput, window: Window) -> bool:
    """Whether processes that are no ranks have loops: between their stops there is no step."""
    return not data.are_ranks and len(window.key_node.processes) > 1


def step_times(data: RollupInput, window: Window) -> StepTimes:
    """Percentiles over the steps of a window: its iterations except the one before the loop.

    Without a key node the only iteration is the whole profile, which is no step.
    """
    has_key_node = window.iterations.has_key_node
    length = window.iterations.length_ns[window.numbers[window.numbers >= 1]]
    if not has_key_node or not len(length) or has_several_loops(data, window):
        return StepTimes(0, None, None, None)
    p10, median, p90 = np.rint(np.percentile(length, (10, 50, 90))).astype(np.int64).tolist()
    return StepTimes(len(length), median, p10, p90)


def find_steady_range(data: RollupInput, window: Window) -> SteadyRange:
    """Find the steady iterations among all that the key node cuts.

    A step is typical if its time and its number of kernels are close to those of the median step.
    The range reaches from the first run of typical steps to the last typical step; what lies
    between, such as a validation, belongs to it. Steps with markers do not, if enough have none,
    and steps whose kernels are not all in the capture are not typical.

    Where steps differ too much, the range has all of them: start-up and an end without kernels may
    be as long as all steps together, and are none.
    """
    iterations = window.iterations
    if not iterations.has_key_node:
        return SteadyRange(-1, -1, say("no steady range: the profile has no iterations"))
    if has_several_loops(data, window):
        text = say("no steady range: processes that are no ranks have loops of their own")
        return SteadyRange(-1, -1, text)
    steps = len(iterations) - 1
    if steps < MIN_STEPS:
        text = say("no steady range: fewer than {count} steps", count=MIN_STEPS)
        return SteadyRange(-1, -1, text)
    kernels = np.diff(window.row_bounds(data.kernels.api_start_ns))[1:]
    typical = _is_typical(iterations.length_ns[1:], kernels) & ~iterations.is_between[1:]
    typical &= ~_lacks_work(data, iterations.edges_ns[1:])
    marked = int(np.searchsorted(iterations.start_ns[1:], data.marked_until_ns))
    if typical[marked:].sum() >= MIN_STEPS:
        typical[:marked] = False  # Markers slow them down; the later ones have none.
    # What was not recorded between two windows splits nothing: it is known to be no step.
    pauses = _pauses(data, iterations.edges_ns[1:]) & ~iterations.is_between[1:]
    typical = _between_pauses(typical, pauses)
    end = say("the recorded window") if data.is_part else say("the program")
    # Cycles of a profiler that pauses between them are short.
    least = _RUN if pauses.any() else MIN_STEPS
    low, high = _ends(typical)
    inside = typical[low : high + 1]
    if len(inside) < least or inside.mean() < _MIN_TYPICAL:
        return _steps_with_kernels(kernels, end)
    first, last = low + 1, high + 1  # the iteration before the loop is no step
    is_marked = marked > 0 and first == marked + 1
    # What holds a time that was not recorded has no length worth naming.
    length_ns = np.where(iterations.is_between, 0, iterations.length_ns)
    return SteadyRange(first, last, _note(length_ns, first, last, end, is_marked=is_marked))


def _steps_with_kernels(kernels: Int64, whole: Text) -> SteadyRange:
    """From the first to the last step that launches a kernel, of steps that differ too much."""
    with_kernels = np.flatnonzero(kernels)
    if not len(with_kernels):
        return SteadyRange(-1, -1, say("no steady range: the times of the steps differ too much"))
    first, last = (1 + with_kernels[[0, -1]]).tolist()  # the iteration before the loop is no step
    begin = (
        say("start-up (iteration 0)")
        if first == 1
        else say("start-up (iterations 0 to {last})", last=first - 1)
    )
    note = say(
        "no steady range: the times of the steps differ too much; left out: {begin}{end}",
        begin=begin,
        end=_empty_end(last + 1, len(kernels), whole),
    )
    return SteadyRange(first, last, note, is_even=False)


def _empty_end(first: int, last: int, whole: Text) -> str:
    """What lies behind the last step with kernels."""
    if first > last:
        return ""
    if first == last:
        return say("; the end of {whole} (iteration {last})", whole=whole, last=last)
    return say(
        "; the end of {whole} (iterations {first} to {last})", whole=whole, first=first, last=last
    )


def _lacks_work(data: RollupInput, edges_ns: Int64) -> Bool:
    """Mask of the steps of whose launches some have no kernel in the capture."""
    counts: Int64 = np.diff(np.searchsorted(data.missing_ns, edges_ns))
    return counts > 0


def _pauses(data: RollupInput, edges_ns: Int64) -> Bool:
    """Steps in which nothing is recorded for many times the median step: the profiler paused."""
    length = np.diff(edges_ns)
    result: Bool = length > PAUSE * np.median(length)
    if not 0 < result.sum() <= max(RARE * len(length), 1):
        return np.zeros(len(length), dtype=bool)
    rows = np.flatnonzero(result)
    bounds = np.stack([edges_ns[rows], edges_ns[rows + 1]], axis=1).ravel()
    times = (data.instances.start_ns, data.instances.end_ns, data.kernels.api_start_ns)
    # Only the times inside those few steps are sorted, not the millions of the whole profile.
    inside = [time[np.searchsorted(bounds, time, side="right") % 2 == 1] for time in times]
    recorded = np.sort(np.concatenate(inside))
    for row in rows.tolist():
        begin, end = edges_ns[row], edges_ns[row + 1]
        low, high = np.searchsorted(recorded, (begin, end))
        gaps = np.diff(np.concatenate([[begin], recorded[low:high], [end]]))
        result[row] = gaps.max() >= _EMPTY * length[row]
    # A short one changes little, and the steps on its other side are worth more.
    outweighs = bool(length[result].sum() > _OUTWEIGHS * length.sum())
    return result if outweighs else np.zeros(len(length), dtype=bool)


def _between_pauses(typical: Bool, pauses: Bool) -> Bool:
    """The typical steps of the longest run without a pause, if it is long enough."""
    edges = np.concatenate([[-1], np.flatnonzero(pauses), [len(typical)]])
    row = int(np.diff(edges).argmax())
    inside = np.zeros(len(typical), dtype=bool)
    inside[edges[row] + 1 : edges[row + 1]] = True
    kept: Bool = typical & inside
    return kept if pauses.any() and kept.sum() >= _RUN else typical


def _is_typical(length_ns: Int64, kernels: Int64) -> Bool:
    """Whether each step is close to the median one in time and in number of kernels."""
    result = _is_close(length_ns, _TOLERANCE)
    if kernels.any():
        result &= _is_close(kernels, _KERNEL_TOLERANCE)
    return result


def _is_close(values: Int64, tolerance: float) -> Bool:
    middle = float(np.median(values))
    distance: Float64 = np.abs(values - middle)
    # Where times scatter more, three standard deviations, estimated by the median distance.
    scatter = min(3 * 1.4826 * float(np.median(distance)), middle)
    close: Bool = distance <= max(tolerance * middle, scatter)
    return close


def _ends(typical: Bool) -> tuple[int, int]:
    """First step of a run of ``_RUN`` typical ones, and last typical step; (0, -1): no such run."""
    runs = np.lib.stride_tricks.sliding_window_view(typical, _RUN).all(axis=1)
    if not runs.any():
        return 0, -1
    return int(np.flatnonzero(runs)[0]), int(np.flatnonzero(typical)[-1])


def _note(length_ns: Int64, first: int, last: int, end: Text, *, is_marked: bool) -> str:
    return say(
        "iterations {first} to {last} are steady; left out: {begin}{end}",
        first=first,
        last=last,
        begin=_marked(first - 1) if is_marked else _begin(length_ns, first, last),
        end=_end(length_ns, first, last, end),
    )


def _marked(last: int) -> Text:
    return say("steps with markers, which slow them down (iterations 0 to {last})", last=last)


def _end(length_ns: Int64, first: int, last: int, whole: Text) -> Text | str:
    """What lies behind the steady range: the last interval has no step, those before it do."""
    final = len(length_ns) - 1
    if last >= final - 1:
        return (
            say("; the end of {whole} (iteration {last})", last=final, whole=whole)
            if last < final
            else ""
        )
    slow = float(length_ns[last + 1 : final].max() / np.median(length_ns[first : last + 1]))
    fields = {"a": last + 1, "b": final - 1, "last": final, "whole": whole}
    if last == final - 2:
        return say(
            "; a step of {ratio:.1f} times the median (iteration {a}); the end of {whole} "
            "(iteration {last})",
            ratio=slow,
            **fields,
        )
    if slow > 1 + _TOLERANCE:
        return say(
            "; slow steps (iterations {a} to {b}, up to {ratio:.1f} times the median step); the "
            "end of {whole} (iteration {last})",
            ratio=slow,
            **fields,
        )
    return say(
        "; other steps (iterations {a} to {b}); the end of {whole} (iteration {last})",
        **fields,
    )


def _begin(length_ns: Int64, first: int, last: int) -> str:
    """What lies before the steady range."""
    if first == 1:
        return say("start-up (iteration 0)")
    slow = float(length_ns[1:first].max() / np.median(length_ns[first : last + 1]))
    if slow > 1 + _TOLERANCE:
        return say(
            "warm-up (iterations 0 to {last}, up to {ratio:.1f} times the median step)",
            last=first - 1,
            ratio=slow,
        )
    return say("warm-up (iterations 0 to {last}, which ran other kernels)", last=first - 1)
