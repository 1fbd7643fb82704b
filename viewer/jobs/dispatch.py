"""Handing a job's id to the broker."""

from __future__ import annotations


def send(job_id: str) -> str:
    """Tell the workers about a job.

    Celery is imported by the first job only: the server starts without it.

    Returns:
        Why the broker could not be reached; empty if it was.
    """
    from kombu.exceptions import KombuError  # noqa: PLC0415

    from aggregator.celery_app import AGGREGATE_TASK, app  # noqa: PLC0415

    try:
        app.send_task(AGGREGATE_TASK, args=[job_id], retry=False, ignore_result=True)
    except (KombuError, OSError) as error:
        return str(error)
    return ""
