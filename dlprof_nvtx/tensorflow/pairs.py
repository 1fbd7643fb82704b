"""Open ranges of this process, and which start belongs to which end."""

from __future__ import annotations

import atexit
import sys
import threading
from dataclasses import dataclass, field
from typing import Any

from dlprof_nvtx.domains import boundary


@dataclass(frozen=True)
class Mark:
    """What a range is called.

    Attributes:
        message: Its text.
        domain: Its NVTX domain; empty: the default one.
    """

    message: str
    domain: str


@dataclass
class Pair:
    """One start, its end, and the range of their gradients, which runs from end to start.

    Attributes:
        number: Stands for the pair where only a tensor may be handed on.
        forward: Range of the computation.
        gradient: Range of its gradient; None: its end is not built yet, or it has none.
        open_forward: Handles of the ranges that are open, last opened last.
        open_gradient: The same for gradients.
        unclosed: Gradient ranges that nothing closed until the next step began.
    """

    number: int
    forward: Mark
    gradient: Mark | None = None
    open_forward: list[Any] = field(default_factory=list)
    open_gradient: list[Any] = field(default_factory=list)
    unclosed: int = 0

    def begin(self) -> None:
        """Open the range; closes what the last step's gradient left open."""
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
        """Close it."""
        if self.open_gradient:
            boundary().end(self.open_gradient.pop())


_PAIRS: list[Pair] = []
_BY_MARKS: dict[tuple[Mark, Mark], Pair] = {}
_LOCK = threading.Lock()


def new_pair(forward: Mark) -> Pair:
    """A pair of its own."""
    with _LOCK:
        _PAIRS.append(Pair(len(_PAIRS), forward))
        return _PAIRS[-1]


def pair_of(forward: Mark, gradient: Mark) -> Pair:
    """The pair of these two names: the same for every step of a program that runs eagerly."""
    found = _BY_MARKS.get((forward, gradient))
    if found is None:
        found = new_pair(forward)
        found.gradient = gradient
        found = _BY_MARKS.setdefault((forward, gradient), found)
    return found


def pair_with(number: int) -> Pair:
    """The pair that ``number`` stands for."""
    return _PAIRS[number]


def _names_of_unclosed() -> list[str]:
    return [
        pair.gradient.message
        for pair in _PAIRS
        if pair.gradient is not None and (pair.unclosed or pair.open_gradient)
    ]


def _at_exit() -> None:
    """Say which ranges nothing closed: nvtx-plugins raised an error here."""
    gradients = _names_of_unclosed()
    if gradients:
        print(
            f"dlprof_nvtx: gradient ranges without an end: {', '.join(gradients)}; the first range"
            " of a model needs trainable=True (docs/tensorflow.md)",
            file=sys.stderr,
        )
    forward = [pair.forward.message for pair in _PAIRS if pair.open_forward]
    if forward:
        print(f"dlprof_nvtx: ranges without an end: {', '.join(forward)}", file=sys.stderr)


atexit.register(_at_exit)
