"""Every view of the guide is found in the navigation, by its name, and by its address."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Viewer, settled
from tests.browser.test_views import HEADINGS

GROUPS = ("Overview", "Time", "Work", "Resources", "Runs")
TABS = {
    "ops": "Ops and kernels",
    "op-types": "Op type summary",
    "group-ops": "Group ops",
    "kernels-by-op": "Kernels by op",
    "kernels-by-iteration": "Kernels by iteration",
    "roofline": "Roofline",
}
#: Selected and unselected controls of each kind, in views that have them.
CHOICES = (
    ("dashboard", ".nav-link[aria-current]", ".nav-link:not([aria-current])"),
    ("ops", ".tab[aria-current]", ".tab:not([aria-current])"),
    ("iterations", ".segmented [aria-pressed=true]", ".segmented [aria-pressed=false]"),
)


def test_the_navigation_has_five_groups_with_nine_places_at_most(
    page: Page, viewer: Viewer
) -> None:
    page.goto(viewer.address())
    views = page.get_by_role("navigation", name="Views")
    for group in GROUPS:
        expect(views.get_by_role("group", name=group)).to_be_visible()
    assert 7 <= views.get_by_role("link").count() <= 9


@pytest.mark.parametrize("view", HEADINGS)
def test_each_address_marks_its_place_and_its_tab(page: Page, viewer: Viewer, view: str) -> None:
    page.goto(viewer.address(view=view))
    expect(page.get_by_role("heading", level=1, name=HEADINGS[view])).to_be_attached()
    place = "Ops and kernels" if view in TABS else HEADINGS[view]
    current = page.get_by_role("navigation", name="Views").locator("[aria-current=page]")
    expect(current).to_have_text(place)
    tabs = page.get_by_role("navigation", name="Ops and kernels")
    if view in TABS:
        expect(tabs.locator("[aria-current=page]")).to_have_text(TABS[view])
    else:
        expect(tabs).to_have_count(0)


def test_tabs_open_the_views_of_a_place(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address(view="ops"))
    tabs = page.get_by_role("navigation", name="Ops and kernels")
    for view, title in TABS.items():
        tabs.get_by_role("link", name=title, exact=True).click()
        expect(page).to_have_url(re.compile(rf"view={view}\b"))


def test_reaggregate_is_offered_wherever_an_aggregation_rules(page: Page, viewer: Viewer) -> None:
    for view in ("dashboard", "kernels-by-op", "timeline", "gpus"):
        page.goto(viewer.address(view=view))
        expect(page.get_by_role("banner").get_by_role("button", name="Reaggregate")).to_be_visible()
    page.get_by_role("banner").get_by_role("button", name="Reaggregate").click()
    expect(page.get_by_role("heading", level=1, name="Iterations")).to_be_attached()
    expect(page.get_by_role("spinbutton", name="Select iteration start")).to_be_visible()


@pytest.mark.parametrize(("view", "chosen", "other"), CHOICES)
def test_forced_colors_distinguish_the_chosen_control(
    page: Page, viewer: Viewer, view: str, chosen: str, other: str
) -> None:
    page.emulate_media(forced_colors="active")
    page.goto(viewer.address(view=view))
    settled(page)
    look = "(one) => { const s = getComputedStyle(one); return [s.backgroundColor, s.color]; }"
    background, text = page.locator(chosen).first.evaluate(look)
    other_background, other_text = page.locator(other).first.evaluate(look)
    assert background != other_background
    assert text != other_text
