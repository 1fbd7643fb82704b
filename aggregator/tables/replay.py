"""The replay of an aggregation: critical path, sensitivity of ops, what-if, slow ranks."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from aggregator.dldb.event_reader import stored_events
from aggregator.dldb.rows.corrected import read_corrected
from aggregator.errors import InvalidValueError, ReplayError
from aggregator.events.window import read_bare_step
from aggregator.replay.analysis import ReplayedProfile
from aggregator.replay.corrected import proven_saving_ns
from aggregator.replay.critical_path_items import Chain, step_chain
from aggregator.replay.named_changes import LISTS, NUMBERS, OPTIONAL, SWITCHES, named_changes
from aggregator.replay.rank_report import RankReport, rank_prediction, read_slow_ranks
from aggregator.replay.reader import read_replayed
from aggregator.replay.scenario import Change
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.counts import QueryCache
from aggregator.texts import Text, say

Reply = dict[str, Any]

MOST_ITEMS: Final = 4_000
"""Items of a chain that are replied, the longest ones; a page draws no more."""
RANK_AS_MEDIAN: Final = "rank_as_median"
CHANGE_NAMES: Final = (*LISTS, *OPTIONAL, *NUMBERS, *SWITCHES, RANK_AS_MEDIAN)
"""Parameters that change something."""

# A graph takes some hundred bytes for each kernel and call of the profile.
_profiles: QueryCache[tuple[ReplayedProfile, bool]] = QueryCache(2)
_answers: QueryCache[Reply] = QueryCache(64)
_ranks: QueryCache[RankReport] = QueryCache(16)


def read_critical_path(
    data: AggregationData, iteration: int | None, *, corrected: bool = False
) -> Reply:
    """The critical path by kind and owner, and the chain of one step.

    Args:
        data: The aggregation.
        iteration: Number of the iteration; None: that of median length.
        corrected: Without the costs of profiling, where the step without it is known.

    Raises:
        ReplayError: The profile cannot be replayed.
        InvalidValueError: The iteration is no steady one.
    """
    profile, is_corrected = _profile(data, corrected=corrected)
    shares = _remembered(
        data,
        f"shares{is_corrected}",
        lambda: {"shares": [vars(one) for one in profile.critical_path_shares()]},
    )
    names = dict(zip(profile.graph.data.ops.op_ids, profile.graph.data.ops.names, strict=True))
    return {
        **_fit(profile, is_corrected=is_corrected),
        "critical_path": [{**one, "op_name": names.get(one["owner"])} for one in shares["shares"]],
        **_chain(step_chain(profile, _row(profile, iteration)), profile, names),
    }


def read_op_sensitivity(data: AggregationData, *, corrected: bool = False) -> Reply:
    """What each op that takes less time would change.

    Raises:
        ReplayError: The profile cannot be replayed.
    """
    profile, is_corrected = _profile(data, corrected=corrected)

    def answer() -> Reply:
        ops = profile.graph.data.ops
        names = dict(zip(ops.op_ids, zip(ops.names, ops.types, strict=True), strict=True))
        step = max(float(np.median(profile.measured_ns)), 1.0)
        return {
            "ops": [
                {
                    "op_id": one.op,
                    "op_name": names[one.op][0],
                    "op_type": names[one.op][1],
                    "direction": one.direction,
                    "own_ns": one.own_ns,
                    "path_ns": one.path_ns,
                    "path_pct": round(100 * one.path_ns / step, 4),
                    "slack_ns": one.slack_ns,
                    "step_ns_per_own_ns": one.step_ns_per_own_ns,
                }
                for one in profile.sensitivities()
            ]
        }

    fit = _fit(profile, is_corrected=is_corrected)
    return {**fit, **_remembered(data, f"sensitivity{is_corrected}", answer)}


def read_what_if(
    data: AggregationData, params: Mapping[str, str], *, corrected: bool = False
) -> Reply:
    """The step with changes.

    Args:
        data: The aggregation.
        params: Values of ``CHANGE_NAMES``.
        corrected: Without the costs of profiling, where the step without it is known.

    Raises:
        ReplayError: The profile cannot be replayed.
        InvalidValueError, UsageError: A change is none, or changes nothing.
    """
    changes = parse_changes(params)
    rank = params.get(RANK_AS_MEDIAN, "")
    # Ranks are compared as they were measured.
    profile, is_corrected = _profile(data, corrected=corrected and not rank)
    fit = _fit(profile, is_corrected=is_corrected)
    if not changes and not rank:
        return {**fit, "predicted_step_ns": None, "saving_ns": None} | {
            "interval_ns": None,
            "is_bound": None,
        }
    if rank:
        found = rank_prediction(_rank_report(data), rank, profile, alone=not changes)
    else:
        found = profile.predict(changes)
    return {
        **fit,
        "predicted_step_ns": found.predicted_step_ns,
        "saving_ns": proven_saving_ns(profile, found, _bare_step(data), is_corrected=is_corrected),
        "interval_ns": list(found.interval_ns),
        "is_bound": found.is_bound,
    }


def _bare_step(data: AggregationData) -> int | None:
    aggr = int(data.params["aggr_id"])
    return data.database.read_with(
        lambda connection: read_bare_step(stored_events(connection), aggr)
    )


def read_can_replay(data: AggregationData, *, is_of_ranks: bool) -> Reply:
    """Whether the steps, or the ranks against each other, can be replayed; if not, why."""
    try:
        if is_of_ranks:
            _rank_report(data)
        else:
            replayed_profile(data)
    except ReplayError as error:
        return {"can_replay": False, "reason": error.message}
    return {"can_replay": True, "reason": None}


def read_stragglers(data: AggregationData) -> Reply:
    """The ranks compared.

    Raises:
        ReplayError: They cannot be compared; the message says why.
    """
    return _rank_report(data).document()


def _rank_report(data: AggregationData) -> RankReport:
    _require_events(data)
    aggr = int(data.params["aggr_id"])
    return _ranks.get(
        data.database.state,
        "ranks",
        {"aggr": aggr},
        lambda: data.database.read_with(
            lambda connection: read_slow_ranks(stored_events(connection), aggr)
        ),
    )


def parse_changes(params: Mapping[str, str]) -> list[Change]:
    """Changes of a request: lists are separated by semicolons.

    Raises:
        InvalidValueError: One is none.
    """
    wanted = {
        name: [part.strip() for part in params.get(name, "").split(";") if part.strip()]
        for name in LISTS
    }
    for name in (*OPTIONAL, *NUMBERS, *SWITCHES):
        value = params.get(name, "0")
        if name in SWITCHES and value not in ("0", "1"):
            raise InvalidValueError(say("{name} must be 0 or 1.", name=name))
        if value != "0":
            wanted[name] = ["" if name in OPTIONAL and value == "1" else value]
    return named_changes(wanted)


def _require_events(data: AggregationData) -> None:
    if not data.database.has("view_launch_keys"):
        raise ReplayError(_NO_EVENTS)


_NO_EVENTS: Final[Text] = say("The database has no single calls and kernels to replay.")


def replayed_profile(data: AggregationData) -> ReplayedProfile:
    """All steady steps, replayed; kept for some profiles.

    Raises:
        ReplayError: The profile cannot be replayed.
    """
    return _profile(data)[0]


def _profile(data: AggregationData, *, corrected: bool = False) -> tuple[ReplayedProfile, bool]:
    """The replayed profile, and whether it is without the costs of profiling."""
    _require_events(data)
    aggr = int(data.params["aggr_id"])

    def read(connection: sqlite3.Connection) -> tuple[ReplayedProfile, bool]:
        store = stored_events(connection)
        profile = read_replayed(store, aggr)
        found = read_corrected(connection, store, aggr, profile) if corrected else None
        return (profile, False) if found is None else (found, True)

    return _profiles.get(
        data.database.state,
        f"profile{corrected}",
        {"aggr": aggr},
        lambda: data.database.read_with(read),
    )


def _remembered(data: AggregationData, name: str, read: Any) -> Reply:
    params = {"aggr": data.params["aggr_id"]}
    return _answers.get(data.database.state, name, params, read)


def _fit(profile: ReplayedProfile, *, is_corrected: bool) -> Reply:
    errors = profile.errors_pct
    return {
        "is_corrected": is_corrected,
        "measured_step_ns": int(np.median(profile.measured_ns)),
        "replayed_step_ns": int(np.median(profile.replayed_ns)),
        "error_pct": {
            "median": round(float(np.median(errors)), 4),
            "worst": round(float(errors.max()), 4),
        },
        "unexplained_pct": round(profile.unexplained_pct, 4),
        "confidence": profile.confidence,
        "notes": list(profile.notes),
        "iterations": profile.steps.number.tolist(),
    }


def _row(profile: ReplayedProfile, iteration: int | None) -> int:
    """Row of a step; without a number the one of median length."""
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


def _chain(chain: Chain, profile: ReplayedProfile, names: Mapping[str, str]) -> Reply:
    longest = np.sort(np.argsort(-chain.duration_ns, kind="stable")[:MOST_ITEMS])
    row = chain.step
    return {
        "iteration_index": int(profile.steps.number[row]),
        "step_ns": int(profile.replayed_ns[row]),
        "num_items": len(chain.duration_ns),
        "chain": [
            {
                "offset_ns": int(chain.offset_ns[item]),
                "duration_ns": int(chain.duration_ns[item]),
                "kind": chain.kind[item],
                "owner": chain.owner[item],
                "name": chain.name[item],
                "op_name": names.get(chain.owner[item]),
                "count": int(chain.count[item]),
            }
            for item in longest.tolist()
        ],
    }
