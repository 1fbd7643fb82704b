"""Where a job is, kept in memory, and the limits that it may not pass."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from aggregator.errors import AggregationCancelledError, DlprofError
from aggregator.jobs import Snapshot
from aggregator.progress import Level
from aggregator.texts import say

#: Share of the whole that each phase usually takes, in their order.
_PHASE_WEIGHTS = {"read": 40, "correlate": 10, "aggregate": 30, "write": 15, "index": 5}
#: Of a job of several rank files: importing and joining them, before the joined whole is read.
_RANK_WEIGHTS = {"import": 60, "join": 20}
#: Before this much is done, the time left is a guess not worth showing.
_ETA_FROM_PCT = 5.0
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_STATM = Path("/proc/self/statm")
DEFAULT_TIME_LIMIT_S = 3600.0


class JobTimeLimitError(DlprofError):
    """The job took longer than a job may."""

    code = "JOB_TIME_LIMIT"


class JobMemoryLimitError(DlprofError):
    """The job needed more memory than a job may."""

    code = "JOB_MEMORY_LIMIT"


@dataclass(frozen=True)
class JobLimits:
    """What one job may take.

    Attributes:
        time_s: Wall time; 0: any (``DLPROF_JOB_TIME_LIMIT_S``).
        memory_bytes: Resident memory of the worker; 0: any (``DLPROF_JOB_MEMORY_LIMIT_BYTES``).
    """

    time_s: float = DEFAULT_TIME_LIMIT_S
    memory_bytes: int = 0

    @classmethod
    def read(cls, variables: Mapping[str, str] = os.environ) -> JobLimits:
        """Those that the environment sets."""
        return cls(
            time_s=float(variables.get("DLPROF_JOB_TIME_LIMIT_S") or DEFAULT_TIME_LIMIT_S),
            memory_bytes=int(variables.get("DLPROF_JOB_MEMORY_LIMIT_BYTES") or 0),
        )

    def passed(self, elapsed_s: float, resident_bytes: int) -> DlprofError | None:
        """The limit that is passed, as the error that the job ends with."""
        if self.time_s and elapsed_s > self.time_s:
            return JobTimeLimitError(
                say(
                    "The job took longer than the {limit_s:g} s that a job may take.",
                    limit_s=self.time_s,
                ),
                hint=say("Aggregate fewer iterations, or raise DLPROF_JOB_TIME_LIMIT_S."),
                limit_s=self.time_s,
            )
        if self.memory_bytes and resident_bytes > self.memory_bytes:
            return memory_error(self.memory_bytes)
        return None


def memory_error(limit_bytes: int) -> JobMemoryLimitError:
    """The error of a job that needs more than the limit, or than there is."""
    if limit_bytes:
        mib = limit_bytes / 2**20
        message = say("The job needed more than the {mib:,.0f} MiB that a job may use.", mib=mib)
    else:
        message = say("The job needed more memory than there is.")
    return JobMemoryLimitError(
        message,
        hint=say("Aggregate fewer iterations, or raise DLPROF_JOB_MEMORY_LIMIT_BYTES."),
        limit_bytes=limit_bytes,
    )


def resident_bytes() -> int:
    """Memory that this process holds now; 0 where the system does not tell."""
    try:
        return int(_STATM.read_text().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0


class Ending(Protocol):
    """Whether this worker has been asked to end."""

    def is_set(self) -> bool:
        """Whether it has."""


class JobProgress:
    """The engine's progress, kept in memory: a beat sends it off, and the engine never waits."""

    def __init__(self, ending: Ending | None = None) -> None:
        self._ending = ending or threading.Event()
        self._stop = threading.Event()
        self._reason: DlprofError | None = None
        self._started = time.monotonic()
        self._phase = ""
        self._phase_started = self._started
        self._rows = 0
        self._total_rows: int | None = None
        self._message = ""
        self._progress_pct = 0.0
        self._has_ranks = False
        self._read_parts: Callable[[], str] = str

    @property
    def elapsed_s(self) -> float:
        """Since the job began."""
        return time.monotonic() - self._started

    def stop(self, reason: DlprofError | None = None) -> None:
        """Make the engine stop at its next report: with an error, or as cancelled."""
        self._reason = self._reason or reason
        self._stop.set()

    def phase(self, name: str, total_rows: int | None = None) -> None:
        """A new phase begins."""
        self._check()
        self._phase, self._total_rows, self._rows = name, total_rows, 0
        self._phase_started = time.monotonic()

    def advance(self, rows: int) -> None:
        """Some rows more are done."""
        self._check()
        self._rows += rows

    def message(self, text: str, level: Level = Level.NORMAL) -> None:
        """Keep the latest line that a person would want to see."""
        if level <= Level.NORMAL:
            self._message = text

    def watch_parts(self, read: Callable[[], str]) -> None:
        """Have every snapshot say how far each rank file is."""
        self._read_parts = read

    def snapshot(self) -> Snapshot:
        """Where the job is now."""
        now = time.monotonic()
        self._progress_pct = max(self._progress_pct, self._percent())
        seconds = now - self._phase_started
        rate = self._rows / seconds if self._rows and seconds > 0 else None
        return Snapshot(
            phase=self._phase,
            progress_pct=round(self._progress_pct, 1),
            rows_per_s=rate and round(rate, 1),
            eta_s=self._time_left_s(now - self._started),
            message=self._message,
            parts=self._read_parts(),
        )

    def _check(self) -> None:
        if self._reason is not None:
            raise self._reason
        if self._stop.is_set() or self._ending.is_set():
            raise AggregationCancelledError(say("The job was cancelled."))

    def _percent(self) -> float:
        ranks = float(sum(_RANK_WEIGHTS.values()))
        if self._phase in _RANK_WEIGHTS:
            self._has_ranks = True
            return self._percent_of(_RANK_WEIGHTS)
        if self._phase not in _PHASE_WEIGHTS:
            return 0.0
        done = self._percent_of(_PHASE_WEIGHTS)
        return ranks + (100.0 - ranks) * done / 100.0 if self._has_ranks else done

    def _percent_of(self, weights: Mapping[str, int]) -> float:
        before = 0
        for name, weight in weights.items():
            if name == self._phase:
                break
            before += weight
        done = min(1.0, self._rows / self._total_rows) if self._total_rows else 0.0
        return before + done * weights[self._phase]

    def _time_left_s(self, elapsed_s: float) -> float | None:
        if self._progress_pct < _ETA_FROM_PCT:
            return None
        return round(elapsed_s * (100.0 - self._progress_pct) / self._progress_pct, 1)


class LimitedProgress:
    """Passes progress on, and raises the error of a limit that is passed."""

    def __init__(self, progress: JobProgress, limits: JobLimits) -> None:
        self._progress = progress
        self._limits = limits

    def phase(self, name: str, total_rows: int | None = None) -> None:
        """A new phase begins."""
        self._check()
        self._progress.phase(name, total_rows)

    def advance(self, rows: int) -> None:
        """Some rows more are done."""
        self._check()
        self._progress.advance(rows)

    def message(self, text: str, level: Level = Level.NORMAL) -> None:
        """Pass it on."""
        self._progress.message(text, level)

    def _check(self) -> None:
        if error := self._limits.passed(self._progress.elapsed_s, resident_bytes()):
            raise error
