"""What can be done with jobs: ask for one, cancel it, try again, find those left by the dead."""

from __future__ import annotations

import logging
import os
import socket
from datetime import timedelta

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from aggregator.options import AggregationRequest
from aggregator.texts import say
from viewer.errors import JobNotFoundError, JobStateError
from viewer.jobs.dispatch import send
from viewer.jobs.models import ACTIVE_STATES, Job, JobState
from viewer.jobs.words import CANCELLED, CANCELLING, stored_error
from viewer.profiles.registry import ServedProfile

#: A worker beats about twice a second; after this long it is taken for dead.
HEARTBEAT_LIMIT = timedelta(seconds=30)
#: A queued job whose message has not led to a start by then is sent again: the broker may have
#: lost it, and a second message does no harm.
RESEND_AFTER = timedelta(seconds=20)
#: How often a job is begun before its worker's death is taken to be the job's own fault.
MAX_ATTEMPTS = 2

_CLEARED: dict[str, object] = {
    "phase": "",
    "progress_pct": 0.0,
    "rows_per_s": None,
    "eta_s": None,
    "message": "",
    "error": None,
    "claim": "",
    "heartbeat_at": None,
    "started_at": None,
    "finished_at": None,
    "cancel_requested": False,
}

logger = logging.getLogger(__name__)


def submit(served: ServedProfile, request: AggregationRequest) -> Job:
    """Queue an aggregation; the same request while one is under way gives that job."""
    wanted = {
        "profile_id": served.id,
        "database": str(served.path),
        "key_node": request.key_node,
        "iter_start": request.iter_start,
        "iter_stop": request.iter_stop,
    }
    with transaction.atomic():
        running = Job.objects.filter(**wanted, state__in=ACTIVE_STATES, cancel_requested=False)
        job = running.order_by("created_at").first()
        if job is not None:
            return job
        job = Job.objects.create(**wanted)
    _send(job)
    return find(job.id)


def find(job_id: str) -> Job:
    """The job of an id.

    Raises:
        JobNotFoundError: There is none.
    """
    job = Job.objects.filter(pk=job_id).first()
    if job is None:
        raise JobNotFoundError(say("There is no job {job_id!r}.", job_id=job_id))
    return job


def cancel(job_id: str) -> Job:
    """Cancel a job: at once if it waits, as soon as its worker notices if it runs.

    Raises:
        JobStateError: It has ended already.
    """
    job = find(job_id)
    now = timezone.now()
    waiting = Job.objects.filter(pk=job_id, state=JobState.QUEUED)
    if waiting.update(state=JobState.CANCELLED, finished_at=now, message=CANCELLED):
        return find(job_id)
    running = Job.objects.filter(pk=job_id, state=JobState.RUNNING)
    if not running.update(cancel_requested=True, message=CANCELLING):
        raise JobStateError(
            say("The job cannot be cancelled: it is {state}.", state=find(job_id).state),
            state=job.state,
        )
    return find(job_id)


def retry(job_id: str) -> Job:
    """Queue a failed or cancelled job again.

    Raises:
        JobStateError: It has not failed or been cancelled.
    """
    find(job_id)
    ended = Job.objects.filter(pk=job_id, state__in=[JobState.FAILED, JobState.CANCELLED])
    if not ended.update(state=JobState.QUEUED, attempts=0, sent_at=None, **_CLEARED):
        state = find(job_id).state
        raise JobStateError(
            say(
                "Only a failed or cancelled job can be tried again; this one is {state}.",
                state=state,
            ),
            state=state,
        )
    _send(find(job_id))
    return find(job_id)


def recover() -> None:
    """Find jobs whose worker died, and queued jobs whose message got lost.

    Called whenever somebody asks for jobs and whenever a worker starts; cheap if there are none.
    """
    for job in Job.objects.filter(state=JobState.RUNNING):
        if _is_lost(job):
            _take_back(job)
    if Job.objects.filter(state=JobState.RUNNING).exists():
        # One worker does one job at a time: those that wait behind it are not lost.
        return
    stale = Q(sent_at=None) | Q(sent_at__lt=timezone.now() - RESEND_AFTER)
    for job in Job.objects.filter(stale, state=JobState.QUEUED):
        _send(job)


def send_all_queued() -> None:
    """Give every waiting job to the broker: after a restart its old messages are gone."""
    for job in Job.objects.filter(state=JobState.QUEUED).order_by("created_at"):
        _send(job)


def _send(job: Job) -> None:
    reason = send(job.id)
    message = f"Waiting for the broker: {reason}" if reason else ""
    Job.objects.filter(pk=job.id, state=JobState.QUEUED).update(
        sent_at=timezone.now(), message=message
    )


def _is_lost(job: Job) -> bool:
    if job.heartbeat_at is None or timezone.now() - job.heartbeat_at > HEARTBEAT_LIMIT:
        return True
    if job.worker_host != socket.gethostname() or job.worker_pid is None:
        return False
    return not _is_alive(job.worker_pid)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _take_back(job: Job) -> None:
    """End a job whose worker died, or queue it once more."""
    # The claim is part of the condition: if the worker lives after all and has just ended the
    # job, or another process was faster, nothing is changed.
    mine = Job.objects.filter(pk=job.id, state=JobState.RUNNING, claim=job.claim)
    worker = say("process {pid} on {host}", pid=job.worker_pid, host=job.worker_host)
    now = timezone.now()
    if job.cancel_requested:
        mine.update(
            state=JobState.CANCELLED, finished_at=now, claim="", message=CANCELLED, eta_s=None
        )
    elif job.attempts < MAX_ATTEMPTS:
        logger.warning("job %s: its worker (%s) died; queued again", job.id, worker)
        if mine.update(state=JobState.QUEUED, sent_at=None, **_CLEARED):
            _send(job)
    else:
        error = {
            "code": "WORKER_LOST",
            "message": say(
                "The worker ({worker}) ended before the job did, {attempts} times.",
                worker=worker,
                attempts=job.attempts,
            ),
            "hint": say("It may have run out of memory. Aggregate fewer iterations, or try again."),
            "details": {},
        }
        mine.update(
            state=JobState.FAILED,
            finished_at=now,
            claim="",
            error=stored_error(error),
            message="",
            eta_s=None,
        )
