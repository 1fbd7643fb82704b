"""The page behind the info icons: what each column means, read without any other host."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Viewer


@pytest.mark.parametrize("theme", ["light", "dark"], indirect=True)
def test_a_table_explains_its_columns(
    page: Page, viewer: Viewer, theme: str, find_violations: Callable[[Page], list[str]]
) -> None:
    page.goto(viewer.address(view="op-types"))
    page.get_by_role("button", name="What the columns mean").click()
    dialog = page.get_by_role("dialog", name="Op type summary")
    expect(dialog).to_contain_text("CPU overhead")
    expect(page).to_have_url(re.compile("docs=op-types"))
    assert find_violations(page) == []
    page.reload()
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page).not_to_have_url(re.compile("docs="))


def test_an_info_icon_leads_to_the_page_of_its_view(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address())
    about = page.get_by_role("button", name="About Tensor Core use").first
    about.focus()
    expect(page.get_by_role("tooltip")).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Dashboard")).to_contain_text("What limits a step")
