"""Counts requests and their times, by kind of address: no profile's name gets into a metric.

With ``PROMETHEUS_MULTIPROC_DIR``, which the command sets, each process counts into files of that
folder. So the sum is that of all processes, and of those that have ended.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from django.http import HttpRequest, HttpResponse
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

REGISTRY = CollectorRegistry()
_REQUESTS = Counter(
    "dlprof_requests", "Requests answered.", ["method", "status"], registry=REGISTRY
)
_SECONDS = Histogram(
    "dlprof_request_seconds",
    "Time until a reply begins.",
    ["area"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0),
    registry=REGISTRY,
)
_METHODS = frozenset({"GET", "HEAD", "POST", "PATCH", "DELETE", "OPTIONS"})
_AREAS = ("/api/v1/jobs", "/api/v1/uploads", "/api/v1/profiles", "/static")


def requests_registry() -> CollectorRegistry:
    """What has been counted, by all processes of this server if they share a folder."""
    if not os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        return REGISTRY
    registry = CollectorRegistry()
    registry.register(_AllProcesses(Path(os.environ["PROMETHEUS_MULTIPROC_DIR"])))
    return registry


class _AllProcesses(Collector):
    """The sum of what the files of a folder hold.

    A file is empty for a moment after another process has made it, or for good if that one was
    killed there; the library's own collector fails at it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def collect(self) -> Iterable[Metric]:
        files = [str(file) for file in self._folder.glob("*.db") if file.stat().st_size]
        merged: Iterable[Metric] = MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]
        return merged


class MetricsMiddleware:
    """The outermost: it counts refusals too."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer, and count."""
        began = time.perf_counter()
        response = self._get_response(request)
        method = request.method if request.method in _METHODS else "OTHER"
        _REQUESTS.labels(method, str(response.status_code)).inc()
        area = next((area for area in _AREAS if request.path_info.startswith(area)), "/")
        _SECONDS.labels(area).observe(time.perf_counter() - began)
        return response
