"""The job rows as workers change them: what the engine's task calls without knowing Django.

A worker on the viewer's own machine calls it directly; for those elsewhere the keeper
(``viewer.jobs.keeper``) does, as their messages come in.
"""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from pathlib import Path

import django
from django.apps import apps
from django.db import DatabaseError, connection
from django.db.models import QuerySet
from django.utils import timezone

from aggregator.errors import JSONValue
from aggregator.jobs import ClaimedJob, Outcome, Snapshot, Worker
from aggregator.options import AggregationRequest
from aggregator.remote_jobs import this_worker

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "viewer.settings")
if not apps.ready:
    django.setup()

from viewer.jobs import presence
from viewer.jobs.models import Job, JobKind, JobState
from viewer.jobs.service import recover, top_up
from viewer.jobs.turns import next_due
from viewer.jobs.words import CANCELLED, stored_error
from viewer.profiles.storage import publish
from viewer.state import prepare_state

_CLAIM_ATTEMPTS = 10


class DatabaseRecorder:
    """Writes into the job rows, each time on condition that the job is still this worker's."""

    def __init__(self) -> None:
        prepare_state()

    def worker_started(self) -> None:
        """Take back what dead workers left, and have everything that waits sent anew."""
        recover(this_worker().scope)
        top_up()
        connection.close()

    def worker_alive(self) -> None:
        """Note that this process is there."""
        with suppress(DatabaseError):
            presence.note(this_worker())
        connection.close()

    def worker_ended(self) -> None:
        """Note that it ends."""
        with suppress(DatabaseError):
            presence.forget(this_worker())
        connection.close()

    def claim(self, token: str) -> ClaimedJob | None:
        """Turn the job whose turn it is into this process's running one."""
        return self.claim_for(this_worker(), uuid.uuid4().hex)

    def claim_for(self, worker: Worker, claim: str) -> ClaimedJob | None:
        """Turn the job whose turn it is into a worker's running one."""
        for _ in range(_CLAIM_ATTEMPTS):
            job = next_due()
            if job is None:
                return None
            if _take(job, worker, claim):
                return _claimed(job, claim)
        return None

    def beat(self, job: ClaimedJob, snapshot: Snapshot) -> bool:
        """Write the progress; False if the job was cancelled or given to somebody else."""
        held = _held(job)
        values: dict[str, object] = {
            "phase": snapshot.phase,
            "progress_pct": snapshot.progress_pct,
            "rows_per_s": snapshot.rows_per_s,
            "eta_s": snapshot.eta_s,
            "heartbeat_at": timezone.now(),
        }
        if snapshot.parts:
            values["parts"] = snapshot.parts
        try:
            wanted = held.filter(cancel_requested=False)
            if wanted.update(**values, message=snapshot.message):
                return True
            # Cancelled: the message says so already.
            held.update(**values)
            return False
        finally:
            # The beat has a thread, and so a connection, of its own.
            connection.close()

    def finish(self, job: ClaimedJob, outcome: Outcome) -> None:
        """The job is done; what it imported is served from now on."""
        if job.is_import and _held(job).exists():
            publish(outcome.database)
        self._end(
            job,
            state=JobState.DONE,
            aggregation_id=outcome.aggregation_id,
            result=str(outcome.database),
            progress_pct=100.0,
            message=outcome.message,
        )

    def fail(self, job: ClaimedJob, error: dict[str, JSONValue]) -> None:
        """The job has failed, and why."""
        self._end(job, state=JobState.FAILED, error=stored_error(error), message="")

    def cancel(self, job: ClaimedJob) -> None:
        """The job has stopped."""
        self._end(job, state=JobState.CANCELLED, message=CANCELLED)

    def release(self, job: ClaimedJob) -> None:
        """Back into the queue; being stopped is not the job's fault, so it costs no attempt."""
        self.release_claim(job.claim)

    def release_claim(self, claim: str) -> None:
        """Back into the queue with whatever job the claim got."""
        job = Job.objects.filter(claim=claim, state=JobState.RUNNING).first()
        if job is None:
            return
        Job.objects.filter(pk=job.id, state=JobState.RUNNING, claim=claim).update(
            state=JobState.QUEUED,
            attempts=max(0, job.attempts - 1),
            claim="",
            phase="",
            progress_pct=0.0,
            rows_per_s=None,
            eta_s=None,
            message="",
            sent_at=None,
            started_at=None,
        )
        connection.close()

    def _end(self, job: ClaimedJob, **values: object) -> None:
        _held(job).update(
            finished_at=timezone.now(), claim="", eta_s=None, rows_per_s=None, **values
        )
        connection.close()


def _take(job: Job, worker: Worker, claim: str) -> int:
    now = timezone.now()
    return Job.objects.filter(pk=job.id, state=JobState.QUEUED, attempts=job.attempts).update(
        state=JobState.RUNNING,
        claim=claim,
        attempts=job.attempts + 1,
        worker_host=worker.host,
        worker_pid=worker.pid,
        worker_scope=worker.scope,
        heartbeat_at=now,
        started_at=now,
        message="",
    )


def _claimed(job: Job, claim: str) -> ClaimedJob:
    return ClaimedJob(
        job_id=job.id,
        claim=claim,
        database=Path(job.database),
        request=AggregationRequest(
            key_node=job.key_node, iter_start=job.iter_start, iter_stop=job.iter_stop
        ),
        sources=tuple(Path(source) for source in job.sources) if job.kind == JobKind.IMPORT else (),
        profile_name=job.profile_name,
        mode=job.mode,
        ranks=tuple(job.ranks),
    )


def _held(job: ClaimedJob) -> QuerySet[Job]:
    return Job.objects.filter(pk=job.job_id, state=JobState.RUNNING, claim=job.claim)
