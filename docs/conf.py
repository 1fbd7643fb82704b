"""The documentation site: Sphinx reads the Markdown files of this folder (``make site``)."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx
from sphinx.highlighting import lexers

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
# Diagrams are shown as their text: drawing them would load a program from another host.
lexers["mermaid"] = TextLexer()

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

# Files of the folder above that are pages here, and how other pages and they themselves link.
PAGES_ABOVE = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}


def _link_within_the_site(_app: Sphinx, document: str, source: list[str]) -> None:
    """Let links that are right in a checkout lead to pages of the site, or be plain names."""
    text = source[0]
    above = {page.removesuffix(".md"): name for name, page in PAGES_ABOVE.items()}
    if document in above:
        text = (ROOT / above[document]).read_text("utf-8").replace("](docs/", "](")
    text = re.sub(r"\[([\w/]+)\]\((?:\.\./)+[\w/]+/README\.md\)", r"`\1`", text)
    for name, page in PAGES_ABOVE.items():
        text = re.sub(rf"\]\((\.\./)*{re.escape(name)}", f"](/{page}", text)
    source[0] = text


def setup(app: Sphinx) -> None:
    """Register what this file adds to Sphinx."""
    app.connect("source-read", _link_within_the_site)
