"""``dlprofviewer``: what it refuses, what it says, and that nothing outlives it."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import psutil
import pytest

from aggregator.jobs.broker_address import broker_url
from tests.jobs.running import COMMAND, WAIT_LIMIT_S, environment, running, start


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path / "state")


@pytest.fixture
def golden(golden_dir: Path) -> Path:
    return golden_dir / "dlprof_dldb.sqlite"


def _run(env: dict[str, str], *words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, words)],
        check=False,
        env=env,
        capture_output=True,
        text=True,
        timeout=WAIT_LIMIT_S,
    )


def _assert_refused(done: subprocess.CompletedProcess[str], status: int, said: str) -> None:
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    first, *hints = done.stderr.strip().splitlines()
    assert first.startswith("dlprofviewer: error: ")
    assert said in first
    assert len(hints) <= 1
    assert "Traceback" not in done.stderr


def test_missing_file_is_refused(env: dict[str, str], tmp_path: Path) -> None:
    _assert_refused(_run(env, tmp_path / "nope.sqlite"), 5, "nope.sqlite")


def test_a_file_that_is_no_database(env: dict[str, str], tmp_path: Path) -> None:
    letter = tmp_path / "letter.sqlite"
    letter.write_text("Dear aunt,\n" * 200)

    _assert_refused(_run(env, letter), 5, "letter.sqlite")


def test_database_of_another_program_is_refused(env: dict[str, str], tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE recipes (name)")

    _assert_refused(_run(env, other), 5, "other.sqlite")


@pytest.mark.parametrize("version", ["1.1.0", "99.0.0"])
def test_databases_of_other_versions_are_refused(
    env: dict[str, str], tmp_path: Path, version: str
) -> None:
    database = tmp_path / "versioned.sqlite"
    with sqlite3.connect(database) as connection:
        connection.execute(
            "CREATE VIEW view_db_version AS "
            f"SELECT '{version}' AS current_version, '{version}' AS original_version"
        )
        connection.execute("CREATE VIEW view_aggregations AS SELECT 1 AS aggr_id")
        connection.execute("CREATE VIEW view_op_nodes AS SELECT 1 AS aggr_id")

    _assert_refused(_run(env, database), 5, version)


def test_bad_file_among_good_ones_is_refused(
    env: dict[str, str], tmp_path: Path, golden: Path
) -> None:
    _assert_refused(_run(env, golden, tmp_path / "nope.sqlite"), 5, "nope.sqlite")


def test_a_folder_without_a_database_is_a_beginning(
    env: dict[str, str], golden: Path, tmp_path: Path
) -> None:
    """A team's server starts before there is a profile, and again when all are deleted."""
    served = tmp_path / "served"
    served.mkdir()
    with running([served], env) as viewer:
        assert viewer.get("profiles/")["count"] == 0
        shutil.copyfile(golden, served / "run.sqlite")
        assert viewer.get("profiles/")["results"][0]["file_name"] == "run.sqlite"
        viewer.stop()
        said = viewer.errors()
    assert "note: There is no DLProf database in the folder" in said


def test_a_folder_that_is_not_there(env: dict[str, str], tmp_path: Path) -> None:
    _assert_refused(_run(env, tmp_path / "nowhere"), 5, "nowhere")


def test_an_empty_broker_address_means_no_broker(env: dict[str, str], golden: Path) -> None:
    with running([golden], env | {"DLPROF_BROKER_URL": ""}) as viewer:
        assert viewer.worker().is_running()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://10.0.0.5:6379/0", "no password"),
        ("rediss://user:@broker.example.org/0", "no password"),
        ("redis://127.0.0.1:6379;redis://10.0.0.5:6379", "The Redis on 10.0.0.5"),
        ("redis://127.0.0.1:port/0", "DLPROF_BROKER_URL"),
    ],
)
def test_a_redis_elsewhere_needs_a_password(
    env: dict[str, str], golden: Path, url: str, said: str
) -> None:
    _assert_refused(_run(env | {"DLPROF_BROKER_URL": url}, golden), 2, said)


def test_a_worker_says_so_too(env: dict[str, str]) -> None:
    env = env | {"DLPROF_BROKER_URL": "redis://10.0.0.5:6379/0"}
    words = [sys.executable, "-m", "celery", "-A", "aggregator", "worker"]
    worker = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert worker.returncode == 1
    assert "The Redis on 10.0.0.5 has no password" in worker.stderr
    assert "Traceback" not in worker.stderr


@pytest.mark.parametrize(
    ("url", "is_allowed"),
    [
        ("", False),
        ("redis://localhost:6379/0", False),
        ("redis://[::1]:6379/0", False),
        ("redis+socket:///run/redis.sock", False),
        ("redis://:secret@10.0.0.5:6379/0", False),
        ("redis://10.0.0.5:6379/0", True),
    ],
)
def test_other_brokers_are_taken(
    url: str, is_allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLPROF_BROKER_URL", url)
    monkeypatch.setenv("DLPROF_BROKER_WITHOUT_PASSWORD", "1" if is_allowed else "")
    assert broker_url() == url


def test_port_in_use_is_refused(env: dict[str, str], golden: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        _assert_refused(_run(env, "-p", port, golden), 2, f"port {port}")


def test_address_of_another_machine_is_refused(env: dict[str, str], golden: Path) -> None:
    _assert_refused(_run(env, "-b", "192.0.2.1", golden), 2, "192.0.2.1")


@pytest.mark.parametrize("words", [[], ["--nope", "x"], ["-p", "high", "x"], ["-p", "70000", "x"]])
def test_words_that_make_no_sense(env: dict[str, str], words: list[str]) -> None:
    done = _run(env, *words)

    assert done.returncode == 2
    assert "usage: dlprofviewer" in done.stderr


def test_help_and_version_are_printed(env: dict[str, str]) -> None:
    shown = _run(env, "--help")
    version = _run(env, "--version")

    assert shown.returncode == version.returncode == 0
    for option in ("--bind", "--port", "--no-auth", "--allowed-host", "--version"):
        assert option in shown.stdout
    assert version.stdout.startswith("dlprofviewer ")


def test_viewer_prints_its_address_and_answers(env: dict[str, str], golden: Path) -> None:
    with running([golden], env) as viewer:
        assert viewer.url.startswith("http://localhost:")
        assert viewer.get("profiles/")["count"] == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_and_all_that_it_started(
    env: dict[str, str], golden: Path, number: int
) -> None:
    with running([golden], env) as viewer:
        run_dir = Path(viewer.worker().cwd())
        family = psutil.Process(viewer.process.pid).children(recursive=True)
        assert viewer.children("aggregator.system.sql_child")  # it has read the file

        assert viewer.stop(number) == 0

        assert psutil.wait_procs(family, timeout=WAIT_LIMIT_S)[1] == []
        assert not run_dir.exists()


def test_under_nohup_it_outlives_its_terminal(env: dict[str, str], golden: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # inherited, as from nohup
    try:
        context = running([golden], env)
        viewer = context.__enter__()
    finally:
        signal.signal(signal.SIGHUP, before)
    with contextlib.ExitStack() as stack:
        stack.push(context)
        worker = viewer.worker()
        viewer.process.send_signal(signal.SIGHUP)
        viewer.process.send_signal(signal.SIGUSR1)
        # A reload still ends the worker, which is started again.
        psutil.wait_procs([worker], timeout=WAIT_LIMIT_S)
        assert viewer.get("profiles/")["count"] == 1
        assert viewer.worker().is_running()
        assert viewer.process.poll() is None


def test_killed_outright_it_leaves_nothing_behind(env: dict[str, str], golden: Path) -> None:
    viewer = start([golden], env)
    viewer.worker()
    family = psutil.Process(viewer.process.pid).children(recursive=True)

    viewer.process.kill()
    viewer.process.wait()

    _, alive = psutil.wait_procs(family, timeout=WAIT_LIMIT_S)
    assert not alive


def test_a_worker_that_dies_is_started_again(env: dict[str, str], golden: Path) -> None:
    with running([golden], env) as viewer:
        first = viewer.worker()
        first.kill()
        psutil.wait_procs([first], timeout=WAIT_LIMIT_S)

        assert viewer.worker().pid != first.pid


def test_on_other_addresses_it_asks_for_a_token(env: dict[str, str], golden: Path) -> None:
    with running(["-b", "0.0.0.0", golden], env) as viewer:
        port = viewer.url.split(":")[2].split("/")[0]
        token = viewer.url.partition("?token=")[2]
        viewer.url = f"http://127.0.0.1:{port}"

        assert len(token) > 20
        assert viewer.get("profiles/")["error"]["code"] == "TOKEN_MISSING"
        asked = Request(
            f"{viewer.url}/api/v1/profiles/", headers={"Authorization": f"Bearer {token}"}
        )
        with urlopen(asked, timeout=WAIT_LIMIT_S) as response:
            assert json.load(response)["count"] == 1
