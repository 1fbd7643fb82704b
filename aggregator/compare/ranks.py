"""A rank that became slower: its host launches, and how late it comes to the collectives.

The other ranks wait for it in a collective: of the mean over the GPUs most is communication.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from aggregator.events.model import UNKNOWN
from aggregator.events.store import EventStore
from aggregator.profile.arrays import Int64
from aggregator.texts import Text, say

STRETCHED: Final = 1.3
"""Longer launches of a rank than this times those of the base; runs of a program differ by less."""
LEAST_SHARE: Final = 0.02
"""Launches that take longer by a smaller share of the step are not named."""
MAIN_SHARE: Final = 0.5
"""A rank that is later by this share of what the step takes longer explains it."""


@dataclass(frozen=True)
class RankTimes:
    """What a rank did in a mean step. Units: ns."""

    rank: int
    launches: float  # Number of launches.
    launching_ns: float  # Time in the launching calls.
    late_ns: float | None  # How long each other rank waited for it; None: unknown.

    @property
    def call_ns(self) -> float:
        """Mean time of a launching call."""
        return self.launching_ns / max(self.launches, 1.0)


def read_rank_times(store: EventStore, aggr: int, numbers: Int64) -> tuple[RankTimes, ...]:
    """Read the times of each rank in some iterations; empty: one rank, or none is known."""
    if not store.has("ranks"):
        return ()
    ranks = store.values("ranks", "rank", "id", "process")
    if len(ranks) < 2:
        return ()
    bounds = {
        int(number): (int(start), int(stop))
        for number, start, stop in store.of_aggregation(
            "iterations", aggr, "iter_value", "start", "stop"
        )
    }
    inside = [bounds[number] for number in numbers.tolist() if number in bounds]
    if not inside:
        return ()
    low, high = min(start for start, _ in inside), max(stop for _, stop in inside)
    process, start, length = store.integers("kernels", ("process", "api_start", "api_duration"))
    launched = (start >= low) & (start < high)
    found = store.collectives
    found = found.rows(launched[found.kernel])
    return tuple(
        RankTimes(
            rank=int(rank),
            launches=float((launched & (process == number)).sum()) / len(inside),
            launching_ns=float(length[launched & (process == number)].sum()) / len(inside),
            late_ns=_mean_ns(
                np.where(
                    found.kept_waiting_ns == UNKNOWN,
                    UNKNOWN,
                    found.kept_waiting_ns // np.maximum(found.num_ranks - 1, 1),
                )[found.rank == row],
                len(inside),
            ),
        )
        for rank, row, number in ranks
    )


def _mean_ns(time_ns: Int64, steps: int) -> float | None:
    known = time_ns[time_ns != UNKNOWN]
    return float(known.sum()) / steps if len(known) else None


def slow_rank(
    base: Sequence[Sequence[RankTimes]],
    new: Sequence[Sequence[RankTimes]],
    base_ns: float,
    slower_ns: float,
) -> Text | None:
    """Return a sentence that names the rank whose host became slower, or None if there is none."""
    before, after = _by_rank(base), _by_rank(new)
    if len(before) < 2 or before.keys() != after.keys():
        return None
    return _stretched(before, after, base_ns, slower_ns) or _late(before, after, slower_ns)


def _by_rank(side: Sequence[Sequence[RankTimes]]) -> dict[int, RankTimes]:
    """Means over the captures of a side; empty: a capture has other ranks."""
    if len({tuple(times.rank for times in capture) for capture in side}) != 1:
        return {}
    return {
        ranks[0].rank: RankTimes(
            rank=ranks[0].rank,
            launches=float(np.mean([times.launches for times in ranks])),
            launching_ns=float(np.mean([times.launching_ns for times in ranks])),
            late_ns=_mean_of([times.late_ns for times in ranks]),
        )
        for ranks in zip(*side, strict=True)
    }


def _mean_of(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


def _stretched(
    before: dict[int, RankTimes], after: dict[int, RankTimes], base_ns: float, slower_ns: float
) -> Text | None:
    ratio = {rank: after[rank].call_ns / max(before[rank].call_ns, 1.0) for rank in before}
    rank = max(ratio, key=lambda number: ratio[number])
    others = max(ratio[number] for number in ratio if number != rank)
    longer = after[rank].launching_ns - before[rank].launching_ns
    least = max(LEAST_SHARE * base_ns, 0.25 * slower_ns)
    if ratio[rank] < STRETCHED or others > (1.0 + ratio[rank]) / 2 or longer < least:
        return None
    return say(
        "Host launches on rank {rank} take {ratio:.1f}x as long ({base:.1f} -> {new:.1f} us each, "
        "{longer:+.2f} ms a step); the other ranks wait for it in collectives.",
        rank=rank,
        ratio=ratio[rank],
        base=before[rank].call_ns / 1e3,
        new=after[rank].call_ns / 1e3,
        longer=longer / 1e6,
    )


def _late(
    before: dict[int, RankTimes], after: dict[int, RankTimes], slower_ns: float
) -> Text | None:
    later = {
        rank: then - now
        for rank in before
        if (now := before[rank].late_ns) is not None and (then := after[rank].late_ns) is not None
    }
    rank = max(later, key=lambda number: later[number], default=None)
    if rank is None or slower_ns <= 0 or later[rank] < MAIN_SHARE * slower_ns:
        return None
    return say(
        "Rank {rank} comes to the collectives {late:.2f} ms a step later than in the base; the "
        "other ranks wait for it.",
        rank=rank,
        late=later[rank] / 1e6,
    )
