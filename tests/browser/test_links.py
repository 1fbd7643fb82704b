"""A link shows what its sender sees, and a view shows again what it showed before."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import Viewer, Watch, settled

#: Chooses one after the other before a frame is drawn; the number of addresses that this makes.
#: A page that goes on making them is stopped, or the test would wait without end.
CHOOSE_WITHIN_A_FRAME = """
async (select, values) => {
  let count = 0;
  window.addEventListener('dlprof:navigated', () => {
    count += 1;
    if (count === 20) window.dispatchEvent = () => true;
  });
  for (const value of values) {
    select.value = value;
    select.dispatchEvent(new Event('change', {bubbles: true}));
    await null;
  }
  return count;
}
"""


def test_a_view_is_shown_as_it_was_left(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address(view="ops", ops__q="conv", ops__page=2, ops__size=10))
    settled(page)
    before = page.url
    views = page.get_by_role("navigation", name="Views")
    views.get_by_role("link", name="GPUs").click()
    expect(page).to_have_url(re.compile("view=gpus"))
    expect(page).not_to_have_url(re.compile("ops.q"))
    views.get_by_role("link", name="Ops and kernels").click()
    expect(page).to_have_url(before)
    # Opened once more from itself, it starts afresh.
    views.get_by_role("link", name="Ops and kernels").click()
    expect(page).not_to_have_url(re.compile("ops.q"))


def test_of_two_choices_within_a_frame_the_last_one_counts(page: Page, viewer: Viewer) -> None:
    """As on a busy machine, where a frame is long; all answers are there already."""
    page.goto(viewer.address(aggregation=2))
    settled(page)
    aggregation = page.get_by_role("combobox", name="Aggregation")
    for chosen in ("1", "2"):
        aggregation.select_option(chosen)
        settled(page)
    made = aggregation.evaluate(CHOOSE_WITHIN_A_FRAME, ["1", "2"])
    assert made == 2
    expect(aggregation).to_have_value("2")
    expect(page).to_have_url(re.compile("aggregation=2"))


def test_an_unknown_path_is_an_error_page_with_the_way_back(
    page: Page, viewer: Viewer, watch: Watch
) -> None:
    watch.expect("status of 404")
    page.goto(f"{viewer.url}/foo")
    error = page.get_by_role("alert")
    expect(error).to_contain_text("There is no page at /foo.")
    error.get_by_role("button", name="Open the dashboard").click()
    expect(page.get_by_role("heading", name="Dashboard")).to_have_count(1)
