"""Critical path and sensitivity of ops as rows of an aggregation."""

from __future__ import annotations

from pathlib import Path

from aggregator.dldb.event_reader import stored_events
from aggregator.dldb.stored import require_aggregable
from aggregator.dldb.writer import Table, aggregation_transaction, has_table, insert_rows
from aggregator.errors import DldbVersionError
from aggregator.replay.analysis import ReplayedProfile
from aggregator.replay.scale import StepScale, read_scale
from aggregator.texts import say

TABLES = ("critical_path", "op_sensitivity")


def store_replay(database: Path, aggr: int, profile: ReplayedProfile) -> None:
    """Store the critical path and the sensitivity of ops; replaces those of an earlier call.

    Raises:
        DldbVersionError: The database is of a version without these tables.
        DatabaseError: It cannot be written.
    """
    require_aggregable(database)
    with aggregation_transaction(database) as connection:
        scale = read_scale(stored_events(connection), aggr, profile, as_profiled=True)
        tables = replay_tables(aggr, profile, scale)
        if not all(has_table(connection, table) for table in TABLES):
            raise DldbVersionError(
                say("'{database}' has no tables for the critical path.", database=database),
                hint=say("Aggregate its profile again: dlprof --database=profile.sqlite"),
            )
        for table in tables:
            connection.execute(f"DELETE FROM {table.name} WHERE aggr = ?", (aggr,))
            insert_rows(connection, table)


def replay_tables(aggr: int, profile: ReplayedProfile, scale: StepScale) -> tuple[Table, Table]:
    """Return the rows of ``TABLES``."""
    return _path(aggr, profile, scale), _sensitivity(aggr, profile)


def _path(aggr: int, profile: ReplayedProfile, scale: StepScale) -> Table:
    found = scale.shares(profile.critical_path_shares())
    return Table(
        "critical_path",
        {
            "place": list(range(1, len(found) + 1)),
            "aggr": aggr,
            "kind": [share.kind for share in found],
            "owner": [share.owner for share in found],
            "time": [share.ns for share in found],
            "share": [share.share_pct for share in found],
        },
    )


def _sensitivity(aggr: int, profile: ReplayedProfile) -> Table:
    found = profile.sensitivities()
    return Table(
        "op_sensitivity",
        {
            "place": list(range(1, len(found) + 1)),
            "aggr": aggr,
            "op_id": [sensitivity.op for sensitivity in found],
            "direction": [sensitivity.direction for sensitivity in found],
            "own_time": [sensitivity.own_ns for sensitivity in found],
            "path_time": [sensitivity.path_ns for sensitivity in found],
            "gain_ratio": [sensitivity.step_ns_per_own_ns for sensitivity in found],
            "slack": [sensitivity.slack_ns for sensitivity in found],
        },
    )
