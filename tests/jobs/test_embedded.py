"""Jobs from the click to the end, with the server and the worker that a user gets."""

from __future__ import annotations

import shutil
import signal
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.jobs.running import WAIT_LIMIT_S, Job, RunningViewer, environment, running
from tests.jobs.services import holding


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path / "state")


@dataclass
class Held:
    """A viewer whose aggregations wait after they have begun, while a file is there."""

    viewer: RunningViewer
    database: Path
    hold: Path

    def begin(self, **request: object) -> Job:
        """A job that runs and is held up."""
        self.hold.touch()
        return self.viewer.wait_for_state(self.viewer.ask_for_aggregation(**request), "running")

    def let_go(self) -> None:
        self.hold.unlink()


@pytest.fixture(scope="module")
def shared(
    demo_database: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RunningViewer, Path, Path]]:
    """A viewer, its database and the file that holds up its aggregations."""
    folder = tmp_path_factory.mktemp("embedded")
    database, hold = folder / "dlprof_dldb.sqlite", folder / "hold"
    shutil.copyfile(demo_database, database)
    env = holding(folder, environment(folder / "state"), hold)
    with running([database], env) as found:
        found.worker()
        yield found, database, hold


@pytest.fixture
def held(shared: tuple[RunningViewer, Path, Path]) -> Iterator[Held]:
    yield Held(*shared)
    shared[2].unlink(missing_ok=True)


@pytest.fixture
def viewer(held: Held) -> RunningViewer:
    return held.viewer


def test_a_job_runs_to_its_end(viewer: RunningViewer) -> None:
    before = viewer.aggregation_ids()
    job = viewer.ask_for_aggregation(iter_start=3, iter_stop=5)
    done = viewer.wait_for_end(job)

    assert done["error"] is None
    assert (done["state"], done["progress_pct"]) == ("done", 100.0)
    assert done["result_profile_id"] == viewer.profile_id()
    assert viewer.aggregation_ids() == [*before, done["aggregation_id"]]
    summary = viewer.get(
        f"profiles/{viewer.profile_id()}/aggregations/{done['aggregation_id']}/performance-summary/"
    )
    assert (summary["iter_start"], summary["iter_stop"]) == (3, 5)
    assert summary["profiled_iterations"] == 3


def test_the_same_request_twice_gives_the_same_aggregation(viewer: RunningViewer) -> None:
    before = viewer.aggregation_ids()
    first = viewer.wait_for_end(viewer.ask_for_aggregation(iter_start=3, iter_stop=6))
    second = viewer.wait_for_end(viewer.ask_for_aggregation(iter_start=3, iter_stop=6))

    assert first["id"] != second["id"]
    assert first["aggregation_id"] == second["aggregation_id"]
    assert second["message"] == "This aggregation was there already."
    assert viewer.aggregation_ids() == [*before, first["aggregation_id"]]


def test_a_database_of_nvidias_is_converted_and_stays_as_it_is(
    golden_dir: Path, env: dict[str, str], tmp_path: Path
) -> None:
    original = tmp_path / "theirs" / "dlprof_dldb.sqlite"
    original.parent.mkdir()
    shutil.copyfile(golden_dir / original.name, original)
    before = original.read_bytes()
    with running([original], env) as viewer:
        first = viewer.profile_id()
        done = viewer.wait_for_end(viewer.ask_for_aggregation(iter_stop=0))
        names = [item["file_name"] for item in viewer.get("profiles/")["results"]]
        converted = viewer.get(f"profiles/{done['result_profile_id']}/")

        assert done["error"] is None
        assert done["state"] == "done"
        assert done["result_profile_id"] != first
        assert names == ["dlprof_dldb.sqlite", "dlprof_dldb.open.sqlite"]
        assert (converted["is_foreign"], converted["converted_from"]) == (False, original.name)
        found = viewer.get(f"profiles/{first}/")
        assert found["conversion_ids"] == [done["result_profile_id"]]
        assert found["aggregation_count"] == 1
    assert original.read_bytes() == before


def test_a_key_node_that_does_not_exist_fails_with_the_reason(viewer: RunningViewer) -> None:
    before = viewer.aggregation_ids()
    done = viewer.wait_for_end(viewer.ask_for_aggregation(key_node="NOPE_1"))

    assert (done["state"], done["error"]["code"]) == ("failed", "KEY_NODE_NOT_FOUND")
    assert viewer.aggregation_ids() == before


def test_the_page_stays_usable_while_a_job_runs(held: Held) -> None:
    viewer = held.viewer
    job = held.begin(iter_start=4)

    assert viewer.get(f"profiles/{viewer.profile_id()}/aggregations/1/ops/")["count"] > 0
    assert viewer.ask_for_aggregation(iter_start=4)["id"] == job["id"]
    held.let_go()
    assert viewer.wait_for_end(job)["state"] == "done"


def test_a_cancelled_job_stops_and_leaves_nothing(held: Held) -> None:
    viewer = held.viewer
    before = viewer.aggregation_ids()
    job = held.begin(iter_start=5)

    viewer.post(f"jobs/{job['id']}/cancel/")
    ended = viewer.wait_for_end(job)

    assert (ended["state"], ended["aggregation_id"]) == ("cancelled", None)
    assert viewer.aggregation_ids() == before
    assert _integrity(held.database) == "ok"
    held.let_go()
    viewer.post(f"jobs/{job['id']}/retry/")
    assert viewer.wait_for_end(job)["state"] == "done"


def test_a_job_that_always_kills_its_worker_fails_with_the_reason(held: Held) -> None:
    viewer = held.viewer
    before = viewer.aggregation_ids()
    job = held.begin(iter_start=6)
    for _ in range(2):
        viewer.wait_for_state(job, "running")
        worker = viewer.worker()
        worker.send_signal(signal.SIGKILL)
        psutil.wait_procs([worker], timeout=WAIT_LIMIT_S)
        viewer.wait_for(job, lambda found: found["state"] != "running")
    ended = viewer.wait_for_end(job)

    assert (ended["state"], ended["error"]["code"]) == ("failed", "WORKER_LOST")
    assert viewer.aggregation_ids() == before


def test_a_job_survives_a_restart_of_everything(
    database: Path, env: dict[str, str], tmp_path: Path
) -> None:
    hold = tmp_path / "hold"
    hold.touch()
    with running([database], holding(tmp_path, env, hold)) as before:
        before.worker()
        job = before.wait_for_state(before.ask_for_aggregation(iter_start=3), "running")
        waiting = before.ask_for_aggregation(iter_start=4)

    with running([database], env) as after:
        done = after.wait_for_end(job)
        also_done = after.wait_for_end(waiting)

        assert (done["state"], also_done["state"]) == ("done", "done")
        assert after.get("jobs/?state=done")["count"] == 2
        # Nothing is left of the command that has done jobs.
        family = psutil.Process(after.process.pid).children(recursive=True)
        assert after.stop() == 0
        assert psutil.wait_procs(family, timeout=WAIT_LIMIT_S)[1] == []


def test_a_database_that_another_program_reads_can_be_aggregated_anew(held: Held) -> None:
    with sqlite3.connect(f"file:{held.database}?mode=ro", uri=True) as reader:
        reader.execute("SELECT COUNT(*) FROM view_op_nodes").fetchone()

        done = held.viewer.wait_for_end(held.viewer.ask_for_aggregation(iter_start=7))

    assert done["state"] == "done"


def _integrity(database: Path) -> str:
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        return str(connection.execute("PRAGMA integrity_check").fetchone()[0])
