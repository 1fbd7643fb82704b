"""The timeline: it shows the events, follows keys and pointer; its totals are those of the API."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from urllib.parse import urlencode

from playwright.sync_api import Page, Request, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

from tests.browser.conftest import WAIT_LIMIT_MS, Viewer, settled
from tests.browser.test_linked_views import get

PAINTED = """() => {
  const canvas = document.querySelector('.timeline-plot canvas');
  const { width, height } = canvas;
  const data = canvas.getContext('2d').getImageData(0, 0, width, height).data;
  return data.some((value, index) => index % 4 === 3 && value > 100);
}"""


def open_timeline(page: Page, viewer: Viewer, **more: str) -> None:
    page.goto(viewer.address(view="timeline", **more))
    expect(page.locator(".timeline[aria-busy=false]")).to_be_visible()
    page.wait_for_function(PAINTED)


def test_timeline_opens_on_three_steps_and_shows_all_that_the_api_has(
    page: Page, viewer: Viewer
) -> None:
    open_timeline(page, viewer)
    timeline = get(viewer, "timeline/")
    three_ms = (timeline["median_stop_ns"] - timeline["median_start_ns"]) / 1e6
    shown = page.get_by_role("region", name="Timeline").locator("header")
    expect(shown).to_contain_text(f"{three_ms:.4g} ms shown")
    page.get_by_role("button", name="Fit all").click()
    expect(page).to_have_url(re.compile("span=all"))
    titles = [
        lane["title"]
        for lane in timeline["lanes"]
        if lane["title"] and lane["is_in_steps"] and lane["kind"] in {"iterations", "work"}
    ]
    assert titles
    for title in titles:
        expect(page.locator(".timeline-label", has_text=title).first).to_be_attached()
    lanes = ",".join(lane["key"] for lane in timeline["lanes"])
    totals = get(
        viewer,
        f"timeline/range/?lanes={lanes}&start_ns={timeline['start_ns']}"
        f"&stop_ns={timeline['stop_ns']}",
    )
    rows = page.get_by_role("group", name="GPU time by kind of work").locator("tbody tr")
    expect(rows).to_have_count(len(totals["categories"]))
    expect(rows.first).to_contain_text(f"{totals['categories'][0]['num_events']:,}")


def test_keys_zoom_and_the_address_keeps_window_and_lanes(page: Page, viewer: Viewer) -> None:
    tiles: list[str] = []

    def note(request: Request) -> None:
        if "timeline/tiles/" in request.url:
            tiles.append(request.url)

    page.on("request", note)
    page.set_viewport_size({"width": 1280, "height": 420})
    open_timeline(page, viewer, **{"timeline.empty": "1"})
    plot = page.locator(".timeline-plot")
    plot.focus()
    # The address has what is shown once it is at rest: none of these may still be to come.
    for _ in range(3):
        before = page.url
        plot.press("w")
        expect(page).not_to_have_url(before)
    settled(page)
    # What was there stays, whatever the address says meanwhile.
    assert tiles
    assert len(tiles) == len(set(tiles))
    page.locator(".timeline-scroll").evaluate("lanes => lanes.scrollTo(0, 57)")
    expect(page).to_have_url(re.compile(r"span=\d+-\d+.*timeline\.top=57"))
    url = page.url
    page.reload()
    expect(page.locator(".timeline[aria-busy=false]")).to_be_visible()
    page.wait_for_function(PAINTED)
    assert page.url == url
    assert page.locator(".timeline-scroll").evaluate("lanes => lanes.scrollTop") == 57
    page.locator(".timeline-plot").press("f")
    expect(page).to_have_url(re.compile("span=all"))


def test_a_range_is_chosen_by_dragging_and_an_event_by_a_click(page: Page, viewer: Viewer) -> None:
    open_timeline(page, viewer)
    box = page.locator(".timeline-plot").bounding_box()
    assert box is not None
    label = page.locator(".timeline-label", has_text="Iterations").bounding_box()
    assert label is not None
    y = label["y"] + 8
    page.mouse.move(box["x"] + 0.5 * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.8 * box["width"], y, steps=4)
    page.mouse.up()
    expect(page.get_by_role("region", name="GPU time in the range")).to_be_visible()
    expect(page).to_have_url(re.compile(r"range=\d+-\d+"))
    page.get_by_role("button", name="Zoom to the range").click()
    expect(page).to_have_url(re.compile(r"span=\d+-\d+"))
    event = page.get_by_role("region", name=re.compile("^Events?$"))
    deadline = time.monotonic() + WAIT_LIMIT_MS / 1000
    # What is not loaded yet is not drawn, and nothing is selected there.
    while not event.is_visible() and time.monotonic() < deadline:
        expect(page.locator(".timeline[aria-busy=false]")).to_be_visible()
        page.mouse.click(box["x"] + 0.5 * box["width"], y)
        with suppress(PlaywrightTimeoutError):
            event.wait_for(timeout=5_000)
    expect(event).to_contain_text("iteration")


def test_an_op_leads_to_its_longest_call_and_back(page: Page, viewer: Viewer) -> None:
    op = get(viewer, "ops/?ordering=-gpu_time_ns&page_size=10")["results"][0]
    page.goto(viewer.address(view="op", op=op["op_id"]))
    page.get_by_role("link", name="Longest in the timeline").click()
    expect(page.get_by_role("region", name="GPU time in the range")).to_be_visible()
    longest = page.get_by_role("region", name="Longest events")
    longest.get_by_title(op["op_name"], exact=True).get_by_role("link").first.click()
    expect(page).to_have_url(re.compile(rf"view=op&.*op={op['op_id']}"))


def test_a_row_of_a_table_leads_to_its_events_by_keys_and_back(page: Page, viewer: Viewer) -> None:
    op = get(viewer, "ops/?ordering=-gpu_time_ns&page_size=10")["results"][0]
    count = get(viewer, f"timeline/hits/?op={op['op_id']}")["count"]
    page.goto(viewer.address(view="ops"))
    # Not that of the kernels, which may be loaded first.
    row = page.get_by_role("region", name="Ops", exact=True).locator("tbody tr[data-index='0']")
    row.focus()
    row.press("l")
    expect(page).to_have_url(re.compile(r"event=gpu.*timeline\.show=op"))
    event = page.get_by_role("region", name="Event", exact=True)
    expect(event).to_contain_text(op["op_name"])
    expect(event).to_contain_text("launched by")
    selected = page.locator(".timeline-count")
    expect(selected).to_contain_text(f"of {count}")
    page.get_by_role("button", name="First", exact=True).click()
    expect(selected).to_contain_text(f"1 of {count}")
    page.get_by_role("button", name="Next event").click()
    expect(selected).to_contain_text(f"2 of {count}")
    event.get_by_role("link", name="In the table of ops").click()
    expect(page).to_have_url(re.compile("view=ops"))
    expect(page.get_by_role("region", name="Ops").locator("tbody tr")).to_have_count(1)


def test_chosen_event_leads_to_its_op_by_the_path(page: Page, viewer: Viewer) -> None:
    op = get(viewer, "ops/?ordering=-gpu_time_ns&page_size=10")["results"][0]
    show = f"op={op['op_id']}"
    page.goto(viewer.address(view="timeline", timeline__at="longest", timeline__show=show))
    event = page.get_by_role("region", name="Event", exact=True)
    event.get_by_role("link", name=op["op_name"], exact=True).click()
    expect(page).to_have_url(re.compile(rf"view=op&.*op={op['op_id']}"))


def test_search_finds_the_name_that_a_table_shows_and_enter_zooms_to_it(
    page: Page, viewer: Viewer
) -> None:
    kernel = get(viewer, "merged-kernels/?ordering=-gpu_time_ns&page_size=10")["results"][0]
    count = get(viewer, f"timeline/hits/?{urlencode({'search': kernel['readable_name']})}")["count"]
    open_timeline(page, viewer)
    search = page.get_by_role("searchbox", name="Find events by name or op")
    search.fill(kernel["readable_name"])
    found = page.locator(".timeline-count")
    expect(found).to_contain_text(f"{count:,} events")
    search.press("Enter")
    expect(found).to_contain_text(f"of {count:,}")
    event = page.get_by_role("region", name="Event", exact=True)
    expect(event.locator("strong")).to_contain_text(kernel["readable_name"])
    before = page.url
    search.press("Enter")
    expect(page).not_to_have_url(before)


def test_all_events_are_a_table_and_a_trace(page: Page, viewer: Viewer) -> None:
    open_timeline(page, viewer, **{"timeline.tab": "events", "span": "all"})
    total = get(viewer, "timeline/events/?page_size=10")["count"]
    expect(page.get_by_role("region", name="Events")).to_contain_text(f"{total:,} events")
    link = page.get_by_role("link", name="Perfetto")
    expect(link).to_have_attribute("href", re.compile("timeline/perfetto/"))
