"""The same service in both kinds: with a worker of its own, and over Redis with one elsewhere."""

from __future__ import annotations

import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.jobs.running import WAIT_LIMIT_S, Job, RunningViewer, environment, running
from tests.jobs.workers import HOLD, Redis, worker


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
        psutil.wait_procs([found], timeout=WAIT_LIMIT_S)
        self.start_worker()


def holding(folder: Path, env: dict[str, str], hold: Path) -> dict[str, str]:
    """The environment of a viewer whose aggregations wait while a file is there."""
    patched = folder / "patched"
    patched.mkdir()
    shutil.copyfile(Path(__file__).with_name("held_engine.py"), patched / "sitecustomize.py")
    return env | {"PYTHONPATH": f"{patched}:{env['PYTHONPATH']}", HOLD: str(hold)}


@contextmanager
def running_service(kind: str, database: Path, folder: Path, *, held: bool) -> Iterator[Service]:
    """Both kinds of service, made to be treated alike."""
    hold = folder / "hold"
    if held:
        hold.touch()
    with ExitStack() as stack:
        if kind == "embedded":
            yield _embedded(stack, database, folder, hold)
        else:
            yield _over_redis(stack, database, folder, hold)


def _embedded(stack: ExitStack, database: Path, folder: Path, hold: Path) -> Service:
    env = holding(folder, environment(folder / "state"), hold)
    viewer = stack.enter_context(running([database], env))
    viewer.worker()
    return Service(viewer, viewer.worker, viewer.worker, hold, None)


def _over_redis(stack: ExitStack, database: Path, folder: Path, hold: Path) -> Service:
    (folder / "redis").mkdir()
    redis = stack.enter_context(Redis(folder / "redis"))
    env = environment(folder / "state", DLPROF_BROKER_URL=redis.url)
    workers: list[psutil.Process] = []

    def start_worker() -> None:
        home = folder / f"worker-{len(workers)}"
        started = worker(redis.url, home, hold=hold)
        workers.append(stack.enter_context(started))

    viewer = stack.enter_context(running([database], env))
    start_worker()
    return Service(viewer, lambda: workers[-1], start_worker, hold, redis)


def assert_sound(database: Path) -> None:
    """The file is sound, and each aggregation in it is whole."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        listed = {row[0] for row in connection.execute("SELECT aggr_id FROM view_aggregations")}
        for view in ("view_model_summary", "view_iterations_all", "view_op_nodes"):
            rows = connection.execute(f"SELECT DISTINCT aggr_id FROM {view}")
            assert {row[0] for row in rows} == listed, view
