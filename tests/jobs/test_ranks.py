"""Rank files through the viewer: one job, shared out among workers, one database."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.jobs.running import (
    ENDED,
    REPOSITORY,
    WAIT_LIMIT_S,
    Job,
    RunningViewer,
    environment,
    running,
)
from tests.jobs.uploading import send_file
from tests.jobs.workers import Redis, needs_redis, worker
from tests.rank_files import make_ranks

pytestmark = pytest.mark.jobs
RANKS = 4


@pytest.fixture(scope="module")
def rank_files(
    profile: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> list[Path]:
    """A small capture of one process as the ranks of a job on two hosts."""
    source = profile("pytorch_resnet50_fp32")
    return make_ranks([source], RANKS, tmp_path_factory.mktemp("ranks"), gpus_per_host=2)


@contextmanager
def viewer_of(
    files: list[Path], database: Path, tmp_path: Path, **more: str
) -> Iterator[RunningViewer]:
    env = environment(tmp_path / "state", DLPROF_PROFILE_FOLDERS=str(files[0].parent), **more)
    with running([database], env) as viewer:
        yield viewer


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the state of the viewer that tests share."""
    return tmp_path_factory.mktemp("shared") / "state"


@pytest.fixture(scope="module")
def shared(rank_files: list[Path], demo_database: Path, state: Path) -> Iterator[RunningViewer]:
    with viewer_of(rank_files, demo_database, state.parent) as viewer:
        yield viewer


@pytest.fixture
def viewer(shared: RunningViewer) -> Iterator[RunningViewer]:
    """A viewer for tests that leave it running; they add profiles to it."""
    yield shared
    for job in shared.jobs():
        if job["state"] not in ENDED:
            shared.post(f"jobs/{job['id']}/cancel/")
            shared.wait_for_end(job)
    for profile in shared.get("profiles/")["results"]:
        if profile["is_stored"]:
            shared.delete(f"profiles/{profile['id']}/")


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
    rank_files: list[Path], viewer: RunningViewer, state: Path
) -> None:
    check(viewer, viewer.wait_for_end(ask(viewer, rank_files)))
    assert not list(state.rglob("*.ranks.*")), "the parts were left behind"


def log(home: Path) -> str:
    return (home / "worker.log").read_text()


def wait_until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT_LIMIT_S
    while not holds():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)


@needs_redis
def test_a_worker_killed_at_a_file_costs_that_file_only(
    redis: Redis, rank_files: list[Path], database: Path, tmp_path: Path
) -> None:
    url = {"DLPROF_BROKER_URL": redis.url}
    hold = tmp_path / "hold"
    hold.touch()
    held: Any = holding(tmp_path, hold)
    with viewer_of(rank_files, database, tmp_path, **url) as viewer, ExitStack() as stack:
        job = ask(viewer, rank_files)
        first = tmp_path / "first"
        stack.enter_context(worker(redis.url, first, words=("--loglevel=INFO",), **held))
        second = stack.enter_context(worker(redis.url, tmp_path / "second", **held))
        viewer.wait_for(job, lambda now: file_states(now).count("importing") == 2)
        os.kill(second.pid, signal.SIGKILL)
        psutil.wait_procs([second], timeout=WAIT_LIMIT_S)
        hold.unlink()
        check(viewer, viewer.wait_for_end(job))
        # Every file but one, then all of them (those were there already), and the join.
        assert (
            len(re.findall(r"Task dlprof\.rank_file\[.*succeeded", log(first))) == RANKS - 1 + RANKS
        )
    assert not hidden(tmp_path / "state")


def hidden(folder: Path) -> list[Path]:
    """Temporary files and folders."""
    return [path for path in below(folder) if path.name.startswith(".")]


def below(folder: Path) -> list[Path]:
    """All files in a folder; unlike rglob, walk tolerates files that disappear meanwhile."""
    walked = os.walk(folder)
    return [Path(top) / name for top, folders, files in walked for name in (*folders, *files)]


def test_a_bad_rank_file_fails_the_job_with_its_own_words(
    rank_files: list[Path], viewer: RunningViewer
) -> None:
    twin = rank_files[0].with_name("rank99.sqlite")
    twin.write_bytes(rank_files[0].read_bytes())
    try:
        failed = viewer.wait_for_end(ask(viewer, [*rank_files[:2], twin]))
        assert (failed["state"], failed["error"]["code"]) == ("failed", "NOT_ONE_JOB")
        assert "hold the same rank" in failed["error"]["message"]
        names = [item["name"] for item in viewer.get("profiles/")["results"]]
        assert "job" not in names
    finally:
        twin.unlink()


def test_lists_that_are_none_are_refused(rank_files: list[Path], viewer: RunningViewer) -> None:
    one = str(rank_files[0])
    for paths in ([one], [one, one], one, [one, 5], [one, ""], [], [one, "a\0b"]):
        reply = viewer.post("profiles/", {"paths": paths})
        assert (reply["status"], reply["error"]["code"]) == (400, "INVALID_VALUE"), paths
    reply = viewer.post("profiles/", {"paths": [one, "/etc/passwd"]})
    assert reply["status"] in (400, 403, 422)
    assert "passwd" not in reply["error"]["message"]
    both = {"path": one, "paths": [one, str(rank_files[1])]}
    assert viewer.post("profiles/", both)["status"] == 400


def file_states(job: Job) -> list[str]:
    return [file["state"] for file in job["files"]]


def test_ranks_can_be_named_and_each_file_shows_its_state(
    rank_files: list[Path], viewer: RunningViewer
) -> None:
    paths = [str(path) for path in rank_files[:3]]
    job = viewer.post("profiles/", {"paths": paths, "ranks": [2, 0, 7], "name": "job"})
    assert [(file["file_name"], file["rank"]) for file in job["files"]] == [
        ("rank0.sqlite", 2),
        ("rank1.sqlite", 0),
        ("rank2.sqlite", 7),
    ]
    done = viewer.wait_for_end(job)
    assert done["state"] == "done", done
    assert file_states(done) == ["done"] * 3
    (found,) = [item for item in viewer.get("profiles/")["results"] if item["name"] == "job"]
    rows = viewer.get(f"profiles/{found['id']}/aggregations/1/ranks/")["results"]
    assert [(row["rank"], row["source_file"]) for row in rows] == [
        (0, "rank1.sqlite"),
        (2, "rank0.sqlite"),
        (7, "rank2.sqlite"),
    ]
    warnings = viewer.get(f"profiles/{found['id']}/")["warnings"]
    assert "MISSING_RANKS" in {warning["code"] for warning in warnings}
    for ranks in ([0, 1], [0, 1, 1], [0, 1, -1], [0, 1, True], ["0", 1, 2], 5, [0, 1, 10**9]):
        reply = viewer.post("profiles/", {"paths": paths, "ranks": ranks})
        assert (reply["status"], reply["error"]["code"]) == (400, "INVALID_VALUE"), ranks
    reply = viewer.post("profiles/", {"path": paths[0], "ranks": [0]})
    assert reply["status"] == 400


def test_a_folder_and_a_pattern_stand_for_their_rank_files(
    rank_files: list[Path], viewer: RunningViewer, state: Path, tmp_path: Path
) -> None:
    folder = rank_files[0].parent
    secret = tmp_path / "secret"
    secret.mkdir()
    for number in range(2):
        (secret / f"rank{number}.sqlite").write_bytes(b"SQLite format 3\0")
    job = viewer.post("profiles/", {"path": f"{folder}/rank[0-2].sqlite"})
    assert [file["file_name"] for file in job["files"]] == [
        f"rank{number}.sqlite" for number in range(3)
    ]
    job = viewer.post("profiles/", {"path": str(folder)})
    assert len(job["files"]) == RANKS
    one = viewer.post("profiles/", {"path": f"{folder}/rank0*"})
    assert (one["kind"], one["files"]) == ("import", [])
    for path in (
        str(secret),
        f"{secret}/rank*.sqlite",
        f"{folder}/*/../../secret/rank*.sqlite",
        f"{folder}/../secret*/rank*",
        f"{folder}/nothing*",
        "/*",
        "*",
        "[",
        str(state),
    ):
        reply = viewer.post("profiles/", {"path": path})
        assert (reply["status"], reply["error"]["code"]) == (403, "PATH_NOT_ALLOWED"), path
        assert "secret" not in reply["error"]["message"]
    # A link in the folder that leads out of it.
    (folder / "rank77.sqlite").symlink_to(secret / "rank0.sqlite")
    try:
        reply = viewer.post("profiles/", {"path": f"{folder}/rank*.sqlite"})
        assert reply["status"] == 403
    finally:
        (folder / "rank77.sqlite").unlink()


def test_the_processes_of_a_job_end_with_it(
    rank_files: list[Path], database: Path, tmp_path: Path
) -> None:
    hold = tmp_path / "hold"
    with three_at_work(rank_files, database, tmp_path, hold) as (viewer, job, processes):
        viewer.post(f"jobs/{job['id']}/cancel/")
        assert viewer.wait_for_end(job)["state"] == "cancelled"
        assert psutil.wait_procs(processes, timeout=WAIT_LIMIT_S)[1] == []
        wait_until(lambda: not hidden(tmp_path / "state"))
        again = viewer.post(f"jobs/{job['id']}/retry/")
        viewer.wait_for(again, lambda now: file_states(now).count("importing") == 3)
        processes = viewer.children("spawn_main")
        os.kill(viewer.worker().pid, signal.SIGKILL)
        assert psutil.wait_procs(processes, timeout=WAIT_LIMIT_S)[1] == []
        hold.unlink()
        check(viewer, viewer.wait_for(again, lambda now: now["state"] == "done"))
    assert not hidden(tmp_path / "state")


@contextmanager
def three_at_work(
    rank_files: list[Path], database: Path, tmp_path: Path, hold: Path
) -> Iterator[tuple[RunningViewer, Job, list[psutil.Process]]]:
    """A viewer, a job, and the three processes that hold a file of it each."""
    hold.touch()
    more = holding(tmp_path, hold) | {"DLPROF_RANK_WORKERS": "3"}
    with viewer_of(rank_files, database, tmp_path, **more) as viewer:
        job = ask(viewer, rank_files)
        viewer.wait_for(job, lambda now: file_states(now).count("importing") == 3)
        yield viewer, job, viewer.children("spawn_main")


def holding(tmp_path: Path, hold: Path) -> dict[str, str]:
    """Of processes that wait at every rank file while another file is there."""
    folder = tmp_path / "patched"
    folder.mkdir()
    shutil.copyfile(Path(__file__).with_name("held_engine.py"), folder / "sitecustomize.py")
    return {"PYTHONPATH": f"{folder}:{REPOSITORY}", "DLPROF_TEST_HOLD_RANKS": str(hold)}


def test_uploaded_ranks_are_joined_and_their_copies_go(
    rank_files: list[Path], viewer: RunningViewer, state: Path
) -> None:
    uploads = [send_file(viewer, path) for path in rank_files]
    job = viewer.post("profiles/", {"uploads": uploads, "name": "job"})
    assert [file["file_name"] for file in job["files"]] == [path.name for path in rank_files]
    check(viewer, viewer.wait_for_end(job))
    left = [path for path in state.rglob("*.sqlite") if "source" in path.parts]
    assert left == []
