"""A worker is ended from outside: beyond its limits, or when nothing is heard of it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from aggregator.jobs import watcher_process

_CHILD = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'input()']); input()"


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    """A process with a child of its own."""
    with subprocess.Popen([sys.executable, "-c", _CHILD], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    found: list[tuple[str, bool]] = []
    monkeypatch.setattr(
        watcher_process, "_store", lambda task_id, is_late: found.append((task_id, is_late))
    )
    return found


@pytest.mark.parametrize(
    ("begin", "passed_s", "is_stored"),
    [
        ("begin task 10 0", 13.0, True),
        ("begin task 0 1", 0.0, True),
        ("begin task 3600 0", 31.0, False),
    ],
    ids=["time", "memory", "silence"],
)
def test_a_worker_beyond_a_limit_is_ended_with_the_reason(
    worker: subprocess.Popen[bytes],
    stored: list[tuple[str, bool]],
    monkeypatch: pytest.MonkeyPatch,
    begin: str,
    passed_s: float,
    is_stored: bool,
) -> None:
    now = 1_000.0
    monkeypatch.setattr("aggregator.jobs.watcher_process.time.monotonic", lambda: now)
    watch = watcher_process._Watch(worker.pid)
    watch.hear(begin)
    now += passed_s
    watch.look()
    assert worker.wait(60) == -signal.SIGKILL
    assert stored == ([("task", begin.startswith("begin task 10"))] if is_stored else [])


@pytest.mark.parametrize("words", [(), ("begin task 10 0",), ("begin task 1 0", "end")])
def test_a_worker_within_its_limits_goes_on(
    worker: subprocess.Popen[bytes],
    stored: list[tuple[str, bool]],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
) -> None:
    now = 1_000.0
    monkeypatch.setattr("aggregator.jobs.watcher_process.time.monotonic", lambda: now)
    watch = watcher_process._Watch(worker.pid)
    for word in words:
        watch.hear(word)
    now += 11.0
    watch.look()
    assert worker.poll() is None
    assert not stored


def test_a_time_in_which_nothing_ran_is_no_silence(
    worker: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr("aggregator.jobs.watcher_process.time.monotonic", lambda: now)
    watch = watcher_process._Watch(worker.pid)
    watch.hear("begin task 0 0")
    now += 40.0
    watch.forgive(40.0)
    watch.look()
    assert worker.poll() is None


def test_a_watcher_that_was_killed_is_replaced_by_one_that_knows_the_job() -> None:
    program = (
        "import time\n"
        "from aggregator.jobs.watcher import Watcher\n"
        "watcher = Watcher()\n"
        "watcher.is_on = True\n"
        "with watcher.watching('task', 1.0, 0):\n"
        "    watcher._process.kill()\n"
        "    time.sleep(60)\n"
    )

    ended = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)

    assert ended.returncode == -signal.SIGKILL
