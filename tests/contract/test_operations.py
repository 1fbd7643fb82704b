"""Operators get health, metrics, logs and a path prefix."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from aggregator.system.log_lines import JsonFormatter
from tests.contract.client import ApiClient
from viewer.environment import Environment
from viewer.jobs.dispatch import BrokerAwayError
from viewer.state.models import Job, SeenWorker

TOKEN = "a-token-that-is-hard-to-guess"


def test_health_is_quick_and_says_nothing_of_the_service(api: ApiClient) -> None:
    assert api.get("/healthz").json == {"status": "ok"}


def _worker_is_seen() -> None:
    values = {"host": "here", "pid": 1, "seen_at": timezone.now()}
    SeenWorker.objects.update_or_create(id="1@here", defaults=values)


def test_deep_health_reports_state_broker_and_worker(api: ApiClient) -> None:
    _worker_is_seen()

    reply = api.get("/healthz", deep=1)

    assert reply.status == 200
    assert reply.json == {"status": "ok", "state": "ok", "broker": "ok", "worker": "idle"}


def test_a_service_without_a_worker_is_sick(api: ApiClient) -> None:
    assert api.get("/healthz", deep=1).json["worker"] == "none"
    _worker_is_seen()
    SeenWorker.objects.update(seen_at=timezone.now() - timedelta(minutes=1))
    assert api.get("/healthz", deep=1).json["worker"] == "none"
    _worker_is_seen()
    assert api.get("/healthz", deep=1).json["worker"] == "idle"
    SeenWorker.objects.all().delete()
    assert api.get("/healthz", deep=1).status == 503


def test_a_job_whose_worker_fell_silent_does_not_count_as_busy(api: ApiClient) -> None:
    now = timezone.now()
    job = Job.objects.create(profile_id="x", database="x", state="running", heartbeat_at=now)
    assert api.get("/healthz", deep=1).json["worker"] == "busy"
    Job.objects.filter(pk=job.id).update(heartbeat_at=now - timedelta(seconds=20))
    assert api.get("/healthz", deep=1).json["worker"] == "none"


def test_jobs_that_no_worker_begins_are_a_sick_service(api: ApiClient) -> None:
    Job.objects.create(profile_id="x", database="x", sent_at=timezone.now() - timedelta(hours=1))

    reply = api.get("/healthz", deep=1)

    assert (reply.status, reply.json["worker"]) == (503, "silent")


def test_a_broker_that_is_away_is_a_sick_service(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count_waiting() -> int:
        raise BrokerAwayError("connection refused")

    monkeypatch.setattr("viewer.jobs.dispatch.count_waiting", count_waiting)

    reply = api.get("/healthz", deep=1)

    assert (reply.status, reply.json["broker"]) == (503, "unavailable: connection refused")


def test_strangers_get_the_plain_answer_only(settings: LazySettings) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, bind="0.0.0.0", token=TOKEN)
    stranger = Client(headers={"host": "localhost"}, REMOTE_ADDR="192.0.2.7")

    assert stranger.get("/healthz", {"deep": "1"}).json() == {"status": "ok"}
    known = stranger.get("/healthz", {"deep": "1"}, headers={"authorization": f"Bearer {TOKEN}"})
    assert "worker" in known.json()


def test_metrics_show_the_room_before_the_first_upload(
    api: ApiClient, settings: LazySettings, tmp_path: Path
) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, upload_dir=tmp_path / "new" / "profiles")

    text = api.get("/metrics").body.decode()

    assert 'dlprof_storage_bytes{what="used"} 0.0' in text
    assert re.search(r'dlprof_storage_bytes{what="free"} [1-9]', text)


def test_metrics_count_jobs_and_requests(api: ApiClient) -> None:
    Job.objects.create(profile_id="x", database="x")
    api.get("/api/v1/profiles/")

    reply = api.get("/metrics")
    families = {family.name: family for family in text_string_to_metric_families(
        reply.body.decode())}  # fmt: skip

    queued = [
        sample.value
        for sample in families["dlprof_jobs"].samples
        if sample.labels == {"kind": "aggregation", "state": "queued"}
    ]
    assert queued == [1.0]
    assert any(sample.value >= 1 for sample in families["dlprof_requests"].samples)
    areas = {sample.labels.get("area") for sample in families["dlprof_request_seconds"].samples}
    assert "/api/v1/profiles" in areas


def test_a_log_line_is_one_json_object() -> None:
    record = logging.LogRecord("a.b", logging.ERROR, "x.py", 1, "two\nlines %s", ("here",), None)

    line = JsonFormatter().format(record)

    assert "\n" not in line
    entry = json.loads(line)
    assert (entry["level"], entry["logger"], entry["message"]) == (
        "ERROR",
        "a.b",
        "two\nlines here",
    )


@pytest.mark.parametrize("raw", ["dlprof", "/dlprof", "/dlprof/", "dlprof/"])
def test_a_prefix_is_written_in_any_way(raw: str) -> None:
    assert Environment.read({"DLPROF_URL_PREFIX": raw}).url_prefix == "/dlprof"


@pytest.mark.parametrize("raw", ["/a/../b", "http://x", "a b", "<x>"])
def test_a_prefix_that_is_no_path_is_refused(raw: str) -> None:
    with pytest.raises(ValueError, match="DLPROF_URL_PREFIX"):
        Environment.read({"DLPROF_URL_PREFIX": raw})


@pytest.mark.parametrize(
    ("path", "seen"),
    [("/dlprof/api/v1/", "/api/v1/"), ("/api/v1/", "/api/v1/"), ("/dlprof", "/"),
     ("/dlprofs", "/dlprofs")],
)  # fmt: skip
def test_a_proxy_may_cut_the_prefix_or_leave_it(path: str, seen: str) -> None:
    # Its import prepares the state, which the test database stands for.
    from viewer.wsgi import below_prefix

    asked: list[dict[str, Any]] = []

    def application(environ: dict[str, Any], start: Callable[..., Any]) -> list[bytes]:
        asked.append(environ)
        return []

    below_prefix(application, "/dlprof")({"PATH_INFO": path}, lambda *_: None)

    assert (asked[0]["PATH_INFO"], asked[0]["SCRIPT_NAME"]) == (seen, "/dlprof")


def test_the_environment_is_documented() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "deploy.md").read_text()
    source = (Path(__file__).resolve().parents[2] / "viewer" / "settings.py").read_text()
    import re

    names = set(re.findall(r'"(DLPROF_[A-Z_]+)"', source))
    assert {name for name in names if name not in text} == set()
