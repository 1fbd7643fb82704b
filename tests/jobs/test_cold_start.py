"""The first seconds: many ask at once, before anything that talks to the broker has been loaded."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.jobs.running import WAIT_LIMIT_S, RunningViewer, environment, running
from tests.jobs.services import holding

pytestmark = pytest.mark.jobs
PEOPLE = 24


def _status(viewer: RunningViewer, method: str, path: str, body: object = None) -> tuple[int, str]:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    asked = Request(f"{viewer.url}{path}", data, headers, method=method)
    try:
        with urlopen(asked, timeout=WAIT_LIMIT_S) as response:
            return response.status, ""
    except HTTPError as error:
        return error.code, error.read().decode(errors="replace")


def test_no_reply_reveals_an_internal_error(database: Path, tmp_path: Path) -> None:
    env = environment(tmp_path / "state")
    # A job that ended before all have asked would be begun again by those who ask later.
    hold = tmp_path / "hold"
    hold.touch()
    env = holding(tmp_path, env, hold)
    with running([database], env) as viewer, ThreadPoolExecutor(PEOPLE) as pool:
        profile = f"/api/v1/profiles/{viewer.profile_id()}/"

        def person(number: int) -> list[tuple[int, str]]:
            return [
                _status(viewer, "POST", f"{profile}aggregations/", {"iter_start": number % 15}),
                _status(viewer, "GET", "/healthz?deep=1"),
                _status(viewer, "GET", "/api/v1/jobs/"),
                _status(viewer, "GET", "/metrics"),
                _status(viewer, "GET", f"{profile}aggregations/1/ops/"),
            ]

        answers = [answer for answers in pool.map(person, range(PEOPLE)) for answer in answers]

        assert {status for status, _ in answers} <= {200, 202, 503}, answers
        # The health check may say that there is no worker yet.
        assert all('"degraded"' in text for status, text in answers if status == 503), answers
        assert viewer.get("jobs/")["count"] == 15
