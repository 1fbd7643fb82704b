"""The keeper of jobs: a thread of the web server that hears workers and finds what was lost.

Of all the processes that share a state folder one keeps the jobs; the lock passes on when it
ends. Reading jobs through the API changes nothing.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connection

from aggregator.jobs import ClaimedJob, Outcome, Snapshot, Worker
from aggregator.leftovers import process_scope
from aggregator.remote_jobs import PROGRESS_QUEUE, BrokerAwayError, Mailbox
from viewer.jobs import presence, service
from viewer.jobs.recorder import DatabaseRecorder
from viewer.profiles.uploads import remove_stale

_LISTEN_PAUSE_S = 0.03
_AWAY_PAUSE_S = 1.0
_ROWS_PAUSE_S = 0.25
_RECOVER_EVERY_S = 1.0
_FIRST_RECOVER_S = 1.5
_TOP_UP_EVERY_S = 2.0
_TIDY_EVERY_S = 600.0
_STOP_LIMIT_S = 2.0

logger = logging.getLogger(__name__)


class Keeper:
    """Listens to workers, and looks after the rows."""

    def __init__(self) -> None:
        self._recorder = DatabaseRecorder()
        self._mailbox = Mailbox()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="job-keeper", daemon=True)
        # The worker that the command starts itself writes into the rows.
        self._has_remote_workers = bool(os.environ.get("DLPROF_BROKER_URL"))
        # Workers that live get the time to say so before they are looked for.
        self._due: dict[str, float] = {"recover": time.monotonic() + _FIRST_RECOVER_S}

    def start(self) -> None:
        """Begin, in the background."""
        self._thread.start()

    def stop(self) -> None:
        """Finish what is in hand."""
        self._stop.set()
        self._thread.join(_STOP_LIMIT_S)

    def tick(self) -> bool:
        """One round: a letter, or the rows if there is none; whether there was a letter."""
        letter = self._mailbox.take(PROGRESS_QUEUE) if self._has_remote_workers else None
        if letter is not None:
            self._answer(letter)
            return True
        # What workers said while nobody listened comes first: until then they seem to be dead.
        self._every("recover", _RECOVER_EVERY_S, lambda: service.recover(process_scope()))
        self._every("top_up", _TOP_UP_EVERY_S, service.top_up)
        self._every("tidy", _TIDY_EVERY_S, _tidy)
        return False

    def _run(self) -> None:
        with (Path(settings.ENVIRONMENT.state_dir) / "keeper.lock").open("w") as lock:
            while not self._stop.is_set():
                if _lock(lock.fileno()):
                    self._keep()
                    return
                self._stop.wait(_AWAY_PAUSE_S)

    def _keep(self) -> None:
        while not self._stop.is_set():
            pause = _LISTEN_PAUSE_S if self._has_remote_workers else _ROWS_PAUSE_S
            try:
                if self.tick():
                    continue
            except BrokerAwayError as error:
                logger.warning("the broker is away: %s", error)
                self._look_after_rows()
                pause = _AWAY_PAUSE_S
            except DatabaseError:
                logger.exception("the state of the jobs cannot be written")
                pause = _AWAY_PAUSE_S
            except Exception:  # the keeper must not end while the server runs
                logger.exception("the keeper of jobs made a mistake")
                pause = _AWAY_PAUSE_S
            connection.close()
            self._stop.wait(pause)

    def _look_after_rows(self) -> None:
        try:
            self._every("recover", _RECOVER_EVERY_S, lambda: service.recover(process_scope()))
            self._every("top_up", _TOP_UP_EVERY_S, service.top_up)
        except DatabaseError:
            logger.exception("the state of the jobs cannot be written")

    def _every(self, name: str, interval_s: float, work: Callable[[], object]) -> None:
        now = time.monotonic()
        if now >= self._due.get(name, 0.0):
            self._due[name] = now + interval_s
            work()

    def _answer(self, letter: dict[str, Any]) -> None:
        try:
            self._record(str(letter.get("event")), letter)
        except (KeyError, TypeError, ValueError):
            # Whoever may write to the broker is trusted, but not to be of the same version.
            logger.exception("a message of a worker makes no sense")

    def _record(self, event: str, letter: dict[str, Any]) -> None:
        if event == "claim":
            job = self._recorder.claim_for(Worker(**letter["worker"]), letter["claim"])
            answer = {"answer": letter["claim"], "job": job and job.to_dict()}
            self._mailbox.put(letter["inbox"], answer)
        elif event == "abandon":
            self._recorder.release_claim(letter["claim"])
        elif event == "worker_started":
            service.top_up()
        elif event == "worker_alive":
            presence.note(Worker(**letter["worker"]))
        elif event == "worker_ended":
            presence.forget(Worker(**letter["worker"]))
        else:
            self._record_job(event, ClaimedJob.from_dict(letter["job"]), letter)

    def _record_job(self, event: str, job: ClaimedJob, letter: dict[str, Any]) -> None:
        if event == "beat":
            if not self._recorder.beat(job, Snapshot(**letter["snapshot"])):
                self._mailbox.put(letter["inbox"], {"stop": job.claim})
        elif event == "finish":
            self._recorder.finish(job, Outcome.from_dict(letter["outcome"]))
        elif event == "fail":
            self._recorder.fail(job, dict(letter["error"]))
        elif event == "cancel":
            self._recorder.cancel(job)
        elif event == "release":
            self._recorder.release(job)
        else:
            raise ValueError(f"there is no event {event!r}")


def _tidy() -> None:
    service.prune()
    remove_stale()


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
