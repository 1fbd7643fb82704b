"""Windows in which dlprof's own capture recorded the run, from its export."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from aggregator.errors import CorruptProfileError
from aggregator.profile.recorded_part import RecordedPart
from aggregator.sources.nsys import schema as names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aggregator.sources.nsys.schema import Schema

RUN_NOTE: Final = "runNs"
"""Name of the note with the length of the run. Unit: ns."""
LOOP_COLUMNS: Final = ("pid", "name", "steps", "recordedSteps", "timeNs", "recordedNs")
_COLUMNS: Final = {"pid", "start_ns", "end_ns", "ended_by"}
_MAX_ROWS: Final = 100_000
_MAX_NS: Final = 1 << 62


def read_windows(schema: Schema, offset_ns: int, process_ids: Sequence[int]) -> RecordedPart:
    """Read the windows, the steps of all loops and the length of the run.

    Args:
        schema: The export.
        offset_ns: What was subtracted from all its times.
        process_ids: Process ids of the profile; windows of other processes are empty.
    """
    if not schema.columns(names.WINDOWS) >= _COLUMNS:
        return RecordedPart()
    try:
        rows, steps, recorded, run_ns = _rows(schema), *_steps(schema), _run_ns(schema)
    except CorruptProfileError:
        # The profile is complete without them.
        return RecordedPart()
    codes = {pid: code for code, pid in enumerate(process_ids)}
    found = [(codes[pid], start, end, by) for pid, start, end, by in rows if pid in codes]
    columns = list(zip(*found, strict=True)) or [(), (), (), ()]
    process, start, end = (np.array(column, dtype=np.int64) for column in columns[:3])
    return RecordedPart(
        process=process,
        start_ns=np.maximum(start - offset_ns, 0),
        end_ns=np.maximum(end - offset_ns, 0),
        ended_by=tuple(map(str, columns[3])),
        run_ns=run_ns,
        steps=steps,
        recorded_steps=recorded,
    )


def _rows(schema: Schema) -> list[tuple[int, int, int, str]]:
    query = (
        f"SELECT pid, start_ns, end_ns, ended_by FROM {schema.table(names.WINDOWS)}"
        " WHERE typeof(pid) = 'integer' AND typeof(start_ns) = 'integer'"
        " AND typeof(end_ns) = 'integer' AND typeof(ended_by) = 'text'"
        f" AND start_ns BETWEEN 0 AND end_ns AND end_ns <= {_MAX_NS}"
        f" ORDER BY start_ns, end_ns LIMIT {_MAX_ROWS}"
    )
    with schema.connect() as connection:
        return [
            (int(row[0]), int(row[1]), int(row[2]), row[3]) for row in connection.execute(query)
        ]


def _steps(schema: Schema) -> tuple[int | None, int | None]:
    """Steps of the process that ran most of them, and how many were recorded; None: unknown.

    The ranks of a job run the same steps.
    """
    if not schema.columns(names.LOOPS) >= set(LOOP_COLUMNS):
        return None, None
    query = (
        'SELECT sum(steps), sum("recordedSteps") FROM '
        + schema.table(names.LOOPS)
        + " WHERE typeof(steps) = 'integer' AND typeof(\"recordedSteps\") = 'integer'"
        " GROUP BY pid ORDER BY 1 DESC LIMIT 1"
    )
    with schema.connect() as connection:
        row = connection.execute(query).fetchone()
    return (int(row[0]), int(row[1])) if row and row[0] else (None, None)


def _run_ns(schema: Schema) -> int | None:
    if not {"name", "value"} <= schema.columns(names.CAPTURE_NOTES):
        return None
    with schema.connect() as connection:
        query = f"SELECT value FROM {schema.table(names.CAPTURE_NOTES)} WHERE name = ?"
        row = connection.execute(query, (RUN_NOTE,)).fetchone()
    text = str(row[0]) if row else ""
    return int(text) if text.isdecimal() and len(text) < 18 else None
