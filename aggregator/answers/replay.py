"""Answers from a replay: what the steps of an aggregation wait for, and what changes would give."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Annotated, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict

from aggregator.advice.verdict import duration_text
from aggregator.answers.changes import CHANGES, DeclaredChange, Takes, address_notes, parse_changes
from aggregator.dldb.event_reader import stored_events
from aggregator.errors import InvalidValueError, ReplayError, UsageError
from aggregator.replay.analysis import ReplayedProfile
from aggregator.replay.critical_path_items import Chain, step_chain
from aggregator.replay.rank_report import ErrorPct, Stragglers, rank_prediction
from aggregator.replay.scale import StepScale, read_scale
from aggregator.system.replies import doc
from aggregator.tables.aggregation_data import AggregationData, remembered
from aggregator.tables.declared.ranks import RANKS
from aggregator.tables.limits import found_limits
from aggregator.tables.replay import rank_report, replayed_profile
from aggregator.texts import Text, say

MOST_ITEMS: Final = 4_000
"""Items of a chain that are replied, the longest ones; a page draws no more."""
Corrected = Annotated[
    bool,
    doc("1: without the costs of profiling, where the step without it is known; 0: as profiled."),
]


class CanReplay(Struct):
    """Whether a profile can be replayed."""

    can_replay: bool
    reason: Annotated[str | None, doc("Why not; null: it can.")]


class Replay(Struct, kw_only=True):
    """How well the replay of the unchanged profile fits."""

    is_corrected: Annotated[bool, doc("Whether it is without the costs of profiling.")]
    is_recorded_span: Annotated[
        bool,
        doc(
            "Whether no step was found: the times of a step are those of the recorded span, from "
            "the start of the first to the end of the last work of a GPU."
        ),
    ]
    measured_step_ns: Annotated[
        int, doc("The step: without profiling where that is known, else as profiled.")
    ]
    basis: Annotated[str, doc("bare: without profiling; given: the same by the user; profiled.")]
    statistic: Annotated[str, doc("What the step is of all steps: median or mean.")]
    replayed_step_ns: Annotated[int, doc("The same one of the replayed steps, as its part.")]
    error_pct: ErrorPct
    unexplained_pct: Annotated[float, doc("Share of the step that is unexplained idle time.")]
    confidence: Annotated[str, doc("high, medium or low.")]
    notes: Annotated[list[str], doc("What lowers the confidence.")]
    iterations: Annotated[list[int], doc("The iterations that were replayed.")]


class PathShare(Struct):
    """Time on the critical path of one kind and owner."""

    kind: Annotated[str, doc("kernel, copy, call, cpu, loader, launch, gap, and so on.")]
    owner: Annotated[str, doc("Op ID, or name of a call; empty: neither.")]
    ns: Annotated[int, doc("Its share as a part of the step.")]
    share_pct: Annotated[float, doc("Of the step.")]
    op_name: str | None
    direction: Annotated[str, doc("fprop, bprop or recompute of the op; else empty.")] = ""


class ChainItem(Struct):
    """An item of the chain of one step."""

    offset_ns: Annotated[int, doc("From the start of the step.")]
    duration_ns: int
    kind: Annotated[str, doc("kernel, copy, set, graph, communication, cpu or wait.")]
    owner: Annotated[str, doc("Op ID; empty: of no op.")]
    name: Annotated[str, doc("First kernel or call; empty: none.")]
    op_name: str | None
    count: Annotated[int, doc("Kernels, or calls and the times between them.")]


class CriticalPath(Replay, kw_only=True):
    """What the steps wait for."""

    critical_path: Annotated[list[PathShare], doc("Of all steps, longest first.")]
    iteration_index: Annotated[int, doc("Iteration of the chain.")]
    step_ns: Annotated[int, doc("Length of its step.")]
    num_items: Annotated[int, doc("Items of the chain; the longest are listed.")]
    chain: Annotated[list[ChainItem], doc("In order of time.")]


class OpSensitivity(Struct):
    """What an op that takes less time changes."""

    op_id: str
    op_name: str
    op_type: str
    direction: str
    own_ns: Annotated[int, doc("Mean time of its work on the GPU in a step.")]
    path_ns: Annotated[int, doc("Of it on the critical path.")]
    path_pct: Annotated[float, doc("The same as a share of the critical path.")]
    slack_ns: Annotated[
        int | None, doc("How much later its work may end for free; null: at any time.")
    ]
    step_ns_per_own_ns: Annotated[float, doc("Time that a step gains when the op gains 1 ns.")]


class OpSensitivities(Replay, kw_only=True):
    """What ops that take less time change."""

    ops: Annotated[list[OpSensitivity], doc("Those with most time on the path first.")]


class WhatIf(Replay, kw_only=True):
    """The step with changes."""

    predicted_step_ns: Annotated[
        int | None, doc("The step less saving_ns; null: no change, or no saving is known.")
    ] = None
    saving_ns: Annotated[
        int | None, doc("What the step is known to save; null: no change, or the reason says why.")
    ] = None
    uncertain_ns: Annotated[
        int | None,
        doc(
            "What may be saved beyond saving_ns: time of the CPU, which may be the profiler's "
            "where the step without profiling is unknown, and of work that it hides. 0: saving_ns "
            "is all; null: no change."
        ),
    ] = None
    reason: Annotated[str | None, doc("Why uncertain_ns is not counted; null: there is none.")] = (
        None
    )
    interval_ns: Annotated[
        list[int] | None,
        doc("10th and 90th percentile of the steps; null: part of the saving is uncertain."),
    ] = None
    bound_by: Annotated[
        str | None,
        doc("What the steps then wait for most: gpu, cpu, loader or communication."),
    ] = None
    is_bound: Annotated[bool | None, doc("Whether it is only a bound; null: no change.")] = None


class WhatIfChange(Struct):
    """A change that what-if takes."""

    name: Annotated[str, doc("Parameter of what-if.")]
    takes: Annotated[
        str,
        doc(
            "switch, op (a switch, or an op that it is limited to), names, factors (NAME=Kx), "
            "number or rank."
        ),
    ]
    label: str
    meaning: str
    unit: Annotated[str, doc("Of a number.")]
    is_bound: Annotated[bool, doc("Whether the step is only a bound.")]
    choices: Annotated[list[str], doc("The ranks of rank_as_median; none: there is only one.")]
    reason: Annotated[
        str | None, doc("Why a switch has no effect on this profile; null: it may have one.")
    ]


class WhatIfChanges(Struct):
    """The changes that what-if takes."""

    changes: list[WhatIfChange]


def read_can_replay(
    data: AggregationData,
    *,
    ranks: Annotated[bool, doc("1: of the ranks against each other.")] = False,
) -> CanReplay:
    """Whether the other addresses of the replay have an answer; if not, why."""
    try:
        if ranks:
            rank_report(data)
        else:
            replayed_profile(data)
    except ReplayError as error:
        return CanReplay(can_replay=False, reason=error.message)
    return CanReplay(can_replay=True, reason=None)


def read_critical_path(
    data: AggregationData,
    *,
    iteration_index: Annotated[
        int | None, doc("Iteration of the chain (default: that of median length).")
    ] = None,
    corrected: Corrected = True,
) -> CriticalPath:
    """The critical path of all steady steps by kind and owner, and the chain of one.

    Raises:
        ReplayError: The profile cannot be replayed.
        InvalidValueError: The iteration is no steady one.
    """
    profile, _ = replayed_profile(data, corrected=corrected)
    names = _names_of_ops(profile)
    chain = step_chain(profile, _row(profile, iteration_index))
    return CriticalPath(
        **asdict(_fit(data, profile, _scale(data, corrected=corrected))),
        critical_path=_shares(data, corrected=corrected),
        iteration_index=int(profile.steps.number[chain.step]),
        step_ns=int(profile.replayed_ns[chain.step]),
        num_items=len(chain.duration_ns),
        chain=_items(chain, names),
    )


def read_op_sensitivity(data: AggregationData, *, corrected: Corrected = True) -> OpSensitivities:
    """For each op the time that a step gains when the op gains 1 ns, and its slack.

    Raises:
        ReplayError: The profile cannot be replayed.
    """
    profile, _ = replayed_profile(data, corrected=corrected)
    fit = asdict(_fit(data, profile, _scale(data, corrected=corrected)))
    return OpSensitivities(**fit, ops=_sensitivities(data, corrected=corrected))


def read_what_if(
    data: AggregationData,
    *,
    changes: Annotated[Mapping[str, str], address_notes()],
    corrected: Corrected = True,
) -> WhatIf:
    """A replay of the steady steps with the changes.

    Raises:
        ReplayError: The profile cannot be replayed.
        InvalidValueError, UsageError: A change is none, or changes nothing.
    """
    made = parse_changes(changes)
    rank = changes.get("rank_as_median", "")
    # Ranks are compared as they were measured.
    profile, _ = replayed_profile(data, corrected=corrected and not rank)
    scale = _scale(data, corrected=corrected, of_ranks=bool(rank))
    fit = asdict(_fit(data, profile, scale))
    if not made and not rank:
        return WhatIf(**fit)
    if rank:
        found = rank_prediction(rank_report(data), rank, profile, alone=not made)
    else:
        found = profile.predict(made, finds_limit=True)
    saving_ns = scale.saving_ns(profile, found)
    uncertain_ns = scale.uncertain_ns(profile, found)
    step_ns = None if saving_ns is None else scale.step_ns - saving_ns
    return WhatIf(
        **fit,
        predicted_step_ns=step_ns,
        saving_ns=saving_ns,
        uncertain_ns=uncertain_ns,
        reason=_uncertainty(profile, uncertain_ns) if uncertain_ns or step_ns is None else None,
        interval_ns=None if uncertain_ns or step_ns is None else scale.interval_ns(found, step_ns),
        bound_by=found.limit,
        is_bound=found.is_bound,
    )


def _uncertainty(profile: ReplayedProfile, uncertain_ns: int) -> Text:
    """Say why some time that a replay saves is not known to be saved."""
    if profile.steps.is_whole:
        return say("No whole step was found on the GPU, so what one saves is unknown.")
    return say(
        "Up to {time} of a step may be saved beyond that: time of the CPU, or of work that the CPU "
        "as profiled hides. How much of the CPU's time is the profiler's is unknown without the "
        "step without profiling (--bare_step_ms).",
        time=duration_text(uncertain_ns),
    )


def read_changes(data: AggregationData) -> WhatIfChanges:
    """The changes that what-if takes, in the order in which they are applied.

    Raises:
        ReplayError: The profile cannot be replayed.
    """
    ranks = [str(row["rank"]) for row in data.rows(RANKS)]
    profile, _ = replayed_profile(data)
    return WhatIfChanges(
        [
            WhatIfChange(
                name=name,
                takes=change.takes,
                label=change.label,
                meaning=change.meaning,
                unit=change.unit,
                is_bound=change.is_bound,
                choices=ranks if change.takes is Takes.RANK and len(ranks) > 1 else [],
                reason=_no_effect(profile, change) if change.is_switch else None,
            )
            for name, change in CHANGES.items()
        ]
    )


def _no_effect(profile: ReplayedProfile, change: DeclaredChange) -> str | None:
    """Return why a change without a value changes nothing; None: it does, as far as is known."""
    try:
        profile.scenario([] if change.make is None else [change.make("")])
    except UsageError as error:
        return error.message
    return None


def read_stragglers(data: AggregationData) -> Stragglers:
    """A replay of the steady steps without the slowness of each rank.

    Raises:
        ReplayError: They cannot be compared; the message says why.
    """
    return rank_report(data).answer()


@remembered(64, "aggr_id")
def _shares(data: AggregationData, *, corrected: bool) -> list[PathShare]:
    profile, _ = replayed_profile(data, corrected=corrected)
    ops, names = profile.graph.data.ops, _names_of_ops(profile)
    directions = dict(zip(ops.op_ids, ops.directions, strict=True))
    return [
        PathShare(
            **vars(share),
            op_name=names.get(share.owner),
            direction=directions.get(share.owner, ""),
        )
        for share in _scale(data, corrected=corrected).shares(profile.critical_path_shares())
    ]


@remembered(64, "aggr_id")
def _sensitivities(data: AggregationData, *, corrected: bool) -> list[OpSensitivity]:
    profile, _ = replayed_profile(data, corrected=corrected)
    ops = profile.graph.data.ops
    names = dict(zip(ops.op_ids, zip(ops.names, ops.types, strict=True), strict=True))
    path = max(profile.span_ns / len(profile.steps.number), 1.0)
    return [
        OpSensitivity(
            op_id=found.op,
            op_name=names[found.op][0],
            op_type=names[found.op][1],
            direction=found.direction,
            own_ns=found.own_ns,
            path_ns=found.path_ns,
            path_pct=round(100 * found.path_ns / path, 4),
            slack_ns=found.slack_ns,
            step_ns_per_own_ns=found.step_ns_per_own_ns,
        )
        for found in profile.sensitivities
    ]


@remembered(64, "aggr_id")
def _scale(data: AggregationData, *, corrected: bool, of_ranks: bool = False) -> StepScale:
    profile, is_corrected = replayed_profile(data, corrected=corrected and not of_ranks)
    aggr, as_profiled = int(data.params["aggr_id"]), not corrected

    def read(connection: sqlite3.Connection) -> StepScale:
        store = stored_events(connection)
        return read_scale(store, aggr, profile, is_corrected=is_corrected, as_profiled=as_profiled)

    return data.database.read_with(read)


def _names_of_ops(profile: ReplayedProfile) -> dict[str, str]:
    ops = profile.graph.data.ops
    return dict(zip(ops.op_ids, ops.names, strict=True))


def _fit(data: AggregationData, profile: ReplayedProfile, scale: StepScale) -> Replay:
    errors = profile.errors_pct
    limits = found_limits(data.database, "critical_path")
    unknown = [
        say(
            "Of the run, the critical path and predictions are unknown ({limit}): they are those "
            "of what was recorded.",
            limit=limit.title,
        )
        for limit in limits[:1]
    ]
    return Replay(
        is_corrected=scale.is_corrected,
        is_recorded_span=scale.is_span,
        measured_step_ns=scale.step_ns,
        basis=scale.basis,
        statistic=scale.statistic,
        replayed_step_ns=scale.unchanged_ns(profile),
        error_pct=ErrorPct(
            median=round(float(np.median(errors)), 4), worst=round(float(errors.max()), 4)
        ),
        unexplained_pct=round(profile.unexplained_pct, 4),
        confidence="low" if limits else profile.confidence,
        notes=[*unknown, *profile.notes],
        iterations=profile.steps.number.tolist(),
    )


def _row(profile: ReplayedProfile, iteration: int | None) -> int:
    """Return the row of a step; without a number the one of median length."""
    numbers = profile.steps.number
    if iteration is None:
        order = np.argsort(profile.measured_ns, kind="stable")
        return int(order[(len(order) - 1) // 2])
    found = np.flatnonzero(numbers == iteration)
    if not len(found):
        raise InvalidValueError(
            say("Iteration {iteration} is not replayed.", iteration=iteration),
            hint=say(
                "The steady iterations are {low} to {high}.",
                low=int(numbers[0]) if len(numbers) else 0,
                high=int(numbers[-1]) if len(numbers) else 0,
            ),
        )
    return int(found[0])


def _items(chain: Chain, names: Mapping[str, str]) -> list[ChainItem]:
    longest = np.sort(np.argsort(-chain.duration_ns, kind="stable")[:MOST_ITEMS])
    return [
        ChainItem(
            offset_ns=int(chain.offset_ns[item]),
            duration_ns=int(chain.duration_ns[item]),
            kind=chain.kind[item],
            owner=chain.owner[item],
            name=chain.name[item],
            op_name=names.get(chain.owner[item]),
            count=int(chain.count[item]),
        )
        for item in longest.tolist()
    ]
