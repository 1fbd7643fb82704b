"""The progress of a job, kept in memory, and its limits of time and memory."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from aggregator.errors import AggregationCancelledError, DlprofError, JSONValue
from aggregator.system.progress import Level
from aggregator.system.resources import resident_bytes
from aggregator.texts import say

#: Usual share of each phase in the time of a job, in the order of the phases. Unit: percent.
_PHASE_WEIGHTS = {"read": 40, "correlate": 10, "aggregate": 30, "write": 15, "index": 5}
#: Of a job with several rank files: importing and joining them; the phases above share the rest.
RANK_WEIGHTS = {"import": 60, "join": 20}
#: Below this progress the time left cannot be estimated.
_ETA_FROM_PCT = 5.0
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
DEFAULT_TIME_LIMIT_S = 3600.0
#: A job stops at its limits by itself; one that does not is ended with its worker this much beyond
#: them: by a thread of the worker, or by the process beside it where that thread cannot run.
GRACE_S, MEMORY_GRACE = 1.0, 1.25
LAST_GRACE_S, LAST_MEMORY_GRACE = 2.0, 1.5
#: A worker that is silent for so long is lost: the process beside it ends it, and the keeper of
#: jobs has another one do its job.
SILENCE_LIMIT_S = 30.0
_CHECK_INTERVAL_S = 0.3
#: Share of the machine's memory, or of the container's, that a job may use by default.
_MEMORY_SHARE = 0.75
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


class JobTimeLimitError(DlprofError):
    """The job took longer than the time limit."""

    code = "JOB_TIME_LIMIT"


class JobMemoryLimitError(DlprofError):
    """The job needed more memory than the memory limit."""

    code = "JOB_MEMORY_LIMIT"


@dataclass(frozen=True)
class JobLimits:
    """Limits of one job."""

    time_s: float = DEFAULT_TIME_LIMIT_S  # Wall time; 0: unlimited (``DLPROF_JOB_TIME_LIMIT_S``).
    # Resident memory of the worker and the processes that it started; 0: unlimited
    # (``DLPROF_JOB_MEMORY_LIMIT_BYTES``).
    memory_bytes: int = 0

    @classmethod
    def read(cls, variables: Mapping[str, str] = os.environ) -> JobLimits:
        """Read the limits from the environment; by default memory is limited as well."""
        memory = variables.get("DLPROF_JOB_MEMORY_LIMIT_BYTES")
        return cls(
            time_s=float(variables.get("DLPROF_JOB_TIME_LIMIT_S") or DEFAULT_TIME_LIMIT_S),
            memory_bytes=int(memory) if memory else int(_MEMORY_SHARE * _total_memory_bytes()),
        )

    def exceeded(self, elapsed_s: float, resident_bytes: int) -> DlprofError | None:
        """Return the error of the limit that is exceeded; None if none is."""
        if self.time_s and elapsed_s > self.time_s:
            return time_error(self.time_s)
        if self.memory_bytes and resident_bytes > self.memory_bytes:
            return memory_error(self.memory_bytes)
        return None


def time_error(limit_s: float) -> JobTimeLimitError:
    """Return the error of a job that took longer than its limit."""
    return JobTimeLimitError(
        say("The job took longer than the {limit_s:g} s that a job may take.", limit_s=limit_s),
        hint=say("Aggregate fewer iterations, or raise DLPROF_JOB_TIME_LIMIT_S."),
        limit_s=limit_s,
    )


def memory_error(limit_bytes: int) -> JobMemoryLimitError:
    """Return the error of a job that ran out of memory. Unit: bytes, or 0 if no limit is set."""
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


def _total_memory_bytes() -> int:
    """Return the memory of the machine, or of this container if that is limited. Unit: bytes."""
    limits = [os.sysconf("SC_PHYS_PAGES") * _PAGE_BYTES]
    for path in _CGROUP_LIMITS:
        with suppress(OSError, ValueError):  # "max": unlimited
            limits.append(int(Path(path).read_text()))
    return min(limits)


class JobProgress:
    """The engine's progress, kept in memory; another thread reports it, so the engine never waits.

    Args:
        limits: Raised as an error by the report that finds one exceeded.
        ending: Set when this worker has to shut down.
    """

    def __init__(
        self, limits: JobLimits | None = None, ending: threading.Event | None = None
    ) -> None:
        self._limits = limits or JobLimits()
        self._ending = ending or threading.Event()
        self._stop = threading.Event()
        self._next_check = 0.0
        self._started = time.monotonic()
        self._phase = ""
        self._phase_started = self._started
        self._rows = 0
        self._total_rows: int | None = None
        self._message = ""
        self._progress_pct = 0.0
        self._has_ranks = False
        self._rank_states = ""

    def stop(self) -> None:
        """Stop the engine, as cancelled, at its next report."""
        self._stop.set()

    def limit_error(self, grace_s: float = 0.0, memory_factor: float = 1.0) -> DlprofError | None:
        """Return the error of a limit that is exceeded; None if none is.

        Args:
            grace_s: Added to the time limit. Unit: s.
            memory_factor: Multiplies the memory limit.
        """
        elapsed_s = time.monotonic() - self._started
        pids = (
            os.getpid(),
            *(child.pid for child in multiprocessing.active_children() if child.pid),
        )
        used = int(resident_bytes(pids) / memory_factor)
        return self._limits.exceeded(elapsed_s - grace_s, used)

    def phase(self, name: str, total_rows: int | None = None) -> None:
        """Begin a phase."""
        self._check()
        self._phase, self._total_rows, self._rows = name, total_rows, 0
        self._phase_started = time.monotonic()

    def advance(self, rows: int) -> None:
        """Count rows of the phase."""
        self._check()
        self._rows += rows

    def message(self, text: str, level: Level = Level.NORMAL) -> None:
        """Keep the latest line of normal level."""
        if level <= Level.NORMAL:
            self._message = text

    def rank_states(self, states: str) -> None:
        """Set the state of each rank file, a letter each.

        Args:
            states: ``w``: waiting, ``i``: being imported, ``d``: done, ``f``: failed.
        """
        self._rank_states = states

    def snapshot(self) -> dict[str, JSONValue]:
        """Return the progress as columns of the job's row."""
        now = time.monotonic()
        self._progress_pct = max(self._progress_pct, self._percent())
        seconds = now - self._phase_started
        rate = self._rows / seconds if self._rows and seconds > 0 else None
        return {
            "phase": self._phase,
            "progress_pct": round(self._progress_pct, 1),
            "rows_per_s": rate and round(rate, 1),
            "eta_s": self._time_left_s(now - self._started),
            "message": self._message,
            "parts": self._rank_states,
        }

    def _check(self) -> None:
        if self._stop.is_set() or self._ending.is_set():
            raise AggregationCancelledError(say("The job was cancelled."))
        now = time.monotonic()
        if now >= self._next_check:
            self._next_check = now + _CHECK_INTERVAL_S
            if error := self.limit_error():
                raise error

    def _percent(self) -> float:
        ranks = float(sum(RANK_WEIGHTS.values()))
        if self._phase in RANK_WEIGHTS:
            self._has_ranks = True
            return self._percent_of(RANK_WEIGHTS)
        if self._phase not in _PHASE_WEIGHTS:
            return 0.0
        done = self._percent_of(_PHASE_WEIGHTS)
        return ranks + (100.0 - ranks) * done / 100.0 if self._has_ranks else done

    def _percent_of(self, weights: Mapping[str, int]) -> float:
        before = sum(weights[name] for name in takewhile(lambda name: name != self._phase, weights))
        done = min(1.0, self._rows / self._total_rows) if self._total_rows else 0.0
        return before + done * weights[self._phase]

    def _time_left_s(self, elapsed_s: float) -> float | None:
        if self._progress_pct < _ETA_FROM_PCT:
            return None
        return round(elapsed_s * (100.0 - self._progress_pct) / self._progress_pct, 1)
