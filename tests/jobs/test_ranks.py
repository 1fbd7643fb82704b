"""Rank files through the viewer: one job, shared out among workers, one database."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from benchmarks.rank_files import make_ranks
from tests.jobs.running import Job, RunningViewer, environment, running
from tests.jobs.workers import Redis, needs_redis, worker

pytestmark = [pytest.mark.jobs, pytest.mark.slow]
RANKS = 6


@pytest.fixture(scope="module")
def rank_files(
    profile: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> list[Path]:
    """A small capture of one process as the ranks of a job on two hosts."""
    source = profile("pytorch_resnet50_fp32")
    return make_ranks([source], RANKS, tmp_path_factory.mktemp("ranks"), gpus_per_host=3)


@contextmanager
def viewer_of(
    files: list[Path], database: Path, tmp_path: Path, **more: str
) -> Iterator[RunningViewer]:
    env = environment(tmp_path / "state", DLPROF_PROFILE_FOLDERS=str(files[0].parent), **more)
    with running([database], env) as viewer:
        yield viewer


def ask(viewer: RunningViewer, files: list[Path]) -> Job:
    job: Job = viewer.post("profiles/", {"paths": [str(path) for path in files], "name": "job"})
    assert job["kind"] == "import", job
    return job


def check(viewer: RunningViewer, done: Job) -> None:
    assert done["state"] == "done", done
    assert done["progress_pct"] == 100.0
    (found,) = [item for item in viewer.get("profiles/")["results"] if item["name"] == "job"]
    assert found["gpu_count"] == RANKS
    assert viewer.get(f"profiles/{found['id']}/")["info"]["rank_count"] == str(RANKS)
    rows = viewer.get(f"profiles/{found['id']}/aggregations/1/ranks/")["results"]
    assert [row["rank"] for row in rows] == list(range(RANKS))
    assert {row["kernel_count"] for row in rows} == {5_162}


def test_the_embedded_worker_joins_rank_files(
    rank_files: list[Path], database: Path, tmp_path: Path
) -> None:
    with viewer_of(rank_files, database, tmp_path) as viewer:
        check(viewer, viewer.wait_for_end(ask(viewer, rank_files)))
    assert not list((tmp_path / "state").rglob("*.ranks.*")), "the parts were left behind"


@needs_redis
def test_several_workers_share_the_files(
    redis: Redis, rank_files: list[Path], database: Path, tmp_path: Path
) -> None:
    url = {"DLPROF_BROKER_URL": redis.url}
    with viewer_of(rank_files, database, tmp_path, **url) as viewer, ExitStack() as stack:
        homes = [tmp_path / f"host{number}" for number in range(2)]
        for home in homes:
            stack.enter_context(worker(redis.url, home, words=("--loglevel=INFO",)))
        wait_until(lambda: all(" ready." in log(home) for home in homes))
        check(viewer, viewer.wait_for_end(ask(viewer, rank_files)))
        # One had the job; the other heard of its parts, before all were done.
        heard = [log(home) for home in homes]
    (busy,) = [text for text in heard if "Task dlprof.job[" in text]
    (helper,) = [text for text in heard if "Task dlprof.job[" not in text]
    assert "Task dlprof.part[" in helper
    imported = re.findall(r"rank file \d+ of 6 imported for another worker", helper)
    assert imported, "it did a part"
    assert "Task dlprof.job[" in busy


def log(home: Path) -> str:
    return (home / "worker.log").read_text()


def wait_until(holds: Callable[[], object], limit_s: float = 60.0) -> None:
    deadline = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)


@needs_redis
def test_a_worker_killed_at_a_part_costs_that_part_only(
    redis: Redis, rank_files: list[Path], database: Path, tmp_path: Path
) -> None:
    url = {"DLPROF_BROKER_URL": redis.url}
    hold = tmp_path / "hold"
    hold.touch()
    with viewer_of(rank_files, database, tmp_path, **url) as viewer, ExitStack() as stack:
        job = ask(viewer, rank_files)
        # It has the job, has told of the parts, and does none itself for now.
        stack.enter_context(worker(redis.url, tmp_path / "first", hold=hold))
        viewer.wait_for(job, lambda now: now["phase"] == "import")
        second = stack.enter_context(worker(redis.url, tmp_path / "second"))
        deadline = time.monotonic() + 30
        while not claims(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.005)  # a part takes a fraction of a second
        os.kill(second.pid, signal.SIGKILL)
        assert claims(tmp_path), "it died at a part"
        hold.unlink()
        check(viewer, viewer.wait_for(job, lambda now: now["state"] != "running", limit_s=120))


def claims(folder: Path) -> list[Path]:
    """Parts that somebody is at: claimed and not there."""
    found = (folder / "state").rglob("*.claim")
    return [claim for claim in found if not claim.with_suffix(".sqlite").exists()]


def test_a_bad_rank_file_fails_the_job_with_its_own_words(
    rank_files: list[Path], database: Path, tmp_path: Path
) -> None:
    twin = rank_files[0].with_name("rank99.sqlite")
    twin.write_bytes(rank_files[0].read_bytes())
    try:
        with viewer_of(rank_files, database, tmp_path) as viewer:
            failed = viewer.wait_for_end(ask(viewer, [*rank_files[:2], twin]))
            assert (failed["state"], failed["error"]["code"]) == ("failed", "NOT_ONE_JOB")
            assert "hold the same rank" in failed["error"]["message"]
            names = [item["name"] for item in viewer.get("profiles/")["results"]]
            assert "job" not in names
    finally:
        twin.unlink()


def test_lists_that_are_none_are_refused(
    rank_files: list[Path], database: Path, tmp_path: Path
) -> None:
    one = str(rank_files[0])
    with viewer_of(rank_files, database, tmp_path) as viewer:
        for paths in ([one], [one, one], one, [one, 5], [one, ""], [], [one, "a\0b"]):
            reply = viewer.post("profiles/", {"paths": paths})
            assert (reply["status"], reply["error"]["code"]) == (400, "INVALID_VALUE"), paths
        reply = viewer.post("profiles/", {"paths": [one, "/etc/passwd"]})
        assert reply["status"] in (400, 403, 422)
        assert "passwd" not in reply["error"]["message"]
        both = {"path": one, "paths": [one, str(rank_files[1])]}
        assert viewer.post("profiles/", both)["status"] == 400
