"""What can be done with jobs: ask for one, cancel it, try again, find those left by the dead."""

from __future__ import annotations

import logging
import os
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from aggregator.errors import JSONValue
from aggregator.options import AggregationRequest
from aggregator.texts import say
from viewer.errors import JobNotFoundError, JobStateError, TooManyJobsError
from viewer.jobs.dispatch import count_waiting, load, send
from viewer.jobs.models import ACTIVE_STATES, Job, JobKind, JobState, StoredProfile
from viewer.jobs.words import CANCELLED, CANCELLING, stored_error
from viewer.profiles.registry import ServedProfile

#: A worker beats about three times a second; after this long it is taken for dead.
HEARTBEAT_LIMIT = timedelta(seconds=30)
#: How often a job is begun before its worker's death is taken to be the job's own fault.
MAX_ATTEMPTS = 2
#: Ended jobs beyond these are history that nobody asks for.
KEPT_JOBS = 5_000
_AWAY = "Waiting for the broker: "

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
    "parts": "",
}

logger = logging.getLogger(__name__)


def submit(served: ServedProfile, request: AggregationRequest, client: str = "") -> Job:
    """Queue an aggregation; the same request while one is under way gives that job.

    Raises:
        TooManyJobsError: As many jobs wait as may.
    """
    wanted: dict[str, object] = {
        "kind": JobKind.AGGREGATION,
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
        job = _create(client, wanted)
    _send(job)
    return find(job.id)


def submit_import(
    stored: StoredProfile,
    sources: list[str],
    mode: str,
    client: str = "",
    ranks: tuple[int, ...] = (),
) -> Job:
    """Queue the import of a profile into the database that ``stored`` names.

    Args:
        stored: What is to be made.
        sources: Files to read; several are ranks of one job.
        mode: How ranges are read.
        client: Who asks.
        ranks: Number of the first rank of each source; empty: the files tell.

    Raises:
        TooManyJobsError: As many jobs wait as may.
    """
    values: dict[str, object] = {
        "kind": JobKind.IMPORT,
        "profile_id": stored.id,
        "database": stored.path,
        "sources": sources,
        "profile_name": stored.name,
        "mode": mode,
        "ranks": list(ranks),
    }
    with transaction.atomic():
        job = _create(client, values)
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
        JobStateError: It has not failed or been cancelled, or its profile is gone.
        TooManyJobsError: As many jobs wait as may.
    """
    job = find(job_id)
    if job.kind == JobKind.IMPORT and not StoredProfile.objects.filter(pk=job.profile_id).exists():
        raise JobStateError(say("What it was to import has been deleted."), state=job.state)
    check_queue()
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


def recover(scope: str) -> None:
    """Take back the jobs of workers that died; cheap if none runs.

    Args:
        scope: Where process ids mean something to the caller.
    """
    for job in Job.objects.filter(state=JobState.RUNNING):
        if _is_lost(job, scope):
            _take_back(job)


def top_up() -> str:
    """Have as many messages wait as jobs do: a broker that was away may have lost some.

    A worker that takes one message too many finds no job, which does no harm.

    Returns:
        Why the broker cannot be reached; empty if it can.
    """
    queued = Job.objects.filter(state=JobState.QUEUED)
    count = queued.count()
    if not count:
        return ""
    # Not at the module's top: the server starts without Celery.
    load()
    from aggregator.remote_jobs import BrokerAwayError  # noqa: PLC0415

    try:
        missing = count - count_waiting()
    except BrokerAwayError as error:
        reason = str(error)
        queued.exclude(message__startswith=_AWAY).update(message=_AWAY + reason)
        return reason
    for job_id in queued.order_by("created_at").values_list("id", flat=True)[: max(0, missing)]:
        if reason := send(job_id):
            return reason
    queued.filter(message__startswith=_AWAY).update(message="")
    return ""


def prune() -> int:
    """Forget the oldest of the ended jobs; how many were."""
    ended = Job.objects.exclude(state__in=ACTIVE_STATES).order_by("-created_at")
    oldest = ended.values_list("created_at", flat=True)[KEPT_JOBS : KEPT_JOBS + 1]
    for moment in oldest:
        return ended.filter(created_at__lte=moment).delete()[0]
    return 0


def _create(client: str, values: dict[str, object]) -> Job:
    check_queue()
    return Job.objects.create(client=client, **values)


def check_queue() -> None:
    """Refuse a further job.

    Raises:
        TooManyJobsError: As many jobs wait as may.
    """
    limit: int = settings.ENVIRONMENT.max_queued_jobs
    if Job.objects.filter(state=JobState.QUEUED).count() >= limit:
        raise TooManyJobsError(
            say("{limit:,} jobs wait already, and no more may.", limit=limit),
            hint=say("Try again when some are done, or cancel those that nobody needs."),
            limit=limit,
        )


def _send(job: Job) -> None:
    reason = send(job.id)
    Job.objects.filter(pk=job.id, state=JobState.QUEUED).update(
        sent_at=timezone.now(), message=_AWAY + reason if reason else ""
    )


def _is_lost(job: Job, scope: str) -> bool:
    if job.heartbeat_at is None or timezone.now() - job.heartbeat_at > HEARTBEAT_LIMIT:
        return True
    if not job.worker_scope or job.worker_scope != scope or job.worker_pid is None:
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
        error: dict[str, JSONValue] = {
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
