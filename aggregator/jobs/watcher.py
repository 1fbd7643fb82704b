"""Ends a worker whose job is beyond a limit: ``python -m aggregator.jobs.watcher``, its child.

A worker looks after its limits itself, but in a thread: what holds Python's lock for long, a
regular expression on a hostile text say, stops that thread as well. This process reads lines from
standard input: ``begin TASK TIME_S MEMORY_BYTES``, ``beat`` each second, ``end``. It imports
little, and Celery only to store why the job ended.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

#: The worker's own check ends a job that is this much beyond its limit; this process comes later.
GRACE_S: Final = 2.0
_MEMORY_GRACE: Final = 1.5
#: A worker that is silent for so long is lost, as the keeper of jobs sees it, too.
SILENCE_LIMIT_S: Final = 30.0
_LOOK_S: Final = 0.5
_BEAT_S: Final = 1.0
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_FOLDER: Final = str(Path(__file__).resolve().parents[2])


class Watcher:
    """The worker's side: one process for each process that runs jobs, started by its first job."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._job = ("", 0.0, 0)
        self._began_at = 0.0
        self.is_on = False  # Set in workers: no other process may be ended.

    @contextmanager
    def watching(self, task_id: str, time_s: float, memory_bytes: int) -> Iterator[None]:
        """Watch this process while the block runs.

        Args:
            task_id: The task that is failed when a limit is exceeded.
            time_s: Its limit of time; 0: none.
            memory_bytes: Its limit of memory; 0: none.
        """
        if not self.is_on:
            yield
            return
        ended = threading.Event()
        self._job, self._began_at = (task_id, time_s, memory_bytes), time.monotonic()
        self._say(self._begin())
        beats = threading.Thread(target=self._beat, args=(ended,), name="beat", daemon=True)
        beats.start()
        try:
            yield
        finally:
            ended.set()
            beats.join()
            self._say("end")

    def _beat(self, ended: threading.Event) -> None:
        while not ended.wait(_BEAT_S):
            self._say("beat")

    def _say(self, line: str) -> None:
        with self._lock, suppress(OSError):
            before, process = self._process, self._running()
            if process.stdin is not None:
                if process is not before and line == "beat":  # it replaces one that was killed
                    line = self._begin()
                process.stdin.write(f"{line}\n".encode())
                process.stdin.flush()

    def _begin(self) -> str:
        task_id, time_s, memory_bytes = self._job
        # 0 would be no limit.
        left_s = time_s and max(time_s - (time.monotonic() - self._began_at), 0.001)
        return f"begin {task_id} {left_s} {memory_bytes}"

    def _running(self) -> subprocess.Popen[bytes]:
        # A worker may be forked into several processes, each of which runs jobs.
        if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
            self._owner = os.getpid()
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-m", "aggregator.jobs.watcher", str(self._owner)],
                cwd=_FOLDER,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        return self._process


WATCHER: Final = Watcher()


class _Watch:
    """What is known of the worker."""

    def __init__(self, worker: int) -> None:
        self._worker = worker
        self._task = ""
        self._began_at = self._heard_at = 0.0
        self._time_s, self._memory_bytes = 0.0, 0

    def hear(self, line: str) -> None:
        """Note what the worker says."""
        self._heard_at = time.monotonic()
        kind, *words = line.split()
        if kind == "begin":
            self._began_at, self._task = self._heard_at, words[0]
            self._time_s, self._memory_bytes = float(words[1]), int(words[2])
        elif kind == "end":
            self._task = ""

    def forgive(self, seconds: float) -> None:
        """Do not count a time in which this process did not run either."""
        self._heard_at += seconds

    def look(self) -> None:
        """End the worker if its job is beyond a limit, or nothing was heard of it."""
        if not self._task:
            return
        now = time.monotonic()
        is_late = 0 < self._time_s < now - self._began_at - GRACE_S
        is_large = 0 < self._memory_bytes < _resident_bytes(self._worker) / _MEMORY_GRACE
        if is_late or is_large:
            # Stopped first: its last report must not replace the reason.
            self._signal(signal.SIGSTOP)
            try:
                _store(self._task, is_late=is_late)
            except Exception:  # noqa: BLE001 - the job is then one whose worker was lost
                traceback.print_exc()
            self._signal(signal.SIGKILL)
        elif now - self._heard_at > SILENCE_LIMIT_S:
            self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        for pid in _tree(self._worker):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


def _tree(worker: int) -> list[int]:
    """A process and all that it has started, without this one."""
    parents = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            stat = (entry / "stat").read_bytes().rpartition(b")")[2].split()
            parents[int(entry.name)] = int(stat[1])
    found = [worker]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return [pid for pid in found if pid != os.getpid()]


def _resident_bytes(worker: int) -> int:
    total = 0
    for pid in _tree(worker):
        with suppress(OSError, IndexError):
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    return total


def _store(task_id: str, *, is_late: bool) -> None:
    from aggregator.jobs.celery_app import app  # noqa: PLC0415 - takes a second
    from aggregator.jobs.limits import JobLimits, memory_error, time_error  # noqa: PLC0415
    from aggregator.texts import with_templates  # noqa: PLC0415

    limits = JobLimits.read()
    error = time_error(limits.time_s) if is_late else memory_error(limits.memory_bytes)
    result = {"end": "failed", "error": with_templates(error.to_dict())}
    app.backend.store_result(task_id, result, "SUCCESS")


def main() -> None:
    """Watch the parent, whose process id is the argument, until it ends."""
    worker = int(sys.argv[1])
    watch = _Watch(worker)
    text = b""
    looked_at = time.monotonic()
    while os.getppid() == worker:
        is_heard = select.select([0], [], [], _LOOK_S)[0]
        if is_heard:
            read = os.read(0, 4096)
            if not read:
                return
            *lines, text = (text + read).split(b"\n")
            for line in lines:
                watch.hear(line.decode())
        now = time.monotonic()
        if now - looked_at > 10 * _LOOK_S:
            watch.forgive(now - looked_at)
        looked_at = now
        watch.look()


if __name__ == "__main__":
    main()
