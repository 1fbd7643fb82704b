"""The work of each measured process, with all its imports.

The floor is the time of reading the needed columns once, on one ADBC connection.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from aggregator import pipeline
from aggregator.dldb import import_writer  # noqa: F401 - a process loads it once
from aggregator.options import AggregationRequest, ImportOptions
from aggregator.sources.arrow_columns import arrow_connection
from aggregator.sources.formats import list_tables
from aggregator.system.progress import NullProgress

COLUMNS = {
    "NVTX_EVENTS": '"start", "end", "eventType", "globalTid", "domainId", coalesce("text", \'\')',
    "CUPTI_ACTIVITY_KIND_RUNTIME": '"start", "end", "globalTid", "correlationId", "nameId"',
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        '"start", "end", "deviceId", "streamId", "correlationId", "globalPid", "demangledName",'
        ' "shortName", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"'
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        '"start", "end", "deviceId", "streamId", "correlationId", "globalPid", "bytes", "copyKind"'
    ),
    "CUPTI_ACTIVITY_KIND_MEMSET": (
        '"start", "end", "deviceId", "streamId", "correlationId", "globalPid", "bytes"'
    ),
}
"""Tables and the columns that an import cannot do without."""


def work_of(name: str, profile: Path, database: Path) -> Callable[[], object]:
    """Return the work of a run.

    Args:
        name: ``floor``, ``import``, ``range`` or ``key node``.
        profile: The export.
        database: Its database: what ``import`` writes and the aggregations are added to.
    """
    if name == "floor":
        return partial(_read_once, profile)
    if name == "import":
        options = ImportOptions(profile, database, overwrite=True)
        return partial(pipeline.import_profile, options, NullProgress())
    request = _new_request(database, with_key_node=name == "key node")
    return partial(pipeline.aggregate, database, request, NullProgress())


def _read_once(profile: Path) -> int:
    """Read the columns into Arrow batches and drop them; returns the number of rows."""
    tables = list_tables(profile)
    rows = 0
    with arrow_connection(profile) as connection:
        for table, columns in COLUMNS.items():
            if table in tables:
                query = f"SELECT {columns} FROM {table}"  # noqa: S608 (both are constants above)
                rows += sum(batch.num_rows for batch in connection.batches(query))
    return rows


def _new_request(database: Path, *, with_key_node: bool) -> AggregationRequest:
    """Return a request that was not made before, so that it is really computed."""
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
