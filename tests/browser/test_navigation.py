"""Every view of the guide is found in the navigation, by its name, and by its address."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import Viewer, settled
from tests.browser.test_views import WORK_TABS

GROUPS = ("Overview", "Time", "Work", "Resources", "Runs")
#: Selected and unselected controls of each kind.
CHOICES = (
    (".nav-link[aria-current]", ".nav-link:not([aria-current])"),
    (".tab[aria-current]", ".tab:not([aria-current])"),
    (".segmented [aria-pressed=true]", ".segmented [aria-pressed=false]"),
)


def test_places_have_groups_tabs_and_a_way_to_reaggregate(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address(view="ops"))
    views = page.get_by_role("navigation", name="Views")
    for group in GROUPS:
        expect(views.get_by_role("group", name=group)).to_be_visible()
    assert 7 <= views.get_by_role("link").count() <= 9
    # A run of one process has no ranks, and without a recording there is no memory.
    for name, count in (("GPUs", 1), ("Ranks", 0), ("Timeline", 1), ("Memory", 0)):
        expect(views.get_by_role("link").filter(has_text=name)).to_have_count(count)
    tabs = page.get_by_role("navigation", name="Ops and kernels")
    for view, title in WORK_TABS.items():
        tabs.get_by_role("link", name=title, exact=True).click()
        expect(page).to_have_url(re.compile(rf"view={view}\b"))
    page.get_by_role("banner").get_by_role("button", name="Reaggregate").click()
    expect(page.get_by_role("heading", level=1, name="Iterations")).to_be_attached()
    expect(page.get_by_role("spinbutton", name="Select iteration start")).to_be_visible()


def test_forced_colors_distinguish_the_chosen_control(page: Page, viewer: Viewer) -> None:
    page.emulate_media(forced_colors="active")
    page.goto(viewer.address(view="ops"))
    settled(page)
    look = "(one) => { const s = getComputedStyle(one); return [s.backgroundColor, s.color]; }"
    for chosen, other in CHOICES:
        background, text = page.locator(chosen).first.evaluate(look)
        other_background, other_text = page.locator(other).first.evaluate(look)
        assert background != other_background, chosen
        assert text != other_text, chosen
