"""Reads the ranks of a database and finds the one that makes the step slow."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from aggregator.dldb.column_blobs import read_columns
from aggregator.dldb.event_reader import stored_events
from aggregator.dldb.rows.collectives import UNALIGNED
from aggregator.dldb.writer import has_table
from aggregator.errors import InvalidValueError, ReplayError
from aggregator.events.window import NoStepsError, read_steps
from aggregator.kernels.traits import communication_kernels
from aggregator.metrics.collectives import SYNCHRONIZING
from aggregator.profile.arrays import Bool, Int64
from aggregator.replay.analysis import INTERVAL_PCT, Prediction, ReplayedProfile
from aggregator.replay.rank_calls import ArrangedCalls, Calls, arrange, cannot_compare
from aggregator.replay.rank_steps import CallTimes, RankEvents, call_times, steps_of_calls
from aggregator.replay.slow_ranks import RankGains, SlowRanks, find_slow_ranks, rank_verdict
from aggregator.texts import Text, say

MAX_RESIDUAL = 0.03
"""Disagreement of the clocks, as a share of the step, above which the confidence is low."""
MAX_LOST_PCT = 5
"""Share of its collectives without a launch, from which a rank is not compared. Unit: percent."""
_COLUMNS = ("start", "duration", "api_start", "api_duration", "process", "name")


@dataclass(frozen=True)
class RankReport:
    """Result of a database."""

    found: SlowRanks
    ranks: tuple[int, ...]  # Numbers of the ranks, in the order of the result.
    iterations: tuple[int, ...]  # Numbers of the iterations, in the order of the result.
    notes: tuple[Text, ...]  # What lowers the confidence.

    @property
    def verdict(self) -> Text:
        """One sentence."""
        return rank_verdict(self.found, list(self.ranks), list(self.iterations))

    @property
    def confidence(self) -> str:
        """``high``, ``medium`` (a note) or ``low`` (several, or the replay does not fit)."""
        if not self.found.is_exact or len(self.notes) > 1:
            return "low"
        return "medium" if self.notes else "high"

    def document(self) -> dict[str, Any]:
        """The result for people and scripts; what is not known is None."""
        found = self.found
        median, worst = found.error_pct
        share = found.contribution
        return {
            "verdict": self.verdict,
            "confidence": self.confidence,
            "notes": list(self.notes),
            "slow_rank": None if found.named is None else self.ranks[found.named],
            "slow_iterations": [self.iterations[step] for step in found.slow_steps.tolist()],
            "step_ns": round(found.step_ns),
            "mean_step_ns": round(float(found.replayed_ns.mean())),
            "ideal_step_ns": round(float(found.ideal_ns.mean())),
            "slowdown": round(found.slowdown, 6),
            "error_pct": {"median": round(median, 6), "worst": round(worst, 6)},
            "ranks": [
                {
                    "rank": number,
                    "late_ns": round(float(found.late_ns[place].mean())),
                    "step_without_ns": _rounded(found.predicted_ns(place)),
                    "contribution_pct": _pct(float(share[place])),
                }
                for place, number in enumerate(self.ranks)
            ],
            "iterations": [
                {
                    "iteration_index": number,
                    "step_ns": round(float(found.measured_ns[step])),
                    "late_ns": np.rint(found.late_ns[:, step]).astype(np.int64).tolist(),
                }
                for step, number in enumerate(self.iterations)
            ],
        }


def rank_prediction(
    report: RankReport, rank: str, profile: ReplayedProfile, *, alone: bool
) -> Prediction:
    """The step if a rank were as fast as the median of the others.

    The ranks are compared from collective to collective; each step of the profile gains what the
    one of the same iteration does, the usual gain where the ranks were not compared.

    Args:
        report: The ranks compared.
        rank: Number of the rank.
        profile: The steps as they are replayed.
        alone: Whether this is the only change.

    Raises:
        InvalidValueError: No such rank, its step was not replayed, or there are other changes.
    """
    known = [number for number, one in enumerate(report.ranks) if str(one) == rank]
    if not alone:
        raise InvalidValueError(say("The speed of a rank cannot be combined with other changes."))
    if not known or math.isnan(report.found.predicted_ns(known[0])):
        raise InvalidValueError(
            say("No step without the slowness of rank '{rank}' is known.", rank=rank),
            hint=say("The ranks are {ranks}.", ranks=", ".join(map(str, report.ranks))),
        )
    found = report.found
    gain = found.gain_ns(known[0])
    compared, number = np.array(report.iterations), profile.steps.number
    place = np.minimum(np.searchsorted(compared, number), len(compared) - 1)
    own = np.where(compared[place] == number, gain[place], np.median(gain))
    steps = profile.measured_ns - own
    low, high = np.percentile(steps, INTERVAL_PCT)
    return Prediction(
        predicted_step_ns=int(np.median(steps)),
        mean_step_ns=int(steps.mean()),
        interval_ns=(int(low), int(high)),
        is_bound=False,
    )


@dataclass(frozen=True)
class ComparedRank:
    """A rank whose clock is known."""

    number: int
    residual_ns: int  # Of its clock. Unit: ns.
    row: int = 0  # Row of ranks.
    process: int = 0  # Row of processes.


@dataclass(frozen=True)
class ComparedRanks:
    """Ranks of a database whose collectives fit each other."""

    ranks: tuple[ComparedRank, ...]
    unaligned: tuple[int, ...]  # Numbers of ranks whose clock is unknown.
    silent: tuple[int, ...]  # Numbers of ranks without a common collective.
    arranged: ArrangedCalls


def read_slow_ranks(connection: sqlite3.Connection, aggr: int) -> RankReport:
    """Compare the ranks of an aggregation.

    Raises:
        ReplayError: They cannot be compared; the message says why.
        sqlite3.Error, ValueError, TypeError, KeyError, OverflowError, IndexError: It is damaged.
    """
    compared = read_compared_ranks(connection, aggr)
    return rank_report(compared, map(call_times, read_rank_events(connection, compared)))


def rank_report(compared: ComparedRanks, calls: Iterable[CallTimes]) -> RankReport:
    """Compare ranks by their arranged collectives, which ``calls`` has for each of them.

    Raises:
        ReplayError: They cannot be compared.
    """
    known = _with_launches(compared, calls)
    found = find_slow_ranks(steps_of_calls(known, compared.arranged.group))
    return RankReport(
        found=found,
        ranks=tuple(one.number for one in compared.ranks),
        iterations=tuple(compared.arranged.iteration.tolist()),
        notes=_notes(found, compared),
    )


def _with_launches(compared: ComparedRanks, calls: Iterable[CallTimes]) -> Iterator[CallTimes]:
    """The same, if the launches are known: without them, nothing shows what a rank waited for.

    A collective without one counts as launched in no time when it started.
    """
    for rank, times in zip(compared.ranks, calls, strict=True):
        lost = 100 * float((times.api_end_ns == times.start_ns).mean())
        if lost > MAX_LOST_PCT:
            raise cannot_compare(
                say(
                    "{share} % of the launches of rank {rank} are not recorded",
                    share=round(lost),
                    rank=rank.number,
                )
            )
        yield times


def read_rank_gains(connection: sqlite3.Connection, aggr: int) -> RankGains | None:
    """What the ranks of an aggregation cost; None: they cannot be compared, or not reliably.

    Raises:
        sqlite3.Error, ValueError, TypeError, KeyError, OverflowError, IndexError: It is damaged.
    """
    try:
        report = read_slow_ranks(connection, aggr)
    except ReplayError:
        return None
    found = report.found
    if report.confidence == "low":
        return None
    step_ns = float(found.replayed_ns.mean())
    gains = [float(found.gain_ns(place).mean()) for place in range(len(report.ranks))]
    return RankGains(
        num_steps=len(report.iterations),
        step_ns=step_ns,
        ideal_ns=float(found.ideal_ns.mean()),
        without_ns={
            rank: step_ns - gain
            for rank, gain in zip(report.ranks, gains, strict=True)
            if not math.isnan(gain)
        },
    )


def read_compared_ranks(connection: sqlite3.Connection, aggr: int) -> ComparedRanks:
    """Read the collectives of an aggregation, arranged by rank and step.

    Raises: as ``read_slow_ranks``.
    """
    if not has_table(connection, "collectives"):
        raise cannot_compare(say("an older version wrote the database"))
    rows = connection.execute(
        "SELECT id, rank, process, aligned_by, coalesce(clock_residual, 0) FROM ranks ORDER BY rank"
    ).fetchall()
    ranks = [ComparedRank(row[1], row[4], row[0], row[2]) for row in rows if row[3] != UNALIGNED]
    unaligned = [int(row[1]) for row in rows if row[3] == UNALIGNED]
    require_several(ranks, unaligned)
    try:
        steady = read_steps(stored_events(connection), aggr).number
    except NoStepsError as error:
        raise no_steps() from error
    return compared_ranks(ranks, unaligned, _read_calls(connection, aggr, ranks), steady)


def require_several(ranks: Sequence[ComparedRank], unaligned: Sequence[int]) -> None:
    """Raise a ReplayError if there is no second rank whose clock is known."""
    if len(ranks) + len(unaligned) < 2:
        raise cannot_compare(say("the profile has one rank"))
    if len(ranks) < 2:
        raise cannot_compare(say("their clocks are unknown"))


def no_steps() -> ReplayError:
    """The error for ranks without steps."""
    return cannot_compare(say("the profile has no steps"))


def compared_ranks(
    ranks: Sequence[ComparedRank], unaligned: Sequence[int], calls: Calls, steady: Int64
) -> ComparedRanks:
    """Arrange the collectives of ranks.

    Args:
        ranks: The ranks, in the order of their numbers in ``calls``.
        unaligned: Numbers of ranks whose clock is unknown.
        calls: Their collectives.
        steady: Numbers of the steady iterations.

    Raises:
        ReplayError: They do not fit each other.
    """
    present = np.unique(calls.rank)
    own = np.searchsorted(present, calls.rank)
    calls = replace(calls, rank=own)
    return ComparedRanks(
        ranks=tuple(ranks[place] for place in present.tolist()),
        unaligned=tuple(unaligned),
        silent=tuple(one.number for place, one in enumerate(ranks) if place not in present),
        arranged=arrange(calls, len(present), steady),
    )


def _read_calls(connection: sqlite3.Connection, aggr: int, ranks: list[ComparedRank]) -> Calls:
    kinds = ", ".join(f"'{kind}'" for kind in sorted(SYNCHRONIZING))
    query = (
        "SELECT c.kernel, c.rank, c.communicator, c.sequence, k.start FROM collectives AS c"
        f" JOIN kernels AS k ON k.id = c.kernel WHERE c.kind IN ({kinds})"
        " AND c.communicator IS NOT NULL AND c.sequence IS NOT NULL ORDER BY c.kernel"
    )
    found = np.array(connection.execute(query).fetchall(), dtype=np.int64).reshape(-1, 5).T
    kernel, rank, communicator, sequence, start = found
    iteration, is_inside = read_kernel_iterations(connection, aggr, kernel)
    places = np.full(max((one.row for one in ranks), default=0) + 1, -1, dtype=np.int64)
    places[[one.row for one in ranks]] = np.arange(len(ranks))
    known = rank < len(places)
    own = np.where(known, places[np.where(known, rank, 0)], -1)
    return Calls(kernel - 1, own, communicator, sequence, iteration, start).rows(
        np.flatnonzero((own >= 0) & is_inside)
    )


def read_kernel_iterations(
    connection: sqlite3.Connection, aggr: int, kernel: Int64
) -> tuple[Int64, Bool]:
    """Iteration that launched each kernel, and whether there is one."""
    bounds = connection.execute(
        "SELECT iter_value, kernel_low, kernel_high FROM iterations WHERE aggr = ?"
        " ORDER BY kernel_low, iter_value",
        (aggr,),
    ).fetchall()
    number, low, high = np.array(bounds, dtype=np.int64).reshape(-1, 3).T
    place = np.searchsorted(low, kernel, side="right") - 1
    is_inside = (place >= 0) & (kernel < np.append(high, 0)[place])
    return np.append(number, -1)[place], is_inside


def read_rank_events(
    connection: sqlite3.Connection, compared: ComparedRanks
) -> Iterator[RankEvents]:
    """The kernels of each of the ranks."""
    start, duration, api_start, api_duration, process, name = read_columns(
        connection, "kernels", _COLUMNS
    )
    names = connection.execute("SELECT long_name FROM kernel_names ORDER BY id").fetchall()
    communicates = communication_kernels(tuple(str(row[0]) for row in names))
    moves: Bool = communicates[name - 1]
    for place, rank in enumerate(compared.ranks):
        rows: Int64 = np.flatnonzero(process == rank.process)
        yield RankEvents(
            start_ns=start[rows],
            end_ns=(start + duration)[rows],
            api_start_ns=api_start[rows],
            api_end_ns=(api_start + api_duration)[rows],
            computes=~moves[rows],
            calls=np.searchsorted(rows, compared.arranged.kernel[place]),
        )


def _notes(found: SlowRanks, compared: ComparedRanks) -> tuple[Text, ...]:
    notes = []
    numbers = {one.number for one in compared.ranks}
    others = {*compared.unaligned, *compared.silent}
    missing = _listed(sorted(set(range(max(numbers) + 1)) - numbers - others))
    unaligned, silent = _listed(compared.unaligned), _listed(compared.silent)
    for listed, text in (
        (missing, say("Rank {ranks} is missing in the profile.", ranks=missing)),
        (unaligned, say("The clock of rank {ranks} is unknown.", ranks=unaligned)),
        (silent, say("Rank {ranks} shares no collective with others.", ranks=silent)),
    ):
        if listed:
            notes.append(text)
    residual = max(one.residual_ns for one in compared.ranks)
    if residual > MAX_RESIDUAL * found.step_ns:
        time = f"{residual / 1e6:.3g}"
        notes.append(say("The clocks of the ranks fit each other to {time} ms only.", time=time))
    if not found.is_exact:
        notes.append(say("The replay of the unchanged profile differs from the measurement."))
    return tuple(notes)


def _listed(ranks: Sequence[int]) -> str:
    return ", ".join(str(rank) for rank in ranks)


def _rounded(time: float) -> int | None:
    return None if math.isnan(time) else round(time)


def _pct(share: float) -> float | None:
    return None if math.isnan(share) else round(100.0 * share, 6)
