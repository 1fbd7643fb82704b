"""The task: what it tells the keeper of jobs, however the engine ends."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from aggregator import tasks
from aggregator.errors import AggregationCancelledError, KeyNodeNotFoundError
from aggregator.job_progress import JobProgress
from aggregator.jobs import ClaimedJob, Outcome, Snapshot
from aggregator.options import AggregationRequest
from aggregator.progress import Level, Progress
from aggregator.tasks import run_job

LIMIT_S = 60.0
JOB = ClaimedJob("job-1", "claim-1", Path("/nowhere"), AggregationRequest())


@dataclass
class FakeRecorder:
    """Keeps one job, and fails on a call that nobody expects."""

    job: ClaimedJob | None = JOB
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)

    def worker_started(self) -> None:
        raise AssertionError("no worker starts here")

    def worker_alive(self) -> None:
        raise AssertionError("no worker lives here")

    def worker_ended(self) -> None:
        raise AssertionError("no worker ends here")

    def claim(self, job_id: str) -> ClaimedJob | None:
        self.calls.append(("claim", job_id))
        return self.job

    def beat(self, job: ClaimedJob, snapshot: Snapshot) -> bool:
        self.snapshots.append(snapshot)
        return True

    def finish(self, job: ClaimedJob, outcome: Outcome) -> None:
        self.calls.append(("finish", outcome.aggregation_id, outcome.message))

    def fail(self, job: ClaimedJob, error: dict[str, Any]) -> None:
        self.calls.append(("fail", error["code"], error["message"]))

    def cancel(self, job: ClaimedJob) -> None:
        self.calls.append(("cancel",))

    def release(self, job: ClaimedJob) -> None:
        self.calls.append(("release",))


@dataclass
class Result:
    aggr_id: int = 7
    reused: bool = False
    database: Path = Path("/nowhere")


def _engine(monkeypatch: pytest.MonkeyPatch, work: Any) -> None:
    monkeypatch.setattr(tasks, "aggregate", work)


def test_a_finished_aggregation_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = FakeRecorder()
    _engine(monkeypatch, lambda database, request, progress: Result())

    run_job("job-1", recorder)

    assert recorder.calls == [("claim", "job-1"), ("finish", 7, "")]


def test_an_aggregation_that_was_there_already_is_said_to_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorder = FakeRecorder()
    _engine(monkeypatch, lambda database, request, progress: Result(reused=True))

    run_job("job-1", recorder)

    assert recorder.calls[-1] == ("finish", 7, "This aggregation was there already.")


def test_a_job_that_somebody_else_has_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = FakeRecorder(job=None)
    _engine(monkeypatch, pytest.fail)

    run_job("job-1", recorder)

    assert recorder.calls == [("claim", "job-1")]


def test_an_error_of_ours_is_the_jobs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(*_: object) -> None:
        raise KeyNodeNotFoundError("No such op.")

    recorder = FakeRecorder()
    _engine(monkeypatch, work)

    run_job("job-1", recorder)

    assert recorder.calls[-1] == ("fail", "KEY_NODE_NOT_FOUND", "No such op.")


def test_a_mistake_of_ours_ends_the_job_and_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(*_: object) -> None:
        raise ZeroDivisionError("inside")

    recorder = FakeRecorder()
    _engine(monkeypatch, work)

    with pytest.raises(ZeroDivisionError):
        run_job("job-1", recorder)

    kind, code, message = recorder.calls[-1]
    assert (kind, code) == ("fail", "INTERNAL_ERROR")
    assert "inside" not in message


def _work_until_stopped(database: Path, request: AggregationRequest, progress: Progress) -> None:
    progress.phase("read", 1_000_000)
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        progress.advance(1)
        time.sleep(0.01)
    pytest.fail("nobody stopped it")


def test_a_job_that_is_no_longer_wanted_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    class Cancelled(FakeRecorder):
        def beat(self, job: ClaimedJob, snapshot: Snapshot) -> bool:
            super().beat(job, snapshot)
            return snapshot.phase != "read"

    recorder = Cancelled()
    _engine(monkeypatch, _work_until_stopped)

    run_job("job-1", recorder)

    assert recorder.calls[-1] == ("cancel",)
    assert recorder.snapshots[-1].phase == "read"


def test_a_worker_that_has_to_end_releases_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    ending = threading.Event()
    monkeypatch.setattr(tasks, "shutting_down", ending)
    recorder = FakeRecorder()
    _engine(monkeypatch, _work_until_stopped)
    threading.Timer(0.1, ending.set).start()

    run_job("job-1", recorder)

    assert recorder.calls[-1] == ("release",)


def test_a_keeper_that_is_away_for_a_moment_does_not_end_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Flaky(FakeRecorder):
        def beat(self, job: ClaimedJob, snapshot: Snapshot) -> bool:
            super().beat(job, snapshot)
            raise OSError("locked")

    def work(database: Path, request: AggregationRequest, progress: Progress) -> Result:
        deadline = time.monotonic() + LIMIT_S
        while len(recorder.snapshots) < 3 and time.monotonic() < deadline:
            progress.advance(1)
            time.sleep(0.01)
        return Result()

    monkeypatch.setattr(tasks, "_BEAT_INTERVAL_S", 0.05)
    recorder = Flaky()
    _engine(monkeypatch, work)

    run_job("job-1", recorder)

    assert recorder.calls[-1] == ("finish", 7, "")
    assert len(recorder.snapshots) > 2


def test_progress_grows_and_never_falls() -> None:
    progress = JobProgress()
    seen = []
    for phase in ("read", "aggregate", "read", "write", "index"):
        progress.phase(phase, 10)
        for _ in range(12):
            progress.advance(1)
            seen.append(progress.snapshot().progress_pct)

    assert seen == sorted(seen)
    assert seen[0] > 0
    assert seen[-1] == 100.0


def test_a_phase_that_counts_nothing_has_no_rate() -> None:
    progress = JobProgress()
    progress.phase("correlate")

    snapshot = progress.snapshot()

    assert (snapshot.phase, snapshot.rows_per_s) == ("correlate", None)
    assert snapshot.eta_s is not None


def test_only_what_a_person_wants_to_know_is_the_message() -> None:
    progress = JobProgress()
    progress.message("Aggregating profile data")
    progress.message("17 rows of padding", Level.DIAGNOSTIC)

    assert progress.snapshot().message == "Aggregating profile data"


def test_a_stopped_progress_stops_the_engine_everywhere() -> None:
    progress = JobProgress()
    progress.stop()

    with pytest.raises(AggregationCancelledError):
        progress.phase("read")
    with pytest.raises(AggregationCancelledError):
        progress.advance(1)


def test_a_keeper_that_is_named_badly_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLPROF_JOB_RECORDER", "nobody")
    tasks.load_recorder.cache_clear()

    with pytest.raises(RuntimeError, match="DLPROF_JOB_RECORDER"):
        tasks.load_recorder()


def test_without_a_name_the_keeper_is_told_through_the_broker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("DLPROF_JOB_RECORDER", raising=False)
    tasks.load_recorder.cache_clear()

    assert type(tasks.load_recorder()).__name__ == "BrokerRecorder"
    tasks.load_recorder.cache_clear()


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({"DLPROF_JOB_TIME_LIMIT_S": "0.05"}, "JOB_TIME_LIMIT"),
        ({"DLPROF_JOB_MEMORY_LIMIT_BYTES": "1000000"}, "JOB_MEMORY_LIMIT"),
    ],
)
def test_a_job_that_passes_a_limit_fails_with_the_limit(
    monkeypatch: pytest.MonkeyPatch, limits: dict[str, str], code: str
) -> None:
    for name, value in limits.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(tasks, "_BEAT_INTERVAL_S", 0.02)
    # Here the process is pytest's own, which shall not end with the job.
    monkeypatch.setattr("os._exit", lambda status: None)
    recorder = FakeRecorder()
    _engine(monkeypatch, _work_until_stopped)

    run_job("job-1", recorder)

    assert recorder.calls[-1][:2] == ("fail", code)


def test_an_engine_that_ignores_its_limit_is_ended_with_its_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: list[int] = []

    def work(*_: object) -> Result:
        deadline = time.monotonic() + LIMIT_S
        while not ended and time.monotonic() < deadline:
            time.sleep(0.01)
        return Result()

    monkeypatch.setenv("DLPROF_JOB_TIME_LIMIT_S", "0.05")
    monkeypatch.setattr(tasks, "_BEAT_INTERVAL_S", 0.02)
    monkeypatch.setattr(tasks, "_GRACE_S", 0.1)
    monkeypatch.setattr("os._exit", ended.append)
    recorder = FakeRecorder()
    _engine(monkeypatch, work)

    run_job("job-1", recorder)

    assert recorder.calls[1][:2] == ("fail", "JOB_TIME_LIMIT")
    assert ended


def test_an_engine_without_memory_fails_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(*_: object) -> None:
        raise MemoryError

    recorder = FakeRecorder()
    _engine(monkeypatch, work)

    run_job("job-1", recorder)

    assert recorder.calls[-1][:2] == ("fail", "JOB_MEMORY_LIMIT")
