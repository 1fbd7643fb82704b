"""The keeper of jobs: a thread of the web server that copies what workers report into the rows.

Of all the processes that share a state folder one keeps the jobs: it holds a lock, which another
takes over when it ends. Besides the API, which adds and cancels jobs, only the keeper writes rows.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from aggregator.errors import DlprofError
from aggregator.jobs.limits import SILENCE_LIMIT_S
from aggregator.system.temporary_files import process_scope, remove_leftovers
from aggregator.texts import say, with_templates
from viewer.errors import ViewerError
from viewer.jobs import dispatch, service
from viewer.jobs.dispatch import BrokerAwayError, Report
from viewer.profiles.storage import publish, release
from viewer.profiles.uploads import remove_stale
from viewer.state.models import (
    ACTIVE_STATES,
    CANCELLED,
    NOTES,
    Job,
    JobKind,
    JobState,
    SeenWorker,
)

#: A message that neither waits in the broker nor has been begun after so long is lost.
MESSAGE_LIMIT_S = 5.0
#: How often a job is begun before the loss of its worker fails it.
MAX_ATTEMPTS = 2
_BUSY_PAUSE_S = 0.1
_IDLE_PAUSE_S = 0.25
_AWAY_PAUSE_S = 1.0
_WORKERS_EVERY_S = 1.0
_CONNECTION_EVERY_S = 2.0
_TIDY_EVERY_S = 600.0
_STOP_LIMIT_S = 2.0
_FORGOTTEN_AFTER_S = 3600.0

logger = logging.getLogger(__name__)


class Keeper:
    """Keeps the rows of jobs in step with what their workers report."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="job-keeper", daemon=True)
        self._due: dict[str, float] = {}
        # By task: what it reported last, and when that changed.
        self._heard: dict[str, tuple[object, float]] = {}
        self._seen: dict[str, float] = {}

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Copy what workers reported last, and end the thread."""
        self._stop.set()
        self._thread.join(_STOP_LIMIT_S)

    def tick(self) -> bool:
        """Copy all reports once; return whether any job is active.

        Raises:
            BrokerAwayError: The broker or the result backend cannot be reached.
            DatabaseError: A row cannot be written; the next call does it.
        """
        jobs = list(Job.objects.exclude(task_id=""))
        try:
            for job in jobs:
                self._look_at(job)
        finally:
            service.dispatch()
        self._every("workers", _WORKERS_EVERY_S, self._note_workers)
        self._every("tidy", _TIDY_EVERY_S, _tidy)
        return bool(jobs)

    def _run(self) -> None:
        with (Path(settings.ENVIRONMENT.state_dir) / "keeper.lock").open("w") as lock:
            while not self._stop.is_set():
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    self._stop.wait(_AWAY_PAUSE_S)
                else:
                    self._keep()
                    return

    def _keep(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._stop.is_set()
            pause = _AWAY_PAUSE_S
            try:
                pause = _BUSY_PAUSE_S if self.tick() else _IDLE_PAUSE_S
            except BrokerAwayError as error:
                logger.warning("the broker is away: %s", error)
                # Nothing could be heard meanwhile.
                now = time.monotonic()
                self._heard = {key: (beats, now) for key, (beats, _) in self._heard.items()}
            except DatabaseError:
                logger.exception("the state of the jobs cannot be written")
                self._due.pop("connection", None)
            except Exception:  # the keeper must not end while the server runs
                logger.exception("internal error in the keeper of jobs")
                self._due.pop("connection", None)
            # Opening it takes longer than what an idle viewer asks.
            self._every("connection", _CONNECTION_EVERY_S, connection.close)
            self._stop.wait(pause)
        connection.close()

    def _every(self, name: str, interval_s: float, work: Callable[[], object]) -> None:
        now = time.monotonic()
        if now >= self._due.get(name, 0.0):
            self._due[name] = now + interval_s
            work()

    def _look_at(self, job: Job) -> None:
        try:
            if job.state in ACTIVE_STATES:
                self._copy(job)
            else:
                self._revoke(job)
        except (BrokerAwayError, DatabaseError):
            raise
        except Exception as error:  # a report of a worker of another version, say
            logger.exception("job %s: its report cannot be read", job.id)
            self.finish(job, {"end": "failed", "error": internal_error(type(error).__name__)})

    def _copy(self, job: Job) -> None:
        report = dispatch.report_of(job)
        silent_s = self._listen(job.task_id, report)
        if report.status == "SUCCESS":
            self.finish(job, report.result)
        elif report.status == "FAILURE":
            self.finish(job, {"end": "failed", "error": internal_error(report.result["kind"])})
        elif _is_lost(job, report, silent_s):
            self._take_back(job)
        elif not report.workers:
            self._wait(job, silent_s)
        else:
            if job.cancel_requested:
                dispatch.cancel_task(job.task_id)
            if not silent_s:
                _write_progress(job, report)

    def _listen(self, task_id: str, report: Report) -> float:
        """Return for how long the tasks of a job have reported nothing new. Unit: s."""
        now = time.monotonic()
        beats, since = self._heard.get(task_id, (None, now))
        if beats != report.beats:
            self._heard[task_id] = (report.beats, now)
            return 0.0
        return now - since

    def _wait(self, job: Job, silent_s: float) -> None:
        """Handle a job that no worker is running."""
        if job.cancel_requested:
            self.finish(job, {"end": "cancelled"})
        elif silent_s > MESSAGE_LIMIT_S and _may_be_sent_again(job):
            logger.warning("job %s: its message was lost; queued again", job.id)
            self._queue_again(job, job.attempts - (job.state == JobState.RUNNING))

    def _take_back(self, job: Job) -> None:
        worker = say("process {pid} on {host}", pid=job.worker_pid, host=job.worker_host)
        if job.cancel_requested:
            self.finish(job, {"end": "cancelled"})
        elif job.attempts < MAX_ATTEMPTS:
            logger.warning("job %s: its worker (%s) was lost; queued again", job.id, worker)
            self._queue_again(job, job.attempts)
        else:
            self.finish(job, {"end": "failed", "error": _lost_error(job, worker)})

    def _queue_again(self, job: Job, attempts: int) -> None:
        dispatch.cancel_task(job.task_id)
        self._heard.pop(job.task_id, None)
        # A job that was cancelled meanwhile is looked at again.
        unchanged = _held(job).filter(cancel_requested=job.cancel_requested)
        unchanged.update(attempts=max(0, attempts), **service.UNBEGUN)

    def finish(self, job: Job, result: dict[str, Any]) -> None:
        """Write the end of a job into its row, and delete what its tasks left."""
        end = result["end"]
        if end == "released":
            # Shutting a worker down is not the job's fault: it costs no attempt.
            self._queue_again(job, job.attempts - 1)
            return
        if end == "done" and job.kind == JobKind.IMPORT:
            try:
                publish(Path(result["database"]))
            except DlprofError as error:  # it is larger than the space that is left
                end, result = "failed", {"error": with_templates(error.to_dict())}
        if end == "done":
            values: dict[str, object] = {
                "state": JobState.DONE,
                "aggregation_id": result["aggregation_id"],
                "result": result["database"],
                "progress_pct": 100.0,
                "message": NOTES[result["note"]],
            }
        elif end == "failed":
            values = {"state": JobState.FAILED, "error": result["error"], "message": ""}
            values["parts"] = result.get("parts") or job.parts
        else:
            values = {"state": JobState.CANCELLED, "message": CANCELLED}
        now = timezone.now()
        common = {"finished_at": now, "eta_s": None, "rows_per_s": None}
        if _held(job).update(started_at=job.started_at or now, **common, **values):
            job.refresh_from_db()
            self._revoke(job)

    def _revoke(self, job: Job) -> None:
        """Have workers drop the tasks of a job that has ended, and delete what they left."""
        # Of what is done no message is left that a worker could begin.
        if job.state != JobState.DONE:
            dispatch.cancel_task(job.task_id)
        dispatch.forget(job)
        self._heard.pop(job.task_id, None)
        with transaction.atomic():  # a retry waits meanwhile
            # One that was tried again before has files of its new attempt.
            is_ended = Job.objects.filter(pk=job.id, task_id=job.task_id).update(task_id="")
            if is_ended and job.kind == JobKind.IMPORT and job.state != JobState.DONE:
                # A killed worker left its temporary files, those of several workers lie in a
                # folder.
                remove_leftovers(Path(job.database).parent, Path(job.database).name)
                release(Path(job.database).parent)

    def _note_workers(self) -> None:
        """Write which workers have reported since the last look."""
        now = timezone.now()
        for name, (host, pid, at) in dispatch.seen_workers().items():
            if self._seen.get(name) == at:
                continue
            self._seen[name] = at
            values = {"host": host, "pid": pid, "seen_at": now}
            if at:
                SeenWorker.objects.update_or_create(id=name[:255], defaults=values)
            else:  # it ended
                SeenWorker.objects.filter(pk=name[:255]).delete()


def _held(job: Job) -> Any:
    """Return the row of a job, if it is still in the state that was read."""
    return Job.objects.filter(pk=job.id, state=job.state, task_id=job.task_id)


def _write_progress(job: Job, report: Report) -> None:
    now = timezone.now()
    worker = report.workers[0]
    values: dict[str, Any] = {
        **report.result,
        "heartbeat_at": now,
        "worker_host": worker["host"],
        "worker_pid": worker["pid"],
        "worker_scope": worker["scope"],
    }
    if not values["parts"]:
        del values["parts"]
    if job.cancel_requested:
        del values["message"]  # it is "Cancelling."
    if job.state == JobState.QUEUED:
        values |= {"state": JobState.RUNNING, "started_at": now, "attempts": job.attempts + 1}
    # A job that was cancelled meanwhile keeps its message.
    _held(job).filter(cancel_requested=job.cancel_requested).update(**values)


def _is_lost(job: Job, report: Report, silent_s: float) -> bool:
    workers = report.workers
    if not workers and job.state == JobState.RUNNING and not dispatch.is_shared(job):
        # The result backend lost its data; the worker, if it lives, reports again.
        worker = {"host": job.worker_host, "pid": job.worker_pid, "scope": job.worker_scope}
        workers = (worker,)
    # Of several workers the others go on; the rank files of a dead one are imported again later.
    return bool(workers) and (silent_s > SILENCE_LIMIT_S or all(map(_is_dead, workers)))


def _may_be_sent_again(job: Job) -> bool:
    """Return whether a job, or rank files of it, wait for a message that is not in the broker."""
    is_waiting = job.state == JobState.QUEUED or dispatch.is_shared(job)
    return is_waiting and dispatch.count_waiting() == 0


def _is_dead(worker: dict[str, Any]) -> bool:
    """Whether the process of a worker of this machine has ended; unknown for other machines."""
    if worker["scope"] != process_scope() or worker["pid"] is None:
        return False
    try:
        os.kill(int(worker["pid"]), 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # it runs as another user
        pass
    return False


def internal_error(kind: str) -> dict[str, Any]:
    """Return the error of a job whose task raised an unexpected exception, of class ``kind``."""
    message = say("The job failed: internal error ({kind}).", kind=kind)
    hint = say("The log of the worker has the details; please report them.")
    return with_templates(ViewerError(message, "INTERNAL_ERROR", hint=hint).to_dict())


def _lost_error(job: Job, worker: str) -> dict[str, Any]:
    message = say(
        "The worker ({worker}) ended before the job did, {attempts} times.",
        worker=worker,
        attempts=job.attempts,
    )
    hint = say("It may have run out of memory. Aggregate fewer iterations, or try again.")
    return with_templates(ViewerError(message, "WORKER_LOST", hint=hint).to_dict())


def _tidy() -> None:
    forgotten = timezone.now() - timedelta(seconds=_FORGOTTEN_AFTER_S)
    SeenWorker.objects.filter(seen_at__lt=forgotten).delete()
    service.prune()
    remove_stale()
    dispatch.forget_cancels()
