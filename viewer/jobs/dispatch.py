"""Messages to the workers and what they report: the viewer's side of broker and result backend.

Celery is loaded by the first call, as the server starts without it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from aggregator.errors import JSONValue
from aggregator.options import AggregationRequest
from viewer import loading
from viewer.state.models import Job, JobKind

#: No message waits for longer: the queue is looked after all the time.
_CANCEL_KEPT_S = 24 * 3600.0


class BrokerAwayError(Exception):
    """The broker or the result backend cannot be reached."""


def load() -> Any:
    """Import Celery, and what it uses of Redis; returns the module of the application."""
    for name in ("kombu.exceptions", "celery.canvas"):
        loading.load(name)
    app = loading.load("aggregator.jobs.celery_app")
    if os.environ.get("DLPROF_BROKER_URL"):
        with suppress(ImportError):  # the first connection says that it is not installed
            loading.load("aggregator.jobs.redis_broker")
    return app


@contextmanager
def _translate_connection_errors() -> Iterator[None]:
    """Raise ``BrokerAwayError`` for every error of the connection."""
    try:
        yield
    except _connection_errors() as error:
        raise BrokerAwayError(str(error) or type(error).__name__) from error


@functools.cache
def _connection_errors() -> tuple[type[Exception], ...]:
    app = load().app
    from celery.exceptions import BackendError  # noqa: PLC0415
    from kombu.exceptions import KombuError  # noqa: PLC0415

    with app.connection_for_write() as connection:
        errors = (*connection.connection_errors, *connection.channel_errors)
    return (*errors, KombuError, BackendError, OSError)


@dataclass(frozen=True)
class Report:
    """What the tasks of a job report."""

    status: str  # State of Celery: ``PENDING`` if nothing is known.
    result: dict[str, Any] = field(default_factory=dict)  # Progress or result of the task.
    beats: tuple[object, ...] = ()  # Changes whenever a task reports.
    # Those that are running a task of the job now: host, pid and scope.
    workers: tuple[dict[str, Any], ...] = ()


def rank_folder(job: Job) -> Path:
    """Return the folder in which workers import the rank files of a job."""
    database = Path(job.database)
    return database.with_name(f".{database.name}.ranks.{job.id}")


def is_shared(job: Job) -> bool:
    """Whether several workers import the rank files of a job, each file in a task of its own."""
    is_ranks = job.kind == JobKind.IMPORT and len(job.sources) > 1
    return is_ranks and bool(os.environ.get("DLPROF_BROKER_URL"))


def _rank_task_ids(job: Job) -> list[str]:
    count = len(job.sources) if is_shared(job) else 0
    return [f"{job.task_id}.{number}" for number in range(count)]


@_translate_connection_errors()
def send(job: Job) -> None:
    """Send a job to the workers as the task ``job.task_id``.

    Rank files that several workers import are the header of a chord, whose body joins them.
    """
    jobs = load()
    from celery import chord  # noqa: PLC0415

    request = request_of(job)
    body = jobs.app.signature(jobs.JOB_TASK, kwargs={"request": request}, queue=jobs.JOB_QUEUE)
    if not is_shared(job):
        body.apply_async(task_id=job.task_id, retry=False)
        return
    header = [
        jobs.app.signature(
            jobs.RANK_TASK,
            kwargs={"request": request, "number": number, "job_task_id": job.task_id},
            queue=jobs.RANK_QUEUE,
            task_id=task_id,
            retry=False,
        )
        for number, task_id in enumerate(_rank_task_ids(job))
    ]
    chord(header, body, app=jobs.app).apply_async(task_id=job.task_id)


def request_of(job: Job) -> dict[str, JSONValue]:
    """Return the request of a job as its task receives it."""
    aggregation = AggregationRequest(
        job.key_node,
        job.iter_start,
        job.iter_stop,
        job.iteration_phase,
        bare_step_ns=job.bare_step_ns,
    )
    return {
        "database": job.database,
        "request": asdict(aggregation),
        "sources": job.sources if job.kind == JobKind.IMPORT else [],
        "profile_name": job.profile_name,
        "mode": job.mode,
        "ranks": job.ranks,
        "window": job.window,
        "rank_folder": str(rank_folder(job)) if is_shared(job) else "",
    }


@_translate_connection_errors()
def report_of(job: Job) -> Report:
    """Read what the tasks of a job report."""
    joined = _report(job.task_id)
    ids = _rank_task_ids(job)
    if not ids or joined.status != "PENDING":
        return joined
    return report_of_ranks([_report(task_id) for task_id in ids])


def _report(task_id: str) -> Report:
    meta = load().app.backend.get_task_meta(task_id, cache=False)
    status, result = meta["status"], meta.get("result")
    if not isinstance(result, dict):
        # A task that failed has an exception.
        return Report(status, {"kind": type(result).__name__}, (status,))
    worker, beat = result.pop("worker", None), result.pop("beat", None)
    is_running = status == load().PROGRESS and worker is not None
    return Report(status, result, ((status, beat),), (worker,) if is_running else ())


def report_of_ranks(reports: list[Report]) -> Report:
    """Return the combine the reports of the rank files into the progress of their job."""
    from aggregator.jobs.limits import RANK_WEIGHTS  # noqa: PLC0415

    letters = "".join(_encode_state(report) for report in reports)
    if "f" in letters:
        # The others need not be waited for: the end of the job cancels them.
        failed = reports[letters.index("f")]
        return replace(failed, result={**failed.result, "parts": letters})
    is_pending = all(report.status == "PENDING" for report in reports)
    pct = RANK_WEIGHTS["import"] * letters.count("d") / len(reports)
    progress = {
        "phase": "import",
        "progress_pct": round(pct, 1),
        "rows_per_s": None,
        "eta_s": None,
        "message": f"Importing {len(reports)} rank files",
        "parts": letters,
    }
    return Report(
        "PENDING" if is_pending else load().PROGRESS,
        {} if is_pending else progress,
        tuple(beat for report in reports for beat in report.beats),
        tuple(worker for report in reports for worker in report.workers),
    )


def _encode_state(report: Report) -> str:
    if report.status == "PENDING":
        return "w"
    if report.status == load().PROGRESS:
        return "i"
    if report.status == "FAILURE":
        return "f"
    return {"done": "d", "failed": "f"}.get(str(report.result.get("end")), "w")


@_translate_connection_errors()
def cancel_task(task_id: str) -> None:
    """Cancel a task, now or as soon as a worker begins it."""
    jobs = load()
    jobs.app.backend.set(jobs.cancel_key(task_id), "1")


@_translate_connection_errors()
def forget_cancels() -> None:
    """Delete cancels of long ago; Redis does so itself."""
    forget_old = getattr(load().app.backend, "forget_old", None)
    if forget_old is not None:
        forget_old(load().cancel_key(""), _CANCEL_KEPT_S)


@_translate_connection_errors()
def forget(job: Job) -> None:
    """Delete what the tasks of a job reported."""
    for task_id in (job.task_id, *_rank_task_ids(job)):
        load().app.backend.forget(task_id)


@_translate_connection_errors()
def count_waiting() -> int:
    """Count the messages that no worker has taken yet."""
    jobs = load()
    with jobs.app.connection_for_write() as connection:
        channel = connection.default_channel
        return sum(
            int(channel.queue_declare(queue=queue, durable=True).message_count)
            for queue in (jobs.JOB_QUEUE, jobs.RANK_QUEUE)
        )


@_translate_connection_errors()
def seen_workers() -> dict[str, tuple[str, int, float]]:
    """Read which workers reported that they are running: host, pid and time of the last report."""
    found: dict[str, tuple[str, int, float]] = load().seen_workers()
    return found
