"""``dlprof attach``: with Python 3.14 where it is installed, and a stand-in for what it does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aggregator.errors import CollectorError, UsageError
from profiler_cli.standby import attach
from tests.cli.forking import Forks
from tests.cli.test_own_collector import CUDA, REPOSITORY, Bench, cache  # noqa: F401 - a fixture
from tests.cli.test_standby import LIMIT_S, TRAINING, wait_for

#: Runs a script between two steps, as Python 3.14 does between two instructions.
ANSWER = """
    if os.path.exists("script"):
        path = open("script").read()
        os.remove("script")
        exec(compile(open(path).read(), path, "exec"), {})
"""
BEGUN = "\nopen('begun', 'w').close()\n"


@pytest.fixture
def start(
    tmp_path: Path,
    cache: Path,  # noqa: F811 - the fixture
    forks: Forks,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[[str], tuple[Bench, subprocess.Popen[str]]]]:
    """Start a program without dlprof."""
    (tmp_path / "tmp").mkdir()
    bench = Bench(tmp_path, cache, forks)
    bench.environment["TMPDIR"] = str(tmp_path / "tmp")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("DLPROF_CACHE_DIR", str(cache))
    started: list[subprocess.Popen[str]] = []

    def begin(script: str) -> tuple[Bench, subprocess.Popen[str]]:
        (tmp_path / "train.py").write_text(CUDA + script)
        words = [sys.executable, "train.py"]
        output = (tmp_path / "output").open("w")
        process = subprocess.Popen(
            words, cwd=tmp_path, env=bench.environment, stdout=output, stderr=output, text=True
        )
        started.append(process)
        wait_for((tmp_path / "begun").exists)
        return bench, process

    yield begin
    for process in started:
        process.kill()
        process.wait()


def _stand_in(monkeypatch: pytest.MonkeyPatch, folder: Path, error: str = "") -> None:
    """Let a process be asked as Python 3.14 would be, and run what it is given."""

    def run(_: attach._Python, *words: str) -> subprocess.CompletedProcess[str]:
        if words[1] == attach._ASK:
            return subprocess.CompletedProcess(words, 0, "3 14", "")
        if error:
            return subprocess.CompletedProcess(words, 1, "", error)
        (folder / "script.part").write_text(words[3])
        (folder / "script.part").rename(folder / "script")
        return subprocess.CompletedProcess(words, 0, "", "")

    monkeypatch.setattr(attach._Python, "run", run)


def test_a_program_that_dlprof_has_not_started_is_recorded(
    start: Callable[[str], tuple[Bench, subprocess.Popen[str]]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    script = TRAINING.replace("    optimizer.step()\n", f"    optimizer.step()\n{ANSWER}")
    bench, process = start(script.replace("fake.fake_init()", f"fake.fake_init(){BEGUN}"))
    _stand_in(monkeypatch, bench.folder)
    assert attach.run_attach([str(process.pid)]) == 0
    assert f"dlprof record {process.pid}" in capsys.readouterr().out
    wait_for(lambda: list(bench.folder.glob("tmp/dlprof-standby-*/ready.*[0-9]")))
    for number in range(2):
        done = bench.start("record", str(process.pid), "--steps=5", f"--output_path=out{number}")
        assert done.returncode == 0, done.stderr
    database = next(bench.folder.glob("out1/*.sqlite"))
    assert bench.rows("SELECT count(*) FROM kernels", str(database)) == [(10,)]
    (bench.folder / "stop").touch()
    assert process.wait(LIMIT_S) == 0
    assert (bench.folder / "output").read_text() == ""
    # The folder belongs to the process that has ended.
    assert bench.start("record").returncode == 2


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("PermissionError: [Errno 1] Operation not permitted", "ptrace_scope"),
        (
            "RuntimeError: Remote debugging is not enabled in the remote process",
            "-X disable-remote",
        ),
        ("OSError: something else", "dlprof --standby"),
    ],
)
def test_a_system_that_forbids_it_is_named(
    start: Callable[[str], tuple[Bench, subprocess.Popen[str]]],
    monkeypatch: pytest.MonkeyPatch,
    error: str,
    expected: str,
) -> None:
    bench, process = start(f"{BEGUN}time.sleep(1000)")
    _stand_in(monkeypatch, bench.folder, error)
    with pytest.raises(UsageError, match="cannot be attached to") as raised:
        attach.run_attach([str(process.pid)])
    assert expected in raised.value.hint
    assert "No job stands by" in bench.start("record").stderr


def test_a_program_that_cannot_stand_by_says_why(
    start: Callable[[str], tuple[Bench, subprocess.Popen[str]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench, process = start(f"{BEGUN}while True:\n    time.sleep(0.01)\n{ANSWER}")
    _stand_in(monkeypatch, bench.folder)
    with pytest.raises(CollectorError, match="it has not imported PyTorch"):
        attach.run_attach([str(process.pid)])
    assert process.poll() is None
    # Its main thread may wait somewhere.
    os.kill(process.pid, 19)
    with pytest.raises(CollectorError, match=r"has not answered within 0\.2 s"):
        attach.run_attach([str(process.pid), "--limit=0.2"])
    os.kill(process.pid, 18)
    wait_for(lambda: not (bench.folder / "script").exists())
    assert process.poll() is None
    assert (bench.folder / "output").read_text() == ""


def test_other_programs_and_older_pythons_are_refused(
    start: Callable[[str], tuple[Bench, subprocess.Popen[str]]],
) -> None:
    with subprocess.Popen(["sleep", "1000"]) as other:
        with pytest.raises(UsageError, match="is no Python program"):
            attach.run_attach([str(other.pid)])
        other.kill()
    with pytest.raises(UsageError, match="cannot be looked at"):
        attach.run_attach([str(other.pid)])
    if sys.version_info < (3, 14):
        _, process = start(f"{BEGUN}time.sleep(1000)")
        with pytest.raises(UsageError, match=r"runs Python 3\.\d+, and only 3\.14") as raised:
            attach.run_attach([str(process.pid)])
        assert "dlprof --standby" in raised.value.hint


@pytest.mark.skipif(shutil.which("python3.14") is None, reason="Python 3.14 is not installed")
def test_python_itself_runs_the_script(tmp_path: Path, cache: Path) -> None:  # noqa: F811
    """The whole way, to a program that has not imported PyTorch."""
    script = "import time; open('begun', 'w').close()\nwhile True: time.sleep(0.01)"
    environment = {**os.environ, "DLPROF_CACHE_DIR": str(cache), "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen(["python3.14", "-c", script], cwd=tmp_path) as process:
        wait_for((tmp_path / "begun").exists)
        words = "import sys; from profiler_cli.dlprof import main; sys.exit(main())"
        done = subprocess.run(
            [sys.executable, "-c", words, "attach", str(process.pid)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        process.kill()
    assert "it has not imported PyTorch" in done.stderr or "ptrace_scope" in done.stderr
