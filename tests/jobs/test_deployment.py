"""As it is deployed: behind a real nginx below a path, and the processes of the compose file."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPCookieProcessor, Request, build_opener, urlopen

import pytest

from tests.jobs.running import (
    REPOSITORY,
    WAIT_LIMIT_S,
    RunningViewer,
    environment,
    free_port,
    running,
)
from tests.jobs.workers import needs_redis, seen_workers, wait_until_listening, worker
from tests.packaging.containers import TOKEN, Stage, read_dockerfile, resolved_compose
from tests.packaging.pages import blocks

NGINX = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")

pytestmark = pytest.mark.jobs


@contextmanager
def _nginx(folder: Path, server: str) -> Iterator[int]:
    """A proxy with a configuration within ``http``, in which PORT stands for its port."""
    port = free_port()
    (folder / "nginx.conf").write_text(
        f"""
        pid {folder}/nginx.pid; error_log {folder}/error.log; daemon off; master_process off;
        events {{ worker_connections 64; }}
        http {{
            access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
            fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
            {server.replace("PORT", str(port))}
        }}
        """
    )
    process = subprocess.Popen([str(NGINX), "-c", str(folder / "nginx.conf"), "-p", str(folder)])
    try:
        wait_until_listening(port)
        yield port
    finally:
        process.terminate()
        process.wait(timeout=WAIT_LIMIT_S)


def _as_in_the_guide(viewer: RunningViewer) -> str:
    """The configuration of docs/deploy.md, without TLS and with the address of the viewer."""
    (server,) = blocks("docs/deploy.md", "nginx")
    server = re.sub(r"ssl_certificate\w* \S+;", "", server)
    for theirs, ours in (
        ("listen 443 ssl;", "listen 127.0.0.1:PORT;"),
        ("server_name profiles.example.org;", ""),
        ("proxy_pass http://10.0.0.4:8000;", f"proxy_pass {_address(viewer)};"),
    ):
        assert theirs in server
        server = server.replace(theirs, ours)
    return server


def _address(viewer: RunningViewer) -> str:
    return f"http://127.0.0.1:{urlsplit(viewer.url).port}"


def _status(url: str, method: str = "GET", token: str = "") -> tuple[int, str]:
    """Status of a reply, and the code of its error."""
    request = Request(url, method=method, headers={"Host": "profiles.example.org"})
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urlopen(request, timeout=WAIT_LIMIT_S) as reply:
            return reply.status, ""
    except HTTPError as error:
        return error.code, json.load(error)["error"]["code"]


@pytest.mark.skipif(NGINX is None, reason="no nginx program")
def test_page_works_below_a_path_behind_nginx(database: Path, tmp_path: Path) -> None:
    env = environment(tmp_path / "state", DLPROF_URL_PREFIX="/dlprof", DLPROF_TOKEN=TOKEN)
    with running([database], env) as viewer:
        server = _as_in_the_guide(viewer)
        with _nginx(tmp_path, server) as port:
            viewer.url, viewer.token = f"http://localhost:{port}/dlprof", TOKEN
            opener = build_opener(HTTPCookieProcessor())
            with opener.open(f"{viewer.url}/?token={TOKEN}", timeout=WAIT_LIMIT_S) as page:
                html = page.read().decode()
                assert page.url == f"{viewer.url}/"
                assert "Path=/dlprof/" in str(page.headers.get("Set-Cookie", "Path=/dlprof/"))
            job = viewer.ask_for_aggregation(iter_start=3)
            assert viewer.wait_for_end(job)["state"] == "done"

    if "not_built" not in html and 'name="dlprof-prefix"' in html:
        assert 'content="/dlprof"' in html
        assert 'src="/dlprof/static/' in html
        assert '"/static/' not in html


ADDRESSES = (
    ("GET", "/api/v1/profiles/", (200, "")),
    ("GET", "/metrics", (200, "")),
    ("DELETE", "/api/v1/profiles/nope/", (404, "PROFILE_NOT_SERVED")),
)
_PLAIN = "server { listen 127.0.0.1:PORT; location / { proxy_pass TARGET; HEADERS } }"


@pytest.mark.skipif(NGINX is None, reason="no nginx program")
def test_behind_a_proxy_of_the_same_machine_clients_need_the_token(
    database: Path, tmp_path: Path
) -> None:
    env = environment(tmp_path / "state", DLPROF_URL_PREFIX="/dlprof")
    with running(["--allowed-host", "profiles.example.org", database], env) as viewer:
        token = viewer.url.partition("?token=")[2]
        with _nginx(tmp_path, _as_in_the_guide(viewer)) as port:
            for method, path, answer in ADDRESSES:
                url = f"http://127.0.0.1:{port}/dlprof{path}"
                assert _status(url, method) == (401, "TOKEN_MISSING")
                assert _status(url, method, token) == answer


@pytest.mark.skipif(NGINX is None, reason="no nginx program")
def test_a_viewer_for_its_own_machine_answers_no_proxy(database: Path, tmp_path: Path) -> None:
    with running([database], environment(tmp_path / "state")) as viewer:
        assert "token" not in viewer.url
        for headers in ("", "proxy_set_header Host localhost;"):
            server = _PLAIN.replace("TARGET", _address(viewer)).replace("HEADERS", headers)
            with _nginx(tmp_path, server) as port:
                for method, path, _ in ADDRESSES:
                    found = _status(f"http://127.0.0.1:{port}{path}", method)
                    assert found == (403, "PROXY_WITHOUT_TOKEN")
        assert viewer.get("profiles/")["count"] == 1


@dataclass
class _Composed:
    """The services of the compose file as processes of this machine.

    Only addresses and folders are others: ``/data`` and ``/state`` lie in a folder, Redis has a
    free port and the viewer too.
    """

    folder: Path
    services: dict[str, Any]
    image: Stage
    redis_port: int

    def words(self, service: str, image: Stage | None = None) -> list[str]:
        """Entry point and command, the image's where the service has none."""
        own = self.services[service]
        entrypoint = own.get("entrypoint") or (image.words_of("ENTRYPOINT") if image else [])
        command = own.get("command") or (image.words_of("CMD") if image else [])
        return [self._here(word) for word in [*entrypoint, *command]]

    def environment(self, service: str) -> dict[str, str]:
        """What the image and the service set."""
        found = self.image.environment() | self.services[service]["environment"]
        return {name: self._here(value) for name, value in found.items()}

    def _here(self, word: str) -> str:
        if word in {"/data", "/state", "/uploads"}:
            return f"{self.folder}{word}"
        return word.replace("@redis:6379", f"@127.0.0.1:{self.redis_port}")

    def redis(self) -> subprocess.Popen[bytes]:
        words = [*self.words("redis"), "--port", str(self.redis_port), "--bind", "127.0.0.1"]
        process = subprocess.Popen(words, cwd=self.folder, stdout=subprocess.DEVNULL)
        wait_until_listening(self.redis_port)
        return process

    def redis_is_healthy(self) -> bool:
        kind, *words = self.services["redis"]["healthcheck"]["test"]
        assert kind == "CMD"
        check = [words[0], "-p", str(self.redis_port), *words[1:]]
        env = os.environ | self.services["redis"]["environment"]
        done = subprocess.run(check, env=env, capture_output=True, text=True, check=False)
        return "PONG" in done.stdout

    def worker_is_healthy(self) -> bool:
        kind, python, *words = self.services["worker"]["healthcheck"]["test"]
        assert (kind, python) == ("CMD", "python")
        env = os.environ | self.environment("worker")
        done = subprocess.run([sys.executable, *words], env=env, capture_output=True, check=False)
        return done.returncode == 0

    def web_is_healthy(self, port: str) -> bool:
        python, *words = self.image.health_command()
        assert python == "python"
        words = [word.replace(", 8000", f", {port}") for word in words]
        return subprocess.run([sys.executable, *words], check=False).returncode == 0


@pytest.fixture
def composed(tmp_path: Path) -> Iterator[_Composed]:
    for name in ("data", "state", "uploads"):
        (tmp_path / name).mkdir()
    services = resolved_compose(tmp_path / "data")["services"]
    found = _Composed(tmp_path, services, read_dockerfile()[-1], free_port())
    redis = found.redis()
    try:
        yield found
    finally:
        redis.kill()
        redis.wait()


@needs_redis
def test_processes_of_the_compose_file_are_healthy(
    composed: _Composed, database: Path, demo_profile: Path, tmp_path: Path
) -> None:
    """Each service's own words, environment and health check; two workers, as with --scale."""
    shutil.copyfile(database, tmp_path / "data" / "run.sqlite")
    shutil.copyfile(demo_profile, tmp_path / "data" / "export.sqlite")
    assert composed.redis_is_healthy()
    assert composed.worker_is_healthy()
    program, *web = composed.words("web", composed.image)
    celery, *worker_words = composed.words("worker", composed.image)
    assert (program, celery) == ("dlprofviewer", "celery")
    env = environment(tmp_path / "state", **composed.environment("web"))
    more: dict[str, Any] = {**composed.environment("worker")}
    # The image names a state, which a worker does not look at.
    state = Path(more["DLPROF_STATE_DIR"]) / "of-a-worker"
    more["DLPROF_STATE_DIR"] = str(state)
    broker = more.pop("DLPROF_BROKER_URL")
    assert worker_words[:3] == ["--app", "aggregator", "worker"]
    with ExitStack() as stack:
        viewer = stack.enter_context(running(web, env))
        workers = [
            stack.enter_context(worker(broker, tmp_path / name, words=worker_words[3:], **more))
            for name in ("w1", "w2")
        ]
        client = _WithToken(viewer, TOKEN)
        assert composed.web_is_healthy(client.port)
        profile = client.get("profiles/")["results"][0]["id"]
        jobs = [
            client.post(f"profiles/{profile}/aggregations/", {"iter_start": start})
            for start in range(1, 5)
        ]
        jobs.append(client.post("profiles/", {"path": str(tmp_path / "data" / "export.sqlite")}))
        ended = [viewer.wait_for_end(job) for job in jobs]
        assert {job["state"] for job in ended} == {"done"}
        assert not state.exists()
        # What was imported lies in the volume that web and workers share, not in a state.
        assert list((tmp_path / "uploads").rglob("*dldb*.sqlite"))
        # A worker that is asked to stop ends by itself, and need not be killed after the time that
        # the file gives it.
        assert composed.services["worker"]["stop_grace_period"]
        # The other one may have done all jobs before this one began.
        wait_for_workers(tmp_path / "state", len(workers))
        workers[0].terminate()
        assert workers[0].wait(timeout=WAIT_LIMIT_S) == 0
        viewer.stop()
        assert not composed.web_is_healthy(client.port)


def wait_for_workers(state: Path, count: int) -> None:
    """Wait until so many workers have reported that they are running."""
    deadline = time.monotonic() + WAIT_LIMIT_S
    while seen_workers(state) < count:
        assert time.monotonic() < deadline
        time.sleep(0.1)


class _WithToken:
    """Asks as a script with the bearer token does."""

    def __init__(self, viewer: RunningViewer, token: str) -> None:
        self.port = viewer.url.split(":")[2].split("/")[0]
        viewer.url = f"http://127.0.0.1:{self.port}"
        viewer.get = self.get  # type: ignore[method-assign]
        self._base = f"{viewer.url}/api/v1/"
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def get(self, path: str) -> Any:
        return self._ask(Request(self._base + path, headers=self._headers))

    def post(self, path: str, body: object) -> Any:
        data = json.dumps(body).encode()
        return self._ask(Request(self._base + path, data, self._headers))

    @staticmethod
    def _ask(request: Request) -> Any:
        with urlopen(request, timeout=WAIT_LIMIT_S) as response:
            return json.load(response)


def test_celery_finds_the_application_by_the_package_name() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "celery", "-A", "aggregator", "report"],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)}, cwd="/",
        capture_output=True, text=True, check=False, timeout=WAIT_LIMIT_S,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert "dlprof" in done.stdout or "software" in done.stdout
