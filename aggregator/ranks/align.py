"""Aligns the clocks of several captures.

Each export counts from the start of its own session and records when that was by the host's clock.
Hosts' clocks differ by microseconds to seconds; ranks leave an all-reduce within microseconds of
each other. So the starts of the sessions give a first offset, and the ends of collectives correct
it where two captures come from different machines.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from aggregator.dldb.rows.ranks import COLLECTIVES, NOTHING, SAME_CLOCK, START_TIMES
from aggregator.metrics.collectives import (
    MIN_OVERLAP_SHARE,
    Stream,
    common_calls,
    is_synchronizing,
    overlap_share,
)

SUBSTANTIAL_NS: Final = 1_000_000
"""Corrections above this get a warning."""


@dataclass(frozen=True)
class Capture:
    """The data of one capture that the alignment uses."""

    start_utc_ns: int | None  # Time 0 of its clock, since 1970. Unit: ns. None: unknown.
    last_ns: int  # Its last event on its own clock. Unit: ns.
    host: str  # Name of its machine; empty: unknown.
    gpus: frozenset[str]  # UUIDs of its machine's GPUs; empty: unknown.
    streams: tuple[Stream, ...]  # Its ranks' collectives on its own clock.
    kinds: tuple[str, ...]  # Kinds of collectives that codes of ``streams`` stand for.

    def is_beside(self, other: Capture) -> bool:
        """Return whether both ran on one machine, which has one clock."""
        gpus = not self.gpus or not other.gpus or bool(self.gpus & other.gpus)
        return bool(self.host) and self.host == other.host and gpus


@dataclass(frozen=True)
class Clock:
    """How the times of a capture are moved to the common clock."""

    offset_ns: int  # To be added; 0 if nothing is known. Unit: ns.
    correction_ns: int  # The part of it that was found by collectives. Unit: ns.
    # Median distance of its ends of collectives from the reference's; None: no collectives matched.
    # Unit: ns.
    residual_ns: int | None
    aligned_by: str  # ``same clock``, ``start times``, ``collectives`` or ``nothing``.

    @property
    def is_known(self) -> bool:
        """Whether anything aligned it."""
        return self.aligned_by != NOTHING


UNKNOWN_CLOCK: Final = Clock(0, 0, None, NOTHING)


def align(captures: list[Capture]) -> list[Clock]:
    """Clock of each capture; the first one is the reference, the earliest event lies at 0 or later.

    Captures without collectives in common with the reference are aligned through others.
    """
    starts = [capture.start_utc_ns for capture in captures]
    base = min((start for start in starts if start is not None), default=0)
    known = all(start is not None for start in starts)
    coarse = [start - base if start is not None and known else 0 for start in starts]
    clocks: dict[int, Clock] = {0: Clock(coarse[0], 0, None, SAME_CLOCK)}
    reached = True
    while reached:
        reached = False
        for number in range(len(captures)):
            if number not in clocks:
                found = _clock_of(captures, clocks, number, coarse[number], has_starts=known)
                if found is not None:
                    clocks[number] = found
                    reached = True
    by = START_TIMES if known else NOTHING
    return _from_zero(
        [clocks.get(number, Clock(coarse[number], 0, None, by)) for number in range(len(captures))]
    )


def _clock_of(
    captures: list[Capture],
    clocks: dict[int, Clock],
    number: int,
    coarse_ns: int,
    *,
    has_starts: bool,
) -> Clock | None:
    """Clock of a capture from the known clocks of others, those of its own machine first.

    One machine has one clock: the correction of one of its captures holds for all.
    """
    own = captures[number]
    beside = [other for other in clocks if has_starts and own.is_beside(captures[other])]
    for other in beside[:1]:
        clock = clocks[other]
        correction = clock.correction_ns
        pair = _common_calls(captures[other], own)
        if pair is None:
            continue
        reference = pair[0].shifted(clock.offset_ns)
        moved = pair[1].shifted(coarse_ns + correction)
        if overlap_share(reference, moved) >= MIN_OVERLAP_SHARE:
            by = START_TIMES if clock.aligned_by == SAME_CLOCK else clock.aligned_by
            residual = int(np.median(np.abs(reference.end_ns - moved.end_ns)))
            return Clock(coarse_ns + correction, correction, residual, by)
    for other, clock in clocks.items():
        found = _by_collectives(captures[other], own, clock.offset_ns, coarse_ns)
        if found is not None:
            return found
    return None


def _from_zero(clocks: list[Clock]) -> list[Clock]:
    """Move all clocks so that the earliest offset is not negative."""
    first = min(clock.offset_ns for clock in clocks if clock.is_known)
    if first >= 0:
        return clocks
    return [
        replace(clock, offset_ns=clock.offset_ns - first if clock.is_known else 0)
        for clock in clocks
    ]


def _by_collectives(
    first: Capture, second: Capture, offset_ns: int, coarse_ns: int
) -> Clock | None:
    """Clock of the second capture by the ends of the collectives that it shares with the first."""
    pair = _common_calls(first, second)
    if pair is None:
        return None
    reference, own = pair[0].shifted(offset_ns), pair[1].shifted(coarse_ns)
    apart = reference.end_ns - own.end_ns
    correction = int(np.sort(apart)[len(apart) // 2])
    if overlap_share(reference, own.shifted(correction)) < MIN_OVERLAP_SHARE:
        return None
    residual = int(np.median(np.abs(apart - correction)))
    return Clock(coarse_ns + correction, correction, residual, COLLECTIVES)


def _common_calls(first: Capture, second: Capture) -> tuple[Stream, Stream] | None:
    """Return the calls that two captures have in common, from the pair of streams that shares most.

    If some of the calls synchronize, only those: the root of a broadcast leaves early.
    """
    pairs = [common_calls(a, b) for a in first.streams for b in second.streams]
    own, other = max(pairs, key=lambda pair: len(pair[0]), default=(None, None))
    if own is None or other is None or not len(own):
        return None
    rows = np.flatnonzero(is_synchronizing(own, first.kinds))
    rows = rows if len(rows) else np.arange(len(own))
    return own.at(rows), other.at(rows)


def runs_beside_others(captures: list[Capture], number: int) -> bool | None:
    """Whether a capture's time overlaps another's by the hosts' clocks; None: unknown."""
    own = captures[number]
    others = [c for other, c in enumerate(captures) if other != number]
    if own.start_utc_ns is None or any(other.start_utc_ns is None for other in others):
        return None
    return any(
        own.start_utc_ns < (other.start_utc_ns or 0) + other.last_ns
        and (other.start_utc_ns or 0) < own.start_utc_ns + own.last_ns
        for other in others
    )
