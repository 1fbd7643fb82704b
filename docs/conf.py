"""The documentation site: Sphinx reads the Markdown files of this folder (``make site``)."""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.highlighting import lexer_classes

ROOT = Path(__file__).resolve().parent.parent

project = "open-dlprof"
author = "the open-dlprof contributors"
copyright = author
with (ROOT / "pyproject.toml").open("rb") as file:
    release: str = tomllib.load(file)["project"]["version"]
version = release

extensions = ["myst_parser"]
exclude_patterns = ["_build", "_templates", "views/zh"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
lexer_classes["redis"] = lexer_classes["none"]

html_title = f"open-dlprof {release}"
html_theme = "pydata_sphinx_theme"
templates_path = ["_templates"]
# The theme lists the pages in its header, where their titles take three lines.
html_sidebars = {"**": ["all-pages"]}
html_extra_path = ["openapi.json", "notebook.ipynb"]
html_show_sourcelink = False
# Pages name each other by relative addresses alone, so that the site works from a folder.
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "navbar_center": [],
    "navbar_end": ["version-switcher", "theme-switcher"],
    # Each published version lies in a folder of its own beside this file.
    "switcher": {
        "json_url": os.environ.get("DLPROF_SITE_SWITCHER", "../switcher.json"),
        "version_match": os.environ.get("DLPROF_SITE_VERSION", version),
    },
    "check_switcher": False,
}

# Folders that a checkout has and the site does not: links to their files become plain names.
CODE = (
    *("aggregator", "demo", "dlprof_client", "dlprof_nvtx", "frontend"),
    *("profiler_cli", "scripts", "tests", "viewer"),
)
# Files of the folder above that are pages here, and how other pages and they themselves link.
PAGES_ABOVE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples/README.md": "example.md",
}


def _link_within_the_site(_app: Sphinx, document: str, source: list[str]) -> None:
    """Let links that are right in a checkout lead to pages of the site, or be plain names."""
    text = source[0]
    above = {page.removesuffix(".md"): name for name, page in PAGES_ABOVE.items()}
    if document in above:
        text = (ROOT / above[document]).read_text("utf-8").replace("](docs/", "](")
    if document == "example":  # Its programs are no pages.
        text = re.sub(r"\[(`[^`]+`)\]\([\w.]+\)", r"\1", text)
    text = re.sub(r"\[([\w/]+)\]\((?:\.\./)+[\w/]+/README\.md\)", r"`\1`", text)
    text = re.sub(r"\]\((?:\.\./)*benchmarks/", "](/measurements/", text)
    text = re.sub(rf"\[([^]]+)\]\((?:\.\./)*(?:{'|'.join(CODE)})/[^)]*\)", r"\1", text)
    if document.startswith("measurements/"):  # `make site` copies benchmarks/*.md there.
        text = re.sub(r"\]\(\.\./docs/", "](/", text)
    for name, page in PAGES_ABOVE.items():
        text = re.sub(rf"\]\((\.\./)*{re.escape(name)}", f"](/{page}", text)
    source[0] = text


def _append_addresses(_app: Sphinx, document: str, source: list[str]) -> None:
    """List the addresses of ``openapi.json`` at the end of the page about the REST API."""
    if document != "api":
        return
    paths = json.loads((ROOT / "docs/openapi.json").read_text("utf-8"))["paths"]
    rows = ["", "## Addresses", "", "| address | what it returns or does |", "|---|---|"]
    for address, operations in sorted(paths.items()):
        for method, operation in operations.items():
            first = operation["description"].split("\n\n")[0]
            said = " ".join(first.replace("|", "\\|").replace("``", "`").split())
            rows.append(f"| {method.upper()} `{address}` | {said} |")
    source[0] += "\n".join(rows) + "\n"


def setup(app: Sphinx) -> None:
    """Register what this file adds to Sphinx."""
    app.connect("source-read", _link_within_the_site)
    app.connect("source-read", _append_addresses)
