"""Steps that were timed without profiling, to say what the profile costs.

``dlprof`` lets the first steps of a PyTorch loop run without markers and collection, and times the
steps of the profiled part by the same clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from aggregator.texts import say

LEAST_STEPS: Final = 3
"""Fewer steps have no median worth comparing."""
FOREIGN: Final = say(
    "The capture holds no steps without profiling; dlprof times some before it profiles a PyTorch "
    "loop."
)
GPU_SLOWED: Final = "gpu_slowed"
_REASONS: Final = {
    GPU_SLOWED: say("The hardware slowed the GPU down during the steps without profiling."),
    "no_torch": say("No process of the application used PyTorch's markers."),
    "no_markers": say("The markers could not be written in the application."),
    "no_loop": say("The program's own files name nothing that repeats a training step."),
    "few_batches": say("The data loader has too few batches for steps without profiling."),
    "graph_capture": say(
        "The program captured a CUDA graph, which ends the steps without profiling: the capture "
        "names the kernels of its replays."
    ),
    "ended_early": say("The program ended while its first steps were timed."),
    "no_steps": say("No steps were found: neither an optimizer's steps nor calls of a model."),
}
_FASTER: Final = 0.9
"""Steps cannot become this much faster by profiling: those before it were no typical ones."""
_WARMING_UP: Final = say(
    "The steps before profiling took longer than the profiled ones: the program was still warming "
    "up, or the machine was slower then."
)
_TOO_FEW: Final = say("Fewer than {count} steps ran without profiling.", count=LEAST_STEPS)


@dataclass(frozen=True)
class TimedSteps:
    """Distribution of the times of some steps."""

    steps: int = 0  # Number of steps.
    median_ns: int | None = None  # Median time of a step; None: unknown. Unit: ns.
    p10_ns: int | None = None  # 10th percentile. Unit: ns.
    p90_ns: int | None = None  # 90th percentile. Unit: ns.


@dataclass(frozen=True)
class StepReference:
    """What a step takes without profiling and with it, in one process."""

    unprofiled: TimedSteps = TimedSteps()
    profiled: TimedSteps = TimedSteps()
    step_end: str = ""  # What ends a step: ``optimizer`` or ``call``; empty: unknown.
    reason: str = FOREIGN  # Why the bare step is unknown; empty: it is known.
    # Steps without profiling by phase: prefill, decode. Those whose median is known.
    phases: Mapping[str, TimedSteps] = field(default_factory=dict)


def timed_steps(times_ns: Sequence[int]) -> TimedSteps:
    """Return the median and percentiles of the times of some steps."""
    if len(times_ns) < LEAST_STEPS:
        return TimedSteps(len(times_ns))
    found = np.rint(np.percentile(np.array(times_ns, dtype=np.int64), (50, 10, 90)))
    median, p10, p90 = found.astype(np.int64).tolist()
    return TimedSteps(len(times_ns), median, p10, p90)


def step_reference(
    unprofiled_ns: Sequence[int],
    profiled_ns: Sequence[int],
    step_end: str,
    code: str,
    phases: Sequence[str] = (),
) -> StepReference:
    """Return the reference of a process.

    Args:
        unprofiled_ns: Times of steps without profiling.
        profiled_ns: Times of profiled steps.
        step_end: What ends a step.
        code: Why bare steps are missing.
        phases: The phase of each bare step; empty: none.
    """
    unprofiled, profiled = timed_steps(unprofiled_ns), timed_steps(profiled_ns)
    reason = "" if unprofiled.median_ns else _REASONS.get(code, _TOO_FEW)
    if (
        unprofiled.median_ns
        and profiled.median_ns
        and profiled.median_ns < _FASTER * unprofiled.median_ns
    ):
        return StepReference(TimedSteps(unprofiled.steps), profiled, step_end, _WARMING_UP)
    return StepReference(unprofiled, profiled, step_end, reason, _by_phase(unprofiled_ns, phases))


def _by_phase(unprofiled_ns: Sequence[int], phases: Sequence[str]) -> dict[str, TimedSteps]:
    by_name: dict[str, list[int]] = {}
    for time_ns, name in zip(unprofiled_ns, phases, strict=False):
        by_name.setdefault(name, []).append(time_ns)
    found = {name: timed_steps(times) for name, times in by_name.items() if name}
    return {name: steps for name, steps in found.items() if steps.median_ns}
