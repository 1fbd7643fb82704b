"""What leaves the page: print, and the pictures of the charts."""

from __future__ import annotations

import re
import struct
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from tests.browser.conftest import Viewer, settled

#: A sheet without margins. Unit: px of CSS.
A4: ViewportSize = {"width": 794, "height": 1123}
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
    assert printed["header"][1] == "GPU time (ns total)"
    expect(page.locator("#print-area")).to_have_count(0)


#: The text of a chart, without blanks and what only screen readers say.
SHOWN_TEXT = """chart => {
  const copy = chart.cloneNode(true);
  copy.querySelectorAll('.visually-hidden').forEach((part) => part.remove());
  return copy.textContent.replace(/\\s/g, '');
}"""


def saved(page: Page, panel: str, label: str) -> bytes:
    region = page.get_by_role("region", name=panel, exact=True)
    region.get_by_role("button", name="Save the chart").click()
    with page.expect_download() as download:
        region.get_by_role("button", name=label).click()
    assert download.value.suggested_filename.endswith(f"_aggregation1.{label.lower()}")
    page.keyboard.press("Escape")
    return download.value.path().read_bytes()


@pytest.mark.parametrize(
    ("view", "panel", "chart"),
    [
        ("dashboard", "What limits a step", ".stacked"),
        ("iterations", "Iteration chart", ".chart"),
        ("roofline", "Roofline of the ops", ".points"),
    ],
)
def test_saved_picture_shows_what_the_chart_shows(
    page: Page, viewer_of_two_gpus: Viewer, view: str, panel: str, chart: str
) -> None:
    page.goto(viewer_of_two_gpus.address(view=view, aggregation=1))
    # A chart that is drawn later moves those below it away from an open menu.
    settled(page)
    drawing = page.get_by_role("region", name=panel, exact=True).locator(chart)
    expect(drawing).to_be_visible(timeout=10_000)
    svg = ElementTree.fromstring(saved(page, panel, "SVG"))
    assert "".join("".join(svg.itertext()).split()) == drawing.evaluate(SHOWN_TEXT)
    png = saved(page, panel, "PNG")
    # The header has the size: twice that of the drawing, to be sharp in print.
    width, height = struct.unpack(">II", png[16:24])
    assert width == pytest.approx(2 * float(svg.attrib["width"]), abs=2)
    assert height == pytest.approx(2 * float(svg.attrib["height"]), abs=2)


@pytest.mark.parametrize("view", ["dashboard", "ops"])
def test_nothing_is_wider_than_the_paper(page: Page, viewer: Viewer, view: str) -> None:
    page.set_viewport_size(A4)
    page.goto(viewer.address(view=view))
    settled(page)
    page.emulate_media(media="print")
    wide = page.evaluate(
        """() => [...document.querySelectorAll('main *')]
            .filter((one) => one.checkVisibility() && !one.closest('.visually-hidden'))
            .filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
            .map((one) => `${one.tagName}.${one.className}`)"""
    )
    assert wide == []
