"""Several rank files chosen in the page: uploaded, joined, one dashboard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import JOB_LIMIT_MS, Viewer, Watch
from tests.rank_files import make_ranks

RANKS = 4


@pytest.fixture(scope="module")
def rank_files(
    profile: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> list[Path]:
    folder = tmp_path_factory.mktemp("job")
    return make_ranks([profile("simple_no_nvtx")], RANKS, folder, gpus_per_host=2)


@pytest.fixture
def dialog(page: Page, own_viewer: Viewer) -> Locator:
    return opened(page, own_viewer)


def opened(page: Page, viewer: Viewer) -> Locator:
    page.goto(viewer.address())
    page.get_by_role("button", name="Profiles", exact=True).click()
    found = page.get_by_role("dialog", name="Profiles")
    expect(found).to_be_visible()
    return found


def choose(page: Page, files: list[Path]) -> None:
    page.get_by_label("A file on this computer").set_input_files(files)


def ranks_of(viewer: Viewer, name: str) -> list[tuple[int, str]]:
    """Number and file of each rank, from the API."""
    (found,) = [item for item in viewer.get("profiles/")["results"] if item["name"] == name]
    rows = viewer.get(f"profiles/{found['id']}/aggregations/1/ranks/")["results"]
    return [(row["rank"], row["source_file"]) for row in rows]


def test_files_chosen_together_become_one_profile(
    page: Page, own_viewer: Viewer, rank_files: list[Path]
) -> None:
    opened(page, own_viewer)
    choose(page, rank_files)
    expect(page.get_by_text(f"{RANKS} rank files of one job")).to_be_visible()
    expect(page.get_by_label("Rank of rank3.sqlite")).to_have_value("3")
    page.get_by_label("Name (optional)").fill("Four ranks")
    page.get_by_role("button", name="Add", exact=True).click()

    link = page.get_by_role("link", name="Four ranks")
    expect(link).to_be_visible(timeout=JOB_LIMIT_MS)
    link.click()
    page.get_by_role("link", name="GPUs and ranks").click()
    table = page.get_by_role("grid", name="Ranks").or_(page.get_by_role("table", name="Ranks"))
    expect(table.get_by_text("rank3.sqlite")).to_be_visible()
    expect(page.locator(".rank-bar")).to_have_count(RANKS)
    assert ranks_of(own_viewer, "Four ranks") == [
        (number, f"rank{number}.sqlite") for number in range(RANKS)
    ]


def test_who_is_which_rank_can_be_said(
    page: Page, own_viewer: Viewer, dialog: Locator, rank_files: list[Path], tmp_path: Path
) -> None:
    for number, name in enumerate(("left", "right")):
        (tmp_path / f"{name}.sqlite").write_bytes(rank_files[number].read_bytes())
    choose(page, [tmp_path / "left.sqlite", tmp_path / "right.sqlite"])
    add = dialog.get_by_role("button", name="Add", exact=True)
    left, right = page.get_by_label("Rank of left.sqlite"), page.get_by_label("Rank of right")
    expect(left).to_have_value("")
    expect(add).to_be_enabled()
    left.fill("1")
    expect(page.get_by_text("Enter a rank for every file, or for none.")).to_be_visible()
    expect(add).to_be_disabled()
    right.fill("1")
    expect(page.get_by_text("Two files have the same rank.")).to_be_visible()
    right.fill("0")
    page.get_by_label("Name (optional)").fill("Two")
    add.click()
    expect(page.get_by_role("link", name="Two")).to_be_visible(timeout=JOB_LIMIT_MS)
    assert ranks_of(own_viewer, "Two") == [(0, "right.sqlite"), (1, "left.sqlite")]


def test_a_damaged_file_is_named_and_the_others_are_kept(
    page: Page,
    viewer: Viewer,
    rank_files: list[Path],
    tmp_path: Path,
    watch: Watch,
    find_violations: Callable[[Page], list[str]],
) -> None:
    watch.expect("422")
    dialog = opened(page, viewer)
    cut = tmp_path / "rank1.sqlite"
    cut.write_bytes(rank_files[1].read_bytes()[:200_000])
    choose(page, [rank_files[0], cut])
    dialog.get_by_role("button", name="Add", exact=True).click()
    message = page.get_by_text("rank1.sqlite: The file is cut off")
    expect(message).to_be_visible(timeout=JOB_LIMIT_MS)
    expect(page.get_by_label("Rank of rank0.sqlite")).to_have_value("0")
    assert find_violations(page) == []
    page.get_by_role("button", name="Leave out rank1.sqlite").click()
    # One is left: it is no job of ranks.
    expect(page.get_by_text("rank files of one job")).to_have_count(0)
    expect(dialog.get_by_role("button", name="Add", exact=True)).to_be_enabled()
