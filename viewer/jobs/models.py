"""The job row: the truth about a job; the broker only carries its id to a worker."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models
from django.utils import timezone


class JobState(models.TextChoices):
    """``queued -> running -> done | failed | cancelled``; retry leads back to ``queued``."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


ACTIVE_STATES = (JobState.QUEUED, JobState.RUNNING)


def _new_id() -> str:
    return uuid.uuid4().hex


class Job(models.Model):
    """One request for an aggregation.

    Every change of state is an UPDATE with the old state as its condition, so that two processes
    that race for a job cannot both win it.
    """

    id = models.CharField(primary_key=True, max_length=32, default=_new_id, editable=False)
    profile_id = models.CharField(max_length=80)
    database = models.CharField(max_length=4096)

    key_node = models.TextField(blank=True, default="")
    iter_start = models.BigIntegerField(null=True)
    iter_stop = models.BigIntegerField(null=True)

    state = models.CharField(max_length=10, choices=JobState, default=JobState.QUEUED)
    phase = models.CharField(max_length=40, blank=True, default="")
    progress_pct = models.FloatField(default=0.0)
    rows_per_s = models.FloatField(null=True)
    eta_s = models.FloatField(null=True)
    message = models.TextField(blank=True, default="")
    error = models.JSONField(null=True)
    aggregation_id = models.BigIntegerField(null=True)
    # The database that has it: not the one asked for if that is NVIDIA's and was converted.
    result = models.CharField(max_length=4096, blank=True, default="")

    cancel_requested = models.BooleanField(default=False)
    attempts = models.PositiveIntegerField(default=0)
    # Who works on it: a worker that has lost its claim may write nothing more.
    claim = models.CharField(max_length=32, blank=True, default="")
    worker_host = models.CharField(max_length=255, blank=True, default="")
    worker_pid = models.BigIntegerField(null=True)
    heartbeat_at = models.DateTimeField(null=True)
    # When its message was last given to the broker.
    sent_at = models.DateTimeField(null=True)

    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["state", "sent_at"], name="job_state_sent"),
            models.Index(fields=["profile_id", "created_at"], name="job_profile_created"),
        ]

    def __str__(self) -> str:
        return f"{self.id} ({self.state})"

    @property
    def is_active(self) -> bool:
        """Whether it still waits or runs."""
        return self.state in ACTIVE_STATES
