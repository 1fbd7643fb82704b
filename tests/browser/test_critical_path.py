"""The critical path of a profile: its chain, what-ifs while a slider moves, and slow ranks."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from aggregator.answers.changes import CHANGES, Takes
from tests.browser.conftest import VIEWPORT, Viewer, Watch


def test_the_predicted_step_follows_a_slider(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address(view="critical-path"))
    panel = page.get_by_role("region", name="What if")
    step = panel.locator(".predicted-step")
    expect(panel.get_by_text("Unchanged: choose changes")).to_be_visible()
    before = step.inner_text()
    # Rows move while the others are predicted.
    expect(panel.get_by_role("table")).not_to_contain_text("…")
    panel.get_by_role("slider").first.fill("-1")
    expect(panel.get_by_text(re.compile("10th to 90th percentile"))).to_be_visible()
    panel.get_by_label("One launch (CUDA graph)").check()
    expect(step).not_to_have_text(before)
    panel.get_by_role("button", name="Reset").click()
    expect(step).to_have_text(before)
    panel.get_by_role("slider").first.fill("-1")
    expect(panel.get_by_text(re.compile("(more|less) than"))).to_be_visible()


def test_link_and_reload_keep_the_scenario(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address(view="critical-path"))
    panel = page.get_by_role("region", name="What if")
    panel.get_by_label("One launch (CUDA graph)").check()
    panel.get_by_role("slider").first.fill("2")
    expect(page).to_have_url(re.compile(r"if\.graph_launch=1&if\.speedup="))
    for _ in range(2):
        page.reload()
        expect(panel.get_by_label("One launch (CUDA graph)")).to_be_checked()
        expect(panel.locator("output", has_text="4.00x")).to_be_visible()
        expect(panel.get_by_text(re.compile("(more|less) than"))).to_be_visible()
    panel.get_by_role("button", name="Reset").click()
    expect(page).not_to_have_url(re.compile("if\\."))


def test_every_declared_change_has_a_control_in_the_order_of_what_it_saves(
    page: Page, viewer: Viewer
) -> None:
    page.goto(viewer.address(view="critical-path"))
    panel = page.get_by_role("region", name="What if")
    table = panel.get_by_role("table")
    expect(table).not_to_contain_text("…")
    shares = [
        float(re.sub(r"[^\d.]", "", text))
        for text in table.locator(".effect-text").all_inner_texts()
    ]
    assert shares
    assert shares == sorted(shares, reverse=True)
    declared = [
        change for change in CHANGES.values() if change.takes not in (Takes.FACTORS, Takes.RANK)
    ]
    for change in declared:
        label = re.compile(f"^{re.escape(change.label)}")
        expect(panel.get_by_label(label)).to_be_visible()
    # A change that has no effect on the profile says why.
    row = panel.get_by_role("row", name="Half precision")
    expect(row).to_contain_text("run with 16 bits or fewer already")
    expect(row.get_by_role("checkbox")).to_be_disabled()
    before = panel.locator(".predicted-step").inner_text()
    panel.get_by_label("Left out").fill("kernels")
    panel.get_by_label("Left out").press("Enter")
    expect(panel.locator(".predicted-step")).not_to_have_text(before)
    page.get_by_role("table", name="Critical path of all steps").get_by_role("link").first.click()
    expect(page).to_have_url(re.compile("view=op&.*op="))


def test_a_change_without_an_answer_says_why_and_can_be_reset(
    page: Page, viewer: Viewer, watch: Watch
) -> None:
    watch.expect("status of 400")

    def refuse(route: Route) -> None:
        message = "The profile does not show when input is read."
        detail = {"error": {"code": "USAGE_ERROR", "message": message, "hint": ""}}
        route.fulfill(status=400, json=detail)

    page.route("**/what-if/?*data_ready*", refuse)
    page.goto(viewer.address(view="critical-path"))
    panel = page.get_by_role("region", name="What if")
    row = panel.get_by_role("row", name=re.compile("No data-loading time"))
    expect(row).to_contain_text("does not show when input is read")
    width = page.viewport_size
    page.set_viewport_size({"width": 390, "height": 844})
    expect(row.get_by_text("does not show when input is read")).to_be_visible()
    page.set_viewport_size(width or VIEWPORT)
    expect(panel.get_by_role("table")).not_to_contain_text("…")
    panel.get_by_label("No data-loading time").check()
    predicted = panel.locator(".predicted")
    expect(predicted).to_contain_text("does not show when input is read")
    expect(panel.locator(".predicted-step")).to_have_count(0)
    panel.get_by_role("button", name="Reset").click()
    expect(panel.get_by_text("Unchanged: choose changes")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"], indirect=True)
def test_slow_ranks_come_with_their_lateness(
    page: Page,
    viewer_of_two_gpus: Viewer,
    theme: str,
    find_violations: Callable[[Page], list[str]],
) -> None:
    page.goto(viewer_of_two_gpus.address(view="ranks", aggregation=1))
    panel = page.get_by_role("region", name="Slow ranks")
    expect(panel.get_by_text("with all ranks at the median")).to_be_visible()
    heat = panel.get_by_role("img", name="Lateness of 2 ranks by iteration")
    expect(heat.locator("rect").first).to_be_visible()
    expect(page.locator("html")).to_have_attribute("data-theme", theme)
    assert find_violations(page) == []


def test_the_switch_of_the_step_is_as_wide_as_its_choices(page: Page, viewer: Viewer) -> None:
    def corrected(route: Route) -> None:
        reply = route.fetch()
        route.fulfill(response=reply, json=reply.json() | {"is_corrected": True})

    page.route(re.compile(r"/critical-path/"), corrected)
    page.goto(viewer.address(view="critical-path"))
    switch = page.get_by_role("group", name="Which step")
    expect(switch).to_be_visible()
    parts = [part.bounding_box() for part in (switch, *switch.get_by_role("button").all())]
    whole, *choices = [part["width"] for part in parts if part is not None]
    assert whole < sum(choices) + 20
