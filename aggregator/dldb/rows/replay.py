"""Critical path and sensitivity of ops as rows of an aggregation."""

from __future__ import annotations

from pathlib import Path

from aggregator.dldb.stored import require_aggregable
from aggregator.dldb.writer import Table, aggregation_transaction, has_table, insert_rows
from aggregator.errors import DldbVersionError
from aggregator.replay.analysis import ReplayedProfile
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
        tables = replay_tables(aggr, profile)
        if not all(has_table(connection, table) for table in TABLES):
            raise DldbVersionError(
                say("'{database}' has no tables for the critical path.", database=database),
                hint=say("Aggregate its profile again: dlprof --database=profile.sqlite"),
            )
        for table in tables:
            connection.execute(f"DELETE FROM {table.name} WHERE aggr = ?", (aggr,))
            insert_rows(connection, table)


def replay_tables(aggr: int, profile: ReplayedProfile) -> tuple[Table, Table]:
    """Return the rows of ``TABLES``: times of a mean step, as profiled."""
    return _path(aggr, profile), _sensitivity(aggr, profile)


def _path(aggr: int, profile: ReplayedProfile) -> Table:
    found = profile.critical_path_shares()
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
    found = profile.sensitivities
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
