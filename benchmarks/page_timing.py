"""Time the page in Chromium: the paints of the dashboard, and each interaction.

    python -m benchmarks.page_timing DATABASE [--rounds 7] [--results FILE] [--title TEXT]

Starts a viewer on the database. The dashboard is opened with an empty cache each time: when its
key figures and its chart are painted, its largest paint, and how far it shifts meanwhile. An
interaction is timed inside the page, from the click or key to the frame that shows its result; its
limit is for the CPU time of the page's main thread, which a busy machine changes little. Exits with
1 when a median misses its limit: 900 ms for each paint of the dashboard, 0.02 for its layout shift,
120 ms of CPU time for each interaction.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, CDPSession, Error, Page, sync_playwright

from benchmarks.measured import write_section
from benchmarks.viewer_server import running, viewer_parser

PAINT_LIMIT_MS = 900.0
SHIFT_LIMIT = 0.02
CPU_LIMIT_MS = 120.0
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]

#: Notes when the key figures and the iteration chart are first painted, the largest paint and the
#: sum of the layout shifts.
WATCH_PAINT = """
window.__times = {largest: 0, shift: 0};
const watch = (type, use) => new PerformanceObserver((list) => list.getEntries().forEach(use))
  .observe({type, buffered: true});
watch('largest-contentful-paint', (paint) => { window.__times.largest = paint.startTime; });
watch('layout-shift', (shift) => { window.__times.shift += shift.value; });
const note = (name) => requestAnimationFrame(() => setTimeout(() => {
  window.__times[name] ??= performance.now();
}));
const look = () => {
  const figure = document.querySelector('.headline-step > span > b');
  if (/[0-9]/.test(figure?.textContent ?? '')) note('figures');
  if (document.querySelector('.iterations-svg .bar')) note('chart');
  requestAnimationFrame(look);
};
requestAnimationFrame(look);
"""
#: Waits for both; the page's content security policy forbids Playwright's own way of waiting.
PAINTED = """
async () => {
  while (!(window.__times.figures && window.__times.chart))
    await new Promise((next) => setTimeout(next, 50));
  await new Promise((next) => setTimeout(next, 500));
  return window.__times;
}
"""
#: Acts, then waits for the frame after the one in which `done` holds. To look in each frame would
#: cost more CPU time than the page does while it waits for the server.
TIMED = """
async () => {
  const $ = (css) => document.querySelector(css);
  const button = (text) => [...document.querySelectorAll('button, a')].find(
    (one) => one.textContent.trim() === text || one.getAttribute('aria-label') === text);
  const settled = () => !$('[aria-busy="true"]') && !$('.is-stale');
  const act = () => { %(act)s };
  const done = () => %(done)s;
  const start = performance.now();
  const isDone = new Promise((resolve, reject) => {
    const look = () => {
      if (done()) resolve();
      else if (performance.now() - start > 10000) reject(new Error('nothing came of it'));
      else return;
      observer.disconnect();
      clearInterval(timer);
    };
    const observer = new MutationObserver(look);
    const watched = {subtree: true, childList: true, attributes: true, characterData: true};
    observer.observe(document, watched);
    const timer = setInterval(look, 250);
  });
  act();
  await isDone;
  await new Promise(requestAnimationFrame);
  await new Promise((next) => setTimeout(next));
  return performance.now() - start;
}
"""


#: Selectors that the scripts of the interactions use by name.
SELECTORS = {"ROWS": "tbody tr[aria-rowindex]", "CHART": ".iterations-svg .bar"}


@dataclass(frozen=True)
class Interaction:
    """An action of a user, and how to detect that it is done; see interactions.toml."""

    name: str
    view: str
    ready: str
    act: str
    done: str


def all_interactions() -> list[Interaction]:
    """Read interactions.toml, with the selectors filled in."""
    text = (Path(__file__).parent / "interactions.toml").read_text(encoding="utf-8")
    for name, selector in SELECTORS.items():
        text = text.replace(name, selector)
    return [Interaction(**load) for load in tomllib.loads(text)["interaction"]]


@dataclass
class Sample:
    """Figures of one thing: those with a limit, and elapsed times where that is CPU time."""

    name: str
    limit: float
    limited: list[float] = field(default_factory=list)
    elapsed_ms: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Half of the limited figures are within this."""
        return statistics.median(self.limited)


def new_page(browser: Browser) -> Page:
    """Return a page with nothing in its cache."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
    return context.new_page()


def time_first_paint(browser: Browser, url: str) -> dict[str, float]:
    """Return when the key figures and the chart were painted, from the start of the navigation."""
    page = new_page(browser)
    page.add_init_script(WATCH_PAINT)
    page.goto(f"{url}/?view=dashboard")
    times: dict[str, float] = page.evaluate(PAINTED)
    page.context.close()
    return times


def cpu_ms(session: CDPSession) -> float:
    """CPU time that the page's main thread has spent; a busy machine does not add to it."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return next(1e3 * float(row["value"]) for row in metrics if row["name"] == "TaskDuration")


def time_interaction(browser: Browser, url: str, what: Interaction) -> tuple[float, float]:
    """Return the time of an interaction in the page, and the main thread's CPU time. Unit: ms."""
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
    """Measure everything in turn, so that a busy moment of the machine affects all alike."""
    paints = {
        "figures": Sample("dashboard: key figures painted, ms", PAINT_LIMIT_MS),
        "chart": Sample("dashboard: iteration chart painted, ms", PAINT_LIMIT_MS),
        "largest": Sample("dashboard: largest paint, ms", PAINT_LIMIT_MS),
        "shift": Sample("dashboard: layout shift", SHIFT_LIMIT),
    }
    actions = {what: Sample(f"{what.name}, ms CPU", CPU_LIMIT_MS) for what in all_interactions()}
    time_first_paint(browser, url)  # the server's first request loads its code
    for _ in range(rounds):
        times = time_first_paint(browser, url)
        for name, sample in paints.items():
            sample.limited.append(times[name])
        for what, sample in actions.items():
            taken, spent = time_interaction(browser, url, what)
            sample.elapsed_ms.append(taken)
            sample.limited.append(spent)
    return [*paints.values(), *actions.values()]


def table(samples: list[Sample]) -> Iterator[str]:
    """Yield a line for each, as a Markdown table."""
    yield "| what | median | highest | limit | elapsed: median ms |"
    yield "|---|---:|---:|---:|---:|"
    for sample in samples:
        digits = 3 if sample.limit < 1 else 0
        figures = (sample.median, max(sample.limited))
        elapsed = f"{statistics.median(sample.elapsed_ms):.0f}" if sample.elapsed_ms else ""
        shown = " | ".join(f"{figure:.{digits}f}" for figure in figures)
        yield f"| {sample.name} | {shown} | {sample.limit:g} | {elapsed} |"


def main() -> int:
    """Measure and print; return 1 if a limit is missed."""
    options = viewer_parser(__doc__, rounds=7, title="Page").parse_args()
    found = map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))
    chromium = os.environ.get("DLPROF_CHROMIUM") or next(filter(None, found), None)
    with running(str(options.database)) as viewer, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        samples = all_samples(browser, viewer.url.rstrip("/"), options.rounds)
        browser.close()
    if options.results:
        write_section(options.results, options.title, options.rounds, table(samples))
    print("\n".join(table(samples)))
    slow = [sample.name for sample in samples if sample.median > sample.limit]
    print(*(f"SLOW {name}" for name in slow), sep="\n")
    return 1 if slow else 0


if __name__ == "__main__":
    raise SystemExit(main())
