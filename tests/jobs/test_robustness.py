"""Killed processes, full disks and too many requests: with real processes.

No database corrupt, no aggregation half visible, every job in a state that is true at the end.
"""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.jobs.running import ENDED, WAIT_LIMIT_S, Job, environment, running
from tests.jobs.services import assert_sound, running_service
from tests.jobs.uploading import port_of, send_file, upload_head
from tests.jobs.workers import needs_redis

pytestmark = pytest.mark.jobs


def test_a_killed_worker_loses_nothing(database: Path, tmp_path: Path) -> None:
    with running_service("embedded", database, tmp_path, held=True) as service:
        job = service.begin(iter_start=3)
        waiting = service.viewer.ask_for_aggregation(iter_start=4)

        service.kill_worker()
        assert_sound(database)
        service.let_go()
        done = [service.viewer.wait_for_end(one) for one in (job, waiting)]

        assert [one["state"] for one in done] == ["done", "done"]
        assert len(service.viewer.aggregation_ids()) == 3
    assert_sound(database)


@needs_redis
def test_a_killed_redis_loses_no_job(database: Path, tmp_path: Path) -> None:
    with running_service("redis", database, tmp_path, held=True) as service:
        assert service.redis is not None
        job = service.begin(iter_start=3)
        waiting = [service.viewer.ask_for_aggregation(iter_start=start) for start in (4, 5)]

        service.redis.kill()
        assert service.viewer.get(f"jobs/{job['id']}/")["state"] == "running"
        late = service.viewer.ask_for_aggregation(iter_start=6)
        service.let_go()
        time.sleep(1.0)
        service.redis.start()

        ended = [service.viewer.wait_for_end(one) for one in (job, *waiting, late)]
        assert [one["state"] for one in ended] == ["done"] * 4
        assert len(service.viewer.aggregation_ids()) == 5
    assert_sound(database)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own; only root may make one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(disk)]
    if subprocess.run(words, check=False, capture_output=True).returncode:
        pytest.skip("no right to mount a file system")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def _fill(disk: Path, left: int) -> Path:
    filler = disk / "filler"
    free = shutil.disk_usage(disk).free
    # Where another process writes meanwhile there is less room, and the disk is full all the same.
    with suppress(OSError):
        filler.write_bytes(b"\0" * max(0, free - left))
    return filler


def test_a_disk_that_fills_up_and_is_cleared(database: Path, small_disk: Path) -> None:
    copy = small_disk / "dlprof_dldb.sqlite"
    shutil.copyfile(database, copy)
    # State, database and broker on the same full disk.
    env = environment(small_disk / "state", TMPDIR=str(small_disk))
    with running([copy], env) as viewer:
        viewer.worker()
        filler = _fill(small_disk, 64 * 1024)
        first = viewer.ask_for_aggregation(iter_start=3)
        ended = viewer.wait_for_end(first) if "id" in first else first
        assert ended["error"]["code"] in {"DATABASE_WRITE", "STATE_UNAVAILABLE"}
        assert viewer.aggregation_ids() == [1]
        assert_sound(copy)

        filler.unlink()
        job = viewer.ask_for_aggregation(iter_start=3)
        assert viewer.wait_for_end(job)["state"] == "done"
    assert_sound(copy)


def test_ten_people_at_once_get_their_aggregations(database: Path, tmp_path: Path) -> None:
    with running_service("embedded", database, tmp_path, held=False) as service:
        viewer, profile = service.viewer, service.viewer.profile_id()
        address = f"profiles/{profile}/aggregations/"

        def person(number: int) -> list[Job]:
            # Each wants one of their own, and one that all of them want.
            wanted = [{"iter_start": 1}, {"iter_start": 2, "iter_stop": 5 + number}]
            jobs = [viewer.post(address, request, client=f"p{number}") for request in wanted]
            return [viewer.wait_for(job, lambda now: now["state"] in ENDED) for job in jobs]

        with ThreadPoolExecutor(10) as pool:
            ended = [job for jobs in pool.map(person, range(10)) for job in jobs]

        assert {job["state"] for job in ended} == {"done"}
        assert len({job["aggregation_id"] for job in ended}) == 11
        assert len(viewer.aggregation_ids()) == 12
    assert_sound(database)


def test_web_server_killed_during_an_upload_keeps_nothing(
    database: Path, demo_profile: Path, tmp_path: Path
) -> None:
    """None of it is kept after the next upload, which becomes a profile."""
    data = demo_profile.read_bytes()
    incoming = tmp_path / "state" / "profiles" / "incoming"
    with running([database], environment(tmp_path / "state")) as viewer:
        with socket.create_connection(("127.0.0.1", port_of(viewer))) as connection:
            connection.sendall(upload_head("a.sqlite", len(data)) + data[:300_000])
            _wait(lambda: incoming.is_dir() and any(incoming.iterdir()))
            web = viewer.children("gunicorn")
            for process in web:
                process.kill()
            psutil.wait_procs(web, timeout=WAIT_LIMIT_S)

        upload = send_file(viewer, demo_profile)

        assert [path.read_bytes() for path in incoming.iterdir()] == [data]
        job = viewer.post("profiles/", {"upload": upload})
        assert viewer.wait_for_end(job)["state"] == "done"
    assert_sound(database)


def test_worker_survives_old_and_malformed_messages(database: Path, tmp_path: Path) -> None:
    env = environment(tmp_path / "state", TMPDIR=str(tmp_path))
    with running([database], env) as viewer:
        before = viewer.worker()
        job = viewer.wait_for_end(viewer.ask_for_aggregation(iter_start=3))
        (queue,) = tmp_path.glob("dlprofviewer-*/broker/queue")
        for number, text in enumerate(("{broken", "", "[]", "{}", _message({}), _message(None))):
            (queue / f"{number}_x.dlprof.msg").write_text(text)
        _wait(lambda: not list(queue.iterdir()))
        later = viewer.wait_for_end(viewer.ask_for_aggregation(iter_start=4))

        assert (job["state"], later["state"]) == ("done", "done")
        assert before.is_running(), "the same worker did them"


def _message(kwargs: object, task: str = "dlprof.job") -> str:
    """Encode a task as Celery and Kombu do in a list of Redis."""
    body = [[], kwargs, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]
    text = base64.b64encode(json.dumps(body).encode()).decode()
    task_id = uuid.uuid4().hex
    properties = {"delivery_tag": uuid.uuid4().hex, "delivery_mode": 2, "body_encoding": "base64",
                  "correlation_id": task_id, "priority": 0,
                  "delivery_info": {"exchange": "", "routing_key": "dlprof"}}  # fmt: skip
    headers = {"lang": "py", "task": task, "id": task_id, "root_id": task_id, "retries": 0,
               "timelimit": [None, None], "argsrepr": "()", "kwargsrepr": "{}"}  # fmt: skip
    return json.dumps({"body": text, "content-type": "application/json", "headers": headers,
                       "content-encoding": "utf-8", "properties": properties})  # fmt: skip


def _wait(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_LIMIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
