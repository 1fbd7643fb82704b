"""Which workers are there: each says so every few seconds, wherever it runs."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from aggregator.jobs import PRESENCE_INTERVAL_S, Worker
from viewer.jobs.models import SeenWorker

#: A worker that has said nothing for so long is gone.
ABSENT_AFTER = timedelta(seconds=3 * PRESENCE_INTERVAL_S)
_FORGOTTEN_AFTER = timedelta(hours=1)


def note(worker: Worker) -> None:
    """A worker says that it is there."""
    now = timezone.now()
    SeenWorker.objects.update_or_create(
        id=_id(worker), defaults={"host": worker.host, "pid": worker.pid, "seen_at": now}
    )
    SeenWorker.objects.filter(seen_at__lt=now - _FORGOTTEN_AFTER).delete()


def forget(worker: Worker) -> None:
    """A worker says that it ends."""
    SeenWorker.objects.filter(pk=_id(worker)).delete()


def count_present() -> int:
    """How many workers there are."""
    return SeenWorker.objects.filter(seen_at__gte=timezone.now() - ABSENT_AFTER).count()


def _id(worker: Worker) -> str:
    return f"{worker.pid}@{worker.scope}"[:255]
