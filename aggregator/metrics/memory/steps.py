"""Steps of a training, from its optimizer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aggregator.metrics.memory.model import DeviceTrace, Int64, MemoryTrace
from aggregator.metrics.memory.phases import Phase

_ANNOTATION = "Optimizer.step"


@dataclass(frozen=True)
class Steps:
    """Where steps begin; the first begins at the first event."""

    bounds: Int64  # Event with which each step but the first begins.
    evidence: str  # "recorded", "annotations", "stacks" or "": there is one step.

    def of_event(self, event: Int64) -> Int64:
        """Return the step of events, from 0."""
        return np.searchsorted(self.bounds, event, side="right").astype(np.int64)

    def __len__(self) -> int:
        return len(self.bounds) + 1


def find_steps(
    memory: MemoryTrace,
    trace: DeviceTrace,
    phase_of_event: npt.NDArray[np.int8],
    recorded_ends_ns: Int64,
) -> Steps:
    """Cut the events where the optimizer has finished."""
    count = len(trace.events)
    for evidence, times in (
        ("recorded", recorded_ends_ns),
        ("annotations", _annotated(memory, trace)),
    ):
        if len(times):
            bounds = np.unique(np.searchsorted(trace.events.time_ns, times, side="right"))
            return Steps(bounds[bounds < count], evidence)
    seen = np.flatnonzero(
        np.isin(phase_of_event, [int(Phase.FORWARD), int(Phase.BACKWARD), int(Phase.OPTIMIZER)])
    )
    phases = phase_of_event[seen]
    ends = np.flatnonzero((phases[:-1] == Phase.OPTIMIZER) & (phases[1:] != Phase.OPTIMIZER))
    bounds = seen[ends + 1]
    return Steps(bounds, "stacks" if len(bounds) else "")


def _annotated(memory: MemoryTrace, trace: DeviceTrace) -> Int64:
    times = [
        int(item["time_us"]) * 1000
        for item in memory.annotations
        if item.get("stage") == "END"
        and str(item.get("name", "")).startswith(_ANNOTATION)
        and isinstance(item.get("time_us"), int)
        and item.get("device", trace.device) == trace.device
    ]
    return np.array(sorted(times), dtype=np.int64)
