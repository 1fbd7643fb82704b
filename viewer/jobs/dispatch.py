"""Telling the workers through the broker that there is work. Celery is loaded by the first job."""

from __future__ import annotations

import importlib
import threading

_loading = threading.Lock()


def load() -> None:
    """Load what talks to the broker; one thread at a time, for its modules load each other."""
    with _loading:
        for name in ("kombu.exceptions", "aggregator.celery_app", "aggregator.remote_jobs"):
            importlib.import_module(name)


def send(job_id: str) -> str:
    """Tell the workers about a job.

    Returns:
        Why the broker could not be reached; empty if it was.
    """
    load()
    from kombu.exceptions import KombuError  # noqa: PLC0415

    from aggregator.celery_app import JOB_TASK, app  # noqa: PLC0415

    try:
        app.send_task(JOB_TASK, args=[job_id], retry=False, ignore_result=True)
    except (KombuError, OSError) as error:
        return str(error)
    return ""


def count_waiting() -> int:
    """How many messages about jobs no worker has taken yet.

    Raises:
        BrokerAwayError: The broker cannot be asked.
    """
    load()
    from aggregator.celery_app import QUEUE  # noqa: PLC0415
    from aggregator.remote_jobs import Mailbox  # noqa: PLC0415

    mailbox = Mailbox()
    try:
        return mailbox.count(QUEUE)
    finally:
        mailbox.close()
