"""The view Memory of a large recording: its first picture, and frames while a part is marked.

    python -m benchmarks.memory_frames DATABASE [--recording 1] [--picture FILE]

Opens the view in headless Chromium, once to start the server and then anew, and drags across the
curve in each frame. Prints the CPU time of server and page until the first picture, and of a frame
on the main thread of the page.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.measured import machine
from benchmarks.timeline_frames import FRAME_MS, frame_times_ms
from benchmarks.viewer_server import Viewer, running

FIRST_MS = 1_000
_CATEGORIES = ("devtools.timeline", "toplevel", "disabled-by-default-devtools.timeline.frame")
_DRAG = """(seconds) => new Promise((done) => {
  const plot = document.querySelector('.memory-brush');
  const box = plot.getBoundingClientRect();
  const send = (type, x) => plot.dispatchEvent(new PointerEvent(type, {
    bubbles: true, pointerId: 1, button: 0, clientX: box.left + x, clientY: box.top + 40,
  }));
  plot.setPointerCapture = () => {};
  send('pointerdown', 20);
  const begin = performance.now();
  let frames = 0;
  const step = (now) => {
    frames += 1;
    const passed = (now - begin) / 1000;
    send('pointermove', 20 + (box.width - 40) * Math.abs((passed % 2) - 1));
    if (passed < seconds) requestAnimationFrame(step);
    else { send('pointercancel', 20); done([frames, passed]); }
  };
  requestAnimationFrame(step);
})"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run it and print its lines; returns 1 if a limit is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory_frames")
    parser.add_argument("database", type=Path)
    parser.add_argument("--recording", type=int, default=1, help="number (default 1)")
    parser.add_argument("--seconds", type=float, default=5, help="of dragging (default 5)")
    parser.add_argument("--picture", type=Path, help="PNG of the view to write")
    options = parser.parse_args(argv)
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        with running(str(options.database)) as viewer:
            page = browser.new_page(viewport={"width": 1440, "height": 1000})
            page.goto(viewer.url)  # Starts the workers of the server.
            page.wait_for_load_state("networkidle", timeout=300_000)
            first_ms = _first_picture(page, viewer, options.recording)
            high_ms = _frames(browser, page, options.seconds)
            if options.picture:
                page.screenshot(path=options.picture, full_page=True)
    return int(first_ms > FIRST_MS or high_ms > FRAME_MS)


def _first_picture(page: Page, viewer: Viewer, recording: int) -> float:
    """Open the view; returns the CPU time of the server and of the page until the picture."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    before, began = viewer.cpu_ms(), time.perf_counter()
    separator = "&" if "?" in viewer.url else "?"
    page.goto(f"{viewer.url}{separator}view=memory&recording={recording}")
    page.wait_for_selector(".memory-drawing path", timeout=300_000)
    passed_ms = 1_000 * (time.perf_counter() - began)
    metrics = session.send("Performance.getMetrics")["metrics"]
    page_ms = 1_000 * next(one["value"] for one in metrics if one["name"] == "TaskDuration")
    server_ms = viewer.cpu_ms() - before
    print(machine(1))
    print(
        f"* first picture: {server_ms:.0f} ms CPU of the server, {page_ms:.0f} ms of the page's"
        f" main thread; {passed_ms:.0f} ms passed"
    )
    return server_ms + page_ms


def _frames(browser: Browser, page: Page, seconds: float) -> float:
    """Drag across the curve; returns the CPU time of a frame, its 95th percentile."""
    page.wait_for_load_state("networkidle", timeout=300_000)
    browser.start_tracing(page=page, categories=list(_CATEGORIES))
    frames, passed = page.evaluate(_DRAG, seconds)
    times_ms = frame_times_ms(json.loads(browser.stop_tracing()))
    median, high = np.percentile(times_ms, [50, 95])
    print(
        f"* marking a part: {frames / passed:.1f} frames a second, main thread per frame"
        f" {median:.1f} ms CPU (p95 {high:.1f} ms)"
    )
    return float(high)


if __name__ == "__main__":
    sys.exit(main())
