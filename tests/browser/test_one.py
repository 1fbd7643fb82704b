"""The pages of one op and one kernel: reached from tables, with the numbers of the API."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Viewer, Watch, settled
from tests.browser.test_linked_views import get, grid
from tests.browser.test_tables import rows

WIDTHS = (390, 768, 1024, 1440)


def _top_op(viewer: Viewer) -> str:
    return str(get(viewer, "top-ops/")["results"][0]["op_id"])


@pytest.mark.parametrize("theme", ["light", "dark"], indirect=True)
def test_an_op_is_reached_from_its_row_and_shows_what_the_api_says(
    page: Page, viewer: Viewer, theme: str, find_violations: Callable[[Page], list[str]]
) -> None:
    # GIVEN a row of the table of ops
    op_id = _top_op(viewer)
    page.goto(viewer.address(view="ops", per="total"))
    row = rows(grid(page, "Ops")).first
    expect(row).to_be_visible()
    # WHEN its page is opened with the keyboard
    row.focus()
    page.keyboard.press("Shift+Enter")
    # THEN the address names it, and its figures are those of the API
    expect(page).to_have_url(re.compile(rf"view=op&.*op={op_id}"))
    op = get(viewer, f"ops/{quote(op_id)}/")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Op {op['op_name']}")
    totals = page.get_by_role("region", name="Totals")
    expect(totals.locator("dd", has_text=f"{op['num_calls']}").first).to_be_visible()
    expect(totals.locator(f'[title="{op["gpu_time_ns"]:,} ns total"]')).to_be_visible()
    calls = get(viewer, f"ops/{quote(op_id)}/calls/")
    bars = page.get_by_role("region", name="Over the iterations").locator("svg g")
    expect(bars).to_have_count(len(calls["iterations"]))
    bins = page.get_by_role("region", name="Durations of a call").locator("svg g")
    expect(bins).to_have_count(len(calls["gpu_time_bins"]))
    expect(grid(page, f"Kernels of {op['op_name']}")).to_be_visible()
    expect(page.locator("html")).to_have_attribute("data-theme", theme)
    settled(page)
    assert find_violations(page) == []
    # AND a bar leads to the iteration
    bars.nth(2).click()
    index = calls["iterations"][2]["iteration_index"]
    expect(page).to_have_url(re.compile(rf"view=kernels-by-op&.*iteration={index}&op={op_id}"))


@pytest.mark.parametrize("theme", ["light", "dark"], indirect=True)
def test_a_kernel_is_reached_from_a_table_and_leads_to_its_ops(
    page: Page, viewer: Viewer, theme: str, find_violations: Callable[[Page], list[str]]
) -> None:
    page.goto(viewer.address(view="ops", per="total"))
    kernels = grid(page, "Kernels of all ops")
    kernel = get(viewer, "merged-kernels/?page_size=10")["results"][0]
    row = rows(kernels).first
    row.hover()
    row.get_by_role("link", name="Page of this kernel").click()
    name = kernel["kernel_long_name"]
    expect(page.get_by_text(name, exact=True).first).to_be_visible()
    launches = get(viewer, f"kernels/{quote(name, safe='')}/launches/")
    totals = page.get_by_role("region", name="Totals")
    expect(totals.locator(f'[title="{launches["gpu_time_ns"]:,} ns total"]')).to_be_visible()
    ops = grid(page, "Ops that launched it")
    expect(rows(ops)).to_have_count(launches["num_ops"])
    expect(page.locator("html")).to_have_attribute("data-theme", theme)
    settled(page)
    assert find_violations(page) == []
    rows(ops).first.hover()
    rows(ops).first.get_by_role("link", name="Page of this op").click()
    filtered = f"kernels/?kernel_long_name={quote(name, safe='')}&page_size=10"
    op = get(viewer, filtered)["results"][0]["op_name"]
    expect(page.get_by_role("heading", level=1)).to_contain_text(op)


def test_the_forward_and_the_backward_op_lead_to_each_other(page: Page, viewer: Viewer) -> None:
    ops = get(viewer, "ops/?page_size=200")["results"]
    names = [op["op_name"] for op in ops if op["direction"] == "fprop"]
    backward = next(op for op in ops if op["direction"] == "bprop" and op["op_name"] in names)
    page.goto(viewer.address(view="op", op=backward["op_id"]))
    page.get_by_role("link", name=re.compile("Forward pass of it")).click()
    expect(page.locator(".page-tags")).to_contain_text("fprop")
    page.get_by_role("link", name=re.compile("Backward pass of it")).click()
    expect(page).to_have_url(re.compile(f"op={backward['op_id']}"))


def test_advice_leads_to_the_op_that_it_names_and_back(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address())
    advice = page.get_by_role("region", name="Recommendations")
    expect(advice.locator(".finding").first).to_be_visible()
    found = get(viewer, "advice/")["results"]
    named = next(row for row in found if '"kind": "op"' in row["evidence"])
    if advice.get_by_text("More findings").is_visible():
        advice.get_by_text("More findings").click()
    finding = advice.locator(".finding").filter(has_text=named["problem"])
    finding.get_by_role("button", name="How to fix").click()
    problem = named["problem"]
    finding.locator(".evidence").get_by_role("link").first.click()
    names = page.get_by_role("region", name="Advice that names it")
    expect(names).to_contain_text(problem)


def test_what_a_database_of_nvidias_does_not_hold_is_said(
    page: Page, viewer_on: Callable[[Path], Viewer], golden_dir: Path
) -> None:
    viewer = viewer_on(golden_dir / "dlprof_dldb.sqlite")
    page.goto(viewer.address(view="op", op=_top_op(viewer)))
    for name in ("Durations of a call", "Shapes", "Roofline", "Advice that names it"):
        panel = page.get_by_role("region", name=name, exact=True)
        expect(panel).to_contain_text("This database does not contain it")
    expect(page.get_by_role("region", name="Over the iterations").locator("svg g")).to_have_count(1)


def test_a_kernel_that_is_not_there_is_an_error_with_a_hint(
    page: Page, viewer: Viewer, watch: Watch
) -> None:
    watch.expect("404")
    page.goto(viewer.address(view="kernel", kernel="no such kernel"))
    expect(page.get_by_role("alert")).to_contain_text("has no kernel")
