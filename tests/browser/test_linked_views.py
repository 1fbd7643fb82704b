"""Op types, groups, kernels by iteration and by op, GPUs: what selecting a row leads to."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import MakeDatabase, Viewer, expect_copied, expect_rows, settled
from tests.browser.test_tables import as_numbers, cells, rows


def get(viewer: Viewer, path: str, aggregation: int | None = None) -> Any:
    """An answer of the API about an aggregation of the profile: the newest, or the given."""
    profile = viewer.profile or viewer.get("profiles/")["results"][0]["id"]
    aggregation = (
        aggregation or viewer.get(f"profiles/{profile}/aggregations/")["results"][-1]["id"]
    )
    return viewer.get(f"profiles/{profile}/aggregations/{aggregation}/{path}")


def grid(page: Page, name: str) -> Locator:
    return page.get_by_role("grid", name=name, exact=True)


def tree(page: Page) -> Locator:
    return page.get_by_role("treegrid", name="Groups and ops")


def branches(page: Page) -> Locator:
    return tree(page).locator("tr[aria-level]")


def test_op_types_show_the_api_and_open_their_ops(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address(view="op-types", per="total"))
    table = grid(page, "Op types")
    expected = get(viewer, "op-types/?page_size=50")["results"]
    expect(rows(table)).to_have_count(len(expected))
    assert cells(table, 0) == [row["op_type"] for row in expected]
    times = as_numbers(cells(table, 1))
    assert times == [round(row["gpu_time_ns"] / 1e6, 3) for row in expected]
    rows(table).first.click()
    expect(page).to_have_url(re.compile("view=ops"))
    chips = page.get_by_role("list", name="Active filters")
    expect(chips).to_contain_text(f"Op type: {expected[0]['op_type']}")
    expect(rows(grid(page, "Ops")).first).to_be_visible()
    expect(grid(page, "Ops")).to_have_attribute("aria-busy", "false")
    assert set(cells(grid(page, "Ops"), 6)) == {expected[0]["op_type"]}


def test_groups_open_and_close_and_stay_so_after_a_reload(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address(view="group-ops"))
    first = branches(page).first
    expect(first).to_have_attribute("aria-expanded", "true")
    below = (
        branches(page)
        .and_(page.locator('[aria-level="2"]'))
        .and_(page.locator('[aria-expanded="false"]'))
    )
    expect(below.first).to_be_visible()
    settled(page)
    name = below.first.get_attribute("data-name")
    below.first.click()
    opened = tree(page).locator(f'tr[data-name="{name}"][aria-expanded]')
    expect(opened).to_have_attribute("aria-expanded", "true")
    expect(branches(page).and_(page.locator('[aria-level="3"]')).first).to_be_visible()
    page.reload()
    expect(opened).to_have_attribute("aria-expanded", "true")
    page.get_by_role("button", name="Collapse all").click()
    expect(branches(page).and_(page.locator('[aria-level="2"]'))).to_have_count(0)
    page.go_back()
    expect(opened).to_have_attribute("aria-expanded", "true")


def test_the_tree_shows_and_exports_the_rows_of_the_api(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address(view="group-ops"))
    expect(branches(page).and_(page.locator('[aria-level="2"]')).first).to_be_visible()
    shown = branches(page).and_(page.locator('[aria-level="2"]'))
    answer = get(viewer, "group-ops/?level__gte=2&level__lte=2&name__startswith=/&page_size=100")
    expect(shown).to_have_count(min(100, answer["count"]))
    names = {row["name"] for row in answer["results"]}
    assert {row.get_attribute("data-name") for row in shown.all()} == names
    page.get_by_role("button", name="Export", exact=True).click()
    with page.expect_download() as downloading:
        page.get_by_role("link", name="JSON").click()
    written = json.loads(downloading.value.path().read_text())
    expected = get(viewer, "group-ops/?page_size=10&ordering=-gpu_time_ns")
    assert len(written["results"]) == expected["count"]
    assert written["results"][:10] == expected["results"]


def test_columns_of_the_tree_are_chosen_and_stay_so(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address(view="group-ops"))
    header = tree(page).get_by_role("columnheader", name=re.compile("^CPU time"))
    expect(header).to_be_visible()
    page.get_by_role("button", name="Choose columns").click()
    page.get_by_role("checkbox", name="CPU time").click()
    expect(header).to_have_count(0)
    page.reload()
    expect(branches(page).first).to_be_visible()
    expect(header).to_have_count(0)
    page.get_by_role("button", name="Choose columns").click()
    page.get_by_role("button", name="Reset").click()
    expect(header).to_be_visible()


def test_the_tree_follows_keys_and_its_search_lists_rows_that_open(
    page: Page, viewer: Viewer
) -> None:
    page.goto(viewer.address(view="group-ops"))
    expect(branches(page).nth(1)).to_be_visible()
    root = branches(page).first
    expect(root).to_have_attribute("aria-level", "1")
    root.focus()
    page.keyboard.press("ArrowLeft")
    expect(root).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("ArrowRight")
    expect(root).to_have_attribute("aria-expanded", "true")
    expect(branches(page).and_(page.locator('[aria-level="2"]')).first).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(branches(page).nth(1)).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(branches(page).nth(2)).to_be_focused()
    page.keyboard.press("Home")
    expect(root).to_be_focused()
    page.keyboard.press("End")
    expect(branches(page).last).to_be_focused()
    search = page.get_by_role("searchbox", name="Search groups and ops")
    search.fill("conv2d")
    found = branches(page).filter(has_text="CONV2D")
    expect(found.first).to_be_visible()
    expect(branches(page).filter(has_not_text=re.compile("conv2d", re.IGNORECASE))).to_have_count(0)
    expect(page.get_by_role("button", name="Tree")).to_have_attribute("aria-pressed", "true")
    search.fill("no such thing")
    expect(page.get_by_text("No group or op contains “no such thing”")).to_be_visible()
    search.fill("conv2d")
    found.first.click()
    expect(page).to_have_url(re.compile("view=ops.*op=CONV2D"))
    expect(page.get_by_role("grid", name=re.compile("^Kernels of"))).to_be_visible()


def test_the_kernels_of_an_iteration_are_those_of_the_api(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address(view="kernels-by-iteration"))
    iterations = grid(page, "Aggregated iterations")
    expect(rows(iterations).nth(4)).to_be_visible()
    rows(iterations).nth(4).click()
    expect(page).to_have_url(re.compile("iteration=6"))
    kernels = grid(page, "Kernels in iteration 6")
    answer = get(viewer, "iterations/6/kernels/?page_size=50")
    expect_rows(kernels, 50)
    region = page.get_by_role("region", name="Kernels in iteration 6")
    expect(region.get_by_role("status").first).to_have_text(f"{answer['count']:,} kernels")
    names = [row["kernel_long_name"] for row in answer["results"]]
    titles = [
        row.locator("td").nth(1).locator("[title]").get_attribute("title")
        for row in rows(kernels).all()
    ]
    assert titles == names
    page.reload()
    expect(rows(iterations).nth(4)).to_have_attribute("aria-selected", "true")


def test_kernels_by_op_fill_three_tables_with_the_keyboard(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address(view="kernels-by-op"))
    iterations = grid(page, "Aggregated iterations")
    expect(rows(iterations).nth(3)).to_be_visible()
    expect(page.get_by_role("region", name="Kernels of an op")).to_contain_text("No op is selected")
    rows(iterations).nth(1).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("iteration=4"))
    ops = grid(page, "Ops in iteration 4")
    expect(rows(ops).first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"[?&]op=\w+"))
    kernels = page.get_by_role("grid", name=re.compile("^Kernels of .* in iteration 4$"))
    expect(rows(kernels).first).to_be_focused()
    page.keyboard.press("Escape")
    expect(rows(ops).first).to_be_focused()
    page.keyboard.press("Escape")
    expect(rows(iterations).nth(2)).to_be_focused()
    page.reload()
    expect(rows(kernels).first).to_be_visible()


def test_an_iteration_that_is_not_aggregated_says_so(
    page: Page,
    viewer_on: Callable[[Path], Viewer],
    make_database: MakeDatabase,
    demo_profile: Path,
) -> None:
    viewer = viewer_on(make_database(demo_profile, "--iter_start=2", "--iter_stop=5"))
    page.goto(viewer.address(view="kernels-by-iteration"))
    iterations = grid(page, "Aggregated iterations")
    expect(rows(iterations)).to_have_count(4)
    expect(rows(iterations).first).to_have_attribute("aria-selected", "true")
    page.goto(viewer.address(view="kernels-by-iteration", iteration=7))
    expect(page.get_by_text("Iteration 7 is not aggregated")).to_be_visible()


def test_one_gpu_has_a_table_and_no_chart(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address(view="gpus"))
    expect(rows(grid(page, "GPUs"))).to_have_count(1)
    expect(page.get_by_role("img", name=re.compile("Bar chart"))).to_have_count(0)


def test_two_gpus_have_a_bar_each(page: Page, viewer_of_two_gpus: Viewer) -> None:
    page.goto(viewer_of_two_gpus.address())
    page.get_by_role("link", name="GPUs and ranks").click()
    page.get_by_role("link", name="GPUs", exact=True).click()
    table = grid(page, "GPUs")
    answer = get(viewer_of_two_gpus, "gpus/")["results"]
    expect(rows(table)).to_have_count(2)
    shown = [float(text) for text in cells(table, 2)]
    assert shown == [round(gpu["gpu_utilization_pct"], 1) for gpu in answer]
    chart = page.get_by_role("group", name=re.compile("Bar chart of the utilization of 2 GPUs"))
    expect(chart.locator(".bars-fill")).to_have_count(2)
    for gpu in answer:
        expect(chart).to_contain_text(f"{gpu['gpu_utilization_pct']:.1f} %")


def test_kernels_have_readable_names_that_are_copied_and_follow_the_ops(
    page: Page, viewer: Viewer
) -> None:
    answer = get(viewer, "merged-kernels/?ordering=-gpu_time_ns&page_size=50")["results"]
    page.goto(viewer.address(view="ops"))
    table = page.get_by_role("grid", name="Kernels of all ops")
    expect_rows(table, len(answer))
    names = rows(table).locator("td:first-child .name")
    titles = names.evaluate_all("(all) => all.map((one) => one.title)")
    assert titles == [row["kernel_long_name"] for row in answer]
    # A name that is cut is there as a whole for those who cannot see it.
    for name, row in zip(names.all()[:5], answer, strict=False):
        expect(name).to_contain_text(row["readable_name"])
    names.first.evaluate("(cell) => getSelection().selectAllChildren(cell)")
    page.keyboard.press("Control+c")
    expect_copied(page, titles[0])
    # They follow the filters of the ops.
    kernels = page.get_by_role("region", name=re.compile("^Kernels of"))
    count = kernels.get_by_role("status").first
    expect(count).to_have_text(re.compile(r"\d kernels"))
    every = int(re.sub(r"\D", "", count.inner_text()))
    page.get_by_role("searchbox", name="Search ops").fill("conv2d")
    expect(kernels).to_contain_text("of the ops that pass the filters")
    settled(page)
    found = get(viewer, "merged-kernels/?of_ops=search%3Dconv2d")["count"]
    expect(count).to_have_text(f"{found:,} kernels")
    assert 0 < found < every


def test_a_kernel_of_several_ops_is_one_row_that_opens_them(page: Page, viewer: Viewer) -> None:
    kernel = get(viewer, "merged-kernels/?ordering=-num_ops&page_size=10")["results"][0]
    assert kernel["num_ops"] > 1
    page.goto(viewer.address(view="ops", **{"kernels.sort": "-num_ops"}))
    table = page.get_by_role("grid", name="Kernels of all ops")
    first = rows(table).first
    expect(first.locator(".name").first).to_have_attribute("title", kernel["kernel_long_name"])
    first.locator("td").nth(2).click()
    expect(table).to_have_attribute("aria-rowcount", str(kernel["num_ops"]))
    expect(table.get_by_role("columnheader", name="Op name")).to_be_visible()
    for name in rows(table).locator("td:first-child .name").all():
        expect(name).to_have_attribute("title", kernel["kernel_long_name"])
    choice = page.get_by_role("group", name="Kernels", exact=True)
    choice.get_by_role("button", name="Ops merged").click()
    count = get(viewer, "merged-kernels/")["count"]
    expect(table).to_have_attribute("aria-rowcount", str(count))
