"""The same jobs over Redis, with a worker that somebody else runs."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.jobs.running import environment, running

SERVER = shutil.which("redis-server")

pytestmark = [
    pytest.mark.jobs,
    pytest.mark.slow,
    pytest.mark.skipif(SERVER is None, reason="no redis-server program"),
]


@pytest.fixture
def broker_url(tmp_path: Path) -> Iterator[str]:
    """A Redis of the test's own, which keeps nothing."""
    port = _free_port()
    words = [str(SERVER), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir"]
    server = subprocess.Popen([*words, str(tmp_path)], stdout=subprocess.DEVNULL)
    try:
        _wait_until_listening(port)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.terminate()
        server.wait(timeout=10)


@contextmanager
def _worker(env: dict[str, str], tmp_path: Path) -> Iterator[psutil.Process]:
    words = ["-m", "celery", "--app", "aggregator.celery_app", "worker", "--pool", "solo"]
    process = subprocess.Popen(
        [sys.executable, *words, "--loglevel", "WARNING"],
        env=env | {"DLPROF_JOB_RECORDER": "viewer.jobs.recorder:DatabaseRecorder"},
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(timeout=30)


def test_a_job_waits_for_a_worker_and_is_done_by_it(
    broker_url: str, database: Path, tmp_path: Path
) -> None:
    env = environment(tmp_path / "state", DLPROF_BROKER_URL=broker_url)
    with running([database], env) as viewer:
        assert not viewer.children("celery")
        job = viewer.ask_for_aggregation(iter_start=3)
        assert viewer.get(f"jobs/{job['id']}/")["state"] == "queued"

        with _worker(env, tmp_path):
            done = viewer.wait_for_end(job)

        assert done["state"] == "done"
        assert viewer.aggregation_ids() == [1, done["aggregation_id"]]


def test_a_broker_that_is_away_is_said_to_be(database: Path, tmp_path: Path) -> None:
    url = f"redis://127.0.0.1:{_free_port()}/0"
    env = environment(tmp_path / "state", DLPROF_BROKER_URL=url)
    with running([database], env) as viewer:
        before = time.monotonic()
        job = viewer.ask_for_aggregation(iter_start=3)

        assert job["state"] == "queued"
        assert job["message"].startswith("Waiting for the broker: ")
        assert time.monotonic() - before < 10
        assert viewer.post(f"jobs/{job['id']}/cancel/")["state"] == "cancelled"


def test_messages_are_json(broker_url: str, database: Path, tmp_path: Path) -> None:
    import redis

    env = environment(tmp_path / "state", DLPROF_BROKER_URL=broker_url)
    with running([database], env) as viewer:
        viewer.ask_for_aggregation(iter_start=3)

        client = redis.Redis.from_url(broker_url)
        (message,) = client.lrange("dlprof", 0, -1)

    text = str(message, "utf-8") if isinstance(message, bytes) else message
    assert '"content-type": "application/json"' in text
    assert str(database) not in text


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def _wait_until_listening(port: int) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("redis-server did not start")
