"""Results of the advisers: a problem, how much time a fix could save, and the evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from aggregator.replay.scenario import Change
from aggregator.texts import Text

HIGH_GAIN_PCT = 20.0
MEDIUM_GAIN_PCT = 5.0
MIN_GAIN_PCT = 1.0  # Findings that save a smaller share of the step are left out.


class Severity(StrEnum):
    """Severity, by the share of the step that a fix could save."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


def severity_of(gain_pct: float | None) -> Severity:
    """The severity of what could save a share of a step; low if that is unknown."""
    if gain_pct is None or gain_pct < MEDIUM_GAIN_PCT:
        return Severity.LOW
    return Severity.HIGH if gain_pct >= HIGH_GAIN_PCT else Severity.MEDIUM


class Certainty(StrEnum):
    """Certainty: it cannot be otherwise; measured, but a fix may save less; or to be tried."""

    SURE = "sure"
    LIKELY = "likely"
    POSSIBLE = "possible"

    @property
    def downgraded(self) -> Certainty:
        """The next lower certainty."""
        return Certainty.LIKELY if self is Certainty.SURE else Certainty.POSSIBLE


MOST_CERTAIN: Final[Mapping[str, Certainty]] = {
    # What the capture recorded, and promises no time.
    "debugging_aids": Certainty.SURE,
    "memory_growth": Certainty.SURE,
    "unused_gpus": Certainty.SURE,
    # What was measured, with a saving that is an upper bound.
    "batch_size": Certainty.LIKELY,
    "exposed_communication": Certainty.LIKELY,
    "half_precision": Certainty.LIKELY,
    "host_stalls": Certainty.LIKELY,
    "imbalanced_gpus": Certainty.LIKELY,
    "late_ranks": Certainty.LIKELY,
    "memory_fragmentation": Certainty.LIKELY,
    "memory_peak": Certainty.LIKELY,
    "pageable_copies": Certainty.LIKELY,
    "slow_iterations": Certainty.LIKELY,
    "synchronizing_calls": Certainty.LIKELY,
    "tensor_core_fallback": Certainty.LIKELY,
    "tf32_off": Certainty.LIKELY,
    "unoverlapped_copies": Certainty.LIKELY,
    # Missed by more than ten points of the step in the exam (benchmarks/PREDICTIONS.md): workers
    # for a loader of few batches, compiling instead of a CUDA graph, a fused optimizer, padding.
    "input_bound": Certainty.POSSIBLE,
    "launch_bound": Certainty.POSSIBLE,
    "unaligned_shapes": Certainty.POSSIBLE,
    "unfused_optimizer": Certainty.POSSIBLE,
    # Rules of thumb, and advice that no real run has confirmed.
    "cudnn_benchmark": Certainty.POSSIBLE,
    "norm_copies": Certainty.POSSIBLE,
    "parameter_loop": Certainty.POSSIBLE,
    "separate_experts": Certainty.POSSIBLE,
    "tiny_kernels": Certainty.POSSIBLE,
    "vocabulary_size": Certainty.POSSIBLE,
    # Wrong by its sign, or by 40 points, before it was mended.
    "checkpointing": Certainty.POSSIBLE,
    "layout_conversions": Certainty.POSSIBLE,
}
"""The most that each class of advice may say; others are possible. A class that misses is lowered
here."""


class GainSource(StrEnum):
    """Where the time that a fix could save comes from."""

    REPLAY = "replay"  # The steps were replayed with the fix.
    CORRECTED = "corrected"  # The same, without the costs of profiling.
    ESTIMATE = "estimate"  # A formula: a replay cannot express the fix, or there is none.


class GainBound(StrEnum):
    """What is known of a saving."""

    AT_MOST = "at_most"
    AT_LEAST = "at_least"  # Time of the CPU limits it, which profiling lengthens.


class View(StrEnum):
    """Views that evidence may link to; the page accepts only these names."""

    OPS = "ops"
    ITERATIONS = "iterations"
    KERNELS_BY_ITERATION = "kernels-by-iteration"
    GPUS = "gpus"
    OP_TYPES = "op-types"


@dataclass(frozen=True)
class Link:
    """A view with its filters, as parameters of the page address."""

    view: View
    params: dict[str, str]
    total: int | None = None  # How many rows it is about, of which it shows some; None: all.


@dataclass(frozen=True)
class Item:
    """An item of evidence."""

    # ``op``, ``before`` (of the time before an op's work), ``kernel``, ``iteration``, ``gpu``,
    # ``rank``, ``call``, ``shape`` or ``setting``.
    kind: str
    name: str  # Its name in the profile.
    time_ns: int | None = None  # Its time in the window; None if it has no time. Unit: ns.
    count: int | None = None  # How often it occurred; None for once.
    link: Link | None = None  # View that shows it.
    # Steps that time and count are sums of, by ``OF_STEPS``; None: they are none.
    steps: int | None = None


OF_STEPS = frozenset({"op", "before", "kernel", "rank", "gpu", "gap"})
"""Kinds of items that are summed over the steps; the time of a gap is its median."""


@dataclass(frozen=True)
class Proof:
    """A query on the public views that returns the number on which the problem is based."""

    query: str  # SQL without parameters; it returns one row.
    column: str  # Column of that row.
    value: int  # Expected value of the column.


@dataclass(frozen=True)
class Remedy:
    """What a fix changes, for a replay."""

    what: Text  # What is different, as part of a sentence: "with ...".
    changes: tuple[Change, ...]
    # What-if that changes all replayed steps so; empty: there is none, and it changes those of the
    # window.
    what_if: str = ""


ALL_RANKS = -1


@dataclass(frozen=True)
class Finding:
    """A problem that was found, with advice."""

    advice: str  # Stable name.
    # Share of the step that a fix could save; None if the profile does not show it. Unit: percent.
    gain_pct: float | None
    problem: Text  # One sentence.
    recommendation: Text  # One or two sentences.
    reasoning: Text  # How the number was computed.
    proof: Proof  # Query that proves the problem.
    is_guess: bool = False  # Whether the profile lacks what would make it as sure as its class.
    frameworks: str = "all"  # Frameworks it applies to.
    needs: Text | None = None  # Data that would make it certain; None if nothing is missing.
    evidence: tuple[Item, ...] = ()  # Items of evidence, largest first.
    link: Link | None = None  # View that shows all of it; None if there is none.
    severity: Severity | None = None  # Overrides the severity that follows from ``gain_pct``.
    # Names of advice that, if it saves about as much, replaces this one.
    covered_by: tuple[str, ...] = ()
    gain_ns: int | None = None  # Time of a step that a fix could save, from ``gain_pct``. Unit: ns.
    # What it saves at most, if ``gain_pct`` is the least or unknown. Unit: percent of the step.
    most_pct: float | None = None
    most_ns: int | None = None  # The same, if ``gain_ns`` is the least. Unit: ns.
    is_per_sample: bool = False  # Whether the gain is of the time per sample: the step gets longer.
    remedy: Remedy | None = None  # What to replay; None: a replay cannot express it.
    # Number of the rank that a fix makes as fast as the others, for a replay of the ranks;
    # ``ALL_RANKS``: all at the median; None: it is not about ranks.
    faster_rank: int | None = None
    # Where ``gain_pct`` comes from; None: there is none. Advisers give estimates.
    gain_source: GainSource | None = None
    gain_bound: GainBound = GainBound.AT_MOST
    estimate_pct: float | None = None  # The estimate that a replay replaced. Unit: percent.
    certainty: Certainty = Certainty.POSSIBLE  # How sure it is, by ``MOST_CERTAIN``.
    # Whether nearly all that a fix saves is time of the CPU, which profiling lengthens.
    is_of_host: bool = False

    @property
    def level(self) -> Severity:
        """The severity, from ``gain_pct`` unless it is overridden.

        A large share that may be saved, but is not known to be, is worth a medium one.
        """
        known = self.severity or severity_of(self.gain_pct)
        is_large = known is Severity.LOW and (self.most_pct or 0.0) >= HIGH_GAIN_PCT
        return Severity.MEDIUM if is_large else known


@dataclass(frozen=True)
class Unknown:
    """A question that the profile does not answer."""

    advice: str  # Name of the advice.
    problem: Text  # Why it cannot be judged.
    needs: Text  # Data that would answer it.


Answer = Finding | Unknown | None  # A problem, an open question, or None for no problem.
