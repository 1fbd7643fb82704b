"""The tasks: what they report and return, however the engine ends. The backend is in memory."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aggregator import pipeline
from aggregator.errors import AggregationCancelledError, KeyNodeNotFoundError
from aggregator.jobs import tasks
from aggregator.jobs.celery_app import app, cancel_key
from aggregator.jobs.limits import JobLimits, JobProgress
from aggregator.options import AggregationRequest, ImportOptions
from aggregator.ranks import pool
from aggregator.system.progress import Level, Progress
from aggregator.system.resources import resident_bytes

LIMIT_S = 60.0
TASK_ID = "a-task"
REQUEST = {
    "database": "/nowhere",
    "request": {"key_node": "", "iter_start": None, "iter_stop": None, "gpu_peaks": ""},
    "sources": [],
    "profile_name": "",
    "mode": "auto",
    "ranks": [],
    "rank_folder": "",
}


class Result:
    aggr_id = 7
    database = Path("/nowhere")

    def __init__(self, *, reused: bool = False) -> None:
        self.reused = reused


@pytest.fixture(autouse=True)
def reports(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What a task reports, and no cancel of an earlier test."""
    found: list[dict[str, Any]] = []
    original = tasks.do_job.update_state

    def update_state(**values: Any) -> None:
        found.append({"state": values["state"], **values["meta"]})
        original(**values)

    monkeypatch.setattr(tasks.do_job, "update_state", update_state)
    monkeypatch.setattr(tasks, "_REPORT_INTERVAL_S", 0.05)
    backend: Any = app.backend
    backend.delete(cancel_key(TASK_ID))
    backend.forget(TASK_ID)
    return found


def _engine(monkeypatch: pytest.MonkeyPatch, work: Any) -> None:
    monkeypatch.setattr(pipeline, "aggregate", work)


def _run() -> Any:
    return tasks.do_job.apply(kwargs={"request": REQUEST}, task_id=TASK_ID)


def _cancel() -> None:
    backend: Any = app.backend
    backend.set(cancel_key(TASK_ID), "1")


def test_a_finished_aggregation_is_the_result(
    monkeypatch: pytest.MonkeyPatch, reports: list[dict[str, Any]]
) -> None:
    _engine(monkeypatch, lambda database, request, progress: Result())

    done = {"end": "done", "aggregation_id": 7, "database": "/nowhere", "note": ""}
    assert _run().result == done
    assert reports[0]["state"] == "PROGRESS"
    assert set(reports[0]["worker"]) == {"host", "pid", "scope"}


def test_a_reused_aggregation_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    _engine(monkeypatch, lambda database, request, progress: Result(reused=True))

    assert _run().result["note"] == "reused"


def test_an_error_of_the_engine_is_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(*_: object) -> None:
        raise KeyNodeNotFoundError("No such op.")

    _engine(monkeypatch, work)

    result = _run().result
    assert result["end"] == "failed"
    assert (result["error"]["code"], result["error"]["message"]) == (
        "KEY_NODE_NOT_FOUND",
        "No such op.",
    )


def test_an_internal_error_fails_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(*_: object) -> None:
        raise ZeroDivisionError("inside")

    _engine(monkeypatch, work)

    assert _run().failed()


def test_the_result_of_a_failed_rank_file_is_that_of_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _engine(monkeypatch, pytest.fail)
    results = [{"end": "done", "database": "/x"}, {"end": "failed", "error": {"code": "X"}}]

    done = tasks.do_job.apply(args=(results,), kwargs={"request": REQUEST}, task_id=TASK_ID)

    assert done.result == results[1]


def _when(
    happens: Callable[[], object], reports: list[dict[str, Any]]
) -> Callable[[Path, AggregationRequest, Progress], None]:
    """Work that has something happen once it has reported a phase."""

    def work(database: Path, request: AggregationRequest, progress: Progress) -> None:
        progress.phase("read", 1_000_000)
        deadline = time.monotonic() + LIMIT_S
        while not any(report["phase"] == "read" for report in reports):
            assert time.monotonic() < deadline, "it was not reported"
            time.sleep(0.01)
        happens()
        _work_until_stopped(database, request, progress)

    return work


def _work_until_stopped(database: Path, request: AggregationRequest, progress: Progress) -> None:
    progress.phase("read", 1_000_000)
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        progress.advance(1)
        time.sleep(0.01)
    pytest.fail("it was not stopped")


def test_a_cancelled_task_stops(
    monkeypatch: pytest.MonkeyPatch, reports: list[dict[str, Any]]
) -> None:
    _engine(monkeypatch, _when(_cancel, reports))

    assert _run().result == {"end": "cancelled"}
    assert reports[-1]["phase"] == "read"


def test_a_task_that_was_cancelled_before_it_began_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    _engine(monkeypatch, _work_until_stopped)
    _cancel()

    assert _run().result == {"end": "cancelled"}


def test_a_worker_that_shuts_down_releases_its_job(
    monkeypatch: pytest.MonkeyPatch, reports: list[dict[str, Any]]
) -> None:
    ending = threading.Event()
    monkeypatch.setattr(tasks, "shutting_down", ending)
    _engine(monkeypatch, _when(ending.set, reports))

    assert _run().result == {"end": "released"}


def test_a_backend_that_is_unavailable_for_a_moment_does_not_end_the_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[object] = []

    def update_state(**values: object) -> None:
        tried.append(values)
        raise OSError("full")

    def work(database: Path, request: AggregationRequest, progress: Progress) -> Result:
        deadline = time.monotonic() + LIMIT_S
        while len(tried) < 3 and time.monotonic() < deadline:
            progress.advance(1)
            time.sleep(0.01)
        return Result()

    monkeypatch.setattr(tasks.do_job, "update_state", update_state)
    _engine(monkeypatch, work)

    assert _run().result["end"] == "done"
    assert len(tried) > 2


def test_progress_grows_and_never_falls() -> None:
    progress = JobProgress()
    seen: list[Any] = []
    for phase in ("read", "aggregate", "read", "write", "index"):
        progress.phase(phase, 10)
        for _ in range(12):
            progress.advance(1)
            seen.append(progress.snapshot()["progress_pct"])

    assert seen == sorted(seen)
    assert seen[0] > 0
    assert seen[-1] == 100.0


def test_a_phase_that_counts_nothing_has_no_rate() -> None:
    progress = JobProgress()
    progress.phase("correlate")

    snapshot = progress.snapshot()

    assert (snapshot["phase"], snapshot["rows_per_s"]) == ("correlate", None)
    assert snapshot["eta_s"] is not None


def test_only_lines_of_normal_level_are_the_message() -> None:
    progress = JobProgress()
    progress.message("Aggregating profile data")
    progress.message("17 rows of padding", Level.DIAGNOSTIC)

    assert progress.snapshot()["message"] == "Aggregating profile data"


def test_a_stopped_progress_stops_the_engine_everywhere() -> None:
    progress = JobProgress()
    progress.stop()

    with pytest.raises(AggregationCancelledError):
        progress.phase("read")
    with pytest.raises(AggregationCancelledError):
        progress.advance(1)


def test_the_last_cancelled_rank_file_removes_their_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "ranks"

    def work(options: ImportOptions, progress: Progress) -> Path:
        assert folder.is_dir()
        _cancel()
        _work_until_stopped(options.database, options.request, progress)
        return options.database

    monkeypatch.setattr(pool, "import_rank_file", work)
    request = {**REQUEST, "sources": ["/nowhere"], "rank_folder": str(folder)}
    arguments = {"request": request, "number": 0, "job_task_id": TASK_ID}

    done = tasks.do_rank_file.apply(kwargs=arguments, task_id="a-file")

    assert done.result == {"end": "cancelled"}
    assert not folder.exists()


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({"DLPROF_JOB_TIME_LIMIT_S": "0.05"}, "JOB_TIME_LIMIT"),
        ({"DLPROF_JOB_MEMORY_LIMIT_BYTES": "1000000"}, "JOB_MEMORY_LIMIT"),
    ],
)
def test_a_job_that_exceeds_a_limit_fails_with_the_limit(
    monkeypatch: pytest.MonkeyPatch, limits: dict[str, str], code: str
) -> None:
    for name, value in limits.items():
        monkeypatch.setenv(name, value)
    # Here the process is pytest's own, which must not end with the job.
    monkeypatch.setattr("os._exit", lambda status: None)
    _engine(monkeypatch, _work_until_stopped)

    result = _run().result
    assert (result["end"], result["error"]["code"]) == ("failed", code)


def test_memory_is_limited_by_default() -> None:
    assert JobLimits.read({"DLPROF_JOB_MEMORY_LIMIT_BYTES": "0"}).memory_bytes == 0
    assert JobLimits.read({}).memory_bytes > resident_bytes([os.getpid()]) > 0


def test_an_engine_that_ignores_its_limit_is_ended_with_its_process(
    monkeypatch: pytest.MonkeyPatch, reports: list[dict[str, Any]]
) -> None:
    ended: list[int] = []

    def work(*_: object) -> Result:
        deadline = time.monotonic() + LIMIT_S
        while not ended and time.monotonic() < deadline:
            time.sleep(0.01)
        return Result()

    monkeypatch.setenv("DLPROF_JOB_TIME_LIMIT_S", "0.05")
    monkeypatch.setattr(tasks, "GRACE_S", 0.1)
    monkeypatch.setattr("os._exit", ended.append)
    _engine(monkeypatch, work)

    _run()

    last = next(report for report in reports if report["state"] == "SUCCESS")
    assert (last["end"], last["error"]["code"]) == ("failed", "JOB_TIME_LIMIT")
    assert ended


def test_an_engine_without_memory_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(*_: object) -> None:
        raise MemoryError

    _engine(monkeypatch, work)

    assert _run().result["error"]["code"] == "JOB_MEMORY_LIMIT"
