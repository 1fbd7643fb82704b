"""``python -m benchmarks.crowd DATABASE [OTHER]``: aggregations while clients read without a pause.

A viewer serves copies of the databases. Client threads of this process ask for panels and tables of
the first one, each as soon as it has the answer before, while aggregations of it run one after
another, and one more client asks for the second one. Prints the times of jobs, of their phase
``write`` (the wait for readers), of answers, and counts the answers by status. Exits with 1 if a
job fails, if a phase ``write`` takes longer than 5 s at p95, or if an answer is 500, or 503 without
Retry-After.

Everything stays on this machine and is bounded: at most 256 clients, 600 s and 200 jobs.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import itertools
import json
import random
import shutil
import statistics
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from benchmarks.viewer_latency import p95
from benchmarks.viewer_server import running

WRITE_LIMIT_S: Final = 5.0
_MOST_CLIENTS, _MOST_SECONDS, _MOST_JOBS = 256, 600.0, 200
_PATHS: Final = (
    *("", "aggregations/1/performance-summary/", "aggregations/1/gpu-utilization/"),
    *("aggregations/1/ops/?page_size=100", "aggregations/1/kernels/?ordering=-gpu_time_ns"),
    *(
        "aggregations/1/iterations/",
        "aggregations/1/top-ops/",
        "aggregations/1/kernels/?search=gemm",
    ),
    *("aggregations/1/recommendations/", "aggregations/1/figures/iteration-summary/"),
)
_PAUSE_S: Final = 0.1
_ENDED: Final = frozenset({"done", "failed", "cancelled"})


@dataclass
class Seen:
    """The answers that clients got, and the times of jobs."""

    statuses: Counter[str] = field(default_factory=Counter)
    answers_s: list[float] = field(default_factory=list)
    others_s: list[float] = field(default_factory=list)  # Answers about the other profile.
    jobs_s: list[float] = field(default_factory=list)
    writes_s: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


class Client:
    """One connection, which is opened again when it was lost."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=120)

    def ask(self, path: str, body: object = None) -> tuple[int, str | None, Any]:
        """Return status, Retry-After and body of an answer; status 0: the connection was lost."""
        method = "GET" if body is None else "POST"
        text = None if body is None else json.dumps(body)
        try:
            self._connection.request(
                method, f"/api/v1/{path}", text, {"Content-Type": "application/json"}
            )
            answer = self._connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            return 0, None, repr(error)
        return answer.status, answer.headers.get("Retry-After"), json.loads(content)

    def insist(self, path: str, body: object = None) -> Any:
        """Return the body of a good answer; a busy server is asked again."""
        for _ in range(600):
            status, _, found = self.ask(path, body)
            if status in {200, 202}:
                return found
            time.sleep(_PAUSE_S)
        raise SystemExit(f"{path}: no answer")


def _read(url: str, base: str, ended: threading.Event, seen: Seen, times: list[float]) -> None:
    client = Client(url)
    paths = itertools.cycle(random.sample(_PATHS, len(_PATHS)))
    while not ended.is_set():
        path = next(paths)
        before = time.monotonic()
        status, again, body = client.ask(f"{base}{path}")
        times.append(time.monotonic() - before)
        code = body["error"]["code"] if isinstance(body, dict) and "error" in body else ""
        seen.statuses[f"{status} {code}".strip()] += 1
        if status not in {200, 503} or (status == 503 and again is None):
            seen.wrong.append(f"{path}: {status} {str(body)[:200]}")


def _aggregate(url: str, base: str, span: tuple[int, int], seen: Seen) -> None:
    """Run one aggregation and note how long it and its phase ``write`` took."""
    client = Client(url)
    before = time.monotonic()
    request = {"iter_start": span[0], "iter_stop": span[1]}
    job = client.insist(f"{base}aggregations/", request)
    writes_from = None
    while job["state"] not in _ENDED:
        if job["phase"] == "write" and writes_from is None:
            writes_from = time.monotonic()
        time.sleep(_PAUSE_S)
        job = client.insist(f"jobs/{job['id']}/")
    seen.jobs_s.append(time.monotonic() - before)
    seen.writes_s.append(0.0 if writes_from is None else time.monotonic() - writes_from)
    if job["state"] != "done":
        seen.failed.append(str(job["error"]))


def measure(url: str, options: argparse.Namespace) -> Seen:
    """Let clients and jobs run for the time, or until the number of jobs is done."""
    client, seen, ended = Client(url), Seen(), threading.Event()
    rows = client.insist("profiles/")["results"]
    bases = [f"profiles/{row['id']}/" for row in sorted(rows, key=lambda row: str(row["name"]))]
    plans = [(bases[0], seen.answers_s)] * min(options.clients, _MOST_CLIENTS)
    plans += [(base, seen.others_s) for base in bases[1:]]
    threads = [
        threading.Thread(target=_read, args=(url, base, ended, seen, times))
        for base, times in plans
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + min(options.seconds, _MOST_SECONDS)
    # Each is new: an aggregation that exists is not written again.
    spans = list(itertools.combinations(range(client.insist(bases[0])["iteration_count"]), 2))
    for span in random.sample(spans, min(options.jobs, _MOST_JOBS, len(spans))):
        if time.monotonic() > deadline:
            break
        _aggregate(url, bases[0], span, seen)
    while options.whole_time and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)
    ended.set()
    for thread in threads:
        thread.join()
    return seen


def report(seen: Seen) -> tuple[str, bool]:
    """Return a Markdown table, and whether all limits are met."""
    lines = ["| what | times | median | p95 | most |", "|---|---:|---:|---:|---:|"]
    for name, values in (
        ("job, from its request to its end", seen.jobs_s),
        ("its phase write", seen.writes_s),
        ("answers about the profile", seen.answers_s),
        ("answers about another", seen.others_s),
    ):
        if values:
            cells = (statistics.median(values), p95(values), max(values))
            lines.append(f"| {name} | {len(values)} | {' | '.join(f'{s:.2f} s' for s in cells)} |")
    counts = ", ".join(f"{count} x {status}" for status, count in seen.statuses.most_common())
    lines += ["", f"Answers: {counts}. Jobs that failed: {len(seen.failed)}."]
    lines += sorted(set(seen.failed + seen.wrong))[:10]
    is_met = not (seen.failed or seen.wrong) and p95(seen.writes_s) <= WRITE_LIMIT_S
    return "\n".join(lines), is_met


def main(argv: list[str] | None = None) -> int:
    """Measure, print, and return the exit status: 1 if a limit is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crowd", description=__doc__)
    parser.add_argument("databases", nargs="+", type=Path, help="one or two databases")
    parser.add_argument("--clients", type=int, default=4, help="clients (default 4)")
    parser.add_argument("--jobs", type=int, default=40, help="aggregations (default 40)")
    parser.add_argument("--seconds", type=float, default=300.0, help="time (default 300)")
    parser.add_argument(
        "--whole-time", action="store_true", help="go on reading when the jobs are done"
    )
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="dlprof-benchmark-") as name:
        copies = [Path(name) / f"{number}.sqlite" for number in range(len(options.databases))]
        for source, copy in zip(options.databases, copies, strict=True):
            shutil.copyfile(source, copy)
        with contextlib.ExitStack() as stack:
            viewer = stack.enter_context(running(name))
            text, is_met = report(measure(viewer.url, options))
    print(text)
    return 0 if is_met else 1


if __name__ == "__main__":
    raise SystemExit(main())
