"""Chooses the mode: the framework whose ranges a profile holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aggregator.correlate.combined_backward import has_engine_threads
from aggregator.errors import NoFrameworkRangesError, UsageError
from aggregator.frameworks import (
    FRAMEWORKS,
    PYTORCH,
    USER_RANGES,
    Framework,
    framework_of,
)
from aggregator.frameworks.meaning import RangeKind, RangeMeaning
from aggregator.options import Mode
from aggregator.profile.arrays import Int64
from aggregator.profile.intervals import flatten
from aggregator.profile.profile import Profile, Ranges
from aggregator.texts import say

OP_KINDS = (RangeKind.OP, RangeKind.WRAPPER, RangeKind.NODE, RangeKind.COMPILED)
"""Kinds of ranges that only a framework writes."""


@dataclass(frozen=True)
class Reading:
    """A framework whose ranges a profile holds."""

    framework: Framework  # The framework.
    domain: int  # Code of the domain that holds its ops.
    meaning: RangeMeaning  # What the range names mean.


def choose_mode(profile: Profile, mode: Mode) -> tuple[Reading | None, str]:
    """Return the framework whose ranges are read (None: simple mode), and why.

    Raises:
        NoFrameworkRangesError: No range is an op of the framework selected by the mode.
        UsageError: A mode that this version does not read.
    """
    if mode is Mode.SIMPLE:
        return None, say("as asked")
    if mode is Mode.AUTO:
        for framework in FRAMEWORKS:
            reading = _find_ops(profile, framework, only_claimed=True)
            if reading is not None:
                return reading, _reason(
                    framework, say("{title} ranges found", title=framework.title)
                )
        if _has_user_ranges(profile):
            meaning = USER_RANGES.read_meaning(profile.range_names)
            reason = say("no framework ranges found, ranges of the program name its work")
            return Reading(USER_RANGES, 0, meaning), reason
        return None, say("no framework ranges found")
    wanted = framework_of(mode)
    if wanted is None:
        known = ", ".join(f"--mode={framework.mode}" for framework in FRAMEWORKS)
        raise UsageError(
            say("The mode '{mode}' is not supported in this version.", mode=mode),
            hint=say("Use --mode=auto, {known} or --mode=simple.", known=known),
        )
    reading = _find_ops(profile, wanted, only_claimed=False)
    if reading is None and wanted is PYTORCH and has_engine_threads(profile):
        meaning = wanted.read_meaning(profile.range_names)
        return Reading(wanted, 0, meaning), say("as asked; no op carries a range")
    if reading is None:
        raise NoFrameworkRangesError(
            say("The profile holds no {title} op ranges.", title=wanted.title), hint=wanted.advice
        )
    return reading, _reason(wanted, say("as asked"))


def _has_user_ranges(profile: Profile) -> bool:
    ranges, api, process = profile.ranges, profile.api_calls, profile.thread_process
    if not len(profile.range_names):
        return False
    named = np.array([bool(name.strip()) for name in profile.range_names], dtype=bool)
    rows = np.flatnonzero((ranges.domain == 0) & named[ranges.name])
    of_range, of_call = process[ranges.thread[rows]], process[api.thread]
    for number in np.unique(of_range).tolist():
        own, calls = rows[of_range == number], api.start_ns[of_call == number]
        covered = flatten(ranges.start_ns[own], ranges.end_ns[own])
        if (covered.covered_before(calls + 1) > covered.covered_before(calls)).any():
            return True
    return False


def _reason(framework: Framework, why: str) -> str:
    return (
        say("{why}; {evidence}", why=why, evidence=framework.evidence)
        if framework.evidence
        else why
    )


def _find_ops(profile: Profile, framework: Framework, *, only_claimed: bool) -> Reading | None:
    """Return the first of the framework's domains that contains its ops."""
    for domain in framework.domains:
        if domain not in profile.domain_names:
            continue
        code = profile.domain_names.index(domain)
        kinds = [profile.ranges]
        if framework.reads_start_end:
            kinds.append(profile.start_end_ranges)
        used = np.unique(np.concatenate([_names_in(kind, code) for kind in kinds]))
        names = tuple(profile.range_names[name] for name in used.tolist())
        if not names or (only_claimed and not framework.claims(names)):
            continue
        meaning = framework.read_meaning(profile.range_names)
        if bool(np.isin(meaning.kind[used], OP_KINDS).any()) or any(map(framework.owns, names)):
            return Reading(framework, code, meaning)
    return None


def _names_in(ranges: Ranges, domain: int) -> Int64:
    is_in = ranges.domain == domain
    return np.flatnonzero(np.bincount(ranges.name if is_in.all() else ranges.name[is_in]))
