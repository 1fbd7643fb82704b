"""Start the process that ends this worker when its job is beyond a limit.

A worker looks after its limits itself, but in a thread: what holds Python's lock for long, a
regular expression on a hostile text say, stops that thread as well. The other process is
``aggregator/jobs/watcher_process.py``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_BEAT_S: Final = 1.0
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
                [sys.executable, "-m", "aggregator.jobs.watcher_process", str(self._owner)],
                cwd=_FOLDER,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        return self._process


WATCHER: Final = Watcher()
