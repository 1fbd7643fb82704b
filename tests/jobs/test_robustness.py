"""Whatever dies, fills up or is asked too much of: with real processes, embedded and over Redis.

No database corrupt, no aggregation half visible, every job in a state that is true at the end.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import psutil
import pytest

from aggregator.errors import DatabaseWriteError
from aggregator.options import ImportOptions
from aggregator.progress import NullProgress
from aggregator.rank_import import import_ranks_shared
from benchmarks.rank_files import make_ranks
from tests.builders import Trace, analyse
from tests.jobs.running import ENDED, WAIT_LIMIT_S, Job, environment, running
from tests.jobs.services import KINDS, running_service
from tests.jobs.uploading import part_head, port_of, send_file, send_rest
from tests.jobs.workers import needs_redis

pytestmark = [pytest.mark.slow, pytest.mark.jobs]


def _check(database: Path) -> None:
    """The file is sound, and each aggregation in it is whole."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        listed = {row[0] for row in connection.execute("SELECT aggr_id FROM view_aggregations")}
        for view in ("view_model_summary", "view_iterations_all", "view_op_nodes"):
            rows = connection.execute(f"SELECT DISTINCT aggr_id FROM {view}")
            assert {row[0] for row in rows} == listed, view


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_worker_loses_nothing(kind: str, database: Path, tmp_path: Path) -> None:
    with running_service(kind, database, tmp_path, held=True) as service:
        job = service.begin(iter_start=3)
        waiting = service.viewer.ask_for_aggregation(iter_start=4)

        service.kill_worker()
        _check(database)
        service.let_go()
        done = [service.viewer.wait_for_end(one) for one in (job, waiting)]

        assert [one["state"] for one in done] == ["done", "done"]
        assert len(service.viewer.aggregation_ids()) == 3
    _check(database)


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_web_server_comes_back_and_loses_nothing(
    kind: str, database: Path, tmp_path: Path
) -> None:
    with running_service(kind, database, tmp_path, held=True) as service:
        job = service.begin(iter_start=3)
        web = service.viewer.children("gunicorn")
        assert len(web) == 2

        for process in web:
            process.kill()
        psutil.wait_procs(web, timeout=WAIT_LIMIT_S)
        # The socket is the command's: who asks meanwhile waits for the next server.
        assert service.viewer.get(f"jobs/{job['id']}/")["state"] == "running"
        service.let_go()

        assert service.viewer.wait_for_end(job)["state"] == "done"
    _check(database)


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
    _check(database)


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_fails_the_job_and_leaves_the_database(
    kind: str, database: Path, tmp_path: Path
) -> None:
    before = database.read_bytes()
    with running_service(
        kind, database, tmp_path, held=False, largest_file=len(before) + 4096
    ) as service:
        ended = service.viewer.wait_for_end(service.viewer.ask_for_aggregation(iter_start=3))

        assert (ended["state"], ended["error"]["code"]) == ("failed", "DATABASE_WRITE")
        assert service.viewer.aggregation_ids() == [1]
    assert database.read_bytes() == before
    _check(database)


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
        _check(copy)

        filler.unlink()
        job = viewer.ask_for_aggregation(iter_start=3)
        assert viewer.wait_for_end(job)["state"] == "done"
    _check(copy)


def test_rank_files_on_a_disk_that_is_full(
    profile: Callable[[str], Path], small_disk: Path, tmp_path: Path
) -> None:
    """Wherever it is that there is no room: the reason is the disk, and nothing is left."""
    files = make_ranks([profile("pytorch_resnet50_fp32")], 2, tmp_path)
    target = small_disk / "made" / "job.sqlite"
    target.parent.mkdir()

    def job() -> None:
        options = ImportOptions(source=files[0], database=target)
        import_ranks_shared(options, files, NullProgress(), lambda folder: None)

    job()
    # The parts lie beside the whole for a while.
    size = target.stat().st_size
    target.unlink()
    said = []
    # No part, the first, the second, the whole, and its temporary tables have no room.
    for left in (0, 8192, size // 4, size * 3 // 4, size * 5 // 4, size * 7 // 4, size * 2):
        filler = _fill(small_disk, left)
        try:
            job()
        except DatabaseWriteError as error:
            said.append(error.message)
        left_behind = [path for path in target.parent.iterdir() if path != target]
        target.unlink(missing_ok=True)
        filler.unlink()
        assert not left_behind

    assert len(said) > 3
    for message in said:
        assert f"'{target}'" in message
        assert "full" in message or "No space left" in message


def test_a_state_that_cannot_be_written_is_a_refusal(database: Path, small_disk: Path) -> None:
    env = environment(small_disk / "state")
    with running([database], env) as viewer:
        viewer.worker()
        filler = _fill(small_disk, 0)
        refused = [viewer.ask_for_aggregation(iter_start=start) for start in range(1, 4)]

        assert {reply["status"] for reply in refused if "error" in reply} <= {503}
        assert viewer.get("profiles/")["count"] == 1
        filler.unlink()
        job = viewer.ask_for_aggregation(iter_start=9)
        assert viewer.wait_for_end(job)["state"] == "done"
    _check(database)


@needs_redis
def test_two_viewers_of_one_database(database: Path, tmp_path: Path) -> None:
    with ExitStack() as stack:
        viewers = []
        for name in ("one", "two"):
            env = environment(tmp_path / name)
            viewers.append(stack.enter_context(running([database], env)))
        for viewer in viewers:
            viewer.worker()
        starts = range(2, 8)
        jobs = [
            (viewer, viewer.ask_for_aggregation(iter_start=start))
            for start in starts
            for viewer in viewers
        ]

        ended = [viewer.wait_for_end(job) for viewer, job in jobs]

        assert {job["state"] for job in ended} == {"done"}
        # Asked for in both, made once.
        assert len({job["aggregation_id"] for job in ended}) == len(starts)
        assert viewers[0].aggregation_ids() == viewers[1].aggregation_ids()
    _check(database)


@pytest.mark.parametrize("kind", KINDS)
def test_ten_people_at_once(kind: str, database: Path, tmp_path: Path) -> None:
    with running_service(kind, database, tmp_path, held=False) as service:
        viewer, profile = service.viewer, service.viewer.profile_id()
        address = f"profiles/{profile}/aggregations/"

        def person(number: int) -> list[Job]:
            # Each wants two of their own, and one that all of them want.
            wanted = [{"iter_start": 1}, {"iter_start": 2, "iter_stop": 5 + number},
                      {"iter_start": 3, "iter_stop": 5 + number}]  # fmt: skip
            jobs = [viewer.post(address, request, client=f"p{number}") for request in wanted]
            return [viewer.wait_for(job, lambda now: now["state"] in ENDED) for job in jobs]

        with ThreadPoolExecutor(10) as pool:
            ended = [job for jobs in pool.map(person, range(10)) for job in jobs]

        assert {job["state"] for job in ended} == {"done"}
        assert len({job["aggregation_id"] for job in ended}) == 21
        assert len(viewer.aggregation_ids()) == 22
    _check(database)


# --- a thousand jobs ------------------------------------------------------------------------------


#: Of these there are 120 ranges; the other jobs of the thousand fail.
STEPS = 15


@pytest.fixture
def tiny_database(tmp_path: Path) -> Path:
    """A profile of a few iterations that takes hardly any time to aggregate."""
    trace = Trace()
    thread = trace.thread()
    for step in range(STEPS):
        at = 1_000 * step
        thread.range(f"iteration {step}", at, at + 900)
        thread.op("conv2d", at + 10, at + 500, seq=step)
        thread.launch("gemm", at + 20, gpu=(at + 30, at + 300))
    folder = tmp_path / "tiny"
    folder.mkdir()
    analyse(trace, folder)
    (made,) = folder.glob("*dldb*.sqlite")
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_jobs_of_one_keep_nobody_waiting(
    kind: str, tiny_database: Path, tmp_path: Path
) -> None:
    with running_service(kind, tiny_database, tmp_path, held=True) as service:
        viewer, profile = service.viewer, service.viewer.profile_id()
        address = f"profiles/{profile}/aggregations/"
        pairs = [(start, stop) for start in range(STEPS) for stop in range(start, STEPS)]
        wanted: list[dict[str, object]] = [
            {"iter_start": start, "iter_stop": stop} for start, stop in pairs
        ]
        wanted += [{"key_node": f"NOPE_{number}"} for number in range(1_000 - len(wanted))]

        with ThreadPoolExecutor(4) as pool:
            jobs = list(
                pool.map(lambda request: viewer.post(address, request, client="greedy"), wanted)
            )
        assert len({job["id"] for job in jobs}) == 1_000
        modest = viewer.post(address, {"key_node": "ALSO_NOT"}, client="modest")
        waiting = viewer.get("jobs/?state=queued")["count"]
        service.let_go()
        done = viewer.wait_for_end(modest)
        before_it = [job for job in viewer.jobs(state="done") if _began_before(job, done)]
        deadline = time.monotonic() + 1_200
        while viewer.get("jobs/?state=queued&page_size=10")["count"]:
            # The page stays usable; how fast it answers meanwhile is measured by benchmarks/.
            assert viewer.get(f"profiles/{profile}/aggregations/1/ops/")["count"] > 0
            assert time.monotonic() < deadline
            time.sleep(0.1)
        viewer.wait_for_end(jobs[-1])
        ended = viewer.jobs()

        assert waiting >= 999
        assert len(before_it) <= 2
        assert len(ended) == 1_001
        assert {job["state"] for job in ended} == {"done", "failed"}
        failed = [job for job in ended if job["state"] == "failed"]
        reasons = {job["error"]["code"] for job in failed}
        assert reasons == {"KEY_NODE_NOT_FOUND"}
        made = {job["aggregation_id"] for job in ended if job["state"] == "done"}
        assert len(made) == len(pairs)
        assert made <= set(_all_aggregations(tiny_database))
    _check(tiny_database)


def _began_before(job: Job, other: Job) -> bool:
    return str(job["started_at"]) < str(other["started_at"])


def _all_aggregations(database: Path) -> list[int]:
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return [row[0] for row in connection.execute("SELECT aggr_id FROM view_aggregations")]


def test_pids_of_this_machine_only_are_looked_for() -> None:
    from aggregator.leftovers import process_scope
    from aggregator.remote_jobs import this_worker

    assert this_worker().scope == process_scope()
    assert str(os.getpid()) not in process_scope()


# --- uploads, while whoever handles them dies -----------------------------------------------------


@needs_redis
def test_an_upload_whose_worker_is_killed_while_it_imports(
    database: Path, demo_profile: Path, tmp_path: Path
) -> None:
    """Nothing of it is seen half, the second worker imports it, and the uploaded copy goes."""
    with running_service("redis", database, tmp_path, held=True) as service:
        viewer, stored = service.viewer, tmp_path / "state" / "profiles"
        upload = send_file(viewer, demo_profile)
        job = viewer.post("profiles/", {"upload": upload, "name": "mine"})
        viewer.wait_for(job, lambda now: now["phase"] == "read")

        service.kill_worker()
        assert viewer.get("profiles/")["count"] == 1
        (source,) = stored.glob("*/source/*")
        assert source.read_bytes() == demo_profile.read_bytes()
        service.let_go()
        done = viewer.wait_for_end(job)

        assert (done["state"], done["aggregation_id"]) == ("done", 1)
        (made,) = [item for item in viewer.get("profiles/")["results"] if item["name"] == "mine"]
        assert (made["error"], made["is_stored"]) == (None, True)
        (file,) = [path for path in stored.rglob("*") if path.is_file()]
        assert file.name.endswith(".dldb.sqlite")
        _check(file)


@needs_redis
def test_an_upload_whose_every_worker_is_killed_fails_and_can_be_tried_again(
    database: Path, demo_profile: Path, tmp_path: Path
) -> None:
    with running_service("redis", database, tmp_path, held=True) as service:
        viewer = service.viewer
        job = viewer.post("profiles/", {"upload": send_file(viewer, demo_profile), "name": "mine"})
        for _ in range(2):
            viewer.wait_for(job, lambda now: now["phase"] == "read")
            service.kill_worker()
            viewer.wait_for(job, lambda now: now["state"] != "running")
        failed = viewer.wait_for_end(job)

        assert (failed["state"], failed["error"]["code"]) == ("failed", "WORKER_LOST")
        assert viewer.get("profiles/")["count"] == 1
        service.let_go()
        again = viewer.wait_for_end(viewer.post(f"jobs/{job['id']}/retry/"))
        assert again["state"] == "done"
        assert viewer.get("profiles/")["count"] == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_web_server_killed_during_an_upload(
    kind: str, database: Path, demo_profile: Path, tmp_path: Path
) -> None:
    """What had come is there, the rest is sent, and the profile is what was uploaded."""
    data = demo_profile.read_bytes()
    with running_service(kind, database, tmp_path, held=False) as service:
        viewer = service.viewer
        begun = viewer.post("uploads/", {"file_name": "a.sqlite", "size_bytes": len(data)})
        half, part = 300_000, 600_000
        with socket.create_connection(("127.0.0.1", port_of(viewer))) as connection:
            connection.sendall(part_head(begun["id"], 0, part) + data[:half])
            _wait(lambda: viewer.get(f"uploads/{begun['id']}/")["offset"] > 0)
            web = viewer.children("gunicorn")
            for process in web:
                process.kill()
            psutil.wait_procs(web, timeout=WAIT_LIMIT_S)
        offset = viewer.get(f"uploads/{begun['id']}/")["offset"]
        assert 0 < offset <= half

        send_rest(viewer, begun["id"], data)
        job = viewer.post("profiles/", {"upload": begun["id"]})
        assert viewer.wait_for_end(job)["state"] == "done"
    _check(database)


@needs_redis
def test_a_redis_that_comes_back_with_old_messages(database: Path, tmp_path: Path) -> None:
    """A snapshot of before: tokens of jobs that are done, and claims that nobody waits for."""
    with running_service("redis", database, tmp_path, held=False) as service:
        assert service.redis is not None
        viewer = service.viewer
        done = viewer.wait_for_end(viewer.ask_for_aggregation(iter_start=3))
        service.redis.kill()
        service.redis.start()
        client = service.redis.client()
        ghost = {"host": "ghost", "pid": 1, "scope": "elsewhere"}
        for number in range(3):
            claim = {"event": "claim", "claim": f"old{number}", "token": done["id"],
                     "worker": ghost, "inbox": f"dlprof.worker.ghost{number}"}  # fmt: skip
            client.lpush("dlprof.progress", _message(claim))
        for event in ("finish", "fail", "cancel", "release"):
            job = {"job_id": done["id"], "claim": "old", "database": str(database), "sources": [],
                   "request": {"key_node": "", "iter_start": 3, "iter_stop": None},
                   "profile_name": "", "mode": "auto"}  # fmt: skip
            more = {"outcome": {"aggregation_id": 99, "database": "/x", "message": ""}, "error": {}}
            client.lpush("dlprof.progress", _message({"event": event, "job": job, **more}))
        client.lpush("dlprof.progress", _message({"event": "nonsense"}), "{broken")

        later = [viewer.ask_for_aggregation(iter_start=start) for start in (4, 5, 6)]
        ended = [viewer.wait_for_end(job) for job in later]

        assert [job["state"] for job in ended] == ["done"] * 3
        assert viewer.get(f"jobs/{done['id']}/") == done
        assert len(viewer.aggregation_ids()) == 5
    _check(database)


def _message(body: dict[str, object]) -> str:
    """As Kombu puts one into a list of Redis."""
    text = base64.b64encode(json.dumps(body).encode()).decode()
    properties = {"delivery_tag": uuid.uuid4().hex, "delivery_mode": 2, "body_encoding": "base64",
                  "delivery_info": {"exchange": "", "routing_key": "dlprof.progress"},
                  "priority": 0}  # fmt: skip
    return json.dumps({"body": text, "content-type": "application/json", "headers": {},
                       "content-encoding": "utf-8", "properties": properties})  # fmt: skip


def _wait(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_LIMIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
