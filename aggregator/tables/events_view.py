"""The view of all events of a timeline: of the connection, so that older files have it as well."""

from __future__ import annotations

from typing import Final

from aggregator.tables.connection import ProfileDatabase
from aggregator.tables.declared.timeline import EVENTS_VIEW

# Names are looked up by sub-queries: counting and filtering by time does not need them.
_OP: Final = (
    "(SELECT op_id FROM ops WHERE id = {op}) AS op_id,"
    " (SELECT op_name FROM ops WHERE id = {op}) AS op_name"
)
_GPU: Final = (
    "e.start AS start_ns, e.duration AS duration_ns,"
    " (SELECT device_id FROM devices WHERE id = e.device) AS device_id,"
    " CAST(nullif(e.stream_id, -1) AS INTEGER) AS stream_id,"
    " (SELECT pid FROM processes WHERE id = e.process) AS process_id,"
    " CAST(NULL AS INTEGER) AS thread_id, e.id AS event_row"
)
_CPU: Final = (
    "CAST(NULL AS INTEGER) AS device_id, CAST(NULL AS INTEGER) AS stream_id,"
    " (SELECT p.pid FROM threads AS t JOIN processes AS p ON p.id = t.process"
    " WHERE t.id = e.thread) AS process_id,"
    " (SELECT tid FROM threads WHERE id = e.thread) AS thread_id, e.id AS event_row"
)
_OF_KERNEL: Final = _OP.format(op="(SELECT op FROM op_kernels WHERE id = e.op_kernel)")
_OF_ROW: Final = _OP.format(op="e.op")
_COPY_NAME: Final = (
    "CAST(CASE WHEN e.is_copy = 0 THEN 'Memset' WHEN e.copy_kind = 1 THEN 'Memcpy HtoD'"
    " WHEN e.copy_kind = 2 THEN 'Memcpy DtoH' WHEN e.copy_kind = 8 THEN 'Memcpy DtoD'"
    " WHEN e.copy_kind = 10 THEN 'Memcpy PtoP' ELSE 'Memcpy' END AS TEXT)"
)
# Of the type of the kernels' column: where the parts of a view differ in types, SQLite computes all
# columns of each row, also those that a query does not ask for.
_NO_NAME: Final = "CAST(NULL AS TEXT)"
_SQL: Final = f"""
    CREATE TEMP VIEW {EVENTS_VIEW} AS
    SELECT 'kernel' AS event_kind, (SELECT readable_name FROM kernel_names WHERE id = e.name)
           AS event_name, {_OF_KERNEL}, {_GPU},
           (SELECT long_name FROM kernel_names WHERE id = e.name) AS kernel_long_name
    FROM kernels AS e
    UNION ALL
    SELECT iif(e.is_copy, 'copy', 'set'), {_COPY_NAME}, {_OF_ROW}, {_GPU}, {_NO_NAME}
    FROM memory_ops AS e
    UNION ALL
    SELECT 'graph', CAST('CUDA graph' AS TEXT), {_OF_ROW}, {_GPU}, {_NO_NAME}
    FROM graph_launches AS e
    UNION ALL
    SELECT 'op', o.op_name, o.op_id, o.op_name, e.start, CAST(e.stop - e.start AS INTEGER), {_CPU},
           {_NO_NAME}
    FROM op_instances AS e JOIN ops AS o ON o.id = e.op WHERE o.domain = 1
    UNION ALL
    SELECT 'call', (SELECT name FROM api_names WHERE id = e.name), {_OF_ROW}, e.start, e.duration,
           {_CPU}, {_NO_NAME} FROM api_calls AS e
"""  # noqa: S608


def provide_events(database: ProfileDatabase) -> None:
    """Make the view, if the database is of this program.

    Raises:
        DatabaseError: The database is damaged.
    """
    if not database.is_ours or database.has(EVENTS_VIEW):
        return
    database.add_temporary((_SQL,), (EVENTS_VIEW,))
