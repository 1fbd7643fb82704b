"""One viewer on several databases."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import MakeDatabase, StartViewer, Viewer, Watch, idle, settled


@pytest.fixture(scope="module")
def folder(
    demo_database: Path,
    make_database: MakeDatabase,
    profile: Callable[[str], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """Two profiles."""
    found = tmp_path_factory.mktemp("profiles")
    (found / "resnet.sqlite").write_bytes(demo_database.read_bytes())
    other = make_database(profile("nvtx_domains"), "--profile_name=Domains")
    (found / "domains.sqlite").write_bytes(other.read_bytes())
    return found


@pytest.fixture(scope="module")
def several(start_viewer: StartViewer, folder: Path) -> Viewer:
    return start_viewer(folder / "resnet.sqlite", folder / "domains.sqlite")


def test_profiles_are_switched_and_the_address_keeps_it(page: Page, several: Viewer) -> None:
    page.goto(several.address(view="ops"))
    picker = page.get_by_role("combobox", name="Profile")
    expect(picker.locator("option")).to_have_count(2)
    names = set(picker.locator("option").all_inner_texts())
    assert names == {"ResNet-50, AMP", "Domains"}
    picker.select_option(label="Domains")
    expect(page).to_have_title(re.compile("Domains"))
    expect(page).to_have_url(re.compile("profile=.*view=ops|view=ops.*profile="))
    domains = page.get_by_role("combobox", name="Domain")
    expect(domains.locator("option")).not_to_have_count(1)
    domains.select_option("Loop")
    expect(page).to_have_url(re.compile("domain=Loop"))
    # What the other profile does not have goes.
    picker.select_option(label="ResNet-50, AMP")
    expect(page).to_have_title(re.compile("ResNet-50, AMP"))
    expect(page).not_to_have_url(re.compile("domain=Loop"))
    expect(page.get_by_role("alert")).to_have_count(0)
    page.reload()
    expect(page).to_have_title(re.compile("ResNet-50, AMP"))
    page.go_back()
    expect(page).to_have_title(re.compile("Domains"))


def test_a_late_list_of_aggregations_is_waited_for(page: Page, several: Viewer) -> None:
    """The profile's own answer comes first: the list of the other profile must not count."""
    page.goto(several.address())
    picker = page.get_by_role("combobox", name="Profile")
    resnet = picker.locator("option", has_text="ResNet-50").get_attribute("value")
    page.goto(several.address(view="dashboard", profile=str(resnet)))
    expect(page).to_have_url(re.compile("aggregation=2"))
    held: list[Route] = []

    def hold(route: Route) -> None:  # Playwright takes no method of a built-in type
        held.append(route)

    page.route(re.compile(r"/aggregations/\?"), hold)
    with page.expect_response(re.compile(r"/profiles/domains[^/]*/$")):
        picker.select_option(label="Domains")
    while not held:
        page.wait_for_timeout(10)
    idle(page)
    for route in held:
        route.continue_()
    expect(page.get_by_role("combobox", name="Domain")).to_be_visible()
    expect(page).to_have_url(re.compile("aggregation=1"))
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_lost_file_leads_to_the_other_profiles(
    page: Page, several: Viewer, folder: Path, watch: Watch
) -> None:
    watch.expect(r"status of 4\d\d")
    page.goto(several.address())
    expect(page.get_by_role("region", name="Performance summary")).to_be_visible()
    settled(page)
    (folder / "resnet.sqlite").unlink()
    page.reload()
    found = page.get_by_role("alert")
    title = "DLProf database not found"
    expect(found.get_by_role("heading", name=title, exact=True)).to_be_visible()
    others = found.get_by_role("link")
    expect(others).to_have_count(2)
    others.nth(1).click()
    expect(page.get_by_role("region", name="Performance summary")).to_be_visible()
