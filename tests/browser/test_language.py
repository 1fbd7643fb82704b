"""English and Chinese: chosen in the bar or by the address, kept, and complete."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import Viewer


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
