"""The flame graph of modules: the numbers of the group views, by pointer and by keyboard."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Viewer, settled

BOX = "[role=treeitem][data-name]"


@pytest.mark.parametrize("theme", ["light", "dark"], indirect=True)
def test_the_boxes_are_the_groups_of_the_view(
    page: Page, viewer: Viewer, theme: str, find_violations: Callable[[Page], list[str]]
) -> None:
    page.goto(viewer.address(view="group-ops", aggregation=2))
    boxes = page.locator(BOX)
    expect(boxes.first).to_be_visible()
    settled(page)
    sql = """
        SELECT row_full_name, gpu_time_sum FROM view_group_ops
        WHERE aggr_id = 2 AND domain_name = 'default-domain' AND row_type = 1
    """
    with closing(sqlite3.connect(viewer.database)) as database:
        times = dict(database.execute(sql).fetchall())
    widths = boxes.evaluate_all(
        "(all) => all.map((it) => [it.dataset.name, "
        "Number(it.querySelector('rect').getAttribute('width')) + 1])"
    )
    full = max(width for _, width in widths)
    whole = times["/"]
    for name, width in widths:
        assert width == pytest.approx(full * times[name] / whole, abs=1.5)
    assert find_violations(page) == []


def test_keys_move_zoom_and_open_the_tree(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address(view="group-ops"))
    flame = page.get_by_role("tree", name=re.compile("Modules by their time"))
    # The hottest group has the focus first.
    hottest = flame.locator(f"{BOX}[tabindex='0']")
    name = str(hottest.get_attribute("data-name"))
    hottest.focus()
    page.keyboard.press("ArrowUp")
    parent = flame.locator("g:focus")
    above = str(parent.get_attribute("data-name"))
    assert name.startswith(above)
    assert name != above
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("flame="))
    expect(
        page.get_by_role("treegrid", name="Groups and ops").locator(f"tr[data-name='{name}']")
    ).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Enter")
    expect(page).not_to_have_url(re.compile("flame="))


def test_what_is_above_ideal_and_the_cpu_time_have_a_graph_too(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address(view="group-ops"))
    panel = page.get_by_role("region", name="Modules", exact=True)
    for metric in ("CPU time", "Time lost vs. roofline"):
        panel.get_by_role("button", name=metric).click()
        expect(panel.locator(BOX).first).to_be_visible()
