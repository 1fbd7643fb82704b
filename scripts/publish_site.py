"""Add a built documentation site to the folder of all versions, and list them for the version menu.

``python scripts/publish_site.py BUILT FOLDER VERSION``: FOLDER is what a static host serves.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

LATEST = "latest"


def _order(name: str) -> tuple[bool, list[int]]:
    return name == LATEST, [int(number) for number in re.findall(r"\d+", name)]


def publish(built: Path, folder: Path, version: str) -> list[str]:
    """Copy a site to its version's folder; returns all versions, newest first.

    Raises:
        ValueError: if a version is no number such as 1.2.0, and not "latest".
    """
    if version != LATEST and not re.fullmatch(r"\d+(\.\d+)+", version):
        raise ValueError(f"{version} is no version: use a number such as 1.2.0, or {LATEST}.")
    place = folder / version
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(built, place)
    versions = sorted((path.parent.name for path in folder.glob("*/index.html")), key=_order)
    versions.reverse()
    entries = [{"name": name, "version": name, "url": f"../{name}/"} for name in versions]
    (folder / "switcher.json").write_text(json.dumps(entries, indent=1), "utf-8")
    start = f'<!doctype html><meta http-equiv="refresh" content="0; url={versions[0]}/">\n'
    (folder / "index.html").write_text(start, "utf-8")
    (folder / ".nojekyll").touch()
    return versions


if __name__ == "__main__":
    publish(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
