"""Frames of the timeline while it is moved and zoomed, by Chromium's own tracing.

    python -m benchmarks.timeline_frames DATABASE [--lanes 200] [--minutes 0]

Makes a copy whose kernels are spread over some streams, so that it has as many lanes, opens its
timeline in headless Chromium, and moves and zooms it in each frame. Prints frames per second, the
CPU time of a frame on the main thread of the page and in all processes of the browser (without a
GPU, these also draw what a GPU would), and the memory of the page after moving for some minutes.
One wheel event a frame is sent by the page itself.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.measured import machine
from benchmarks.viewer_server import running

FRAME_MS = 1_000 / 60
MOST_MIB = 300
_CATEGORIES = ("devtools.timeline", "toplevel", "disabled-by-default-devtools.timeline.frame")
_MOVE = """([mode, seconds]) => new Promise((done) => {
  const plot = document.querySelector('.timeline-plot');
  const box = plot.getBoundingClientRect();
  const begin = performance.now();
  let frames = 0;
  const step = (now) => {
    frames += 1;
    const passed = (now - begin) / 1000;
    const way = passed % 4 < 2 ? 1 : -1;
    plot.dispatchEvent(new WheelEvent('wheel', {
      bubbles: true, cancelable: true, clientX: box.left + box.width / 2, clientY: box.top + 9,
      deltaY: way * (mode === 'zoom' ? -12 : 14),
      ctrlKey: mode === 'zoom', shiftKey: mode !== 'zoom',
    }));
    if (passed < seconds) requestAnimationFrame(step);
    else done([frames, passed]);
  };
  requestAnimationFrame(step);
})"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run it and print its lines; returns 1 if a limit is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.timeline_frames")
    parser.add_argument("database", type=Path)
    parser.add_argument("--lanes", type=int, default=200, help="streams (default 200)")
    parser.add_argument("--height", type=int, default=1_000, help="of the window (default 1000)")
    parser.add_argument("--seconds", type=float, default=6, help="of each movement (default 6)")
    parser.add_argument("--minutes", type=float, default=0, help="of moving, for its memory")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="dlprof-benchmark-") as folder:
        database = _with_lanes(options.database, Path(folder), options.lanes)
        with running(str(database)) as viewer, sync_playwright() as playwright:
            chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            return _measure(browser, viewer.url, options)


def _with_lanes(source: Path, folder: Path, lanes: int) -> Path:
    target = folder / "lanes.sqlite"
    shutil.copy(source, target)
    with closing(sqlite3.connect(target)) as connection:
        connection.execute("UPDATE kernels SET stream_id = 100 + id % ?", (lanes,))
        connection.commit()
    return target


def _measure(browser: Browser, url: str, options: argparse.Namespace) -> int:
    page = browser.new_page(viewport={"width": 1440, "height": options.height})
    page.goto(f"{url}?view=timeline")
    page.wait_for_selector(".timeline[aria-busy=false]", timeout=300_000)
    print(machine(1))
    is_missed = False
    for mode in ("move", "zoom"):
        page.locator(".timeline-plot").press("w")
        page.wait_for_timeout(500)
        browser.start_tracing(page=page, categories=list(_CATEGORIES))
        before_s = _cpu_s(browser)
        frames, passed = page.evaluate(_MOVE, [mode, options.seconds])
        all_ms = (_cpu_s(browser) - before_s) * 1_000 / frames
        times_ms = frame_times_ms(json.loads(browser.stop_tracing()))
        median, high = np.percentile(times_ms, [50, 95])
        print(
            f"* {mode}, {options.lanes} lanes, window of {options.height} px: "
            f"{frames / passed:.1f} frames a second, main thread per frame {median:.1f} ms CPU"
            f" (p95 {high:.1f} ms), all processes {all_ms:.1f} ms"
        )
        is_missed |= bool(high > FRAME_MS)
    if options.minutes:
        page.evaluate(_MOVE, ["move", options.minutes * 60])
    memory = _memory_mib(browser, page)
    print(f"* memory of the page {memory:.0f} MiB after {options.minutes:g} minutes of moving")
    return int(is_missed or memory > MOST_MIB)


def _cpu_s(browser: Browser) -> float:
    """CPU time of all processes of the browser so far."""
    processes = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    return sum(float(process["cpuTime"]) for process in processes)


def frame_times_ms(trace: dict[str, Any]) -> list[float]:
    """CPU time of each frame on the main thread: all its tasks until the next frame begins."""
    events = trace["traceEvents"]
    main = {
        (one["pid"], one["tid"])
        for one in events
        if one.get("name") == "thread_name" and one["args"]["name"] == "CrRendererMain"
    }
    begins: dict[tuple[int, int], list[float]] = {}
    tasks: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for one in events:
        thread = (one.get("pid"), one.get("tid"))
        if thread not in main or one.get("ph") != "X":
            continue
        if one["name"] == "FireAnimationFrame":
            begins.setdefault(thread, []).append(one["ts"])
        elif one["name"] in ("RunTask", "ThreadControllerImpl::RunTask"):
            tasks.setdefault(thread, []).append((one["ts"], one.get("tdur", 0)))
    thread = max(begins, key=lambda found: len(begins[found]))
    edges = np.unique(np.array(begins[thread]))
    found = np.array(sorted(tasks[thread]))
    place = np.searchsorted(found[:, 0] + 0.0, edges, side="right") - 1
    return [
        float(found[low : max(high, low + 1), 1].sum()) / 1_000 for low, high in pairwise(place)
    ]


def _memory_mib(browser: Browser, page: Page) -> float:
    """Memory that the page's process has to itself, after a garbage collection."""
    page.context.new_cdp_session(page).send("HeapProfiler.collectGarbage")
    processes = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    sizes = []
    for process in processes:
        if process["type"] == "renderer":
            lines = Path(f"/proc/{process['id']}/smaps_rollup").read_text(encoding="ascii")
            own = re.findall(r"^Private_\w+:\s+(\d+) kB", lines, re.MULTILINE)
            sizes.append(sum(map(int, own)) / 1024)
    return max(sizes)


if __name__ == "__main__":
    sys.exit(main())
