"""Jobs done in the process of the test, without a broker, a worker or the keeper's thread."""

from __future__ import annotations

from typing import Any

from viewer.jobs import dispatch, service
from viewer.jobs.keeper import Keeper, internal_error
from viewer.state.models import Job, JobState


def do_queued_jobs() -> None:
    """Do all queued jobs one after another; nothing else may receive their messages."""
    while True:
        service.dispatch()
        job = Job.objects.filter(state=JobState.QUEUED).exclude(task_id="").first()
        if job is None:
            return
        Keeper().finish(job, _result(job))


def _result(job: Job) -> dict[str, Any]:
    from aggregator.jobs.tasks import do_job

    request = {"request": dispatch.request_of(job)}
    done: Any = do_job.apply(kwargs=request, task_id=job.task_id)
    if done.failed():
        return {"end": "failed", "error": internal_error(type(done.result).__name__)}
    result: dict[str, Any] = done.result
    return result
