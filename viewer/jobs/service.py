"""What clients do with jobs: submit, find, cancel, retry; and which queued job is sent next."""

from __future__ import annotations

import os
import time
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Max, Min, Q
from django.utils import timezone

from aggregator.options import AggregationRequest
from aggregator.texts import say
from viewer.errors import ViewerError
from viewer.jobs.dispatch import BrokerAwayError, cancel_task, send
from viewer.jobs.presentation import CANCELLED, CANCELLING
from viewer.profiles import storage
from viewer.profiles.registry import ServedProfile
from viewer.state.models import ACTIVE_STATES, Job, JobKind, JobState, StoredProfile, count_workers

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
) -> Job:
    """Queue the import of a profile into the database that ``stored`` names.

    Args:
        stored: The profile to create.
        sources: Files to read; several are rank files of one job.
        mode: How ranges are interpreted.
        client: Client that submits the job.
        ranks: Number of the first rank of each source; empty: read from the files.

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
        )
    dispatch()
    return find(job.id)


def find(job_id: str) -> Job:
    """Return the job with an id, or raise ``JOB_NOT_FOUND``."""
    job = Job.objects.filter(pk=job_id).first()
    if job is None:
        raise ViewerError(say("There is no job {job_id!r}.", job_id=job_id), "JOB_NOT_FOUND", 404)
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
            409,
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
            say("What it was to import has been deleted."), "JOB_STATE", 409, state=job.state
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
            409,
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
            429,
            hint=say("Try again when some have ended, or cancel jobs that are not needed."),
            limit=limit,
        )


Pair: TypeAlias = tuple[str, str]
"""A client and a profile."""
Turn: TypeAlias = tuple[int, datetime]
"""Number of active jobs, and when the last one was sent."""

_NEVER = datetime.min.replace(tzinfo=UTC)
_NO_TURN = (0, _NEVER)
_KEPT_S = 1.0
_simulation: list[tuple[float, dict[str, int]]] = [(0.0, {})]


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
    rows = queued.values_list("client", "profile_id").annotate(oldest=Min("created_at"))
    waiting = {(client, profile): oldest for client, profile, oldest in rows}
    if not waiting:
        return None
    served = _served({client for client, _ in waiting})
    client, profile = _first(waiting, served, _by_client(served))
    found = queued.filter(client=client, profile_id=profile)
    return found.order_by("created_at", "id").first()


def jobs_before(job: Job) -> int:
    """Return how many of the queued jobs would begin before this one if no others were added.

    The turns are simulated without the ends of running jobs. The result is kept for a second.
    """
    made_at, order = _simulation[0]
    if job.id not in order or time.monotonic() - made_at > _KEPT_S:
        order = {job_id: turn for turn, job_id in enumerate(_simulated())}
        _simulation[0] = (time.monotonic(), order)
    return order.get(job.id, 0)


def _simulated() -> Iterator[str]:
    """Yield the queued jobs in the order in which they will begin."""
    waiting: dict[Pair, deque[tuple[datetime, str]]] = {}
    queued = Job.objects.filter(state=JobState.QUEUED).order_by("created_at", "id")
    yield from queued.exclude(task_id="").order_by("sent_at").values_list("id", flat=True)
    queued = queued.filter(task_id="")
    for client, profile, created, job_id in queued.values_list(
        "client", "profile_id", "created_at", "id"
    ):
        waiting.setdefault((client, profile), deque()).append((created, job_id))
    served = _served({client for client, _ in waiting})
    by_client = _by_client(served)
    moment = timezone.now()
    while waiting:
        pair = _first({key: jobs[0] for key, jobs in waiting.items()}, served, by_client)
        yield waiting[pair].popleft()[1]
        if not waiting[pair]:
            del waiting[pair]
        moment += timedelta(microseconds=1)
        by_client[pair[0]] = (by_client.get(pair[0], _NO_TURN)[0], moment)
        served[pair] = (served.get(pair, _NO_TURN)[0], moment)


def _first(
    oldest: Mapping[Pair, Any], served: Mapping[Pair, Turn], by_client: Mapping[str, Turn]
) -> Pair:
    """Return the client and profile that are due; ``oldest`` has the oldest job of each."""
    return min(
        oldest,
        key=lambda pair: (
            by_client.get(pair[0], _NO_TURN),
            served.get(pair, _NO_TURN),
            oldest[pair],
        ),
    )


def _by_client(served: Mapping[Pair, Turn]) -> dict[str, Turn]:
    """Return the turns of each client, all profiles together."""
    found: dict[str, Turn] = {}
    for (client, _), (running, last) in served.items():
        before = found.get(client, _NO_TURN)
        found[client] = (before[0] + running, max(before[1], last))
    return found


def _served(clients: set[str]) -> dict[Pair, Turn]:
    rows = (
        Job.objects.filter(client__in=clients, sent_at__isnull=False)
        .values_list("client", "profile_id")
        .annotate(active=Count("id", filter=Q(state__in=ACTIVE_STATES)), last=Max("sent_at"))
    )
    return {(client, profile): (active, last) for client, profile, active, last in rows}
