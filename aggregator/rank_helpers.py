"""Further processes of one machine that import rank files of a job, beside the job's own worker.

A viewer with nothing installed has one worker, which does one thing at a time; the files of a job
need not wait for each other there. Helpers claim parts as any other worker does, so one that dies
costs the part it was at.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from aggregator.errors import AggregationCancelledError
from aggregator.job_progress import JobLimits, JobProgress, LimitedProgress
from aggregator.rank_parts import import_part_of

_PARENT_CHECK_S = 0.5
_END_LIMIT_S = 5.0


@contextmanager
def local_helpers(folder: Path, count: int) -> Iterator[None]:
    """Processes that import parts of a folder for as long as the block runs, and not longer."""
    words = [sys.executable, "-m", "aggregator.rank_helpers", str(folder), str(os.getpid())]
    processes = [
        subprocess.Popen(words, stdin=subprocess.DEVNULL)  # noqa: S603 - this program itself
        for _ in range(max(0, count))
    ]
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(timeout=_END_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def main(words: Sequence[str]) -> int:
    """Import parts of a folder until none is free: ``FOLDER PARENT``."""
    folder, parent = Path(words[0]), int(words[1])
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    progress = LimitedProgress(JobProgress(), JobLimits.read())
    with suppress(AggregationCancelledError):
        while import_part_of(folder, progress):
            pass
    return 0


def _end_with(parent: int) -> None:
    """End this process when the one that started it is gone, whatever it was at."""
    while os.getppid() == parent:
        time.sleep(_PARENT_CHECK_S)
    os._exit(1)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
