"""How fast the page is in Chromium: first useful paint of the dashboard, and each interaction.

    python benchmarks/page_timing.py DATABASE [--rounds 7] [--json FILE]
                                     [--results FILE] [--title TEXT]

Starts a viewer on the database (or measures the one at --url). The dashboard is opened with an
empty cache each time; "useful" is when its key figures are painted. An interaction is timed inside
the page, from the click or key to the frame that shows its result; the CPU time of the page's main
thread is told as well, for machines that do other things meanwhile. Exits with 1 when the median
of any of them misses its limit: 1,000 ms for the first paint, 1,200 ms for the dashboard with its
chart, 400 ms for what redraws a chart, 200 ms for everything else.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, CDPSession, Error, Page, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.measured import write_section
from benchmarks.viewer_server import started

FIRST_PAINT_LIMIT_MS = 1_000.0
DASHBOARD_LIMIT_MS = 1_200.0
REDRAW_LIMIT_MS = 400.0
INTERACTION_LIMIT_MS = 200.0
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]

#: Notes when the key figures and the iteration chart are first painted.
WATCH_PAINT = """
window.__times = {};
const note = (name) => requestAnimationFrame(() => setTimeout(() => {
  window.__times[name] ??= performance.now();
}));
const look = () => {
  if (/[0-9]/.test(document.querySelector('.kpi-value')?.textContent ?? '')) note('figures');
  if (document.querySelector('.js-plotly-plot .bars .point')) note('chart');
  requestAnimationFrame(look);
};
requestAnimationFrame(look);
"""
#: Waits for both; the page's rules forbid what Playwright's own waiting does.
PAINTED = """
async () => {
  while (!(window.__times.figures && window.__times.chart))
    await new Promise((next) => setTimeout(next, 50));
  return window.__times;
}
"""
#: Acts, then waits for the frame after the one in which `done` holds.
TIMED = """
async () => {
  const $ = (css) => document.querySelector(css);
  const button = (text) => [...document.querySelectorAll('button, a')].find(
    (one) => one.textContent.trim() === text || one.getAttribute('aria-label') === text);
  const settled = () => !$('[aria-busy="true"]') && !$('.is-stale');
  const act = () => { %(act)s };
  const done = () => %(done)s;
  const start = performance.now();
  act();
  while (!done()) {
    if (performance.now() - start > 10000) throw new Error('nothing came of it');
    await new Promise(requestAnimationFrame);
  }
  await new Promise(requestAnimationFrame);
  await new Promise((next) => setTimeout(next));
  return performance.now() - start;
}
"""


@dataclass(frozen=True)
class Interaction:
    """Something that a person does, and what shows that it was done.

    Attributes:
        name: For the report.
        view: The view that it begins on.
        ready: Selector that tells that this page is there.
        act: Script that does it.
        done: Expression that holds when its result is shown.
        limit_ms: What it may take.
    """

    name: str
    view: str
    ready: str
    act: str
    done: str
    limit_ms: float = INTERACTION_LIMIT_MS


ROWS = "tbody tr[aria-rowindex]"
CHART = ".js-plotly-plot .bars .point"
SORTED = "settled() && $('th[aria-sort=\"descending\"]')?.textContent.startsWith('CPU time')"
INTERACTIONS = (
    Interaction(
        "open Ops and kernels",
        "dashboard",
        CHART,
        "button('Ops and kernels').click()",
        f"$('{ROWS}') !== null",
    ),
    Interaction(
        "open Iterations",
        "dashboard",
        CHART,
        "button('Iterations').click()",
        f"$('h1')?.textContent === 'Iterations' && $('{CHART}') !== null",
        REDRAW_LIMIT_MS,
    ),
    Interaction(
        "sort ops",
        "ops",
        ROWS,
        "[...document.querySelectorAll('th button')].find("
        "(one) => one.textContent.startsWith('CPU time')).click()",
        SORTED,
    ),
    Interaction(
        "next page of ops",
        "ops",
        ROWS,
        "button('Next page').click()",
        f"$('{ROWS}')?.getAttribute('aria-rowindex') === '51'",
    ),
    Interaction(
        "last page of ops",
        "ops",
        ROWS,
        "button('Last page').click()",
        f"Number($('{ROWS}')?.getAttribute('aria-rowindex')) > 51",
    ),
    Interaction(
        "search ops",
        "ops",
        ROWS,
        "const box = $('[data-search=table]'); box.value = 'add'; "
        "box.dispatchEvent(new Event('input', {bubbles: true}))",
        "$('.chips')?.textContent.includes('add') && settled()",
    ),
    Interaction(
        "open filters",
        "ops",
        ROWS,
        "button('Filters').click()",
        "$('.filter-row') !== null",
    ),
    Interaction(
        "select an op",
        "ops",
        ROWS,
        f"$('{ROWS}').click()",
        f"document.querySelectorAll('.data-table')[1]?.querySelector('{ROWS}') && settled()",
    ),
    Interaction(
        "100 rows a page",
        "ops",
        ROWS,
        "const size = $('.pager select'); size.value = '100'; "
        "size.dispatchEvent(new Event('change', {bubbles: true}))",
        f"document.querySelectorAll('{ROWS}').length === 100",
    ),
    Interaction(
        "choose an iteration",
        "kernels-by-iteration",
        ROWS,
        f"document.querySelectorAll('{ROWS}')[5].click()",
        f"document.querySelectorAll('.data-table')[1]?.querySelector('{ROWS}') && settled()",
    ),
    Interaction(
        "open a group",
        "group-ops",
        "tr[aria-level='2'][aria-expanded='false']",
        '$(\'tr[aria-level="2"][aria-expanded="false"]\').click()',
        "$('tr[aria-level=\"3\"]') !== null",
    ),
    Interaction(
        "kernel details",
        "dashboard",
        CHART,
        "button('Show kernel details').click()",
        "/[0-9]/.test($('.details td')?.textContent ?? '')",
    ),
    Interaction(
        "help",
        "dashboard",
        CHART,
        "button('Help').click()",
        "$('dialog[open], [role=dialog]') !== null",
    ),
    Interaction(
        "other theme",
        "iterations",
        CHART,
        "window.__old = $('.js-plotly-plot .xtick text').style.fill; "
        "button('Use the dark theme').click()",
        "$('.js-plotly-plot .xtick text')?.style.fill !== window.__old",
        REDRAW_LIMIT_MS,
    ),
    Interaction(
        "hide a part of the chart",
        "iterations",
        CHART,
        "window.__old = document.querySelectorAll('.js-plotly-plot .trace').length; "
        "$('.chart-legend button').click()",
        "document.querySelectorAll('.js-plotly-plot .trace').length < window.__old",
        REDRAW_LIMIT_MS,
    ),
    Interaction(
        "zoom into the chart",
        "iterations",
        CHART,
        "history.pushState(null, '', location.search + '&zoom=100-150'); "
        "dispatchEvent(new PopStateEvent('popstate'))",
        "$('.js-plotly-plot .xtick text')?.textContent === '100'",
        REDRAW_LIMIT_MS,
    ),
    Interaction(
        "move the start bar",
        "iterations",
        CHART,
        "window.__old = $('.js-plotly-plot .shapelayer path').getAttribute('d'); "
        "const from = $('.reaggregate input, form input[inputmode], input[type=number]'); "
        "from.dispatchEvent(new WheelEvent('wheel', {deltaY: -100, bubbles: true, "
        "cancelable: true}))",
        "$('.js-plotly-plot .shapelayer path')?.getAttribute('d') !== window.__old",
        REDRAW_LIMIT_MS,
    ),
)


@dataclass
class Sample:
    """Times of one thing."""

    name: str
    limit_ms: float
    times_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)

    @property
    def median_ms(self) -> float:
        """Half of the times are within this."""
        return statistics.median(self.times_ms)


def new_page(browser: Browser) -> Page:
    """A page with nothing in its cache."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
    return context.new_page()


def time_first_paint(browser: Browser, url: str) -> dict[str, float]:
    """When the key figures and the chart were painted, from the start of the navigation."""
    page = new_page(browser)
    page.add_init_script(WATCH_PAINT)
    page.goto(f"{url}/?view=dashboard")
    times: dict[str, float] = page.evaluate(PAINTED)
    page.context.close()
    return times


def cpu_ms(session: CDPSession) -> float:
    """CPU time that the page's main thread has spent; a busy machine does not add to it."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return next(1e3 * float(one["value"]) for one in metrics if one["name"] == "TaskDuration")


def time_interaction(browser: Browser, url: str, what: Interaction) -> tuple[float, float]:
    """How long it took in the page, and the CPU time of the page's main thread in it."""
    page = new_page(browser)
    page.goto(f"{url}/?view={what.view}", wait_until="networkidle")
    page.wait_for_selector(what.ready, state="attached")
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = cpu_ms(session)
    try:
        taken = page.evaluate(TIMED % {"act": what.act, "done": what.done})
    except Error as error:
        raise SystemExit(f"{what.name}: {error.message}") from error
    spent = cpu_ms(session) - before
    page.context.close()
    return taken, spent


def all_samples(browser: Browser, url: str, rounds: int) -> list[Sample]:
    """Everything, in turn, so that a busy moment of the machine hits all alike."""
    figures = Sample("dashboard: key figures painted", FIRST_PAINT_LIMIT_MS)
    chart = Sample("dashboard: iteration chart painted", DASHBOARD_LIMIT_MS)
    actions = {what: Sample(what.name, what.limit_ms) for what in INTERACTIONS}
    time_first_paint(browser, url)  # the server's first request loads its code
    for _ in range(rounds):
        times = time_first_paint(browser, url)
        figures.times_ms.append(times["figures"])
        chart.times_ms.append(times["chart"])
        for what, sample in actions.items():
            taken, spent = time_interaction(browser, url, what)
            sample.times_ms.append(taken)
            sample.cpu_ms.append(spent)
    return [figures, chart, *actions.values()]


def report(samples: list[Sample]) -> bool:
    """Print the times; whether all limits are met."""
    for sample in samples:
        verdict = "" if sample.median_ms <= sample.limit_ms else "  SLOW"
        cpu = f", CPU {statistics.median(sample.cpu_ms):4.0f} ms" if sample.cpu_ms else ""
        print(
            f"{sample.name:36} median {sample.median_ms:6.0f} ms, longest "
            f"{max(sample.times_ms):6.0f} ms, limit {sample.limit_ms:5.0f} ms{cpu}{verdict}"
        )
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return all(sample.median_ms <= sample.limit_ms for sample in samples)


def table(samples: list[Sample]) -> Iterator[str]:
    """A line for each, as a Markdown table."""
    yield "| what | median ms | longest ms | limit ms | CPU median ms |"
    yield "|---|---:|---:|---:|---:|"
    for one in samples:
        cpu = f"{statistics.median(one.cpu_ms):.0f}" if one.cpu_ms else ""
        times = f"{one.median_ms:.0f} | {max(one.times_ms):.0f} | {one.limit_ms:.0f}"
        yield f"| {one.name} | {times} | {cpu} |"


def main() -> int:
    """Measure, print, and say by the exit status whether all limits are met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("database", nargs="?", help="database to start a viewer on")
    parser.add_argument("--url", help="measure this viewer's first profile instead")
    parser.add_argument("--rounds", type=int, default=7, help="how often each is done")
    parser.add_argument("--json", help="write all times to this file")
    parser.add_argument("--results", type=Path, help="Markdown file to write the figures to")
    parser.add_argument("--title", default="Page", help="heading of the figures there")
    options = parser.parse_args()
    if (options.database is None) == (options.url is None):
        parser.error("name a database or --url")
    viewer = contextlib.nullcontext(options.url) if options.url else started(options.database)
    chromium = os.environ.get("DLPROF_CHROMIUM", "/usr/bin/chromium")
    with viewer as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        samples = all_samples(browser, url.rstrip("/"), options.rounds)
        browser.close()
    if options.json:
        times = {sample.name: sample.times_ms for sample in samples}
        Path(options.json).write_text(json.dumps(times, indent=1), encoding="utf-8")
    if options.results:
        write_section(options.results, options.title, options.rounds, table(samples))
    return 0 if report(samples) else 1


if __name__ == "__main__":
    raise SystemExit(main())
