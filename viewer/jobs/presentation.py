"""A job as the API shows it, with its messages in the language of the reply."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from aggregator.tables.declared.profile import profile_id
from aggregator.texts import from_templates, say
from viewer.state.models import Job, JobState

CANCELLED = say("Cancelled.")
CANCELLING = say("Cancelling.")
#: Messages of a finished job, by the note of its result.
NOTES = {
    "": "",
    "reused": say("This aggregation was there already."),
    "imported": say("This profile was there already."),
}
_MESSAGES: dict[str, str] = {text: text for text in (CANCELLED, CANCELLING, *NOTES.values())}

#: Columns that lists of jobs can be sorted and filtered by.
SUMMARY = (
    *("id", "kind", "profile_id", "state", "aggregation_id", "progress_pct"),
    *("created_at", "started_at", "finished_at"),
)
#: Further columns that are shown as they are.
_FURTHER = ("profile_name", "phase", "rows_per_s", "eta_s")

_FILE_STATES = {"w": "waiting", "i": "importing", "d": "done", "f": "failed"}


def summary(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return those columns as the API shows them."""
    times = {name: _time(row[name]) for name in ("created_at", "started_at", "finished_at")}
    return {**row, **times}


def present(job: Job, jobs_before: int | None = None) -> dict[str, Any]:
    """Return all that the API shows of a job.

    Args:
        job: The job.
        jobs_before: Number of jobs that begin before it; None: unknown, or it has begun.
    """
    return {
        **summary({name: getattr(job, name) for name in (*SUMMARY, *_FURTHER)}),
        "message": _MESSAGES.get(job.message, job.message),
        "error": job.error and from_templates(job.error),
        "result_profile_id": profile_id(Path(job.result)) if job.result else None,
        "is_cancel_requested": job.cancel_requested,
        "request": {
            **{name: getattr(job, name) for name in ("key_node", "iter_start", "iter_stop")},
            "phase": job.iteration_phase,
            "bare_step_ns": job.bare_step_ns or None,
        },
        "jobs_before": jobs_before,
        "files": _files(job),
    }


def _files(job: Job) -> list[dict[str, Any]]:
    if len(job.sources) < 2:
        return []
    paths = [Path(source) for source in job.sources]
    names = [path.name for path in paths]
    if len(set(names)) < len(names):
        # ``rank0/dlprof_dldb.sqlite``: only the folder differs.
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
