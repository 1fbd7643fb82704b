"""Install the wheel with each extra in a new environment and use it: ``check_extras.py WHEEL``.

The environments get nothing else, not even the pinned versions of the development: what an extra
forgets to name is missing here. For the viewer a Redis server with a password is started, and a
worker does an aggregation. Ends with 1 and one sentence if something is wrong.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import json
import lzma
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "demo" / "resnet50_amp.sqlite.xz"
PASSWORD = "a-password-of-this-check"  # noqa: S105 - of a server that lives as long as the check
LIMIT_S = 300
_INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "check", "version": "1"},
    },
}
#: The library in the wheel is found, fits this machine, and no compiler is asked for.
_COLLECTOR = """
import ctypes, os, dlprof_nvtx
from profiler_cli.capture.native import build_library
os.environ["PATH"] = ""
library = build_library()
assert library.is_relative_to(os.path.dirname(dlprof_nvtx.__file__)), library
ctypes.CDLL(str(library)).dlprof_collector_begin
"""
_NOTEBOOK = """
from dlprof_client import connect
run = connect("dlprof_dldb.sqlite")
assert len(run.table("ops")) > 10
"""


class CheckError(Exception):
    """What an extra lacks, in one sentence."""


class Environment:
    """A new environment with the wheel and one of its extras, and a folder with a database."""

    def __init__(self, wheel: Path, extra: str, folder: Path) -> None:
        self.folder = folder
        self.binaries = folder / "environment" / "bin"
        self._run(sys.executable, "-m", "venv", str(folder / "environment"))
        self.python("-m", "pip", "install", "-q", f"{wheel}[{extra}]" if extra else str(wheel))
        with lzma.open(DEMO) as packed, (folder / "profile.sqlite").open("wb") as unpacked:
            shutil.copyfileobj(packed, unpacked)

    def analyze(self) -> None:
        """Make ``dlprof_dldb.sqlite`` of the bundled profile."""
        self.dlprof("--database=profile.sqlite", "-v=minimal")

    def python(self, *words: str) -> str:
        """Return the output of the environment's Python."""
        return self._run(str(self.binaries / "python"), *words)

    def dlprof(self, *words: str, text: str = "") -> str:
        """Return the output of the installed command."""
        return self._run(str(self.binaries / "dlprof"), *words, text=text)

    def _run(self, *words: str, text: str = "") -> str:
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=_variables(),
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        if done.returncode:
            raise CheckError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
        return done.stdout

    @contextmanager
    def started(self, *words: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
        """Run a process for the length of the block."""
        with (self.folder / f"{Path(words[0]).name}.log").open("w") as log:
            process = subprocess.Popen(
                words,
                cwd=self.folder,
                env=_variables() | variables,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
            try:
                yield process
            finally:
                process.terminate()
                process.wait(LIMIT_S)


def _variables() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DLPROF_")}
    kept.pop("PYTHONPATH", None)
    return kept


def check_base(environment: Environment) -> None:
    """Analyze a profile, write a report and load the collector."""
    environment.dlprof("--database=profile.sqlite", "--reports=summary")
    environment.python("-c", _COLLECTOR)


def check_viewer(environment: Environment) -> None:
    """Serve a profile and let a worker of its own aggregate it, by way of Redis."""
    environment.analyze()
    port = _free_port()
    redis = ("redis-server", "--port", str(port), "--save", "", "--requirepass", PASSWORD)
    broker = f"redis://:{PASSWORD}@127.0.0.1:{port}/0"
    state = str(environment.folder / "state")
    programs = environment.binaries
    worker = (str(programs / "celery"), "--app", "aggregator", "worker", "--loglevel", "INFO")
    viewer = (str(programs / "dlprofviewer"), "--port=0", "dlprof_dldb.sqlite")
    with (
        environment.started(*redis),
        environment.started(*worker, DLPROF_BROKER_URL=broker),
        environment.started(*viewer, DLPROF_BROKER_URL=broker, DLPROF_STATE_DIR=state) as server,
    ):
        assert server.stdout is not None
        first = server.stdout.readline().split()
        if not first:
            raise CheckError("dlprofviewer did not start; its log:\n" + _log(environment))
        url = f"{first[-1]}/api/v1"
        (profile,) = _ask(f"{url}/profiles/")["results"]
        address = f"{url}/profiles/{profile['id']}/aggregations/"
        job = _ask(address, {"iter_start": 3, "iter_stop": 5})
        deadline = time.monotonic() + LIMIT_S
        while job["state"] not in {"done", "failed", "cancelled"}:
            if time.monotonic() > deadline:
                raise CheckError(f"The job is still {job['state']}.")
            time.sleep(0.2)
            job = _ask(f"{url}/jobs/{job['id']}/")
        if job["state"] != "done":
            raise CheckError(f"The job {job['state']}: {job}.")
        health = _ask(f"{first[-1]}/healthz?deep=1")
        if health["status"] != "ok":
            raise CheckError(f"The viewer is not healthy: {health}.")


def _log(environment: Environment) -> str:
    return (environment.folder / "dlprofviewer.log").read_text()


def _ask(url: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=LIMIT_S) as reply:
        return json.load(reply)


def check_mcp(environment: Environment) -> None:
    """Answer an assistant's first message."""
    environment.analyze()
    reply = environment.dlprof("mcp", "dlprof_dldb.sqlite", text=json.dumps(_INITIALIZE) + "\n")
    if "serverInfo" not in json.loads(reply.splitlines()[0])["result"]:
        raise CheckError(f"dlprof mcp answers {reply!r}.")


def check_notebook(environment: Environment) -> None:
    """Read the ops of a database as a frame."""
    environment.analyze()
    environment.python("-c", _NOTEBOOK)


def check_url(environment: Environment) -> None:
    """Analyze a profile at an address."""
    handler = functools.partial(_Quiet, directory=str(environment.folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/profile.sqlite"
        environment.dlprof(f"--database={address}", "-v=minimal")
        server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Print nothing."""


def check_dask(environment: Environment) -> None:
    """Summarize a database on a cluster of this machine."""
    environment.analyze()
    environment.dlprof("summarize", "dlprof_dldb.sqlite", "--executor=dask")


def check_markers(environment: Environment) -> None:
    """Import what marks ranges in the profiled process."""
    environment.python("-c", "import nvtx, dlprof_nvtx")


CHECKS: dict[str, Callable[[Environment], None]] = {
    "": check_base,
    "viewer": check_viewer,
    "mcp": check_mcp,
    "notebook": check_notebook,
    "url": check_url,
    "dask": check_dask,
    "pytorch": check_markers,
    "tensorflow": check_markers,
}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def main() -> int:
    """Check the extras that are named, or all; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("extras", nargs="*", help="as in pyproject.toml; base: none of them")
    options = parser.parse_args()
    for name in options.extras or [extra or "base" for extra in CHECKS]:
        extra = "" if name == "base" else name
        with tempfile.TemporaryDirectory(prefix="dlprof-extra-") as folder:
            try:
                CHECKS[extra](Environment(options.wheel.resolve(), extra, Path(folder)))
            except (CheckError, OSError, KeyError, ValueError) as error:
                print(f"{name}: {error}", file=sys.stderr)
                return 1
        print(f"{name}: ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
