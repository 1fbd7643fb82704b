"""Renew the pictures in docs/img from the bundled profile: `make pictures`."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from PIL import Image
from playwright.sync_api import ViewportSize, sync_playwright

Theme = Literal["light", "dark"]

REPOSITORY = Path(__file__).resolve().parent.parent
PICTURES = REPOSITORY / "docs/img"
DATABASE = REPOSITORY / "demo/out/dlprof_dldb.sqlite"
SIZE: ViewportSize = {"width": 1440, "height": 900}
#: Name of the picture, theme, and the address of what it shows.
SHOTS: Final[tuple[tuple[str, Theme, str], ...]] = (
    ("dashboard-light", "light", "view=dashboard"),
    ("dashboard-zh-dark", "dark", "view=dashboard&lang=zh"),
    ("ops-light", "light", "view=ops"),
    ("group-ops-light", "light", "view=group-ops&open=/|/iteration%20%23/"),
    ("kernels-by-op-light", "light", "view=kernels-by-op&iteration=5&op=BATCH_NORM_BPROP_1"),
    ("iterations-dark", "dark", "view=iterations"),
)
START_LIMIT_S = 60
# The browser gets no network but the viewer: some systems forbid its own background requests.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]


@contextmanager
def running_viewer() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    viewer = Path(sys.executable).with_name("dlprofviewer")
    with tempfile.TemporaryDirectory() as state:
        server = subprocess.Popen(
            [viewer, "--port", str(port), DATABASE],
            env={**os.environ, "DLPROF_STATE_DIR": state},
        )
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
        for name, theme, query in SHOTS:
            page = browser.new_page(viewport=SIZE, color_scheme=theme)
            page.goto(f"{address}?{query}", wait_until="networkidle")
            save_small(page.screenshot(), PICTURES / f"{name}.png")
            page.close()
        browser.close()


def save_small(png: bytes, path: Path) -> None:
    """256 colours are enough for a page, and a third of the size stays in the history."""
    Image.open(io.BytesIO(png)).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(
        path, optimize=True
    )


if __name__ == "__main__":
    main()
