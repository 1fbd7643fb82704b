"""English and Chinese: chosen in the bar or by the address, kept, and complete."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Viewer

CHINESE = re.compile("[\u4e00-\u9fff]")
#: What is called the same in Chinese.
SAME = re.compile(
    r"DLProf Viewer|English|Tensor Cores?|GPUs?|CPU|TC|I/O|PNG|SVG|CSV|JSON|Excel|PDF"
)


def test_the_language_is_chosen_kept_and_given_back(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address(view="ops", ops__q="conv2d"))
    page.get_by_role("combobox", name="Language").select_option("zh")
    expect(page.get_by_role("link", name="仪表板")).to_be_visible()
    expect(page.locator("html")).to_have_attribute("lang", "zh")
    expect(page).to_have_url(re.compile("ops.q=conv2d"))
    page.goto(viewer.address())
    expect(page.get_by_role("region", name="性能汇总")).to_be_visible()
    page.get_by_role("combobox", name="语言").select_option("en")
    expect(page.get_by_role("region", name="Performance summary")).to_be_visible()


#: Every text that is shown or read out, but names that come from the profile and code.
EVERY_TEXT = """
() => {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim();
    if (!walker.currentNode.parentElement.closest('code, pre, script, noscript, option, .name'))
      found.push(text);
  }
  for (const one of document.querySelectorAll('[title], [aria-label], [placeholder]'))
    for (const name of ['title', 'aria-label', 'placeholder'])
      found.push(one.getAttribute(name) ?? '');
  return found;
}
"""
SENTENCE = re.compile(r"[A-Za-z]{2,}(?: [a-z]{2,}){3,}")


@pytest.fixture(scope="module")
def viewer_of_nvidia(viewer_on: Callable[[Path], Viewer], golden_dir: Path) -> Viewer:
    """A database with much data missing, so full of reasons."""
    return viewer_on(golden_dir / "dlprof_dldb.sqlite")
