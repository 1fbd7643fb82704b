"""Counts requests and their times, by kind of address: no profile's name gets into a metric."""

from __future__ import annotations

import time
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from prometheus_client import CollectorRegistry, Counter, Histogram

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
