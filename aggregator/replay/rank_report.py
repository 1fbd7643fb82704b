"""Read the ranks of a profile and find the one that makes the step slow."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
from msgspec import Struct

from aggregator.errors import InvalidValueError, ReplayError
from aggregator.events.steps import Statistic
from aggregator.events.store import EventStore
from aggregator.events.window import NoStepsError, read_steps
from aggregator.metrics.collectives import SYNCHRONIZING, UNALIGNED
from aggregator.profile.arrays import Bool, Int64
from aggregator.replay.analysis import INTERVAL_PCT, Prediction, ReplayedProfile
from aggregator.replay.rank_calls import ArrangedCalls, Calls, arrange, cannot_compare
from aggregator.replay.rank_steps import (
    NO_TIMES,
    CallTimes,
    RankEvents,
    call_times,
    steps_of_calls,
)
from aggregator.replay.slow_ranks import RankGains, SlowRanks, find_slow_ranks, rank_verdict
from aggregator.system.replies import doc, to_plain
from aggregator.texts import Text, say

MAX_RESIDUAL = 0.03
"""Disagreement of the clocks, as a share of the step, above which the confidence is low."""
MAX_LOST_PCT = 5
"""Share of its collectives without a launch, from which a rank is not compared. Unit: percent."""


class ErrorPct(Struct):
    """Difference of the replayed and the measured steps."""

    median: float
    worst: float


class ComparedRank(Struct):
    """A rank compared with the others."""

    rank: int
    late_ns: Annotated[int, doc("Mean own time in a step less the median of the others.")]
    step_without_ns: Annotated[
        int | None, doc("Step without its slowness, as step_ns; null: not replayed.")
    ]
    contribution_pct: Annotated[
        float | None, doc("Share of the step that its slowness costs; null: as above.")
    ]
    exposed_waiting_ns: Annotated[
        int | None,
        doc("Of a mean iteration: its collectives wait while nothing is computed; null: unknown."),
    ] = None
    exposed_transfer_ns: Annotated[
        int | None, doc("The same of collectives that move data; null: unknown.")
    ] = None


class RankStep(Struct):
    """A step of all ranks."""

    iteration_index: int
    step_ns: Annotated[int, doc("From the last collective of the step before to its own.")]
    late_ns: Annotated[list[int], doc("Of each rank, in the order of ranks.")]


class Stragglers(Struct):
    """Which rank makes the step slow."""

    verdict: str
    confidence: Annotated[str, doc("high, medium or low.")]
    notes: Annotated[list[str], doc("What lowers the confidence.")]
    slow_rank: Annotated[int | None, doc("Null: none.")]
    slow_iterations: Annotated[
        list[int], doc("Iterations in which it is late; empty: in most or all.")
    ]
    statistic: Annotated[str, doc("What step_ns is of the steps: median or mean.")]
    steps: Annotated[int, doc("Steps that it is of.")]
    step_ns: Annotated[
        int,
        doc(
            "The step as profiled, as everywhere; of summaries, from the last collective of a step "
            "to that of the next."
        ),
    ]
    mean_step_ns: Annotated[int, doc("Mean of the same steps.")]
    ideal_step_ns: Annotated[int, doc("Mean step with all ranks at the median.")]
    slowdown: Annotated[float, doc("The mean step over the ideal one.")]
    error_pct: ErrorPct
    ranks: list[ComparedRank]
    iterations: list[RankStep]


@dataclass(frozen=True)
class TypicalStep:
    """What stands for the steps of an aggregation."""

    statistic: Statistic
    ns: float  # That of the statistic. Unit: ns.
    mean_ns: float  # Unit: ns.
    steps: int  # How many steps it is of.


@dataclass(frozen=True)
class RankReport:
    """Result of a database."""

    found: SlowRanks
    ranks: tuple[int, ...]  # Numbers of the ranks, in the order of the result.
    iterations: tuple[int, ...]  # Numbers of the iterations, in the order of the result.
    notes: tuple[Text, ...]  # What lowers the confidence.
    # Of the ranks of known waiting, by number: waiting in collectives, and moving data, of a mean
    # iteration while nothing is computed. Unit: ns.
    exposed_ns: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    typical: TypicalStep | None = None  # The step as profiled; None: unknown.

    @property
    def step(self) -> TypicalStep:
        """The step as profiled, the mean if the named rank is late in some of the steps.

        Of summaries it is that from collective to collective, by which a rank's cost is found.
        """
        found, number = self.found, len(self.iterations)
        if self.typical is None:
            statistic = Statistic.MEDIAN if found.is_constant else Statistic.MEAN
            return TypicalStep(statistic, found.step_ns, float(found.replayed_ns.mean()), number)
        if not len(found.slow_steps):
            return self.typical
        return replace(self.typical, statistic=Statistic.MEAN, ns=self.typical.mean_ns)

    @property
    def verdict(self) -> Text:
        """One sentence."""
        ranks, iterations = list(self.ranks), list(self.iterations)
        return rank_verdict(self.found, ranks, iterations, self.step.ns)

    @property
    def confidence(self) -> str:
        """``high``, ``medium`` (a note) or ``low`` (several, or the replay does not fit)."""
        if not self.found.is_exact or len(self.notes) > 1:
            return "low"
        return "medium" if self.notes else "high"

    def answer(self) -> Stragglers:
        """Return the result for people and scripts; what is not known is None."""
        found, step = self.found, self.step
        ratio = step.ns / found.step_ns
        median, worst = found.error_pct
        share = found.contribution
        return Stragglers(
            verdict=self.verdict,
            confidence=self.confidence,
            notes=list(self.notes),
            slow_rank=None if found.named is None else self.ranks[found.named],
            slow_iterations=[self.iterations[step] for step in found.slow_steps.tolist()],
            statistic=step.statistic,
            steps=step.steps,
            step_ns=round(step.ns),
            mean_step_ns=round(step.mean_ns),
            ideal_step_ns=round(step.mean_ns / found.slowdown),
            slowdown=round(found.slowdown, 6),
            error_pct=ErrorPct(median=round(median, 6), worst=round(worst, 6)),
            ranks=[
                ComparedRank(
                    rank=number,
                    late_ns=round(float(found.late_ns[place].mean())),
                    step_without_ns=_rounded(ratio * found.predicted_ns(place)),
                    contribution_pct=_pct(float(share[place])),
                    exposed_waiting_ns=waiting_ns,
                    exposed_transfer_ns=transfer_ns,
                )
                for place, number in enumerate(self.ranks)
                for waiting_ns, transfer_ns in [self.exposed_ns.get(number, (None, None))]
            ],
            iterations=[
                RankStep(
                    iteration_index=number,
                    step_ns=round(float(found.measured_ns[step])),
                    late_ns=np.rint(found.late_ns[:, step]).astype(np.int64).tolist(),
                )
                for step, number in enumerate(self.iterations)
            ],
        )

    def document(self) -> dict[str, Any]:
        """Return the result as plain data."""
        found: dict[str, Any] = to_plain(self.answer())
        return found


def rank_prediction(
    report: RankReport, rank: str, profile: ReplayedProfile, *, alone: bool
) -> Prediction:
    """Return the step if a rank were as fast as the median of the others.

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
    known = [number for number, member in enumerate(report.ranks) if str(member) == rank]
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
    own = np.where(compared[place] == number, gain[place], found.usual_gain_ns(known[0]))
    steps = profile.measured_ns - own
    low, high = np.percentile(steps, INTERVAL_PCT)
    return Prediction(
        predicted_step_ns=int(np.median(steps)),
        mean_step_ns=int(steps.mean()),
        interval_ns=(int(low), int(high)),
        is_bound=False,
    )


@dataclass(frozen=True)
class AlignedRank:
    """A rank whose clock is known."""

    number: int
    residual_ns: int  # Of its clock. Unit: ns.
    row: int = 0  # Id of the rank.
    process: int = 0  # Row of processes.


@dataclass(frozen=True)
class ComparedRanks:
    """Ranks of a database whose collectives fit each other."""

    ranks: tuple[AlignedRank, ...]
    unaligned: tuple[int, ...]  # Numbers of ranks whose clock is unknown.
    silent: tuple[int, ...]  # Numbers of ranks without a common collective.
    arranged: ArrangedCalls


def read_slow_ranks(store: EventStore, aggr: int) -> RankReport:
    """Compare the ranks of an aggregation.

    Raises:
        ReplayError: They cannot be compared; the message says why.
        sqlite3.Error, ValueError, TypeError, KeyError, OverflowError, IndexError: It is damaged.
    """
    compared = read_compared_ranks(store, aggr)
    report = rank_report(compared, map(call_times, read_rank_events(store, compared)))
    return replace(
        report, exposed_ns=_read_exposed(store, aggr), typical=_read_typical(store, aggr)
    )


def _read_typical(store: EventStore, aggr: int) -> TypicalStep | None:
    names = ("statistic", "median", "mean", "steps")
    rows = store.of_aggregation("typical_steps", aggr, *names) if store.has("typical_steps") else []
    for statistic, median_ns, mean_ns, steps in rows:
        if statistic is not None:
            is_mean = statistic == Statistic.MEAN
            return TypicalStep(
                Statistic(statistic), mean_ns if is_mean else median_ns, mean_ns, steps
            )
    return None


def _read_exposed(store: EventStore, aggr: int) -> dict[int, tuple[int, int]]:
    """Return the exposed communication of each rank in two parts, as ``RankReport`` has them."""
    if not store.has("rank_metrics", "exposed_waiting"):
        return {}
    numbers = dict(store.values("ranks", "id", "rank"))
    iterations = store.of_aggregation("iterations", aggr, "aggregated")
    count = max(sum(row[0] for row in iterations), 1)
    names = ("rank", "exposed_waiting", "exposed_communication")
    return {
        numbers[rank]: (round(waiting / count), round((exposed - waiting) / count))
        for rank, waiting, exposed in store.of_aggregation("rank_metrics", aggr, *names)
        if waiting is not None
    }


def rank_report(compared: ComparedRanks, calls: Iterable[CallTimes]) -> RankReport:
    """Compare ranks by their arranged collectives, which ``calls`` has for each of them.

    Raises:
        ReplayError: They cannot be compared.
    """
    known = _with_launches(compared, calls)
    found = find_slow_ranks(steps_of_calls(known, compared.arranged.group))
    return RankReport(
        found=found,
        ranks=tuple(rank.number for rank in compared.ranks),
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


def read_rank_gains(store: EventStore, aggr: int) -> RankGains | None:
    """Return what the ranks of an aggregation cost; None: they cannot be compared, or not reliably.

    Raises:
        sqlite3.Error, ValueError, TypeError, KeyError, OverflowError, IndexError: It is damaged.
    """
    try:
        report = read_slow_ranks(store, aggr)
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


def read_compared_ranks(store: EventStore, aggr: int) -> ComparedRanks:
    """Read the collectives of an aggregation, arranged by rank and step.

    Raises: as ``read_slow_ranks``.
    """
    if not store.has("collectives"):
        raise cannot_compare(say("an older version wrote the database"))
    names = ("rank", "id", "process", "aligned_by", "clock_residual")
    rows = store.values("ranks", *names)
    ranks = [
        AlignedRank(number, residual or 0, row, process - 1)
        for number, row, process, aligned, residual in rows
        if aligned != UNALIGNED
    ]
    unaligned = [int(row[0]) for row in rows if row[3] == UNALIGNED]
    require_several(ranks, unaligned)
    try:
        steady = read_steps(store, aggr).number
    except NoStepsError as error:
        raise no_steps() from error
    return compared_ranks(ranks, unaligned, _read_calls(store, aggr, ranks), steady)


def require_several(ranks: Sequence[AlignedRank], unaligned: Sequence[int]) -> None:
    """Raise a ReplayError if there is no second rank whose clock is known."""
    if len(ranks) + len(unaligned) < 2:
        raise cannot_compare(say("the profile has one rank"))
    if len(ranks) < 2:
        raise cannot_compare(say("their clocks are unknown"))


def no_steps() -> ReplayError:
    """Return the error for ranks without steps."""
    return cannot_compare(say("the profile has no steps"))


def compared_ranks(
    ranks: Sequence[AlignedRank], unaligned: Sequence[int], calls: Calls, steady: Int64
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
        silent=tuple(rank.number for place, rank in enumerate(ranks) if place not in present),
        arranged=arrange(calls, len(present), steady),
    )


def _read_calls(store: EventStore, aggr: int, ranks: list[AlignedRank]) -> Calls:
    found = store.collectives
    is_matched = (found.communicator >= 0) & (found.sequence >= 0)
    found = found.rows(is_matched & np.isin(found.kind, sorted(SYNCHRONIZING)))
    start = store.integers("kernels", ("start",))[0][found.kernel]
    iteration, is_inside = read_kernel_iterations(store, aggr, found.kernel)
    places = np.full(max((rank.row for rank in ranks), default=0) + 1, -1, dtype=np.int64)
    places[[rank.row for rank in ranks]] = np.arange(len(ranks))
    known = found.rank < len(places)
    own = np.where(known, places[np.where(known, found.rank, 0)], -1)
    calls = Calls(found.kernel, own, found.communicator, found.sequence, iteration, start)
    return calls.rows(np.flatnonzero((own >= 0) & is_inside))


def read_kernel_iterations(store: EventStore, aggr: int, kernel: Int64) -> tuple[Int64, Bool]:
    """Return the iteration that launched each kernel, by its row, and whether there is one."""
    rows = store.of_aggregation("iterations", aggr, "kernel_low", "iter_value", "kernel_high")
    low, number, high = np.array(sorted(rows), dtype=np.int64).reshape(-1, 3).T
    place = np.searchsorted(low - 1, kernel, side="right") - 1
    is_inside = (place >= 0) & (kernel < np.append(high - 1, 0)[place])
    return np.append(number, -1)[place], is_inside


def read_rank_events(store: EventStore, compared: ComparedRanks) -> Iterator[RankEvents]:
    """Return the kernels of each of the ranks."""
    kernels = store.kernels()
    moves = store.names.communicates[kernels.name]
    syncs = read_syncs(store)
    for place, rank in enumerate(compared.ranks):
        rows: Int64 = np.flatnonzero(kernels.process == rank.process)
        yield RankEvents(
            start_ns=kernels.start_ns[rows],
            end_ns=kernels.end_ns[rows],
            api_start_ns=kernels.api_start_ns[rows],
            api_end_ns=kernels.api_end_ns[rows],
            computes=~moves[rows],
            calls=np.searchsorted(rows, compared.arranged.kernel[place]),
            syncs_ns=syncs.get(rank.process, (NO_TIMES, NO_TIMES)),
        )


def read_syncs(store: EventStore) -> dict[int, tuple[Int64, Int64]]:
    """Return starts and ends of the calls that wait for the GPU, by row of the process. ns."""
    waits = np.array(["Synchronize" in name for name in (*store.call_names, "")], dtype=bool)
    calls = store.calls()
    calls = calls.rows(np.flatnonzero(waits[calls.name]))
    return {
        number: (calls.start_ns[calls.process == number], calls.end_ns[calls.process == number])
        for number in np.unique(calls.process).tolist()
    }


def _notes(found: SlowRanks, compared: ComparedRanks) -> tuple[Text, ...]:
    notes = []
    numbers = {rank.number for rank in compared.ranks}
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
    residual = max(rank.residual_ns for rank in compared.ranks)
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
