"""How fast the viewer answers: each table page and each dashboard panel, over HTTP.

    python benchmarks/viewer_latency.py DATABASE [--rounds 15] [--json FILE]

Starts a viewer on the database (or measures the one at --url), asks for every table in every
order and direction with its first, middle and last page, for text searches, and for each panel,
and prints the median and the 95th percentile of each kind. Exits with 1 when a limit is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

PAGE_LIMIT_MS = 50.0
SEARCH_LIMIT_MS = 150.0
PANEL_LIMIT_MS = 100.0
PAGE_SIZE = 50
PANELS = (
    "performance-summary",
    "gpu-utilization",
    "resource-usage",
    "kernel-summary",
    "op-summary",
    "tensor-core-efficiency",
    "top-ops",
    "recommendations",
    "figures/iteration-summary",
    "figures/resource-usage",
    "figures/kernel-gpu-time",
)
TABLES = ("ops", "kernels", "op-types", "group-ops", "iterations", "gpus")


@dataclass
class Sample:
    """Times of one address."""

    name: str
    limit_ms: float
    times_ms: list[float] = field(default_factory=list)

    @property
    def median_ms(self) -> float:
        """Half of the answers came within this."""
        return statistics.median(self.times_ms)


class Api:
    """One kept connection to the viewer, as a browser has."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port)

    def get(self, path: str, **params: Any) -> Any:
        """An answer."""
        return self.timed(path, **params)[1]

    def timed(self, path: str, **params: Any) -> tuple[float, Any]:
        """How long the answer took in ms, and the answer."""
        query = f"?{urlencode(params)}" if params else ""
        start = time.perf_counter()
        self._connection.request("GET", f"/api/v1/{quote(path)}{query}")
        answer = self._connection.getresponse()
        body = answer.read()
        elapsed_ms = (time.perf_counter() - start) * 1e3
        if answer.status != http.client.OK:
            raise SystemExit(f"{path}{query}: {answer.status} {body[:300]!r}")
        return elapsed_ms, json.loads(body)


@contextlib.contextmanager
def started(database: str) -> Iterator[str]:
    """The address of a viewer that runs for as long as the block."""
    with tempfile.TemporaryDirectory() as state:
        process = subprocess.Popen(
            [sys.executable, "-m", "profiler_cli.dlprofviewer", "--port", "0", database],
            env=os.environ | {"DLPROF_STATE_DIR": state, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        found = re.search(r"running at (\S+)", process.stdout.readline())
        if found is None:
            raise SystemExit("the viewer did not start")
        try:
            yield found[1]
        finally:
            process.terminate()
            process.wait(60)


def measure(api: Api, name: str, limit_ms: float, path: str, rounds: int, **params: Any) -> Sample:
    """Ask the same several times; the first, cold answer counts too."""
    sample = Sample(name, limit_ms)
    for _ in range(rounds):
        sample.times_ms.append(api.timed(path, **params)[0])
    return sample


def table_samples(api: Api, base: str, table: str, rounds: int) -> Iterator[Sample]:
    """Each column in both directions, at the beginning, in the middle and at the end."""
    path = f"{base}{table}/"
    first = api.get(path, page_size=PAGE_SIZE)
    pages = max(1, -(-first["count"] // PAGE_SIZE))
    columns = [key for key in (first["results"] or [{}])[0] if key not in first["unknown"]]
    for column in columns:
        for ordering in (column, f"-{column}"):
            for page in sorted({1, (pages + 1) // 2, pages}):
                params = {"ordering": ordering, "page": page, "page_size": PAGE_SIZE}
                name = f"{table} by {ordering}, page {page}"
                yield measure(api, name, PAGE_LIMIT_MS, path, rounds, **params)
    for word in ("a", "conv", "no such thing"):
        name = f"{table}, search {word!r}"
        yield measure(api, name, SEARCH_LIMIT_MS, path, rounds, search=word, page_size=PAGE_SIZE)


def all_samples(api: Api, rounds: int) -> Iterator[Sample]:
    """Everything that the page asks for."""
    profile = api.get("profiles/")["results"][0]["id"]
    aggregation = api.get(f"profiles/{profile}/aggregations/")["results"][0]
    base = f"profiles/{profile}/aggregations/{aggregation['id']}/"
    for panel in PANELS:
        yield measure(api, panel, PANEL_LIMIT_MS, f"{base}{panel}/", rounds)
    middle = (aggregation["iter_start"] + aggregation["iter_stop"]) // 2
    op = api.get(f"{base}iterations/{middle}/ops/", page_size=10)["results"][0]["op_id"]
    linked = (f"iterations/{middle}/ops", f"iterations/{middle}/kernels")
    deepest = (f"ops/{op}/kernels", f"iterations/{middle}/ops/{op}/kernels")
    for table in (*TABLES, *linked, *deepest):
        yield from table_samples(api, base, table, rounds)


def p95(times_ms: list[float]) -> float:
    """95 of 100 answers came within this."""
    return sorted(times_ms)[int(0.95 * (len(times_ms) - 1))]


def report(samples: list[Sample]) -> bool:
    """Print how fast each kind is, and what is slow; whether all limits are met.

    The limits are for the 95th percentile of a kind. An address is called slow by its median: the
    slowest of a few answers tells more of the machine than of the address.
    """
    kinds = {"table pages": PAGE_LIMIT_MS, "searches": SEARCH_LIMIT_MS, "panels": PANEL_LIMIT_MS}
    is_met = True
    for kind, limit_ms in kinds.items():
        times = [t for sample in samples if sample.limit_ms == limit_ms for t in sample.times_ms]
        is_met &= p95(times) <= limit_ms
        print(
            f"{kind}: {len(times)} answers, median {statistics.median(times):.1f} ms, "
            f"p95 {p95(times):.1f} ms, limit {limit_ms:.0f} ms"
        )
    slow = sorted((s for s in samples if s.median_ms > s.limit_ms), key=lambda s: -s.median_ms)
    for sample in slow:
        print(f"  SLOW {sample.median_ms:8.1f} ms (limit {sample.limit_ms:.0f})  {sample.name}")
    return is_met and not slow


def main() -> int:
    """Measure, print, and say by the exit status whether all limits are met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("database", nargs="?", help="database to start a viewer on")
    parser.add_argument("--url", help="measure this viewer's first profile instead")
    parser.add_argument("--rounds", type=int, default=15, help="how often each is asked")
    parser.add_argument("--json", help="write all times to this file")
    options = parser.parse_args()
    if (options.database is None) == (options.url is None):
        parser.error("name a database or --url")
    viewer = contextlib.nullcontext(options.url) if options.url else started(options.database)
    with viewer as url:
        samples = list(all_samples(Api(url), options.rounds))
    if options.json:
        times = {sample.name: sample.times_ms for sample in samples}
        Path(options.json).write_text(json.dumps(times, indent=1), encoding="utf-8")
    return 0 if report(samples) else 1


if __name__ == "__main__":
    raise SystemExit(main())
