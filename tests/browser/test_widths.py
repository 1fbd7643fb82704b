"""No text is cut off or covered in any window; axe passes views on phones and without colors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import FloatRect, Locator, Page, expect

from tests.browser.conftest import Viewer, resize, settled
from tests.browser.test_linked_views import get

#: Widths that a page is opened at, each with those that its window then gets.
WIDTHS = {390: (768,), 1440: (2560, 1024, 768, 720, 390)}
#: Zoomed to 200 %, a window of 1440 x 900 has this many pixels of the page.
ZOOMED_HEIGHTS = {720: 450}
VIEWS = (
    *("dashboard", "op-types", "group-ops", "ops", "kernels-by-iteration", "kernels-by-op"),
    *("iterations", "timeline", "gpus", "critical-path", "roofline", "ranks", "compare", "history"),
    *("op", "kernel"),
)

#: Texts that stick out of what cuts them off, of their panel, or of the window. What can be
#: scrolled to is not cut off, and neither is what ends in an ellipsis and has a full tooltip.
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
      const isFrame = at.matches('.panel, .kpi, fieldset');
      if (!isFrame && !['hidden', 'clip'].includes(style.overflowX)) continue;
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

#: Buttons whose text does not fit into them, unless it ends in an ellipsis and has a full tooltip.
FIND_CUT_BUTTONS = """
() => [...document.querySelectorAll('button, .button, .tab')]
  .filter((one) => one.checkVisibility() && one.textContent.trim() !== '')
  .filter((one) => one.scrollWidth > one.clientWidth + 1 && !one.matches('.nav-link, .link-button'))
  .filter((one) => getComputedStyle(one).display !== 'inline')
  .filter((one) => one.title === '' || getComputedStyle(one).textOverflow !== 'ellipsis')
  .map((one) => `${one.textContent.trim()} | ${one.scrollWidth} > ${one.clientWidth}`)
"""

#: Texts and controls of the content that lie over each other, as far as both are in sight.
FIND_COVERED = """
() => {
  const inSight = (element, rect) => {
    let {left, right, top, bottom} = rect;
    for (let at = element; at.tagName !== 'MAIN'; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (style.opacity === '0' || style.clipPath === 'inset(50%)') return null;
      if (style.display === 'inline' || style.overflow === 'visible') continue;
      const box = at.getBoundingClientRect();
      left = Math.max(left, box.left);
      right = Math.min(right, box.right);
      top = Math.max(top, box.top);
      bottom = Math.min(bottom, box.bottom);
    }
    return right - left > 2 && bottom - top > 3 ? {left, right, top, bottom} : null;
  };
  const parts = [];
  const add = (element, rects, text) => {
    const isLeftOut = element.closest('svg, .visually-hidden, option') !== null;
    if (isLeftOut || !element.checkVisibility({visibilityProperty: true})) return;
    for (const rect of rects) {
      const seen = inSight(element, rect);
      if (seen !== null) parts.push({element, text, ...seen});
    }
  };
  const main = document.querySelector('main');
  for (const control of main.querySelectorAll('button, a[href], input, select, output'))
    add(control, control.getClientRects(), control.getAttribute('aria-label') ?? control.tagName);
  const texts = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node !== null; node = texts.nextNode()) {
    if (node.data.trim() === '') continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    add(node.parentElement, range.getClientRects(), node.data.trim().slice(0, 40));
  }
  parts.sort((a, b) => a.top - b.top);
  const found = [];
  parts.forEach((one, place) => {
    for (let next = place + 1; next < parts.length && parts[next].top < one.bottom - 3; next++) {
      const other = parts[next];
      if (one.element.contains(other.element) || other.element.contains(one.element)) continue;
      if (Math.min(one.right, other.right) - Math.max(one.left, other.left) > 2)
        found.push(`${one.text} | ${other.text} | ${Math.round(other.left)},${other.top}`);
    }
  });
  return found;
}
"""


def query_of(viewer: Viewer, view: str) -> dict[str, str]:
    """What the address of a view says beside its name, so that the view is filled."""
    if view == "compare":
        return {"base": f"{viewer.profile or viewer.get('profiles/')['results'][0]['id']}@1"}
    if view == "op":
        return {"op": str(get(viewer, "top-ops/")["results"][0]["op_id"])}
    if view == "kernel":
        return {"kernel": str(get(viewer, "top-kernels/")["results"][0]["kernel_long_name"])}
    return {}


def open_view(page: Page, viewer: Viewer, view: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(viewer.address(view=view, **query_of(viewer, view)))
    expect(page.get_by_role("heading", level=1)).to_be_attached()
    expect(page.get_by_role("status", name="Loading")).to_have_count(0)
    settled(page)


@pytest.mark.parametrize("opened", WIDTHS)
@pytest.mark.parametrize("view", VIEWS)
def test_no_text_is_cut_off_or_covered(
    page: Page, viewer_of_two_gpus: Viewer, view: str, opened: int
) -> None:
    found = {}
    open_view(page, viewer_of_two_gpus, view, opened)
    for width in (opened, *WIDTHS[opened]):
        if width != opened:
            resize(page, width, ZOOMED_HEIGHTS.get(width, 900))
            settled(page)
        scripts = (FIND_CUT_OFF, FIND_COVERED, FIND_CUT_BUTTONS)
        found[width] = [text for script in scripts for text in page.evaluate(script)]
        for wide in ("document.documentElement", "document.querySelector('main')"):
            assert page.evaluate(f"{wide}.scrollWidth - {wide}.clientWidth") <= 0, (wide, width)
    assert {width: texts for width, texts in found.items() if texts} == {}


#: Labels of a rank's bar that are seen, and those of them that are cut off.
FIND_LABELS = """
() => {
  const labels = [...document.querySelectorAll('.rank-bar .stacked-bar > span')].map((part) => {
    const range = document.createRange();
    range.selectNodeContents(part);
    return [part.getBoundingClientRect(), range.getBoundingClientRect(), part.textContent];
  }).filter(([part, text]) => text.top < part.bottom);
  const isCut = ([part, text]) => text.left < part.left - 1 || text.right > part.right + 1;
  return [labels.length, labels.filter(isCut).map(([, , text]) => text)];
}
"""


def test_bars_and_tools_on_a_phone_have_no_cut_labels_and_no_blank_lines(
    page: Page, viewer_of_two_gpus: Viewer
) -> None:
    open_view(page, viewer_of_two_gpus, "ranks", 390)
    shown, cut = page.evaluate(FIND_LABELS)
    assert (shown > 0, cut) == (True, [])
    open_view(page, viewer_of_two_gpus, "iterations", 390)
    controls = page.locator(".chart-tools :is(.segmented, .button, .icon-button)")
    heights = [box["height"] for box in map(_box, controls.all())]
    assert _box(page.locator(".chart-tools"))["height"] < 3 * max(heights)


def _box(part: Locator) -> FloatRect:
    box = part.bounding_box()
    assert box is not None
    return box


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_on_a_phone_passes_axe(
    page: Page,
    viewer_of_two_gpus: Viewer,
    view: str,
    find_violations: Callable[[Page], list[str]],
) -> None:
    open_view(page, viewer_of_two_gpus, view, 390)
    assert find_violations(page) == []


@pytest.mark.parametrize("theme", ["light", "dark"], indirect=True)
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_in_forced_colors_passes_axe(
    page: Page,
    viewer_of_two_gpus: Viewer,
    view: str,
    theme: str,
    find_violations: Callable[[Page], list[str]],
) -> None:
    page.emulate_media(forced_colors="active")
    open_view(page, viewer_of_two_gpus, view, 1440)
    assert find_violations(page) == []


def test_what_is_cut_off_or_covered_would_be_found(page: Page, viewer: Viewer) -> None:
    open_view(page, viewer, "gpus", 1024)
    prepend = """
        ([tag, style, text]) => {
            const one = document.createElement(tag);
            Object.assign(one, {style, textContent: text, type: 'range'});
            document.querySelector('main').prepend(one);
        }
    """
    narrow = "width: 20px; overflow: hidden; white-space: nowrap"
    for find, parts in (
        (FIND_CUT_OFF, [("div", narrow, "A sentence without room")]),
        (FIND_CUT_BUTTONS, [("button", narrow, "A long word")]),
        (FIND_COVERED, [("input", "display: block; margin-top: -18px", ""), ("p", "", "A word")]),
    ):
        assert not page.evaluate(find)
        for part in parts:
            page.evaluate(prepend, part)
        assert page.evaluate(find)
        for _ in parts:
            page.evaluate("document.querySelector('main').firstElementChild.remove()")
