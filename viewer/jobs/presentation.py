"""A job as the API shows it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from viewer.jobs.models import Job, JobState
from viewer.jobs.words import presented_error, presented_message
from viewer.profiles.registry import profile_id

#: Columns that lists of jobs can be sorted and filtered by.
SUMMARY = (
    *("id", "kind", "profile_id", "state", "aggregation_id", "progress_pct"),
    *("created_at", "started_at", "finished_at"),
)

_FILE_STATES = {"w": "waiting", "i": "importing", "d": "done", "f": "failed"}


def summary(row: Mapping[str, Any]) -> dict[str, Any]:
    """Those columns as a client sees them."""
    times = {name: _time(row[name]) for name in ("created_at", "started_at", "finished_at")}
    return {**row, **times}


def present(job: Job, jobs_before: int | None = None) -> dict[str, Any]:
    """All that a client may know of a job.

    Args:
        job: The job.
        jobs_before: How many begin before it, if it waits and that was looked up.
    """
    return {
        "id": job.id,
        "kind": str(job.kind),
        "profile_id": job.profile_id,
        "profile_name": job.profile_name,
        "state": str(job.state),
        "phase": job.phase,
        "progress_pct": job.progress_pct,
        "rows_per_s": job.rows_per_s,
        "eta_s": job.eta_s,
        "message": presented_message(job.message),
        "error": presented_error(job.error),
        "aggregation_id": job.aggregation_id,
        "result_profile_id": profile_id(Path(job.result)) if job.result else None,
        "is_cancel_requested": job.cancel_requested,
        "request": {
            "key_node": job.key_node,
            "iter_start": job.iter_start,
            "iter_stop": job.iter_stop,
        },
        "jobs_before": jobs_before,
        "files": _files(job),
        "created_at": _time(job.created_at),
        "started_at": _time(job.started_at),
        "finished_at": _time(job.finished_at),
    }


def _files(job: Job) -> list[dict[str, Any]]:
    """The rank files of an import of several, and how far each is."""
    if len(job.sources) < 2:
        return []
    paths = [Path(source) for source in job.sources]
    names = [path.name for path in paths]
    if len(set(names)) < len(names):
        # ``rank0/dlprof_dldb.sqlite``: the folder tells them apart.
        names = [f"{path.parent.name}/{path.name}" for path in paths]
    letters = "d" * len(names) if job.state == JobState.DONE else job.parts.ljust(len(names), "w")
    return [
        {
            "file_name": name,
            "rank": job.ranks[number] if number < len(job.ranks) else None,
            "state": _FILE_STATES.get(letters[number], "waiting"),
        }
        for number, name in enumerate(names)
    ]


def _time(moment: datetime | None) -> str | None:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z") if moment else None
