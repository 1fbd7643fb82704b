"""``python -m benchmarks.service DATABASE``: what the re-aggregation service costs.

For the embedded mode and, where ``redis-server`` is installed, for Redis with a worker apart:

* from the start of ``dlprofviewer`` to an answer of the API, and until a worker is there;
* what a job costs besides its work: from the request until a worker begins, and from the worker's
  end until the API says so;
* how long the API's answers take while jobs run one after another, and the same with none.

Prints one table each and exits with 1 when a limit is missed. A spin of a known length is timed
beside each request: it tells how much of a time is the machine's, which may have other work.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
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
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.measured import machine

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
_SPIN = 20_000
REPOSITORY = Path(__file__).resolve().parents[1]


@dataclass
class Figures:
    """What was measured of one kind of service.

    Attributes:
        start_s: From the start of the command to the first answer.
        worker_s: Until a worker was there.
        begin_s: From a job's request until a worker began it.
        end_s: From the worker's end of a job until the API told it.
        idle_ms: Answers while no job runs.
        busy_ms: Answers while a job runs.
        spin_ms: The same piece of work beside each of those.
        jobs: Jobs that ran meanwhile.
    """

    start_s: list[float] = field(default_factory=list)
    worker_s: list[float] = field(default_factory=list)
    begin_s: list[float] = field(default_factory=list)
    end_s: list[float] = field(default_factory=list)
    idle_ms: list[float] = field(default_factory=list)
    busy_ms: list[float] = field(default_factory=list)
    spin_ms: list[float] = field(default_factory=list)
    jobs: int = 0


class Client:
    """One kept connection, as a browser has."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = HTTPConnection(parts.hostname or "", parts.port, timeout=60)

    def ask(self, method: str, path: str, body: object | None = None) -> Any:
        """An answer."""
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": "application/json"} if data else {}
        self._connection.request(method, path, data, headers)
        reply = self._connection.getresponse()
        content = reply.read()
        # 503: the service is not well yet, and says so.
        if reply.status >= 500 and not path.startswith("/healthz"):
            raise SystemExit(f"{method} {path}: {reply.status} {content[:300]!r}")
        return json.loads(content)

    def timed_ms(self, path: str) -> float:
        """How long an answer took."""
        before = time.perf_counter()
        self.ask("GET", path)
        return (time.perf_counter() - before) * 1e3


@dataclass(frozen=True)
class Server:
    """A viewer that answers."""

    url: str
    spawned_at: float

    @property
    def profile(self) -> str:
        """Address of its profile."""
        found = Client(self.url).ask("GET", "/api/v1/profiles/")["results"][0]["id"]
        return f"/api/v1/profiles/{found}/"


@contextlib.contextmanager
def viewer(database: Path, folder: Path, broker: str = "") -> Iterator[Server]:
    """``dlprofviewer`` for the length of the block."""
    state = tempfile.mkdtemp(dir=folder)
    env = os.environ | {"DLPROF_STATE_DIR": state, "PYTHONPATH": str(REPOSITORY)}
    env |= {"DLPROF_BROKER_URL": broker} if broker else {}
    words = [sys.executable, "-m", "profiler_cli.dlprofviewer", "--port", "0", str(database)]
    spawned_at = time.perf_counter()
    process = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield Server(process.stdout.readline().split()[-1], spawned_at)
    finally:
        process.terminate()
        process.wait(60)


@contextlib.contextmanager
def worker(broker: str, folder: Path) -> Iterator[None]:
    """A worker as on another host, if there is a broker; the viewer has its own otherwise."""
    if not broker:
        yield
        return
    words = [sys.executable, "-m", "celery", "-A", "aggregator", "worker", "--loglevel", "ERROR"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("DLPROF_")}
    env |= {"DLPROF_BROKER_URL": broker, "PYTHONPATH": str(REPOSITORY)}
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(words, env=env, cwd=folder, stdout=quiet, stderr=quiet)
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


@contextlib.contextmanager
def redis(folder: Path) -> Iterator[str]:
    """A Redis server of the benchmark's own."""
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
    """All figures of one kind of service."""
    figures = Figures()
    for _ in range(options.starts):
        with viewer(database, folder, broker) as server:
            _note_start(server, figures)
    copy = folder / f"{database.stem}.{'redis' if broker else 'embedded'}.sqlite"
    shutil.copyfile(database, copy)
    small = folder / f"small.{'redis' if broker else 'embedded'}.sqlite"
    shutil.copyfile(options.small or database, small)
    with viewer(small, folder, broker) as server, worker(broker, folder):
        figures.worker_s.append(_until_worker(server))
        for number in range(options.jobs):
            _note_job(server, number, figures)
    with viewer(copy, folder, broker) as server, worker(broker, folder):
        _until_worker(server)
        _note_answers(server, options.seconds, figures)
    copy.unlink()
    return figures


def _note_start(server: Server, figures: Figures) -> None:
    client = Client(server.url)
    client.ask("GET", "/api/v1/profiles/")
    figures.start_s.append(time.perf_counter() - server.spawned_at)


def _until_worker(server: Server) -> float:
    client = Client(server.url)
    while client.ask("GET", "/healthz?deep=1").get("worker") not in {"idle", "busy"}:
        time.sleep(0.02)
    return time.perf_counter() - server.spawned_at


def _note_job(server: Server, number: int, figures: Figures) -> None:
    """One job in an otherwise idle service; half of them fail at once, which costs the least."""
    client = Client(server.url)
    request: dict[str, object] = {"key_node": f"NO_SUCH_{number}"}
    if number % 2:
        request = {"iter_start": 0, "iter_stop": number // 2}
    job = client.ask("POST", f"{server.profile}aggregations/", request)
    while job["state"] in {"queued", "running"}:
        time.sleep(0.01)
        job = client.ask("GET", f"/api/v1/jobs/{job['id']}/")
    told_at = time.time()
    created, started, finished = (
        datetime.fromisoformat(job[name]).timestamp()
        for name in ("created_at", "started_at", "finished_at")
    )
    figures.begin_s.append(started - created)
    figures.end_s.append(max(0.0, told_at - finished))


def _note_answers(server: Server, seconds: float, figures: Figures) -> None:
    addresses = _addresses(server)
    figures.idle_ms += _answers(server, addresses, seconds / 2, figures)
    ended = threading.Event()
    thread = threading.Thread(target=_keep_busy, args=(server, ended, figures))
    thread.start()
    try:
        _until_busy(server)
        figures.busy_ms += _answers(server, addresses, seconds, figures)
    finally:
        ended.set()
        thread.join()


def _addresses(server: Server) -> list[str]:
    """What a page asks for: panels, tables in some orders, and where the jobs are."""
    base = f"{server.profile}aggregations/1/"
    panels = [f"{base}{panel}/" for panel in _PANELS]
    tables = [
        f"{base}{table}/?page_size=50&page={page}" for table in _TABLES for page in (1, 2)
    ] + [f"{base}ops/?ordering=-gpu_time_ns", f"{base}kernels/?search=gemm"]
    return [*panels, *tables, server.profile, f"{server.profile}aggregations/", "/api/v1/jobs/"]


def _answers(server: Server, addresses: list[str], seconds: float, figures: Figures) -> list[float]:
    client = Client(server.url)
    times: list[float] = []
    deadline = time.monotonic() + seconds
    for address in itertools.cycle(addresses):
        if time.monotonic() > deadline:
            return times
        times.append(client.timed_ms(address))
        figures.spin_ms.append(_spin_ms())
        time.sleep(_PAUSE_S)
    return times


def p95(values: list[float]) -> float:
    """95 of 100 are at most this."""
    return sorted(values)[int(0.95 * (len(values) - 1))]


def _spin_ms() -> float:
    before = time.perf_counter()
    sum(range(_SPIN))
    return (time.perf_counter() - before) * 1e3


def _keep_busy(server: Server, ended: threading.Event, figures: Figures) -> None:
    """One job after another, each another aggregation, so that one always runs."""
    client = Client(server.url)
    waiting: list[str] = []
    starts = itertools.count()
    while not ended.is_set():
        # Two: while one is told done the other runs.
        while len(waiting) < 2:
            request = {"iter_start": next(starts)}
            job = client.ask("POST", f"{server.profile}aggregations/", request)
            waiting.append(job["id"])
        job = client.ask("GET", f"/api/v1/jobs/{waiting[0]}/")
        if job["state"] not in {"queued", "running"}:
            waiting.pop(0)
            figures.jobs += 1
            if job["state"] != "done":
                raise SystemExit(f"a job failed: {job['error']}")
        ended.wait(0.2)


def _until_busy(server: Server) -> None:
    client = Client(server.url)
    while not client.ask("GET", "/api/v1/jobs/?state=running")["count"]:
        time.sleep(0.02)


def report(kind: str, figures: Figures) -> tuple[str, bool]:
    """A Markdown table, and whether all limits are met."""
    spin = statistics.median(figures.spin_ms)
    rows = [
        ("start to the first answer", "s", figures.start_s, START_LIMIT_S),
        ("start until a worker is there", "s", figures.worker_s, None),
        ("a job's wait for its worker", "s", figures.begin_s, QUEUE_LIMIT_S),
        ("from a job's end until it is told", "s", figures.end_s, QUEUE_LIMIT_S),
        ("answers, no job runs", "ms", figures.idle_ms, ANSWER_LIMIT_MS),
        (f"answers, jobs run ({figures.jobs} ended)", "ms", figures.busy_ms, ANSWER_LIMIT_MS),
        ("the same spin beside each answer", "ms", figures.spin_ms, None),
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
    lines += ["", f"A spin of {spin:.2f} ms took {p95(figures.spin_ms):.2f} ms at the p95."]
    return "\n".join(lines), is_met


def main(argv: list[str] | None = None) -> int:
    """Measure, print, and say by the exit status whether all limits are met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service", description=__doc__)
    parser.add_argument(
        "database", type=Path, help="a database of ours whose aggregation takes time"
    )
    parser.add_argument("--small", type=Path, help="one for the jobs whose wait is measured")
    parser.add_argument("--starts", type=int, default=5, help="starts that are timed (default 5)")
    parser.add_argument("--jobs", type=int, default=20, help="jobs that are timed (default 20)")
    parser.add_argument(
        "--seconds", type=float, default=30.0, help="answers under load (default 30)"
    )
    parser.add_argument("--results", type=Path, help="write the tables to this file")
    options = parser.parse_args(argv)
    texts, is_met = [], True
    with tempfile.TemporaryDirectory(prefix="dlprof-benchmark-") as name:
        folder = Path(name)
        brokers = contextlib.ExitStack()
        kinds = {"Embedded": ""}
        if shutil.which("redis-server"):
            kinds["Redis, one worker"] = brokers.enter_context(redis(folder))
        with brokers:
            for kind, broker in kinds.items():
                text, is_well = report(kind, measure(options.database, folder, broker, options))
                print(f"{text}\n", flush=True)
                texts.append(text)
                is_met &= is_well
    if options.results:
        body = "\n\n".join([_HEAD, machine(options.starts), *texts])
        options.results.write_text(f"{body}\n", encoding="utf-8")
    return 0 if is_met else 1


_HEAD = """# What the service costs

Written by `python -m benchmarks.service DATABASE --results benchmarks/SERVICE.md`. Limits of starts
and jobs are for the median, those of answers for the 95th percentile."""


if __name__ == "__main__":
    raise SystemExit(main())
