"""The page shows a shell at once, and goes on by itself when a lost server is back."""

from __future__ import annotations

import re

from playwright.sync_api import Dialog, Page, Route, expect

from tests.browser.conftest import Viewer, Watch, settled

API = re.compile("/api/v1/|/healthz")


def test_the_page_goes_on_when_the_server_is_back(page: Page, viewer: Viewer, watch: Watch) -> None:
    watch.expect("Failed to load resource")
    page.goto(viewer.address())
    settled(page)

    page.route(API, lambda route: route.abort())
    page.get_by_role("link", name="Ops and kernels").click()

    notice = page.get_by_role("alert")
    expect(notice).to_have_count(1)
    expect(notice).to_contain_text("The viewer's server does not respond.")
    assert page.get_by_role("button", name="Try again").count() == 0

    page.unroute(API)
    expect(notice).to_have_count(0)
    expect(
        page.get_by_role("grid", name="Ops", exact=True).locator("tbody tr").first
    ).to_be_visible()


def test_the_first_html_shows_a_shell(page: Page, viewer: Viewer) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(re.compile(r"assets/.*\.js$"), hold)

    page.goto(viewer.address(), wait_until="commit")

    expect(page.get_by_role("banner")).to_contain_text("DLProf Viewer")
    expect(page.get_by_role("main").get_by_role("status", name="Loading")).to_be_attached()
    page.unroute_all(behavior="ignoreErrors")
    expect(page.get_by_role("region", name="What limits a step")).to_be_visible()


def test_the_copy_that_a_browser_refuses_is_offered_by_hand(page: Page, viewer: Viewer) -> None:
    said: list[str] = []

    def dismiss(dialog: Dialog) -> None:
        said.append(dialog.default_value)
        dialog.dismiss()

    page.on("dialog", dismiss)
    page.goto(viewer.address())
    settled(page)
    page.evaluate(
        "() => { navigator.clipboard.writeText = () => Promise.reject(new Error('refused')); }"
    )

    with page.expect_event("dialog"):
        page.get_by_role("button", name="Copy the link to this page").click()

    assert said == [page.url]
