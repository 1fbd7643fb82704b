"""The replayed steps and the compared ranks of an aggregation, kept for some profiles."""

from __future__ import annotations

import sqlite3
from typing import Final

from aggregator.dldb.event_reader import stored_events
from aggregator.dldb.rows.corrected import read_corrected
from aggregator.errors import ReplayError
from aggregator.replay.analysis import ReplayedProfile
from aggregator.replay.rank_report import RankReport, read_slow_ranks
from aggregator.replay.reader import read_replayed
from aggregator.tables.aggregation_data import AggregationData, remembered
from aggregator.texts import Text, say

_NO_EVENTS: Final[Text] = say("The database has no single calls and kernels to replay.")


# A graph takes some hundred bytes for each kernel and call of the profile.
@remembered(2, "aggr_id")
def replayed_profile(
    data: AggregationData, *, corrected: bool = False
) -> tuple[ReplayedProfile, bool]:
    """Replay all steady steps, and say whether that is without the costs of profiling.

    Raises:
        ReplayError: The profile cannot be replayed.
    """
    _require_events(data)
    aggr = int(data.params["aggr_id"])

    def read(connection: sqlite3.Connection) -> tuple[ReplayedProfile, bool]:
        store = stored_events(connection)
        profile = read_replayed(store, aggr)
        found = read_corrected(connection, store, aggr, profile) if corrected else None
        return (profile, False) if found is None else (found, True)

    return data.database.read_with(read)


@remembered(16, "aggr_id")
def rank_report(data: AggregationData) -> RankReport:
    """Compare the ranks.

    Raises:
        ReplayError: They cannot be compared; the message says why.
    """
    _require_events(data)
    aggr = int(data.params["aggr_id"])
    return data.database.read_with(lambda opened: read_slow_ranks(stored_events(opened), aggr))


def _require_events(data: AggregationData) -> None:
    if not data.database.has("view_launch_keys"):
        raise ReplayError(_NO_EVENTS)
