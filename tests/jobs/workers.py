"""Workers as they run on another host: another folder, another home, nothing but the broker."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self

import psutil
import pytest

from tests.jobs.running import REPOSITORY, WAIT_LIMIT_S, free_port

SERVER = shutil.which("redis-server")
needs_redis = pytest.mark.skipif(SERVER is None, reason="no redis-server program")
HOLD = "DLPROF_TEST_HOLD"


class Redis:
    """A Redis server that can be killed and started again on its port."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        words = [str(SERVER), "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        self._process = subprocess.Popen(
            [*words, "--dir", str(self._folder)], stdout=subprocess.DEVNULL
        )
        wait_until_listening(self.port)

    def kill(self) -> None:
        """End it as kill -9 does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=WAIT_LIMIT_S)
            self._process = None

    def client(self) -> Any:
        import redis

        return redis.Redis.from_url(self.url, decode_responses=True)


def remote_environment(broker_url: str, home: Path) -> dict[str, str]:
    """What a worker on another host has: the program, and the broker's address."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("DLPROF_")}
    env |= {"HOME": str(home), "PYTHONPATH": str(REPOSITORY), "DLPROF_BROKER_URL": broker_url}
    for name in ("XDG_STATE_HOME", "DJANGO_SETTINGS_MODULE"):
        env.pop(name, None)
    return env


@contextmanager
def worker(
    broker_url: str,
    home: Path,
    *,
    hold: Path | None = None,
    words: Sequence[str] = (),
    **more: str,
) -> Iterator[psutil.Process]:
    """``celery -A aggregator worker``, with its own folder and home."""
    home.mkdir(exist_ok=True)
    env = remote_environment(broker_url, home) | more
    if hold is not None:
        folder = home / "held"
        folder.mkdir(exist_ok=True)
        shutil.copyfile(Path(__file__).with_name("held_engine.py"), folder / "sitecustomize.py")
        env |= {"PYTHONPATH": f"{folder}:{REPOSITORY}", HOLD: str(hold)}
    with (home / "worker.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "aggregator", "worker", *words],
            env=env,
            cwd=home,
            stdout=log,
            stderr=log,
        )
    try:
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        try:
            # It may wait 20 s for an answer to its claim from a keeper that was killed meanwhile.
            process.wait(timeout=WAIT_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


def seen_workers(state: Path) -> int:
    """Number of workers in the state of a viewer."""
    with closing(sqlite3.connect(state / "viewer.sqlite3", timeout=WAIT_LIMIT_S)) as connection:
        found: int = connection.execute("SELECT count(*) FROM jobs_seenworker").fetchone()[0]
        return found


def wait_until_listening(port: int) -> None:
    deadline = time.monotonic() + WAIT_LIMIT_S
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"no process listens on {port}")
