"""No text is cut off in any window, and every view passes axe on a phone and in forced colors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Viewer, settled

WIDTHS = (390, 768, 1024, 1440, 2560)
VIEWS = (
    *("dashboard", "op-types", "group-ops", "ops", "kernels-by-iteration", "kernels-by-op"),
    *("iterations", "gpus", "roofline", "ranks"),
)

#: Texts that stick out of what cuts them off, or of the window. What can be scrolled to is not cut
#: off, and neither is what ends in an ellipsis and is named in full by a tooltip.
FIND_CUT_OFF = """
() => {
  const isShort = (at, element) => {
    const isNamed = element.closest('[title]') !== null;
    return isNamed || (at === element && getComputedStyle(at).textOverflow === 'ellipsis');
  };
  const cutBy = (element, rect) => {
    for (let at = element; at !== null; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (style.position === 'fixed' && at.tagName !== 'DIALOG') return null;
      if (['auto', 'scroll'].includes(style.overflowX)) return null;
      if (!['hidden', 'clip'].includes(style.overflowX)) continue;
      const box = at.getBoundingClientRect();
      const isCut = rect.right > box.right + 1 || rect.left < box.left - 1;
      if (isCut) return isShort(at, element) ? null : at;
    }
    return rect.right > window.innerWidth + 1 || rect.left < -1 ? document.body : null;
  };
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node !== null; node = texts.nextNode()) {
    const element = node.parentElement;
    if (node.data.trim() === '' || element.closest('.visually-hidden, .skip-link, option, title'))
      continue;
    if (!element.checkVisibility({visibilityProperty: true})) continue;
    // Only read out.
    if (getComputedStyle(element).clipPath === 'inset(50%)') continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const rect of range.getClientRects()) {
      if (rect.width < 1) continue;
      const by = cutBy(element, rect);
      if (by === null) continue;
      found.push(`${node.data.trim().slice(0, 40)} | ${by.tagName}.${by.className} | `
        + `${Math.round(rect.left)}-${Math.round(rect.right)}`);
      break;
    }
  }
  return found;
}
"""


def open_view(page: Page, viewer: Viewer, view: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(viewer.address(view=view))
    expect(page.get_by_role("heading", level=1)).to_be_attached()
    expect(page.get_by_role("status", name="Loading")).to_have_count(0)
    settled(page)


@pytest.mark.parametrize("view", VIEWS)
def test_no_text_is_cut_off(page: Page, viewer_of_two_gpus: Viewer, view: str) -> None:
    found = {}
    for width in WIDTHS:
        open_view(page, viewer_of_two_gpus, view, width)
        found[width] = page.evaluate(FIND_CUT_OFF)
        for wide in ("document.documentElement", "document.querySelector('main')"):
            assert page.evaluate(f"{wide}.scrollWidth - {wide}.clientWidth") <= 0, (wide, width)
    assert found == {width: [] for width in WIDTHS}


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_on_a_phone_passes_axe(
    page: Page,
    viewer_of_two_gpus: Viewer,
    view: str,
    find_violations: Callable[[Page], list[str]],
) -> None:
    open_view(page, viewer_of_two_gpus, view, 390)
    assert find_violations(page) == []


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_in_forced_colors_passes_axe(
    page: Page,
    viewer_of_two_gpus: Viewer,
    view: str,
    find_violations: Callable[[Page], list[str]],
) -> None:
    page.emulate_media(forced_colors="active")
    open_view(page, viewer_of_two_gpus, view, 1440)
    assert find_violations(page) == []


def test_text_that_is_cut_off_would_be_found(page: Page, viewer: Viewer) -> None:
    open_view(page, viewer, "gpus", 1024)
    page.evaluate(
        """
        const box = document.createElement('div');
        box.style = 'width: 20px; overflow: hidden; white-space: nowrap';
        box.textContent = 'A sentence without room';
        document.querySelector('main').prepend(box);
        """
    )
    assert page.evaluate(FIND_CUT_OFF)
