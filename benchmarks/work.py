"""What each measured process does, with everything imported that it needs."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from aggregator import pipeline
from aggregator.options import AggregationRequest, ImportOptions
from aggregator.progress import NullProgress, Progress
from benchmarks.floor import read_once


def work_of(
    name: str, profile: Path, database: Path, progress: Progress | None = None
) -> Callable[[], object]:
    """The work of a run.

    Args:
        name: ``floor``, ``import``, ``range`` or ``key node``.
        profile: The export.
        database: Its database: what ``import`` writes and the aggregations are added to.
        progress: Listener; None: nobody listens.
    """
    listener = progress or NullProgress()
    if name == "floor":
        return partial(read_once, profile)
    if name == "import":
        options = ImportOptions(profile, database, overwrite=True)
        return partial(pipeline.import_profile, options, listener)
    request = _new_request(database, with_key_node=name == "key node")
    return partial(pipeline.aggregate, database, request, listener)


def _new_request(database: Path, *, with_key_node: bool) -> AggregationRequest:
    """A request that was not made before, so that the work is really done."""
    with closing(sqlite3.connect(database)) as connection:
        done = int(connection.execute("SELECT count(*) FROM aggregations").fetchone()[0])
        if not with_key_node:
            return AggregationRequest(iter_start=done)
        # Another op that runs as often as there are iterations.
        query = (
            "SELECT op_node_id FROM view_op_metrics WHERE aggr_id = 1 AND num_calls > 1"
            " ORDER BY num_calls DESC, op_node_id LIMIT 1 OFFSET ?"
        )
        return AggregationRequest(key_node=connection.execute(query, (done,)).fetchone()[0])
