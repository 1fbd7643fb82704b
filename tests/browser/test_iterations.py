"""The Iterations view: chart, zoom, choosing another range, and the whole re-aggregation."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import FloatRect, Locator, Page, expect

from tests.browser.conftest import JOB_LIMIT_MS, Viewer, idle, settled
from tests.golden.test_phases import serving

MAX_BARS = 700  # Of a window of 1280 pixels.


def chart(page: Page) -> Locator:
    return page.get_by_role("group", name=re.compile("^Bar chart"))


def bars(page: Page) -> Locator:
    """The bars of one part: as many as there are iterations or groups of them."""
    return chart(page).locator("rect.bar")


def open_chart(page: Page, viewer: Viewer, **query: str | int) -> None:
    """Open the chart of the aggregation of all iterations."""
    page.goto(viewer.address(view="iterations", aggregation=1, **query))
    drawn(page)


def drawn(page: Page) -> None:
    """Wait until the chart is there and hears keys and mouse."""
    expect(bars(page).first).to_be_attached()
    expect(page.get_by_role("status", name=re.compile("Loading|正在加载"))).to_have_count(0)
    idle(page)


def box_of(bar: Locator) -> FloatRect:
    """Where a bar is, once it has come to rest."""
    bar.element_handle().wait_for_element_state("stable")
    box = bar.bounding_box()
    assert box is not None
    return box


def badge(page: Page, name: str) -> str:
    term = page.locator("dt", has_text=re.compile(f"^{name}$")).first
    value = term.locator("xpath=following-sibling::dd")
    expect(value).to_have_text(re.compile(r"^[\d,]+$"))
    return value.inner_text()


def test_every_iteration_has_a_bar_that_keys_and_pointer_read(page: Page, viewer: Viewer) -> None:
    open_chart(page, viewer)
    total = int(badge(page, "Total"))
    expect(bars(page)).to_have_count(min(total, MAX_BARS))
    assert badge(page, "Start") == "0"
    assert badge(page, "Stop") == str(total - 1)
    expect(page.get_by_text("Start-up", exact=True).first).to_be_visible()
    chart(page).focus()
    page.keyboard.press("ArrowRight")
    card = chart(page).get_by_role("status")
    expect(card).to_contain_text("start-up")
    page.keyboard.press("ArrowRight")
    expect(card).to_contain_text("Iteration 1")
    for part in ("Tensor Core kernels", "Idle: CPU ops"):
        expect(card.get_by_role("row", name=re.compile(part)).first).to_be_visible()
    page.keyboard.press("Escape")
    expect(card).to_have_count(0)
    box = box_of(bars(page).nth(5))
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(card).to_contain_text("Iteration 5")


def drag_over(page: Page, first: int, last: int) -> None:
    """Drag with the mouse from one bar to another."""
    left, right = box_of(bars(page).nth(first)), box_of(bars(page).nth(last))
    middle = left["y"] + left["height"] / 2
    page.mouse.move(left["x"] + 1, middle)
    page.mouse.down()
    page.mouse.move(right["x"] + right["width"] - 1, middle, steps=8)
    page.mouse.up()


def test_dragging_and_a_button_zoom_and_the_address_keeps_it(page: Page, viewer: Viewer) -> None:
    open_chart(page, viewer)
    everything = bars(page).count()
    drag_over(page, 5, 10)
    page.get_by_role("button", name="Zoom in").click()
    expect(page).to_have_url(re.compile("zoom=5-10"))
    expect(bars(page)).to_have_count(6)
    page.reload()
    expect(bars(page)).to_have_count(6)
    page.get_by_role("button", name="Reset zoom").click()
    expect(bars(page)).to_have_count(everything)


def test_the_step_without_profiling_can_be_given(page: Page, viewer_to_change: Viewer) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(viewer_to_change.address(aggregation=2))
    summary = page.get_by_role("region", name="What limits a step")
    expect(summary.get_by_role("link", name="Step time (median, as profiled)")).to_be_visible()
    summary.get_by_role("button", name="Times as profiled").click()
    expect(summary.get_by_text("dlprof python train.py")).to_be_visible()
    use = summary.get_by_role("button", name="Use it", exact=True)
    expect(use).to_be_disabled()
    summary.get_by_role("spinbutton", name="the time by the program's own clock").fill("21.5")
    use.click()
    panel = page.get_by_role("region", name="Re-aggregation", exact=True)
    expect(panel.get_by_role("heading", name="Success!")).to_be_visible(timeout=JOB_LIMIT_MS)
    panel.get_by_role("button", name="Show it").click()
    expect(summary.get_by_role("link", name="Step time (without profiling)")).to_be_visible()
    expect(summary).to_contain_text("21.50 ms")
    expect(summary).to_contain_text("ms as profiled")


def test_a_click_on_a_bar_opens_its_kernels_and_escape_ends_a_selection(
    page: Page, viewer: Viewer
) -> None:
    open_chart(page, viewer)
    drag_over(page, 3, 4)
    selection = page.get_by_role("group", name="Iterations 3\u20134 selected")
    expect(selection).to_be_visible()
    chart(page).focus()
    page.keyboard.press("Escape")
    expect(selection).to_have_count(0)
    box = box_of(bars(page).nth(7))
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page).to_have_url(re.compile("view=kernels-by-iteration.*iteration=7"))


def test_bars_are_seen_where_the_system_forces_its_colors(page: Page, viewer: Viewer) -> None:
    page.emulate_media(forced_colors="active")
    page.goto(viewer.address())
    drawn(page)
    for part in (".stacked-bar .part-tc", ".legend .swatch.part-tc"):
        expect(page.locator(part).first).to_have_css("background-color", "rgb(27, 127, 59)")
    cpu = page.locator(".stacked-bar .part-cpu").first
    expect(cpu).to_have_css("background-image", re.compile("gradient"))


def test_a_zoomed_chart_is_moved(page: Page, viewer: Viewer) -> None:
    open_chart(page, viewer, zoom="5-10")
    expect(bars(page)).to_have_count(6)
    page.get_by_role("button", name="Later iterations").click()
    expect(page).to_have_url(re.compile("zoom=8-13"))
    page.get_by_role("button", name="Earlier iterations").click()
    expect(page).to_have_url(re.compile("zoom=5-10"))
    chart(page).focus()
    page.keyboard.press("Shift+ArrowLeft")
    expect(page).to_have_url(re.compile("zoom=2-7"))
    page.keyboard.press("+")
    expect(page).to_have_url(re.compile("zoom=3-5"))
    expect(bars(page)).to_have_count(3)
    idle(page)
    left, right = box_of(bars(page).nth(0)), box_of(bars(page).nth(2))
    page.keyboard.down("Shift")
    page.mouse.move(right["x"] + 2, left["y"] + left["height"] / 2)
    page.mouse.down()
    page.mouse.move(left["x"] + 2, left["y"] + left["height"] / 2, steps=8)
    page.mouse.up()
    page.keyboard.up("Shift")
    expect(page).to_have_url(re.compile("zoom=5-7"))
    expect(bars(page)).to_have_count(3)


def test_the_bounds_follow_keys_wheel_and_typing(page: Page, viewer: Viewer) -> None:
    open_chart(page, viewer)
    start = page.get_by_role("spinbutton", name="Select iteration start")
    start.focus()
    page.keyboard.press("ArrowUp")
    expect(start).to_have_value("1")
    start.hover()
    page.mouse.wheel(0, -100)
    page.mouse.wheel(0, -100)
    expect(start).to_have_value("3")
    expect(page).to_have_url(re.compile("start=3"))
    first = chart(page).locator(".plot-bound").first
    before = first.bounding_box()
    start.fill("6")
    expect(page).to_have_url(re.compile("start=6"))
    page.wait_for_function(
        "([x]) => Math.abs(document.querySelector('.plot-bound')"
        ".getBoundingClientRect().x - x) > 20",
        arg=[before["x"] if before else 0],
    )
    page.get_by_role("spinbutton", name="Select iteration stop").fill("2")
    expect(page.get_by_role("region", name="Re-aggregate", exact=True)).to_contain_text(
        "start iteration is after"
    )
    expect(page.get_by_role("button", name="Reaggregate", exact=True)).to_be_disabled()
    page.get_by_role("button", name="Undo").click()
    expect(start).to_have_value("0")


def test_the_key_node_picker_filters_sorts_and_pages(page: Page, viewer: Viewer) -> None:
    open_chart(page, viewer)
    page.get_by_role("button", name="Choose key node").click()
    dialog = page.get_by_role("dialog", name="Select key node")
    rows = dialog.locator("tbody tr[aria-rowindex]")
    expect(rows).to_have_count(10)
    dialog.get_by_role("button", name="Next page").click()
    expect(rows.first).to_have_attribute("aria-rowindex", "11")
    search = dialog.get_by_role("searchbox", name="Search ops")
    # It finds names: the paths of most ops begin with this one.
    search.fill("iteration #")
    expect(dialog.get_by_text(re.compile(r"^1 of \d+ ops$"))).to_be_visible()
    expect(rows).to_contain_text("ITERATION #_1")
    expect(dialog.get_by_role("radio", name=re.compile("^iteration #"))).to_be_visible()
    search.fill("cross_entropy")
    expect(rows.first).to_contain_text("cross_entropy")
    dialog.get_by_role("columnheader", name="Calls").get_by_role("button").click()
    expect(dialog.get_by_role("columnheader", name="Calls")).to_have_attribute(
        "aria-sort", "descending"
    )
    use = dialog.get_by_role("button", name="Use this key node")
    expect(use).to_be_disabled()
    rows.first.click()
    use.click()
    expect(dialog).to_have_count(0)
    # The name of the op, not its ID.
    expect(page.get_by_role("textbox", name="Select key node")).to_have_value(
        re.compile("/cross_entropy")
    )
    expect(page.get_by_role("button", name="Reaggregate", exact=True)).to_be_enabled()


@pytest.mark.parametrize("theme", ["light", "dark"], indirect=True)
def test_the_key_node_picker_shows_the_candidates(
    page: Page, viewer_to_change: Viewer, theme: str, find_violations: Callable[[Page], list[str]]
) -> None:
    columns = (
        "id, name, kind, key_node, instances, iterations, period, evenness, alike, coverage, "
        "per_optimizer_step, counts, score, is_chosen"
    )
    loader = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    with closing(sqlite3.connect(viewer_to_change.database)) as connection, connection:
        connection.execute("DELETE FROM key_node_candidates")
        connection.executemany(
            f"INSERT INTO key_node_candidates ({columns}) VALUES ({', '.join('?' * 14)})",
            [
                (1, "step #", "step", "step #", 20, 21, 5e7, 91.2, 95.0, 99.8, 1, 1, 93, 0),
                (2, loader, "data loader", loader, 20, 21, 5e7, 90.1, 95.0, 99.1, 1, 0, 88, 1),
                (3, "forward", "forward", "CONV2D_1", 20, 21, 5e7, 80.1, 90.0, 97.1, 1, 0, 61, 0),
                (4, "zero", "gradients", loader, 20, 21, 5e7, 80.1, 90.0, 97.1, 1, 0, 60, 1),
            ],
        )
    open_chart(page, viewer_to_change)
    page.get_by_role("button", name="Choose key node").click()
    dialog = page.get_by_role("dialog", name="Select key node")
    table = dialog.get_by_role("table", name="Candidates for the key node")
    expect(table.locator("tbody tr")).to_have_count(4)
    best, chosen, third, same = (table.locator("tbody tr").nth(place) for place in range(4))
    for part in ("step #", "runner-up", "step range", "21", "91.2 %", "93"):
        expect(best).to_contain_text(part)
    expect(chosen).to_contain_text("chosen")
    expect(chosen.get_by_role("radio")).to_be_checked()
    expect(third).not_to_contain_text("runner-up")
    expect(same).to_contain_text("same steps")
    same.get_by_role("radio").check()
    expect(same.get_by_role("radio")).to_be_checked()
    expect(page.locator("html")).to_have_attribute("data-theme", theme)
    settled(page)
    assert find_violations(page) == []
    use = dialog.get_by_role("button", name="Use this key node")
    expect(use).to_be_disabled()
    third.get_by_role("radio").check()
    use.click()
    expect(page.get_by_role("textbox", name="Select key node")).to_have_value("forward")
    expect(page).to_have_url(re.compile("key_node=CONV2D_1"))


def test_button_leads_to_the_new_aggregation(page: Page, viewer_to_change: Viewer) -> None:
    open_chart(page, viewer_to_change)
    page.get_by_role("spinbutton", name="Select iteration start").fill("4")
    page.get_by_role("spinbutton", name="Select iteration stop").fill("18")
    page.get_by_role("button", name="Reaggregate", exact=True).click()
    panel = page.get_by_role("region", name="Re-aggregation", exact=True)
    expect(panel).to_be_visible()
    # The page may be loaded anew, and another view opened, while the job goes on.
    page.reload()
    expect(panel).to_be_visible()
    drawn(page)
    page.keyboard.press("g")
    page.keyboard.press("d")
    expect(page.get_by_role("region", name="Performance summary")).to_be_visible()
    expect(panel.get_by_role("heading", name="Success!")).to_be_visible(timeout=JOB_LIMIT_MS)
    page.reload()
    expect(panel.get_by_role("heading", name="Success!")).to_be_visible()
    droplist = page.get_by_role("combobox", name="Aggregation")
    expect(droplist.locator("option")).to_have_count(3)
    expect(droplist).to_have_value("1")
    panel.get_by_role("button", name="Show it").click()
    expect(panel).to_have_count(0)
    expect(droplist).to_have_value("3")
    summary = page.get_by_role("region", name="What limits a step")
    expect(summary).to_contain_text("15 of 21")
    expect(summary).to_contain_text("iterations 4\u201318")
    droplist.select_option("1")
    expect(summary).to_contain_text("21 of 21")
    page.go_back()
    expect(summary).to_contain_text("15 of 21")


def test_phases_are_strips_of_the_chart_and_one_of_them_is_aggregated(
    page: Page, viewer_on: Callable[[Path], Viewer], tmp_path: Path
) -> None:
    profile = serving(tmp_path)
    some = profile.aggregate(iter_start=2, iter_stop=6).aggr_id
    viewer = viewer_on(profile.path)
    page.goto(viewer.address(aggregation=1))
    drawn(page)
    # Two prefills and eight decoding steps, by the database.
    strips = chart(page).locator("path[class^=phase-]")
    marks = [len(re.findall("M", path.get_attribute("d") or "")) for path in strips.all()]
    assert marks == [2, 8]
    legend = page.get_by_role("list").filter(has_text="prefill")
    expect(legend.get_by_role("listitem").filter(has_text="decode")).to_be_visible()
    button = page.get_by_role("button", name="Aggregate decode only", exact=True)
    button.click()
    job = page.get_by_role("region", name="Re-aggregation", exact=True)
    expect(job).to_contain_text("All iterations · decode")
    job.get_by_role("button", name="Show it").click(timeout=JOB_LIMIT_MS)
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="decode"))
    expect(row).to_contain_text("8")
    expect(page.get_by_role("rowheader", name="prefill")).to_have_count(0)
    expect(button).to_be_disabled()
    # AND of an aggregation of some iterations, only those.
    page.goto(viewer.address(aggregation=some))
    button.click()
    expect(job).to_contain_text("Iterations 2\u20136 · decode")
    job.get_by_role("button", name="Show it").click(timeout=JOB_LIMIT_MS)
    expect(row).to_contain_text("4")
