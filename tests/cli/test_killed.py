"""``kill -9`` at any moment: nothing half-written is seen, and the next run clears what is left."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from tests.cli.forking import LIMIT_S
from tests.cli.test_command import PAUSED

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = (sys.executable, "-m", "profiler_cli.dlprof")
REPORTS = {"dlprof_summary.csv", "dlprof_kernel.csv"}


def _start(words: Sequence[str], program: Sequence[str] = PROGRAM) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*program, *words],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _kill_at(moment: tuple[str, str], words: Sequence[str], mark: Path) -> None:
    """Start it, and kill it where its progress is at a word."""
    process = _start([*moment, str(mark), *words], [sys.executable, str(PAUSED)])
    deadline = time.monotonic() + LIMIT_S
    while not mark.exists():
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    family = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=LIMIT_S)
    _, alive = psutil.wait_procs(family, timeout=LIMIT_S)
    assert not alive


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def _check_next_run(words: Sequence[str], out: Path) -> None:
    """Nothing was visible before; afterwards there is what a first run makes."""
    left = _names(out)
    assert left
    assert all(name.startswith(".") for name in left)
    process = _start(words)
    assert process.wait(timeout=LIMIT_S) == 0
    assert _names(out) == {"dlprof_dldb.sqlite"} | REPORTS
    with closing(sqlite3.connect(out / "dlprof_dldb.sqlite")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def _words(source: str, out: Path, *more: str) -> list[str]:
    return [f"--database={source}", "--reports=summary,kernel", f"--output_path={out}", *more]


def test_killed_import_leaves_nothing(demo_profile: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = _words(str(demo_profile), out)

    _kill_at(("phase", "index"), words, tmp_path / "mark")

    assert any(name.endswith(".partial") for name in _names(out))
    _check_next_run(words, out)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_killed_import_of_rank_files_leaves_nothing(
    profile: Callable[[str], Path], tmp_path: Path, workers: str
) -> None:
    from tests.rank_files import make_ranks

    ranks = tmp_path / "ranks"
    ranks.mkdir()
    make_ranks([profile("pytorch_resnet50_fp32")], 4, ranks)
    out = tmp_path / "out"
    words = _words(f"{ranks}/rank*.sqlite", out, f"--workers={workers}")

    # In the middle: a part is there, and they are not joined.
    _kill_at(("message", "Imported"), words, tmp_path / "mark")

    assert any(out.glob(".*.ranks.*/*.sqlite"))
    assert any(name.startswith(".dlprof_dldb.sqlite.ranks.") for name in _names(out))
    _check_next_run(words, out)
