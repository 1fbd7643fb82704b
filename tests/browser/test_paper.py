"""What leaves the page: print, and the pictures of the charts."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Viewer, settled

#: Stands in for the browser's dialog: notes what would be on paper.
FAKE_PRINT = """
window.print = () => {
  const area = document.getElementById('print-area');
  window.printed = {
    title: area.querySelector('h1').textContent,
    notes: [...area.querySelectorAll('p')].map((line) => line.textContent),
    header: [...area.querySelectorAll('th')].map((cell) => cell.textContent),
    rows: area.querySelectorAll('tbody tr').length,
  };
  window.dispatchEvent(new Event('afterprint'));
  document.documentElement.dataset.printed = 'yes';
};
"""


def test_print_holds_all_filtered_rows_and_leaves_the_page_as_it_was(
    page: Page, viewer: Viewer
) -> None:
    page.add_init_script(FAKE_PRINT)
    page.goto(viewer.address(view="ops", ops__q="batch_norm", ops__size=10))
    region = page.get_by_role("region", name="Ops", exact=True)
    count = region.get_by_role("status").first
    expect(count).to_have_text(re.compile(r"^\d+ of"))
    expected = int(count.inner_text().split()[0].replace(",", ""))
    region.get_by_role("button", name="Export").click()
    region.get_by_role("button", name="Print").click()
    expect(page.locator("html")).to_have_attribute("data-printed", "yes")
    printed = page.evaluate("window.printed")
    assert printed["rows"] == expected
    assert printed["title"] == "ResNet-50, AMP \u2013 Ops"
    assert "Search “batch_norm”" in printed["notes"]
    assert printed["header"][1] == "GPU time (ns)"
    expect(page.locator("#print-area")).to_have_count(0)


@pytest.mark.parametrize(("label", "beginning"), [("PNG", b"\x89PNG"), ("SVG", b"<svg")])
@pytest.mark.parametrize(
    ("view", "panel"),
    [
        ("dashboard", "Where a step goes"),
        ("dashboard", "Total kernel GPU time"),
        ("iterations", "Iteration chart"),
    ],
)
def test_a_chart_is_saved_as_a_picture(
    page: Page, viewer: Viewer, view: str, panel: str, label: str, beginning: bytes
) -> None:
    page.goto(viewer.address(view=view))
    # A chart that is drawn later moves those below it away from an open menu.
    settled(page)
    region = page.get_by_role("region", name=panel, exact=True)
    region.get_by_role("button", name="Save the chart").click()
    with page.expect_download() as download:
        region.get_by_role("button", name=label).click()
    assert download.value.suggested_filename.startswith("ResNet-50_AMP_")
    assert download.value.path().read_bytes().startswith(beginning)
