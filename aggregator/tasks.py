"""The background task: one aggregation, its progress told to whoever keeps the jobs.

The engine does not know who that is: ``DLPROF_JOB_RECORDER`` names a class as ``module:Class``.
"""

from __future__ import annotations

import importlib
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from celery.signals import worker_ready, worker_shutting_down

from aggregator.celery_app import AGGREGATE_TASK, app
from aggregator.errors import AggregationCancelledError, DlprofError, JSONValue
from aggregator.options import AggregationRequest
from aggregator.pipeline import aggregate
from aggregator.progress import Level
from aggregator.texts import say

_BEAT_INTERVAL_S = 0.3
#: Share of the whole that each phase usually takes, in their order.
_PHASE_WEIGHTS = {"read": 40, "correlate": 10, "aggregate": 30, "write": 15, "index": 5}
#: Before this much is done, the time left is a guess not worth showing.
_ETA_FROM_PCT = 5.0
REUSED = say("This aggregation was there already.")

logger = logging.getLogger(__name__)
_shutting_down = threading.Event()


@dataclass(frozen=True)
class ClaimedJob:
    """A job that this worker, and no other, works on.

    Attributes:
        job_id: The job.
        claim: Proof of the claim, shown with every report.
        database: The database that gets the aggregation.
        request: The aggregation.
    """

    job_id: str
    claim: str
    database: Path
    request: AggregationRequest


@dataclass(frozen=True)
class Snapshot:
    """Where a job is.

    Attributes:
        phase: Name of the engine's phase.
        progress_pct: Done of the whole, never falling.
        rows_per_s: Rows of the phase per second, if it counts any.
        eta_s: Time left, if it can be told.
        message: The engine's latest line.
    """

    phase: str
    progress_pct: float
    rows_per_s: float | None
    eta_s: float | None
    message: str


@dataclass(frozen=True)
class Outcome:
    """What a job made.

    Attributes:
        aggregation_id: The aggregation.
        database: The database that holds it; a converted one for one of NVIDIA's.
        message: One line for a person; may be empty.
    """

    aggregation_id: int
    database: Path
    message: str


class JobRecorder(Protocol):
    """Keeps the jobs."""

    def worker_started(self) -> None:
        """A worker is ready: jobs of dead workers can be begun again."""

    def claim(self, job_id: str) -> ClaimedJob | None:
        """Take a queued job; None if it is no longer queued."""

    def beat(self, job: ClaimedJob, snapshot: Snapshot) -> bool:
        """Tell where the job is, and that its worker lives; False: stop."""

    def finish(self, job: ClaimedJob, outcome: Outcome) -> None:
        """The aggregation is there."""

    def fail(self, job: ClaimedJob, error: dict[str, JSONValue]) -> None:
        """The aggregation cannot be made."""

    def cancel(self, job: ClaimedJob) -> None:
        """The job has stopped, as asked."""

    def release(self, job: ClaimedJob) -> None:
        """The worker has to end; somebody else may take the job."""


class JobProgress:
    """The engine's progress, kept in memory: a beat sends it off, and the engine never waits."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._started = time.monotonic()
        self._phase = ""
        self._phase_started = self._started
        self._rows = 0
        self._total_rows: int | None = None
        self._message = ""
        self._progress_pct = 0.0

    def stop(self) -> None:
        """Make the engine stop at its next report."""
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
        )

    def _check(self) -> None:
        if self._stop.is_set() or _shutting_down.is_set():
            raise AggregationCancelledError(say("The aggregation was cancelled."))

    def _percent(self) -> float:
        if self._phase not in _PHASE_WEIGHTS:
            return 0.0
        before = 0
        for name, weight in _PHASE_WEIGHTS.items():
            if name == self._phase:
                break
            before += weight
        done = min(1.0, self._rows / self._total_rows) if self._total_rows else 0.0
        return before + done * _PHASE_WEIGHTS[self._phase]

    def _time_left_s(self, elapsed_s: float) -> float | None:
        if self._progress_pct < _ETA_FROM_PCT:
            return None
        return round(elapsed_s * (100.0 - self._progress_pct) / self._progress_pct, 1)


@app.task(name=AGGREGATE_TASK)
def aggregate_job(job_id: str) -> None:
    """Do a job."""
    run_job(job_id, load_recorder())


def run_job(job_id: str, recorder: JobRecorder) -> None:
    """Take a job, aggregate, and say how it ended."""
    job = recorder.claim(job_id)
    if job is None:
        # Cancelled while it waited, or a second message for a job that somebody has.
        return
    progress = JobProgress()
    try:
        with _beating(job, progress, recorder):
            result = aggregate(job.database, job.request, progress)
    except AggregationCancelledError:
        if _shutting_down.is_set():
            recorder.release(job)
        else:
            recorder.cancel(job)
    except DlprofError as error:
        recorder.fail(job, error.to_dict())
    except Exception as error:
        recorder.fail(job, _internal_error(error))
        raise
    else:
        message = REUSED if result.reused else ""
        recorder.finish(job, Outcome(result.aggr_id, result.database, message))


@cache
def load_recorder() -> JobRecorder:
    """The keeper of the jobs that the environment names.

    Raises:
        RuntimeError: It names none.
    """
    module_name, _, class_name = os.environ.get("DLPROF_JOB_RECORDER", "").partition(":")
    if not class_name:
        raise RuntimeError("DLPROF_JOB_RECORDER must name the keeper of jobs as module:Class")
    recorder: JobRecorder = getattr(importlib.import_module(module_name), class_name)()
    return recorder


@contextmanager
def _beating(job: ClaimedJob, progress: JobProgress, recorder: JobRecorder) -> Iterator[None]:
    """Report in the background for as long as the block runs."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(_BEAT_INTERVAL_S):
            try:
                wanted = recorder.beat(job, progress.snapshot())
            except Exception:  # the keeper may be away for a moment; the next beat tries again
                logger.exception("job %s: its progress could not be recorded", job.job_id)
                continue
            if not wanted:
                progress.stop()

    thread = threading.Thread(target=beat, name=f"beat-{job.job_id}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _internal_error(error: Exception) -> dict[str, JSONValue]:
    return {
        "code": "INTERNAL_ERROR",
        "message": say(
            "The aggregation failed by a mistake of ours: {kind}.", kind=type(error).__name__
        ),
        "hint": say("The worker's log has the details; please report them."),
        "details": {},
    }


@worker_ready.connect
def _on_ready(**_: Any) -> None:
    load_recorder().worker_started()


@worker_shutting_down.connect
def _on_shutdown(**_: Any) -> None:
    _shutting_down.set()
