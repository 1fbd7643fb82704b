"""Iterations: their definition, the window that is aggregated, and the rows that lie in it.

This is the only definition of an iteration and its time. It follows the guide of DLProf: N
instances of the key node end N + 1 intervals, ``[0, n1.stop), [n1.stop, n2.stop), ...,
[nN.stop, last)``. If several ranks have the same number of instances, the n-th boundary is the
latest n-th stop. If the numbers differ because a rank began or ended its recording at another step,
stops of the ranks are matched by time; otherwise every stop is a boundary.
An event belongs to the iteration in which it starts on the CPU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from aggregator.errors import IterationRangeError, UsageError
from aggregator.metrics.iterations import KeyNode, resolve_key_node
from aggregator.metrics.model import RollupInput, ops_view
from aggregator.metrics.phases import IterationPhases, phases_of_iterations
from aggregator.options import AggregationRequest, Mode
from aggregator.profile.arrays import Bool, Int32, Int64, row_shift
from aggregator.profile.recorded_part import BETWEEN
from aggregator.system.progress import Level, Progress
from aggregator.texts import say

LEAST_ALIGNED: Final = 8
"""Ranks with different numbers of instances must have so many in common to be aligned."""
NO_GAPS: Final[Int64] = np.empty((0, 2), dtype=np.int64)


@dataclass(frozen=True)
class Iterations:
    """Intervals that cover the profile without a hole or overlap."""

    start_ns: Int64  # Starts; the first is 0, or where events begin. Unit: ns.
    end_ns: Int64  # Stops, exclusive; each is the next one's start. Unit: ns.
    has_key_node: bool  # Whether a key node cut them; interval 0 then precedes the training loop.
    # Those that hold a time in which nothing was recorded: they are never aggregated.
    is_between: Bool

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def length_ns(self) -> Int64:
        """Length of each iteration. Unit: ns."""
        return self.end_ns - self.start_ns

    @property
    def edges_ns(self) -> Int64:
        """All starts and the last stop. Unit: ns."""
        return np.concatenate([self.start_ns, self.end_ns[-1:]])

    @property
    def kinds(self) -> list[str]:
        """``before`` for the interval before the loop, ``between`` recorded windows, else steps."""
        kinds = [BETWEEN if between else "iteration" for between in self.is_between.tolist()]
        if self.has_key_node:
            kinds[0] = "before"
        return kinds


def boundaries(stops_ns: tuple[Int64, ...], *, are_ranks: bool = True) -> Int64:
    """Return the ends of iterations over all processes, which may be ranks of one job. Unit: ns."""
    present = [np.sort(stops) for stops in stops_ns if len(stops)]
    if not present:
        return np.empty(0, dtype=np.int64)
    if are_ranks and len({len(stops) for stops in present}) == 1:
        latest: Int64 = np.max(np.stack(present), axis=0)
        return latest
    aligned = _latest_of_steps(present) if are_ranks else None
    return np.unique(np.concatenate(present)) if aligned is None else aligned


def _latest_of_steps(stops_ns: list[Int64]) -> Int64 | None:
    """Return the latest stop of each step of ranks that recorded other first or last steps.

    Args:
        stops_ns: Stops of each rank, ascending. Unit: ns.

    Returns:
        The stops, or None if the ranks do not run the same steps.
    """
    reference = max(stops_ns, key=len)
    if len(reference) < LEAST_ALIGNED:
        return None
    period_ns = float(np.median(np.diff(reference)))
    places = []
    for stops in stops_ns:
        place = row_shift(reference, stops) + np.arange(len(stops))
        common = (place >= 0) & (place < len(reference))
        if np.count_nonzero(common) < LEAST_ALIGNED:
            return None
        distance_ns = np.abs(stops[common] - reference[place[common]])
        if float(np.quantile(distance_ns, 0.9)) > period_ns:
            return None
        places.append(place)
    place = np.concatenate(places)
    latest = np.zeros(int(place.max() - place.min()) + 1, dtype=np.int64)
    np.maximum.at(latest, place - place.min(), np.concatenate(stops_ns))
    return latest


def split_into_iterations(
    key_node: KeyNode,
    last_ns: int,
    first_ns: int = 0,
    *,
    are_ranks: bool = True,
    gaps_ns: Int64 = NO_GAPS,
) -> Iterations:
    """Cut ``[first, last)`` at the key node; without one at the gaps alone.

    Args:
        key_node: The key node.
        last_ns: End of the profile. Unit: ns.
        first_ns: Where events begin. Unit: ns.
        are_ranks: Whether the processes are ranks of one job.
        gaps_ns: Starts and ends of the times in which nothing was recorded, shape (n, 2). Unit: ns.
    """
    stops = np.unique(boundaries(key_node.stops_ns, are_ranks=are_ranks))
    stops = stops[(stops > first_ns) & (stops < last_ns)]
    has_key_node = bool(len(stops))
    if not has_key_node:
        stops = np.unique(gaps_ns)
        stops = stops[(stops > first_ns) & (stops < last_ns)]
    start = np.concatenate([[first_ns], stops]).astype(np.int64)
    stop = np.concatenate([stops, [last_ns]]).astype(np.int64)
    # Gaps are in order, so that those before an end and those after a start have numbers.
    begun = np.searchsorted(gaps_ns[:, 0], stop, side="left")
    ended = np.searchsorted(gaps_ns[:, 1], start, side="right")
    return Iterations(start, stop, has_key_node, is_between=begun > ended)


@dataclass(frozen=True)
class Window:
    """A range of iterations, inclusive at both ends."""

    key_node: KeyNode  # The key node that cut the profile.
    iterations: Iterations  # All iterations.
    first: int  # First aggregated iteration.
    last: int  # Last aggregated iteration.
    phases: IterationPhases  # The phase of each iteration.
    phase: str = ""  # Only iterations of this phase are aggregated; empty: all.

    @property
    def start_ns(self) -> int:
        """Start of the window. Unit: ns."""
        return int(self.iterations.start_ns[self.first])

    @property
    def end_ns(self) -> int:
        """End of the window, exclusive. Unit: ns."""
        return int(self.iterations.end_ns[self.last])

    @property
    def count(self) -> int:
        """Number of aggregated iterations."""
        return len(self.numbers)

    @property
    def wall_ns(self) -> int:
        """Length of the aggregated iterations. Unit: ns."""
        return int(self.iterations.length_ns[self.inside].sum())

    @property
    def numbers(self) -> Int64:
        """Numbers of the aggregated iterations."""
        numbers = np.arange(self.first, self.last + 1)
        numbers = numbers[~self.iterations.is_between[numbers]]
        return numbers[self.phases.is_of(self.phase)[numbers]] if self.phase else numbers

    @property
    def is_whole(self) -> bool:
        """Whether all iterations from the first to the last one are aggregated."""
        return not self.phase and not self.iterations.is_between[self.first : self.last + 1].any()

    @property
    def inside(self) -> slice | Int64:
        """The aggregated ones of all iterations."""
        return slice(self.first, self.last + 1) if self.is_whole else self.numbers

    def rows(self, sorted_time_ns: Int64) -> slice | Int64:
        """Return the rows of time-ordered events that belong to the window's iterations."""
        return self.numbered_rows(sorted_time_ns)[0]

    def numbered_rows(self, sorted_time_ns: Int64) -> tuple[slice | Int64, Int32]:
        """Return rows of time-ordered events in the window, and the iteration of each of them."""
        bounds = self.row_bounds(sorted_time_ns)
        numbers = self.numbers
        low, high = bounds[numbers], bounds[numbers + 1]
        of_row = np.repeat(numbers, high - low).astype(np.int32)
        if self.is_whole:
            return slice(int(low[0]), int(high[-1])), of_row
        before = np.cumsum(high - low) - (high - low)
        return np.arange(len(of_row)) + np.repeat(low - before, high - low), of_row

    def row_bounds(self, sorted_time_ns: Int64) -> Int64:
        """Return the first row of every iteration, followed by the number of rows.

        Events at or after the end of the profile belong to the last iteration.
        """
        inner = np.searchsorted(sorted_time_ns, self.iterations.start_ns[1:], side="left")
        return np.concatenate([[0], inner, [len(sorted_time_ns)]]).astype(np.int64)


def open_window(inputs: tuple[RollupInput, ...], request: AggregationRequest) -> Window:
    """Cut the profile and check the requested range; all domains share the iterations.

    Raises:
        UsageError: A key node or range was requested in simple mode.
        IterationRangeError: A range that is reversed or outside the profile.
        KeyNodeNotFoundError: The key node does not exist.
        AmbiguousKeyNodeError: The key node's name fits several ops.
    """
    data = inputs[0]
    if data.mode == Mode.SIMPLE and not data.ranges.names and _asks_for_iterations(request):
        raise UsageError(
            say("Simple mode has no iterations: a key node or an iteration range cannot be used."),
            hint=say(
                "Use a framework mode on a profile with framework ranges, or omit the options."
            ),
        )
    key_node = _key_node(inputs, request)
    iterations = split_into_iterations(
        key_node,
        data.last_ns,
        data.first_ns,
        are_ranks=data.are_ranks,
        gaps_ns=data.gaps_ns,
    )
    final = len(iterations) - 1
    first = 0 if request.iter_start is None else request.iter_start
    last = final if request.iter_stop is None else request.iter_stop
    _check_range(first, last, final, stop_given=request.iter_stop is not None)
    phases = phases_of_iterations(data.phases, iterations.edges_ns)
    window = Window(key_node, iterations, first, last, phases, request.phase)
    if not window.count and not request.phase:
        raise IterationRangeError(
            say(
                "The iterations {first} to {last} lie between two recorded windows.",
                first=first,
                last=last,
            ),
            hint=say("Nothing was recorded there; choose other iterations."),
        )
    if not window.count:
        raise _no_such_phase(window)
    return window


def _no_such_phase(window: Window) -> UsageError:
    found = window.phases.name[window.first : window.last + 1]
    known = sorted({window.phases.names[code] for code in found.tolist() if code >= 0})
    hint = (
        say("Phases of the iterations: {names}.", names=", ".join(known))
        if known
        else say("No iteration has a phase. dlprof_nvtx.phase names them in the program.")
    )
    return UsageError(say("No iteration is of the phase '{phase}'.", phase=window.phase), hint=hint)


def _asks_for_iterations(request: AggregationRequest) -> bool:
    return bool(request.key_node) or any(
        bound not in (None, 0) for bound in (request.iter_start, request.iter_stop)
    )


def _key_node(inputs: tuple[RollupInput, ...], request: AggregationRequest) -> KeyNode:
    data = inputs[0]
    if request.key_node:
        return resolve_key_node(request.key_node, ops_view(inputs), data.ranges)
    name, reason = data.default_key
    if not name:
        return KeyNode("", reason)
    found = resolve_key_node(name, ops_view(inputs), data.ranges)
    return replace(found, reason=reason)


def _check_range(first: int, last: int, final: int, *, stop_given: bool) -> None:
    if first < 0 or first > final or (stop_given and last > final):
        raise IterationRangeError(
            say(
                "The iteration range {first} to {last} lies outside the profile.",
                first=first,
                last=last,
            )
            if stop_given
            else say("The iteration {first} to start with lies outside the profile.", first=first),
            hint=say("The profile has the iterations 0 to {final}.", final=final),
            iter_start=first,
            iter_stop=last,
            last_iteration=final,
        )
    if last < first:
        raise IterationRangeError(
            say(
                "The last iteration ({last}) lies before the first ({first}).",
                last=last,
                first=first,
            ),
            hint=say("Give --iter_start no greater than --iter_stop."),
            iter_start=first,
            iter_stop=last,
        )


def report_iterations(window: Window, progress: Progress) -> None:
    """Report which iterations were found and which of them are aggregated."""
    reason = window.key_node.reason
    if not window.iterations.has_key_node:
        because = f": {reason}" if reason else ""
        progress.message(f"No iterations{because}; the whole profile is aggregated")
        return
    count = len(window.iterations)
    stops = ", ".join(str(stop) for stop in window.iterations.end_ns[:50].tolist())
    more = ", ..." if count > 50 else ""
    progress.message(f'Found {count} {_plural(count)} using key_node "{window.key_node.name}"')
    if reason:
        progress.message(f"Key node: {reason}")
    progress.message(f"Ends of the iterations (ns): {stops}{more}", Level.DETAILED)
    progress.message(
        f"Aggregating data over {window.count} {_plural(window.count)}: iteration {window.first} "
        f"start ({window.start_ns} ns) to iteration {window.last} end ({window.end_ns} ns)"
    )


def _plural(count: int) -> str:
    return "iteration" if count == 1 else "iterations"
