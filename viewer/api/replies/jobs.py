"""Jobs as the API shows them, with their messages in the language of the reply."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Struct

from aggregator.system.replies import doc
from aggregator.tables.declared.profile import profile_id
from aggregator.texts import from_templates
from viewer.api.replies.shared import Error
from viewer.state import models

_MESSAGES: dict[str, str] = {
    text: text for text in (models.CANCELLED, models.CANCELLING, *models.NOTES.values())
}
#: Columns that lists of jobs can be sorted and filtered by.
SUMMARY = (
    *("id", "kind", "profile_id", "state", "aggregation_id", "progress_pct"),
    *("created_at", "started_at", "finished_at"),
)
_FILE_STATES: dict[str, Literal["waiting", "importing", "done", "failed"]] = {
    "w": "waiting",
    "i": "importing",
    "d": "done",
    "f": "failed",
}


class AggregationRequest(Struct, kw_only=True):
    """What a job was asked to aggregate."""

    key_node: Annotated[str, doc("Op ID, op name or range name; empty: chosen from the profile.")]
    iter_start: Annotated[int | None, doc("First iteration, inclusive.")]
    iter_stop: Annotated[int | None, doc("Last iteration, inclusive.")]
    phase: Annotated[str, doc("Only iterations of this phase; empty: all.")]
    bare_step_ns: Annotated[int | None, doc("Step without profiling that the user gave.")]


class RankFile(Struct, kw_only=True):
    """A rank file of an import that joins several."""

    file_name: str
    rank: Annotated[int | None, doc("Number that the request gave it; null: taken from the file.")]
    state: Literal["waiting", "importing", "done", "failed"]


class Job(Struct, kw_only=True):
    """An aggregation or an import that runs in the background."""

    id: str
    kind: Literal["aggregation", "import"]
    profile_id: Annotated[str, doc("Profile that it works on; for an import: that it makes.")]
    profile_name: Annotated[str, doc("Of an import, the name of the profile; may be empty.")]
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    phase: Annotated[str, doc("Phase of the work; empty before it begins.")]
    progress_pct: float
    rows_per_s: float | None
    eta_s: Annotated[float | None, doc("Estimated time left, in seconds.")]
    message: str
    error: Error | None
    aggregation_id: Annotated[int | None, doc("The aggregation that it made.")]
    result_profile_id: Annotated[
        str | None,
        doc("Profile that holds the result: another one if a database of NVIDIA's was converted."),
    ]
    is_cancel_requested: bool
    request: AggregationRequest
    jobs_before: Annotated[
        int | None,
        doc("Number of jobs that begin before it while it waits; only at the job's own address."),
    ]
    files: list[RankFile]
    created_at: str
    started_at: str | None
    finished_at: str | None


def summary(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of ``SUMMARY`` as the API shows them."""
    times = {name: _time(row[name]) for name in ("created_at", "started_at", "finished_at")}
    return {**row, **times}


def present(job: models.Job, jobs_before: int | None = None) -> Job:
    """Return all that the API shows of a job.

    Args:
        job: The job.
        jobs_before: Number of jobs that begin before it; None: unknown, or it has begun.
    """
    return Job(
        **summary({name: getattr(job, name) for name in SUMMARY}),
        profile_name=job.profile_name,
        phase=job.phase,
        rows_per_s=job.rows_per_s,
        eta_s=job.eta_s,
        message=_MESSAGES.get(job.message, job.message),
        error=Error(**from_templates(job.error)) if job.error else None,
        result_profile_id=profile_id(Path(job.result)) if job.result else None,
        is_cancel_requested=job.cancel_requested,
        request=AggregationRequest(
            key_node=job.key_node,
            iter_start=job.iter_start,
            iter_stop=job.iter_stop,
            phase=job.iteration_phase,
            bare_step_ns=job.bare_step_ns or None,
        ),
        jobs_before=jobs_before,
        files=_files(job),
    )


def _files(job: models.Job) -> list[RankFile]:
    if len(job.sources) < 2:
        return []
    paths = [Path(source) for source in job.sources]
    names = [path.name for path in paths]
    if len(set(names)) < len(names):
        # ``rank0/dlprof_dldb.sqlite``: only the folder differs.
        names = [f"{path.parent.name}/{path.name}" for path in paths]
    is_done = job.state == models.JobState.DONE
    letters = "d" * len(names) if is_done else job.parts.ljust(len(names), "w")
    return [
        RankFile(
            file_name=name,
            rank=job.ranks[number] if number < len(job.ranks) else None,
            state=_FILE_STATES.get(letters[number], "waiting"),
        )
        for number, name in enumerate(names)
    ]


def _time(moment: datetime | None) -> str | None:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z") if moment else None
