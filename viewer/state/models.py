"""The rows of jobs, profiles and uploads. A job's row, not the broker, decides what it is."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import ClassVar

from django.db import models
from django.utils import timezone

from aggregator.texts import say


class JobState(models.TextChoices):
    """``queued -> running -> done | failed | cancelled``; retry leads back to ``queued``."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class JobKind(models.TextChoices):
    """What a job makes."""

    AGGREGATION = "aggregation"
    IMPORT = "import"


CANCELLED = say("Cancelled.")
CANCELLING = say("Cancelling.")
#: Messages of a finished job, by the note of its result.
NOTES = {
    "": "",
    "reused": say("This aggregation was there already."),
    "imported": say("This profile was there already."),
}
#: A worker that has reported nothing for so long is gone.
ABSENT_AFTER = timedelta(seconds=15)
ACTIVE_STATES = (JobState.QUEUED, JobState.RUNNING)


def _new_id() -> str:
    return uuid.uuid4().hex


class Job(models.Model):
    """One request for an aggregation, or for the import of a profile.

    Every change of state is an UPDATE with the old state as its condition, so that of two processes
    that race for it only one succeeds.
    """

    id = models.CharField(primary_key=True, max_length=32, default=_new_id, editable=False)
    kind = models.CharField(max_length=12, choices=JobKind, default=JobKind.AGGREGATION)
    profile_id = models.CharField(max_length=80)
    # Of an import, the database to create.
    database = models.CharField(max_length=4096)
    # The client that submitted it: jobs of different clients take turns.
    client = models.CharField(max_length=64, blank=True, default="")

    key_node = models.TextField(blank=True, default="")
    iter_start = models.BigIntegerField(null=True)
    iter_stop = models.BigIntegerField(null=True)
    iteration_phase = models.CharField(max_length=200, blank=True, default="")
    bare_step_ns = models.BigIntegerField(default=0)
    # Of an import: files to read, the name for the profile, how ranges are read.
    sources = models.JSONField(default=list)
    # Number of the first rank of each source, and how far each is: a letter, as a snapshot has it.
    ranks = models.JSONField(default=list)
    parts = models.TextField(blank=True, default="")
    profile_name = models.TextField(blank=True, default="")
    mode = models.CharField(max_length=20, default="auto")
    # Of a window that is recorded first: process, steps, all_ranks.
    window = models.JSONField(default=dict)

    state = models.CharField(max_length=10, choices=JobState, default=JobState.QUEUED)
    phase = models.CharField(max_length=40, blank=True, default="")
    progress_pct = models.FloatField(default=0.0)
    rows_per_s = models.FloatField(null=True)
    eta_s = models.FloatField(null=True)
    message = models.TextField(blank=True, default="")
    error = models.JSONField(null=True)
    aggregation_id = models.BigIntegerField(null=True)
    # The database with the aggregation: the conversion, if the profile is a database of NVIDIA's.
    result = models.CharField(max_length=4096, blank=True, default="")

    cancel_requested = models.BooleanField(default=False)
    attempts = models.PositiveIntegerField(default=0)
    # Celery's task, a new one for each attempt. Empty: not sent. An ended job keeps it until a
    # worker that may still take its message has been ordered to drop it.
    task_id = models.CharField(max_length=32, blank=True, default="")
    worker_host = models.CharField(max_length=255, blank=True, default="")
    worker_pid = models.BigIntegerField(null=True)
    worker_scope = models.CharField(max_length=255, blank=True, default="")
    heartbeat_at = models.DateTimeField(null=True)
    # When its message was last sent to the broker.
    sent_at = models.DateTimeField(null=True)

    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["state", "client", "profile_id"], name="job_state_client"),
            models.Index(fields=["client", "profile_id", "sent_at"], name="job_client_sent"),
            models.Index(fields=["profile_id", "created_at"], name="job_profile_created"),
            models.Index(fields=["created_at"], name="job_created"),
        ]

    def __str__(self) -> str:
        return f"{self.id} ({self.state})"


class SeenWorker(models.Model):
    """A worker process and when it last reported that it is running."""

    # Its machine, namespace and process.
    id = models.CharField(primary_key=True, max_length=255)
    host = models.CharField(max_length=255)
    pid = models.BigIntegerField()
    seen_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.host} {self.pid}"


def count_workers() -> int:
    """Count the workers that reported lately that they are running."""
    return SeenWorker.objects.filter(seen_at__gte=timezone.now() - ABSENT_AFTER).count()


class StoredProfile(models.Model):
    """What the viewer knows of a profile beyond its file: a name, that it was added or unlisted.

    A file named at the start needs no row; one that was uploaded or registered is served because
    of its row.
    """

    # The profile's id in addresses, made of its path.
    id = models.CharField(primary_key=True, max_length=80)
    path = models.CharField(max_length=4096)
    # Given by a user; empty: the profile's own.
    name = models.TextField(blank=True, default="")
    # Added through the API, and complete: served like a file named at the start.
    is_added = models.BooleanField(default=False)
    # A folder that holds nothing but this profile, and goes with it; empty: a user's own file.
    folder = models.CharField(max_length=4096, blank=True, default="")
    hidden_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"{self.id} ({self.path})"
