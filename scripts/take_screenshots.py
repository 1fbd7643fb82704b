"""Renew the pictures in docs/img from the bundled profile (after `make frontend`)."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import ViewportSize, sync_playwright

REPOSITORY = Path(__file__).resolve().parent.parent
PICTURES = REPOSITORY / "docs/img"
DATABASE = REPOSITORY / "demo/out/dlprof_dldb.sqlite"
SIZE: ViewportSize = {"width": 1440, "height": 900}
START_LIMIT_S = 60
# The browser gets no network but the viewer: some systems forbid its own background requests.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]


@contextmanager
def running_viewer() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    viewer = Path(sys.executable).with_name("dlprofviewer")
    server = subprocess.Popen([viewer, "--port", str(port), DATABASE])
    try:
        wait_until_up(f"http://127.0.0.1:{port}/healthz", server)
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.terminate()
        server.wait(START_LIMIT_S)


def wait_until_up(address: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    raise SystemExit(f"the viewer did not answer at {address}")


def main() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    chromium = os.environ.get("DLPROF_CHROMIUM", "/usr/bin/chromium")
    with running_viewer() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        for view in ("dashboard", "ops", "iterations"):
            for theme in ("light", "dark"):
                page = browser.new_page(viewport=SIZE, color_scheme=theme)
                page.goto(f"{address}?view={view}", wait_until="networkidle")
                page.screenshot(path=PICTURES / f"{view}-{theme}.png")
                page.close()
        browser.close()


if __name__ == "__main__":
    main()
