"""Storage that several hosts share: the state on it, and workers that see nothing but profiles."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from tests.jobs.running import environment, running
from tests.jobs.workers import Redis, needs_redis, worker

pytestmark = pytest.mark.jobs

#: Loaded by each process first: it believes that the whole machine is on NFS.
ON_NFS = """
from pathlib import Path
import aggregator.system.file_systems
aggregator.system.file_systems.MOUNTS = Path({mounts!r})
"""


def _on_nfs(folder: Path) -> str:
    """A path for Python of a machine whose files are all on a network file system."""
    folder.mkdir()
    mounts = folder / "mountinfo"
    mounts.write_text("22 1 0:40 / / rw,relatime - nfs4 storage:/ rw\n")
    (folder / "sitecustomize.py").write_text(ON_NFS.format(mounts=str(mounts)))
    return str(folder)


def test_a_state_on_a_network_disk_needs_no_shared_memory(database: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    env = environment(state, DLPROF_LOG_FORMAT="line")
    patched = env | {"PYTHONPATH": f"{_on_nfs(tmp_path / 'nfs')}:{env['PYTHONPATH']}"}
    with running([database], patched) as viewer:
        viewer.worker()
        jobs = [viewer.ask_for_aggregation(iter_start=start) for start in range(2, 6)]
        assert {viewer.wait_for_end(job)["state"] for job in jobs} == {"done"}
        assert not list(state.glob("*-shm"))
        assert not list(state.glob("*-wal"))
        viewer.stop()
        assert "is on a network file system (nfs4)" in viewer.errors()
    with closing(sqlite3.connect(state / "viewer.sqlite3")) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


@needs_redis
def test_a_worker_opens_nothing_of_the_web_servers(
    redis: Redis, database: Path, tmp_path: Path
) -> None:
    """The web server's state is out of a worker's reach, as on another host."""
    profiles = tmp_path / "profiles"
    profiles.mkdir()
    shared = profiles / database.name
    shutil.copyfile(database, shared)
    state = tmp_path / "web" / "state"
    state.parent.mkdir()
    hold = tmp_path / "hold"
    hold.touch()
    env = environment(state, DLPROF_BROKER_URL=redis.url)
    with (
        running([shared], env) as viewer,
        worker(redis.url, tmp_path / "w", hold=hold) as elsewhere,
    ):
        job = viewer.wait_for_state(viewer.ask_for_aggregation(iter_start=3), "running")
        opened = {Path(file.path) for file in elsewhere.open_files()}
        assert not [path for path in opened if path.is_relative_to(state)]
        assert not [name for name in _environment_of(elsewhere) if name == "DLPROF_STATE_DIR"]
        hold.unlink()
        done = viewer.wait_for_end(job)
    assert (done["state"], done["progress_pct"]) == ("done", 100.0)
    assert sorted(path.name for path in profiles.iterdir()) == [database.name]


def _environment_of(process: psutil.Process) -> dict[str, str]:
    found: dict[str, str] = process.environ()
    assert found["PATH"] == os.environ["PATH"]
    return found
