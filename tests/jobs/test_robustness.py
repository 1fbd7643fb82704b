"""Whatever dies, fills up or is asked too much of: with real processes, embedded and over Redis.

No database corrupt, no aggregation half visible, every job in a state that is true at the end.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.builders import Trace, analyse
from tests.jobs.running import ENDED, Job, RunningViewer, environment, running
from tests.jobs.workers import HOLD, Redis, needs_redis, worker

pytestmark = [pytest.mark.slow, pytest.mark.jobs]

KINDS = ["embedded", pytest.param("redis", marks=needs_redis)]


@dataclass
class Service:
    """A viewer, a way to its worker, and a file that holds jobs up while it is there."""

    viewer: RunningViewer
    get_worker: Callable[[], psutil.Process]
    start_worker: Callable[[], object]
    hold: Path
    redis: Redis | None

    def let_go(self) -> None:
        self.hold.unlink()

    def begin(self, **request: object) -> Job:
        """A job that runs and is held up."""
        return self.viewer.wait_for_state(self.viewer.ask_for_aggregation(**request), "running")

    def kill_worker(self) -> None:
        found = self.get_worker()
        found.send_signal(signal.SIGKILL)
        psutil.wait_procs([found], timeout=10)
        self.start_worker()


@contextmanager
def _service(
    kind: str, database: Path, folder: Path, *, held: bool, largest_file: int | None = None
) -> Iterator[Service]:
    """Both kinds of service, made to be treated alike."""
    hold = folder / "hold"
    if held:
        hold.touch()
    with ExitStack() as stack:
        if kind == "embedded":
            yield _embedded(stack, database, folder, hold, largest_file)
        else:
            yield _over_redis(stack, database, folder, hold, largest_file)


def _embedded(
    stack: ExitStack, database: Path, folder: Path, hold: Path, largest_file: int | None
) -> Service:
    patched = folder / "patched"
    patched.mkdir()
    shutil.copyfile(Path(__file__).with_name("held_engine.py"), patched / "sitecustomize.py")
    env = environment(folder / "state")
    env |= {"PYTHONPATH": f"{patched}:{env['PYTHONPATH']}", HOLD: str(hold)}
    viewer = stack.enter_context(running([database], env, largest_file))
    viewer.worker()
    return Service(viewer, viewer.worker, viewer.worker, hold, None)


def _over_redis(
    stack: ExitStack, database: Path, folder: Path, hold: Path, largest_file: int | None
) -> Service:
    (folder / "redis").mkdir()
    redis = stack.enter_context(Redis(folder / "redis"))
    env = environment(folder / "state", DLPROF_BROKER_URL=redis.url)
    workers: list[psutil.Process] = []

    def start_worker() -> None:
        home = folder / f"worker-{len(workers)}"
        started = worker(redis.url, home, hold=hold, largest_file=largest_file)
        workers.append(stack.enter_context(started))

    viewer = stack.enter_context(running([database], env))
    start_worker()
    return Service(viewer, lambda: workers[-1], start_worker, hold, redis)


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
    with _service(kind, database, tmp_path, held=True) as service:
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
    with _service(kind, database, tmp_path, held=True) as service:
        job = service.begin(iter_start=3)
        web = service.viewer.children("gunicorn")
        assert len(web) == 2

        for process in web:
            process.kill()
        psutil.wait_procs(web, timeout=10)
        # The socket is the command's: who asks meanwhile waits for the next server.
        assert service.viewer.get(f"jobs/{job['id']}/")["state"] == "running"
        service.let_go()

        assert service.viewer.wait_for_end(job)["state"] == "done"
    _check(database)


@needs_redis
def test_a_killed_redis_loses_no_job(database: Path, tmp_path: Path) -> None:
    with _service("redis", database, tmp_path, held=True) as service:
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
    with _service(kind, database, tmp_path, held=False, largest_file=len(before) + 4096) as service:
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
    with _service(kind, database, tmp_path, held=False) as service:
        viewer, profile = service.viewer, service.viewer.profile_id()
        address = f"profiles/{profile}/aggregations/"

        def person(number: int) -> list[Job]:
            # Each wants two of their own, and one that all of them want.
            wanted = [{"iter_start": 1}, {"iter_start": 2, "iter_stop": 5 + number},
                      {"iter_start": 3, "iter_stop": 5 + number}]  # fmt: skip
            jobs = [viewer.post(address, request, client=f"p{number}") for request in wanted]
            return [viewer.wait_for(job, lambda now: now["state"] in ENDED, 120) for job in jobs]

        with ThreadPoolExecutor(10) as pool:
            ended = [job for jobs in pool.map(person, range(10)) for job in jobs]

        assert {job["state"] for job in ended} == {"done"}
        assert len({job["aggregation_id"] for job in ended}) == 21
        assert len(viewer.aggregation_ids()) == 22
    _check(database)


# --- a thousand jobs ------------------------------------------------------------------------------


@pytest.fixture
def tiny_database(tmp_path: Path) -> Path:
    """A profile of thirty iterations that takes hardly any time to aggregate."""
    trace = Trace()
    thread = trace.thread()
    for step in range(30):
        at = 1_000 * step
        thread.range(f"iteration {step}", at, at + 900)
        thread.op("conv2d", at + 10, at + 500, seq=step)
        thread.launch("gemm", at + 20, gpu=(at + 30, at + 300))
    folder = tmp_path / "tiny"
    folder.mkdir()
    analyse(trace, folder)
    (made,) = folder.glob("*dldb*.sqlite")
    return made


def _latency_ms(viewer: RunningViewer, profile: str) -> float:
    before = time.perf_counter()
    viewer.get(f"profiles/{profile}/aggregations/1/ops/")
    return (time.perf_counter() - before) * 1e3


@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_jobs_of_one_keep_nobody_waiting(
    kind: str, tiny_database: Path, tmp_path: Path
) -> None:
    with _service(kind, tiny_database, tmp_path, held=True) as service:
        viewer, profile = service.viewer, service.viewer.profile_id()
        address = f"profiles/{profile}/aggregations/"
        pairs = [(start, stop) for start in range(30) for stop in range(start, 30)]
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
        latencies = []
        done = viewer.wait_for_end(modest)
        before_it = [job for job in viewer.jobs(state="done") if _began_before(job, done)]
        deadline = time.monotonic() + 600
        while viewer.get("jobs/?state=queued&page_size=10")["count"]:
            latencies.append(_latency_ms(viewer, profile))
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
        print(f"{kind}: p95 of {len(latencies)} requests: {_p95(latencies):.1f} ms")
        # The promise is 100 ms on a machine of one's own; benchmarks/ measures it.
        assert _p95(latencies) < 1_000
    _check(tiny_database)


def _began_before(job: Job, other: Job) -> bool:
    return str(job["started_at"]) < str(other["started_at"])


def _all_aggregations(database: Path) -> list[int]:
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return [row[0] for row in connection.execute("SELECT aggr_id FROM view_aggregations")]


def _p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1] if len(values) > 1 else max(values, default=0.0)


def test_pids_of_this_machine_only_are_looked_for() -> None:
    from aggregator.remote_jobs import process_scope, this_worker

    assert this_worker().scope == process_scope()
    assert str(os.getpid()) not in process_scope()
