"""What a comparison found: the object from which every surface renders.

Times are exact: ``Fraction`` of nanoseconds, means over all iterations and GPUs of a side. The
differences of the rows add up to the difference of the steps without a residual, and so do those of
the classes and of the causes. Samples are float64, for statistics and charts only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct

from aggregator.profile.arrays import Int64, empty_i64

Samples: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"
"""Times over the iterations of a capture, one array per capture. Unit: ns."""


class Verdict(StrEnum):
    """What can be said about a difference, seen from the new side."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    CANNOT_TELL = "cannot tell"


class Match(StrEnum):
    """How the two halves of a row were found to belong together."""

    SAME = "same"
    """Same path, name, direction and place."""
    ALIGNED = "aligned"
    """Same op type, shapes and order below the same parent; names differ."""
    MODULE = "module"
    """Ops without a partner, summed over the lowest module that both sides have."""
    ONLY_BASE = "only_base"
    ONLY_NEW = "only_new"


@dataclass(frozen=True)
class Judgement:
    """Doubt about a difference."""

    verdict: Verdict
    # 95 % interval of the difference, new - base; None: too few samples. Unit: ns.
    interval_ns: tuple[float, float] | None = None
    # The larger bound in percent of the base: "same (within x %)"; None: unknown.
    within_pct: float | None = None
    q_value: float | None = None  # False discovery rate at which it is called; None: unknown.
    mann_whitney_p: float | None = None  # Second opinion; None: unknown.
    # Whether the interval covers changes from run to run: with two captures a side or more, and
    # between parts of one run.
    covers_runs: bool = False


@dataclass(frozen=True)
class Capture:
    """One run of a side: typical steps of an aggregation, or else its iterations."""

    name: str  # As the user named it.
    aggregation: int  # Number of the aggregation.
    first: int  # First compared iteration.
    last: int  # Last compared iteration, inclusive.
    key_node: str  # Key node; empty: none.
    devices: int  # GPUs that ran work.
    lengths_ns: Int64  # Length of each compared step as profiled. Unit: ns.
    # Whether these are the steps of the loop; False: no loop was found, or the database or summary
    # is of a version that knew iterations only.
    has_steps: bool = True
    unprofiled_ns: int | None = None  # Median step without profiling; None: unknown. Unit: ns.
    is_given: bool = False  # Whether the user gave that step; False: it was measured.
    numbers: Int64 = field(default_factory=empty_i64)  # Iteration of each compared step.


@dataclass(frozen=True)
class Side:
    """The base, or what is new: one capture or more of the same program."""

    captures: tuple[Capture, ...]

    @property
    def unprofiled_ns(self) -> int | None:
        """Median step without profiling, of several captures their median; None: unknown. ns."""
        known = [
            capture.unprofiled_ns for capture in self.captures if capture.unprofiled_ns is not None
        ]
        return round(float(np.median(known))) if len(known) == len(self.captures) else None

    @property
    def basis(self) -> str:
        """Where the step without profiling is from: bare or given; else profiled."""
        if self.unprofiled_ns is None:
            return "profiled"
        return "given" if any(capture.is_given for capture in self.captures) else "bare"

    @property
    def step_ns(self) -> Fraction:
        """Mean step as profiled, over all steps of all captures. Unit: ns."""
        total = sum(int(capture.lengths_ns.sum()) for capture in self.captures)
        return Fraction(total, self.iterations)

    @property
    def median_ns(self) -> float:
        """Median step as profiled, of all steps of all captures. Unit: ns."""
        return float(np.median(np.concatenate([capture.lengths_ns for capture in self.captures])))

    @property
    def iterations(self) -> int:
        """Compared steps of all captures."""
        return sum(len(capture.lengths_ns) for capture in self.captures)


@dataclass(frozen=True)
class Change:
    """The time of one class or cause per step."""

    name: str
    base_ns: Fraction  # Unit: ns.
    new_ns: Fraction  # Unit: ns.

    @property
    def difference_ns(self) -> Fraction:
        """New - base. Unit: ns."""
        return self.new_ns - self.base_ns


@dataclass(frozen=True)
class Row:
    """What one op owns of a class, per step; the rows partition the step."""

    kind: str  # Class of the time, as in ``aggregator.metrics.ownership.CLASSES``.
    # Why the GPU was idle, or empty: ``data loader``, ``cudaStreamSynchronize``, ``event wait``.
    reason: str
    module: str  # Path of the group, with a slash at its end.
    op: str  # Name within the module; empty: the module itself, or no op.
    op_type: str  # Kind of op; empty: several, or no op.
    direction: str  # fprop, bprop, recompute or empty.
    match: Match
    base_ns: Fraction  # Unit: ns.
    new_ns: Fraction  # Unit: ns.
    judgement: Judgement
    base_samples: tuple[Samples, ...]  # One array per capture. Unit: ns.
    new_samples: tuple[Samples, ...]  # Unit: ns.
    base_name: str = ""  # Path and name on the base side, where it differs.
    base_kernels: tuple[str, ...] = ()  # Kernels of the op, where the two sides run others.
    new_kernels: tuple[str, ...] = ()

    @property
    def path(self) -> list[str]:
        """Its modules and its op; a row that has neither goes by its reason or class."""
        parts = [part for part in f"{self.module}{self.op}".split("/") if part]
        return parts or [self.reason or self.kind]

    @property
    def difference_ns(self) -> Fraction:
        """New - base. Unit: ns."""
        return self.new_ns - self.base_ns


class CompareSetting(Struct, frozen=True):
    """Something else that differs."""

    key: str
    base: str  # Values of several captures are joined; empty: not recorded.
    new: str


@dataclass(frozen=True)
class Comparison:
    """Everything that a comparison found."""

    base: Side
    new: Side
    judgement: Judgement  # Of the step; of another batch as if it had the samples of the base.
    classes: tuple[Change, ...]  # In the order of the classes, all of them.
    causes: tuple[Change, ...]  # The same time by what the GPU waited for or did, largest first.
    rows: tuple[Row, ...]  # Largest difference first.
    setup: tuple[CompareSetting, ...]  # What else differs, most important first.
    headline: str  # What changed and what explains it, in one sentence.
    notes: tuple[str, ...] = ()  # What limits the comparison, each in one sentence.
    # Samples of a step of both sides; None: the same, or unknown.
    samples: tuple[int, int] | None = None
    are_other_programs: bool = False  # Whether hardly an op is on both sides.

    @property
    def is_unprofiled(self) -> bool:
        """Whether the step without profiling is known of both sides."""
        return None not in (self.base.unprofiled_ns, self.new.unprofiled_ns)

    @property
    def difference_ns(self) -> Fraction:
        """Return how much longer the mean profiled step of the new side is. Unit: ns."""
        return self.new.step_ns - self.base.step_ns

    @property
    def slowdown(self) -> Fraction:
        """Return how much longer a step is, or each sample of one, as a share of the base."""
        before, after = self.samples or (1, 1)
        base = self.base.step_ns
        return self.new.step_ns * Fraction(before, after) / base - 1 if base else Fraction()
