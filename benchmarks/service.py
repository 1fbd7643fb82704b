"""``python -m benchmarks.service DATABASE``: what the re-aggregation service costs.

For the embedded mode and, where ``redis-server`` is installed, for Redis with a worker apart:

* the time from the start of ``dlprofviewer`` to an answer of the API, and until a worker is there;
* the time of a job besides its work: from the request until a worker begins, and from the end until
  the API shows it;
* the time of the API's answers while jobs run one after another, and while none runs.

Prints one table each and exits with 1 when a limit is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from benchmarks.measured import REPOSITORY, machine
from benchmarks.viewer_latency import p95
from benchmarks.viewer_server import Api, Viewer, running

START_LIMIT_S = 3.0
QUEUE_LIMIT_S = 0.3
ANSWER_LIMIT_MS = 100.0
_PANELS = (
    *("performance-summary", "gpu-utilization", "resource-usage", "kernel-summary", "op-summary"),
    *("tensor-core-efficiency", "top-ops", "recommendations", "figures/iteration-summary"),
    *("figures/resource-usage", "figures/kernel-gpu-time"),
)
_TABLES = ("ops", "kernels", "iterations", "op-types")
_PAUSE_S = 0.05


@dataclass
class Figures:
    """Measured times of one kind of service."""

    # From the start of the command to the first answer.
    start_s: list[float] = field(default_factory=list)
    worker_s: list[float] = field(default_factory=list)  # Until a worker was there.
    # From a job's request until a worker began it.
    begin_s: list[float] = field(default_factory=list)
    end_s: list[float] = field(default_factory=list)  # From a job's end until the API showed it.
    idle_ms: list[float] = field(default_factory=list)  # Answers while no job runs.
    busy_ms: list[float] = field(default_factory=list)  # Answers while a job runs.


@contextlib.contextmanager
def service(database: Path, folder: Path, broker: str) -> Iterator[Viewer]:
    """Start a viewer, and a worker as on another host if there is a broker."""
    variables = {"DLPROF_BROKER_URL": broker, "PYTHONPATH": str(REPOSITORY)}
    with contextlib.ExitStack() as stack:
        viewer = stack.enter_context(running(str(database), **variables))
        if broker:
            words = ["-m", "celery", "-A", "aggregator", "worker", "--loglevel", "ERROR"]
            quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            process = subprocess.Popen(
                [sys.executable, *words], env=os.environ | variables, cwd=folder, **quiet
            )
            stack.callback(process.wait, 60)
            stack.callback(process.terminate)
        yield viewer


@contextlib.contextmanager
def redis(folder: Path) -> Iterator[str]:
    """Start a separate Redis server."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    process = subprocess.Popen([*words, "--dir", str(folder)], stdout=subprocess.DEVNULL)
    try:
        time.sleep(0.5)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait(10)


def measure(database: Path, folder: Path, broker: str, options: argparse.Namespace) -> Figures:
    """Return all figures of one kind of service."""
    figures = Figures()
    for _ in range(options.starts):
        before = time.perf_counter()
        with running(str(database), DLPROF_BROKER_URL=broker) as viewer:
            Api(viewer.url).get("profiles/")
            figures.start_s.append(time.perf_counter() - before)
    small, copy = folder / "small.sqlite", folder / "large.sqlite"
    shutil.copyfile(options.small or database, small)
    shutil.copyfile(database, copy)
    before = time.perf_counter()
    with service(small, folder, broker) as viewer:
        _wait_for_worker(viewer)
        figures.worker_s.append(time.perf_counter() - before)
        for number in range(options.jobs):
            _note_job(viewer, number, figures)
    with service(copy, folder, broker) as viewer:
        _wait_for_worker(viewer)
        _note_answers(viewer, options.seconds, figures)
    return figures


def _wait_for_worker(viewer: Viewer) -> None:
    while True:
        with contextlib.suppress(OSError, HTTPException):  # 503: there is none yet
            urlopen(f"{viewer.url}/healthz?deep=1", timeout=60).close()  # noqa: S310 - its own
            return
        time.sleep(0.02)


def _aggregations(api: Api) -> str:
    profile = api.get("profiles/")["results"][0]["id"]
    return f"profiles/{profile}/aggregations/"


def _note_job(viewer: Viewer, number: int, figures: Figures) -> None:
    """One job in an otherwise idle service; half of them fail at once, which costs the least."""
    api = Api(viewer.url)
    request: dict[str, object] = {"key_node": f"NO_SUCH_{number}"}
    if number % 2:
        request = {"iter_start": 0, "iter_stop": number // 2}
    job = api.post(_aggregations(api), request)
    while job["state"] in {"queued", "running"}:
        time.sleep(0.01)
        job = api.get(f"jobs/{job['id']}/")
    shown_at = time.time()
    created, started, finished = (
        datetime.fromisoformat(job[name]).timestamp()
        for name in ("created_at", "started_at", "finished_at")
    )
    figures.begin_s.append(started - created)
    figures.end_s.append(max(0.0, shown_at - finished))


def _note_answers(viewer: Viewer, seconds: float, figures: Figures) -> None:
    figures.idle_ms += _answers(viewer, seconds / 2)
    ended = threading.Event()
    thread = threading.Thread(target=_keep_busy, args=(viewer, ended))
    thread.start()
    try:
        while not Api(viewer.url).get("jobs/", state="running")["count"]:
            time.sleep(0.02)
        figures.busy_ms += _answers(viewer, seconds)
    finally:
        ended.set()
        thread.join()


def _answers(viewer: Viewer, seconds: float) -> list[float]:
    """Time what a page asks for: panels, tables in some orders, and the jobs."""
    api = Api(viewer.url)
    base = f"{_aggregations(api)}1/"
    asked: list[tuple[str, dict[str, Any]]] = [(f"{base}{panel}/", {}) for panel in _PANELS]
    asked += [
        (f"{base}{table}/", {"page_size": 50, "page": page}) for table in _TABLES for page in (1, 2)
    ]
    asked += [
        (f"{base}ops/", {"ordering": "-gpu_time_ns"}),
        (f"{base}kernels/", {"search": "gemm"}),
    ]
    asked += [(_aggregations(api), {}), ("jobs/", {})]
    times: list[float] = []
    deadline = time.monotonic() + seconds
    for path, params in itertools.cycle(asked):
        if time.monotonic() > deadline:
            return times
        times.append(api.ask(path, params).elapsed_ms)
        time.sleep(_PAUSE_S)
    return times


def _keep_busy(viewer: Viewer, ended: threading.Event) -> None:
    """Run one aggregation after another, so that a job is always running."""
    api = Api(viewer.url)
    starts = itertools.count()
    waiting: list[str] = []
    while not ended.is_set():
        while len(waiting) < 2:
            job = api.post(_aggregations(api), {"iter_start": next(starts)})
            waiting.append(job["id"])
        job = api.get(f"jobs/{waiting[0]}/")
        if job["state"] not in {"queued", "running"}:
            waiting.pop(0)
            if job["state"] != "done":
                raise SystemExit(f"a job failed: {job['error']}")
        ended.wait(0.2)


def report(kind: str, figures: Figures) -> tuple[str, bool]:
    """Return a Markdown table, and whether all limits are met."""
    rows = [
        ("start to the first answer", "s", figures.start_s, START_LIMIT_S),
        ("start until a worker is there", "s", figures.worker_s, None),
        ("a job's wait for its worker", "s", figures.begin_s, QUEUE_LIMIT_S),
        ("from a job's end until it is shown", "s", figures.end_s, QUEUE_LIMIT_S),
        ("answers, no job runs", "ms", figures.idle_ms, ANSWER_LIMIT_MS),
        ("answers, jobs run", "ms", figures.busy_ms, ANSWER_LIMIT_MS),
    ]
    lines = [f"## {kind}", "", "| what | times | median | p95 | most | limit |"]
    lines.append("|---|---:|---:|---:|---:|---:|")
    is_met = True
    for name, unit, values, limit in rows:
        middle, high = statistics.median(values), p95(values)
        is_met &= limit is None or (middle if unit == "s" else high) <= limit
        digits = 2 if unit == "s" else 1
        cells = [f"{value:.{digits}f} {unit}" for value in (middle, high, max(values))]
        of = "" if limit is None else f"{limit:g} {unit}"
        lines.append(f"| {name} | {len(values)} | {' | '.join(cells)} | {of} |")
    return "\n".join(lines), is_met


def main(argv: list[str] | None = None) -> int:
    """Measure, print, and return the exit status: 1 if a limit is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service", description=__doc__)
    parser.add_argument("database", type=Path, help="a database whose aggregation takes time")
    parser.add_argument("--small", type=Path, help="one for the jobs whose wait is measured")
    parser.add_argument("--starts", type=int, default=5, help="starts that are timed (default 5)")
    parser.add_argument("--jobs", type=int, default=20, help="jobs that are timed (default 20)")
    parser.add_argument("--seconds", type=float, default=30.0, help="time of answers (default 30)")
    parser.add_argument("--results", type=Path, help="write the tables to this file")
    options = parser.parse_args(argv)
    texts, is_met = [], True
    with (
        tempfile.TemporaryDirectory(prefix="dlprof-benchmark-") as name,
        contextlib.ExitStack() as stack,
    ):
        kinds = {"Embedded": ""}
        if shutil.which("redis-server"):
            kinds["Redis, one worker"] = stack.enter_context(redis(Path(name)))
        for kind, broker in kinds.items():
            text, is_well = report(kind, measure(options.database, Path(name), broker, options))
            print(f"{text}\n", flush=True)
            texts.append(text)
            is_met &= is_well
    if options.results:
        body = "\n\n".join([_HEAD, machine(options.starts), *texts])
        options.results.write_text(f"{body}\n", encoding="utf-8")
    return 0 if is_met else 1


_HEAD = """# Times of the service

Written by `python -m benchmarks.service DATABASE --results benchmarks/SERVICE.md`. Limits of starts
and jobs are for the median, those of answers for the 95th percentile."""


if __name__ == "__main__":
    raise SystemExit(main())
