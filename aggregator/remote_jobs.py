"""A worker that has only the broker: it tells the keeper of jobs by messages.

Worker to keeper, on the queue ``dlprof.progress``: ``{"event": ..., "inbox": ..., ...}``. Keeper
to worker, on the worker's own queue ``dlprof.worker.<id>``: the answer to a claim, and "stop".
Messages are JSON. Any of them may be lost: the keeper takes a job back whose worker is silent, and
doing a job once more gives what is there already.
"""

from __future__ import annotations

import logging
import os
import platform
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Any

from kombu import Connection
from kombu.exceptions import KombuError

from aggregator.celery_app import app, shutting_down
from aggregator.errors import JSONValue
from aggregator.jobs import ClaimedJob, Outcome, Snapshot, Worker, stored_error
from aggregator.leftovers import process_scope

PROGRESS_QUEUE = "dlprof.progress"
_INBOX = "dlprof.worker."
#: The keeper answers within a tenth of a second; after this long it is taken to be away.
_CLAIM_LIMIT_S = 20.0
_FIRST_PAUSE_S = 0.01
_LONGEST_PAUSE_S = 0.2
#: How long the end of a job is told again to a broker that is away.
_TELL_LIMIT_S = 300.0
_TELL_PAUSE_S = 1.0
_UNHEARD_LIMIT = 1_000

logger = logging.getLogger(__name__)


def this_worker() -> Worker:
    """This process."""
    return Worker(platform.node(), os.getpid(), process_scope())


def _about_this_worker(event: str) -> dict[str, Any]:
    return {"event": event, "worker": asdict(this_worker())}


class BrokerAwayError(Exception):
    """The broker cannot be reached."""


class Mailbox:
    """Plain JSON messages in named queues of the broker; reconnects by itself, for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._pid = 0

    def put(self, queue: str, body: dict[str, Any]) -> None:
        """Send a message.

        Raises:
            BrokerAwayError: Nobody took it.
        """
        with self._connected() as connection:
            # The nameless exchange takes a message straight to the queue of that name.
            connection.Producer(auto_declare=False).publish(
                body, exchange="", routing_key=queue, serializer="json", retry=False
            )

    def take(self, queue: str) -> dict[str, Any] | None:
        """Receive a message; None if there is none.

        Raises:
            BrokerAwayError: The broker cannot be asked.
        """
        with self._connected() as connection:
            channel: Any = connection.default_channel
            message = channel.basic_get(queue, no_ack=True)
        if message is None:
            return None
        message.accept = {"application/json"}
        body = message.decode()
        return body if isinstance(body, dict) else {}

    def count(self, queue: str) -> int:
        """How many messages wait.

        Raises:
            BrokerAwayError: The broker cannot be asked.
        """
        with self._connected() as connection:
            channel: Any = connection.default_channel
            return int(channel.queue_declare(queue=queue, durable=True).message_count)

    def close(self) -> None:
        """Give the connection back."""
        with self._lock:
            self._drop()

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        with self._lock:
            if self._connection is None or self._pid != os.getpid():
                # A connection does not survive a fork.
                self._connection, self._pid = app.connection_for_write(), os.getpid()
            connection = self._connection
            transport: Any = connection
            away = (*transport.connection_errors, *transport.channel_errors, KombuError, OSError)
            try:
                yield connection
            except away as error:
                self._drop()
                raise BrokerAwayError(str(error) or type(error).__name__) from error

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.release()


class BrokerRecorder:
    """The keeper of jobs as a worker elsewhere sees it."""

    def __init__(self) -> None:
        self._mailbox = Mailbox()
        # Of a thread of its own, whose lock no fork may find taken.
        self._presence = Mailbox()
        self._stopped: set[str] = set()
        self._inbox_name = ""
        self._pid = 0

    def worker_started(self) -> None:
        """Say so; a keeper that is away will find the jobs by itself."""
        self._tell("worker_started")

    def worker_alive(self) -> None:
        """Say so, unless nobody listens: what is not heard would pile up."""
        with suppress(BrokerAwayError):
            if self._presence.count(PROGRESS_QUEUE) < _UNHEARD_LIMIT:
                self._presence.put(PROGRESS_QUEUE, _about_this_worker("worker_alive"))

    def worker_ended(self) -> None:
        """Say so once."""
        with suppress(BrokerAwayError):
            self._presence.put(PROGRESS_QUEUE, _about_this_worker("worker_ended"))
        self._presence.close()

    def claim(self, token: str) -> ClaimedJob | None:
        """Ask for a job; None if none waits, nobody answers, or this worker is told to end."""
        claim = uuid.uuid4().hex
        self._say("claim", claim=claim, token=token, worker=asdict(this_worker()))
        deadline = time.monotonic() + _CLAIM_LIMIT_S
        pause = _FIRST_PAUSE_S
        while time.monotonic() < deadline:
            letter = self._receive()
            if letter is None:
                if shutting_down.wait(pause):
                    break
                pause = min(pause * 1.5, _LONGEST_PAUSE_S)
            elif letter.get("answer") == claim:
                return ClaimedJob.from_dict(letter["job"]) if letter["job"] else None
        logger.warning("nobody answered a claim; the job waits for its next message")
        # If the answer comes too late, the job shall not wait for a worker that has gone on.
        if shutting_down.is_set():
            with suppress(BrokerAwayError):
                self._say("abandon", claim=claim)
        else:
            self._tell("abandon", claim=claim)
        return None

    def beat(self, job: ClaimedJob, snapshot: Snapshot) -> bool:
        """Tell where the job is; False once the keeper has said stop."""
        self._say("beat", job=job.to_dict(), snapshot=asdict(snapshot))
        while (letter := self._receive()) is not None:
            if letter.get("stop"):
                self._stopped.add(str(letter["stop"]))
        return job.claim not in self._stopped

    def finish(self, job: ClaimedJob, outcome: Outcome) -> None:
        """Tell, again and again if the broker is away."""
        self._tell("finish", job=job.to_dict(), outcome=outcome.to_dict())

    def fail(self, job: ClaimedJob, error: dict[str, JSONValue]) -> None:
        """Tell, again and again if the broker is away."""
        self._tell("fail", job=job.to_dict(), error=stored_error(error))

    def cancel(self, job: ClaimedJob) -> None:
        """Tell, again and again if the broker is away."""
        self._tell("cancel", job=job.to_dict())

    def release(self, job: ClaimedJob) -> None:
        """Tell once: the worker has to end."""
        try:
            self._say("release", job=job.to_dict())
        except BrokerAwayError as error:
            logger.warning("job %s could not be given back: %s", job.job_id, error)

    @property
    def _inbox(self) -> str:
        """A queue of this process's own; a fork gets another."""
        if self._pid != os.getpid():
            self._inbox_name, self._pid = _INBOX + uuid.uuid4().hex, os.getpid()
        return self._inbox_name

    def _say(self, event: str, **more: Any) -> None:
        self._mailbox.put(PROGRESS_QUEUE, {"event": event, "inbox": self._inbox, **more})

    def _receive(self) -> dict[str, Any] | None:
        return self._mailbox.take(self._inbox)

    def _tell(self, event: str, **more: Any) -> None:
        deadline = time.monotonic() + _TELL_LIMIT_S
        while True:
            try:
                self._say(event, **more)
            except BrokerAwayError as error:
                if time.monotonic() > deadline:
                    logger.error("%r could not be told: %s", event, error)
                    return
                time.sleep(_TELL_PAUSE_S)
            else:
                return
