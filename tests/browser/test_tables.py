"""The ops and kernels tables: sort, filter, search, page, select, export; state in the address."""

from __future__ import annotations

import csv
import json
import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, Page, Request, expect

from tests.browser.conftest import Viewer, Watch, expect_rows, idle, settled


def rows(table: Locator) -> Locator:
    """The rows of the table's body."""
    return table.locator("tbody tr[aria-rowindex]")


def ops_table(page: Page) -> Locator:
    return page.get_by_role("grid", name="Ops", exact=True)


def cells(table: Locator, column: int) -> list[str]:
    return [row.locator("td").nth(column).inner_text() for row in rows(table).all()]


def as_numbers(texts: list[str]) -> list[float]:
    return [float(text.replace(",", "").replace("<", "")) for text in texts]


def total_of(page: Page) -> int:
    """Ops without any filter."""
    text = page.get_by_role("region", name="Ops", exact=True).get_by_role("status").first
    expect(text).to_have_text(re.compile(r"\d ops"))
    return int(re.sub(r"\D", "", text.inner_text()))


def test_numbers_sort_from_the_largest_and_turn_round(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address(view="ops", ops__cols="gpu_time_ns,share_pct,cpu_time_ns"))
    table = ops_table(page)
    expect_rows(table, 50)
    header = table.get_by_role("columnheader", name=re.compile("^CPU time"))
    header.get_by_role("button").click()
    expect(header).to_have_attribute("aria-sort", "descending")
    expect(page).to_have_url(re.compile("ops.sort=-cpu_time_ns"))
    expect(table).to_have_attribute("aria-busy", "false")
    values = as_numbers(cells(table, 3))
    assert values == sorted(values, reverse=True)
    header.get_by_role("button").click()
    expect(header).to_have_attribute("aria-sort", "ascending")
    expect(table).to_have_attribute("aria-busy", "false")
    values = as_numbers(cells(table, 3))
    assert values == sorted(values)


def test_pages_survive_back_and_reload(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address(view="ops", ops__size=10))
    table = ops_table(page)
    expect(rows(table)).to_have_count(10)
    pager = page.get_by_role("region", name="Ops", exact=True)
    pager.get_by_role("button", name="Next page").click()
    expect(rows(table).first).to_have_attribute("aria-rowindex", "11")
    pager.get_by_role("button", name="Next page").click()
    expect(rows(table).first).to_have_attribute("aria-rowindex", "21")
    page.reload()
    expect(rows(table).first).to_have_attribute("aria-rowindex", "21")
    page.go_back()
    expect(rows(table).first).to_have_attribute("aria-rowindex", "11")
    page.go_forward()
    expect(rows(table).first).to_have_attribute("aria-rowindex", "21")
    pager.get_by_role("combobox", name="Rows per page").select_option("100")
    expect(rows(table).first).to_have_attribute("aria-rowindex", "1")
    expect_rows(table, 100)


def test_a_page_beyond_the_end_becomes_the_last(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address(view="ops", ops__page=9999))
    expect(rows(ops_table(page)).first).to_be_visible()
    expect(page).not_to_have_url(re.compile("ops.page=9999"))


def test_typed_filters_show_as_chips_and_narrow_the_count(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address(view="ops", per="total"))
    region = page.get_by_role("region", name="Ops", exact=True)
    total = total_of(page)
    region.get_by_role("button", name="Filters").click()
    region.get_by_role("combobox", name="Direction").select_option("bprop")
    region.get_by_role("textbox", name="Op name contains").fill("conv")
    region.get_by_role("textbox", name="GPU time at least in ms total").fill("0.5")
    region.get_by_role("combobox", name="TC", exact=True).select_option("yes")
    chips = region.get_by_role("list", name="Active filters")
    for text in ("Direction: bprop", "contains “conv”", "GPU time ≥ 0.5 ms total", "TC: yes"):
        expect(chips).to_contain_text(text)
    count = region.get_by_role("status").first
    expect(count).to_have_text(re.compile(rf"^\d+ of {total:,} ops$"))
    table = ops_table(page)
    expect(table).to_have_attribute("aria-busy", "false")
    assert set(cells(table, 3)) == {"bprop"}
    assert all("conv" in name for name in cells(table, 0))
    assert min(as_numbers(cells(table, 1))) >= 0.5
    page.reload()
    expect(count).to_have_text(re.compile(rf"^\d+ of {total:,} ops$"))
    expect(region.get_by_role("textbox", name="GPU time at least in ms total")).to_have_value("0.5")
    chips.get_by_role("button", name=re.compile("Remove: Direction")).click()
    expect(chips).not_to_contain_text("Direction")
    chips.get_by_role("button", name="Clear all").click()
    expect(count).to_have_text(f"{total:,} ops")
    expect(region.get_by_role("textbox", name="Op name contains")).to_have_value("")


def test_the_search_waits_for_the_last_key(page_of_own_context: Page, viewer: Viewer) -> None:
    page = page_of_own_context
    asked: list[str] = []

    def note(request: Request) -> None:
        if "search=" in request.url and "/ops/?" in request.url:
            asked.append(request.url)

    page.clock.install()
    page.goto(viewer.address(view="ops"))
    expect(rows(ops_table(page)).first).to_be_visible()
    page.on("request", note)
    # However long a busy machine takes from key to key, no time passes for the page.
    page.clock.pause_at(time.time() + 3600)
    page.keyboard.press("/")
    page.keyboard.type("batch_norm")
    expect(page.get_by_label("Search ops")).to_have_value("batch_norm")
    assert asked == []
    page.clock.resume()
    expect(page.get_by_role("list", name="Active filters")).to_contain_text("batch_norm")
    expect(ops_table(page)).to_have_attribute("aria-busy", "false")
    # The page may ask again when its clock goes on, an hour later; never for half a word.
    assert {parse_qs(urlsplit(url).query)["search"][0] for url in asked} == {"batch_norm"}
    assert all("batch_norm" in name for name in cells(ops_table(page), 6))


def test_nothing_found_says_so_and_offers_the_way_back(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address(view="ops", ops__q="no such op anywhere"))
    region = page.get_by_role("region", name="Ops", exact=True)
    expect(region).to_contain_text("No op fits the filters")
    region.get_by_role("button", name="Clear the filters").click()
    expect_rows(ops_table(page), 50)


def test_a_selected_op_fills_the_kernels_and_the_address(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address(view="ops"))
    row = rows(ops_table(page)).nth(3)
    name = row.locator("td").first.locator("[title]").get_attribute("title")
    row.click()
    expect(row).to_have_attribute("aria-selected", "true")
    expect(page).to_have_url(re.compile(r"[?&]op=\w+"))
    kernels = page.get_by_role("grid", name=f"Kernels of {name}")
    expect(rows(kernels).first).to_be_visible()
    page.reload()
    expect(rows(kernels).first).to_be_visible()
    expect(row).to_have_attribute("aria-selected", "true")
    page.get_by_role("button", name="Show the kernels of all ops").click()
    expect(page.get_by_role("grid", name="Kernels of all ops")).to_be_visible()
    page.go_back()
    expect(kernels).to_be_visible()


def test_the_tables_work_with_the_keyboard_alone(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address())
    expect(page.locator(".iterations-svg .bar").first).to_be_visible()
    settled(page)
    page.keyboard.press("g")
    page.keyboard.press("o")
    table = ops_table(page)
    expect(rows(table).first).to_be_visible()
    rows(table).first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(rows(table).nth(2)).to_be_focused()
    page.keyboard.press("Enter")
    expect(rows(table).nth(2)).to_have_attribute("aria-selected", "true")
    kernels = page.get_by_role("grid", name=re.compile("^Kernels of"))
    expect(rows(kernels).first).to_be_focused()
    page.keyboard.press("Escape")
    expect(rows(table).nth(2)).to_be_focused()
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile(r"[?&]op="))
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Help")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    idle(page)
    page.keyboard.press("g")
    page.keyboard.press("i")
    expect(page.get_by_role("heading", name="Iterations", level=1)).to_be_visible()


def test_columns_can_be_chosen_and_stay_chosen_and_a_link_has_them(
    page: Page, viewer: Viewer
) -> None:
    page.goto(viewer.address(view="ops"))
    region = page.get_by_role("region", name="Ops", exact=True)
    expect(region.get_by_role("columnheader", name="Op ID")).to_have_count(0)
    region.get_by_role("button", name="Choose columns").click()
    region.get_by_role("checkbox", name="Op ID").check()
    expect(region.get_by_role("columnheader", name="Op ID")).to_be_attached()
    expect(page).to_have_url(re.compile(r"ops\.cols=\w+,"))
    link = page.url
    page.goto(viewer.address(view="ops"))
    expect(region.get_by_role("columnheader", name="Op ID")).to_be_attached()
    # Another browser remembers no columns.
    page.evaluate("() => localStorage.clear()")
    page.goto(link)
    expect(region.get_by_role("columnheader", name="Op ID")).to_be_attached()


def test_exports_and_the_clipboard_hold_all_rows_that_fit_and_no_others(
    page: Page, viewer: Viewer
) -> None:
    page.goto(viewer.address(view="ops", ops__q="batch_norm", ops__size=10))
    region = page.get_by_role("region", name="Ops", exact=True)
    count = region.get_by_role("status").first
    expect(count).to_have_text(re.compile(r"^\d+ of"))
    expected = int(count.inner_text().split()[0].replace(",", ""))
    region.get_by_role("button", name="Export").click()
    with page.expect_download() as download:
        region.get_by_role("link", name="JSON").click()
    assert len(json.loads(download.value.path().read_text())["results"]) == expected
    region.get_by_role("button", name="Export").click()
    with page.expect_download() as download:
        region.get_by_role("link", name="CSV").click()
    text = download.value.path().read_text()
    assert len([line for line in csv.reader(text.splitlines()) if len(line) > 3]) == expected + 1
    region.get_by_role("button", name="Export").click()
    region.get_by_role("button", name="Copy to the clipboard").click()
    expect(region.get_by_text(f"Copied {expected:,} ops")).to_be_visible()
    lines = page.evaluate("navigator.clipboard.readText()").split("\n")
    assert lines[0].startswith("op_name\tgpu_time_ns\t")
    assert len(lines) == expected + 1


def test_advice_leads_to_the_ops_that_it_is_about(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address())
    panel = page.get_by_role("region", name="Recommendations")
    first = panel.get_by_role("listitem").first
    expect(first).to_contain_text(re.compile(r"(up to|at least) [\d.,]+ m?s per step \(\d+ %\)"))
    first.get_by_role("button", name="How to fix").click()
    expect(first.get_by_role("button", name="Copy SQL")).to_be_visible()
    first.get_by_role("link", name=re.compile(r"^(Ops|\d+ of \d+ ops)$")).click()
    expect(page.get_by_role("list", name="Active filters")).to_contain_text("Op ID")


@pytest.mark.parametrize("theme", ["light", "dark"], indirect=True)
def test_recomputed_work_has_a_direction_of_its_own(
    page: Page, viewer_to_change: Viewer, theme: str, find_violations: Callable[[Page], list[str]]
) -> None:
    with closing(sqlite3.connect(viewer_to_change.database)) as connection, connection:
        connection.execute("UPDATE ops SET direction = 'recompute' WHERE op_id = 'CONV2D_1'")
    page.goto(viewer_to_change.address(view="ops"))
    region = page.get_by_role("region", name="Ops", exact=True)
    expect(rows(ops_table(page)).first).to_be_visible()
    region.get_by_role("button", name="Filters").click()
    region.get_by_role("combobox", name="Direction").select_option("recompute")
    expect(rows(ops_table(page))).to_have_count(1)
    cell = rows(ops_table(page)).locator(".direction-recompute")
    expect(cell).to_have_text("recompute")
    expect(cell).to_have_attribute("title", re.compile("checkpointing runs again"))
    expect(page.locator("html")).to_have_attribute("data-theme", theme)
    assert find_violations(page) == []


def test_a_page_turned_by_key_keeps_the_focus_in_the_table(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address(view="ops", ops__size=10))
    found = rows(ops_table(page))
    expect(found).to_have_count(10)
    found.nth(3).focus()
    page.keyboard.press("PageDown")
    expect(found.first).to_have_attribute("aria-rowindex", "11")
    expect(found.first).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(found.nth(1)).to_be_focused()
    page.keyboard.press("PageUp")
    expect(found.first).to_have_attribute("aria-rowindex", "1")
    expect(found.first).to_be_focused()


def test_a_link_with_a_bound_that_is_no_number_shows_what_it_says(
    page: Page, viewer: Viewer, watch: Watch
) -> None:
    watch.expect("status of 400")
    page.goto(f"{viewer.url}/?view=ops&ops.f.gpu_time_ns__gte=abc")
    chips = page.get_by_role("list", name="Active filters").first
    expect(chips).to_contain_text("≥ abc")
    expect(chips).not_to_contain_text("NaN")
    # Room for both bounds of a number.
    boxes = page.get_by_role("textbox", name=re.compile("^GPU time at (least|most)"))
    for place in range(2):
        box = boxes.nth(place).bounding_box()
        assert box is not None
        assert box["width"] >= 55


def test_columns_are_resized_by_pointer_and_key_and_stay_so(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address(view="ops"))
    header = ops_table(page).get_by_role("columnheader", name=re.compile("^GPU time"))
    expect_rows(ops_table(page), 50)

    def width() -> int:
        return round(header.evaluate("(cell) => cell.offsetWidth"))

    before = width()
    box = header.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] - 3, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] + 57, box["y"] + 10, steps=3)
    page.mouse.up()
    assert abs(width() - before - 60) <= 2
    header.get_by_role("button").focus()
    page.keyboard.press("Alt+ArrowLeft")
    assert abs(width() - before - 44) <= 2
    page.reload()
    expect_rows(ops_table(page), 50)
    assert abs(width() - before - 44) <= 2
    header.locator(".th-resize").dblclick()
    assert abs(width() - before) <= 2
