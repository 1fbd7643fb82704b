"""Advice on what to change in a training script, one adviser per file.

An adviser has a ``NAME`` and a pure function ``advise`` from ``Facts`` to a ``Finding``, to an
``Unknown`` if the profile lacks the data, or to None. CONTRIBUTING.md says how to add one.
DLProf's own detectors are in ``aggregator.advice.dlprof``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from aggregator.advice import (
    batch_size,
    checkpointing,
    cudnn_benchmark,
    debugging_aids,
    exposed_communication,
    half_precision,
    host_stalls,
    imbalanced_gpus,
    input_bound,
    late_ranks,
    launch_bound,
    layout_conversions,
    memory_fragmentation,
    memory_growth,
    memory_peak,
    norm_copies,
    pageable_copies,
    parameter_loop,
    separate_experts,
    slow_iterations,
    synchronizing_calls,
    tensor_core_fallback,
    tf32_off,
    tiny_kernels,
    unaligned_shapes,
    unfused_optimizer,
    unoverlapped_copies,
    unused_gpus,
    vocabulary_size,
)
from aggregator.advice.facts import Facts
from aggregator.advice.finding import (
    ALL_RANKS,
    MIN_GAIN_PCT,
    Answer,
    Certainty,
    Finding,
    GainSource,
    Remedy,
    Severity,
    Unknown,
)
from aggregator.replay.analysis import ReplayedProfile
from aggregator.texts import say


class Adviser(Protocol):
    """What a module of an adviser provides."""

    NAME: str

    def advise(self, facts: Facts) -> Answer:
        """Judge the facts of one aggregation."""


ADVISERS: tuple[Adviser, ...] = (
    input_bound,
    launch_bound,
    host_stalls,
    slow_iterations,
    synchronizing_calls,
    pageable_copies,
    unoverlapped_copies,
    exposed_communication,
    imbalanced_gpus,
    late_ranks,
    checkpointing,
    separate_experts,
    half_precision,
    tf32_off,
    tensor_core_fallback,
    unaligned_shapes,
    vocabulary_size,
    layout_conversions,
    norm_copies,
    unfused_optimizer,
    parameter_loop,
    tiny_kernels,
    batch_size,
    debugging_aids,
    cudnn_benchmark,
    unused_gpus,
    memory_peak,
    memory_growth,
    memory_fragmentation,
)
"""In this order advice of equal gain, and open questions, are listed."""

_OF_STEPS = frozenset(
    {
        *(input_bound.NAME, launch_bound.NAME, host_stalls.NAME, slow_iterations.NAME),
        *(synchronizing_calls.NAME, batch_size.NAME, late_ranks.NAME),
    }
)
"""Advisers that judge idle time: the start and the end of a program are idle, too."""
COVERING_RATIO = 0.6
"""A finding is left out if one that covers it saves at least this share of the same time."""


def advise(facts: Facts) -> tuple[list[Finding], list[Unknown]]:
    """Run every adviser; without steps, those that judge kernels and copies.

    Returns:
        The findings, most severe and largest gain first, of equal severity those that shorten the
        same step before those that change it, and the questions that stay open.
    """
    single = facts.steps.is_single
    asked = [one for one in ADVISERS if not single or one.NAME not in _OF_STEPS]
    answers = [adviser.advise(facts) for adviser in asked]
    rated = [_rated(facts, one) for one in answers if isinstance(one, Finding)]
    found = {one.advice: one for one in rated if _matters(one)}
    kept = [one for one in found.values() if not _is_covered(one, found)]
    kept.sort(key=lambda one: (_RANK[one.level], one.is_per_sample, -(one.gain_pct or 0.0)))
    return kept, [one for one in answers if isinstance(one, Unknown)]


def _rated(facts: Facts, finding: Finding) -> Finding:
    """Add the gain in time, from a replay where there is one.

    Nothing that depends on uncertain steps is certain itself.
    """
    if finding.gain_pct is None:
        return finding
    finding = _of_faster_ranks(facts, replace(finding, gain_source=GainSource.ESTIMATE))
    profile, step_ns = facts.trusted_replay, facts.step_ns
    if facts.trusted_correction is not None and facts.corrected_idle_pct is not None:
        profile = facts.trusted_correction
        finding = _of_bare_step(finding, step_ns, profile, facts.corrected_idle_pct)
        step_ns = float(profile.measured_ns.mean())
    if profile is not None and finding.remedy is not None:
        step_ns = typical_ns(facts, step_ns, profile)
        finding = _replayed(profile, finding, finding.remedy, facts, step_ns)
    certainty = finding.certainty
    if facts.steps.is_single or not facts.is_sure_of_steps:
        certainty = certainty.downgraded
    share = (finding.gain_pct or 0.0) / 100.0
    gain_ns = None if finding.is_per_sample else round(share * step_ns)
    return replace(finding, gain_ns=gain_ns, certainty=certainty)


def _of_faster_ranks(facts: Facts, finding: Finding) -> Finding:
    """The finding with the gain that a replay of the ranks shows, where it is about them."""
    gains, rank = facts.rank_gains, finding.faster_rank
    if rank is None or gains is None or rank not in {ALL_RANKS, *gains.without_ns}:
        return finding
    then = gains.ideal_ns if rank == ALL_RANKS else gains.without_ns[rank]
    gain_pct = 100.0 * max(1.0 - then / max(gains.step_ns, 1.0), 0.0)
    reasoning = say(
        "{count} steps of the ranks were replayed with rank {rank} as fast as the median of the "
        "others: they take {gain:.1f}% less time",
        count=gains.num_steps,
        rank=rank,
        gain=gain_pct,
    )
    if rank == ALL_RANKS:
        reasoning = say(
            "{count} steps of the ranks were replayed with all of them at the median: they take "
            "{gain:.1f}% less time",
            count=gains.num_steps,
            gain=gain_pct,
        )
    return replace(
        finding,
        gain_pct=gain_pct,
        gain_source=GainSource.REPLAY,
        estimate_pct=finding.gain_pct,
        reasoning=reasoning,
    )


_OF_IDLE_TIME = frozenset(
    {input_bound.NAME, launch_bound.NAME, host_stalls.NAME, synchronizing_calls.NAME}
)
"""Advisers that save idle time of the GPU."""


def _of_bare_step(
    finding: Finding, step_ns: float, profile: ReplayedProfile, idle_pct: float
) -> Finding:
    """The estimate as a share of the step without profiling, whose idle time is shorter."""
    gain_pct = finding.gain_pct or 0.0
    if finding.advice in _OF_IDLE_TIME:
        return replace(finding, gain_pct=min(gain_pct, idle_pct))
    if finding.is_per_sample:
        return finding
    ratio = step_ns / max(float(profile.measured_ns.mean()), 1.0)
    return replace(finding, gain_pct=min(gain_pct * max(ratio, 1.0), 100.0))


OTHER_LIMIT_PCT = 10.0
"""A replay that saves less than the estimate by more than this says why. Unit: points."""


MAX_SKEW = 1.25
"""A mean step longer than this times the median one: what few steps take counts for the gain."""


def typical_ns(facts: Facts, mean_ns: float, profile: ReplayedProfile) -> float:
    """The median step, as in the first lines of the results, unless few steps are much longer."""
    lengths = facts.steps.length_ns
    if profile is facts.trusted_correction:
        lengths = profile.measured_ns
    elif facts.steps.is_single:
        return mean_ns
    median_ns = float(np.median(lengths))
    return median_ns if mean_ns <= MAX_SKEW * median_ns else mean_ns


def _replayed(
    profile: ReplayedProfile, finding: Finding, remedy: Remedy, facts: Facts, step_ns: float
) -> Finding:
    """The finding with the gain that a replay of its remedy shows, as a part of a usual step."""
    is_corrected = profile is facts.trusted_correction
    now = int(np.mean(profile.replayed_ns))
    predicted = profile.predict(remedy.changes)
    gain_pct = 100.0 * max(now - predicted.mean_step_ns, 0) / max(now, 1)
    values: dict[str, Any] = {
        "count": len(profile.steps.number),
        "what": remedy.what,
        "gain": gain_pct,
        "saved": f"{gain_pct / 100.0 * step_ns / 1e6:.3g}",
        "step": f"{step_ns / 1e6:.4g}",
    }
    reasoning = say(
        "{count} steps were replayed {what}: they take {gain:.1f}% less time, {saved} of the "
        "{step} ms of a usual step",
        **values,
    )
    if is_corrected:
        reasoning = say(
            "{count} steps were replayed {what}, and without the costs of profiling: they take "
            "{gain:.1f}% less time, {saved} of the {step} ms of a usual step",
            **values,
        )
    elif _is_limited(finding.gain_pct, gain_pct):
        reasoning = say(
            "{count} steps were replayed {what}: they take {gain:.1f}% less time, {saved} of the "
            "{step} ms of a usual step. By its own time it would be {share:.0f}% less, but then "
            "something else limits the step. If that is launching: it takes less time without the "
            "profiler",
            **values,
            share=finding.gain_pct,
        )
    return replace(
        finding,
        gain_pct=gain_pct,
        gain_source=GainSource.CORRECTED if is_corrected else GainSource.REPLAY,
        estimate_pct=finding.gain_pct,
        reasoning=reasoning,
        certainty=_of_bound(finding.certainty) if predicted.is_bound else finding.certainty,
    )


def _of_bound(certainty: Certainty) -> Certainty:
    """Other kernels would run: a fix may save less."""
    return Certainty.LIKELY if certainty is Certainty.SURE else certainty


_RANK = {Severity.HIGH: 0, Severity.MEDIUM: 1, Severity.LOW: 2}


def _matters(finding: Finding) -> bool:
    """Whether it saves enough, or would if nothing else limited the step."""
    if finding.gain_pct is None or finding.gain_pct >= MIN_GAIN_PCT:
        return True
    return _is_limited(finding.estimate_pct, finding.gain_pct)


def _is_limited(estimate_pct: float | None, replayed_pct: float) -> bool:
    return (estimate_pct or 0.0) - replayed_pct > OTHER_LIMIT_PCT


def _is_covered(finding: Finding, found: dict[str, Finding]) -> bool:
    others = (found[name] for name in finding.covered_by if name in found)
    return any(
        (one.gain_pct or 0.0) >= COVERING_RATIO * (finding.gain_pct or 0.0) for one in others
    )
