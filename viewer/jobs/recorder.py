"""The worker's side of the jobs: what the engine's task calls without knowing Django."""

from __future__ import annotations

import os
import socket
import uuid
from pathlib import Path

import django
from django.apps import apps
from django.db import connection
from django.db.models import QuerySet
from django.utils import timezone

from aggregator.errors import JSONValue
from aggregator.options import AggregationRequest
from aggregator.tasks import ClaimedJob, Outcome, Snapshot

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "viewer.settings")
if not apps.ready:
    django.setup()

from viewer.jobs.models import Job, JobState
from viewer.jobs.service import recover, send_all_queued
from viewer.jobs.words import CANCELLED, stored_error
from viewer.state import prepare_state


class DatabaseRecorder:
    """Writes into the job rows, each time on condition that the job is still this worker's."""

    def __init__(self) -> None:
        prepare_state()

    def worker_started(self) -> None:
        """Take back what dead workers left, and have everything that waits sent anew."""
        recover()
        send_all_queued()
        connection.close()

    def claim(self, job_id: str) -> ClaimedJob | None:
        """Turn a queued job into this process's running one."""
        claim = uuid.uuid4().hex
        now = timezone.now()
        job = Job.objects.filter(pk=job_id).first()
        if job is None:
            return None
        taken = Job.objects.filter(pk=job_id, state=JobState.QUEUED, attempts=job.attempts).update(
            state=JobState.RUNNING,
            claim=claim,
            attempts=job.attempts + 1,
            worker_host=socket.gethostname(),
            worker_pid=os.getpid(),
            heartbeat_at=now,
            started_at=now,
            message="",
        )
        if not taken:
            return None
        request = AggregationRequest(
            key_node=job.key_node, iter_start=job.iter_start, iter_stop=job.iter_stop
        )
        return ClaimedJob(job_id, claim, Path(job.database), request)

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
        """The job is done."""
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
        row = Job.objects.get(pk=job.job_id)
        _held(job).update(
            state=JobState.QUEUED,
            attempts=max(0, row.attempts - 1),
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


def _held(job: ClaimedJob) -> QuerySet[Job]:
    return Job.objects.filter(pk=job.job_id, state=JobState.RUNNING, claim=job.claim)
