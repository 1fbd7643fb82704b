"""While an aggregation is made: the page stays usable, and the job can be cancelled."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import JOB_LIMIT_MS, REPOSITORY, StartViewer, Viewer
from tests.browser.test_iterations import open_chart
from tests.browser.test_tables import ops_table, rows

HELD_ENGINE = REPOSITORY / "tests/jobs/held_engine.py"
SELECTED_OP = re.compile(r"[?&]op=\w+")


@pytest.fixture
def hold(tmp_path: Path) -> Path:
    """While this file is there, aggregations wait."""
    file = tmp_path / "hold"
    file.touch()
    return file


@pytest.fixture
def held_viewer(
    start_viewer: StartViewer,
    demo_database: Path,
    tmp_path: Path,
    hold: Path,
    after_page: ExitStack,
) -> Viewer:
    shutil.copyfile(HELD_ENGINE, tmp_path / "sitecustomize.py")
    database = tmp_path / "dlprof_dldb.sqlite"
    shutil.copyfile(demo_database, database)
    path = os.pathsep.join([str(tmp_path), str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
    viewer = start_viewer(database, DLPROF_TEST_HOLD=str(hold), PYTHONPATH=path)
    after_page.callback(viewer.stop)
    after_page.callback(hold.unlink, missing_ok=True)
    return viewer


def reaggregate(page: Page, viewer: Viewer, **query: str) -> Locator:
    """Asks for the iterations 4 to 18; the panel of the job."""
    open_chart(page, viewer, start=4, stop=18, **query)
    page.get_by_role("button", name="Reaggregate", exact=True).click()
    panel = page.get_by_role("region", name="Re-aggregation", exact=True)
    expect(panel.get_by_role("heading", name="Underway!")).to_be_visible()
    return panel


def test_the_page_stays_usable_while_a_job_runs(
    page: Page, held_viewer: Viewer, hold: Path
) -> None:
    panel = reaggregate(page, held_viewer)
    page.get_by_role("link", name="Ops and kernels").click()
    table = ops_table(page)
    expect(rows(table).first).to_be_visible()
    table.get_by_role("columnheader", name=re.compile("^Calls")).get_by_role("button").click()
    expect(page).to_have_url(re.compile("ops.sort=-num_calls"))
    page.get_by_role("region", name="Ops", exact=True).get_by_role(
        "button", name="Next page"
    ).click()
    expect(rows(table).first).to_have_attribute("aria-rowindex", "51")
    rows(table).nth(1).click()
    expect(rows(table).nth(1)).to_have_attribute("aria-selected", "true")
    expect(page).to_have_url(SELECTED_OP)
    bookmark = page.url
    expect(panel.get_by_role("heading", name="Underway!")).to_be_visible()
    page.go_back()
    expect(page).not_to_have_url(SELECTED_OP)
    expect(rows(table).first).to_have_attribute("aria-rowindex", "51")
    page.go_back()
    expect(rows(table).first).to_have_attribute("aria-rowindex", "1")
    page.reload()
    expect(page).to_have_url(re.compile("ops.sort=-num_calls"))
    expect(panel.get_by_role("heading", name="Underway!")).to_be_visible()
    other = page.context.new_page()
    other.goto(bookmark)
    expect(rows(ops_table(other)).first).to_have_attribute("aria-rowindex", "51")
    expect(rows(ops_table(other)).nth(1)).to_have_attribute("aria-selected", "true")
    other.close()
    hold.unlink()
    expect(panel.get_by_role("heading", name="Success!")).to_be_visible(timeout=JOB_LIMIT_MS)
    # The aggregation that was open is still the one that is shown.
    expect(page).to_have_url(re.compile("aggregation=1"))
    expect(page).to_have_url(re.compile("ops.sort=-num_calls"))


def test_an_aggregation_is_named_preferred_and_deleted_while_a_job_runs(
    page: Page, held_viewer: Viewer, hold: Path
) -> None:
    panel = reaggregate(page, held_viewer)
    page.get_by_role("button", name="Manage", exact=True).click()
    dialog = page.get_by_role("dialog", name="Aggregations")
    rows = dialog.get_by_role("listitem")
    expect(rows).to_have_count(2)
    selector = page.get_by_role("combobox", name="Aggregation", exact=True)
    dialog.get_by_role("textbox", name="Name of aggregation #2").fill("after warm-up")
    expect(selector.locator("option", has_text="after warm-up")).to_have_count(1)
    dialog.get_by_role("button", name="open the profile with aggregation #1").click()
    expect(
        dialog.get_by_role("button", name="The profile opens with aggregation #1")
    ).to_be_visible()

    # Two interactions: the dialog was the first.
    dialog.get_by_role("button", name="Delete aggregation #2").click()

    expect(rows).to_have_count(1)
    expect(dialog.get_by_role("status")).to_contain_text("Aggregation #2 was deleted")
    expect(page).to_have_url(re.compile("aggregation=1"))
    expect(dialog.get_by_role("button", name="Delete aggregation #1")).to_be_disabled()
    hold.unlink()
    expect(rows).to_have_count(2, timeout=JOB_LIMIT_MS)
    dialog.get_by_role("button", name="Close").click()
    expect(panel.get_by_role("heading", name="Success!")).to_be_visible(timeout=JOB_LIMIT_MS)
    # The default, not the newest.
    page.goto(held_viewer.url)
    expect(page).to_have_url(re.compile("aggregation=1"))
    expect(selector.locator("option")).to_have_count(2)
    expect(selector.locator("option", has_text="#3")).to_have_count(1)
