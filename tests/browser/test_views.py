"""Each view opens, in both themes, without a word in the console, and can be used by all."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Viewer, settled
from tests.browser.test_linked_views import get

HEADINGS = {
    "dashboard": "Dashboard",
    "op-types": "Op type summary",
    "group-ops": "Group ops",
    "ops": "Ops and kernels",
    "kernels-by-iteration": "Kernels by iteration",
    "kernels-by-op": "Kernels by op",
    "iterations": "Iterations",
    "timeline": "Timeline",
    "gpus": "GPUs",
    "critical-path": "Critical path",
}
#: Of the place of ops and kernels.
WORK_TABS = {
    "ops": "Ops and kernels",
    "op-types": "Op type summary",
    "group-ops": "Group ops",
    "kernels-by-op": "Kernels by op",
    "kernels-by-iteration": "Kernels by iteration",
    "roofline": "Roofline",
}
WITH_ITERATION_CHART = {"dashboard", "iterations"}
PANELS = (
    "What limits a step",
    "Recommendations",
    "Iteration summary",
    "Top 10 GPU ops",
    "Total kernel GPU time",
    "Performance summary",
    "System config",
    "Guidance",
)


@pytest.mark.parametrize("view", HEADINGS)
def test_a_view_opens_at_its_place_and_axe_finds_nothing_in_either_theme(
    page: Page, viewer: Viewer, view: str, find_violations: Callable[..., list[str]]
) -> None:
    page.goto(viewer.address(view=view))
    expect(page.get_by_role("heading", level=1, name=HEADINGS[view])).to_be_attached()
    expect(page.get_by_role("status", name="Loading")).to_have_count(0)
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    if view in WITH_ITERATION_CHART:
        expect(page.locator(".iterations-svg .bar").first).to_be_visible()
    place = "Ops and kernels" if view in WORK_TABS else HEADINGS[view]
    current = page.get_by_role("navigation", name="Views").locator("[aria-current=page]")
    expect(current).to_have_text(place)
    tabs = page.get_by_role("navigation", name="Ops and kernels")
    if view in WORK_TABS:
        expect(tabs.locator("[aria-current=page]")).to_have_text(WORK_TABS[view])
    else:
        expect(tabs).to_have_count(0)
    reaggregate = page.get_by_role("banner").get_by_role("button", name="Reaggregate")
    expect(reaggregate).to_have_count(0 if view == "iterations" else 1)
    assert find_violations(page) == []
    page.get_by_role("button", name="Use the dark theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    settled(page)
    assert find_violations(page, only=("color-contrast", "link-in-text-block")) == []


def test_the_dashboard_has_every_panel_and_shows_what_the_api_says(
    page: Page, viewer: Viewer
) -> None:
    page.goto(viewer.address())
    for name in PANELS:
        expect(page.get_by_role("region", name=name, exact=True)).to_be_visible()
    summary = get(viewer, "performance-summary/")
    panel = page.get_by_role("region", name="What limits a step")
    expect(panel.locator(".verdict")).to_have_text(get(viewer, "verdict/")["sentence"])
    usage = get(viewer, "resource-usage/")
    expect(panel).to_contain_text(re.compile(rf"GPU busy.*\D{usage['busy_pct']:.1f} %"))
    expect(panel).to_contain_text(re.compile(rf"GPU idle.*\D{usage['idle_pct']:.1f} %"))
    expect(panel).to_contain_text(f"{summary['tc_utilization_pct']:.1f}")
    expect(panel).to_contain_text(
        f"{summary['profiled_iterations']} of {summary['total_iterations']}"
    )
    expect(panel).to_contain_text(f"{summary['step_ns'] / 1e6:.1f}")
    efficiency = get(viewer, "efficiency/")
    expect(panel).to_contain_text(f"{efficiency['median_step_mfu_pct']:.1f}")
    guide = page.get_by_role("region", name="Performance summary")
    for term in ("Wall clock time", "Average iteration time", "GPU utilization"):
        expect(guide.get_by_role("term").filter(has_text=term).first).to_be_visible()
    expect(guide).to_contain_text("Tensor Core kernel efficiency")
    expect(guide).to_contain_text(f"{summary['gpu_utilization_pct']:.1f} %")
    # They may differ where what a finding saves is unknown, but never in what they name first.
    first = next(r for r in get(viewer, "advice/")["results"] if r["status"] == "found")
    assert get(viewer, "verdict/")["advice"] == first["advice"]
    advice = page.get_by_role("region", name="Recommendations")
    expect(advice.locator(".finding").first).to_contain_text(first["problem"])
    # An icon explains its figure.
    panel.get_by_role("button", name="About MFU").focus()
    expect(panel.get_by_role("tooltip")).to_contain_text("What to do")
    page.keyboard.press("Escape")
    expect(panel.get_by_role("tooltip")).to_have_count(0)
    # DLProf's own list is below our advice.
    expect(advice.get_by_text("No DALI ops detected")).to_be_hidden()
    advice.get_by_text("Other checks").click()
    expect(advice.get_by_text("No DALI ops detected")).to_be_visible()


def test_cause_findings_and_what_took_most_are_seen_without_scrolling(
    page: Page, viewer: Viewer
) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(viewer.address())
    headline = page.get_by_role("region", name="What limits a step")
    expect(headline.locator(".verdict")).to_be_in_viewport(ratio=1)
    expect(headline.get_by_role("img", name="Step time breakdown")).to_be_in_viewport(ratio=1)
    advice = page.get_by_role("region", name="Recommendations").locator(".finding")
    assert advice.count() >= 3
    for place in range(3):
        expect(advice.nth(place)).to_be_in_viewport(ratio=1)
    for name in ("Iteration summary", "Top 10 GPU ops"):
        box = page.get_by_role("region", name=name).bounding_box()
        assert box is not None
        assert box["y"] < 800, name


UNITS = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}


def test_no_finding_promises_more_than_a_step(page: Page, viewer_of_two_gpus: Viewer) -> None:
    shown = viewer_of_two_gpus
    summary = get(shown, "performance-summary/")
    step_ns = summary["bare_step_ns"] or summary["given_step_ns"] or summary["step_ns"]
    page.goto(shown.address())
    gains = page.get_by_role("region", name="Recommendations").locator(".finding-gain")
    expect(gains.first).to_be_attached()
    saved = [re.search(r"([\d.,]+) (ns|µs|ms|s)", text) for text in gains.all_text_contents()]
    times = [float(one[1].replace(",", "")) * UNITS[one[2]] for one in saved if one]
    assert times
    assert max(times) <= step_ns


WATCH_SHIFTS = """
window.shifted = 0;
new PerformanceObserver((list) => list.getEntries().forEach((one) => {
  window.shifted += one.value;
})).observe({type: 'layout-shift', buffered: true});
"""


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_moves_while_the_dashboard_loads(page: Page, viewer: Viewer, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.add_init_script(WATCH_SHIFTS)
    page.goto(viewer.address())
    expect(page.get_by_role("region", name="Guidance")).to_be_visible()
    settled(page)
    assert page.evaluate("() => window.shifted") <= 0.02


FIGURES = {
    "Step time (median, as profiled)": "view=iterations",
    "Tensor Core use": r"view=ops.*ops\.f\.tc_eligible=1",
    "MFU": "view=roofline",
    "Iterations": "view=iterations",
}


def test_figures_lead_to_the_lists_behind_them(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address())
    panel = page.get_by_role("region", name="What limits a step")
    missed = get(viewer, "ops/?tc_eligible=1&using_tc=0")["count"]
    times = get(viewer, "op-summary/")
    share = 100 * times["eligible_not_using"]["gpu_time_ns"] / times["all"]["gpu_time_ns"]
    is_shown = missed and share >= 1
    note = panel.get_by_text(f"{missed} more ops could")
    expect(note).to_have_count(1 if is_shown else 0)
    for figure, query in FIGURES.items():
        panel.get_by_role("link", name=figure, exact=True).click()
        expect(page, f"the link of {figure}").to_have_url(re.compile(query))
        if figure == "Tensor Core use" and missed:
            expect(page).to_have_url(re.compile(r"ops\.f\.using_tc=0"))
        page.go_back()


TABS = (
    ("Op types", "op-types/", "op_type"),
    ("Ops", "top-ops/", "op_name"),
    ("Kernels", "top-kernels/", "kernel_long_name"),
)


def test_the_tabs_list_what_took_most_time_and_lead_to_it(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address())
    panel = page.get_by_role("region", name=re.compile("^Top 10"))
    names = panel.get_by_role("row").get_by_role("link").locator("[title]")
    for tab, path, name in TABS:
        panel.get_by_role("button", name=tab, exact=True).click()
        expected = [row[name] for row in get(viewer, path)["results"]][:10]
        expect(names.first).to_have_attribute("title", expected[0])
        expect(names, f"the rows of {tab}").to_have_count(len(expected))
        assert [one.get_attribute("title") for one in names.all()] == expected, tab
    # The address names the tab.
    page.reload()
    chosen = panel.get_by_role("button", name="Kernels", exact=True)
    expect(chosen).to_have_attribute("aria-pressed", "true")
    # An op leads to its kernels.
    panel.get_by_role("button", name="Ops", exact=True).click()
    row = panel.get_by_role("table", name="Ops with the most GPU time").get_by_role("row").nth(1)
    title = row.get_by_role("link").locator("[title]").get_attribute("title")
    row.get_by_role("link").click()
    expect(page).to_have_url(re.compile("view=op&.*op="))
    expect(page.get_by_role("grid", name=f"Kernels of {title}")).to_be_visible()


@pytest.mark.parametrize("theme", ["dark"], indirect=True)
def test_the_steady_range_is_opened_and_says_what_it_leaves_out(
    page: Page, viewer: Viewer, theme: str, find_violations: Callable[[Page], list[str]]
) -> None:
    # GIVEN a database with the aggregation of all iterations and that of the steady range
    summary = get(viewer, "performance-summary/")
    assert summary["is_steady"] == 1
    # WHEN it is opened
    page.goto(viewer.address())
    # THEN the steady range leads, with the median step and what most steps take
    picker = page.get_by_role("combobox", name="Aggregation")
    whole, steady = (
        "#1 · 0\u201320",
        f"#2 · {summary['iter_start']}\u2013{summary['iter_stop']} · no start-up",
    )
    expect(picker.locator("option")).to_have_text([whole, steady])
    expect(picker).to_have_value("2")
    panel = page.get_by_role("region", name="What limits a step")
    expect(panel).to_contain_text("Step time (median, as profiled)")
    chip = panel.get_by_role("button", name="Times as profiled")
    chip.click()
    low, high = summary["step_p10_ns"] / 1e6, summary["step_p90_ns"] / 1e6
    expect(panel).to_contain_text(f"p10\u2013p90: {low:.2f}\u2013{high:.2f} ms")
    chip.click()
    guide = page.get_by_role("region", name="Performance summary")
    expect(guide).to_contain_text(summary["steady_note"])
    expect(page.locator("html")).to_have_attribute("data-theme", theme)
    settled(page)
    assert find_violations(page) == []
    # AND all iterations are one click away, and so is the way back
    panel.get_by_role("button", name="Show all iterations").click()
    expect(picker).to_have_value("1")
    whole_run = get(viewer, "performance-summary/", aggregation=1)
    expect(panel).to_contain_text(
        f"{whole_run['profiled_iterations']} of {whole_run['total_iterations']}"
    )
    # Where start-up moves the mean, it leads and says why.
    expect(panel).to_contain_text(f"Step time ({whole_run['step_statistic']}, as profiled)")
    expect(panel).to_contain_text(whole_run["uneven_reason"])
    panel.get_by_role("button", name="Leave out start-up").click()
    expect(picker).to_have_value("2")


def test_a_database_of_nvidias_leads_as_before(
    page: Page, viewer_on: Callable[[Path], Viewer], golden_dir: Path
) -> None:
    viewer = viewer_on(golden_dir / "dlprof_dldb.sqlite")
    page.goto(viewer.address())
    panel = page.get_by_role("region", name="What limits a step")
    expect(panel).to_contain_text("Average iteration time")
    classic = page.get_by_role("region", name="Recommendations")
    expect(classic.get_by_text("No DALI ops detected")).to_be_visible()


def test_the_kernel_details_open_from_the_address_and_close_with_escape(
    page: Page, viewer: Viewer
) -> None:
    page.goto(viewer.address())
    page.get_by_role("button", name="Show kernel details").click()
    expect(page).to_have_url(re.compile("details=kernels"))
    page.reload()
    details = page.get_by_role("complementary", name="Kernel details")
    for kind in (
        "All kernels",
        "Kernels using Tensor Cores",
        "Memory kernels",
        "All other kernels",
    ):
        expect(details.get_by_role("row", name=re.compile(f"^{kind}"))).to_be_visible()
    page.keyboard.press("Escape")
    expect(details).to_have_count(0)
    expect(page).not_to_have_url(re.compile("details="))


def test_a_part_that_a_legend_hides_and_the_theme_can_be_chosen(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address())
    panel = page.get_by_role("group", name="Resource usage breakdown")
    expect(panel.get_by_role("img")).to_have_attribute("aria-label", re.compile("Other"))
    cpu = panel.get_by_role("button", name=re.compile("^Idle: CPU"))
    share = cpu.locator(".legend-pct").inner_text()
    panel.get_by_role("button", name=re.compile("^Other")).click()
    expect(panel.get_by_role("img")).not_to_have_attribute("aria-label", re.compile("Other"))
    expect(panel.get_by_role("button", name=re.compile("^Other"))).to_have_attribute(
        "aria-pressed", "false"
    )
    # The other shares are still those of the whole.
    expect(cpu.locator(".legend-pct")).to_have_text(share)
    # The theme stays after a reload.
    page.get_by_role("button", name="Use the dark theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.get_by_role("button", name="Use the light theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


def test_the_bar_leads_to_the_documentation(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address(view="ops"))
    page.get_by_role("link", name="Documentation").click()
    expect(page.get_by_role("dialog", name="Ops and kernels")).to_be_visible()
    expect(page).to_have_url(re.compile("docs=ops"))
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    # No address was configured for it.
    expect(page.get_by_role("link", name="Send feedback")).to_have_count(0)


def test_a_view_appears_when_its_code_comes_before_its_effects(page: Page, viewer: Viewer) -> None:
    """A busy browser may load the code between drawing the skeleton and running its effects."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/OpTypesView.*.js", hold)
    page.goto(viewer.address())
    expect(page.get_by_role("region", name="Performance summary")).to_be_visible()
    while not held:
        page.wait_for_timeout(10)
    page.evaluate(
        """() => {
            const later = window.setTimeout.bind(window);
            window.setTimeout = (work, ms, ...rest) => later(work, (ms ?? 0) + 2000, ...rest);
            window.requestAnimationFrame = (work) => later(() => work(performance.now()), 2000);
        }"""
    )
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page.get_by_role("main").get_by_role("status", name="Loading")).to_be_visible()
    held[0].continue_()
    expect(page.get_by_role("grid").locator("tbody tr[aria-rowindex]").first).to_be_visible()
