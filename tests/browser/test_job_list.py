"""The list of all jobs, and what a page shows of other users' jobs."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.conftest import JOB_LIMIT_MS, Viewer
from tests.browser.test_iterations import open_chart
from tests.browser.test_jobs import held_viewer, hold, reaggregate

__all__ = ["held_viewer", "hold"]


def _ask(page: Page, start: int) -> None:
    """A job as another program asks for it."""
    page.evaluate(
        """async (start) => {
            const profiles = await (await fetch("/api/v1/profiles/")).json();
            const address = `/api/v1/profiles/${profiles.results[0].id}/aggregations/`;
            const reply = await fetch(address, {
                method: "POST", body: JSON.stringify({ iter_start: start }),
                headers: { "Content-Type": "application/json" },
            });
            if (reply.status !== 202) throw new Error(await reply.text());
        }""",
        start,
    )


def test_jobs_are_listed_cancelled_and_tried_again(
    page: Page, held_viewer: Viewer, hold: Path
) -> None:
    page.goto(held_viewer.address(view="dashboard"))
    expect(page.get_by_role("button", name="Jobs")).to_be_visible()
    for start in (3, 5, 7):
        _ask(page, start)
    page.get_by_role("button", name="Jobs").click()
    dialog = page.get_by_role("dialog", name="Jobs")
    jobs = dialog.get_by_role("list", name="Jobs").get_by_role("listitem")
    expect(jobs).to_have_count(3)
    expect(jobs.nth(2)).to_contain_text("Running", timeout=JOB_LIMIT_MS)
    expect(jobs.nth(0)).to_contain_text("Queued")
    expect(jobs.nth(0)).to_contain_text("Iterations 7\u2013last")
    jobs.nth(0).get_by_role("button", name="Cancel").click()
    expect(jobs.nth(0)).to_contain_text("Cancelled")
    hold.unlink()
    jobs.nth(0).get_by_role("button", name="Try again").click()
    for place in range(3):
        expect(jobs.nth(place)).to_contain_text("Done", timeout=JOB_LIMIT_MS)
    dialog.get_by_label("State").select_option("failed")
    expect(dialog.get_by_text("There are no jobs.")).to_be_visible()


def test_another_users_job_does_not_block_a_request(
    page: Page, held_viewer: Viewer, hold: Path
) -> None:
    page.goto(held_viewer.address(view="dashboard"))
    _ask(page, 3)
    open_chart(page, held_viewer, start=4, stop=18)
    panel = page.get_by_role("region", name="Re-aggregation", exact=True)
    expect(panel).to_contain_text("Iterations 3\u2013last")
    panel = reaggregate(page, held_viewer)
    expect(panel).to_contain_text("Iterations 4\u201318")
    expect(page.get_by_role("button", name="Reaggregate", exact=True)).to_be_disabled()
    page.reload()
    expect(panel).to_contain_text("Iterations 4\u201318")
    hold.unlink()
    expect(panel.get_by_role("heading", name="Success!")).to_be_visible(timeout=JOB_LIMIT_MS)
