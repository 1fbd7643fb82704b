"""Copies of NVIDIA's databases in the form of this program, for what needs single events.

A database of NVIDIA's is never changed, and its folder may be read-only: the copy lies in the
state folder. It is made at first use, as a conversion is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from aggregator.jobs.part_process import run_apart
from aggregator.tables.connection import ABANDONED, Queryable
from aggregator.tables.counts import file_state

_MOST_FILES = 8
_SUFFIX = ".events.sqlite"


def event_copy(database: Path, folder: Path, limit_s: float) -> Path:
    """The copy of a database of NVIDIA's, whose tables may be views of any SQL.

    Args:
        database: The original.
        folder: Where copies are kept.
        limit_s: How long making it may take.

    Raises:
        DlprofError: The original cannot be read, or the folder cannot be written.
    """
    state = repr((str(database), file_state(database)))
    target = folder / (hashlib.sha256(state.encode()).hexdigest()[:32] + _SUFFIX)
    if not target.exists():
        request = {"source": str(database), "target": str(target)}
        run_apart("convert", request, limit_s, ABANDONED.get())
        kept = sorted(folder.glob(f"*{_SUFFIX}"), key=lambda file: file.stat().st_mtime_ns)
        for old in kept[:-_MOST_FILES]:
            with suppress(OSError):
                old.unlink()
    return target


def same_aggregation(
    original: Queryable, copy: Queryable, params: Mapping[str, str | int]
) -> dict[str, str | int]:
    """Parameters that name an aggregation of the original in its copy.

    The copy has the same aggregations in the same order.
    """
    sql = "SELECT aggr_id FROM view_aggregations ORDER BY aggr_id"
    theirs, ours = ([int(row[0]) for row in file.rows(sql)] for file in (original, copy))
    place = theirs.index(int(params["aggr_id"]))
    return {**params, "aggr_id": ours[min(place, len(ours) - 1)]}
