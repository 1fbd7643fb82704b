"""The view of ranks: there for a job of several, with its chart and both tables."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Viewer, settled
from tests.browser.test_linked_views import get


@pytest.mark.parametrize("theme", ["light", "dark"], indirect=True)
def test_the_ranks_of_a_job_and_what_they_waited_for(
    page: Page,
    viewer_of_two_gpus: Viewer,
    theme: str,
    find_violations: Callable[[Page], list[str]],
) -> None:
    page.goto(viewer_of_two_gpus.address(aggregation=1, per="total"))
    page.get_by_role("link", name="GPUs and ranks").click()
    expect(page.get_by_role("heading", level=1, name="Ranks")).to_be_attached()
    headline = "No straggler: no rank is last in most of the 86 collectives (33)"
    expect(page.get_by_text(headline)).to_be_visible()
    heat = page.get_by_role("img", name="Lateness of 2 ranks by iteration")
    expect(heat.locator("rect").first).to_be_visible()
    # Parts of a rank add up to the wall clock time, which all ranks share.
    wholes = page.locator(".rank-bar-whole").all_inner_texts()
    assert len(wholes) == 2
    assert len(set(wholes)) == 1
    ranks = page.get_by_role("grid", name="Ranks").or_(page.get_by_role("table", name="Ranks"))
    expect(ranks.get_by_text("89.010").first).to_be_visible()
    expect(ranks.get_by_text("107.053").first).to_be_visible()
    expect(page.get_by_text("172 collectives")).to_be_visible()
    expect(page.locator("html")).to_have_attribute("data-theme", theme)
    assert find_violations(page) == []


def test_a_cell_leads_to_its_collectives(page: Page, viewer_of_two_gpus: Viewer) -> None:
    page.goto(viewer_of_two_gpus.address(view="ranks", aggregation=1))
    # The panel above is higher once it has its answer: the cell moves, from under a pointer too.
    settled(page)
    heat = page.get_by_role("img", name="Lateness of 2 ranks by iteration")
    cell = heat.locator("rect").filter(has_text="Rank 1, Iteration 4:")
    cell.click()
    filters = page.get_by_role("list", name="Active filters")
    expect(filters.get_by_role("listitem")).to_have_count(5)
    table = page.get_by_role("region", name="Collectives")
    expect(table.get_by_text("7 of 172 collectives")).to_be_visible()


def test_a_rank_leads_to_its_ops(page: Page, viewer_of_two_gpus: Viewer) -> None:
    page.goto(viewer_of_two_gpus.address(view="ranks"))
    page.get_by_role("link", name="Ops of rank 1").click()
    expect(page.get_by_role("heading", level=1, name="Ops and kernels")).to_be_attached()
    rows = page.locator("tbody tr", has_text="rank_")
    expect(rows.first).to_be_visible()
    expect(page.locator("tbody tr", has_text="/rank_1/").first).to_be_visible()
    expect(page.locator("tbody tr", has_text="/rank_0/")).to_have_count(0)


def test_the_ops_of_all_ranks_are_one_row_with_their_ranks(
    page: Page, viewer_of_two_gpus: Viewer
) -> None:
    page.goto(viewer_of_two_gpus.address(view="ops", aggregation=1))
    ops = page.get_by_role("grid", name="Ops", exact=True)
    expect(ops.get_by_role("columnheader", name="Slowest rank")).to_be_attached()
    expect(ops.locator("tbody tr").first).to_contain_text("0\u20131")
    expect(ops.locator("tbody").first).not_to_contain_text("/rank_")
    # A row stands for the op on its slowest rank.
    ops.locator("tbody tr").first.click()
    expect(page.get_by_role("grid", name="Kernels of /rank_")).to_be_visible()
    page.get_by_role("button", name="Each rank").click()
    expect(page).to_have_url(re.compile("ranks=each"))
    expect(ops.locator("tbody tr").first).to_contain_text("/rank_")


def test_kernels_follow_a_bound_of_the_sum_over_the_ranks(
    page: Page, viewer_of_two_gpus: Viewer
) -> None:
    bound = "20000000"
    page.goto(f"{viewer_of_two_gpus.address(view='ops')}&ops.f.gpu_time_ns__gte={bound}")
    kernels = page.get_by_role("region", name="Kernels of the filtered ops")
    found = get(viewer_of_two_gpus, f"merged-kernels/?of_merged_ops=gpu_time_ns__gte%3D{bound}")[
        "count"
    ]
    expect(kernels.get_by_role("status").first).to_have_text(f"{found:,} kernels")
    assert 0 < found < get(viewer_of_two_gpus, "merged-kernels/")["count"]
