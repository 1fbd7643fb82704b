"""Advice on what to change in a training script, one adviser per file.

An adviser has a ``NAME`` and a pure function ``advise`` from ``Facts`` to a ``Finding``, to an
``Unknown`` if the profile lacks the data, or to None. CONTRIBUTING.md says how to add one.
DLProf's own detectors are in ``aggregator.advice.dlprof``.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Protocol

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
    MOST_CERTAIN,
    OF_STEPS,
    Answer,
    Certainty,
    Finding,
    GainBound,
    GainSource,
    Severity,
    Unknown,
    severity_of,
)
from aggregator.errors import UsageError
from aggregator.profile.limits import LIMITS, BoundKind, LimitCode, bounds_of
from aggregator.texts import Text, say


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
    asked = [module for module in ADVISERS if not single or module.NAME not in _OF_STEPS]
    answers = [adviser.advise(facts) for adviser in asked]
    answers = [_within_limits(facts, answer) for answer in answers]
    rated = [_rated(facts, answer) for answer in answers if isinstance(answer, Finding)]
    found = {finding.advice: finding for finding in rated if _matters(facts, finding)}
    kept = [
        _with_command(facts, _without_promise(finding) if is_unproven(facts, finding) else finding)
        for finding in found.values()
        if not _is_covered(finding, found)
    ]
    kept.sort(key=_order)
    if single:
        kept = [_of_working_time(finding) for finding in kept]
    else:
        kept = [_with_steps(finding, facts.steps.count) for finding in kept]
    unknown = [answer for answer in answers if isinstance(answer, Unknown)]
    said = {row.advice for row in kept} | {row.advice for row in unknown}
    return kept, [*unknown, *_unexplained(facts, said)]


MOST_UNEXPLAINED_PCT = 25.0
"""Idle time of the GPU that no advice explains is an open question from this share of the step."""


def _unexplained(facts: Facts, said: set[str]) -> list[Unknown]:
    gpu = facts.slowest
    idle_pct = 100.0 - facts.gpu_share_pct(gpu, facts.busy[gpu.device].covered_ns())
    if facts.steps.is_single or idle_pct < MOST_UNEXPLAINED_PCT or said & _EXPLAIN_IDLE_TIME:
        return []
    return [
        Unknown(
            "idle_time",
            say(
                "What GPU {device} waits for {share:.0f}% of the step is unknown: no late launch, "
                "data loader or waiting call explains it",
                device=gpu.device,
                share=idle_pct,
            ),
            say("A capture with the CUDA calls and events of all processes that use the GPU"),
        )
    ]


def _with_steps(finding: Finding, steps: int) -> Finding:
    """The finding with the steps that its evidence was summed over.

    An aggregation may hold more of them: its first and last ones are not judged.
    """
    items = (
        replace(item, steps=steps) if item.kind in OF_STEPS else item for item in finding.evidence
    )
    return replace(finding, evidence=tuple(items))


_RESTS_ON: Final[Mapping[str, str]] = {
    **dict.fromkeys(_OF_STEPS - {late_ranks.NAME}, "gpu_idle"),
    **dict.fromkeys((late_ranks.NAME, imbalanced_gpus.NAME), "rank_waiting"),
    **dict.fromkeys((unoverlapped_copies.NAME, exposed_communication.NAME), "gpu_busy"),
    unused_gpus.NAME: "kernels",
}
"""The figure that advice rests on; other advice is about shares of the time of kernels."""


def _within_limits(facts: Facts, answer: Answer) -> Answer:
    """Lower a finding whose figure a fault of the capture makes a bound, or open the question.

    How a capture was made, such as under a profiler only, is judged by what is said of gains, and
    lost records have made its steps uncertain.
    """
    if not isinstance(answer, Finding):
        return answer
    faults = {code for code in facts.limits if LIMITS[code].is_fault} - {LimitCode.LOST_RECORDS}
    bound = bounds_of(faults).get(_RESTS_ON.get(answer.advice, "gpu_time"))
    if bound is None:
        return answer
    kind = LIMITS[bound.limits[0]]
    if bound.kind is BoundKind.UNKNOWN:
        text = say("It rests on what the capture does not show. {effect}", effect=kind.effect)
        return Unknown(answer.advice, text, kind.recommendation)
    needs = kind.recommendation
    if answer.needs is not None:
        needs = say("{first}. {second}", first=needs, second=answer.needs)
    return replace(answer, certainty=answer.certainty.downgraded, needs=needs)


def _of_working_time(finding: Finding) -> Finding:
    """The finding without a saving of a step, because there is no step."""
    if finding.gain_pct is None:
        return finding
    return replace(
        finding,
        gain_pct=None,
        gain_ns=None,
        gain_source=None,
        severity=finding.level,
        problem=say(
            "{problem}; a fix could save {share:.0f}% of the GPU's working time",
            problem=finding.problem,
            share=finding.gain_pct,
        ),
    )


def _order(finding: Finding) -> tuple[int, int, float]:
    """Of equal severity, what may be saved but is not known to be comes last."""
    is_open = finding.is_of_host and finding.gain_pct is None
    is_open |= finding.severity is None and finding.level is not severity_of(finding.gain_pct)
    is_sure = finding.gain_pct is None and finding.certainty is Certainty.SURE
    group = 3 if finding.is_per_sample else 0 if is_sure else 2 if is_open else 1
    gain_pct = (finding.most_pct if is_open else finding.gain_pct) or 0.0
    return _RANK[finding.level], group, -gain_pct


def _share(finding: Finding) -> float:
    """What it would save if profiling had made nothing of it. Unit: percent of the step."""
    return max(finding.gain_pct or 0.0, finding.estimate_pct or 0.0)


def is_unproven(facts: Facts, finding: Finding) -> bool:
    """Whether profiling itself may have made what a fix would save."""
    is_measured = facts.bare_step_ns is not None or facts.trusted_correction is not None
    return finding.is_of_host and not is_measured


def _without_promise(finding: Finding) -> Finding:
    """The finding without a gain, and how to learn it; the verdict says what the GPU works."""
    return replace(
        finding,
        gain_pct=None,
        gain_ns=None,
        gain_source=None,
        gain_bound=GainBound.AT_MOST,
        estimate_pct=_share(finding),
        most_pct=None if finding.is_per_sample else _share(finding),
        severity=Severity.LOW,
        problem=say("{problem}, as profiled: what a fix saves is unknown", problem=finding.problem),
        reasoning=say(
            "Measured in the step as profiled. Markers and tracing slow the CPU down, so nothing "
            "is known of what a fix saves until the step was timed without them"
        ),
        needs=_MEASURE_UNPROFILED
        if finding.needs is None
        else say("{first}. {second}", first=_MEASURE_UNPROFILED, second=finding.needs),
    )


def _with_command(facts: Facts, finding: Finding) -> Finding:
    """The finding with the command that predicts what it saves, where the profile has a replay."""
    option = ""
    if facts.replayed is not None and finding.remedy is not None:
        option = finding.remedy.what_if
    if facts.rank_gains is not None and finding.faster_rank in facts.rank_gains.without_ns:
        option = f"rank_as_median {finding.faster_rank}"
    if not option:
        return finding
    return replace(
        finding,
        recommendation=say(
            "{advice}. dlprof whatif DB --{option} predicts what it saves",
            advice=finding.recommendation,
            option=option.replace("_", "-"),
        ),
    )


_MEASURE_UNPROFILED = say(
    "Time the step without the profiler: dlprof python train.py does, or give what the program "
    "prints with --bare_step_ms"
)


def _rated(facts: Facts, finding: Finding) -> Finding:
    """Add the gain in time, from a replay where there is one.

    Nothing that depends on uncertain steps is certain itself.
    """
    finding = replace(finding, certainty=_certainty(facts, finding))
    if finding.gain_pct is None:
        return finding
    finding = _of_faster_ranks(facts, replace(finding, gain_source=GainSource.ESTIMATE))
    step_ns, known_ns, most_ns = facts.step_ns, None, 0.0
    if facts.trusted_correction is not None and facts.corrected_idle_pct is not None:
        step_ns = float(facts.trusted_correction.measured_ns.mean())
        finding = _of_unprofiled_step(
            finding, facts.step_ns / max(step_ns, 1.0), facts.corrected_idle_pct
        )
    scale, replayed, remedy = facts.scale, facts.replay, finding.remedy
    if scale is not None and replayed is not None and remedy is not None:
        only = None if remedy.what_if else facts.replayed_window
        with suppress(UsageError):  # The replay knows no such work.
            predicted = replayed.predict(remedy.changes, only)
            finding = _replayed(
                finding,
                max(scale.saved_share(replayed, predicted, only), 0.0),
                is_bound=predicted.is_bound,
                is_corrected=scale.is_corrected,
            )
            step_ns = float(scale.typical_ns(replayed.measured_ns))
            known_ns = float(scale.saving_ns(replayed, predicted, only) or 0)
            most_ns = known_ns + scale.uncertain_ns(replayed, predicted, only)
    finding = replace(finding, is_of_host=finding.advice in OF_THE_HOST)
    if finding.is_per_sample:
        return finding
    saved_ns = (finding.gain_pct or 0.0) / 100.0 * step_ns
    return _within_step(facts, finding, saved_ns, known_ns, most_ns)


def _certainty(facts: Facts, finding: Finding) -> Certainty:
    """What its class may say; less of a guess, and of steps that are uncertain."""
    most = MOST_CERTAIN.get(finding.advice, Certainty.POSSIBLE)
    most = Certainty.POSSIBLE if finding.is_guess else most
    is_uncertain = facts.steps.is_single or not facts.is_sure_of_steps
    return most.downgraded if is_uncertain and finding.gain_pct is not None else most


def _within_step(
    facts: Facts, finding: Finding, saved_ns: float, known_ns: float | None, most_ns: float
) -> Finding:
    """The finding with its gain in ns, which is never more than the step has to save.

    What is saved on the CPU is bounded by the idle time of the GPU in the step without profiling;
    what is saved on the GPU by the GPU's work.

    Args:
        facts: The facts.
        finding: The finding, with what the step as replayed or estimated saves.
        saved_ns: The same as a time.
        known_ns: What a what-if of its remedy saves; None: it was not replayed.
        most_ns: What that saves at most.
    """
    unprofiled_ns = None if facts.steps.is_single else facts.bare_step_ns
    whole_ns = float(unprofiled_ns or facts.typical_step_ns)
    kept_ns = min(saved_ns, whole_ns if known_ns is None else known_ns)
    if known_ns is None and finding.advice in OF_THE_HOST | {input_bound.NAME}:
        kept_ns = min(kept_ns, max(whole_ns - facts.gpu_work_ns, 0.0))
    elif known_ns is None and finding.advice not in _OF_UNEVEN_STEPS:
        kept_ns = min(kept_ns, facts.gpu_work_ns)
    gain_pct = 100.0 * kept_ns / max(whole_ns, 1.0)
    if unprofiled_ns is None and gain_pct < MIN_GAIN_PCT <= (finding.gain_pct or 0.0):
        return replace(finding, is_of_host=True)
    most_pct = 100.0 * most_ns / max(whole_ns, 1.0)
    is_least = unprofiled_ns is None and most_pct - gain_pct >= MIN_GAIN_PCT
    reasoning = finding.reasoning
    if known_ns is not None:
        own_pct = most_pct if is_least else finding.estimate_pct
        reasoning = _reasoning(facts, finding, saved_ns, kept_ns, whole_ns, own_pct)
    return replace(
        finding,
        gain_ns=round(kept_ns),
        gain_pct=gain_pct,
        gain_bound=GainBound.AT_LEAST if is_least else GainBound.AT_MOST,
        most_pct=most_pct if is_least else None,
        most_ns=round(most_ns) if is_least else None,
        reasoning=reasoning,
    )


def _reasoning(
    facts: Facts,
    finding: Finding,
    saved_ns: float,
    kept_ns: float,
    step_ns: float,
    own_pct: float | None,
) -> Text:
    """How a replay and the bounds of the step gave the gain."""
    remedy = finding.remedy
    gain_pct = 100.0 * kept_ns / max(step_ns, 1.0)
    values: dict[str, Any] = {
        "count": _num_replayed(facts, finding),
        "what": "" if remedy is None else remedy.what,
        "gain": gain_pct,
        "saved": f"{kept_ns / 1e6:.3g}",
        "step": f"{step_ns / 1e6:.4g}",
    }
    if kept_ns < saved_ns * (1.0 - _SAME_GAIN):
        return say(
            "{count} steps were replayed {what}. Of what they take less, {saved} of the {step} ms "
            "of a step count ({gain:.1f}%): the rest is time of the CPU, which profiling lengthens",
            **values,
        )
    if facts.scale is not None and facts.scale.is_corrected:
        return say(
            "{count} steps were replayed {what}, and without the costs of profiling: they take "
            "{gain:.1f}% less time, {saved} of the {step} ms of a step",
            **values,
        )
    if _is_limited(own_pct, gain_pct):
        return say(
            "{count} steps were replayed {what}: they take {gain:.1f}% less time, {saved} of the "
            "{step} ms of a step. By its own time it would be {share:.0f}% less, but then "
            "something else limits the step. If that is launching: it takes less time without the "
            "profiler",
            **values,
            share=own_pct,
        )
    return say(
        "{count} steps were replayed {what}: they take {gain:.1f}% less time, {saved} of the "
        "{step} ms of a step",
        **values,
    )


def _num_replayed(facts: Facts, finding: Finding) -> int:
    remedy = finding.remedy
    if facts.replay is None or remedy is None:
        return 0
    if remedy.what_if:
        return len(facts.replay.steps.number)
    return int(facts.replayed_window.sum())


_SAME_GAIN = 0.005
"""A gain that a bound lowers by a smaller share is as it was."""


def _of_faster_ranks(facts: Facts, finding: Finding) -> Finding:
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


OF_THE_HOST = frozenset(
    {launch_bound.NAME, host_stalls.NAME, synchronizing_calls.NAME, batch_size.NAME}
)
"""Advisers that judge gaps which the CPU leaves: profiling makes them longer, or makes them."""
_OF_UNEVEN_STEPS = frozenset({late_ranks.NAME, slow_iterations.NAME, imbalanced_gpus.NAME})
"""Advisers that compare steps or ranks with each other: all of them were profiled alike."""
_EXPLAIN_IDLE_TIME = frozenset(_OF_STEPS - {batch_size.NAME})
_OF_IDLE_TIME = frozenset(
    {input_bound.NAME, launch_bound.NAME, host_stalls.NAME, synchronizing_calls.NAME}
)
"""Advisers that save idle time of the GPU."""


def _of_unprofiled_step(finding: Finding, ratio: float, idle_pct: float) -> Finding:
    """The estimate as a share of the step without profiling, whose idle time is shorter.

    Args:
        finding: The finding with its estimate.
        ratio: The step as profiled by the step without profiling.
        idle_pct: Share of the latter in which the GPU is idle. Unit: percent.
    """
    gain_pct = finding.gain_pct or 0.0
    if finding.advice in _OF_IDLE_TIME:
        return replace(finding, gain_pct=min(gain_pct, idle_pct))
    if finding.is_per_sample:
        return finding
    return replace(finding, gain_pct=min(gain_pct * max(ratio, 1.0), 100.0))


OTHER_LIMIT_PCT = 10.0
"""A replay that saves less than the estimate by more than this says why. Unit: points."""


def _replayed(finding: Finding, share: float, *, is_bound: bool, is_corrected: bool) -> Finding:
    """The finding with the gain that a replay of its remedy shows, as a part of the step.

    Where other kernels would run, a fix may save less.
    """
    is_sure = finding.certainty is Certainty.SURE
    return replace(
        finding,
        gain_pct=100.0 * share,
        gain_source=GainSource.CORRECTED if is_corrected else GainSource.REPLAY,
        estimate_pct=finding.gain_pct,
        certainty=Certainty.LIKELY if is_sure and is_bound else finding.certainty,
    )


_RANK = {Severity.HIGH: 0, Severity.MEDIUM: 1, Severity.LOW: 2}


def _matters(facts: Facts, finding: Finding) -> bool:
    """Whether it saves enough, or would if nothing else limited the step.

    Of what promises nothing the estimate counts, too: what limits the profiled step may be the
    profiler.
    """
    if finding.gain_pct is None or finding.gain_pct >= MIN_GAIN_PCT:
        return True
    if is_unproven(facts, finding) and (finding.estimate_pct or 0.0) >= MIN_GAIN_PCT:
        return True
    return _is_limited(finding.estimate_pct, finding.gain_pct)


def _is_limited(estimate_pct: float | None, replayed_pct: float) -> bool:
    return (estimate_pct or 0.0) - replayed_pct > OTHER_LIMIT_PCT


def _is_covered(finding: Finding, found: dict[str, Finding]) -> bool:
    others = (found[name] for name in finding.covered_by if name in found)
    return any(
        (other.gain_pct or 0.0) >= COVERING_RATIO * (finding.gain_pct or 0.0) for other in others
    )
