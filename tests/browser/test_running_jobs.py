"""Windows of jobs that stand by, from the click or the request to the profile."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import JOB_LIMIT_MS, MANIFEST
from tests.cli.test_own_collector import Bench, cache  # noqa: F401 - a fixture
from tests.cli.test_standby import Job, wait_for
from tests.jobs.running import RunningViewer, environment, running

# Tests with a browser run one after the other: so all of these do, with one job.
pytestmark = pytest.mark.usefixtures("browser_name")


@dataclass
class Side:
    """A viewer, and a job that stands by on its machine."""

    viewer: RunningViewer
    job: Job

    def record(self, **more: object) -> dict[str, object]:
        body = {"process": self.job.process.pid, "steps": 5, **more}
        found: dict[str, object] = self.viewer.post("running-jobs/", body)
        return found


@pytest.fixture(scope="module")
def side(
    tmp_path_factory: pytest.TempPathFactory,
    cache: Path,  # noqa: F811 - the fixture
) -> Iterator[Side]:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    job = Job(Bench(tmp_path_factory.mktemp("job"), cache))
    folder = tmp_path_factory.mktemp("viewer")
    env = environment(folder / "state") | {"TMPDIR": str(job.temporary)}
    with running([folder], env) as viewer:
        yield Side(viewer, job)
    job.end()


def test_a_running_job_is_listed_recorded_and_opened(side: Side) -> None:
    listed = side.viewer.get("running-jobs/")
    assert listed["reason"] is None
    ((found),) = listed["results"]
    assert (found["process"], found["processes"]) == (side.job.process.pid, 1)
    assert found["command"].endswith("train.py")
    job = side.record()
    assert (job["kind"], job["state"] in {"queued", "running"}) == ("import", True)
    done = side.viewer.wait_for_end(job)
    assert done["state"] == "done", done
    (profile,) = side.viewer.get("profiles/")["results"]
    assert profile["id"] == done["result_profile_id"]
    assert "train.py" in profile["name"]
    with closing(sqlite3.connect(profile["path"])) as connection:
        assert connection.execute("SELECT count(*) FROM kernels").fetchone() == (10,)
    # Neither the records nor the export stay beside the profile.
    assert [path.name for path in Path(profile["path"]).parent.iterdir()] == [profile["file_name"]]


@pytest.mark.skipif(not MANIFEST.is_file(), reason="the page is not built: make frontend")
def test_the_page_records_a_running_job_and_opens_the_profile(
    page: Page, side: Side, find_violations: Callable[[Page], list[str]]
) -> None:
    before = {row["id"] for row in side.viewer.get("profiles/")["results"]}
    page.goto(side.viewer.url)
    page.get_by_role("button", name="Profiles", exact=True).click()
    jobs = page.get_by_role("region", name="Running jobs").get_by_role("listitem")
    expect(jobs).to_have_count(1)
    expect(jobs).to_contain_text("train.py")
    assert find_violations(page) == []
    links = page.get_by_role("link", name="train.py")
    expect(links).to_have_count(len(before))
    jobs.get_by_role("button", name="Record now").click()
    expect(links).to_have_count(len(before) + 1, timeout=JOB_LIMIT_MS)
    (made,) = {row["id"] for row in side.viewer.get("profiles/")["results"]} - before
    page.locator(f"a[href*='profile={made}']").first.click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page).to_have_url(re.compile(f"profile={made}"))
    assert side.job.process.poll() is None


def test_a_window_that_is_cancelled_is_withdrawn(side: Side) -> None:
    (side.job.folder / "pause").touch()
    job = side.record()
    wait_for(lambda: list(side.job.temporary.glob("*/request.json")))
    side.viewer.post(f"jobs/{job['id']}/cancel/")
    done = side.viewer.wait_for_end(job)
    assert done["state"] == "cancelled", done
    # The row says so before the worker has stopped.
    wait_for(lambda: not list(side.job.temporary.glob("*/request.json")))
    (side.job.folder / "pause").unlink()
    again = side.viewer.wait_for_end(side.viewer.post(f"jobs/{job['id']}/retry/"))
    assert again["state"] == "done", again


def test_what_does_not_stand_by_is_refused(side: Side) -> None:
    assert "does not stand by" in str(side.record(process=1)["error"])
