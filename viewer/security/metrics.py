"""Counts requests and their times by kind of address; no profile's name gets into a metric.

Each web process writes its counts to a file of the folder ``DLPROF_METRICS_DIR``, which the command
sets, and sums the files of all processes, also of those that have ended. The file is written, not
mapped into memory: on a full disk a write fails and the counts of this process stay in memory,
while an access to mapped memory would end the process.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from django.http import HttpRequest, HttpResponse
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric

_BUCKETS = ("0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1.0", "2.5", "10.0", "+Inf")
_METHODS = frozenset({"GET", "HEAD", "POST", "PATCH", "DELETE", "OPTIONS"})
_AREAS = ("/api/v1/jobs", "/api/v1/uploads", "/api/v1/profiles", "/static")


class RequestCounts:
    """The counts of this process.

    Keys are ``request METHOD STATUS``, ``le AREA BUCKET`` and ``sum AREA`` (microseconds).
    """

    def __init__(self, folder: str) -> None:
        self._path = Path(folder) / f"{os.getpid()}.json" if folder else None
        self._file: int | None = None
        if self._path is not None:
            with suppress(OSError):
                self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, method: str, status: int, area: str, seconds: float) -> None:
        """Count one request."""
        bucket = next(bucket for bucket in _BUCKETS if seconds <= float(bucket))
        with self._lock:
            self._counts[f"request {method} {status}"] += 1
            self._counts[f"le {area} {bucket}"] += 1
            self._counts[f"sum {area}"] += round(seconds * 1e6)
            if self._file is not None:
                # A disk that is full must not fail the request. The text never gets shorter.
                with suppress(OSError):
                    os.pwrite(self._file, json.dumps(self._counts).encode(), 0)

    def total(self) -> Counter[str]:
        """Return the sum over all processes."""
        with self._lock:
            total = Counter(self._counts)
        others = set(self._path.parent.glob("*.json")) - {self._path} if self._path else set()
        for path in others:
            # A file that is being written may be incomplete; it is counted next time.
            with suppress(OSError, ValueError):
                total.update(json.loads(path.read_text()))
        return total

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics, as prometheus_client does."""
        total = self.total()
        requests = CounterMetricFamily(
            "dlprof_requests", "Requests answered.", labels=["method", "status"]
        )
        for key, count in sorted(total.items()):
            kind, *labels = key.split(" ")
            if kind == "request":
                requests.add_metric(labels, count)
        yield requests
        seconds = HistogramMetricFamily(
            "dlprof_request_seconds", "Time until a reply begins.", labels=["area"]
        )
        for area in sorted({key.split(" ")[1] for key in total if key.startswith("sum ")}):
            counts = [total[f"le {area} {bucket}"] for bucket in _BUCKETS]
            buckets = [(name, sum(counts[: place + 1])) for place, name in enumerate(_BUCKETS)]
            seconds.add_metric([area], buckets, sum_value=total[f"sum {area}"] / 1e6)
        yield seconds


COUNTS = RequestCounts(os.environ.get("DLPROF_METRICS_DIR", ""))


class MetricsMiddleware:
    """The outermost middleware: it counts refusals too."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request, and count it."""
        began = time.perf_counter()
        response = self._get_response(request)
        method = request.method if request.method in _METHODS else "OTHER"
        area = next((area for area in _AREAS if request.path_info.startswith(area)), "/")
        COUNTS.add(method, response.status_code, area, time.perf_counter() - began)
        return response
