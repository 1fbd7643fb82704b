"""What Prometheus asks for. Behind the token like everything else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from django.conf import settings
from django.db import DatabaseError
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from viewer.api.reading import read_only
from viewer.jobs.models import Job, JobKind, JobState
from viewer.jobs.presence import count_present
from viewer.profiles.storage import free_bytes, used_bytes
from viewer.security.metrics import requests_registry


class _Service(Collector):
    """Counted when it is asked, from rows that all processes share."""

    def collect(self) -> Iterator[Metric]:
        yield from (_jobs(), _workers(), _storage())


@read_only
def metrics(request: HttpRequest) -> HttpResponse:
    """Jobs, workers, storage, and the requests of all processes of the server."""
    registry = CollectorRegistry()
    registry.register(_Service())
    content = generate_latest(registry) + generate_latest(requests_registry())
    return HttpResponse(content, content_type=CONTENT_TYPE_LATEST)


def _jobs() -> Metric:
    family = GaugeMetricFamily(
        "dlprof_jobs", "Jobs that are kept, by kind and state.", labels=["kind", "state"]
    )
    try:
        rows = Job.objects.values_list("kind", "state").annotate(count=Count("id"))
        counts = {(kind, state): count for kind, state, count in rows}
    except DatabaseError:
        return family
    for kind in JobKind.values:
        for state in JobState.values:
            family.add_metric([kind, state], counts.get((kind, state), 0))
    return family


def _workers() -> Metric:
    family = GaugeMetricFamily("dlprof_workers", "Workers that are there.")
    with suppress(DatabaseError):
        family.add_metric([], count_present())
    return family


def _storage() -> Metric:
    family = GaugeMetricFamily(
        "dlprof_storage_bytes", "Bytes of stored profiles, and bytes free.", labels=["what"]
    )
    if settings.ENVIRONMENT.upload_dir.is_dir():
        family.add_metric(["used"], used_bytes())
        family.add_metric(["free"], free_bytes())
    return family
