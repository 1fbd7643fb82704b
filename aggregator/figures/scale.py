"""The unit in which a time reads best."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TimeUnit:
    """A unit of time.

    Attributes:
        symbol: As shown on an axis.
        ns: Its length in nanoseconds.
    """

    symbol: str
    ns: int

    def of(self, time_ns: float | None) -> float | None:
        """A time in this unit; unknown stays unknown."""
        return None if time_ns is None else time_ns / self.ns


_UNITS = (
    TimeUnit("min", 60_000_000_000),
    TimeUnit("s", 1_000_000_000),
    TimeUnit("ms", 1_000_000),
    TimeUnit("µs", 1_000),
    TimeUnit("ns", 1),
)


def choose_unit(largest_ns: float) -> TimeUnit:
    """The largest unit of which the largest value holds at least one."""
    return next((unit for unit in _UNITS if largest_ns >= unit.ns), _UNITS[-1])
