"""Bringing the clocks of several captures together.

Each export counts from the start of its own session and tells when that was by the host's clock.
Hosts' clocks differ by microseconds to seconds; ranks leave an all-reduce within microseconds of
each other. So the starts of the sessions give a first offset, and the ends of collectives correct
it where two captures come from different machines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from aggregator.dldb.rank_rows import COLLECTIVES, NOTHING, SAME_CLOCK, START_TIMES
from aggregator.ranks.collectives import (
    MIN_OVERLAP_SHARE,
    Stream,
    is_synchronising,
    overlap_share,
    same_calls,
)

SUBSTANTIAL_NS: Final = 1_000_000
"""A correction beyond this is worth a warning: a host's clock was off."""


@dataclass(frozen=True)
class Capture:
    """What the alignment looks at of one capture.

    Attributes:
        start_utc_ns: Time 0 of its clock, since 1970. Unit: ns. None: unknown.
        last_ns: Its last event on its own clock. Unit: ns.
        host: Name of its machine; empty: unknown.
        gpus: What tells its machine's GPUs from all others; empty: unknown.
        streams: Its ranks' collectives on its own clock.
        kinds: Kinds of collectives that codes of ``streams`` stand for.
    """

    start_utc_ns: int | None
    last_ns: int
    host: str
    gpus: frozenset[str]
    streams: tuple[Stream, ...]
    kinds: tuple[str, ...]

    def is_beside(self, other: Capture) -> bool:
        """Whether both ran on one machine: then their sessions were started by one clock."""
        gpus = not self.gpus or not other.gpus or bool(self.gpus & other.gpus)
        return bool(self.host) and self.host == other.host and gpus


@dataclass(frozen=True)
class Clock:
    """How the times of a capture come onto the common clock.

    Attributes:
        offset_ns: To be added; 0 where nothing is known. Unit: ns.
        correction_ns: Of it, what the collectives told. Unit: ns.
        residual_ns: Median distance of its ends of collectives from the reference's; None: none
            matched. Unit: ns.
        aligned_by: ``same clock``, ``start times``, ``collectives`` or ``nothing``.
    """

    offset_ns: int
    correction_ns: int
    residual_ns: int | None
    aligned_by: str

    @property
    def is_known(self) -> bool:
        """Whether anything aligned it."""
        return self.aligned_by != NOTHING


def align(captures: list[Capture]) -> list[Clock]:
    """Clock of each capture; the first one is the reference, the earliest event lies at 0 or later.

    Captures without collectives in common with the reference are aligned through others.
    """
    starts = [capture.start_utc_ns for capture in captures]
    base = min((start for start in starts if start is not None), default=0)
    known = all(start is not None for start in starts)
    coarse = [start - base if start is not None and known else 0 for start in starts]
    clocks: dict[int, Clock] = {0: Clock(coarse[0], 0, None, SAME_CLOCK)}
    waiting = set(range(1, len(captures)))
    frontier = [0]
    while frontier and waiting:
        reached = []
        for reference in frontier:
            for number in sorted(waiting):
                pair = (captures[reference], captures[number])
                offsets = (clocks[reference].offset_ns, coarse[number])
                found = _by_collectives(pair, offsets, has_starts=known)
                if found is not None:
                    clocks[number] = found
                    reached.append(number)
            waiting -= set(reached)
        frontier = reached
    for number in waiting:
        by = START_TIMES if known else NOTHING
        clocks[number] = Clock(coarse[number], 0, None, by)
    return _from_zero([clocks[number] for number in range(len(captures))])


def _from_zero(clocks: list[Clock]) -> list[Clock]:
    """Corrections may move a capture before the first: time 0 is then its start."""
    first = min(clock.offset_ns for clock in clocks if clock.is_known)
    if first >= 0:
        return clocks
    return [
        Clock(
            clock.offset_ns - first if clock.is_known else 0,
            clock.correction_ns,
            clock.residual_ns,
            clock.aligned_by,
        )
        for clock in clocks
    ]


def _by_collectives(
    pair: tuple[Capture, Capture], offsets: tuple[int, int], *, has_starts: bool
) -> Clock | None:
    """Clock of the second capture by the collectives that it shares with the first."""
    first, second = pair
    best = _best_pair(first, second)
    if best is None:
        return None
    reference, own = best[0].shifted(offsets[0]), best[1].shifted(offsets[1])
    shared = same_calls(reference, own)
    rows = np.flatnonzero(is_synchronising(reference, first.kinds)[:shared])
    if not len(rows):
        rows = np.arange(shared)
    apart = reference.end_ns[rows] - own.end_ns[rows]
    correction = int(np.sort(apart)[len(apart) // 2])
    if has_starts and first.is_beside(second) and _fits(reference, own, 0, first.kinds):
        return Clock(offsets[1], 0, int(np.median(np.abs(apart))), START_TIMES)
    if not _fits(reference, own, correction, first.kinds):
        return None
    residual = int(np.median(np.abs(apart - correction)))
    return Clock(offsets[1] + correction, correction, residual, COLLECTIVES)


def _best_pair(first: Capture, second: Capture) -> tuple[Stream, Stream] | None:
    """The pair of streams with the most calls in common; kinds are compared by name."""
    found: tuple[int, Stream, Stream] | None = None
    for a in first.streams:
        for b in second.streams:
            shared = same_calls(a, b) if len(b) else 0
            if shared and (found is None or shared > found[0]):
                found = (shared, a, b)
    return (found[1], found[2]) if found else None


def _fits(a: Stream, b: Stream, correction_ns: int, kinds: tuple[str, ...]) -> bool:
    """Whether the calls that synchronise run at the same time after a correction."""
    shared = same_calls(a, b)
    rows = np.flatnonzero(is_synchronising(a, kinds)[:shared])
    rows = rows if len(rows) else np.arange(shared)
    moved = b.shifted(correction_ns)
    return overlap_share(_part(a, rows), _part(moved, rows)) >= MIN_OVERLAP_SHARE


def _part(stream: Stream, rows: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Stream:
    return Stream(
        stream.rank,
        stream.rows[rows],
        stream.kind[rows],
        stream.start_ns[rows],
        stream.end_ns[rows],
    )


def runs_beside_others(captures: list[Capture], number: int) -> bool | None:
    """Whether a capture's time overlaps any other's by the hosts' clocks; None: not told."""
    own = captures[number]
    others = [c for other, c in enumerate(captures) if other != number]
    if own.start_utc_ns is None or any(other.start_utc_ns is None for other in others):
        return None
    return any(
        own.start_utc_ns < (other.start_utc_ns or 0) + other.last_ns
        and (other.start_utc_ns or 0) < own.start_utc_ns + own.last_ns
        for other in others
    )
