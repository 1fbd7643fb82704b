"""The HTML report, opened from disk without a network: the viewer's views with its numbers."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from aggregator.html_report.template import PAGE
from tests.browser.conftest import VIEWPORT, WAIT_LIMIT_MS, MakeDatabase, Viewer, Watch, opened_page
from tests.browser.test_views import HEADINGS, PANELS, WITH_ITERATION_CHART

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="the page is not built: make frontend")

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def made(demo_profile: Path, make_database: MakeDatabase) -> Path:
    """The folder of a run with its database and its report."""
    return make_database(demo_profile, "--reports=html", "--profile_name=Demo").parent


@pytest.fixture(scope="module")
def report_url(made: Path) -> str:
    return (made / "Demo_report.html").as_uri()


@pytest.fixture(scope="module")
def offline_context(browser: Browser) -> Iterator[BrowserContext]:
    with closing(
        browser.new_context(viewport=VIEWPORT, offline=True, accept_downloads=True, locale="en-US")
    ) as context:
        context.set_default_timeout(WAIT_LIMIT_MS)
        yield context


@pytest.fixture
def offline(offline_context: BrowserContext, watch: Watch, theme: str) -> Iterator[Page]:
    """A page without a network; what it asks for besides files fails the test."""
    with opened_page(
        offline_context,
        watch,
        theme,
        dialog=lambda dialog: watch.crashed(dialog.message),
        request=lambda request: (
            None
            if re.match(r"(file|data|blob):", request.url)
            else watch.troubles.append(f"request: {request.url}")
        ),
    ) as page:
        yield page


def at(url: str, **query: str) -> str:
    return f"{url}?{urlencode(dotted(query))}"


def dotted(query: dict[str, str]) -> dict[str, str]:
    """`__` stands for the dot of a table's parameters, unless there are dots already."""
    return {
        name if "." in name else name.replace("__", "."): value for name, value in query.items()
    }


def shown(page: Page) -> None:
    expect(page.get_by_role("heading", level=1)).to_be_attached()
    expect(page.get_by_role("status", name="Loading")).to_have_count(0)
    expect(page.locator("main [aria-busy='true']")).to_have_count(0)
    expect(page.get_by_text("Loading…")).to_have_count(0)


@pytest.mark.parametrize("theme", ["light", "dark"], indirect=True)
def test_a_view_opens_from_disk_and_axe_finds_nothing(
    offline: Page, report_url: str, theme: str, find_violations: Callable[[Page], list[str]]
) -> None:
    """Views of the report are those of the viewer, which axe checks there."""
    offline.goto(at(report_url, view="ops"))
    shown(offline)
    expect(offline.locator("html")).to_have_attribute("data-theme", theme)
    assert find_violations(offline) == []


def test_an_export_is_the_viewers(
    offline: Page,
    page: Page,
    made: Path,
    viewer_on: Callable[[Path], Viewer],
    report_url: str,
) -> None:
    viewer = viewer_on(made / "dlprof_dldb.sqlite")
    query = {"view": "ops", "ops__q": "conv"}
    page.goto(at(f"{viewer.url}/", profile=viewer.profile, aggregation="2", **query))
    offline.goto(at(report_url, **query))
    files: list[tuple[str, bytes]] = []
    for one, role in ((page, "link"), (offline, "button")):
        shown(one)
        region = one.get_by_role("region", name="Ops", exact=True)
        region.get_by_role("button", name="Export").click()
        with one.expect_download() as download:
            one.get_by_role("link" if role == "link" else "button", name="CSV").click()
        path = Path(download.value.path())
        files.append((download.value.suggested_filename, path.read_bytes()))

    assert files[0][1].count(b"\n") > 10
    assert files[1] == files[0]


def test_selecting_sorting_searching_and_going_back_work(offline: Page, report_url: str) -> None:
    offline.goto(at(report_url, view="ops"))
    offline.get_by_label("Search ops").fill("conv")
    expect(offline.locator(".table-count").first).to_contain_text(" of ")
    offline.locator("#op-rows tr").first.click()
    expect(offline.get_by_role("complementary", name="Selected op")).to_be_visible()
    kernels = offline.locator("#kernel-rows tr")
    expect(kernels.first).to_be_visible()
    expect(offline).to_have_url(re.compile(r"[?&]op=\w+"))
    offline.reload()
    expect(kernels.first).to_be_visible()
    expect(offline.get_by_label("Search ops")).to_have_value("conv")
    offline.go_back()
    expect(offline.get_by_role("region", name="Kernels of the filtered ops")).to_be_visible()


def test_the_kernels_of_an_op_in_an_iteration_are_shown(offline: Page, report_url: str) -> None:
    offline.goto(at(report_url, view="kernels-by-op", iteration="4"))
    offline.locator("#iteration-op-rows tr").first.click()
    expect(offline.locator("#op-launch-rows tr").first).to_be_visible()


def test_the_iteration_chart_zooms_and_is_saved(offline: Page, report_url: str) -> None:
    offline.goto(at(report_url, view="iterations", zoom="3-6"))
    chart = offline.get_by_role("group", name="Bar chart of 4 bars, iterations 3 to 6")
    expect(chart).to_be_visible()
    offline.get_by_role("button", name="Save the chart").click()
    with offline.expect_download() as download:
        offline.get_by_role("button", name="SVG").click()
    assert b"<svg" in Path(download.value.path()).read_bytes()[:400]


def test_every_view_is_there_and_offers_nothing_that_needs_the_server(
    offline: Page, report_url: str
) -> None:
    for view in HEADINGS:
        offline.goto(at(report_url, view=view))
        shown(offline)
        links = offline.locator("a").evaluate_all("all => all.map(a => a.getAttribute('href'))")
        assert [link for link in links if re.match(r"/|https?://(localhost|127)", link)] == []
        expect(offline.get_by_role("heading", level=1, name=HEADINGS[view])).to_be_attached()
        if view in WITH_ITERATION_CHART:
            expect(offline.locator(".iterations-svg .bar").first).to_be_visible()
        for name in PANELS if view == "dashboard" else ():
            expect(offline.get_by_role("region", name=name, exact=True)).to_be_visible()
    for name in ("Reaggregate", "Profiles"):
        expect(offline.get_by_role("button", name=name, exact=True)).to_have_count(0)
    expect(offline.get_by_text("Report", exact=True)).to_be_visible()


def test_theme_and_language_can_be_chosen(offline: Page, report_url: str) -> None:
    offline.goto(report_url)
    offline.get_by_role("button", name="Use the dark theme").click()
    expect(offline.locator("html")).to_have_attribute("data-theme", "dark")
    offline.get_by_label("Language").select_option("zh")
    expect(offline.locator("html")).to_have_attribute("lang", "zh")
    expect(offline.get_by_role("heading", name="建议")).to_be_visible()


def test_every_domain_is_there(
    offline: Page, profile: Callable[[str], Path], make_database: MakeDatabase
) -> None:
    database = make_database(profile("nvtx_domains"), "--reports=html")
    offline.goto(at((database.parent / "dlprof_report.html").as_uri(), view="kernels-by-iteration"))
    shown(offline)
    count = offline.locator("main .table-count").last
    everything = count.inner_text()

    offline.get_by_label("Domain").select_option("Forward")

    expect(offline).to_have_url(re.compile("domain=Forward"))
    shown(offline)
    expect(count).not_to_have_text(everything)
    expect(count).to_have_text(re.compile(r"^[1-9]\d* kernels$"))


def test_the_viewers_button_gives_the_same_report(
    page: Page, offline: Page, viewer: Viewer, tmp_path: Path
) -> None:
    page.goto(viewer.address())
    with page.expect_download() as download:
        page.get_by_role("button", name="Download this profile as a report in one file").click()
    saved = tmp_path / download.value.suggested_filename
    download.value.save_as(saved)
    assert saved.suffix == ".html"

    offline.goto(saved.as_uri())

    panel = "Performance summary"
    for one in (page, offline):
        expect(one.get_by_role("region", name=panel)).to_be_visible()
        shown(one)
    # The viewer's page leads to the other aggregations, which the report does not contain.
    figures = [one.get_by_role("region", name=panel).locator("dl") for one in (page, offline)]
    texts = [one.inner_text() for one in figures]
    assert texts[1] == texts[0]


@pytest.fixture
def hostile_report(demo_profile: Path, make_database: MakeDatabase, tmp_path: Path) -> Path:
    """Of a program that put tags into the names of its ranges."""
    profile = tmp_path / "hostile.sqlite"
    shutil.copyfile(demo_profile, profile)
    profile.chmod(0o644)
    with sqlite3.connect(profile) as connection:
        changed: Any = connection.execute(
            "UPDATE NVTX_EVENTS SET text = replace(text, 'aten::conv2d,', ?) "
            "WHERE text LIKE 'aten::conv2d,%'",
            (f"aten::conv2d{HOSTILE},",),
        )
        assert changed.rowcount > 0
    connection.close()
    words = ("--reports=html", f"--profile_name={HOSTILE}", "--mode=pytorch")
    (report,) = make_database(profile, *words).parent.glob("*.html")
    return report


def test_tags_in_names_are_text(offline: Page, hostile_report: Path) -> None:
    offline.goto(at(hostile_report.as_uri(), view="ops", ops__q="<script>alert("))
    # The path of a group has no slashes of its own.
    expect(offline.locator("#op-rows tr").first).to_contain_text("<script>alert(1)<|script>")
    expect(offline.locator("header.topbar")).to_contain_text(HOSTILE)
    expect(offline.locator("main img")).to_have_count(0)
    offline.goto(hostile_report.as_uri())
    shown(offline)


def test_an_address_that_names_no_column_is_refused(offline: Page, report_url: str) -> None:
    offline.goto(at(report_url, view="ops", **{"ops.f.nope__gte": "1"}))
    ops = offline.get_by_role("region", name="Ops", exact=True)
    expect(ops.get_by_role("button", name="Reset filters and order")).to_be_visible()
    offline.goto(at(report_url, view="ops", **{"ops.sort": "-nope"}))
    ops.get_by_role("button", name="Reset filters and order").click()
    expect(offline.locator("#op-rows tr").first).to_be_visible()


def test_report_works_in_a_frame_without_an_origin(offline: Page, made: Path) -> None:
    # GIVEN a page that shows the file as notebooks and build servers do
    offline.goto("about:blank")
    offline.evaluate(
        """text => {
            const frame = document.createElement("iframe");
            frame.sandbox = "allow-scripts";
            frame.srcdoc = text;
            frame.style = "width: 1200px; height: 700px";
            document.body.append(frame);
        }""",
        (made / "Demo_report.html").read_text(),
    )
    frame = offline.frame_locator("iframe")
    expect(frame.get_by_role("region", name="Performance summary")).to_be_visible()

    # WHEN the reader goes to another view and sorts its table
    frame.get_by_role("link", name="Ops and kernels").click()
    frame.get_by_role("link", name="Op type summary").click()
    frame.get_by_role("columnheader", name="Op type").get_by_role("button").click()

    # THEN it is shown, though no address can say so
    expect(frame.get_by_role("columnheader", name="Op type")).to_have_attribute(
        "aria-sort", "ascending"
    )
    expect(frame.get_by_role("heading", level=1, name="Op type summary")).to_be_attached()


def test_a_damaged_file_says_so(offline: Page, made: Path, tmp_path: Path) -> None:
    text = (made / "Demo_report.html").read_text()
    broken = tmp_path / "broken.html"
    broken.write_text(text.replace('id="dlprof-report">"', 'id="dlprof-report">"AAAA'))

    offline.goto(broken.as_uri())

    expect(offline.get_by_text("The report cannot be read")).to_be_visible()
