"""Operators can rely on reloads without loss, true health and metrics, and logs that are seen."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from aggregator.system.log_lines import shortened, without_token
from tests.jobs.running import WAIT_LIMIT_S, RunningViewer, environment, running
from tests.jobs.services import running_service
from tests.jobs.uploading import UPLOAD_TYPE
from tests.jobs.workers import needs_redis

pytestmark = pytest.mark.jobs


_PAUSE_S = 0.02


def _wait(is_so: Callable[[], object], limit_s: float = WAIT_LIMIT_S) -> None:
    deadline = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


# --- reload ---------------------------------------------------------------------------------------


class _Asking:
    """Asks again and again, each time on a connection of its own, until it is stopped."""

    def __init__(self, viewer: RunningViewer) -> None:
        self._url = f"{viewer.url}/api/v1/profiles/"
        self._stop = threading.Event()
        self.answered = 0
        self.failures: list[str] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> _Asking:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with urlopen(self._url, timeout=WAIT_LIMIT_S) as response:
                    assert json.load(response)["count"] == 1
                self.answered += 1
            except (OSError, http.client.HTTPException, AssertionError) as error:
                self.failures.append(repr(error))
            self._stop.wait(_PAUSE_S)


class _SlowUpload:
    """An upload that is sent in two halves."""

    def __init__(self, viewer: RunningViewer) -> None:
        self._half = b"x" * 50_000
        self._connection = http.client.HTTPConnection(
            urlsplit(viewer.url).netloc, timeout=WAIT_LIMIT_S
        )
        self._connection.putrequest("POST", "/api/v1/uploads/?file_name=slow.sqlite")
        self._connection.putheader("Content-Type", UPLOAD_TYPE)
        self._connection.putheader("Content-Length", str(2 * len(self._half)))
        self._connection.endheaders(self._half)

    def finish(self) -> Any:
        self._connection.send(self._half)
        return json.load(self._connection.getresponse())


@needs_redis
def test_a_reload_loses_no_request_and_no_job(database: Path, tmp_path: Path) -> None:
    with running_service("redis", database, tmp_path, held=True) as found:
        viewer = found.viewer
        job = found.begin(iter_start=3)
        waiting = viewer.ask_for_aggregation(iter_start=4)
        _, before = sorted(viewer.children("gunicorn"), key=lambda one: one.create_time())
        old_worker = found.get_worker()
        upload = _SlowUpload(viewer)
        with _Asking(viewer) as asking:
            viewer.process.send_signal(signal.SIGUSR1)
            old_worker.send_signal(signal.SIGHUP)
            _wait(lambda: len(viewer.children("gunicorn")) == 3)
            # Longer than an ordinary end gives to requests.
            time.sleep(5)
            assert viewer.get(f"jobs/{job['id']}/")["state"] == "running"
            assert upload.finish()["size_bytes"] == 100_000
            found.let_go()
            done = viewer.wait_for_end(job)
            psutil.wait_procs([before, old_worker], timeout=WAIT_LIMIT_S)
            # By the new process, too.
            answered = asking.answered
            _wait(lambda: asking.failures or asking.answered > answered + 5)
        assert asking.failures == []
        assert not before.is_running()
        assert not old_worker.is_running()
        # Not given back: the same worker did it to its end.
        assert (done["state"], done["started_at"]) == ("done", job["started_at"])
        found.start_worker()
        assert viewer.wait_for_end(waiting)["state"] == "done"


# --- health ---------------------------------------------------------------------------------------


def _health(viewer: RunningViewer) -> tuple[int, dict[str, str]]:
    try:
        with urlopen(f"{viewer.url}/healthz?deep=1", timeout=WAIT_LIMIT_S) as response:
            return response.status, json.load(response)
    except HTTPError as error:
        return error.code, json.load(error)


def test_health_reports_a_worker_that_hangs(database: Path, tmp_path: Path) -> None:
    with running([database], environment(tmp_path / "state")) as viewer:
        found = viewer.worker()
        _wait(lambda: _health(viewer)[1]["worker"] == "idle")
        found.suspend()
        try:
            _wait(lambda: _health(viewer)[1]["worker"] == "none")
        finally:
            found.resume()
        _wait(lambda: _health(viewer)[1]["worker"] == "idle")


# --- metrics --------------------------------------------------------------------------------------


def _requests(viewer: RunningViewer) -> float:
    with urlopen(f"{viewer.url}/metrics", timeout=WAIT_LIMIT_S) as response:
        families = text_string_to_metric_families(response.read().decode())
    return sum(
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == "dlprof_request_seconds_count"
        and sample.labels["area"] == "/api/v1/profiles"
    )


def test_metrics_are_those_of_all_web_processes(database: Path, tmp_path: Path) -> None:
    env = environment(tmp_path / "state", DLPROF_WEB_WORKERS="3")
    with running([database], env) as viewer:
        _wait(lambda: len(viewer.children("gunicorn")) == 4)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: viewer.get("profiles/"), range(60)))

        assert {_requests(viewer) for _ in range(10)} == {60.0}

        # What an ended process counted stays counted.
        web = sorted(viewer.children("gunicorn"), key=lambda one: one.create_time())
        web[1].kill()
        psutil.wait_procs([web[1]], timeout=WAIT_LIMIT_S)
        viewer.get("profiles/")
        assert {_requests(viewer) for _ in range(10)} == {61.0}


# --- logs -----------------------------------------------------------------------------------------


def test_json_logs_are_written_to_standard_error(database: Path, tmp_path: Path) -> None:
    """Each line is an object, whichever process wrote it, and none of them holds the token."""
    token = "not-to-be-seen-anywhere"
    env = environment(tmp_path / "state", DLPROF_LOG_FORMAT="json", DLPROF_TOKEN=token)
    env |= {"DLPROF_BROKER_URL": "redis://127.0.0.1:1/0"}
    with running(["--bind", "0.0.0.0", database], env) as viewer:
        port = int(viewer.url.split(":")[2].partition("/")[0])
        for line in (
            f"GET /?token={token} HTTP/9.9",
            f"GET / HTTP/1.1\r\nHost: localhost\r\nBad {token}: x",
            f"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization : Bearer {token}",
        ):
            with socket.create_connection(("127.0.0.1", port), timeout=WAIT_LIMIT_S) as connection:
                connection.sendall(f"{line}\r\n\r\n".encode())
                assert connection.recv(100).startswith(b"HTTP/1.1 400")
        _wait(lambda: "the broker is away" in viewer.errors())
        web = sorted(viewer.children("gunicorn"), key=lambda one: one.create_time())
        web[-1].kill()
        _wait(lambda: "SIGKILL" in viewer.errors())
        viewer.stop()
        said = viewer.errors().splitlines()

    loggers = {json.loads(line)["logger"] for line in said}
    assert loggers >= {"viewer.jobs.keeper", "gunicorn.error"}
    assert [line for line in said if "Invalid" in line]
    assert not [line for line in said if token in line]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("GET /?token=abcdef&x=1", "GET /?token=...&x=1"),
        ("Authorization: Bearer abcdef", "Authorization: Bearer ..."),
        ("{'x': 'secret-one'}", "{'x': '...'}"),
        ("the token is missing", "the token is missing"),
    ],
)
def test_a_token_in_a_line_is_hidden(text: str, plain: str) -> None:
    assert without_token(text, {"DLPROF_TOKEN": "secret-one"}) == plain
    assert without_token("an empty one", {"DLPROF_TOKEN": ""}) == "an empty one"


def test_a_long_message_is_cut_in_the_middle() -> None:
    assert shortened("x" * 2_000) == "x" * 2_000
    assert shortened("a" * 33_000 + "b") == "a" * 1_000 + " ... " + "a" * 999 + "b"


def test_the_log_of_a_server_that_does_not_start_is_shown_once(
    database: Path, tmp_path: Path
) -> None:
    from tests.jobs.running import COMMAND

    env = environment(tmp_path / "state", DLPROF_LOG_FORMAT="json", DLPROF_WEB_THREADS="many")
    done = subprocess.run(
        [*COMMAND, "--port", "0", str(database)],
        env=env, capture_output=True, text=True, check=False, timeout=WAIT_LIMIT_S,
    )  # fmt: skip

    assert done.returncode == 3
    assert done.stderr.count("invalid literal") == 1
    assert "dlprofviewer: error: The web server did not start." in done.stderr
