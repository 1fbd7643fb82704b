"""The background tasks: an aggregation, an import, and the import of one rank file of a job.

A task's message holds the whole request. While it runs, the state of the task in the result backend
is ``PROGRESS``, with the progress of the job, and is renewed a few times a second. Its result is::

    {"end": "done", "aggregation_id": 1, "database": "...", "note": "" | "reused" | "imported"}
    {"end": "failed", "error": {...}, "parts": "ddfw"}    the states of rank files, if there are any
    {"end": "cancelled"}
    {"end": "released"}        the worker has to shut down, the job shall be queued again

Setting a key of the result backend (``cancel_key``) cancels a task. A worker needs the broker, the
result backend and the files of the profiles, nothing of the viewer. The first task loads the
engine, as many a viewer never has one.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from celery import Task, states
from celery.signals import worker_ready, worker_shutdown
from celery.worker import state

from aggregator.dldb.reader import open_database
from aggregator.errors import AggregationCancelledError, DlprofError, JSONValue
from aggregator.jobs.celery_app import (
    JOB_TASK,
    PART_TASK,
    PROGRESS,
    RANK_TASK,
    WORKERS_KEY,
    app,
    cancel_key,
    seen_workers,
    shutting_down,
)
from aggregator.jobs.limits import GRACE_S, MEMORY_GRACE, JobLimits, JobProgress, memory_error
from aggregator.jobs.watcher import WATCHER
from aggregator.options import AggregationRequest, ImportOptions, Mode
from aggregator.system.temporary_files import process_scope, remove_leftovers
from aggregator.texts import with_templates

WORKER_INTERVAL_S = 5.0
"""How often a worker reports that it is running, busy or not."""
_REPORT_INTERVAL_S = 0.3
_LATELY_S = 30.0
_EXIT_LIMIT = 70
_FORGOTTEN_AFTER_S = 3600.0

Result = dict[str, JSONValue]

logger = logging.getLogger(__name__)


@app.task(bind=True, name=JOB_TASK)
def do_job(
    self: Task[Any, Any], rank_results: list[Result] | None = None, *, request: dict[str, Any]
) -> Result:
    """Run a job.

    Args:
        self: The task.
        rank_results: Results of the tasks that imported the rank files, if these were tasks of
            their own.
        request: ``database``, ``request``, ``sources``, ``profile_name``, ``mode``, ``ranks``,
            ``window`` and ``rank_folder``.
    """
    task_id = str(self.request.id)
    for result in rank_results or ():
        if result["end"] != "done":
            return result
    return _run(
        self, task_id, lambda progress: _do(request, progress, has_ranks=bool(rank_results))
    )


@app.task(bind=True, name=RANK_TASK)
def do_rank_file(
    self: Task[Any, Any], *, request: dict[str, Any], number: int, job_task_id: str
) -> Result:
    """Import one rank file of a job into the folder of its rank databases.

    Args:
        self: The task.
        request: That of the job.
        number: Index of the file in ``sources``.
        job_task_id: The task that joins the rank files; cancelling it cancels this one.
    """
    from aggregator.ranks.pool import import_rank_file, rank_database  # noqa: PLC0415

    def work(progress: JobProgress) -> Result:
        progress.phase("import")
        folder = Path(request["rank_folder"])
        folder.mkdir(mode=0o700, exist_ok=True)
        options = _options(request, request["sources"][number], rank_database(folder, number))
        # An earlier attempt of the job may have imported it already.
        made = options.database
        try:
            if not made.exists():
                made = import_rank_file(options, progress)
        except AggregationCancelledError:
            # The folder of a cancelled job may have been removed before it was made here.
            with suppress(OSError):
                folder.rmdir()
            raise
        return {"end": "done", "database": str(made)}

    return _run(self, job_task_id, work)


@app.task(name=PART_TASK)
def do_part(*, name: str, request: dict[str, Any]) -> Result:
    """Do a part of work on many rank files."""
    from aggregator.jobs.parts import run_part  # noqa: PLC0415

    return run_part(name, request)


def _do(request: dict[str, Any], progress: JobProgress, *, has_ranks: bool) -> Result:
    from aggregator.pipeline import aggregate, import_profile  # noqa: PLC0415
    from aggregator.ranks.rank_import import import_ranks, join_ranks  # noqa: PLC0415

    database = Path(request["database"])
    window = request.get("window")
    if not request["sources"] and not window:
        made = aggregate(database, AggregationRequest(**request["request"]), progress)
        return _done(made.aggr_id, made.database, "reused" if made.reused else "")
    if database.exists():  # by a worker that was lost before it could report it
        open_database(database).close()
        return _done(1, database, "imported")
    sources = [Path(source) for source in request["sources"]]
    if window:
        sources = [_record(window, database.parent / "source", progress)]
    options = _options(request, sources[0], database)
    if has_ranks:
        folder = Path(request["rank_folder"])
        imported = join_ranks(options, sources, folder, progress)
        shutil.rmtree(folder, ignore_errors=True)
        return _done(imported.aggr_id, imported.database)
    # Files of an earlier attempt: no other process writes this database now.
    remove_leftovers(database.parent, database.name)
    if len(sources) > 1:
        imported = import_ranks(options, sources, progress, on_states=progress.rank_states)
    else:
        imported = import_profile(options, progress)
    return _done(imported.aggr_id, imported.database)


def _record(window: dict[str, Any], folder: Path, progress: JobProgress) -> Path:
    """Record a window of a job of this machine that stands by; returns its export."""
    from aggregator.sources.collector import standing_by  # noqa: PLC0415

    export = folder / "window.sqlite"
    if export.exists():  # By a worker that was lost during the import.
        return export
    job, pid = standing_by.find_job(str(window["process"]))
    folder.mkdir(mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as records:
        found = standing_by.request_window(
            job,
            Path(records),
            steps=window["steps"],
            pid=pid,
            all_ranks=window["all_ranks"],
            progress=progress,
        )
        for loss in standing_by.export_window(found, export):
            progress.message(loss)
    return export


def _options(request: dict[str, Any], source: Path | str, database: Path) -> ImportOptions:
    return ImportOptions(
        source=Path(source),
        database=database,
        mode=Mode(request["mode"]),
        request=AggregationRequest(**request["request"]),
        profile_name=request["profile_name"],
        nsys_path=os.environ.get("DLPROF_NSYS_PATH", ""),
        ranks=tuple(request["ranks"]),
    )


def _done(aggregation_id: int, database: Path, note: str = "") -> Result:
    return {
        "end": "done",
        "aggregation_id": aggregation_id,
        "database": str(database),
        "note": note,
    }


def _run(task: Task[Any, Any], cancel_id: str, work: Callable[[JobProgress], Result]) -> Result:
    limits = JobLimits.read()
    task_id = str(task.request.id)
    progress = JobProgress(limits, shutting_down)
    try:
        with (
            WATCHER.watching(task_id, limits.time_s, limits.memory_bytes),
            _reporting(task, cancel_id, progress),
        ):
            return work(progress)
    except AggregationCancelledError:
        return {"end": "released" if shutting_down.is_set() else "cancelled"}
    except DlprofError as error:
        return {**_failed(error), "parts": progress.snapshot()["parts"]}
    except MemoryError:
        return _failed(memory_error(limits.memory_bytes))


def _failed(error: DlprofError) -> Result:
    return {"end": "failed", "error": with_templates(error.to_dict())}


def _backend() -> Any:
    """Return the result backend, whose keys can also be set directly."""
    return app.backend


@contextmanager
def _reporting(task: Task[Any, Any], cancel_id: str, progress: JobProgress) -> Iterator[None]:
    """Report the progress, and look whether the task is cancelled, while the block runs."""
    task_id = str(task.request.id)
    worker: JSONValue = {"host": platform.node(), "pid": os.getpid(), "scope": process_scope()}
    ended = threading.Event()

    def report() -> None:
        beat = 0
        while True:
            beat += 1
            meta = {**progress.snapshot(), "worker": worker, "beat": f"{time.time()}.{beat}"}
            try:
                task.update_state(task_id=task_id, state=PROGRESS, meta=meta)
                if _backend().get(cancel_key(cancel_id)):
                    progress.stop()
            except Exception:  # the next report tries again
                logger.exception("task %s: its progress could not be reported", task_id)
            if ended.wait(_REPORT_INTERVAL_S):
                return
            _end_beyond_limits(task, task_id, progress)

    thread = threading.Thread(target=report, name=f"report-{task_id}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _end_beyond_limits(task: Task[Any, Any], task_id: str, progress: JobProgress) -> None:
    """End this process if its engine is far beyond a limit and does not stop by itself."""
    error = progress.limit_error(GRACE_S, MEMORY_GRACE)
    if error is not None:
        logger.error("task %s: %s The worker ends.", task_id, error.message)
        task.update_state(task_id=task_id, state=states.SUCCESS, meta=_failed(error))
        os._exit(_EXIT_LIMIT)


@worker_ready.connect
def _on_ready(**_: Any) -> None:
    _end_after_job_on_hangup()
    threading.Thread(target=_stay_known, name="presence", daemon=True).start()


@worker_shutdown.connect
def _on_end(**_: Any) -> None:
    _report_worker(0.0)


def _stay_known() -> None:
    while True:
        _report_worker(time.time())
        if shutting_down.wait(WORKER_INTERVAL_S):
            return


def _report_worker(at: float) -> None:
    """Store that this worker is running, or at 0 that it ends.

    All workers share one key. When two write it at once one of them is missing until its next
    report, which is soon enough.
    """
    name = f"{os.getpid()}@{process_scope()}"
    try:
        known = {
            key: row
            for key, row in seen_workers().items()
            if time.time() - row[2] < _FORGOTTEN_AFTER_S
        }
        known[name] = (platform.node(), os.getpid(), at)
        _backend().set(WORKERS_KEY, json.dumps(known))
    except Exception as error:  # noqa: BLE001 - the backend may be unavailable for a while
        logger.warning("this worker could not report that it is running: %s", error)


def running_workers() -> int:
    """Number of workers that reported lately that they are running; 0: also if none can know."""
    try:
        return sum(time.time() - float(at) < _LATELY_S for _, _, at in seen_workers().values())
    except Exception as error:  # noqa: BLE001 - the backend may be unavailable
        logger.warning("the workers cannot be read: %s", type(error).__name__)
        return 0


def _end_after_job_on_hangup() -> None:
    """Let SIGHUP end the worker after its job; its supervisor starts a new one.

    Celery itself would start the same program again, which fails for ``python -m celery``. In a
    terminal it sets no handler, and neither does this function.
    """
    if not callable(signal.getsignal(signal.SIGHUP)):
        return

    worker_state: Any = state

    def end(number: int, frame: FrameType | None) -> None:
        worker_state.should_stop = 0

    signal.signal(signal.SIGHUP, end)
