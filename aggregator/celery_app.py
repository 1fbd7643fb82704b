"""The Celery application: how a worker learns that there is work.

By default messages are files in a private folder (``DLPROF_RUN_DIR``), so that nothing has to be
installed and nothing listens. ``DLPROF_BROKER_URL=redis://...`` takes Redis instead.
"""

from __future__ import annotations

import logging.config
import os
import threading
import time
import uuid
from pathlib import Path
from queue import Empty
from typing import Any

from celery import Celery
from celery.signals import setup_logging, worker_shutting_down
from kombu import Queue
from kombu.transport import TRANSPORT_ALIASES
from kombu.transport.filesystem import Channel, Transport
from kombu.utils.json import dumps, loads

from aggregator.log_lines import logging_settings

JOB_TASK = "dlprof.job"
QUEUE = "dlprof"
#: Rank files of a job that any worker may import; apart, so that jobs can be counted.
PART_TASK = "dlprof.part"
PART_QUEUE = "dlprof.parts"
_SCHEME = "dlprof-folder"
_POLLING_INTERVAL_S = 0.1
_LONGEST_WAIT_S = 0.3


class FolderChannel(Channel):
    """Kombu's file system channel, which a full disk or a reader at the wrong moment cannot break.

    The original writes messages and its table of queues under their final names, so that a reader
    may find them empty; a table that a full disk left empty stops workers for good. And it keeps
    every message that was read.
    """

    def get_table(self, exchange: str) -> list[Any]:
        """Which queues there are: always the same, so that no file has to say it."""
        return [(queue, "", queue) for queue in (QUEUE, PART_QUEUE)]

    def _queue_bind(self, *words: Any) -> None:
        """Nothing is to be noted."""

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
            except FileNotFoundError:
                # Another reader was faster.
                continue
            text = taken.read_text()
            taken.unlink()
            return loads(text)
        raise Empty


class FolderTransport(Transport):
    """Messages as files in a folder."""

    Channel = FolderChannel

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:  # type: ignore[override]
        """Wait for messages; never so long that a worker is slow to notice that it shall end."""
        super().drain_events(connection, timeout=min(timeout or _LONGEST_WAIT_S, _LONGEST_WAIT_S))


def make_app() -> Celery:
    """The application, as the environment wants it."""
    app = Celery("dlprof", include=["aggregator.tasks"])
    app.conf.update(
        task_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,
        task_store_errors_even_if_ignored=False,
        task_default_queue=QUEUE,
        task_queues=[Queue(QUEUE, routing_key=QUEUE), Queue(PART_QUEUE, routing_key=PART_QUEUE)],
        task_routes={PART_TASK: {"queue": PART_QUEUE, "routing_key": PART_QUEUE}},
        # The job's row says what is to be done again, not the broker.
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
    if url := os.environ.get("DLPROF_BROKER_URL"):
        # A web request must not hang for a broker that is away: the job waits in its row.
        timeouts = {"socket_connect_timeout": 2, "socket_timeout": 10}
        return {"broker_url": url, "broker_transport_options": timeouts}
    run_dir = os.environ.get("DLPROF_RUN_DIR")
    if not run_dir:
        return {"broker_url": "memory://"}
    TRANSPORT_ALIASES[_SCHEME] = f"{__name__}:FolderTransport"
    folders = {name: Path(run_dir) / "broker" / name for name in ("queue", "taken")}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    options = {
        "data_folder_in": str(folders["queue"]),
        "data_folder_out": str(folders["queue"]),
        "processed_folder": str(folders["taken"]),
        "polling_interval": _POLLING_INTERVAL_S,
    }
    return {"broker_url": f"{_SCHEME}://localhost", "broker_transport_options": options}


app = make_app()

shutting_down = threading.Event()
"""Set once this process, a worker, is told to end."""


def _log_as_everybody(loglevel: int | str = "WARNING", **_: Any) -> None:
    kind = os.environ["DLPROF_LOG_FORMAT"]
    logging.config.dictConfig(logging_settings(kind, loglevel or "WARNING"))


if os.environ.get("DLPROF_LOG_FORMAT"):
    # Who listens to this signal does what Celery else would.
    setup_logging.connect(_log_as_everybody, weak=False)


@worker_shutting_down.connect
def _on_shutdown(**_: Any) -> None:
    shutting_down.set()
