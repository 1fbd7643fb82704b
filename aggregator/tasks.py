"""The background task: one aggregation or import, its progress told to whoever keeps the jobs.

The engine does not know who that is: ``DLPROF_JOB_RECORDER`` names a class as ``module:Class``.
Without it a worker tells the keeper through the broker, so that it needs nothing but the broker
and the profiles.
"""

from __future__ import annotations

import importlib
import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from celery.signals import worker_ready, worker_shutdown
from celery.worker import state
from kombu.exceptions import KombuError

from aggregator.celery_app import JOB_TASK, PART_TASK, app, shutting_down
from aggregator.dldb.reader import open_database
from aggregator.errors import AggregationCancelledError, DlprofError, JSONValue
from aggregator.job_progress import (
    JobLimits,
    JobProgress,
    LimitedProgress,
    memory_error,
    resident_bytes,
)
from aggregator.jobs import IMPORTED, PRESENCE_INTERVAL_S, REUSED, ClaimedJob, JobRecorder, Outcome
from aggregator.leftovers import remove_leftovers
from aggregator.options import ImportOptions, Mode
from aggregator.pipeline import aggregate, import_profile
from aggregator.rank_counts import worker_count
from aggregator.rank_import import import_ranks_shared
from aggregator.rank_parts import RankParts, import_part_of
from aggregator.texts import say

DEFAULT_RECORDER = "aggregator.remote_jobs:BrokerRecorder"
_BEAT_INTERVAL_S = 0.3
#: An engine that passed a limit and does not stop by itself for so long is ended with its process.
_GRACE_S = 30.0
_EXIT_LIMIT = 70

logger = logging.getLogger(__name__)


@app.task(name=JOB_TASK)
def do_job(token: str) -> None:
    """Do the job whose turn it is."""
    run_job(token, load_recorder())


@app.task(name=PART_TASK)
def do_part(folder: str) -> None:
    """Import one rank file of a job that another worker has, if any is still to be done."""
    limits = JobLimits.read()
    progress = JobProgress(shutting_down)
    with suppress(AggregationCancelledError):
        import_part_of(Path(folder), LimitedProgress(progress, limits))


def run_job(token: str, recorder: JobRecorder) -> None:
    """Take a job, do it, and say how it ended."""
    job = recorder.claim(token)
    if job is None:
        # Cancelled while it waited, or more messages than jobs.
        return
    limits = JobLimits.read()
    progress = JobProgress(shutting_down)
    try:
        with _beating(job, progress, recorder, limits):
            outcome = _do(job, progress)
    except AggregationCancelledError:
        if shutting_down.is_set():
            recorder.release(job)
        else:
            recorder.cancel(job)
    except DlprofError as error:
        recorder.fail(job, error.to_dict())
    except MemoryError:
        recorder.fail(job, memory_error(limits.memory_bytes).to_dict())
    except Exception as error:
        recorder.fail(job, _internal_error(error))
        raise
    else:
        recorder.finish(job, outcome)


def _do(job: ClaimedJob, progress: JobProgress) -> Outcome:
    if job.is_import:
        return _import(job, progress)
    result = aggregate(job.database, job.request, progress)
    message = REUSED if result.reused else ""
    return Outcome(result.aggr_id, result.database, message)


def _import(job: ClaimedJob, progress: JobProgress) -> Outcome:
    """Make a database of a profile; one that a dead worker had just finished is taken as it is."""
    if job.database.exists():
        open_database(job.database).close()
        return Outcome(1, job.database, IMPORTED)
    # What an earlier worker began; the claim is this one's now.
    remove_leftovers(job.database.parent, job.database.name)
    if len(job.sources) > 1:
        return _import_ranks(job, progress)
    options = ImportOptions(
        source=job.sources[0],
        database=job.database,
        mode=Mode(job.mode),
        request=job.request,
        profile_name=job.profile_name,
        nsys_path=os.environ.get("DLPROF_NSYS_PATH", ""),
    )
    result = import_profile(options, progress)
    return Outcome(result.aggr_id, result.database, "")


def _import_ranks(job: ClaimedJob, progress: JobProgress) -> Outcome:
    """Rank files, shared out among all workers, as one database."""
    options = ImportOptions(
        source=job.sources[0],
        database=job.database,
        mode=Mode(job.mode),
        request=job.request,
        profile_name=job.profile_name,
        nsys_path=os.environ.get("DLPROF_NSYS_PATH", ""),
        ranks=job.ranks,
    )

    def announce(folder: Path) -> None:
        progress.watch_parts(RankParts(folder).states)
        for _ in job.sources[1:]:
            try:
                app.send_task(PART_TASK, args=[str(folder)], retry=False, ignore_result=True)
            except (KombuError, OSError) as error:
                logger.warning("job %s: other workers were not told: %s", job.job_id, error)
                return

    workers = worker_count(job.sources)
    result = import_ranks_shared(options, job.sources, progress, announce, workers)
    return Outcome(result.aggr_id, result.database, "")


@cache
def load_recorder() -> JobRecorder:
    """The keeper of the jobs that the environment names."""
    name = os.environ.get("DLPROF_JOB_RECORDER") or DEFAULT_RECORDER
    module_name, _, class_name = name.partition(":")
    if not class_name:
        raise RuntimeError("DLPROF_JOB_RECORDER must name the keeper of jobs as module:Class")
    recorder: JobRecorder = getattr(importlib.import_module(module_name), class_name)()
    return recorder


@contextmanager
def _beating(
    job: ClaimedJob, progress: JobProgress, recorder: JobRecorder, limits: JobLimits
) -> Iterator[None]:
    """Report in the background for as long as the block runs."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(_BEAT_INTERVAL_S):
            _keep_limits(job, progress, recorder, limits)
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


def _keep_limits(
    job: ClaimedJob, progress: JobProgress, recorder: JobRecorder, limits: JobLimits
) -> None:
    """Ask a job that passed a limit to stop; end the process of one that does not."""
    error = limits.passed(progress.elapsed_s, resident_bytes())
    if error is None:
        return
    progress.stop(error)
    beyond = JobLimits(limits.time_s and limits.time_s + _GRACE_S, limits.memory_bytes * 3 // 2)
    if beyond.passed(progress.elapsed_s, resident_bytes()) is not None:
        logger.error("job %s: %s Its worker ends.", job.job_id, error.message)
        recorder.fail(job, error.to_dict())
        os._exit(_EXIT_LIMIT)


def _internal_error(error: Exception) -> dict[str, JSONValue]:
    return {
        "code": "INTERNAL_ERROR",
        "message": say("The job failed by a mistake of ours: {kind}.", kind=type(error).__name__),
        "hint": say("The worker's log has the details; please report them."),
        "details": {},
    }


@worker_ready.connect
def _on_ready(**_: Any) -> None:
    recorder = load_recorder()
    recorder.worker_started()
    _end_after_job_on_hangup()
    threading.Thread(target=_stay_known, args=(recorder,), name="presence", daemon=True).start()


@worker_shutdown.connect
def _on_end(**_: Any) -> None:
    load_recorder().worker_ended()


def _stay_known(recorder: JobRecorder) -> None:
    """Say every few seconds that this worker is there."""
    while True:
        recorder.worker_alive()
        if shutting_down.wait(PRESENCE_INTERVAL_S):
            return


def _end_after_job_on_hangup() -> None:
    """Let SIGHUP end the worker once its job is done; whoever supervises it starts a new one.

    Celery's own answer is to begin the same program anew, which fails for ``python -m celery``.
    It sets no handler at all in a terminal, and then neither do we.
    """
    if not callable(signal.getsignal(signal.SIGHUP)):
        return

    worker_state: Any = state

    def end(number: int, frame: FrameType | None) -> None:
        worker_state.should_stop = 0

    signal.signal(signal.SIGHUP, end)
