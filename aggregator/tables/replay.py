"""The replay of an aggregation: critical path, sensitivity of ops, what-if, slow ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from aggregator.dldb.replay_inputs import read_replayed
from aggregator.dldb.slow_ranks import RankReport, read_slow_ranks
from aggregator.errors import InvalidValueError, ReplayError
from aggregator.replay.analysis import ReplayedProfile
from aggregator.replay.chain import Chain, step_chain
from aggregator.replay.changes import (
    MAX_FACTOR,
    MIN_FACTOR,
    Change,
    channels_last,
    data_ready,
    graph_launch,
    half_precision,
    no_communication,
    no_synchronization,
    overlap_communication,
    remove,
    speed_up,
    tensor_cores,
)
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.counts import Remembered
from aggregator.texts import Text, say

Reply = dict[str, Any]

MOST_ITEMS: Final = 4_000
"""Items of a chain that are replied, the longest ones; a page draws no more."""
MOST_CHANGES: Final = 50
_SWITCHES: Final[dict[str, Change]] = {
    "tensor_cores": tensor_cores,
    "half_precision": half_precision,
    "channels_last": channels_last,
    "data_ready": data_ready,
    "graph_launch": graph_launch,
    "overlap_communication": overlap_communication,
    "no_communication": no_communication,
}
CHANGE_NAMES: Final = ("speedup", "remove", "no_sync", *_SWITCHES)
"""Parameters that change something."""

# A graph takes some hundred bytes for each kernel and call of the profile.
_profiles: Remembered[ReplayedProfile] = Remembered(2)
_answers: Remembered[Reply] = Remembered(64)
_ranks: Remembered[RankReport] = Remembered(16)


def read_critical_path(data: AggregationData, iteration: int | None) -> Reply:
    """The critical path by kind and owner, and the chain of one step.

    Args:
        data: The aggregation.
        iteration: Number of the iteration; None: that of median length.

    Raises:
        ReplayError: The profile cannot be replayed.
        InvalidValueError: The iteration is no steady one.
    """
    profile = _profile(data)
    shares = _remembered(
        data, "shares", lambda: {"shares": [vars(one) for one in profile.critical_path_shares()]}
    )
    names = dict(zip(profile.graph.data.ops.op_ids, profile.graph.data.ops.names, strict=True))
    return {
        **_fit(profile),
        "critical_path": [{**one, "op_name": names.get(one["owner"])} for one in shares["shares"]],
        **_chain(step_chain(profile, _row(profile, iteration)), profile, names),
    }


def read_op_sensitivity(data: AggregationData) -> Reply:
    """What each op that takes less time would change.

    Raises:
        ReplayError: The profile cannot be replayed.
    """
    profile = _profile(data)

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

    return {**_fit(profile), **_remembered(data, "sensitivity", answer)}


def read_what_if(data: AggregationData, params: Mapping[str, str]) -> Reply:
    """The step with changes.

    Args:
        data: The aggregation.
        params: Values of ``CHANGE_NAMES``.

    Raises:
        ReplayError: The profile cannot be replayed.
        InvalidValueError, UsageError: A change is none, or changes nothing.
    """
    changes = parse_changes(params)
    profile = _profile(data)
    if not changes:
        return {**_fit(profile), "predicted_step_ns": None, "interval_ns": None, "is_bound": None}
    found = profile.predict(changes)
    return {
        **_fit(profile),
        "predicted_step_ns": found.predicted_step_ns,
        "interval_ns": list(found.interval_ns),
        "is_bound": found.is_bound,
    }


def read_can_replay(data: AggregationData, *, is_of_ranks: bool) -> Reply:
    """Whether the steps, or the ranks against each other, can be replayed; if not, why."""
    try:
        if is_of_ranks:
            _rank_report(data)
        else:
            _profile(data)
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
        lambda: data.database.read_with(lambda connection: read_slow_ranks(connection, aggr)),
    )


def parse_changes(params: Mapping[str, str]) -> list[Change]:
    """Changes of a request: lists are separated by semicolons.

    Raises:
        InvalidValueError: One is none.
    """
    changes = [_speed_up(text) for text in _listed(params, "speedup")]
    changes += [remove(text) for text in _listed(params, "remove")]
    if params.get("no_sync", "0") != "0":
        changes.append(no_synchronization("" if params["no_sync"] == "1" else params["no_sync"]))
    for name, change in _SWITCHES.items():
        if params.get(name, "0") not in ("0", "1"):
            raise InvalidValueError(say("{name} must be 0 or 1.", name=name))
        if params.get(name) == "1":
            changes.append(change)
    return changes


def _listed(params: Mapping[str, str], name: str) -> list[str]:
    found = [part.strip() for part in params.get(name, "").split(";") if part.strip()]
    if len(found) > MOST_CHANGES:
        raise InvalidValueError(
            say("{name} must name at most {most} changes.", name=name, most=MOST_CHANGES)
        )
    return found


def _speed_up(text: str) -> Change:
    name, _, number = text.rpartition("=")
    try:
        factor = float(number.lower().removesuffix("x"))
    except ValueError:
        factor = 0.0
    if not name or not MIN_FACTOR <= factor <= MAX_FACTOR:
        raise InvalidValueError(
            say("The speed-up '{text}' is not NAME=Kx.", text=text),
            hint=say("For example: speedup=conv2d=2x"),
        )
    return speed_up(name, factor)


def _require_events(data: AggregationData) -> None:
    if not data.database.has("view_launch_keys"):
        raise ReplayError(_NO_EVENTS)


_NO_EVENTS: Final[Text] = say("The database has no single calls and kernels to replay.")


def _profile(data: AggregationData) -> ReplayedProfile:
    _require_events(data)
    aggr = int(data.params["aggr_id"])
    return _profiles.get(
        data.database.state,
        "profile",
        {"aggr": aggr},
        lambda: data.database.read_with(lambda connection: read_replayed(connection, aggr)),
    )


def _remembered(data: AggregationData, name: str, read: Any) -> Reply:
    params = {"aggr": data.params["aggr_id"]}
    return _answers.get(data.database.state, name, params, read)


def _fit(profile: ReplayedProfile) -> Reply:
    errors = profile.errors_pct
    return {
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
