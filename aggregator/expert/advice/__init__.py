"""Our own advice: one adviser per file; what a profile does not tell, it says instead of guessing.

An adviser is a pure function of ``Facts``. To add one, write its file, add it to ``ADVISERS`` and
its sentences in Chinese to ``aggregator.texts.zh.advice``.
"""

from __future__ import annotations

from collections.abc import Callable

from aggregator.expert.advice import (
    batch_size,
    copies,
    exposed_communication,
    gpus,
    half_precision,
    host_stalls,
    input_bound,
    launch_bound,
    layout_conversions,
    settings,
    slow_iterations,
    synchronizing_calls,
    tensor_core_fallback,
    tf32_off,
    tiny_kernels,
    unaligned_shapes,
    unfused_optimizer,
)
from aggregator.expert.advice.facts import Facts
from aggregator.expert.advice.finding import LEAST_GAIN_PCT, Answer, Finding, Severity, Unknown

ADVISERS: tuple[Callable[[Facts], Answer], ...] = (
    input_bound.advise,
    launch_bound.advise,
    host_stalls.advise,
    slow_iterations.advise,
    synchronizing_calls.advise,
    copies.advise_pageable,
    copies.advise_overlap,
    exposed_communication.advise,
    gpus.advise_imbalance,
    half_precision.advise,
    tf32_off.advise,
    tensor_core_fallback.advise,
    unaligned_shapes.advise,
    layout_conversions.advise,
    unfused_optimizer.advise,
    tiny_kernels.advise,
    batch_size.advise,
    settings.advise_debugging,
    settings.advise_benchmark,
    gpus.advise_unused,
)

COVERED = {
    tiny_kernels.NAME: (launch_bound.NAME,),
    host_stalls.NAME: (slow_iterations.NAME,),
    exposed_communication.NAME: (gpus.IMBALANCED_NAME,),
}
"""Advice that is left out where another, which says the same better, wins as much or nearly."""
NEARLY = 0.6


def advise(facts: Facts) -> tuple[list[Finding], list[Unknown]]:
    """All advice, what could win most first, and the questions that stay open."""
    answers = [adviser(facts) for adviser in ADVISERS]
    found = {one.advice: one for one in answers if isinstance(one, Finding) and _is_worth(one)}
    kept = [one for one in found.values() if not _is_covered(one, found)]
    kept.sort(key=lambda one: (_RANK[one.level], -(one.gain_pct or 0.0)))
    return kept, [one for one in answers if isinstance(one, Unknown)]


_RANK = {Severity.HIGH: 0, Severity.MEDIUM: 1, Severity.LOW: 2}


def _is_worth(finding: Finding) -> bool:
    return finding.gain_pct is None or finding.gain_pct >= LEAST_GAIN_PCT


def _is_covered(finding: Finding, found: dict[str, Finding]) -> bool:
    others = (found[name] for name in COVERED.get(finding.advice, ()) if name in found)
    return any((one.gain_pct or 0.0) >= NEARLY * (finding.gain_pct or 0.0) for one in others)
