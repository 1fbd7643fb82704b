"""The same jobs over Redis, with a worker in a process of its own."""

from __future__ import annotations

import base64
import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.jobs.running import WAIT_LIMIT_S, RunningViewer, environment, free_port, running
from tests.jobs.workers import Redis, needs_redis, remote_environment, worker

pytestmark = [pytest.mark.jobs, needs_redis]


@dataclass
class Elsewhere:
    """A viewer over Redis without a worker of its own; tests start those that they need."""

    viewer: RunningViewer
    redis: Redis
    database: Path
    exports: Path  # Folder of files that it may import.


@pytest.fixture(scope="module")
def elsewhere(
    demo_database: Path, demo_profile: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Elsewhere]:
    folder = tmp_path_factory.mktemp("over-redis")
    database, exports = folder / "dlprof_dldb.sqlite", folder / "exports"
    shutil.copyfile(demo_database, database)
    exports.mkdir()
    shutil.copyfile(demo_profile, exports / "run.sqlite")
    with Redis(exports) as redis:
        env = environment(
            folder / "state",
            DLPROF_BROKER_URL=redis.url,
            DLPROF_PROFILE_FOLDERS=str(exports),
            DLPROF_UPLOAD_DIR=str(exports / "stored"),
        )
        with running([database], env) as viewer:
            yield Elsewhere(viewer, redis, database, exports)


def test_a_job_waits_for_a_worker_and_is_done_by_it(elsewhere: Elsewhere, tmp_path: Path) -> None:
    """Its message is JSON and holds the whole request."""
    viewer = elsewhere.viewer
    before = viewer.aggregation_ids()
    assert not viewer.children("celery")
    job = viewer.ask_for_aggregation(iter_start=3)
    # The keeper may be sending it when the request returns.
    text = waiting_message(elsewhere.redis)
    assert viewer.get(f"jobs/{job['id']}/")["state"] == "queued"

    with worker(elsewhere.redis.url, tmp_path / "elsewhere"):
        done = viewer.wait_for_end(job)

    assert done["state"] == "done"
    assert viewer.aggregation_ids() == [*before, done["aggregation_id"]]
    message = json.loads(text)
    assert message["content-type"] == "application/json"
    args, kwargs, _ = json.loads(base64.b64decode(message["body"]))
    assert args == []
    assert kwargs["request"]["database"] == str(elsewhere.database)
    assert kwargs["request"]["request"]["iter_start"] == 3


def waiting_message(redis: Redis) -> str:
    """The one message of the queue, as soon as it is there."""
    deadline = time.monotonic() + WAIT_LIMIT_S
    while not (texts := redis.client().lrange("dlprof", 0, -1)):
        assert time.monotonic() < deadline, "no message was sent"
        time.sleep(0.05)
    (text,) = texts
    return str(text)


def test_a_broker_that_is_away_is_said_to_be(database: Path, tmp_path: Path) -> None:
    url = f"redis://127.0.0.1:{free_port()}/0"
    env = environment(tmp_path / "state", DLPROF_BROKER_URL=url)
    with running([database], env) as viewer:
        job = viewer.ask_for_aggregation(iter_start=3)
        # The keeper may be sending it when the request returns.
        job = viewer.wait_for(job, lambda now: now["message"] != "")

        assert job["state"] == "queued"
        assert job["message"].startswith("Waiting for the broker: ")
        assert viewer.post(f"jobs/{job['id']}/cancel/")["state"] == "cancelled"


def test_a_worker_elsewhere_needs_the_broker_and_the_profiles_only(
    elsewhere: Elsewhere, tmp_path: Path
) -> None:
    """It aggregates, imports and reports failures."""
    viewer, home = elsewhere.viewer, tmp_path / "elsewhere"
    before = viewer.aggregation_ids()
    with worker(elsewhere.redis.url, home):
        done = viewer.wait_for_end(viewer.ask_for_aggregation(iter_start=4))
        assert done["progress_pct"] == 100.0
        assert viewer.aggregation_ids() == [*before, done["aggregation_id"]]

        failed = viewer.wait_for_end(viewer.ask_for_aggregation(key_node="NOPE_1"))
        assert (failed["state"], failed["error"]["code"]) == ("failed", "KEY_NODE_NOT_FOUND")

        export = {"path": str(elsewhere.exports / "run.sqlite"), "name": "Elsewhere"}
        done = viewer.wait_for_end(viewer.post("profiles/", export))
        assert (done["kind"], done["state"]) == ("import", "done")
        imported = viewer.get(f"profiles/{done['result_profile_id']}/")
        assert (imported["name"], imported["aggregation_count"]) == ("Elsewhere", 2)
        # What was imported can be aggregated anew like anything else.
        more = viewer.post(f"profiles/{imported['id']}/aggregations/", {"iter_start": 3})
        assert viewer.wait_for_end(more)["state"] == "done"
        assert viewer.delete(f"profiles/{imported['id']}/")
    # Neither a state of its own nor the viewer's was touched by the worker.
    assert not [path for path in home.rglob("*") if "sqlite" in path.name]


def test_progress_and_cancelling_travel(elsewhere: Elsewhere, tmp_path: Path) -> None:
    viewer, hold = elsewhere.viewer, tmp_path / "hold"
    hold.touch()
    with worker(elsewhere.redis.url, tmp_path / "elsewhere", hold=hold):
        job = viewer.ask_for_aggregation(iter_start=5)
        running_job = viewer.wait_for(job, lambda now: now["phase"] != "")
        viewer.post(f"jobs/{job['id']}/cancel/")
        ended = viewer.wait_for_end(job)

        assert running_job["state"] == "running"
        assert (ended["state"], ended["aggregation_id"]) == ("cancelled", None)
        hold.unlink()
        viewer.post(f"jobs/{job['id']}/retry/")
        assert viewer.wait_for_end(job)["state"] == "done"


def test_a_worker_that_is_stopped_gives_its_job_back(elsewhere: Elsewhere, tmp_path: Path) -> None:
    viewer, hold = elsewhere.viewer, tmp_path / "hold"
    hold.touch()
    with worker(elsewhere.redis.url, tmp_path / "first", hold=hold) as first:
        job = viewer.wait_for_state(viewer.ask_for_aggregation(iter_start=6), "running")
        first.terminate()
        assert viewer.wait_for(job, lambda now: now["state"] != "running")["state"] == "queued"
    hold.unlink()
    with worker(elsewhere.redis.url, tmp_path / "second"):
        assert viewer.wait_for_end(job)["state"] == "done"


def test_a_worker_with_several_processes_does_several_jobs(
    elsewhere: Elsewhere, tmp_path: Path
) -> None:
    viewer, words = elsewhere.viewer, ("--pool", "prefork", "--concurrency", "2")
    with worker(elsewhere.redis.url, tmp_path / "w", words=words):
        jobs = [viewer.ask_for_aggregation(iter_start=start) for start in range(7, 11)]

        assert {viewer.wait_for_end(job)["state"] for job in jobs} == {"done"}


def test_remote_environments_have_nothing_of_the_viewers(tmp_path: Path) -> None:
    env = remote_environment("redis://127.0.0.1:1/0", tmp_path / "elsewhere")

    assert [name for name in env if name.startswith("DLPROF_")] == ["DLPROF_BROKER_URL"]
    assert env["HOME"] == str(tmp_path / "elsewhere")
