"""Recording a running job from the page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import JOB_LIMIT_MS, StartViewer, Viewer
from tests.cli.test_own_collector import Bench, cache  # noqa: F401 - a fixture
from tests.cli.test_standby import Job


@pytest.fixture
def job(tmp_path: Path, cache: Path) -> Iterator[Job]:  # noqa: F811 - the fixture
    pytest.importorskip("torch", reason="PyTorch is not installed")
    found = Job(Bench(tmp_path, cache))
    yield found
    found.end()


@pytest.fixture
def beside(start_viewer: StartViewer, demo_database: Path, job: Job) -> Iterator[Viewer]:
    """A viewer that has the temporary folder of the job."""
    viewer = start_viewer(demo_database, TMPDIR=str(job.temporary))
    yield viewer
    viewer.stop()


def test_a_running_job_is_recorded_and_opened(
    page: Page, beside: Viewer, job: Job, find_violations: Callable[[Page], list[str]]
) -> None:
    page.goto(beside.address())
    page.get_by_role("button", name="Profiles", exact=True).click()
    jobs = page.get_by_role("region", name="Running jobs").get_by_role("listitem")
    expect(jobs).to_have_count(1)
    expect(jobs).to_contain_text("train.py")
    assert find_violations(page) == []
    jobs.get_by_role("button", name="Record now").click()
    opened = page.get_by_role("link", name="train.py")
    expect(opened).to_be_visible(timeout=JOB_LIMIT_MS)
    opened.click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    _, made = beside.get("profiles/")["results"]
    expect(page).to_have_url(re.compile(f"profile={made['id']}"))
    assert job.process.poll() is None
