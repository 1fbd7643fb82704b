"""A real viewer in processes of its own, with HTTP requests to it."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psutil

COMMAND = (sys.executable, "-m", "profiler_cli.dlprofviewer")
REPOSITORY = Path(__file__).resolve().parents[2]
START_LIMIT_S = 180.0
#: How long a test waits before it fails: for nothing else, so a loaded machine may need most of it.
WAIT_LIMIT_S = 240.0
_EPHEMERAL_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST_PORT = 10_000
ENDED = ("done", "failed", "cancelled")

Job = dict[str, Any]


@dataclass
class RunningViewer:
    """A viewer that answers."""

    process: subprocess.Popen[str]
    url: str
    log: IO[bytes]
    token: str = ""

    def errors(self) -> str:
        """What it has written to standard error so far."""
        # Read by position: the processes share the file's own, at which they write.
        descriptor = self.log.fileno()
        written = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
        return written.decode(errors="replace")

    def logs(self) -> str:
        """What its web server has logged so far."""
        (server,) = self.children("viewer.gunicorn_config")[:1]
        return self.errors() + (Path(server.cwd()) / "web.log").read_text(errors="replace")

    def get(self, path: str) -> Any:
        return self._ask(Request(f"{self.url}/api/v1/{path}"))

    def post(self, path: str, body: object | None = None, client: str = "") -> Any:
        data = json.dumps(body or {}).encode()
        headers = {"Content-Type": "application/json"}
        if client:
            headers["X-DLProf-Client"] = client
        return self._ask(Request(f"{self.url}/api/v1/{path}", data, headers))

    def delete(self, path: str) -> Any:
        return self._ask(Request(f"{self.url}/api/v1/{path}", method="DELETE"))

    def jobs(self, **filters: str) -> list[Job]:
        """All jobs that pass the filters, on however many pages."""
        found: list[Job] = []
        while True:
            page = len(found) // 200 + 1
            query = "&".join(f"{name}={value}" for name, value in filters.items())
            body = self.get(f"jobs/?page_size=200&page={page}&ordering=created_at&{query}")
            found += body["results"]
            if len(found) >= body["count"] or not body["results"]:
                return found

    def profile_id(self) -> str:
        found: str = self.get("profiles/")["results"][0]["id"]
        return found

    def ask_for_aggregation(self, **request: object) -> Job:
        job: Job = self.post(f"profiles/{self.profile_id()}/aggregations/", request)
        return job

    def aggregation_ids(self) -> list[int]:
        """All but that of the steady range, which an import may add to its first."""
        body = self.get(f"profiles/{self.profile_id()}/aggregations/")
        return [item["id"] for item in body["results"] if not item["is_steady"]]

    def wait_for(self, job: Job, wanted: Callable[[Job], bool]) -> Job:
        deadline = time.monotonic() + WAIT_LIMIT_S
        pause_s = 0.05
        while time.monotonic() < deadline:
            job = self.get(f"jobs/{job['id']}/")
            if wanted(job):
                return job
            time.sleep(pause_s)
            # Asking all the time would slow down what is waited for.
            pause_s = min(0.5, 1.2 * pause_s)
        raise AssertionError(f"the job did not get there: {job}")

    def wait_for_end(self, job: Job) -> Job:
        return self.wait_for(job, lambda found: found["state"] in ENDED)

    def wait_for_state(self, job: Job, state: str) -> Job:
        return self.wait_for(job, lambda found: found["state"] == state)

    def children(self, word: str) -> list[psutil.Process]:
        """Processes below the command whose command line holds a word."""
        found = []
        for child in psutil.Process(self.process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # it ended between the list and the question
                if word in " ".join(child.cmdline()):
                    found.append(child)
        return found

    def worker(self) -> psutil.Process:
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            if found := self.children("celery"):
                return found[0]
            time.sleep(0.05)
        raise AssertionError("no worker was started")

    def stop(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=WAIT_LIMIT_S)

    def _ask(self, request: Request) -> Any:
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with urlopen(request, timeout=WAIT_LIMIT_S) as response:
                return json.load(response)
        except HTTPError as error:
            reply = {"status": error.code, **json.load(error)}
        # What went wrong is in the log only.
        assert reply["error"]["code"] != "INTERNAL_ERROR", self.logs()
        return reply


def environment(state_dir: Path, **more: str) -> dict[str, str]:
    """Of a viewer that knows nothing of the user's own jobs."""
    inherited = os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
    return os.environ | {"DLPROF_STATE_DIR": str(state_dir), "PYTHONPATH": inherited} | more


def start(words: Sequence[object], env: dict[str, str]) -> RunningViewer:
    """Start the command and wait until it says where it is.

    Args:
        words: Of the command line.
        env: Its environment.
    """
    # No pipe: it would not be emptied while the test goes on.
    log = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the viewer
    process = subprocess.Popen(
        [*COMMAND, "--port", "0", *map(str, words)],
        env=env,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    viewer = RunningViewer(process, line.split()[-1] if line else "", log)
    if "running at" not in line:
        code = process.wait(timeout=START_LIMIT_S)
        raise AssertionError(f"the viewer did not start ({code}): {line}{viewer.errors()}")
    return viewer


@contextmanager
def running(words: Sequence[object], env: dict[str, str]) -> Iterator[RunningViewer]:
    """A viewer for the length of the block; it must not leave anything behind."""
    viewer = start(words, env)
    family = psutil.Process(viewer.process.pid).children(recursive=True)
    try:
        yield viewer
    finally:
        if viewer.process.poll() is None:
            family = psutil.Process(viewer.process.pid).children(recursive=True)
            viewer.stop()
        _, alive = psutil.wait_procs(family, timeout=WAIT_LIMIT_S)
        for process in alive:
            process.kill()
        assert not alive, f"left behind: {alive}"


def free_port() -> int:
    """A port without a listener that the system does not assign to another process meanwhile.

    Those that it hands out lie in a range of their own. A connection that is tried again and again
    at a port of that range may even reach itself, and then the intended listener cannot use it.
    """
    first_ephemeral = int(_EPHEMERAL_PORTS.read_text().split()[0])
    # Not hypothesis's or a test's seeded numbers: two processes must not draw the same ports.
    draw = random.SystemRandom()
    while True:
        port = draw.randrange(_FIRST_PORT, first_ephemeral)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
