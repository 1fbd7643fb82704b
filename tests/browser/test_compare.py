"""The views that compare profiles, and show what they did over time."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from aggregator.answers.trials import Prediction, RememberedTrial, remember, trials_file
from tests.browser.conftest import StartViewer, Viewer, Watch


@pytest.mark.parametrize("theme", ["light", "dark"], indirect=True)
def test_two_aggregations_are_compared(
    page: Page, viewer: Viewer, theme: str, find_violations: Callable[[Page], list[str]]
) -> None:
    page.goto(viewer.address(view="compare", aggregation=2))
    expect(page.get_by_text("Choose what to compare with")).to_be_visible()
    options = page.get_by_label("Add a capture: Base").locator("option")
    wanted = options.nth(1).get_attribute("value") or ""
    assert wanted.endswith(("@1", "@2"))
    page.get_by_label("Add a capture: Base").select_option(re.sub("@.*", "@1", wanted))
    expect(page.get_by_text("95 % interval of the difference").first).to_be_visible()
    waterfall = page.get_by_role("img", name="From the base step to the new step, class by class")
    values = [
        float(text.replace("\N{MINUS SIGN}", "-").replace(",", "").removesuffix(" ms"))
        for text in waterfall.locator("text:not(.compare-name)").all_text_contents()
    ]
    assert values[0] + sum(values[1:-1]) == pytest.approx(values[-1], abs=1e-6)
    rows = page.locator(".compare-rows tbody tr")
    expect(rows).to_have_count(25)
    whole = page.locator(".compare-rows tfoot td").nth(2).inner_text()
    assert float(whole.replace(",", "")) == values[0]
    page.get_by_role("button", name="Next page").click()
    expect(page).to_have_url(re.compile("rows.page=2"))
    page.locator(".compare-picture g", has=page.locator("title")).nth(1).click()
    expect(page.locator(".compare-rows tfoot")).to_have_count(0)
    expect(page).not_to_have_url(re.compile("rows.page=2"))
    page.locator("button.chip").click()
    expect(rows).to_have_count(25)
    page.locator(".compare-open").first.click()
    expect(page).to_have_url(re.compile(r"base=.*&row=0|row=0.*&base="))
    expect(page.get_by_role("img", name="The time in every iteration")).to_be_visible()
    assert page.locator("html").get_attribute("data-theme") == theme
    assert find_violations(page) == []
    page.reload()
    expect(page.get_by_role("img", name="The time in every iteration")).to_be_visible()


def test_each_aggregation_leads_to_it(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address(aggregation=1))
    page.get_by_role("button", name="Manage", exact=True).click()
    page.get_by_role("link", name="Compare with").first.click()
    expect(page.get_by_role("heading", name="What is compared")).to_be_visible()
    expect(page).to_have_url(re.compile("aggregation=1"))


def test_database_of_nvidias_leads_to_its_aggregation(
    page: Page, viewer_on: Callable[[Path], Viewer], golden_dir: Path, watch: Watch
) -> None:
    watch.expect("status of 4")
    viewer = viewer_on(golden_dir / "dlprof_dldb.sqlite")
    page.goto(viewer.address(view="compare", base=viewer.profile, new=f"{viewer.profile}@1"))
    result = page.get_by_role("region", name="Result")
    result.get_by_role("link", name="Aggregate").click()
    expect(page).to_have_url(re.compile(f"profile={viewer.profile}.*view=iterations"))


@pytest.mark.parametrize("theme", ["light", "dark"], indirect=True)
def test_the_history_of_a_name(
    page: Page, viewer: Viewer, theme: str, find_violations: Callable[[Page], list[str]]
) -> None:
    page.goto(viewer.address(view="history"))
    expect(page.get_by_text("History needs at least two profiles")).to_be_visible()
    expect(page.get_by_text("No change was tried")).to_be_visible()
    assert page.locator("html").get_attribute("data-theme") == theme
    assert find_violations(page) == []


@pytest.mark.parametrize("theme", ["light", "dark"], indirect=True)
def test_changes_that_were_tried_are_listed_with_their_predictions(
    page: Page,
    start_viewer: StartViewer,
    demo_database: Path,
    tmp_path: Path,
    theme: str,
    find_violations: Callable[[Page], list[str]],
) -> None:
    database = tmp_path / "tried.sqlite"
    shutil.copyfile(demo_database, database)
    trial = RememberedTrial(
        at="2026-05-01T10:00:00+00:00",
        database=database.name,
        base="python train.py",
        variant="python train.py --channels-last",
        prediction=Prediction("advice", "layout_conversions", -15.0, "likely", 1),
        verdict="slower",
        unit="step",
        base_ns=30e6,
        new_ns=34.8e6,
        change_pct=16.0,
        interval_pct=[14.5, 17.5],
        runs=[5, 5],
        noise_pct=0.4,
        losses="agree",
    )
    file = trials_file(database)
    remember(file, [trial])
    file.write_bytes(file.read_bytes() + b"no trial\n")
    page.goto(start_viewer(database).address(view="history"))
    row = page.get_by_role("row", name=re.compile("channels-last"))
    expect(row).to_contain_text("layout_conversions (likely)")
    expect(row).to_contain_text("15.0 % faster")
    expect(row).to_contain_text("16.0 % slower")
    expect(row).to_contain_text("14.5 to 17.5 % slower")
    expect(row).to_contain_text("2026-05-01")
    expect(row).to_contain_text("python train.py → python train.py --channels-last")
    expect(row).to_contain_text("5 + 5")
    expect(page.get_by_text("Lines of trials.jsonl that cannot be read: 1")).to_be_visible()
    assert page.locator("html").get_attribute("data-theme") == theme
    assert find_violations(page) == []
