"""Telling the workers through the broker that there is work. Celery is loaded by the first job."""

from __future__ import annotations


def send(job_id: str) -> str:
    """Tell the workers about a job.

    Returns:
        Why the broker could not be reached; empty if it was.
    """
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
    from aggregator.celery_app import QUEUE  # noqa: PLC0415
    from aggregator.remote_jobs import Mailbox  # noqa: PLC0415

    mailbox = Mailbox()
    try:
        return mailbox.count(QUEUE)
    finally:
        mailbox.close()
