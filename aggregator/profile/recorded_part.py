"""The part of a run in the profile: the windows in which its processes were recorded.

A profile of windows says nothing of the time between them: that is no idle time and no step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from aggregator.profile.arrays import Int64, empty_i64
from aggregator.texts import say

BETWEEN: Final = "between"
"""Kind of the interval that holds the time between two windows."""
DETACHED: Final = "detach"
"""What ended a window whose process went on without being recorded."""


@dataclass(frozen=True)
class RecordedPart:
    """Windows in order of their start, and the whole of which they are a part."""

    process: Int64 = field(default_factory=empty_i64)  # Row of the process of each window.
    start_ns: Int64 = field(default_factory=empty_i64)  # Unit: ns.
    end_ns: Int64 = field(default_factory=empty_i64)  # Unit: ns.
    # What ended each: detach, stop, end of the program, failure.
    ended_by: tuple[str, ...] = ()
    run_ns: int | None = None  # Length of the run of the application; None: unknown. Unit: ns.
    steps: int | None = None  # Steps of all its loops; None: unknown.
    recorded_steps: int | None = None  # Those that were recorded; None: unknown.

    @property
    def is_part(self) -> bool:
        """Whether the program went on outside the windows."""
        return DETACHED in self.ended_by

    @property
    def gaps_ns(self) -> Int64:
        """Starts and ends of the times in which no process was recorded, shape (n, 2). Unit: ns."""
        return gaps_between(self.start_ns, self.end_ns)

    @property
    def recorded_ns(self) -> int:
        """Time in which some process was recorded. Unit: ns."""
        if not len(self.start_ns):
            return 0
        gaps = self.gaps_ns
        all_ns = int(self.end_ns.max() - self.start_ns.min())
        return all_ns - int((gaps[:, 1] - gaps[:, 0]).sum())

    @property
    def note(self) -> str:
        """One sentence on what was recorded; empty if it is the whole run, or unknown."""
        lacks_steps = (self.recorded_steps or 0) < (self.steps or 0)
        if not self.is_part and not lacks_steps:
            return ""
        values = {"windows": windows_text(self), "recorded": f"{self.recorded_ns / 1e9:.1f}"}
        run = None if self.run_ns is None else f"{self.run_ns / 1e9:.1f}"
        if self.steps is not None and run is not None:
            return say(
                "recorded {count:,} of {steps:,} steps, {recorded} s of {run} s ({windows}): the "
                "rest of the run is not in the profile",
                count=self.recorded_steps,
                steps=self.steps,
                run=run,
                **values,
            )
        if run is not None:
            return say(
                "recorded {recorded} s of {run} s ({windows}): the rest of the run is not in the "
                "profile",
                run=run,
                **values,
            )
        return say(
            "recorded {recorded} s ({windows}): the rest of the run is not in the profile", **values
        )


def windows_text(part: RecordedPart) -> str:
    """Return the number of windows in words."""
    count = len(part.gaps_ns) + 1
    return say("one window") if count == 1 else say("{count} windows", count=count)


def gaps_between(start_ns: Int64, end_ns: Int64) -> Int64:
    """Return starts and ends of the times between windows, shape (n, 2). Unit: ns.

    Args:
        start_ns: Starts of windows, in order.
        end_ns: Their ends; windows may overlap.
    """
    if len(start_ns) < 2:
        return np.empty((0, 2), dtype=np.int64)
    last_end = np.maximum.accumulate(end_ns)[:-1]
    is_gap = start_ns[1:] > last_end
    return np.stack([last_end[is_gap], start_ns[1:][is_gap]], axis=1)
