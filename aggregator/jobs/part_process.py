"""Does one part of work for another process: ``python -m aggregator.jobs.part_process``.

The request comes as one line of JSON on standard input, the result goes to standard output. The
process ends when its input does: the process that waits for it may have been killed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from aggregator.errors import QueryTimeoutError
from aggregator.jobs.parts import Request, Result, raise_error, run_part
from aggregator.texts import say

_FOLDER: Final = str(Path(__file__).resolve().parents[2])
_POLL_S: Final = 0.1


def run_apart(
    name: str, request: Request, limit_s: float, is_abandoned: Callable[[], bool] = bool
) -> Result:
    """Do a part in a process of its own, which is killed at the limit, whatever it computes.

    Raises:
        DlprofError: The part failed, or took too long.
    """
    words = [sys.executable, "-m", "aggregator.jobs.part_process"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, cwd=_FOLDER, text=True, **pipes) as process:  # noqa: S603
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            with suppress(BrokenPipeError):  # it ended at its start, as the loop will find
                process.stdin.write(json.dumps({"name": name, "request": dict(request)}) + "\n")
                process.stdin.flush()
            deadline = time.monotonic() + limit_s
            while process.poll() is None:
                if time.monotonic() > deadline or is_abandoned():
                    raise QueryTimeoutError(
                        say("Reading the file took longer than {limit_s:g} s.", limit_s=limit_s),
                        hint=say("Raise DLPROF_EXPORT_TIMEOUT_S, or aggregate it by a job."),
                    )
                time.sleep(_POLL_S)
            text = process.stdout.read()
        finally:
            process.kill()
    found: Result = json.loads(text) if text else {"error": _ENDED}
    raise_error(found)
    return found


_ENDED: Final[dict[str, Any]] = {
    "class": "CorruptProfileError",
    "message": say("The process that read the file ended."),
    "hint": say("The file may be damaged, or the machine be short of memory."),
    "details": {},
}


def _end_with_input() -> None:
    sys.stdin.read()
    os._exit(1)


def main() -> None:
    """Do the part."""
    asked = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_input, daemon=True).start()
    sys.stdout.write(json.dumps(run_part(asked["name"], asked["request"])))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
