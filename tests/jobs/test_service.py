"""The rules of jobs, without a broker or a worker."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.utils import timezone

from aggregator.errors import JSONValue
from aggregator.jobs import ClaimedJob, Outcome, Snapshot
from aggregator.leftovers import process_scope
from aggregator.options import AggregationRequest
from aggregator.remote_jobs import BrokerAwayError
from viewer.errors import JobNotFoundError, JobStateError, TooManyJobsError
from viewer.jobs import service
from viewer.jobs.models import Job, JobState
from viewer.jobs.recorder import DatabaseRecorder
from viewer.jobs.words import presented_error
from viewer.profiles.registry import ServedProfile

pytestmark = pytest.mark.django_db(transaction=True)

PROFILE = ServedProfile("demo-1", Path("/nowhere/demo.sqlite"))
SNAPSHOT = Snapshot("aggregate", 42.0, 1000.0, 3.0, "Aggregating profile data")


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids given to the broker."""
    ids: list[str] = []

    def send(job_id: str) -> str:
        ids.append(job_id)
        return ""

    monkeypatch.setattr(service, "send", send)
    monkeypatch.setattr(service, "count_waiting", lambda: 0)
    return ids


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> DatabaseRecorder:
    monkeypatch.setattr("viewer.jobs.recorder.prepare_state", lambda: None)
    return DatabaseRecorder()


@pytest.fixture
def dead_pid() -> int:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return pid


def _submit(**request: object) -> Job:
    return service.submit(PROFILE, AggregationRequest(**request))  # type: ignore[arg-type]


def _claimed(recorder: DatabaseRecorder, job: Job) -> ClaimedJob:
    claimed = recorder.claim(job.id)
    assert claimed is not None
    return claimed


def test_a_job_is_queued_and_sent(sent: list[str]) -> None:
    job = _submit(iter_start=3)

    assert (job.state, job.iter_start, job.iter_stop, job.key_node) == ("queued", 3, None, "")
    assert sent == [job.id]


def test_the_same_request_while_one_is_under_way_gives_that_job(
    recorder: DatabaseRecorder, sent: list[str]
) -> None:
    job = _submit(iter_start=3)

    assert _submit(iter_start=3).id == job.id
    _claimed(recorder, job)
    assert _submit(iter_start=3).id == job.id
    assert _submit(iter_start=4).id != job.id
    assert len(sent) == 2


def test_a_job_whose_broker_is_away_waits_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "send", lambda job_id: "connection refused")

    job = _submit()

    assert job.state == "queued"
    assert job.message == "Waiting for the broker: connection refused"


def test_only_one_worker_gets_a_job(recorder: DatabaseRecorder) -> None:
    job = _submit(key_node="CONV2D_1", iter_stop=9)

    claimed = _claimed(recorder, job)

    assert recorder.claim(job.id) is None
    assert claimed.request == AggregationRequest("CONV2D_1", None, 9)
    assert claimed.database == PROFILE.path


def test_progress_is_written_and_the_end_is_kept(recorder: DatabaseRecorder) -> None:
    job = _submit()
    claimed = _claimed(recorder, job)

    assert recorder.beat(claimed, SNAPSHOT)
    running = service.find(job.id)
    recorder.finish(claimed, Outcome(7, Path("/nowhere/demo.open.sqlite"), ""))
    done = service.find(job.id)

    assert (running.state, running.phase, running.progress_pct) == ("running", "aggregate", 42.0)
    assert (running.rows_per_s, running.eta_s) == (1000.0, 3.0)
    assert (done.state, done.aggregation_id, done.progress_pct) == ("done", 7, 100.0)
    assert done.finished_at is not None


def test_a_failure_keeps_its_reason(recorder: DatabaseRecorder) -> None:
    job = _submit()
    error: dict[str, JSONValue] = {
        "code": "KEY_NODE_NOT_FOUND",
        "message": "No such op.",
        "hint": "",
        "details": {},
    }

    recorder.fail(_claimed(recorder, job), error)

    failed = service.find(job.id)
    assert (failed.state, presented_error(failed.error)) == ("failed", error)


def test_a_waiting_job_is_cancelled_at_once(recorder: DatabaseRecorder) -> None:
    job = _submit()

    assert service.cancel(job.id).state == "cancelled"
    assert recorder.claim(job.id) is None


def test_a_running_job_is_told_to_stop_by_its_next_beat(recorder: DatabaseRecorder) -> None:
    job = _submit()
    claimed = _claimed(recorder, job)

    asked = service.cancel(job.id)
    heard = recorder.beat(claimed, SNAPSHOT)
    recorder.cancel(claimed)

    assert (asked.state, asked.cancel_requested, asked.message) == ("running", True, "Cancelling.")
    assert not heard
    assert service.find(job.id).state == "cancelled"


@pytest.mark.parametrize("state", ["done", "failed", "cancelled"])
def test_what_has_ended_cannot_be_cancelled(state: str) -> None:
    job = _submit()
    Job.objects.filter(pk=job.id).update(state=state)

    with pytest.raises(JobStateError, match=state):
        service.cancel(job.id)


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_what_has_failed_can_be_tried_again(
    recorder: DatabaseRecorder, sent: list[str], state: str
) -> None:
    job = _submit()
    Job.objects.filter(pk=job.id).update(
        state=state, error={"code": "X"}, cancel_requested=True, attempts=2, progress_pct=50
    )

    again = service.retry(job.id)

    assert (again.state, again.error, again.cancel_requested) == ("queued", None, False)
    assert (again.attempts, again.progress_pct) == (0, 0)
    assert sent == [job.id, job.id]
    assert recorder.claim(job.id) is not None


@pytest.mark.parametrize("state", ["queued", "running", "done"])
def test_nothing_else_can_be_tried_again(state: str) -> None:
    job = _submit()
    Job.objects.filter(pk=job.id).update(state=state)

    with pytest.raises(JobStateError, match=state):
        service.retry(job.id)


def test_a_job_that_does_not_exist() -> None:
    for ask in (service.find, service.cancel, service.retry):
        with pytest.raises(JobNotFoundError):
            ask("nope")


def test_the_job_of_a_dead_worker_is_queued_again_once(
    recorder: DatabaseRecorder, sent: list[str], dead_pid: int
) -> None:
    job = _submit()
    _claimed(recorder, job)
    Job.objects.filter(pk=job.id).update(worker_pid=dead_pid)

    service.recover(process_scope())

    again = service.find(job.id)
    assert (again.state, again.attempts, again.claim) == ("queued", 1, "")
    assert sent == [job.id, job.id]


def test_a_job_that_kills_its_workers_fails_with_a_reason(
    recorder: DatabaseRecorder, dead_pid: int
) -> None:
    job = _submit()
    for _ in range(service.MAX_ATTEMPTS):
        _claimed(recorder, job)
        Job.objects.filter(pk=job.id).update(worker_pid=dead_pid)
        service.recover(process_scope())

    failed = service.find(job.id)
    assert failed.state == "failed"
    assert failed.error is not None
    assert failed.error["code"] == "WORKER_LOST"
    assert str(dead_pid) in failed.error["message"]


def test_a_cancelled_job_of_a_dead_worker_is_cancelled(
    recorder: DatabaseRecorder, dead_pid: int
) -> None:
    job = _submit()
    _claimed(recorder, job)
    service.cancel(job.id)
    Job.objects.filter(pk=job.id).update(worker_pid=dead_pid)

    service.recover(process_scope())

    assert service.find(job.id).state == "cancelled"


def test_a_worker_elsewhere_is_known_by_its_heartbeat(recorder: DatabaseRecorder) -> None:
    job = _submit()
    _claimed(recorder, job)
    Job.objects.filter(pk=job.id).update(worker_scope="elsewhere", worker_pid=1)

    service.recover(process_scope())
    alive = service.find(job.id).state
    late = timezone.now() - service.HEARTBEAT_LIMIT - timedelta(seconds=1)
    Job.objects.filter(pk=job.id).update(heartbeat_at=late)
    service.recover(process_scope())

    assert alive == "running"
    assert service.find(job.id).state == "queued"


def test_a_worker_that_lost_its_claim_writes_nothing_more(recorder: DatabaseRecorder) -> None:
    job = _submit()
    slow = _claimed(recorder, job)
    Job.objects.filter(pk=job.id).update(state=JobState.QUEUED, claim="")
    quick = _claimed(recorder, job)

    assert not recorder.beat(slow, SNAPSHOT)
    recorder.finish(slow, Outcome(5, PROFILE.path, ""))
    recorder.fail(slow, {})
    recorder.cancel(slow)

    found = service.find(job.id)
    assert (found.state, found.claim, found.aggregation_id) == ("running", quick.claim, None)


def test_a_worker_that_has_to_end_gives_its_job_back(
    recorder: DatabaseRecorder, sent: list[str]
) -> None:
    job = _submit()

    recorder.release(_claimed(recorder, job))

    back = service.find(job.id)
    assert (back.state, back.attempts, back.sent_at) == ("queued", 0, None)
    service.top_up()
    assert sent == [job.id, job.id]


def test_messages_that_got_lost_are_sent_again(
    sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [_submit(iter_start=start) for start in range(3)]
    sent.clear()
    monkeypatch.setattr(service, "count_waiting", lambda: 1)

    service.top_up()

    assert sent == [jobs[0].id, jobs[1].id]


def test_messages_that_are_all_there_are_not_sent_again(
    sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _submit()
    sent.clear()
    monkeypatch.setattr(service, "count_waiting", lambda: 7)

    assert service.top_up() == ""

    assert sent == []


def test_while_the_broker_is_away_jobs_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    job = _submit()

    def count_waiting() -> int:
        raise BrokerAwayError("connection refused")

    monkeypatch.setattr(service, "count_waiting", count_waiting)
    service.top_up()
    away = service.find(job.id).message
    monkeypatch.setattr(service, "count_waiting", lambda: 0)
    service.top_up()

    assert away == "Waiting for the broker: connection refused"
    assert service.find(job.id).message == ""


def test_a_worker_that_starts_has_everything_sent_anew(
    recorder: DatabaseRecorder, sent: list[str], dead_pid: int
) -> None:
    lost, waiting = _submit(), _submit(iter_start=1)
    _claimed(recorder, lost)
    Job.objects.filter(pk=lost.id).update(worker_pid=dead_pid)
    sent.clear()

    recorder.worker_started()

    assert set(sent) == {lost.id, waiting.id}


# --- turns ----------------------------------------------------------------------------------------


def _submit_for(client: str, profile: str, start: int) -> Job:
    served = ServedProfile(profile, Path(f"/nowhere/{profile}.sqlite"))
    return service.submit(served, AggregationRequest(iter_start=start), client)


def _order(recorder: DatabaseRecorder, count: int) -> list[str]:
    """Ids of the jobs that one worker does, one after the other."""
    done = []
    for _ in range(count):
        claimed = recorder.claim("token")
        assert claimed is not None
        recorder.finish(claimed, Outcome(1, claimed.database, ""))
        done.append(claimed.job_id)
    return done


def test_clients_take_turns(recorder: DatabaseRecorder) -> None:
    greedy = [_submit_for("greedy", "a", start).id for start in range(5)]
    modest = [_submit_for("modest", "a", start).id for start in range(5, 7)]
    late = _submit_for("late", "b", 0).id

    order = _order(recorder, 8)

    assert order == [
        greedy[0], modest[0], late, greedy[1], modest[1], greedy[2], greedy[3], greedy[4],
    ]  # fmt: skip


def test_the_profiles_of_a_client_take_turns(recorder: DatabaseRecorder) -> None:
    one = [_submit_for("me", "a", start).id for start in range(3)]
    two = [_submit_for("me", "b", start).id for start in range(2)]

    assert _order(recorder, 5) == [one[0], two[0], one[1], two[1], one[2]]


def test_many_profiles_do_not_give_a_client_more_turns(recorder: DatabaseRecorder) -> None:
    many = [_submit_for("many", f"p{number}", 0).id for number in range(4)]
    few = [_submit_for("few", "p0", start).id for start in range(1, 3)]

    assert _order(recorder, 4) == [many[0], few[0], many[1], few[1]]


def test_whoever_has_a_job_running_comes_after_whoever_has_none(
    recorder: DatabaseRecorder,
) -> None:
    first, second = (_submit_for("busy", "a", start) for start in range(2))
    assert recorder.claim("token") is not None
    other = _submit_for("idle", "a", 9)

    claimed = recorder.claim("token")

    assert claimed is not None
    assert claimed.job_id == other.id
    assert {service.find(first.id).state, service.find(second.id).state} == {"running", "queued"}


def test_more_jobs_than_may_wait_are_refused(settings: LazySettings) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, max_queued_jobs=2)
    _submit(iter_start=1)
    first = _submit(iter_start=2)

    with pytest.raises(TooManyJobsError, match="2 jobs wait already"):
        _submit(iter_start=3)
    assert _submit(iter_start=2).id == first.id


def test_history_is_kept_up_to_a_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "KEPT_JOBS", 3)
    jobs = [_submit(iter_start=start) for start in range(6)]
    Job.objects.exclude(pk=jobs[0].id).update(state=JobState.DONE)

    service.prune()

    kept = set(Job.objects.values_list("id", flat=True))
    assert kept == {jobs[0].id, *(job.id for job in jobs[3:])}


def test_how_many_begin_before_a_job_is_what_then_happens(recorder: DatabaseRecorder) -> None:
    from viewer.jobs.turns import jobs_before

    other = ServedProfile("other-1", Path("/nowhere/other.sqlite"))
    running = service.submit(PROFILE, AggregationRequest(key_node="R"), client="greedy")
    assert recorder.claim("") is not None
    asked = [
        ("greedy", PROFILE, 6), ("modest", PROFILE, 2), ("greedy", other, 3), ("late", other, 1),
    ]  # fmt: skip
    for client, served, count in asked:
        for number in range(count):
            request = AggregationRequest(key_node=f"{client}{served.id}{number}")
            service.submit(served, request, client=client)
    waiting = Job.objects.filter(state=JobState.QUEUED)
    told = {job.id: jobs_before(job) for job in waiting}
    assert sorted(told.values()) == list(range(12))
    Job.objects.filter(pk=running.id).update(state=JobState.DONE)

    begun = []
    while (claimed := recorder.claim("")) is not None:
        begun.append(claimed.job_id)
        # Done at once, as with one worker.
        recorder.finish(claimed, Outcome(1, Path("/nowhere/demo.sqlite"), ""))

    first = [told[job_id] for job_id in begun]
    # A job that ran when it was looked up has ended meanwhile, so its client may come earlier.
    assert max(abs(place - turn) for turn, place in enumerate(first)) <= 2
    assert first[-1] == 11


def test_a_job_that_nobody_is_before(recorder: DatabaseRecorder) -> None:
    from viewer.jobs.turns import jobs_before

    assert jobs_before(_submit(iter_start=3)) == 0
