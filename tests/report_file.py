"""A reader of HTML reports that shares no code with what writes them."""

from __future__ import annotations

import base64
import gzip
import itertools
import json
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any


class _Blocks(HTMLParser):
    """The elements that hold JSON, and the addresses that the page names."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: dict[str, str] = {}
        self.links: list[str] = []
        self.title = ""
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.links += [values[name] or "" for name in ("src", "href") if name in values]
        self._inside = tag
        if tag == "script" and values.get("type") == "application/json":
            self._inside = values["id"] or ""
            self.blocks[self._inside] = ""

    def handle_data(self, data: str) -> None:
        if self._inside in self.blocks:
            self.blocks[self._inside] += data
        elif self._inside == "title":
            self.title += data

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""


@dataclass(frozen=True)
class ReportFile:
    """One report, unpacked."""

    title: str
    links: list[str]
    blocks: dict[str, Any]

    @property
    def main(self) -> Any:
        return self.blocks["dlprof-report"]

    def said(self, language: str = "en") -> Any:
        return self.blocks[f"dlprof-said-{language}"]

    def rows(self, address: str, table: Any, language: str = "en") -> list[dict[str, Any]]:
        """The rows of an encoded table, with the columns of its address."""
        columns = {}
        sentences = self.main["sentences"][language]
        for info, encoded in zip(
            self.main["tables"][address]["columns"], table["columns"], strict=True
        ):
            is_stepped = isinstance(encoded, dict)
            values = list(itertools.accumulate(encoded["steps"])) if is_stepped else encoded
            if info["is_text"]:
                values = [
                    None if place is None else self.main["strings"][place] for place in values
                ]
                if info["is_sentence"]:
                    values = [None if text is None else sentences[text] for text in values]
            elif info["kind"] == "boolean":
                values = [None if flag is None else bool(flag) for flag in values]
            columns[info["name"]] = values
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def read_report(content: bytes | Path) -> ReportFile:
    """The report of a file or of a reply."""
    text = (content.read_bytes() if isinstance(content, Path) else content).decode()
    parser = _Blocks()
    parser.feed(text)
    unpacked = {
        name: json.loads(gzip.decompress(base64.b64decode(json.loads(packed))))
        for name, packed in parser.blocks.items()
    }
    return ReportFile(parser.title, parser.links, unpacked)
