"""A viewer to be measured: its start, one persistent connection to it, its CPU time."""

from __future__ import annotations

import argparse
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
    """A running viewer."""

    url: str  # Its address.
    pid: int = 0  # Its first process; 0: it runs somewhere else.

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
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    return []


def _command_line(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


@dataclass(frozen=True)
class Answer:
    """One answer."""

    first_ms: float  # Until its first byte came.
    elapsed_ms: float  # Until its last byte came.
    body: bytes  # Its bytes.

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class Api:
    """One persistent connection to the viewer, as a browser has."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port)

    def get(self, path: str, **params: Any) -> Any:
        """Return the JSON of an address."""
        return self.ask(path, params).json

    def ask(self, path: str, params: dict[str, Any], *, accept: str = "gzip") -> Answer:
        """Return the request an address; return the answer with its times."""
        query = f"?{urlencode(params)}" if params else ""
        headers = {"Accept-Encoding": accept} if accept != "gzip" else {}
        start = time.perf_counter()
        self._connection.request("GET", f"/api/v1/{quote(path)}{query}", headers=headers)
        answer = self._connection.getresponse()
        first = time.perf_counter()
        body = answer.read()
        end = time.perf_counter()
        # 422 is the reason why this profile has no such answer, as that it has a single rank.
        if answer.status not in {http.client.OK, http.client.UNPROCESSABLE_ENTITY}:
            raise SystemExit(f"{path}{query}: {answer.status} {body[:300]!r}")
        return Answer((first - start) * 1e3, (end - start) * 1e3, body)

    def post(self, path: str, body: object) -> Any:
        """Post a body to an address; return the reply's JSON."""
        headers = {"Content-Type": "application/json"}
        self._connection.request("POST", f"/api/v1/{quote(path)}", json.dumps(body), headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status >= http.client.BAD_REQUEST:
            raise SystemExit(f"{path}: {answer.status} {content[:300]!r}")
        return json.loads(content)


def viewer_parser(doc: str | None, rounds: int, title: str) -> argparse.ArgumentParser:
    """Return a parser of the options that all benchmarks of the viewer have."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("database", type=Path, help="database to start a viewer on")
    parser.add_argument("--rounds", type=int, default=rounds, help="how often each is done")
    parser.add_argument("--results", type=Path, help="Markdown file to write the figures to")
    parser.add_argument("--title", default=title, help="heading of the figures there")
    return parser


@contextlib.contextmanager
def running(database: str, **variables: str) -> Iterator[Viewer]:
    """Run a viewer of a database during the block, with further environment variables."""
    with tempfile.TemporaryDirectory() as state:
        process = subprocess.Popen(
            [sys.executable, "-m", "profiler_cli.dlprofviewer", "--port", "0", database],
            env=os.environ | {"DLPROF_STATE_DIR": state, "PYTHONUNBUFFERED": "1"} | variables,
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
