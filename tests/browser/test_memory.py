"""The view of memory: its curve follows keys and pointer, its tables are those of the API."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from profiler_cli.dlprof import main
from tests.browser.conftest import Viewer, settled
from tests.browser.test_linked_views import get
from tests.browser.test_widths import FIND_CUT_OFF, WIDTHS
from tests.memory.test_recorded import unpacked


@pytest.fixture(scope="module")
def recorded(
    viewer_on: Callable[[Path], Viewer],
    demo_database: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Viewer:
    folder = tmp_path_factory.mktemp("memory")
    database = Path(shutil.copy(demo_database, folder / "dlprof_dldb.sqlite"))
    snapshot = unpacked("transformer.pickle", folder)
    assert main(["memory", str(snapshot), f"--into={database}"]) == 0
    return viewer_on(database)


def open_memory(page: Page, viewer: Viewer, **more: str) -> None:
    page.goto(viewer.address(view="memory", **more))
    expect(page.locator(".memory-drawing path").first).to_be_visible()
    expect(page.get_by_role("status", name="Loading")).to_have_count(0)


@pytest.mark.parametrize("theme", ["light", "dark"], indirect=True)
def test_the_view_opens_and_axe_finds_nothing(
    page: Page, recorded: Viewer, theme: str, find_violations: Callable[[Page], list[str]]
) -> None:
    open_memory(page, recorded)
    expect(page.locator("html")).to_have_attribute("data-theme", theme)
    assert find_violations(page) == []


def test_no_text_is_cut_off(page: Page, recorded: Viewer) -> None:
    found = {}
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        open_memory(page, recorded)
        settled(page)
        if cut := page.evaluate(FIND_CUT_OFF):
            found[width] = cut
    assert found == {}


def test_the_tables_show_the_peak_first_and_then_the_chosen_moment(
    page: Page, recorded: Viewer
) -> None:
    open_memory(page, recorded)
    peak = page.get_by_role("region", name="At the peak")
    expect(peak).to_contain_text("6.88 GB allocated of 7.02 GB reserved")
    plot = page.get_by_role("slider")
    plot.press("End")
    expect(page.get_by_role("region", name="At this moment")).to_be_visible()
    (found,) = get(recorded, "memory/")["recordings"]
    alive = get(recorded, f"memory/alive/?event={found['num_events'] - 1}")
    owners = page.get_by_role("region", name="Who holds it").get_by_role("row")
    expect(owners).to_have_count(len(alive["owners"]) + 1)
    plot.press("Home")
    expect(plot).to_have_attribute("aria-valuenow", "0")
    plot.press("ArrowRight")
    expect(plot).not_to_have_attribute("aria-valuenow", "0")
    plot.press("ArrowLeft")
    expect(plot).to_have_attribute("aria-valuenow", "0")
    page.get_by_role("button", name="Go to the peak").click()
    expect(peak).to_be_visible()
    holders = page.get_by_role("region", name="Who holds it")
    holders.locator("summary").first.click()
    expect(holders.locator(".memory-stack li").first).to_be_visible()
    page.get_by_role("button", name="Step 4", exact=True).click()
    page.wait_for_url("**event=**")
    expect(page.get_by_role("region", name="At this moment")).to_be_visible()


def test_dragging_shows_a_part_and_its_highest_moment(page: Page, recorded: Viewer) -> None:
    open_memory(page, recorded)
    box = page.locator(".memory-brush").bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.62 * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.7 * box["width"], y)
    expect(page.locator(".memory-marked")).to_be_visible()
    page.mouse.move(box["x"] + 0.75 * box["width"], y)
    page.mouse.up()
    page.wait_for_url("**span=**")
    expect(page.locator(".memory-marked")).to_have_count(0)
    expect(page.get_by_role("slider")).not_to_have_attribute("aria-valuemin", "0")
    low, high = (
        int(page.get_by_role("slider").get_attribute(f"aria-value{end}") or 0)
        for end in ("min", "max")
    )
    (found,) = get(recorded, "memory/")["recordings"]
    curve = get(recorded, f"memory/curve/?low={low}&high={high}&pixels=2000")
    assert 0.6 * found["stop"] < low < high < 0.77 * found["stop"]
    highest = max(curve["allocated_bytes"])
    expect(
        page.get_by_role("region", name="At this moment").or_(
            page.get_by_role("region", name="At the peak")
        )
    ).to_contain_text(f"{highest / 1e9:.2f} GB allocated")
    page.get_by_role("button", name="Show all").click()
    expect(page.get_by_role("slider")).to_have_attribute("aria-valuemax", str(found["stop"]))
