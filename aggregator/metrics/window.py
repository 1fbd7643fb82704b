"""The aggregated window: which iterations, and which rows of the columns lie in them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from aggregator.errors import IterationRangeError, UsageError
from aggregator.iterations import Iterations, KeyNode, cut, resolve_key_node
from aggregator.metrics.model import RollupInput, ops_view
from aggregator.options import AggregationRequest, Mode
from aggregator.profile import Int64
from aggregator.texts import say


@dataclass(frozen=True)
class Window:
    """A range of iterations, inclusive at both ends.

    Attributes:
        key_node: What cut the profile.
        iterations: All iterations.
        first: First aggregated iteration.
        last: Last aggregated iteration.
    """

    key_node: KeyNode
    iterations: Iterations
    first: int
    last: int

    @property
    def start_ns(self) -> int:
        """Start of the window. Unit: ns."""
        return int(self.iterations.start_ns[self.first])

    @property
    def stop_ns(self) -> int:
        """End of the window, exclusive. Unit: ns."""
        return int(self.iterations.stop_ns[self.last])

    @property
    def count(self) -> int:
        """Number of aggregated iterations."""
        return self.last - self.first + 1

    def rows(self, sorted_time_ns: Int64) -> slice:
        """Rows of time-ordered events that belong to the window's iterations."""
        bounds = self.row_bounds(sorted_time_ns)
        return slice(int(bounds[self.first]), int(bounds[self.last + 1]))

    def row_bounds(self, sorted_time_ns: Int64) -> Int64:
        """First row of every iteration, plus the number of rows at the end.

        What lies at or behind the end of the profile belongs to the last iteration.
        """
        inner = np.searchsorted(sorted_time_ns, self.iterations.start_ns[1:], side="left")
        return np.concatenate([[0], inner, [len(sorted_time_ns)]]).astype(np.int64)


def open_window(inputs: tuple[RollupInput, ...], request: AggregationRequest) -> Window:
    """Cut the profile and check the range asked for; all domains share the iterations.

    Raises:
        UsageError: Key node or range asked for in simple mode.
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
    iterations = cut(key_node, data.last_ns)
    final = len(iterations) - 1
    first = 0 if request.iter_start is None else request.iter_start
    last = final if request.iter_stop is None else request.iter_stop
    _check_range(first, last, final, stop_given=request.iter_stop is not None)
    return Window(key_node, iterations, first, last)


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
