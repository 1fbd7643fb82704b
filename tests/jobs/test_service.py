"""Jobs as rows: what the API and the keeper do with them, without a broker or a worker."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.utils import timezone

from aggregator.jobs.celery_app import FolderBackend, app, cancel_key
from aggregator.options import AggregationRequest
from aggregator.system.temporary_files import process_scope
from aggregator.texts import from_templates
from viewer.errors import ViewerError
from viewer.jobs import dispatch, keeper, service
from viewer.jobs.dispatch import BrokerAwayError, Report
from viewer.jobs.keeper import Keeper
from viewer.profiles.registry import ServedProfile
from viewer.state.models import Job, JobState, SeenWorker, StoredProfile

pytestmark = pytest.mark.django_db(transaction=True)

PROFILE = ServedProfile("demo-1", Path("/nowhere/demo.sqlite"))
PROGRESS = {
    "phase": "aggregate",
    "progress_pct": 42.0,
    "rows_per_s": 1000.0,
    "eta_s": 3.0,
    "message": "Aggregating profile data",
    "parts": "",
}
DONE = {"end": "done", "aggregation_id": 7, "database": "/nowhere/demo.open.sqlite", "note": ""}


class Workers:
    """Broker, result backend and workers, all of them made up."""

    def __init__(self) -> None:
        self.is_away = False
        self.sent: list[str] = []
        self.cancelled: list[str] = []
        self.waiting = 0
        self.reports: dict[str, Report] = {}

    def send(self, job: Job) -> None:
        if self.is_away:
            raise BrokerAwayError("connection refused")
        self.sent.append(job.id)
        self.waiting += 1

    def begin(self, job: Job, pid: int = 0, scope: str = "") -> str:
        """A worker takes the job; returns its task."""
        task_id = service.find(job.id).task_id
        assert task_id, "it was sent"
        self.waiting -= 1
        self.beat(task_id, pid, scope)
        return task_id

    def beat(self, task_id: str, pid: int = 0, scope: str = "") -> None:
        worker = {"host": "here", "pid": pid or os.getpid(), "scope": scope or process_scope()}
        beats = (len(self.reports.get(task_id, Report("")).beats), object())
        self.reports[task_id] = Report("PROGRESS", dict(PROGRESS), beats, (worker,))

    def end(self, task_id: str, result: dict[str, Any]) -> None:
        self.reports[task_id] = Report("SUCCESS", result)

    def report_of(self, job: Job) -> Report:
        return self.reports.get(job.task_id, Report("PENDING", {}, ("PENDING",)))


@pytest.fixture(autouse=True)
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    made = Workers()
    monkeypatch.setattr(service, "send", made.send)
    monkeypatch.setattr(service, "cancel_task", made.cancelled.append)
    monkeypatch.setattr(dispatch, "report_of", made.report_of)
    monkeypatch.setattr(dispatch, "cancel_task", made.cancelled.append)
    monkeypatch.setattr(dispatch, "count_waiting", lambda: made.waiting)
    monkeypatch.setattr(dispatch, "forget", lambda job: made.reports.pop(job.task_id, None))
    monkeypatch.setattr(dispatch, "seen_workers", dict)
    return made


@pytest.fixture
def watch() -> Keeper:
    return Keeper()


@pytest.fixture
def dead_pid() -> int:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return pid


def _submit(**request: object) -> Job:
    return service.submit(PROFILE, AggregationRequest(**request))  # type: ignore[arg-type]


def test_a_job_is_queued_and_sent(workers: Workers) -> None:
    job = _submit(iter_start=3)

    assert (job.state, job.iter_start, job.iter_stop, job.key_node) == ("queued", 3, None, "")
    assert workers.sent == [job.id]


def test_the_same_request_while_one_is_active_gives_that_job(
    workers: Workers, watch: Keeper
) -> None:
    job = _submit(iter_start=3)

    assert _submit(iter_start=3).id == job.id
    workers.begin(job)
    watch.tick()
    assert _submit(iter_start=3).id == job.id
    assert _submit(iter_start=4).id != job.id


def test_a_job_whose_broker_is_away_waits_and_says_so(workers: Workers, watch: Keeper) -> None:
    workers.is_away = True

    job = _submit()
    watch.tick()

    assert job.state == "queued"
    assert service.find(job.id).message == "Waiting for the broker: connection refused"
    workers.is_away = False
    watch.tick()
    assert workers.sent == [job.id]
    assert service.find(job.id).message == ""


def test_the_request_is_the_message() -> None:
    job = _submit(key_node="CONV2D_1", iter_stop=9)

    request = dispatch.request_of(job)

    assert request["database"] == str(PROFILE.path)
    asked: Any = request["request"]
    assert (asked["key_node"], asked["iter_start"], asked["iter_stop"]) == ("CONV2D_1", None, 9)


def test_progress_is_copied_and_the_end_is_kept(workers: Workers, watch: Keeper) -> None:
    job = _submit()
    task_id = workers.begin(job)
    watch.tick()
    running = service.find(job.id)
    workers.end(task_id, DONE)
    watch.tick()
    done = service.find(job.id)

    assert (running.state, running.phase, running.progress_pct) == ("running", "aggregate", 42.0)
    assert (running.rows_per_s, running.eta_s, running.attempts) == (1000.0, 3.0, 1)
    assert (done.state, done.aggregation_id, done.progress_pct) == ("done", 7, 100.0)
    assert done.finished_at is not None
    assert (done.task_id, workers.reports) == ("", {})


def test_a_failure_keeps_its_reason(workers: Workers, watch: Keeper) -> None:
    job = _submit()
    error = {"code": "KEY_NODE_NOT_FOUND", "message": "No such op.", "hint": "", "details": {}}
    workers.end(workers.begin(job), {"end": "failed", "error": error})

    watch.tick()

    failed = service.find(job.id)
    assert failed.error is not None
    assert (failed.state, from_templates(failed.error)) == ("failed", error)


@pytest.mark.parametrize(
    "report",
    [
        Report("FAILURE", {"kind": "ZeroDivisionError"}),
        Report("SUCCESS", {"end": "done"}),
        Report("PROGRESS", {"no_such_column": 1}, (1,), ({"host": "x"},)),
    ],
)
def test_a_report_that_cannot_be_read_fails_the_job(
    workers: Workers, watch: Keeper, report: Report
) -> None:
    job = _submit()
    workers.reports[workers.begin(job)] = report

    watch.tick()

    failed = service.find(job.id)
    assert failed.state == "failed"
    assert failed.error is not None
    assert failed.error["code"] == "INTERNAL_ERROR"


def test_a_waiting_job_is_cancelled_at_once(workers: Workers, watch: Keeper) -> None:
    job = _submit()
    task_id = job.task_id

    assert service.cancel(job.id).state == "cancelled"
    watch.tick()
    assert workers.cancelled == [task_id]
    assert service.find(job.id).task_id == ""


def test_a_running_job_is_cancelled_by_its_worker(workers: Workers, watch: Keeper) -> None:
    job = _submit()
    task_id = workers.begin(job)
    watch.tick()

    asked = service.cancel(job.id)
    workers.beat(task_id)
    watch.tick()
    still = service.find(job.id)
    workers.end(task_id, {"end": "cancelled"})
    watch.tick()

    assert (asked.state, asked.cancel_requested, asked.message) == ("running", True, "Cancelling.")
    assert (still.state, still.message) == ("running", "Cancelling.")
    assert task_id in workers.cancelled
    assert service.find(job.id).state == "cancelled"


@pytest.mark.parametrize("state", ["done", "failed", "cancelled"])
def test_what_has_ended_cannot_be_cancelled(state: str) -> None:
    job = _submit()
    Job.objects.filter(pk=job.id).update(state=state)

    with pytest.raises(ViewerError, match=state):
        service.cancel(job.id)


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_what_has_failed_can_be_tried_again(workers: Workers, state: str) -> None:
    job = _submit()
    Job.objects.filter(pk=job.id).update(
        state=state, error={"code": "X"}, cancel_requested=True, attempts=2, progress_pct=50
    )

    again = service.retry(job.id)

    assert (again.state, again.error, again.cancel_requested) == ("queued", None, False)
    assert (again.attempts, again.progress_pct) == (0, 0)
    assert workers.sent == [job.id, job.id]
    # A worker that takes the first message drops it.
    assert workers.cancelled == [job.task_id]
    assert again.task_id not in {"", job.task_id}


@pytest.mark.parametrize("state", ["queued", "running", "done"])
def test_nothing_else_can_be_tried_again(state: str) -> None:
    job = _submit()
    Job.objects.filter(pk=job.id).update(state=state)

    with pytest.raises(ViewerError, match=state):
        service.retry(job.id)


def test_what_a_job_left_is_deleted_before_it_is_tried_again_or_not_at_all(
    watch: Keeper, tmp_path: Path
) -> None:
    """The keeper looks at a cancelled job when it is the turn of its row, which may be late."""
    source, folder = tmp_path / "export.sqlite", tmp_path / "made"
    source.write_bytes(b"x")
    folder.mkdir()
    stored = StoredProfile.objects.create(
        id="made", path=str(folder / "made.dldb.sqlite"), folder=str(folder)
    )
    job = service.submit_import(stored, [str(source)], "auto")
    service.cancel(job.id)
    as_it_was = service.find(job.id)
    (folder / ".made.dldb.sqlite.0badcafe-1-1.partial").touch()
    service.retry(job.id)
    with_new_attempt = sorted(path.name for path in folder.iterdir())

    watch._look_at(as_it_was)

    assert len(with_new_attempt) == 2
    assert sorted(path.name for path in folder.iterdir()) == with_new_attempt
    service.cancel(job.id)
    watch.tick()
    assert list(folder.iterdir()) == []


def test_a_running_import_that_cannot_be_tried_again_reserves_nothing(tmp_path: Path) -> None:
    source, folder = tmp_path / "export.sqlite", tmp_path / "made"
    source.write_bytes(b"x")
    folder.mkdir()
    stored = StoredProfile.objects.create(
        id="made", path=str(folder / "made.dldb.sqlite"), folder=str(folder)
    )
    job = service.submit_import(stored, [str(source)], "auto")

    with pytest.raises(ViewerError, match="queued"):
        service.retry(job.id)
    assert list(folder.iterdir()) == []


def test_a_job_that_does_not_exist() -> None:
    for ask in (service.find, service.cancel, service.retry):
        with pytest.raises(ViewerError, match="There is no job"):
            ask("nope")


# --- lost workers and messages --------------------------------------------------------------------


def test_the_job_of_a_dead_worker_is_queued_again_once(
    workers: Workers, watch: Keeper, dead_pid: int
) -> None:
    job = _submit()
    first = workers.begin(job)
    watch.tick()
    workers.beat(first, dead_pid)
    watch.tick()

    again = service.find(job.id)
    assert (again.state, again.attempts) == ("queued", 1)
    assert again.task_id not in {"", first}
    assert workers.cancelled == [first]
    assert workers.sent == [job.id, job.id]


def test_a_job_that_kills_its_workers_fails_with_a_reason(
    workers: Workers, watch: Keeper, dead_pid: int
) -> None:
    job = _submit()
    for _ in range(keeper.MAX_ATTEMPTS):
        task_id = workers.begin(job)
        watch.tick()
        workers.beat(task_id, dead_pid)
        Job.objects.filter(pk=job.id).update(worker_pid=dead_pid)
        watch.tick()

    failed = service.find(job.id)
    assert failed.state == "failed"
    assert failed.error is not None
    assert failed.error["code"] == "WORKER_LOST"
    assert str(dead_pid) in failed.error["message"]


def test_a_cancelled_job_of_a_dead_worker_is_cancelled(
    workers: Workers, watch: Keeper, dead_pid: int
) -> None:
    job = _submit()
    task_id = workers.begin(job)
    watch.tick()
    service.cancel(job.id)
    workers.beat(task_id, dead_pid)

    watch.tick()

    assert service.find(job.id).state == "cancelled"


def test_a_worker_elsewhere_is_lost_when_it_is_silent(
    workers: Workers, watch: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = _submit()
    workers.begin(job, 1, "elsewhere")
    watch.tick()
    watch.tick()
    alive = service.find(job.id).state
    monkeypatch.setattr(keeper, "SILENCE_LIMIT_S", -1.0)
    watch.tick()

    assert alive == "running"
    assert service.find(job.id).state == "queued"


def test_a_worker_that_lost_its_job_changes_nothing_more(
    workers: Workers, watch: Keeper, dead_pid: int
) -> None:
    job = _submit()
    slow = workers.begin(job)
    watch.tick()
    workers.beat(slow, dead_pid)
    watch.tick()
    quick = workers.begin(job)
    workers.end(slow, DONE)
    watch.tick()

    found = service.find(job.id)
    assert (found.state, found.task_id, found.aggregation_id) == ("running", quick, None)


def test_a_worker_that_shuts_down_gives_its_job_back(workers: Workers, watch: Keeper) -> None:
    job = _submit()
    task_id = workers.begin(job)
    watch.tick()
    workers.end(task_id, {"end": "released"})
    watch.tick()

    back = service.find(job.id)
    assert (back.state, back.attempts) == ("queued", 0)
    assert workers.sent == [job.id, job.id]


def test_a_message_that_got_lost_is_sent_again(
    workers: Workers, watch: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = _submit()
    watch.tick()
    monkeypatch.setattr(keeper, "MESSAGE_LIMIT_S", -1.0)
    watch.tick()
    while_it_waits = list(workers.sent)
    workers.waiting = 0
    watch.tick()

    assert while_it_waits == [job.id]
    assert workers.sent == [job.id, job.id]
    assert service.find(job.id).attempts == 0


def test_a_result_backend_that_lost_its_data_costs_no_job(
    workers: Workers, watch: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = _submit()
    task_id = workers.begin(job)
    watch.tick()
    workers.reports.clear()
    monkeypatch.setattr(keeper, "MESSAGE_LIMIT_S", -1.0)
    watch.tick()
    workers.beat(task_id)
    watch.tick()

    assert service.find(job.id).state == "running"
    assert workers.sent == [job.id]


# --- rank files -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranks", "status", "letters"),
    [
        (["PENDING", "PENDING"], "PENDING", ""),
        (["PROGRESS", "PENDING"], "PROGRESS", "iw"),
        (["SUCCESS", "PROGRESS"], "PROGRESS", "di"),
        (["SUCCESS", "SUCCESS"], "PROGRESS", "dd"),
    ],
)
def test_the_reports_of_rank_files_are_those_of_their_job(
    ranks: list[str], status: str, letters: str
) -> None:
    results = {"SUCCESS": {"end": "done"}}
    reports = [Report(rank, results.get(rank, {}), ((rank, 1),)) for rank in ranks]

    found = dispatch.report_of_ranks(reports)

    assert (found.status, found.result.get("parts", "")) == (status, letters)


def test_a_failed_rank_file_fails_its_job_before_the_others_end() -> None:
    failed = Report("SUCCESS", {"end": "failed", "error": {}})

    found = dispatch.report_of_ranks([Report("PROGRESS"), failed])

    assert (found.status, found.result["end"], found.result["parts"]) == ("SUCCESS", "failed", "if")


# --- turns ----------------------------------------------------------------------------------------


def _submit_for(client: str, profile: str, start: int) -> Job:
    served = ServedProfile(profile, Path(f"/nowhere/{profile}.sqlite"))
    return service.submit(served, AggregationRequest(iter_start=start), client)


def _order(workers: Workers, watch: Keeper, count: int) -> list[str]:
    """Ids of the jobs that one worker does, one after the other."""
    done = []
    for _ in range(count):
        job = Job.objects.filter(state=JobState.QUEUED).exclude(task_id="").get()
        workers.end(workers.begin(job), DONE)
        watch.tick()
        done.append(job.id)
    return done


def test_clients_take_turns(workers: Workers, watch: Keeper) -> None:
    greedy = [_submit_for("greedy", "a", start).id for start in range(5)]
    modest = [_submit_for("modest", "a", start).id for start in range(5, 7)]
    late = _submit_for("late", "b", 0).id

    assert _order(workers, watch, 8) == [
        greedy[0], modest[0], late, greedy[1], modest[1], greedy[2], greedy[3], greedy[4],
    ]  # fmt: skip


def test_the_profiles_of_a_client_take_turns(workers: Workers, watch: Keeper) -> None:
    one = [_submit_for("me", "a", start).id for start in range(3)]
    two = [_submit_for("me", "b", start).id for start in range(2)]

    assert _order(workers, watch, 5) == [one[0], two[0], one[1], two[1], one[2]]


def test_many_profiles_do_not_give_a_client_more_turns(workers: Workers, watch: Keeper) -> None:
    many = [_submit_for("many", f"p{number}", 0).id for number in range(4)]
    few = [_submit_for("few", "q", start).id for start in range(1, 3)]

    assert _order(workers, watch, 4) == [many[0], few[0], many[1], few[1]]


def test_a_client_with_a_running_job_comes_after_one_without(
    workers: Workers, watch: Keeper
) -> None:
    first, second = (_submit_for("busy", profile, 0) for profile in ("a", "b"))
    other = _submit_for("idle", "c", 9)
    workers.begin(first)
    watch.tick()

    assert workers.sent == [first.id, other.id]
    assert service.find(second.id).state == "queued"


def test_one_job_of_a_database_runs_at_a_time(
    workers: Workers, watch: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLPROF_BROKER_URL", "redis://127.0.0.1:1/0")
    first, second = (_submit_for("me", "a", start) for start in range(2))
    task_id = workers.begin(first)
    watch.tick()
    while_it_runs = list(workers.sent)
    workers.end(task_id, DONE)
    watch.tick()

    assert while_it_runs == [first.id]
    assert workers.sent == [first.id, second.id]


def test_as_many_jobs_are_sent_as_workers_are_free(workers: Workers, watch: Keeper) -> None:
    for number in range(3):
        now = timezone.now()
        SeenWorker.objects.create(id=str(number), host="h", pid=number, seen_at=now)

    jobs = [_submit_for("me", profile, 0) for profile in "abcde"]

    assert workers.sent == [job.id for job in jobs[:3]]
    workers.begin(jobs[0])
    watch.tick()
    assert workers.sent == [job.id for job in jobs[:3]]


def test_more_jobs_than_may_wait_are_refused(settings: LazySettings) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, max_queued_jobs=2)
    _submit(iter_start=1)
    first = _submit(iter_start=2)

    with pytest.raises(ViewerError, match="2 jobs wait already"):
        _submit(iter_start=3)
    assert _submit(iter_start=2).id == first.id


def test_history_is_kept_up_to_a_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "KEPT_JOBS", 3)
    jobs = [_submit(iter_start=start) for start in range(6)]
    Job.objects.exclude(pk=jobs[0].id).update(state=JobState.DONE)

    service.prune()

    kept = set(Job.objects.values_list("id", flat=True))
    assert kept == {jobs[0].id, *(job.id for job in jobs[3:])}


def test_the_number_of_jobs_before_a_job_is_right(workers: Workers, watch: Keeper) -> None:
    from viewer.jobs.service import jobs_before

    other = ServedProfile("other-1", Path("/nowhere/other.sqlite"))
    running = service.submit(PROFILE, AggregationRequest(key_node="R"), client="greedy")
    task_id = workers.begin(running)
    watch.tick()
    asked = [
        ("greedy", PROFILE, 6), ("modest", PROFILE, 2), ("greedy", other, 3), ("late", other, 1),
    ]  # fmt: skip
    for client, served, count in asked:
        for number in range(count):
            request = AggregationRequest(key_node=f"{client}{served.id}{number}")
            service.submit(served, request, client=client)
    waiting = Job.objects.filter(state=JobState.QUEUED)
    before = {job.id: jobs_before(job) for job in waiting}
    assert sorted(before.values()) == list(range(12))
    workers.end(task_id, DONE)
    watch.tick()

    begun = _order(workers, watch, 12)

    first = [before[job_id] for job_id in begun]
    # A job that ran when it was looked up has ended meanwhile, so its client may come earlier.
    assert max(abs(place - turn) for turn, place in enumerate(first)) <= 3
    assert first[-1] == 11


def test_first_job_has_none_before_it() -> None:
    from viewer.jobs.service import jobs_before

    assert jobs_before(_submit(iter_start=3)) == 0


def test_cancels_of_long_ago_are_forgotten_without_redis(tmp_path: Path) -> None:
    backend: Any = FolderBackend(url=f"file://{tmp_path}", app=app)
    for number, name in enumerate(("old", "new")):
        backend.set(cancel_key(name), "1")
        moment = time.time() - (100.0 if number == 0 else 0.0)
        os.utime(tmp_path / cancel_key(name).decode(), (moment, moment))
    backend.set(b"celery-task-meta-old", "{}")
    os.utime(tmp_path / "celery-task-meta-old", (0, 0))

    backend.forget_old(cancel_key(""), 50.0)

    assert backend.get(cancel_key("old")) is None
    assert backend.get(cancel_key("new")) is not None
    assert backend.get(b"celery-task-meta-old") is not None
