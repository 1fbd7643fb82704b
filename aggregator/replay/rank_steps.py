"""The steps of each rank of a job, cut at the collectives for which all of them wait.

The clock of a rank that only runs while the rank does not wait for a collective is its *own time*.
On it lie the moments at which the rank could launch each collective and those at which it could not
go on without its result. With these a job is replayed: a collective ends on a rank when the last
rank has entered it plus its transfer, and a waiting rank goes on then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from aggregator.profile.arrays import Bool, Int64
from aggregator.profile.intervals import flatten
from aggregator.replay.contention import NO_RANK, Pieces, extra_ns, late_ranks

Float64 = npt.NDArray[np.float64]

NEVER: Final = np.inf
"""Own time of a wait that does not happen."""
NO_PAST: Final = int(np.iinfo(np.int64).min)
"""Time of what never happened before."""
NO_FUTURE: Final = int(np.iinfo(np.int64).max)
"""Time of what never happens after."""
NO_TIMES: Final = np.empty(0, dtype=np.int64)
MAX_RETURN_NS: Final = 100_000
"""Latency within which a rank goes on after a collective for which its CPU waited: the return of a
synchronizing call and a launch. Work that was queued before the end needs no such limit."""


@dataclass(frozen=True)
class RankEvents:
    """Kernels of one rank in order of launch, and its collectives in order of start."""

    start_ns: Int64  # Start of each kernel. Unit: ns.
    end_ns: Int64  # Unit: ns.
    api_start_ns: Int64  # Start of the call that launched it. Unit: ns.
    api_end_ns: Int64  # End of that call. Unit: ns.
    computes: Bool  # False: it moves data between GPUs.
    # Rows of its matched synchronizing collectives, shape (steps, collectives of a step).
    calls: Int64
    # Starts and ends of the calls in which its CPU waited for the GPU, in order of start. Unit: ns.
    syncs_ns: tuple[Int64, Int64] = (NO_TIMES, NO_TIMES)


@dataclass(frozen=True)
class Work:
    """Computing kernels that a rank launched before each of its collectives."""

    total_ns: Int64  # Sum of their durations. Unit: ns.
    count: Int64

    def rows(self, chosen: Int64) -> Work:
        """Return the rows of some collectives."""
        return Work(self.total_ns[chosen], self.count[chosen])


@dataclass(frozen=True)
class CallTimes:
    """Collectives of one rank, and what ran around each: all that the steps depend on. Unit: ns."""

    start_ns: Int64
    end_ns: Int64
    api_end_ns: Int64  # End of the call that launched it.
    work_end_ns: Int64  # Last end of computing kernels launched before it; ``NO_PAST``: none.
    busy_until_ns: Int64  # Last end of those started before it ended; ``NO_PAST``: none.
    next_start_ns: Int64  # Start of the first one after its end; ``NO_FUTURE``: none.
    next_launch_ns: Int64  # Start of the call that launched that; ``NO_FUTURE``: none.
    work: Work  # What ran before it.

    def rows(self, chosen: Int64) -> CallTimes:
        """Return some of them."""
        times = {name: getattr(self, name)[chosen] for name in TIMES}
        return CallTimes(**times, work=self.work.rows(chosen))

    def shifted(self, offset_ns: int) -> CallTimes:
        """Return the same on another clock."""

        def moved(times: Int64) -> Int64:
            is_time = (times != NO_PAST) & (times != NO_FUTURE)
            return np.where(is_time, np.where(is_time, times, 0) + offset_ns, times)

        return CallTimes(**{name: moved(getattr(self, name)) for name in TIMES}, work=self.work)


TIMES: Final = tuple(name for name in CallTimes.__dataclass_fields__ if name != "work")
"""The columns of ``CallTimes`` that are times."""


@dataclass(frozen=True)
class RankSteps:
    """Steps of several ranks. Arrays have the shape (collectives of all steps, ranks); unit: ns."""

    # Own time between the moments at which successive collectives could start, without
    # ``extra_ns``.
    own_ns: Float64
    extra_ns: Float64  # Time that kernels lost in it beside a collective that waited.
    cause: Int64  # Rank for which that one waited; -1: no time was lost.
    waits_ns: Float64  # From there until the rank waits for the collective's end; inf: never.
    lag_ns: Float64  # Time between readiness and start that nothing explains.
    transfer_ns: Float64  # From the last rank's start to the end.
    # Of the last collective before the first step, on each rank: readiness, which is own time 0,
    # the rank's waiting for it as in ``waits_ns``, and its end; after its last end.
    base_ns: Float64
    base_waits_ns: Float64
    base_end_ns: Float64
    measured_ns: Float64  # Measured time of each step.
    group: Int64  # Communicator of each collective of a step, shape (collectives, ranks).

    @property
    def num_ranks(self) -> int:
        """Number of ranks."""
        return int(self.own_ns.shape[1])

    def own_step_ns(self) -> Float64:
        """Return the own time of each rank and step, shape (ranks, steps). Unit: ns."""
        steps = self.own_ns.reshape(len(self.measured_ns), -1, self.num_ranks)
        result: Float64 = steps.sum(axis=1).T
        return result

    def typical(self, ranks: Int64) -> RankSteps:
        """Return one rank with the median times of some ranks."""
        own, lag, transfer = (
            np.median(column[:, ranks], axis=1, keepdims=True)
            for column in (self.own_ns, self.lag_ns, self.transfer_ns)
        )
        waits = self.waits_ns[:, ranks]
        # The lower median: a rank waits where at least half of the ranks do.
        middle = (len(ranks) - 1) // 2
        waits = np.partition(waits, middle, axis=1)[:, middle : middle + 1]
        return RankSteps(
            own_ns=own,
            extra_ns=np.zeros_like(own),
            cause=np.full(own.shape, NO_RANK),
            waits_ns=waits,
            lag_ns=lag,
            transfer_ns=transfer,
            base_ns=self.base_ns[:1],
            base_waits_ns=self.base_waits_ns[:1],
            base_end_ns=self.base_end_ns[:1],
            measured_ns=self.measured_ns,
            group=self.group[:, :1],
        )

    def replay(self) -> Float64:
        """Return the time of each step. Unit: ns."""
        result: Float64 = self.replay_with([], [])[0]
        return result

    def replay_with(self, ranks: list[int], typical: list[RankSteps]) -> Float64:
        """Return the time of each step: unchanged, and with each of some ranks like a typical one.

        Returns:
            Shape (1 + ranks, steps). Unit: ns.
        """
        state = _State(self, ranks, typical)
        calls = len(self.group)
        ends = np.empty((len(self.measured_ns) + 1, 1 + len(ranks)))
        ends[0] = 0.0
        for call in range(len(self.own_ns)):
            ended = state.end(call, state.ready(call) + state.column(call, "lag_ns"))
            if (call + 1) % calls == 0:
                ends[(call + 1) // calls] = ended.max(axis=1)
        result: Float64 = np.diff(ends, axis=0).T
        return result


def call_times(events: RankEvents) -> CallTimes:
    """Return what the steps of a rank depend on."""
    calls = events.calls.ravel()
    ended = events.end_ns[calls]
    last_work = np.where(events.computes, events.end_ns, NO_PAST)
    rows = np.flatnonzero(events.computes)
    rows = rows[np.argsort(events.start_ns[rows], kind="stable")]
    start, busy_until = events.start_ns[rows], np.maximum.accumulate(events.end_ns[rows])
    following = np.searchsorted(start, ended)
    length = np.where(events.computes, events.end_ns - events.start_ns, 0)
    return CallTimes(
        work=Work(np.cumsum(length)[calls], np.cumsum(events.computes, dtype=np.int64)[calls]),
        start_ns=events.start_ns[calls],
        end_ns=ended,
        api_end_ns=events.api_end_ns[calls],
        work_end_ns=np.maximum.accumulate(last_work)[calls],
        busy_until_ns=np.r_[NO_PAST, busy_until][following],
        next_start_ns=_goes_on_at(events, ended, np.r_[start, NO_FUTURE][following]),
        next_launch_ns=np.r_[events.api_start_ns[rows], NO_FUTURE][following],
    )


def steps_of_calls(ranks: Iterable[CallTimes], group: Int64) -> RankSteps:
    """Cut the steps of all ranks, whose clocks are aligned and whose calls are in order of start.

    ``group``: communicator of each collective of a step and of each rank. The first step only gives
    the start of the second.
    """
    parts, work = [], []
    for rank in ranks:
        parts.append(_own_steps(rank))
        work.append(rank.work)
    launched, waits, ready, arrived, ended, idle_from = (
        np.stack([part[column] for part in parts], axis=1) for column in range(6)
    )
    del parts
    calls = len(group)
    last = ended[calls - 1 :: calls].max(axis=1)
    waits -= launched
    own = np.diff(launched[calls - 1 :], axis=0)
    begun_last = _last_of_group(arrived, group)
    total = np.stack([columns.total_ns for columns in work], axis=1)
    count = np.stack([columns.count for columns in work], axis=1)
    pieces = Pieces(
        work_ns=total[1:] - total[:-1],
        count=count[1:] - count[:-1],
        ready_ns=ready,
        start_ns=arrived,
        last_ns=begun_last,
        late_rank=late_ranks(arrived, group),
        idle_from_ns=idle_from,
        end_ns=ended,
    )
    longer, late = extra_ns(pieces)
    extra = np.minimum(longer[calls - 1 :], np.maximum(own, 0.0))
    cause = late[calls - 1 :]
    found = RankSteps(
        own_ns=own - extra,
        extra_ns=extra,
        cause=cause,
        waits_ns=waits[calls:],
        lag_ns=np.zeros_like(own),
        transfer_ns=(ended - begun_last)[calls:],
        base_ns=ready[calls - 1] - last[0],
        base_waits_ns=waits[calls - 1],
        base_end_ns=ended[calls - 1] - last[0],
        measured_ns=np.diff(last),
        group=group,
    )
    return _with_lags(found, arrived[calls:] - last[0])


def _goes_on_at(events: RankEvents, end_ns: Int64, next_ns: Int64) -> Int64:
    """Return the start of what follows each collective; its end where the CPU waited for just that.

    What the CPU does between the return of a synchronizing call and the next launch is its own.
    """
    begin, returned = events.syncs_ns
    if not len(begin):
        return next_ns
    row = np.searchsorted(begin, end_ns, side="right") - 1
    last = returned[np.maximum(row, 0)]
    waited = (row >= 0) & (last >= end_ns) & (last - end_ns <= MAX_RETURN_NS)
    return np.where(waited, np.minimum(next_ns, end_ns), next_ns)


def _own_steps(calls: CallTimes) -> tuple[Float64, ...]:
    """Return the own times of launches and waits of all collectives, and when each was ready.

    The last column is the time from which the rank waited for each.
    """
    begun, ended = calls.start_ns, calls.end_ns
    ready = np.minimum(begun, np.maximum(calls.api_end_ns, calls.work_end_ns))
    ready = np.maximum.accumulate(ready)
    waited = _waiting(calls, ready)
    waiting = flatten(waited, ended)
    launched = ready - waiting.covered_before(ready)
    waits = np.maximum(waited - waiting.covered_before(waited), launched).astype(np.float64)
    waits[waited >= ended] = NEVER
    return (
        launched.astype(np.float64),
        waits,
        ready.astype(np.float64),
        begun.astype(np.float64),
        ended.astype(np.float64),
        waited.astype(np.float64),
    )


def _waiting(calls: CallTimes, ready: Int64) -> Int64:
    """Return when the rank began to wait for each collective; its end: it did not wait.

    It waited if no kernel computed when the collective ended, and the next one was already queued
    or followed at once.
    """
    ended = calls.end_ns
    has_next = calls.next_start_ns != NO_FUTURE
    at_once = np.where(has_next, calls.next_start_ns, ended) - ended <= MAX_RETURN_NS
    goes_on = ~has_next | (calls.next_launch_ns < ended) | at_once
    since = np.maximum(calls.busy_until_ns, ready)
    waits = goes_on & (since < ended)
    last_wait = np.maximum.accumulate(np.where(waits, ended, NO_PAST))
    since = np.maximum(since, np.r_[NO_PAST, last_wait[:-1]])
    result: Int64 = np.where(waits, np.minimum(since, ended), ended)
    return result


def _last_of_group(times: Float64, group: Int64) -> Float64:
    """Return for each collective and rank the latest of the times of its communicator."""
    members = [_Members(row) for row in group]
    result = np.empty_like(times)
    for call in range(len(times)):
        result[call] = members[call % len(group)].last(times[None, call])[0]
    return result


class _Members:
    """The communicators that call a collective at the same place of their ranks' steps."""

    def __init__(self, group: Int64) -> None:
        self.codes = np.unique(group).tolist()
        self.is_of = {code: group == code for code in self.codes}
        self.order = np.argsort(group, kind="stable")
        self.heads = np.flatnonzero(np.r_[True, np.diff(group[self.order]) != 0])
        self.sizes = np.diff(np.r_[self.heads, len(group)])

    def last(self, times: Float64) -> Float64:
        """Return the latest time of each communicator on each of its ranks, shape (any, ranks)."""
        if len(self.codes) == 1:
            whole: Float64 = np.broadcast_to(times.max(axis=1, keepdims=True), times.shape)
            return whole
        latest = np.maximum.reduceat(times[:, self.order], self.heads, axis=1)
        result = np.empty_like(times)
        result[:, self.order] = np.repeat(latest, self.sizes, axis=1)
        return result


class _State:
    """Replays at once, each with another rank like a typical one. Shape (replays, ranks)."""

    def __init__(self, steps: RankSteps, ranks: list[int], typical: list[RankSteps]) -> None:
        self.steps, self.typical = steps, typical
        self.changed = (np.arange(1, len(ranks) + 1), np.array(ranks, dtype=np.int64))
        self.shape = (1 + len(ranks), steps.num_ranks)
        self.members = [_Members(row) for row in steps.group]
        self.launched_ns = np.zeros(self.shape)
        self.behind_ns = np.broadcast_to(steps.base_ns, self.shape).copy()  # Real minus own time.
        first_end = np.broadcast_to(steps.base_end_ns, self.shape)
        first_wait = np.broadcast_to(steps.base_waits_ns, self.shape)
        # Own times of waits, and the ends.
        self.pending: list[tuple[Float64, Float64]] = [(first_wait, first_end)]
        self.last_end = dict.fromkeys(self.members[-1].codes, first_end)

    def column(self, call: int, name: str) -> Float64:
        """Return a time of all replays and ranks."""
        result = np.broadcast_to(getattr(self.steps, name)[call], self.shape).copy()
        if self.typical:
            result[self.changed] = [getattr(typical, name)[call, 0] for typical in self.typical]
        return result

    def ready(self, call: int) -> Float64:
        """Return when each rank is ready for a collective."""
        # What a collective waits for a rank that is no longer late takes no time from others.
        extra = self.column(call, "extra_ns")
        extra[1:] *= self.steps.cause[call] != self.changed[1][:, None]
        self.launched_ns = self.launched_ns + self.column(call, "own_ns") + extra
        remaining = []
        for position, ended in self.pending:
            now = position <= self.launched_ns
            behind = np.where(now, ended - np.where(now, position, 0.0), -np.inf)
            np.maximum(self.behind_ns, behind, out=self.behind_ns)
            if (~now & np.isfinite(position)).any():
                remaining.append((np.where(now, NEVER, position), ended))
        self.pending = remaining
        ready: Float64 = self.launched_ns + self.behind_ns
        members = self.members[call % len(self.members)]
        for code in members.codes:
            if code in self.last_end:
                own = members.is_of[code]
                ready[:, own] = np.maximum(ready[:, own], self.last_end[code][:, own])
        return ready

    def end(self, call: int, started: Float64) -> Float64:
        """Return when a collective ends on each rank."""
        members = self.members[call % len(self.members)]
        ended = members.last(started) + self.column(call, "transfer_ns")
        waits = self.column(call, "waits_ns")
        if np.isfinite(waits).any():
            self.pending.append((self.launched_ns + waits, ended))
        for code in members.codes:
            self.last_end[code] = ended
        return ended


def _with_lags(steps: RankSteps, arrived_ns: Float64) -> RankSteps:
    """Find the lags with which a replay reproduces the measured starts."""
    state = _State(steps, [], [])
    lags = np.empty_like(arrived_ns)
    for call in range(len(arrived_ns)):
        ready = state.ready(call)
        lags[call] = np.maximum(arrived_ns[call] - ready[0], 0.0)
        state.end(call, ready + lags[call])
    return replace(steps, lag_ns=lags)
