"""Report whether the server and what it needs work, and metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from itertools import product

from django.conf import settings
from django.db import DatabaseError
from django.db.models import Count
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from aggregator.jobs.limits import SILENCE_LIMIT_S
from viewer.environment import Environment, is_loopback
from viewer.errors import ViewerError, read_only
from viewer.jobs import dispatch
from viewer.profiles.storage import free_bytes, used_bytes
from viewer.security.access import has_bearer_token, is_passed_on
from viewer.security.metrics import COUNTS
from viewer.security.places import PLACES
from viewer.state.models import ABSENT_AFTER, Job, JobKind, JobState, count_workers

_WORKER_SILENCE = timedelta(seconds=SILENCE_LIMIT_S)


@read_only
def healthz(request: HttpRequest) -> JsonResponse:
    """Answer at once that the server runs; with ``?deep=1`` also what state, broker and worker do.

    The status is 503 while requests wait and none has ended for half a minute. The deep answer is
    only for clients on this machine, or with the token if there is one. Its status is 503 if jobs
    cannot run.
    """
    if PLACES.is_stuck:
        return JsonResponse({"status": "stuck"}, status=503)
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
    return not is_passed_on(request) and (not peer or is_loopback(peer))


def _state() -> str:
    try:
        Job.objects.exists()
    except DatabaseError as error:
        return f"unavailable: {error}"
    return "ok"


def _broker() -> str:
    try:
        dispatch.count_waiting()
    except dispatch.BrokerAwayError as error:
        return f"unavailable: {error}"
    return "ok"


def _worker() -> str:
    """Return ``busy``, ``idle``, ``none``, or ``silent`` if jobs wait and none is begun."""
    try:
        now = timezone.now()
        if Job.objects.filter(
            state=JobState.RUNNING, heartbeat_at__gte=now - ABSENT_AFTER
        ).exists():
            return "busy"
        late = now - _WORKER_SILENCE
        if Job.objects.filter(state=JobState.QUEUED, sent_at__lt=late).exists():
            return "silent"
        return "idle" if count_workers() else "none"
    except DatabaseError:
        return "unknown"


class _Service(Collector):
    """Counts rows of the state, which all processes share, at each request."""

    def collect(self) -> Iterator[Metric]:
        """Yield jobs, workers and storage; no values if the state cannot be read."""
        jobs = GaugeMetricFamily(
            "dlprof_jobs", "Jobs that are kept, by kind and state.", labels=["kind", "state"]
        )
        workers = GaugeMetricFamily("dlprof_workers", "Workers that are there.")
        with suppress(DatabaseError):
            rows = Job.objects.values_list("kind", "state").annotate(count=Count("id"))
            counts = {(kind, state): count for kind, state, count in rows}
            for key in product(JobKind.values, JobState.values):
                jobs.add_metric(key, counts.get(key, 0))
            workers.add_metric([], count_workers())
        storage = GaugeMetricFamily(
            "dlprof_storage_bytes", "Bytes of stored profiles, and bytes free.", labels=["what"]
        )
        with suppress(ViewerError):  # the folder can neither be read nor be made
            storage.add_metric(["used"], used_bytes())
            storage.add_metric(["free"], free_bytes())
        yield from (jobs, workers, storage)


@read_only
def metrics(request: HttpRequest) -> HttpResponse:
    """Jobs, workers, storage, and the requests of all processes of the server."""
    registry = CollectorRegistry()
    registry.register(_Service())
    registry.register(COUNTS)
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)
