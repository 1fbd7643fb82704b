"""What a profile predicts of a change: by its advice, or by a replay of its steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aggregator.answers.changes import parse_changes
from aggregator.answers.replay import read_what_if
from aggregator.answers.trials import Prediction
from aggregator.errors import UsageError
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.declared.advice import ADVICE
from aggregator.texts import say

BOUND: Final = "bound"


def advice_prediction(data: AggregationData, name: str) -> Prediction:
    """Return what an advice of a profile promises.

    Raises:
        UsageError: The profile has no such advice.
    """
    rows = {str(row["advice"]): row for row in data.rows(ADVICE)}
    row = rows.get(name)
    if row is None or row["status"] != "found":
        listed = [key for key, other in rows.items() if other["status"] == "found"]
        raise UsageError(
            say("The profile has no advice '{name}'.", name=name),
            hint=say("It has: {names}.", names=", ".join(listed))
            if listed
            else say("It has none at all."),
        )
    gain = row["gain_pct"]
    return Prediction(
        kind="advice",
        name=name,
        change_pct=None if gain is None else -float(gain),
        certainty=str(row["certainty"] or ""),
        aggregation=int(data.params["aggr_id"]),
    )


def change_prediction(data: AggregationData, changes: Mapping[str, str]) -> Prediction:
    """Return what the replay of a profile predicts for changes, given as in an address.

    Raises:
        UsageError: No change is named, or a value does not fit.
        ReplayError: The profile cannot be replayed.
    """
    parse_changes(changes)
    found = read_what_if(data, changes=changes)
    predicted_ns, step_ns = found.predicted_step_ns, found.measured_step_ns
    if predicted_ns is None:
        raise UsageError(say("The what-if names no change."))
    # What is not known to be saved may be the profiler's time.
    saving_ns = step_ns - predicted_ns if found.saving_ns is None else found.saving_ns
    return Prediction(
        kind="what-if",
        name=" ".join(
            name if value == "1" else f"{name}={value}" for name, value in changes.items()
        ),
        change_pct=-100 * saving_ns / step_ns if step_ns else None,
        certainty=BOUND if found.is_bound else str(found.confidence),
        aggregation=int(data.params["aggr_id"]),
    )
