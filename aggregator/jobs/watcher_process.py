"""End the worker that started this process when its job is beyond a limit.

It reads lines from standard input: ``begin TASK TIME_S MEMORY_BYTES``, ``beat`` each second,
``end``. It imports little, and Celery only to store why the job ended.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Final

from aggregator.jobs.limits import (
    LAST_GRACE_S,
    LAST_MEMORY_GRACE,
    SILENCE_LIMIT_S,
    JobLimits,
    memory_error,
    time_error,
)
from aggregator.system.resources import resident_bytes

_LOOK_S: Final = 0.5


class _Watch:
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
        is_late = 0 < self._time_s < now - self._began_at - LAST_GRACE_S
        is_large = 0 < self._memory_bytes < resident_bytes(_tree(self._worker)) / LAST_MEMORY_GRACE
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
    """Return a process and all that it has started, without this one."""
    parents = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            stat = (entry / "stat").read_bytes().rpartition(b")")[2].split()
            parents[int(entry.name)] = int(stat[1])
    found = [worker]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return [pid for pid in found if pid != os.getpid()]


def _store(task_id: str, *, is_late: bool) -> None:
    from aggregator.jobs.celery_app import app  # noqa: PLC0415 - takes a second
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
