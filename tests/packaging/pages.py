"""Code blocks of the documentation."""

from __future__ import annotations

import re
from textwrap import dedent

from tests.packaging.containers import REPOSITORY

_BLOCK = re.compile(r"^([ ]*)```(\w+)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)


def blocks(page: str, language: str) -> list[str]:
    """The blocks of a page that are marked with a language."""
    text = (REPOSITORY / page).read_text("utf-8")
    return [dedent(found[3]) for found in _BLOCK.finditer(text) if found[2] == language]
