"""Pairs of start and end of a range, and the ranges that are open in this process."""

from __future__ import annotations

import atexit
import threading
from dataclasses import dataclass, field
from typing import Any

from dlprof_nvtx.domains import boundary
from dlprof_nvtx.guard import say


@dataclass(frozen=True)
class Mark:
    """Name of a range."""

    message: str  # Text of the range.
    domain: str  # Its NVTX domain; empty for the default one.


@dataclass
class Pair:
    """A start, its end, and the range of their gradient, which is from end to start."""

    number: int  # Represents the pair if only a tensor can be passed.
    forward: Mark  # Range of the computation.
    # Range of its gradient; None if it has none, or its end is not built yet.
    gradient: Mark | None = None
    # Handles of open ranges, in the order in which they were opened.
    open_forward: list[Any] = field(default_factory=list)
    open_gradient: list[Any] = field(default_factory=list)  # The same for gradients.
    unclosed: int = 0  # Number of gradient ranges that were open when the next step began.

    def begin(self) -> None:
        """Open the range; close gradient ranges that the last step left open."""
        while self.open_gradient:
            self.unclosed += 1
            self.end_gradient()
        self.open_forward.append(boundary().start(self.forward.message, self.forward.domain))

    def end(self) -> None:
        """Close the range that was opened last."""
        if self.open_forward:
            boundary().end(self.open_forward.pop())

    def begin_gradient(self) -> None:
        """Open the range of the gradient."""
        if self.gradient is not None:
            mark = self.gradient
            self.open_gradient.append(boundary().start(mark.message, mark.domain))

    def end_gradient(self) -> None:
        """Close the range of the gradient."""
        if self.open_gradient:
            boundary().end(self.open_gradient.pop())


_PAIRS: list[Pair] = []
_BY_MARKS: dict[tuple[Mark, Mark], Pair] = {}
_LOCK = threading.Lock()


def new_pair(forward: Mark) -> Pair:
    """Make a new pair."""
    with _LOCK:
        _PAIRS.append(Pair(len(_PAIRS), forward))
        return _PAIRS[-1]


def pair_of(forward: Mark, gradient: Mark) -> Pair:
    """Return the pair with these names, which is the same for all steps in eager mode."""
    found = _BY_MARKS.get((forward, gradient))
    if found is None:
        found = new_pair(forward)
        found.gradient = gradient
        found = _BY_MARKS.setdefault((forward, gradient), found)
    return found


def pair_with(number: int) -> Pair:
    """Return the pair with a number."""
    return _PAIRS[number]


def _names_of_unclosed() -> list[str]:
    return [
        pair.gradient.message
        for pair in _PAIRS
        if pair.gradient is not None and (pair.unclosed or pair.open_gradient)
    ]


def _at_exit() -> None:
    """Print the ranges that were not closed; nvtx-plugins raised an error for them."""
    gradients = _names_of_unclosed()
    if gradients:
        say(
            f"dlprof_nvtx: gradient ranges without an end: {', '.join(gradients)}; the first range"
            " of a model needs trainable=True"
        )
    forward = [pair.forward.message for pair in _PAIRS if pair.open_forward]
    if forward:
        say(f"dlprof_nvtx: ranges without an end: {', '.join(forward)}")


atexit.register(_at_exit)
