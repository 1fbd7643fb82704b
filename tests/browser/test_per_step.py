"""Sums per step or in total by one switch, and names that differ wherever they are shown."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Viewer, resize, settled
from tests.browser.test_linked_views import get

TIMES = re.compile(r"^((GPU|CPU|Ideal) time|Time lost vs. roofline)\s+ms")
# Text of each name as it is drawn, by the whole name.
DRAWN = """body => [...body.querySelectorAll('tr[data-index] > td:first-child .name')].map(name => [
  name.title, (name.querySelector('[aria-hidden]') ?? name).textContent])"""


def headers(table: Locator) -> list[str]:
    return [text for text in table.locator("thead th").all_inner_texts() if TIMES.search(text)]


@pytest.mark.parametrize("view", ["ops", "group-ops", "roofline"])
def test_every_sum_of_times_says_per_step_or_total(page: Page, viewer: Viewer, view: str) -> None:
    page.goto(viewer.address(view=view))
    table = page.locator(".data-table table").first
    expect(table.locator("tbody tr td").first).to_be_visible()
    assert headers(table)
    assert all("ms/step" in text for text in headers(table))
    page.get_by_role("button", name="total").first.click()
    expect(page).to_have_url(re.compile("per=total"))
    expect(table.locator("thead")).to_contain_text("ms total")
    assert all("ms total" in text for text in headers(table))


def test_an_op_has_the_same_time_in_all_views(page: Page, viewer: Viewer) -> None:
    op = get(viewer, "ops/?ordering=-gpu_time_ns&page_size=10")["results"][0]
    (aggregation,) = (
        row
        for row in viewer.get(f"profiles/{viewer_profile(viewer)}/aggregations/")["results"]
        if row["is_default"] or row["is_steady"]
    )
    per_step_ms = op["gpu_time_ns"] / aggregation["steps"] / 1e6
    shown = f"{per_step_ms:.3f}"
    page.goto(viewer.address(view="ops"))
    row = page.get_by_role("region", name="Ops", exact=True).locator("tr[data-index='0']")
    expect(row).to_contain_text(shown)
    page.goto(viewer.address(view="roofline", efficiency__sort="-gpu_time_ns"))
    table = page.get_by_role("region", name="Time lost vs. roofline")
    expect(table.locator("tr[data-index='0']")).to_contain_text(shown)
    page.goto(viewer.address(view="op", op=op["op_id"]))
    four_digits = f"{per_step_ms:.4g}" if per_step_ms >= 1 else f"{per_step_ms * 1e3:.4g}"
    expect(page.locator(".one-facts dd").first).to_contain_text(f"{four_digits[:4]}")
    expect(page.locator(".one-facts dd").first).to_contain_text("/step")


def viewer_profile(viewer: Viewer) -> str:
    return str(viewer.get("profiles/")["results"][0]["id"])


def test_a_bound_is_typed_in_the_unit_that_is_shown(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address(view="ops"))
    table = page.get_by_role("region", name="Ops", exact=True)
    expect(table.locator("tr[data-index='0']")).to_be_visible()
    text = table.locator("tr[data-index='3'] td").nth(1).inner_text()
    table.get_by_role("button", name="Filters").click()
    table.get_by_label("GPU time at least in ms/step").fill(str(float(text) - 0.0005))
    expect(table.locator("tbody tr")).to_have_count(4)


def test_rows_with_different_names_are_drawn_differently(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address(view="ops"))
    table = page.get_by_role("region", name="Ops", exact=True)
    for width in (1440, 1024, 390):
        resize(page, width, 900)
        settled(page)
        expect(table.locator("tr[data-index='20']")).to_be_attached()
        drawn = page.locator("#op-rows").evaluate(DRAWN)
        assert len(drawn) > 20
        texts: dict[str, str] = {}
        for name, text in drawn:
            assert texts.setdefault(text, name) == name
