"""Adding, renaming and deleting profiles in the page."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import JOB_LIMIT_MS, Viewer, Watch


def _open(page: Page, viewer: Viewer, **query: str) -> None:
    page.goto(viewer.address(**query))
    page.get_by_role("button", name="Profiles", exact=True).click()
    expect(page.get_by_role("dialog", name="Profiles")).to_be_visible()


def _names(viewer: Viewer) -> list[str]:
    return [item["name"] for item in viewer.get("profiles/")["results"]]


@pytest.mark.parametrize("theme", ["light", "dark"], indirect=True)
def test_the_dialog_is_accessible(
    page: Page, viewer: Viewer, theme: str, find_violations: Callable[[Page], list[str]]
) -> None:
    _open(page, viewer)
    expect(page.get_by_role("link", name="ResNet-50, AMP")).to_be_visible()
    item = viewer.get("profiles/")["results"][0]
    row = page.get_by_role("dialog").get_by_role("listitem").filter(has_text="ResNet-50, AMP")
    for fact in (item["gpu_name"], item["framework"], "21 iterations", str(viewer.database)):
        expect(row).to_contain_text(fact)
    assert find_violations(page) == []
    page.get_by_role("button", name="Remove ResNet-50, AMP from the list").click()
    # The file is named with its folder: many profiles have the same file name.
    expect(page.get_by_text(f"Its file {viewer.database} stays where it is.")).to_be_visible()
    assert find_violations(page) == []
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_nothing_moves_under_the_pointer_when_the_list_comes(page: Page, viewer: Viewer) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(re.compile(r"/jobs/\?kind"), hold)
    _open(page, viewer)
    dialog = page.get_by_role("dialog", name="Profiles")
    button = dialog.get_by_role("button", name="Add", exact=True)
    before = button.bounding_box()
    while not held:
        page.wait_for_timeout(10)
    for route in held:
        route.continue_()
    expect(dialog.get_by_role("listitem").first).to_be_visible()
    assert button.bounding_box() == before


def test_an_export_is_uploaded_imported_renamed_and_deleted(
    page: Page, own_viewer: Viewer, profile: Callable[[str], Path], tmp_path: Path
) -> None:
    export = tmp_path / "second run.sqlite"
    shutil.copyfile(profile("pytorch_resnet50_amp"), export)
    _open(page, own_viewer)
    page.get_by_label("A file on this computer").set_input_files(export)
    page.get_by_label("Name (optional)").fill("Second run")
    page.get_by_role("button", name="Add", exact=True).click()

    link = page.get_by_role("link", name="Second run")
    expect(link).to_be_visible(timeout=JOB_LIMIT_MS)
    assert "Second run" in _names(own_viewer)

    page.get_by_role("button", name="Rename Second run").click()
    page.get_by_label("New name").fill("Third run")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("link", name="Third run")).to_be_visible()
    page.get_by_role("link", name="Third run").click()
    expect(page).to_have_url(re.compile("profile=second-run"))
    expect(page.get_by_role("heading", level=1, name="Dashboard")).to_be_attached()

    expect(page.get_by_role("status", name="Loading")).to_have_count(0)
    page.get_by_role("button", name="Profiles", exact=True).click()
    page.get_by_role("button", name="Delete Third run").click()
    expect(page.get_by_text("which will be deleted for good")).to_be_visible()
    page.get_by_role("button", name="Delete the file", exact=True).click()
    # The question stands in the link's place until the server has answered.
    expect(page.get_by_text("which will be deleted for good")).to_have_count(0)
    expect(page.get_by_role("link", name="Third run")).to_have_count(0)
    assert _names(own_viewer) == ["ResNet-50, AMP"]
    # The page that showed it goes to one that is there.
    page.get_by_role("button", name="Close").click()
    expect(page.get_by_role("heading", level=1, name="Dashboard")).to_be_attached()


def test_an_upload_that_breaks_off_can_be_sent_again(
    page: Page, own_viewer: Viewer, profile: Callable[[str], Path], watch: Watch
) -> None:
    watch.expect("net::ERR|Failed to load")
    _open(page, own_viewer)
    page.route(re.compile("/uploads/"), lambda route: route.abort(), times=1)
    page.get_by_label("A file on this computer").set_input_files(profile("pytorch_resnet50_amp"))
    page.get_by_label("Name (optional)").fill("Again")
    add = page.get_by_role("button", name="Add", exact=True)
    add.click()
    form = page.get_by_role("form", name="Add a profile")
    expect(form.get_by_text("The viewer's server does not respond.")).to_be_visible()

    add.click()

    expect(page.get_by_role("link", name="Again")).to_be_visible(timeout=JOB_LIMIT_MS)


def test_a_file_and_a_path_replace_each_other_and_no_profile_is_refused(
    page: Page, viewer: Viewer, tmp_path: Path, watch: Watch
) -> None:
    watch.expect("422")
    _open(page, viewer)
    chosen = page.get_by_label("A file on this computer")
    path = page.get_by_label("Or a path on the server")
    add = page.get_by_role("button", name="Add", exact=True)
    expect(add).to_be_disabled()
    path.fill("/runs/other.sqlite")
    expect(add).to_be_enabled()

    letter = tmp_path / "letter.sqlite"
    letter.write_text("Dear aunt,")
    chosen.set_input_files(letter)
    expect(path).to_have_value("")
    expect(add).to_be_enabled()

    path.fill("/runs/other.sqlite")
    expect(chosen).to_have_value("")
    expect(add).to_be_enabled()

    chosen.set_input_files(letter)
    add.click()
    expect(page.get_by_text("The file is no profile")).to_be_visible()
    assert _names(viewer) == ["ResNet-50, AMP"]
