"""Renew the pictures of every view, in both themes, in docs/img: `make pictures`.

``--check`` then ends with 1 if a picture that was there is another one now.
"""

from __future__ import annotations

import io
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlencode

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, ViewportSize, sync_playwright

from aggregator.profile.arrays import Int64
from benchmarks.viewer_server import Api, running

Theme = Literal["light", "dark"]

REPOSITORY = Path(__file__).resolve().parent.parent
PICTURES = REPOSITORY / "docs/img"
DATABASE = REPOSITORY / "demo/out/dlprof_dldb.sqlite"
#: A run of two ranks, for the views that a single GPU does not have.
TWO_RANKS = REPOSITORY / "tests/data/captures/ddp.sqlite.xz"
SIZE: ViewportSize = {"width": 1440, "height": 900}
THEMES: Final[tuple[Theme, ...]] = ("light", "dark")
#: Each view, and what its address says beside its name.
VIEWS: Final[dict[str, dict[str, str]]] = {
    "dashboard": {},
    "op-types": {},
    "group-ops": {"open": "/|/ResNet/|/ResNet/layer1/"},
    "ops": {},
    "kernels-by-iteration": {"iteration": "5"},
    "kernels-by-op": {"iteration": "5", "op": "BATCH_NORM_BPROP_1"},
    "iterations": {},
    # Two iterations, in which names can be read.
    "timeline": {"span": "7600000000-7660000000"},
    "critical-path": {},
    "roofline": {},
    "op": {"op": "CONV2D_1"},
    # The kernel with the most GPU time, filled in from the profile.
    "kernel": {},
}
VIEWS_OF_RANKS: Final = ("gpus", "ranks")
#: Runs of one program with three optimizers, oldest first, to compare.
OPTIMIZERS: Final = ("adam_loop", "adam_foreach", "adam_fused")
#: A recording of GPU memory, of another training than the rest.
SNAPSHOT = REPOSITORY / "tests/data/captures/memory/transformer.pickle.xz"
KEPT_COLORS: Final = 128
#: Two runs of an unchanged page differ by 0.01 % of the pixels; a moved or renamed part by more.
MOST_CHANGED_PCT: Final = 0.5
SAME_COLOR: Final = 24
# The browser gets no network but the viewer: some systems forbid its own background requests.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]


def main() -> int:
    PICTURES.mkdir(parents=True, exist_ok=True)
    before = {path.name: path.read_bytes() for path in PICTURES.glob("*.png")}
    take_all()
    stale = stale_pictures(before) if "--check" in sys.argv else []
    for name in stale:
        print(f"docs/img/{name} was stale: run `make pictures` and commit it", file=sys.stderr)
    return 1 if stale else 0


def stale_pictures(before: Mapping[str, bytes]) -> list[str]:
    """Return the pictures that are new, or differ visibly from those of before."""
    return [
        path.name
        for path in sorted(PICTURES.glob("*.png"))
        if path.name not in before or changed_pct(before[path.name], path) > MOST_CHANGED_PCT
    ]


def changed_pct(before: bytes, path: Path) -> float:
    """Return the share of the pixels of a picture that have another color than before."""
    old, new = (
        np.asarray(Image.open(source).convert("RGB"), dtype=np.int16)
        for source in (io.BytesIO(before), path)
    )
    if old.shape != new.shape:
        return 100.0
    return float(100.0 * (np.abs(old - new).max(axis=2) > SAME_COLOR).mean())


def take_all() -> None:
    """Take every picture."""
    chromium = os.environ.get("DLPROF_CHROMIUM", "/usr/bin/chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        with running(str(DATABASE)) as viewer:
            views = VIEWS | {"kernel": {"kernel": longest_kernel(viewer.url)}}
            for view, query in views.items():
                take_view(browser, viewer.url, view, query)
        with tempfile.TemporaryDirectory() as folder:
            database = import_ranks(Path(folder))
            with running(str(database)) as viewer:
                for view in VIEWS_OF_RANKS:
                    take_view(browser, viewer.url, view, {})
            with running(str(add_memory(Path(folder)))) as viewer:
                take_view(browser, viewer.url, "memory", {})
            with running(str(import_optimizers(Path(folder)))) as viewer:
                take_comparison(browser, viewer.url)
        browser.close()


def longest_kernel(url: str) -> str:
    """Return the full name of the kernel with the most GPU time."""
    api = Api(url)
    profile = f"profiles/{api.get('profiles/')['results'][0]['id']}"
    newest = api.get(f"{profile}/aggregations/")["results"][-1]["id"]
    first = api.get(f"{profile}/aggregations/{newest}/top-kernels/")["results"][0]
    return str(first["kernel_long_name"])


def import_ranks(folder: Path) -> Path:
    """Return the database of the run of two ranks."""
    return import_capture(TWO_RANKS, folder, "Two ranks")


def import_optimizers(folder: Path) -> Path:
    """Return a folder with the databases of the runs with three optimizers."""
    databases = folder / "optimizers"
    databases.mkdir()
    for name in OPTIMIZERS:
        capture = REPOSITORY / f"tests/data/captures/advice/{name}.sqlite.xz"
        own = folder / name
        own.mkdir()
        import_capture(capture, own, "Optimizer").rename(databases / f"{name}.sqlite")
    return databases


def import_capture(packed: Path, folder: Path, name: str) -> Path:
    """Return the database of a capture."""
    capture = folder / packed.stem
    capture.write_bytes(lzma.decompress(packed.read_bytes()))
    words = (f"--database={capture}", f"--output_path={folder}", f"--profile_name={name}")
    command = [sys.executable, "-m", "profiler_cli.dlprof", *words, "--force=true"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder / "dlprof_dldb.sqlite"


def take_comparison(browser: Browser, url: str) -> None:
    """Take the comparison of the first with the last optimizer, and what all of them did."""
    profiles = Api(url).get("profiles/")["results"]
    by_file = {str(profile["file_name"]): str(profile["id"]) for profile in profiles}
    first, last = (by_file[f"{name}.sqlite"] for name in (OPTIMIZERS[0], OPTIMIZERS[-1]))
    newest = Api(url).get(f"profiles/{first}/aggregations/")["results"][-1]["id"]
    take_view(browser, url, "compare", {"profile": last, "base": f"{first}@{newest}"})
    take_view(browser, url, "history", {"profile": last})


def add_memory(folder: Path) -> Path:
    """Return a copy of the demo's database with a recording of GPU memory."""
    database = Path(shutil.copy(DATABASE, folder / "memory.sqlite"))
    snapshot = folder / SNAPSHOT.stem
    snapshot.write_bytes(lzma.decompress(SNAPSHOT.read_bytes()))
    words = ("memory", str(snapshot), f"--into={database}")
    command = [sys.executable, "-m", "profiler_cli.dlprof", *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return database


def take_view(browser: Browser, url: str, view: str, query: dict[str, str]) -> None:
    """Take a view in both themes."""
    for theme in THEMES:
        take(browser, url, {"view": view} | query, f"{view}-{theme}", theme)


def take(browser: Browser, url: str, query: dict[str, str], name: str, theme: Theme) -> None:
    """Take one picture."""
    page = browser.new_page(viewport=SIZE, color_scheme=theme)
    page.goto(f"{url}/?{urlencode(query)}", wait_until="networkidle")
    save_small(page.screenshot(), PICTURES / f"{name}.png")
    page.close()


def most_used(codes: Int64, counts: Int64) -> list[int]:
    """Return the colors that cover most of a picture."""
    found: list[int] = codes[np.argsort(-counts, kind="stable")[:KEPT_COLORS]].tolist()
    return found


def save_small(png: bytes, path: Path) -> None:
    """Write a picture with 256 colors: enough for a page, and a third of the size.

    Colors that cover much, such as those of the page itself, are kept as they are; of the others
    those are chosen that keep the hue of what covers little, for it means something.
    """
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    pixels = np.asarray(picture).reshape(-1, 3)
    codes, counts = np.unique(pixels @ np.array([1 << 16, 1 << 8, 1]), return_counts=True)
    kept = [(code >> 16, code >> 8 & 255, code & 255) for code in most_used(codes, counts)]
    others = picture.quantize(256 - len(kept), method=Image.Quantize.MAXCOVERAGE).getpalette()
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for color in kept for part in color] + (others or []))
    picture.quantize(palette=palette, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    sys.exit(main())
