"""Without a mouse: everything that can be clicked is reached by Tab, in order, and is seen."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import JOB_LIMIT_MS, Viewer, settled
from tests.browser.test_views import HEADINGS

#: What has the focus: role or tag, its name, and whether it can be seen that it has it.
FOCUSED = """
() => {
  const one = document.activeElement;
  const style = getComputedStyle(one);
  const frame = one.closest('.table-search') ?? one;
  const around = getComputedStyle(frame);
  const row = one.querySelector?.('td, th');
  const isShown = (s) => s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0
    || s.boxShadow !== 'none';
  const box = one.getBoundingClientRect();
  return {
    tag: one.tagName,
    name: one.getAttribute('aria-label') ?? one.textContent.trim().slice(0, 60),
    seen: isShown(style) || isShown(around) || (row !== null && row !== undefined
      && isShown(getComputedStyle(row))),
    size: Math.min(box.width, box.height),
    top: box.top,
    left: box.left,
    path: (() => { let p = ''; for (let e = one; e; e = e.parentElement)
      p = [...(e.parentElement?.children ?? [])].indexOf(e) + '/' + p; return p; })(),
  };
}
"""
#: How many places Tab should reach at least; those that it can are counted by this.
REACHABLE = """
() => [...document.querySelectorAll(
  'a[href], button, input, select, textarea, summary, [tabindex="0"]'
)].filter((one) => one.tabIndex >= 0 && !one.disabled && one.getClientRects().length > 0
  && one.checkVisibility({visibilityProperty: true})).length
"""


@pytest.mark.parametrize("view", HEADINGS)
def test_tab_reaches_everything_once_and_shows_where_it_is(
    page: Page, viewer: Viewer, view: str
) -> None:
    page.goto(viewer.address(view=view))
    expect(page.get_by_role("heading", level=1)).to_be_attached()
    settled(page)
    expected = page.evaluate(REACHABLE)
    seen: list[str] = []
    unseen: list[str] = []
    for _ in range(expected + 10):
        page.keyboard.press("Tab")
        found = page.evaluate(FOCUSED)
        if found["tag"] == "BODY" or found["path"] in seen:
            break
        seen.append(found["path"])
        if not found["seen"]:
            unseen.append(f"{found['tag']} {found['name']}")
    assert unseen == []
    assert len(seen) >= expected


def test_the_first_tab_skips_the_navigation(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address(view="ops"))
    expect(page.get_by_role("grid", name="Ops", exact=True)).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()


def test_a_re_aggregation_needs_no_mouse(page: Page, viewer_to_change: Viewer) -> None:
    page.goto(viewer_to_change.address())
    expect(page.locator(".iterations-svg .bar").first).to_be_visible()
    settled(page)
    page.keyboard.press("g")
    page.keyboard.press("i")
    start = page.get_by_role("spinbutton", name="Select iteration start")
    expect(start).to_be_visible()
    start.focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(start).to_have_value("4")
    page.keyboard.press("Tab")
    expect(page.get_by_role("spinbutton", name="Select iteration stop")).to_be_focused()
    page.get_by_role("button", name="Choose key node").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Select key node")
    expect(dialog.locator("tbody tr[aria-rowindex]").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    button = page.get_by_role("button", name="Reaggregate", exact=True)
    expect(button).to_be_enabled()
    button.focus()
    page.keyboard.press("Enter")
    panel = page.get_by_role("region", name="Re-aggregation", exact=True)
    expect(panel.get_by_role("heading", name="Success!")).to_be_visible(timeout=JOB_LIMIT_MS)
    panel.get_by_role("button", name="Show it").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("aggregation=3"))


def test_menus_open_and_close_and_give_the_focus_back(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address(view="ops"))
    region = page.get_by_role("region", name="Ops", exact=True)
    expect(region.locator("tbody tr[aria-rowindex]").first).to_be_visible()
    for name, inside in (
        ("Choose columns", region.get_by_role("checkbox")),
        ("Export", region.locator(".menu-list").get_by_role("link")),
    ):
        opener = region.get_by_role("button", name=name, exact=True)
        opener.focus()
        page.keyboard.press("Enter")
        expect(inside.first).to_be_visible()
        page.keyboard.press("Escape")
        expect(inside).to_have_count(0)
        expect(opener).to_be_focused()


def open_search(page: Page) -> Locator:
    """Open the search dialog; what is typed next is for its field, however busy the browser is."""
    page.keyboard.press("Control+k")
    return page.get_by_role("combobox", name="Search everywhere")


def test_what_the_server_finds_is_shown_together(page: Page, viewer: Viewer) -> None:
    held: list[Route] = []
    ops = re.compile(r"/ops/\?.*op_name__icontains")

    def hold(route: Route) -> None:
        held.append(route)

    page.route(ops, hold)
    page.goto(viewer.address(view="gpus"))
    settled(page)
    open_search(page)
    with page.expect_response(re.compile(r"/kernels/\?.*search=")) as answer:
        page.keyboard.type("conv2d")
    answer.value.finished()
    page.evaluate("() => new Promise((r) => requestAnimationFrame(() => setTimeout(r)))")
    # The mark would move from a kernel to an op when the ops come.
    expect(page.get_by_role("listbox", name="Results").get_by_role("option")).to_have_count(0)
    expect(page.get_by_text("Nothing found")).to_have_count(0)
    for route in held:
        route.continue_()
    page.unroute(ops)  # A search that begins only now is not held.
    expect(page.get_by_role("group", name="Kernels").get_by_role("option").first).to_be_visible()
    expect(page.get_by_role("group", name="Ops").get_by_role("option").first).to_be_visible()


def test_everything_is_found_by_keys_alone(page: Page, viewer: Viewer) -> None:
    profile = viewer.get("profiles/")["results"][0]["id"]
    groups = viewer.get(f"profiles/{profile}/aggregations/2/group-ops/?kind__in=group&page_size=50")
    module = max((row["trimmed_name"] for row in groups["results"]), key=len)
    page.goto(viewer.address(view="gpus"))
    settled(page)
    marked = page.locator('[role="option"][aria-selected="true"]')
    for typed, kind, goes_to in (
        ("roof", "Views", re.compile("view=roofline")),
        ("conv2d", "Ops", re.compile(r"view=ops.*[?&]op=CONV2D")),
        ("cudnn", "Kernels", re.compile(r"view=ops.*kernels\.q=")),
        (module, "Modules", re.compile(r"view=group-ops.*groups\.q=")),
    ):
        search = open_search(page)
        page.keyboard.type(typed)
        group = page.get_by_role("group", name=kind)
        first = group.get_by_role("option").first
        expect(first).to_contain_text(re.compile(re.escape(typed), re.IGNORECASE))
        while first.get_attribute("aria-selected") != "true":
            page.keyboard.press("ArrowDown")
            expect(marked).to_have_count(1)
        page.keyboard.press("Enter")
        expect(search).to_have_count(0)
        expect(page).to_have_url(goes_to)
    open_search(page)
    page.keyboard.type("light and dark")
    expect(marked).to_contain_text("Switch between light and dark")
    page.keyboard.press("Enter")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    search = open_search(page)
    page.keyboard.type("no such thing at all")
    expect(page.get_by_text("Nothing found")).to_be_visible()
    page.keyboard.press("Escape")
    expect(search).to_have_count(0)
