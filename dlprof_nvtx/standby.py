"""Stand by: record nothing until a window is asked for, and then some steps.

``dlprof record`` writes a request into the folder of the job, which is the user's own. Each process
looks for one at the ends of its steps, and answers with a file there. Meanwhile the times of the
steps are kept, a line a minute, so that a job that becomes slower shows it.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dlprof_nvtx import agreement

VARIABLE = "DLPROF_STANDBY"
REQUEST = "request.json"
CHECK_NS = 100_000_000
"""How often a process looks for a request."""
AHEAD_NS = 500_000_000
"""Ranks begin so long after the first of them has seen a request: by then all have."""
RECENT_STEPS = 20
"""That time is counted in steps of the length of the shortest of the last 20: one slow step would
make it too short."""
KEPT_STEPS, LEAST_KEPT = 200, 3
"""Of the steps without profiling those of the last minute are kept for the next window, at most and
at least so many: steps that have become slower are not to be compared with a mixture of both."""
LONGEST_NS = 600_000_000_000
LINE_VARIABLE = "DLPROF_STANDBY_LINE_S"
"""Length of a line of the notes, a minute without it: tests cannot wait for minutes."""
MINUTE_S, MOST_OF_MINUTE = "60", 6_000
RING_BYTES = 500_000
"""Two files of this size hold the minutes of some weeks."""


class Request:
    """A window that is asked for."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.name = str(content["id"])
        self.steps = max(1, int(content["steps"]))
        pids = content.get("pids")
        self.pids = {int(pid) for pid in pids} if pids is not None else None


class Minutes:
    """The times of steps, a line a minute."""

    def __init__(self) -> None:
        self._begin_ns = 0
        self.line_ns = int(float(os.environ.get(LINE_VARIABLE, MINUTE_S)) * 1e9)
        self._loop = ""
        self._gaps: list[int] = []
        self._steps = 0

    def add(self, folder: Path, loop: str, gap_ns: int, now_ns: int) -> None:
        """Add a step, and write the line if the minute is over."""
        if self._gaps and (now_ns - self._begin_ns >= self.line_ns or loop != self._loop):
            self._write(folder)
        if not self._gaps:
            self._begin_ns, self._loop, self._steps = now_ns - gap_ns, loop, 0
        self._steps += 1
        if len(self._gaps) < MOST_OF_MINUTE:
            self._gaps.append(gap_ns)

    def _write(self, folder: Path) -> None:
        gaps, self._gaps = sorted(self._gaps), []
        line = {
            "utc_s": round(time.time(), 1),
            "loop": self._loop,
            "steps": self._steps,
            "median_ns": round(statistics.median(gaps)),
            "p90_ns": gaps[len(gaps) * 9 // 10],
        }
        path = folder / f"minutes.{os.getpid()}.jsonl"
        with suppress(OSError):
            if path.exists() and path.stat().st_size > RING_BYTES:
                path.replace(path.with_suffix(".older"))
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


class Standby:
    """Whether this process waits for requests, and the one that it carries out."""

    def __init__(self) -> None:
        self.is_active = False
        self.folder = Path(os.environ.get(agreement.FOLDER_VARIABLE, ""))
        self.request: Request | None = None  # Seen, and not answered yet.
        self.first = 0  # The step of the loop after which its window begins.
        self.minutes = Minutes()
        self._stamp = (0, 0)  # Of the request that was read last.
        self._checked_ns = 0
        self._is_ready = False

    def prepare(self) -> bool:
        """Find out whether this process stands by; returns whether it does."""
        folder = os.environ.get(agreement.FOLDER_VARIABLE, "")
        self.is_active = bool(folder) and os.environ.get(VARIABLE, "") == "1"
        self.folder = Path(folder)
        return self.is_active

    def is_due(
        self,
        loop: int,
        number: int,
        steps: Sequence[tuple[int, int]],
        now_ns: int,
        *,
        has_ranks: bool,
    ) -> bool:
        """Return whether a window begins after this step.

        Args:
            loop: Number of the loop whose step has ended, equal in all ranks.
            number: Number of the step in that loop.
            steps: Length and end of the steps until now, without profiling.
            now_ns: The time, of the host's clock.
            has_ranks: Whether all ranks of a job record the same steps.
        """
        if not self._is_ready:
            self._is_ready = True
            self._write(f"ready.{os.getpid()}", {"rank": agreement.rank()})
        if self.request is None and now_ns - self._checked_ns >= CHECK_NS:
            self._checked_ns = now_ns
            self.request = self._look()
            if self.request is not None:
                self._accept(self.request, loop, number, steps, has_ranks=has_ranks)
        return self.request is not None and number >= self.first

    def _accept(
        self,
        request: Request,
        loop: int,
        number: int,
        steps: Sequence[tuple[int, int]],
        *,
        has_ranks: bool,
    ) -> None:
        self.first = number
        if has_ranks and request.pids is None:
            shortest_ns = min((length for length, _ in steps[-RECENT_STEPS:]), default=AHEAD_NS)
            own = number + 1 + AHEAD_NS // max(shortest_ns, 1)
            found = agreement.agree(f"record.{request.name}.{loop}", str(own))
            self.first = int(found) if found.isdecimal() else own
        self._write(f"seen.{request.name}.{os.getpid()}", {"first": self.first})
        if number > self.first:
            self.answer(f"process {os.getpid()} saw the request after the first step", is_late=True)

    def _look(self) -> Request | None:
        """Read the request, if there is a new one for this process."""
        path = self.folder / REQUEST
        try:
            found = path.stat()
            stamp = (found.st_mtime_ns, found.st_ino)
            if stamp == self._stamp or found.st_uid not in (os.geteuid(), 0):
                return None
            self._stamp = stamp
            request = Request(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return request if request.pids is None or os.getpid() in request.pids else None

    def is_over(self, number: int, now_ns: int, begin_ns: int) -> bool:
        """Return whether the window ends after this step."""
        if self.request is None or number >= self.first + self.request.steps:
            return True
        if now_ns - self._checked_ns < CHECK_NS:
            return False
        self._checked_ns = now_ns
        return self._is_withdrawn() or now_ns - begin_ns >= LONGEST_NS

    def _is_withdrawn(self) -> bool:
        try:
            found = (self.folder / REQUEST).stat()
        except OSError:
            return True
        return (found.st_mtime_ns, found.st_ino) != self._stamp

    def answer(self, problem: str = "", *, is_late: bool = False) -> None:
        """Say that the window is complete, or why there is none, or none of any rank."""
        if self.request is not None:
            name, self.request = self.request.name, None
            self._write(f"done.{name}.{os.getpid()}", {"problem": problem, "is_late": is_late})

    def _write(self, name: str, content: dict[str, Any]) -> None:
        part = self.folder / f"{name}.part"
        with suppress(OSError):
            part.write_text(json.dumps(content), encoding="utf-8")
            part.replace(self.folder / name)


STANDBY = Standby()
