"""Jobs from the click to the end, with the server and the worker that a user gets."""

from __future__ import annotations

import shutil
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.jobs.running import WAIT_LIMIT_S, RunningViewer, environment, running

HOLD = "DLPROF_TEST_HOLD"

pytestmark = pytest.mark.slow


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path / "state")


@pytest.fixture
def viewer(database: Path, env: dict[str, str]) -> Iterator[RunningViewer]:
    with running([database], env) as found:
        found.worker()
        yield found


@pytest.fixture
def held(database: Path, env: dict[str, str], tmp_path: Path) -> Iterator[RunningViewer]:
    """A viewer whose aggregations wait, for as long as a file is there, after they have begun."""
    folder = tmp_path / "held"
    folder.mkdir()
    shutil.copyfile(Path(__file__).with_name("held_engine.py"), folder / "sitecustomize.py")
    hold = tmp_path / "hold"
    hold.touch()
    path = f"{folder}:{env['PYTHONPATH']}"
    with running([database], env | {"PYTHONPATH": path, HOLD: str(hold)}) as found:
        found.worker()
        yield found


def _let_go(tmp_path: Path) -> None:
    (tmp_path / "hold").unlink()


def test_a_job_runs_to_its_end(viewer: RunningViewer) -> None:
    job = viewer.ask_for_aggregation(iter_start=3, iter_stop=5)
    done = viewer.wait_for_end(job)

    assert done["error"] is None
    assert (done["state"], done["progress_pct"]) == ("done", 100.0)
    assert done["result_profile_id"] == viewer.profile_id()
    assert viewer.aggregation_ids() == [1, done["aggregation_id"]]
    summary = viewer.get(
        f"profiles/{viewer.profile_id()}/aggregations/{done['aggregation_id']}/performance-summary/"
    )
    assert (summary["iter_start"], summary["iter_stop"]) == (3, 5)
    assert summary["profiled_iterations"] == 3


def test_the_same_request_twice_gives_the_same_aggregation(viewer: RunningViewer) -> None:
    first = viewer.wait_for_end(viewer.ask_for_aggregation(iter_start=3, iter_stop=5))
    second = viewer.wait_for_end(viewer.ask_for_aggregation(iter_start=3, iter_stop=5))

    assert first["id"] != second["id"]
    assert first["aggregation_id"] == second["aggregation_id"]
    assert second["message"] == "This aggregation was there already."
    assert len(viewer.aggregation_ids()) == 2


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
    done = viewer.wait_for_end(viewer.ask_for_aggregation(key_node="NOPE_1"))

    assert (done["state"], done["error"]["code"]) == ("failed", "KEY_NODE_NOT_FOUND")
    assert viewer.aggregation_ids() == [1]


def test_the_page_stays_usable_while_a_job_runs(held: RunningViewer, tmp_path: Path) -> None:
    job = held.wait_for_state(held.ask_for_aggregation(iter_start=3), "running")

    assert held.get(f"profiles/{held.profile_id()}/aggregations/1/ops/")["count"] > 0
    assert held.ask_for_aggregation(iter_start=3)["id"] == job["id"]
    _let_go(tmp_path)
    assert held.wait_for_end(job)["state"] == "done"


def test_a_cancelled_job_stops_and_leaves_nothing(
    held: RunningViewer, database: Path, tmp_path: Path
) -> None:
    job = held.wait_for_state(held.ask_for_aggregation(iter_start=3), "running")

    held.post(f"jobs/{job['id']}/cancel/")
    ended = held.wait_for_end(job)

    assert (ended["state"], ended["aggregation_id"]) == ("cancelled", None)
    assert held.aggregation_ids() == [1]
    assert _integrity(database) == "ok"
    _let_go(tmp_path)
    held.post(f"jobs/{job['id']}/retry/")
    assert held.wait_for_end(job)["state"] == "done"


def test_a_worker_killed_in_the_middle_is_replaced_and_the_job_done(
    held: RunningViewer, database: Path, tmp_path: Path
) -> None:
    job = held.wait_for_state(held.ask_for_aggregation(iter_start=3), "running")
    worker = held.worker()

    worker.send_signal(signal.SIGKILL)
    psutil.wait_procs([worker], timeout=WAIT_LIMIT_S)
    _let_go(tmp_path)
    done = held.wait_for_end(job)

    assert done["state"] == "done"
    assert held.aggregation_ids() == [1, done["aggregation_id"]]
    assert _integrity(database) == "ok"


def test_a_job_that_always_kills_its_worker_fails_with_the_reason(held: RunningViewer) -> None:
    job = held.ask_for_aggregation(iter_start=3)
    for _ in range(2):
        held.wait_for_state(job, "running")
        worker = held.worker()
        worker.send_signal(signal.SIGKILL)
        psutil.wait_procs([worker], timeout=WAIT_LIMIT_S)
        held.wait_for(job, lambda found: found["state"] != "running")
    ended = held.wait_for_end(job)

    assert (ended["state"], ended["error"]["code"]) == ("failed", "WORKER_LOST")
    assert held.aggregation_ids() == [1]


def test_a_job_survives_a_restart_of_everything(
    database: Path, env: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "held"
    folder.mkdir()
    shutil.copyfile(Path(__file__).with_name("held_engine.py"), folder / "sitecustomize.py")
    hold = tmp_path / "hold"
    hold.touch()
    holding = env | {"PYTHONPATH": f"{folder}:{env['PYTHONPATH']}", HOLD: str(hold)}
    with running([database], holding) as before:
        before.worker()
        job = before.wait_for_state(before.ask_for_aggregation(iter_start=3), "running")
        waiting = before.ask_for_aggregation(iter_start=4)

    with running([database], env) as after:
        done = after.wait_for_end(job)
        also_done = after.wait_for_end(waiting)

        assert (done["state"], also_done["state"]) == ("done", "done")
        assert after.get("jobs/?state=done")["count"] == 2


def test_a_database_that_another_program_reads_can_be_aggregated_anew(
    viewer: RunningViewer, database: Path
) -> None:
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as reader:
        reader.execute("SELECT COUNT(*) FROM view_op_nodes").fetchone()

        done = viewer.wait_for_end(viewer.ask_for_aggregation(iter_start=3))

    assert done["state"] == "done"


def test_the_command_leaves_no_process(viewer: RunningViewer) -> None:
    viewer.wait_for_end(viewer.ask_for_aggregation(iter_start=3))
    family = psutil.Process(viewer.process.pid).children(recursive=True)

    assert viewer.stop() == 0

    assert psutil.wait_procs(family, timeout=WAIT_LIMIT_S)[1] == []


def _integrity(database: Path) -> str:
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        return str(connection.execute("PRAGMA integrity_check").fetchone()[0])
