"""Renew the pictures in docs/img from the bundled profile: `make pictures`."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Final, Literal

from PIL import Image
from playwright.sync_api import ViewportSize, sync_playwright

from benchmarks.viewer_server import running

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
    ("group-ops-light", "light", "view=group-ops&open=/|/ResNet/|/ResNet/layer1/"),
    ("kernels-by-op-light", "light", "view=kernels-by-op&iteration=5&op=BATCH_NORM_BPROP_1"),
    ("iterations-dark", "dark", "view=iterations"),
)
# The browser gets no network but the viewer: some systems forbid its own background requests.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]


def main() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    chromium = os.environ.get("DLPROF_CHROMIUM", "/usr/bin/chromium")
    with running(str(DATABASE)) as viewer, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        for name, theme, query in SHOTS:
            page = browser.new_page(viewport=SIZE, color_scheme=theme)
            page.goto(f"{viewer.url}/?{query}", wait_until="networkidle")
            save_small(page.screenshot(), PICTURES / f"{name}.png")
            page.close()
        browser.close()


def save_small(png: bytes, path: Path) -> None:
    """Write a picture with 256 colors: enough for a page, and a third of the size."""
    Image.open(io.BytesIO(png)).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(
        path, optimize=True
    )


if __name__ == "__main__":
    main()
