"""Whether a lack of GPU memory ended the application, from its export."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from aggregator.sources.collector.step_times import Steps
from aggregator.sources.nsys.schema import API_CALLS, STRINGS

ERROR: Final = "error"
"""Key of what a process wrote: the class of the exception that ended it."""
_OUT_OF_MEMORY: Final = "OutOfMemoryError"
# cudaErrorMemoryAllocation and CUDA_ERROR_OUT_OF_MEMORY have the same number. An allocator that
# frees its cache and succeeds then launches work afterwards.
_FAILED: Final = f"""
SELECT max(c."end") > coalesce((
    SELECT max(l.start) FROM "{API_CALLS}" AS l JOIN "{STRINGS}" AS n ON n.id = l."nameId"
    WHERE n.value LIKE '%Launch%'), 0)
FROM "{API_CALLS}" AS c JOIN "{STRINGS}" AS s ON s.id = c."nameId"
WHERE c."returnValue" = 2 AND (s.value LIKE 'cudaMalloc%' OR s.value LIKE 'cuMem%')
"""  # noqa: S608 - fixed names


ADVICE: Final = (
    "The memory of the GPU was full when the application ended: --memory records what filled it, "
    "and dlprof memory shows that"
)


def has_run_out(steps: Steps) -> bool:
    """Return whether a process says that it ended for want of GPU memory."""
    return any(content.get(ERROR) == _OUT_OF_MEMORY for content in steps)


def memory_was_full(export: Path, steps: Steps) -> bool:
    """Return whether the last thing that the application did on the GPU was to ask for memory."""
    if has_run_out(steps):
        return True
    try:
        with closing(sqlite3.connect(export)) as connection:
            return bool((connection.execute(_FAILED).fetchone() or (0,))[0])
    except sqlite3.Error:  # without calls, or from a version that recorded no results
        return False
