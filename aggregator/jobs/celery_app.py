"""The Celery application: broker, result backend and settings of background jobs.

By default messages and results are files in a private folder (``DLPROF_RUN_DIR``), so that nothing
has to be installed and no port is opened. ``DLPROF_BROKER_URL=redis://...`` uses Redis for both.
"""

from __future__ import annotations

import json
import logging.config
import os
import sys
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path
from queue import Empty
from typing import Any

from celery import Celery
from celery.backends.filesystem import FilesystemBackend
from celery.signals import setup_logging, worker_init, worker_shutting_down
from kombu import Queue
from kombu.transport import TRANSPORT_ALIASES, filesystem
from kombu.utils.encoding import ensure_bytes
from kombu.utils.json import dumps, loads

from aggregator.jobs.broker_address import BrokerError, broker_url
from aggregator.jobs.watcher import WATCHER
from aggregator.system.log_lines import logging_settings
from aggregator.system.process_end import skip_last_collections

JOB_TASK = "dlprof.job"
JOB_QUEUE = "dlprof"
#: The import of one rank file of a job. It has a queue of its own, so that waiting jobs can be
#: counted and do not wait for all rank files of another job.
RANK_TASK = "dlprof.rank_file"
RANK_QUEUE = "dlprof.rank_files"
#: A part of work on many rank files, for another process than the viewer's.
PART_TASK = "dlprof.part"
#: State of a task that is running and reports its progress.
PROGRESS = "PROGRESS"
#: Key of the result backend under which workers report that they are running.
WORKERS_KEY = b"dlprof-workers"
_POLLING_INTERVAL_S = 0.1
_LONGEST_WAIT_S = 0.3
#: How long a worker tries to store the state of a task while the backend is unavailable.
_STORE_RETRIES = 600
_STORE_PAUSE_MS = 1_000

logger = logging.getLogger(__name__)

MALFORMED = (ValueError, KeyError, TypeError, AttributeError)
"""Raised by messages that others wrote."""


def cancel_key(task_id: str) -> bytes:
    """Return the key of the result backend that cancels a task, once it is set."""
    return f"dlprof-cancel-{task_id}".encode()


def log_malformed(error: Exception) -> None:
    """Log that a message was dropped."""
    logger.warning("a malformed message of the broker was dropped: %r", error)


class FolderChannel(filesystem.Channel):
    """Kombu's filesystem channel with atomic writes.

    Kombu writes a message under its final name, so that a reader may take an empty file, and stores
    a table of bindings that a full disk leaves empty, with which no worker can start again. It also
    keeps every message that was read, or moves it through the machine's temporary folder.
    """

    def _queue_bind(self, *names: Any) -> None:
        """Store no bindings: messages are routed by the name of their queue."""

    def _put(self, queue: str, payload: dict[str, Any], **kwargs: Any) -> None:  # type: ignore[override]
        # Readers take the files in the order of their names.
        final = Path(self.data_folder_out) / f"{time.time_ns()}_{uuid.uuid4()}.{queue}.msg"
        draft = final.with_name(f"{final.name}.part")
        try:
            draft.write_text(dumps(payload))
            draft.rename(final)
        except OSError:
            draft.unlink(missing_ok=True)
            raise

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        for message in sorted(Path(self.data_folder_in).iterdir()):
            if message.name.partition(".")[2] != f"{queue}.msg":
                continue
            taken = Path(self.processed_folder) / message.name
            try:
                message.rename(taken)
            except FileNotFoundError:  # another reader took it
                continue
            text = taken.read_text(errors="replace")
            taken.unlink()
            return loads(text)
        raise Empty


class FolderTransport(filesystem.Transport):
    """Messages as files in a folder."""

    Channel = FolderChannel

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:  # type: ignore[override]
        """Wait for messages, but not so long that a worker is slow to shut down."""
        try:
            super().drain_events(
                connection, timeout=min(timeout or _LONGEST_WAIT_S, _LONGEST_WAIT_S)
            )
        except MALFORMED as error:
            log_malformed(error)


class FolderBackend(FilesystemBackend):
    """Celery's file backend with atomic writes.

    Celery truncates the file before it writes, so that a reader may see no state, and a full disk
    leaves a state that cannot be decoded.
    """

    _filename: Any

    def _do_directory_test(self, key: Any) -> None:
        """Skip the test: a worker can start while the disk is full."""

    def set(self, key: Any, value: Any) -> None:
        """Store a value under a key, bytes."""
        final = Path(os.fsdecode(self._filename(key)))
        draft = final.with_name(f"{final.name}.{uuid.uuid4().hex}.part")
        try:
            draft.write_bytes(ensure_bytes(value))
            draft.replace(final)
        except OSError:
            draft.unlink(missing_ok=True)
            raise

    def delete(self, key: Any) -> None:
        """Delete a key, if there is one."""
        Path(os.fsdecode(self._filename(key))).unlink(missing_ok=True)

    def forget_old(self, prefix: bytes, age_s: float) -> None:
        """Delete keys with a beginning that were stored so long ago."""
        oldest = time.time() - age_s
        folder: Any = self  # The types of Celery lack its attribute ``path``.
        for path in Path(os.fsdecode(folder.path)).glob(f"{prefix.decode()}*"):
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < oldest:
                    path.unlink()

    def exception_safe_to_retry(self, exc: Exception) -> bool:
        """Return whether storing may succeed later: the disk may be full for a while."""
        return isinstance(exc, OSError)


def make_app() -> Celery:
    """Create the application for the broker that the environment selects."""
    # No fixups: Celery's would load Django into each worker.
    app = Celery("dlprof", include=["aggregator.jobs.tasks"], fixups=[])
    app.conf.update(
        task_serializer="json",
        result_serializer="json",
        accept_content=["json"],
        result_backend_thread_safe=True,
        task_default_queue=JOB_QUEUE,
        task_queues=[Queue(name, routing_key=name) for name in (JOB_QUEUE, RANK_QUEUE)],
        # The viewer requeues the jobs of lost workers, not the broker.
        task_acks_late=False,
        worker_prefetch_multiplier=1,
        # One job at a time, in the process itself: a job uses all cores where it can.
        worker_pool="solo",
        worker_concurrency=1,
        worker_send_task_events=False,
        worker_enable_remote_control=False,
        worker_hijack_root_logger=False,
        broker_connection_retry_on_startup=True,
        **_broker(),
    )
    return app


def _broker() -> dict[str, Any]:
    try:
        url = broker_url()
    except BrokerError as error:
        # Of a worker: the viewer's command checks the address before it starts a process.
        sys.exit(f"{error.message}\n{error.hint}".strip())
    if url:
        for scheme in ("redis", "rediss"):
            TRANSPORT_ALIASES[scheme] = "aggregator.jobs.redis_broker:RedisTransport"
        # A web request must not wait for a broker that is unavailable: its job stays queued.
        options: dict[str, Any] = {
            "socket_connect_timeout": 2,
            "socket_timeout": 10,
            "max_retries": 1,
            "interval_start": 0,
        }
        return {
            "broker_url": url,
            "broker_transport_options": options,
            "result_backend": f"aggregator.jobs.redis_broker:PolledRedisBackend+{url}",
            "result_backend_transport_options": {"retry_policy": {"max_retries": 1}},
            "redis_socket_connect_timeout": 2,
            "redis_socket_timeout": 10,
            # A worker with several processes takes no message that it cannot begin.
            "worker_disable_prefetch": True,
        }
    run_dir = os.environ.get("DLPROF_RUN_DIR")
    if not run_dir:
        return {"broker_url": "memory://", "result_backend": "cache+memory://"}
    TRANSPORT_ALIASES["filesystem"] = f"{__name__}:FolderTransport"
    folders = {name: Path(run_dir) / "broker" / name for name in ("queue", "taken", "results")}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    options = {
        "data_folder_in": str(folders["queue"]),
        "data_folder_out": str(folders["queue"]),
        "processed_folder": str(folders["taken"]),
        "polling_interval": _POLLING_INTERVAL_S,
    }
    return {
        "broker_url": "filesystem://localhost",
        "broker_transport_options": options,
        "result_backend": f"{__name__}:FolderBackend+file://{folders['results']}",
    }


app = make_app()

shutting_down = threading.Event()
"""Set once this process, a worker, has been asked to shut down."""


def _configure_logging(loglevel: int | str = "WARNING", **_: Any) -> None:
    kind = os.environ["DLPROF_LOG_FORMAT"]
    logging.config.dictConfig(logging_settings(kind, loglevel or "WARNING"))


if os.environ.get("DLPROF_LOG_FORMAT"):
    # A receiver of this signal replaces Celery's own configuration of logging.
    setup_logging.connect(_configure_logging, weak=False)


@worker_init.connect
def _on_start(**_: Any) -> None:
    """Have a worker watched, and store the end of a job as soon as the backend is available."""
    WATCHER.is_on = True
    skip_last_collections()
    app.conf.update(
        result_backend_always_retry=True,
        result_backend_max_retries=_STORE_RETRIES,
        result_backend_base_sleep_between_retries_ms=100,
        result_backend_max_sleep_between_retries_ms=_STORE_PAUSE_MS,
    )


@worker_shutting_down.connect
def _on_shutdown(**_: Any) -> None:
    shutting_down.set()


def seen_workers() -> dict[str, tuple[str, int, float]]:
    """Return the host, pid and time of the last report of each worker; time 0: it ended."""
    backend: Any = app.backend  # its keys can also be read directly
    stored = json.loads(backend.get(WORKERS_KEY) or "{}")
    return {name: (host, pid, at) for name, (host, pid, at) in stored.items()}
