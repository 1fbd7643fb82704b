"""A replayed profile: how well the replay fits, the critical path, and answers to what-if."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from aggregator.profile.arrays import Bool, Float64, Int64, ordered, parts_of, run_heads
from aggregator.profile.intervals import flatten
from aggregator.replay.build import build_graph
from aggregator.replay.communication import communication
from aggregator.replay.graph import EdgeKind, Graph, Source
from aggregator.replay.inputs import ReplayInput
from aggregator.replay.op_spans import op_time_ns
from aggregator.replay.path import CriticalPath, critical_path
from aggregator.replay.replay import Durations, Times, replay
from aggregator.replay.scenario import Change, Scenario
from aggregator.replay.schedule import Schedule, make_schedule
from aggregator.replay.slack import UNLIMITED, slack_ns
from aggregator.replay.steps import Steps, find_steps
from aggregator.texts import say

LOW_UNEXPLAINED_PCT = 3.0
"""More idle time than this without an explanation lowers the confidence. Unit: percent."""
MAX_ERROR_PCT = 3.0
"""A replay whose worst step is further off than this is of low confidence. Unit: percent."""
INTERVAL_PCT = (10, 90)
"""Percentiles of the steps that are the interval of a prediction."""


@dataclass(frozen=True)
class PathShare:
    """Time on the critical path of one kind and owner."""

    kind: str  # What it is: kernel, copy, call, cpu, loader, launch, gap, wait, unexplained, ...
    owner: str  # Op ID of work and of the CPU's own work, name of a call; empty: of no op.
    ns: int  # Mean time in a step. Unit: ns.
    share_pct: float  # Of the step. Unit: percent.


@dataclass(frozen=True)
class Sensitivity:
    """What an op that takes less time changes."""

    op: str  # Op ID.
    direction: str  # fprop, bprop, recompute or empty.
    own_ns: int  # Mean time of its work on the GPU in a step. Unit: ns.
    step_ns_per_own_ns: float  # Time that a step gains when the op gains 1 ns.
    path_ns: int  # Mean time of its work on the critical path of a step. Unit: ns.
    slack_ns: int | None  # How much later its work may end in a step for free; None: any time.


@dataclass(frozen=True)
class Prediction:
    """Answer to a what-if."""

    predicted_step_ns: int  # Median step. Unit: ns.
    mean_step_ns: int  # Mean step: what is saved in few steps counts here only. Unit: ns.
    interval_ns: tuple[int, int]  # 10th and 90th percentile of the steps. Unit: ns.
    is_bound: bool  # Whether it is only a bound.
    # Of a change that takes time from the CPU or lets it wait for less: GPU time, with the gaps
    # between work, that a mean step loses on the GPU that loses most; None: of no such change.
    gpu_saved_ns: int | None = None
    busy_ns: int = 0  # Time of a mean step in which the GPU runs anything. Unit: ns.
    limit: str | None = None  # What the steps then wait for most; None: not asked for.


class ReplayedProfile:
    """The graph of a profile with its unchanged replay; what-ifs use it again and again."""

    def __init__(self, data: ReplayInput, number: Int64) -> None:
        """Build the graph and replay it.

        Args:
            data: Calls and work of the profile.
            number: Numbers of the iterations that are steady, ascending.

        Raises:
            ReplayError: The profile holds too little work on a GPU.
        """
        self.graph: Graph = build_graph(data)
        self.steps: Steps = find_steps(self.graph, number)
        self.schedule: Schedule = make_schedule(self.graph)
        self.measured = Durations.measured(self.graph)
        self.times: Times = replay(self.graph, self.schedule, self.measured)

    @cached_property
    def measured_ns(self) -> Int64:
        """Measured length of each step. Unit: ns."""
        return self.steps.lengths_ns(self.graph.work_start_ns, self.graph.work_end_ns)

    @cached_property
    def replayed_ns(self) -> Int64:
        """Replayed length of each step. Unit: ns."""
        return self.steps.lengths_ns(self.times.work_start_ns, self.times.work_end_ns)

    @cached_property
    def errors_pct(self) -> Float64:
        """Difference of replayed and measured length of each step. Unit: percent."""
        measured = self.measured_ns
        result: Float64 = 100 * np.abs(self.replayed_ns - measured) / np.maximum(measured, 1)
        return result

    @cached_property
    def path(self) -> CriticalPath:
        """The critical path of all steps."""
        low, high = self.bounds_ns
        span, row = self.steps.span, int(self.steps.next[-1])
        if self.steps.is_whole:
            row = int(span[self.times.work_end_ns[span].argmax()])
        interval = int(low.min()), int(high[-1])
        return critical_path(self.graph, self.measured, self.times, row, interval)

    @property
    def bounds_ns(self) -> tuple[Int64, Int64]:
        """Start and end of each replayed step. Unit: ns."""
        return self.steps.bounds_ns(self.times.work_start_ns, self.times.work_end_ns)

    @property
    def span_ns(self) -> int:
        """Time from the begin of the first to the end of the last step. Unit: ns."""
        low, high = self.bounds_ns
        return int(high[-1] - low[0])

    @cached_property
    def path_ns(self) -> dict[tuple[str, str], int]:
        """Time on the critical path of all steps by kind and owner. Unit: ns."""
        return _path_totals(self)

    @property
    def unexplained_pct(self) -> float:
        """Share of the critical path that is idle time without an explanation. Unit: percent."""
        return 100 * self.path_ns.get(("unexplained", ""), 0) / max(self.span_ns, 1)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What lowers the confidence."""
        notes = list(self.graph.notes)
        if self.unexplained_pct > LOW_UNEXPLAINED_PCT:
            share = f"{self.unexplained_pct:.1f}"
            notes.append(
                say("{share} % of the recorded span is idle time without a cause.", share=share)
                if self.steps.is_whole
                else say("{share} % of the step is idle time that nothing explains.", share=share)
            )
        if float(self.errors_pct.max()) > MAX_ERROR_PCT:
            notes.append(say("The replay of the unchanged profile differs from the measurement."))
        if self.steps.is_whole:
            notes.append(say("No whole step was found on the GPU: this is the recorded span."))
        if self.steps.processes > 1:
            notes.append(
                say(
                    "{count} processes use the GPU: an iteration holds work of several.",
                    count=self.steps.processes,
                )
            )
        if self.schedule.dropped:
            notes.append(say("Some dependencies contradict each other; they are left out."))
        return tuple(notes)

    @cached_property
    def confidence(self) -> str:
        """``high``, ``medium`` (a note) or ``low`` (several, or the replay does not fit)."""
        is_cut = self.steps.is_whole and len(self.graph.data.iteration) > 1
        is_mixed = self.steps.processes > 1
        is_off = float(self.errors_pct.max()) > MAX_ERROR_PCT
        if is_cut or is_mixed or is_off or len(self.notes) > 1:
            return "low"
        return "medium" if self.notes else "high"

    def predict(
        self, changes: Sequence[Change], only: Bool | None = None, *, finds_limit: bool = False
    ) -> Prediction:
        """Replay with changes.

        Args:
            changes: What is different.
            only: Which steps are asked for; None: all of them.
            finds_limit: Find what the steps then wait for most, too: a key of ``limits_pct``.

        Raises:
            UsageError: A change selects nothing.
        """
        scenario = self.scenario(changes)
        times = replay(self.graph, self.schedule, scenario.durations)
        replayed = self.steps.lengths_ns(times.work_start_ns, times.work_end_ns)
        lengths = np.maximum(replayed, scenario.floor_ns)
        lengths = lengths if only is None else lengths[only]
        low, high = np.percentile(lengths, INTERVAL_PCT)
        return Prediction(
            predicted_step_ns=int(np.median(lengths)),
            mean_step_ns=int(np.mean(lengths)),
            interval_ns=(int(low), int(high)),
            is_bound=scenario.is_bound,
            gpu_saved_ns=self._gpu_saved_ns(scenario.durations, len(lengths)),
            busy_ns=self._replayed(scenario.durations, times).busy_ns,
            limit=self._limit_of(scenario, times, replayed) if finds_limit else None,
        )

    def _limit_of(self, scenario: Scenario, times: Times, lengths_ns: Int64) -> str:
        if scenario.floor_ns.sum() > lengths_ns.sum():
            return COMMUNICATION
        limits = self._replayed(scenario.durations, times).limits_pct
        return max(limits, key=lambda limit: limits[limit])

    def scenario(self, changes: Sequence[Change]) -> Scenario:
        """Return the profile with changes, before it is replayed.

        Raises:
            UsageError: A change selects nothing.
        """
        floor = np.zeros(len(self.steps.number), dtype=np.int64)
        scenario = Scenario(self.graph, self.steps, self.measured, floor)
        for change in changes:
            scenario = change(scenario)
        return scenario

    def with_durations(self, durations: Durations) -> ReplayedProfile:
        """Return the same profile as if it had been measured with other durations."""
        return self._replayed(durations, replay(self.graph, self.schedule, durations))

    def _replayed(self, durations: Durations, times: Times) -> ReplayedProfile:
        # Not a copy, which would take along what was computed of this profile.
        found, graph = ReplayedProfile.__new__(ReplayedProfile), self.graph
        found.steps, found.schedule = self.steps, self.schedule
        found.measured, found.times = durations, times
        found.graph = replace(
            graph,
            cpu_time_ns=times.cpu_ns,
            cpu_step_ns=durations.cpu_step_ns,
            loading_ns=np.minimum(graph.loading_ns, np.maximum(durations.cpu_step_ns, 0)),
            work_start_ns=times.work_start_ns,
            duration_ns=durations.duration_ns,
            gap_ns=durations.gap_ns,
            launch_lag_ns=durations.launch_lag_ns,
            edges=replace(graph.edges, lag_ns=durations.lag_ns),
        )
        return found

    @cached_property
    def busy_ns(self) -> int:
        """Mean time of a step in which the GPU runs anything. Unit: ns."""
        graph, steps = self.graph, self.steps
        start, device = graph.work_start_ns, graph.data.work.device[graph.work_row]
        rows = (device == device[steps.first[0]]) & ~graph.is_arrival
        busy = flatten(start[rows], start[rows] + graph.duration_ns[rows])
        edges = np.array(steps.bounds_ns(start, graph.work_end_ns))
        covered = busy.covered_before(edges.ravel()).reshape(edges.shape)
        return round(float((covered[1] - covered[0]).mean()))

    @property
    def limits_pct(self) -> dict[str, float]:
        """Share of the critical path by what the step waits for. Unit: percent."""
        shares = self.critical_path_shares()
        return {
            limit: sum(share.share_pct for share in shares if share.kind in kinds)
            for limit, kinds in _LIMITS.items()
        }

    def _gpu_saved_ns(self, changed: Durations, steps: int) -> int | None:
        """Compute ``Prediction.gpu_saved_ns``; waiting for a data loader is no work of the CPU."""
        graph = self.graph
        waits = np.isin(graph.edges.kind, (EdgeKind.SYNC, EdgeKind.THREAD, EdgeKind.QUEUE))
        earlier = waits & (changed.lag_ns < graph.edges.lag_ns)
        before, inside = self.measured, self._inside()
        if not earlier.any():
            saved_ns = (
                before.cpu_step_ns[rows] - changed.cpu_step_ns[rows] - graph.loading_ns[rows]
                for rows in parts_of(0, len(graph.loading_ns))
            )
            if not any((part > 0).any() for part in saved_ns):
                return None
        shorter = (before.duration_ns + before.gap_ns) - (changed.duration_ns + changed.gap_ns)
        device = self.graph.data.work.device[self.graph.work_row[inside]]
        saved = np.bincount(np.maximum(device, 0), np.maximum(shorter[inside], 0), minlength=1)
        return round(float(saved.max()) / steps)

    def critical_path_shares(self) -> list[PathShare]:
        """Return the critical path by kind and owner, longest first."""
        return path_shares(self)

    @cached_property
    def sensitivities(self) -> list[Sensitivity]:
        """All ops with work on a GPU, those first whose time changes the step most."""
        graph, count = self.graph, len(self.graph.data.ops.op_ids)
        op = graph.data.work.op[graph.work_row]
        own_rows = self._inside() & (op >= 0)
        own = np.bincount(op[own_rows], graph.duration_ns[own_rows], minlength=count)
        on_path = own_rows & self.path.work
        path = np.bincount(op[on_path], graph.duration_ns[on_path], minlength=count)
        slack, ops, steps = self._slack(op, own_rows, count), graph.data.ops, len(self.steps.number)
        found = [
            Sensitivity(
                op=ops.op_ids[row],
                direction=ops.directions[row],
                own_ns=round(own[row] / steps),
                step_ns_per_own_ns=round(float(path[row] / own[row]), 6),
                path_ns=round(path[row] / steps),
                slack_ns=None if slack[row] >= UNLIMITED // 2 else int(slack[row]),
            )
            for row in np.flatnonzero(own > 0).tolist()
        ]
        return sorted(found, key=lambda item: (-item.path_ns, -item.own_ns, item.op))

    def _inside(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        start = self.graph.work_start_ns
        low, high = self.steps.bounds_ns(start, self.graph.work_end_ns)
        result: np.ndarray[tuple[int], np.dtype[np.bool_]] = (start >= low[0]) & (start < high[-1])
        return result

    def _slack(self, op: Int64, rows: np.ndarray[tuple[int], np.dtype[np.bool_]], n: int) -> Int64:
        """Return the median over the steps of the least slack of each op in a step. Unit: ns."""
        last = int(self.steps.next[-1])
        slack = slack_ns(self.graph, self.schedule, self.measured, self.times, last)
        chosen = np.flatnonzero(rows)
        begin = self.graph.work_start_ns[self.steps.first]
        step = np.searchsorted(begin, self.graph.work_start_ns[chosen], side="right") - 1
        key = op[chosen].astype(np.int64) * len(begin) + np.maximum(step, 0)
        order = ordered(key)
        first = run_heads(key[order])
        least = np.minimum.reduceat(slack[chosen[order]], first)
        result = np.full(n, UNLIMITED)
        owner = key[order[first]] // len(begin)
        by_op = np.lexsort([least, owner])
        heads = np.flatnonzero(np.diff(owner[by_op], prepend=-1))
        size = np.diff(np.append(heads, len(owner)))
        result[owner[by_op[heads]]] = least[by_op[heads + (size - 1) // 2]]
        return result


GPU, CPU, LOADER, COMMUNICATION = "gpu", "cpu", "loader", "communication"
_LIMITS = {
    GPU: ("kernel", "copy", "set", "graph", "gap", "event"),
    CPU: ("call", "cpu", "before", "launch", "return", "thread"),
    LOADER: ("loader",),
    COMMUNICATION: ("communication",),
}
BEFORE = "before"
"""Kind of the time of the CPU before an op begins: Python, or another program."""
_WORK_KINDS = ("kernel", "copy", "set", "graph")
_LAG_KINDS = {
    EdgeKind.SYNC: "return",
    EdgeKind.EVENT: "event",
    EdgeKind.THREAD: "thread",
    EdgeKind.QUEUE: "return",
    EdgeKind.COLLECTIVE: "communication",
    EdgeKind.GRAPH: "gap",
    EdgeKind.LEGACY: "gap",
}


def path_shares(found: ReplayedProfile) -> list[PathShare]:
    """Return the critical path by kind and owner, longest first."""
    steps, span = len(found.steps.number), max(found.span_ns, 1)
    shares = [
        PathShare(kind, owner, round(ns / steps), round(100 * ns / span, 4))
        for (kind, owner), ns in found.path_ns.items()
        if ns > 0
    ]
    return sorted(shares, key=lambda item: (-item.ns, item.kind, item.owner))


def _path_totals(found: ReplayedProfile) -> dict[tuple[str, str], int]:
    """Time on the critical path by kind and owner; what was not followed is not explained."""
    totals: dict[tuple[str, str], int] = {}
    _add_work(found, totals)
    _add_cpu(found, totals)
    _add_lags(found, totals)
    # The path ends at the first call of a thread: what came before was not recorded.
    _add(totals, "unexplained", "", max(found.span_ns - sum(totals.values()), 0))
    return totals


def _add(totals: dict[tuple[str, str], int], kind: str, owner: str, ns: int) -> None:
    totals[kind, owner] = totals.get((kind, owner), 0) + int(ns)


def _add_by_op(
    found: ReplayedProfile, totals: dict[tuple[str, str], int], kind: str, op: Int64, ns: Int64
) -> None:
    names = (*found.graph.data.ops.op_ids, "")
    sums = np.bincount(np.where(op < 0, len(names) - 1, op), ns, minlength=len(names))
    for row in np.flatnonzero(sums).tolist():
        _add(totals, kind, names[row], round(sums[row]))


def _add_work(found: ReplayedProfile, totals: dict[tuple[str, str], int]) -> None:
    graph = found.graph
    rows = np.flatnonzero(found.path.work)
    work = graph.data.work
    of_row = graph.work_row[rows]
    moves = communication(graph)[rows]
    end_ns = found.times.work_end_ns[rows]
    taken = np.minimum(graph.duration_ns[rows], end_ns - found.path.from_ns)
    for kind, name in enumerate(_WORK_KINDS):
        chosen = (work.kind[of_row] == kind) & ~moves
        _add_by_op(found, totals, name, work.op[of_row[chosen]], taken[chosen])
    _add_by_op(found, totals, "communication", work.op[of_row[moves]], taken[moves])


def _add_cpu(found: ReplayedProfile, totals: dict[tuple[str, str], int]) -> None:
    """Add the calls by their names, and the time between calls by the op of the next call.

    What passes before that op begins is not the op's: it is what the program does before it.
    """
    graph, calls = found.graph, found.graph.data.calls
    row, step = _cpu_on_path(found, 1)
    names = (*graph.data.call_names, "")
    taken = np.bincount(calls.name[graph.call_row[row]], step, minlength=len(names))
    for code in np.flatnonzero(taken).tolist():
        _add(totals, "call", names[code], round(taken[code]))
    row, step = _cpu_on_path(found, 0)
    loading = np.minimum(graph.loading_ns[0::2][row], step)
    _add(totals, "loader", "", int(loading.sum()))
    own, between = step - loading, graph.call_row[row]
    inside = np.minimum(own, op_time_ns(graph.data, between))
    op = calls.op[between]
    _add_by_op(found, totals, "cpu", op, inside)
    _add_by_op(found, totals, BEFORE, op, own - inside)


def _cpu_on_path(found: ReplayedProfile, side: int) -> tuple[Int64, Int64]:
    """Return calls on the path and the time up to their start (side 0) or from there to their end.

    Both kinds of positions alternate, and together they would be twice as much in memory.
    """
    row = np.flatnonzero(found.path.steps[side::2])
    since_ns = found.times.cpu_ns[side::2][row] - found.path.from_ns
    return row, np.minimum(found.graph.cpu_step_ns[side::2][row], since_ns)


def _add_lags(found: ReplayedProfile, totals: dict[tuple[str, str], int]) -> None:
    graph, path, edges = found.graph, found.path, found.graph.edges
    since_ns = found.times.work_start_ns - path.from_ns
    for kind, on_path, lag_ns in (
        ("gap", path.gaps, graph.gap_ns),
        ("launch", path.launches, graph.launch_lag_ns),
    ):
        rows = np.flatnonzero(on_path)
        taken = np.minimum(lag_ns[rows], since_ns[rows])
        lost = np.clip(graph.unexplained_ns[rows], 0, np.maximum(taken, 0))
        _add(totals, kind, "", int((taken - lost).sum()))
        _add(totals, "unexplained", "", int(lost.sum()))
    into_work = edges.target_type[path.edges] == Source.WORK_END
    lost = edges.lost_ns[path.edges]
    lost[into_work] = graph.unexplained_ns[edges.target[path.edges[into_work]]]
    taken = np.minimum(edges.lag_ns[path.edges], path.edge_ends_ns - path.from_ns)
    lost = np.clip(lost, 0, np.maximum(taken, 0))
    for edge_kind, name in _LAG_KINDS.items():
        chosen = edges.kind[path.edges] == edge_kind
        _add(totals, name, "", int((taken - lost)[chosen].sum()))
    _add(totals, "unexplained", "", int(lost.sum()))
