"""As it is deployed: behind a real nginx below a path, and the processes of the compose file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import yaml

from tests.jobs.running import REPOSITORY, RunningViewer, environment, free_port, running
from tests.jobs.workers import Redis, needs_redis, wait_until_listening, worker

NGINX = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
COMPOSE = REPOSITORY / "docker-compose.yml"

pytestmark = [pytest.mark.slow, pytest.mark.jobs]


@contextmanager
def _nginx(folder: Path, upstream: str, *, keeps_prefix: bool) -> Iterator[str]:
    """A proxy as docs/deploy.md configures it."""
    port = free_port()
    target = upstream if keeps_prefix else f"{upstream}/"
    (folder / "nginx.conf").write_text(
        f"""
        pid {folder}/nginx.pid; error_log {folder}/error.log; daemon off; master_process off;
        events {{ worker_connections 64; }}
        http {{
            access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
            fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
            server {{
                listen 127.0.0.1:{port};
                location /dlprof/ {{
                    proxy_pass {target};
                    proxy_set_header Host $host:{port};
                    client_max_body_size 16m; proxy_request_buffering off;
                }}
            }}
        }}
        """
    )
    process = subprocess.Popen([str(NGINX), "-c", str(folder / "nginx.conf"), "-p", str(folder)])
    try:
        wait_until_listening(port)
        yield f"http://localhost:{port}/dlprof"
    finally:
        process.terminate()
        process.wait(timeout=10)


@pytest.mark.skipif(NGINX is None, reason="no nginx program")
@pytest.mark.parametrize("keeps_prefix", [True, False])
def test_below_a_path_behind_nginx(database: Path, tmp_path: Path, keeps_prefix: bool) -> None:
    env = environment(tmp_path / "state", DLPROF_URL_PREFIX="/dlprof")
    with running([database], env) as viewer:
        local = viewer.url.replace("localhost", "127.0.0.1")
        with _nginx(tmp_path, local, keeps_prefix=keeps_prefix) as url:
            viewer.url = url
            with urlopen(f"{url}/", timeout=10) as page:
                html = page.read().decode()
                assert "Path=/dlprof/" in str(page.headers.get("Set-Cookie", "Path=/dlprof/"))
            job = viewer.ask_for_aggregation(iter_start=3)
            assert viewer.wait_for_end(job)["state"] == "done"

    if "not_built" not in html and 'name="dlprof-prefix"' in html:
        assert 'content="/dlprof"' in html
        assert 'src="/dlprof/static/' in html
        assert '"/static/' not in html


@pytest.fixture
def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return found


def test_the_compose_file_is_sound(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert set(services) == {"web", "worker", "redis"}
    for service in services.values():
        assert {"image", "build"} & set(service)
        for name in service.get("depends_on", {}):
            assert "healthcheck" in services[name]
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in compose["volumes"] or source.startswith(("$", ".", "/"))
    # A worker gets the broker and the profiles, not the state and not the token.
    assert set(services["worker"]["environment"]) == {"DLPROF_BROKER_URL", "DLPROF_UPLOAD_DIR"}
    assert not [volume for volume in services["worker"]["volumes"] if "state" in volume]
    assert services["web"]["ports"] == ["127.0.0.1:8000:8000"]


@needs_redis
def test_the_processes_of_the_compose_file(
    compose: dict[str, Any], database: Path, demo_profile: Path, tmp_path: Path
) -> None:
    """Each service's own words and environment, with this machine's addresses and folders."""
    services = compose["services"]
    data = tmp_path / "data"
    data.mkdir()
    shutil.copyfile(database, data / "run.sqlite")
    (tmp_path / "redis").mkdir()
    with Redis(tmp_path / "redis") as redis:
        here = {"redis://redis:6379/0": redis.url, "/data/uploads": str(data / "uploads")}
        named = {name: here.get(value, "a-secret") for name, value in
                 services["web"]["environment"].items()}  # fmt: skip
        env = environment(tmp_path / "state", **named)
        # The image's own command.
        words = ["--bind", "0.0.0.0", data]
        assert services["worker"]["entrypoint"] == ["celery", "--app", "aggregator", "worker"]
        more: dict[str, Any] = {
            name: here[value] for name, value in services["worker"]["environment"].items()
        }
        with (
            running(words, env) as viewer,
            worker(redis.url, tmp_path / "w1", words=services["worker"]["command"], **more),
            worker(redis.url, tmp_path / "w2", words=services["worker"]["command"], **more),
        ):
            client = _WithToken(viewer, "a-secret")
            profile = client.get("profiles/")["results"][0]["id"]
            jobs = [
                client.post(f"profiles/{profile}/aggregations/", {"iter_start": start})
                for start in range(1, 5)
            ]
            ended = [
                viewer.wait_for(job, lambda now: now["state"] in {"done", "failed"}) for job in jobs
            ]
            assert {job["state"] for job in ended} == {"done"}


class _WithToken:
    """Asks as a script with the bearer token does."""

    def __init__(self, viewer: RunningViewer, token: str) -> None:
        port = viewer.url.split(":")[2].split("/")[0]
        viewer.url = f"http://127.0.0.1:{port}"
        viewer.get = self.get  # type: ignore[method-assign]
        self._base = f"{viewer.url}/api/v1/"
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def get(self, path: str) -> Any:
        with urlopen(Request(self._base + path, headers=self._headers), timeout=30) as response:
            return json.load(response)

    def post(self, path: str, body: object) -> Any:
        data = json.dumps(body).encode()
        with urlopen(Request(self._base + path, data, self._headers), timeout=30) as response:
            return json.load(response)


def test_celery_finds_the_application_by_the_package_name() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "celery", "-A", "aggregator", "report"],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)}, cwd="/",
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert "dlprof" in done.stdout or "software" in done.stdout
