"""Finds the slow rank of a job from the summaries of its ranks.

The summaries are joined as databases are: numbers of ranks, clocks and communicators by the same
rules. The result is that of a database of all ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aggregator.metrics.collectives import (
    SYNCHRONIZING,
    CollectiveKernels,
    match,
)
from aggregator.metrics.ownership import CLASSES
from aggregator.profile.arrays import Int64
from aggregator.ranks.checks import align_files, same_kinds
from aggregator.ranks.summary_reader import RankSummary, read_rank_summary
from aggregator.ranks.summary_schema import SummaryRank
from aggregator.replay.rank_calls import Calls, most_regular
from aggregator.replay.rank_report import (
    AlignedRank,
    RankReport,
    compared_ranks,
    no_steps,
    rank_report,
    require_several,
)
from aggregator.replay.rank_steps import CallTimes


@dataclass(frozen=True)
class RankTimes:
    """Mean times of a rank in its steady steps. Unit: ns."""

    number: int  # Number of the rank in the job.
    host: str
    source: str  # Where its full database is; empty: not stored.
    steps: int  # Number of the steps.
    step_ns: float
    classes_ns: dict[str, float]  # By class; empty: unknown.


@dataclass(frozen=True)
class JoinedRanks:
    """The ranks of a job."""

    report: RankReport
    times: tuple[RankTimes, ...]  # By number.

    def document(self) -> dict[str, Any]:
        """The result for people and scripts: that of a database, and the times of each rank."""
        times = [
            {
                "rank": time.number,
                "host": time.host,
                "database": time.source,
                "steps": time.steps,
                "step_ns": round(time.step_ns),
                "classes_ns": {name: round(value) for name, value in time.classes_ns.items()},
            }
            for time in self.times
        ]
        return {**self.report.document(), "rank_times": times}


def join_summaries(paths: Sequence[Path]) -> JoinedRanks:
    """Compare the ranks of summaries.

    Raises:
        NotOneJobError: They are not of one job.
        ReplayError: The ranks cannot be compared.
        CorruptProfileError: A summary is damaged.
    """
    files = [read_rank_summary(path) for path in paths]
    align_files(files, lambda file: file.collectives)
    ranks = _Joined(files)
    return JoinedRanks(ranks.report(), _times(files))


class _Joined:
    """The collectives of all ranks on a common clock."""

    def __init__(self, files: Sequence[RankSummary]) -> None:
        self._files = files
        self._ranks: list[tuple[RankSummary, SummaryRank, int]] = [
            (file, rank, number)
            for file in files
            for rank, number in zip(file.ranks, file.new_ranks, strict=True)
        ]
        self._is_aligned = np.array(
            [file.clock.is_known and rank.is_aligned for file, rank, _ in self._ranks], dtype=bool
        )

    def report(self) -> RankReport:
        """Compare the ranks."""
        aligned = np.flatnonzero(self._is_aligned)
        ranks = [
            AlignedRank(number, max(rank.residual_ns, file.clock.residual_ns or 0))
            for file, rank, number in (self._ranks[place] for place in aligned.tolist())
        ]
        unaligned = [
            number
            for is_aligned, (*_, number) in zip(self._is_aligned, self._ranks, strict=True)
            if not is_aligned
        ]
        require_several(ranks, unaligned)
        calls = self._calls(aligned)
        steady = self._steady(int(aligned[most_regular(calls)]))
        if not len(steady):
            raise no_steps()
        compared = compared_ranks(ranks, unaligned, calls, steady)
        return rank_report(compared, self._times(compared.arranged.kernel))

    def _calls(self, aligned: Int64) -> Calls:
        found = self._collectives()
        matched = match(found, self._is_aligned)
        place = np.full(len(self._ranks), -1)
        place[aligned] = np.arange(len(aligned))
        synchronizes = np.array([kind in SYNCHRONIZING for kind in found.kinds], dtype=bool)
        iteration = np.concatenate([file.iteration for file in self._files])
        kept = synchronizes[found.kind] & (matched.communicator >= 0) & (iteration >= 0)
        return Calls(
            kernel=found.kernel,
            rank=place[found.rank],
            communicator=matched.communicator,
            sequence=matched.sequence,
            iteration=iteration,
            start_ns=found.start_ns,
        ).rows(np.flatnonzero(kept))

    def _collectives(self) -> CollectiveKernels:
        names = ("device", "stream", "kind", "call")
        found = same_kinds([file.collectives for file in self._files])
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(own, name) for own in found]) for name in names
        }
        for name in ("start_ns", "end_ns"):
            pairs = zip(found, self._files, strict=True)
            shifted = [getattr(own, name) + file.clock.offset_ns for own, file in pairs]
            columns[name] = np.concatenate(shifted)
        first = np.cumsum([0, *(len(file.ranks) for file in self._files)])
        ranks = [file.collectives.rank + low for file, low in zip(self._files, first, strict=False)]
        rank = np.concatenate(ranks)
        return CollectiveKernels(
            kernel=np.arange(len(rank)), rank=rank, kinds=found[0].kinds, **columns
        )

    def _steady(self, place: int) -> Int64:
        file, rank, _ = self._ranks[place]
        rows = file.rows
        own = (rows.rank == file.ranks.index(rank)) & rows.is_steady & (rows.step >= 0)
        return np.sort(rows.step[own])

    def _times(self, kernels: Int64) -> Iterator[CallTimes]:
        """Yield the chosen collectives of each rank on the common clock."""
        first = np.cumsum([0, *(len(file.collectives) for file in self._files)])
        for rows in kernels.reshape(len(kernels), -1):
            number = int(np.searchsorted(first, rows[0], side="right")) - 1
            file = self._files[number]
            yield file.times.rows(rows - first[number]).shifted(file.clock.offset_ns)


def _times(files: Sequence[RankSummary]) -> tuple[RankTimes, ...]:
    found = []
    for file in files:
        rows = file.rows
        for place, rank in enumerate(file.ranks):
            own = np.flatnonzero((rows.rank == place) & rows.is_steady)
            means = rows.classes_ns[own].mean(axis=0) if len(own) else np.full(len(CLASSES), np.nan)
            is_known = bool(np.isfinite(means).all())
            found.append(
                RankTimes(
                    number=file.new_ranks[place],
                    host=rank.host,
                    source=file.source,
                    steps=len(own),
                    step_ns=float(rows.duration_ns[own].mean()) if len(own) else 0.0,
                    classes_ns=dict(zip(CLASSES, means.tolist(), strict=True)) if is_known else {},
                )
            )
    return tuple(sorted(found, key=lambda item: item.number))
