"""Submit, find, cancel and retry jobs, and choose the queued job that is sent next."""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Max, Min, Q, Window
from django.db.models.functions import RowNumber
from django.utils import timezone

from aggregator.options import AggregationRequest
from aggregator.texts import say
from viewer.errors import ViewerError
from viewer.jobs.dispatch import BrokerAwayError, cancel_task, send
from viewer.profiles import storage
from viewer.profiles.registry import ServedProfile
from viewer.state.models import (
    ACTIVE_STATES,
    CANCELLED,
    CANCELLING,
    Job,
    JobKind,
    JobState,
    StoredProfile,
    count_workers,
)

#: Number of ended jobs that are kept as history.
KEPT_JOBS = 5_000
_AWAY = "Waiting for the broker: "

#: Columns of a job that has not begun.
UNBEGUN: dict[str, object] = {
    field.name: field.get_default()
    for field in Job._meta.fields
    if field.name
    in {
        *("state", "task_id", "phase", "progress_pct", "rows_per_s", "eta_s", "message", "error"),
        *("heartbeat_at", "sent_at", "started_at", "finished_at", "cancel_requested", "parts"),
    }
}


def submit(served: ServedProfile, request: AggregationRequest, client: str = "") -> Job:
    """Queue an aggregation, or return the active job of the same request."""
    wanted: dict[str, object] = {
        "kind": JobKind.AGGREGATION,
        "profile_id": served.id,
        "database": str(served.path),
        "key_node": request.key_node,
        "iter_start": request.iter_start,
        "iter_stop": request.iter_stop,
        "iteration_phase": request.phase,
        "bare_step_ns": request.bare_step_ns,
    }
    with transaction.atomic():
        running = Job.objects.filter(**wanted, state__in=ACTIVE_STATES, cancel_requested=False)
        job = running.order_by("created_at").first()
        if job is not None:
            return job
        check_queue()
        job = Job.objects.create(client=client, **wanted)
    dispatch()
    return find(job.id)


def submit_import(
    stored: StoredProfile,
    sources: list[str],
    mode: str,
    client: str = "",
    ranks: Sequence[int] = (),
    window: Mapping[str, object] | None = None,
) -> Job:
    """Queue the import of a profile into the database that ``stored`` names.

    Args:
        stored: The profile to create.
        sources: Files to read; several are rank files of one job.
        mode: How ranges are interpreted.
        client: Client that submits the job.
        ranks: Number of the first rank of each source; empty: read from the files.
        window: What is recorded first, instead of sources.

    Raises:
        ViewerError: The queue is full.
    """
    with transaction.atomic():
        check_queue()
        job = Job.objects.create(
            client=client,
            kind=JobKind.IMPORT,
            profile_id=stored.id,
            database=stored.path,
            sources=sources,
            profile_name=stored.name,
            mode=mode,
            ranks=list(ranks),
            window=dict(window or {}),
        )
    dispatch()
    return find(job.id)


def find(job_id: str) -> Job:
    """Return the job with an id, or raise ``JOB_NOT_FOUND``."""
    job = Job.objects.filter(pk=job_id).first()
    if job is None:
        raise ViewerError(say("There is no job {job_id!r}.", job_id=job_id), "JOB_NOT_FOUND")
    return job


def cancel(job_id: str) -> Job:
    """Cancel a job: at once if it is queued, or when its worker notices if it is running.

    Raises:
        ViewerError: It has already ended.
    """
    job = find(job_id)
    now = timezone.now()
    waiting = Job.objects.filter(pk=job_id, state=JobState.QUEUED)
    if waiting.update(state=JobState.CANCELLED, finished_at=now, message=CANCELLED):
        if job.kind == JobKind.IMPORT:
            storage.release(Path(job.database).parent)
        return find(job_id)
    running = Job.objects.filter(pk=job_id, state=JobState.RUNNING)
    if not running.update(cancel_requested=True, message=CANCELLING):
        raise ViewerError(
            say("The job cannot be cancelled: it is {state}.", state=find(job_id).state),
            "JOB_STATE",
            state=job.state,
        )
    return find(job_id)


def retry(job_id: str) -> Job:
    """Queue a failed or cancelled job again.

    Raises:
        ViewerError: It has not failed or been cancelled, its profile has been deleted, or the queue
            is full.
    """
    job = find(job_id)
    if job.kind == JobKind.IMPORT and not StoredProfile.objects.filter(pk=job.profile_id).exists():
        raise ViewerError(
            say("What it was to import has been deleted."), "JOB_STATE", state=job.state
        )
    check_queue()
    with transaction.atomic():  # the keeper may be deleting what the job left
        _begin_again(job)
    if job.task_id:
        # Cancelled a moment ago: a worker may still take its message.
        with suppress(BrokerAwayError):
            cancel_task(job.task_id)
    dispatch()
    return find(job_id)


def _begin_again(job: Job) -> None:
    ended = Job.objects.filter(pk=job.id, state__in=[JobState.FAILED, JobState.CANCELLED])
    if not ended.update(attempts=0, **UNBEGUN):
        state = find(job.id).state
        raise ViewerError(
            say(
                "Only a failed or cancelled job can be tried again; this one is {state}.",
                state=state,
            ),
            "JOB_STATE",
            state=state,
        )
    if job.kind == JobKind.IMPORT:
        storage.reserve(Path(job.database).parent, [Path(source) for source in job.sources])


def dispatch() -> None:
    """Send queued jobs to the workers in their turn, as many as there are workers to begin them."""
    while (job := _take_turn()) is not None:
        sent = Job.objects.filter(pk=job.id, state=JobState.QUEUED, task_id=job.task_id)
        try:
            send(job)
        except BrokerAwayError as error:
            sent.update(task_id="", sent_at=job.sent_at)
            waiting = Job.objects.filter(state=JobState.QUEUED, task_id="")
            waiting.update(message=f"{_AWAY}{error}")
            return
        sent.filter(message__startswith=_AWAY).update(message="")


def _take_turn() -> Job | None:
    """Give the job that is due the id of its next task; None if no job is due."""
    # Of an idle viewer, several times a second: without locking the database.
    if not Job.objects.filter(state=JobState.QUEUED, task_id="").exists():
        return None
    active = Job.objects.filter(state__in=ACTIVE_STATES).exclude(task_id="")
    with transaction.atomic():
        running = active.filter(state=JobState.RUNNING).count()
        sent = active.filter(state=JobState.QUEUED).count()
        # One job waits in the broker, so that a worker that becomes free need not wait for it.
        if sent >= max(1, count_workers() - running):
            return None
        # The worker of a viewer without Redis runs one job at a time anyway.
        job = next_due(is_one_per_database=bool(os.environ.get("DLPROF_BROKER_URL")))
        if job is not None:
            job.task_id = uuid.uuid4().hex
            Job.objects.filter(pk=job.id).update(task_id=job.task_id, sent_at=timezone.now())
    return job


def prune() -> int:
    """Delete the oldest ended jobs; return how many were deleted."""
    ended = Job.objects.exclude(state__in=ACTIVE_STATES).order_by("-created_at")
    oldest = ended.values_list("created_at", flat=True)[KEPT_JOBS : KEPT_JOBS + 1]
    for moment in oldest:
        return ended.filter(created_at__lte=moment).delete()[0]
    return 0


def check_queue() -> None:
    """Refuse another job if the queue is full."""
    limit: int = settings.ENVIRONMENT.max_queued_jobs
    if Job.objects.filter(state=JobState.QUEUED).count() >= limit:
        raise ViewerError(
            say("{limit:,} jobs wait already, and no more may.", limit=limit),
            "TOO_MANY_JOBS",
            hint=say("Try again when some have ended, or cancel jobs that are not needed."),
            limit=limit,
        )


_NEVER = datetime.min.replace(tzinfo=UTC)
_NO_TURN = (0, _NEVER)
"""Number of active jobs, and when the last one was sent."""


def next_due(*, is_one_per_database: bool) -> Job | None:
    """Return the queued job to send to the workers next.

    It is a job of the client with the fewest active jobs, then of the client who has waited longest
    since its last job was sent; then the same among that client's profiles; then the oldest job. So
    a user who queues a thousand jobs delays another's first by one job, not by a thousand.

    Args:
        is_one_per_database: Leave out jobs of a database that has an active job.
    """
    queued = Job.objects.filter(state=JobState.QUEUED, task_id="")
    if is_one_per_database:
        active = Job.objects.filter(state__in=ACTIVE_STATES).exclude(task_id="")
        queued = queued.exclude(database__in=active.values("database"))
    pairs = queued.values_list("client", "profile_id")
    waiting = list(pairs.annotate(oldest=Min("created_at")))
    if not waiting:
        return None
    sent = Job.objects.filter(client__in={client for client, *_ in waiting}, sent_at__isnull=False)
    is_active = Count("id", filter=Q(state__in=ACTIVE_STATES))
    turns: dict[tuple[str, ...], tuple[int, datetime]] = {}
    for *pair, count, last in sent.values_list("client", "profile_id").annotate(
        active=is_active, last=Max("sent_at")
    ):
        turns[tuple(pair)] = (count, last)
        before = turns.get((pair[0],), _NO_TURN)
        turns[pair[0],] = (before[0] + count, max(before[1], last))

    def turn(row: tuple[str, str, datetime]) -> tuple[object, ...]:
        return turns.get(row[:1], _NO_TURN), turns.get(row[:2], _NO_TURN), row[2]

    client, profile, _ = min(waiting, key=turn)
    found = queued.filter(client=client, profile_id=profile)
    return found.order_by("created_at", "id").first()


def jobs_before(job: Job) -> int:
    """Return how many queued jobs would begin before this one if no others were added.

    Clients take turns, and each of them among its profiles; jobs that end meanwhile change little.
    """
    queued = Job.objects.filter(state=JobState.QUEUED)
    order = list(queued.exclude(task_id="").order_by("sent_at").values_list("id", flat=True))
    turn = Window(RowNumber(), partition_by=["client", "profile_id"], order_by=["created_at", "id"])
    waiting = queued.filter(task_id="").annotate(turn=turn).order_by("turn", "created_at", "id")
    active = Job.objects.filter(state__in=ACTIVE_STATES).exclude(task_id="")
    turns = Counter(active.values_list("client", flat=True))
    places: list[tuple[int, int, str]] = []
    for job_id, client in waiting.values_list("id", "client"):
        turns[client] += 1
        places.append((turns[client], len(places), job_id))
    order += [job_id for *_, job_id in sorted(places)]
    return order.index(job.id) if job.id in order else 0
