"""Whether the server runs, and whether what it needs does."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, JsonResponse
from django.utils import timezone

from viewer.api.reading import read_only
from viewer.environment import Environment, is_loopback
from viewer.jobs import presence
from viewer.jobs.models import Job, JobState
from viewer.security.access import has_bearer_token

_WORKER_SILENCE = timedelta(seconds=30)


@read_only
def healthz(request: HttpRequest) -> JsonResponse:
    """Answer at once that the server runs; with ``?deep=1`` also what state, broker and worker do.

    A deep answer tells about the service and so is given only to who may look: this machine, or
    whoever shows the token. It is 503 if jobs cannot be done.
    """
    if request.GET.get("deep") != "1" or not _may_look(request):
        return JsonResponse({"status": "ok"})
    parts = {"state": _state(), "broker": _broker(), "worker": _worker()}
    is_well = (
        parts["state"] == "ok" and parts["broker"] == "ok" and parts["worker"] in {"idle", "busy"}
    )
    body = {"status": "ok" if is_well else "degraded", **parts}
    return JsonResponse(body, status=200 if is_well else 503)


def _may_look(request: HttpRequest) -> bool:
    environment: Environment = settings.ENVIRONMENT
    if environment.token:
        return has_bearer_token(request, environment)
    peer = request.META.get("REMOTE_ADDR", "")
    return not peer or is_loopback(peer)


def _state() -> str:
    try:
        Job.objects.exists()
    except DatabaseError as error:
        return f"unavailable: {error}"
    return "ok"


def _broker() -> str:
    # Celery is not loaded before it is needed.
    from viewer.jobs.dispatch import count_waiting, load  # noqa: PLC0415

    load()
    from aggregator.remote_jobs import BrokerAwayError  # noqa: PLC0415

    try:
        count_waiting()
    except BrokerAwayError as error:
        return f"unavailable: {error}"
    return "ok"


def _worker() -> str:
    """``busy``, ``idle``, ``none``, or ``silent``: jobs wait and for long nobody has begun one."""
    try:
        now = timezone.now()
        if Job.objects.filter(
            state=JobState.RUNNING, heartbeat_at__gte=now - presence.ABSENT_AFTER
        ).exists():
            return "busy"
        late = now - _WORKER_SILENCE
        if Job.objects.filter(state=JobState.QUEUED, sent_at__lt=late).exists():
            return "silent"
        return "idle" if presence.count_present() else "none"
    except DatabaseError:
        return "unknown"
