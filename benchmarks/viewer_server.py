"""A viewer to be measured: its start, one kept connection to it, the CPU time that it takes."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit


@dataclass(frozen=True)
class Viewer:
    """A running viewer.

    Attributes:
        url: Its address.
        pid: Its first process; 0: it runs somewhere else.
    """

    url: str
    pid: int = 0

    def cpu_ms(self) -> float:
        """CPU time of all its threads so far, the keeper of the jobs' left out; 0: unknown."""
        total_ns = 0
        for pid in self._web_processes():
            for task in Path(f"/proc/{pid}/task").iterdir():
                with contextlib.suppress(OSError):
                    total_ns += int((task / "schedstat").read_text().split()[0])
        return total_ns / 1e6

    def _web_processes(self) -> list[int]:
        """Gunicorn's workers, which are children of a child that was started with its name."""
        if not self.pid:
            return []
        return [
            worker
            for child in _children(self.pid)
            if b"gunicorn" in _command_line(child)
            for worker in _children(child)
        ]


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _command_line(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


@dataclass(frozen=True)
class Answer:
    """One answer.

    Attributes:
        first_ms: Until its first byte came.
        elapsed_ms: Until its last byte came.
        body: Its bytes.
    """

    first_ms: float
    elapsed_ms: float
    body: bytes

    @property
    def json(self) -> Any:
        """What it says."""
        return json.loads(self.body)


class Api:
    """One kept connection to the viewer, as a browser has."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port)

    def get(self, path: str, **params: Any) -> Any:
        """What an address says."""
        return self.ask(path, params).json

    def ask(self, path: str, params: dict[str, Any], *, accept: str = "gzip") -> Answer:
        """An answer and how long it took."""
        query = f"?{urlencode(params)}" if params else ""
        headers = {"Accept-Encoding": accept} if accept != "gzip" else {}
        start = time.perf_counter()
        self._connection.request("GET", f"/api/v1/{quote(path)}{query}", headers=headers)
        answer = self._connection.getresponse()
        first = time.perf_counter()
        body = answer.read()
        end = time.perf_counter()
        if answer.status != http.client.OK:
            raise SystemExit(f"{path}{query}: {answer.status} {body[:300]!r}")
        return Answer((first - start) * 1e3, (end - start) * 1e3, body)


@contextlib.contextmanager
def running(database: str) -> Iterator[Viewer]:
    """A viewer of a database, for as long as the block runs."""
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
            yield Viewer(found[1], process.pid)
        finally:
            process.terminate()
            process.wait(60)


@contextlib.contextmanager
def started(database: str) -> Iterator[str]:
    """The address of a viewer of a database, for as long as the block runs."""
    with running(database) as viewer:
        yield viewer.url


def forget_file(path: Path) -> None:
    """Let the system drop what it holds of a file in memory, as after a restart."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
