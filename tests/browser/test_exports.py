"""Export files, opened: what they hold is what the API says, whichever table and format."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import zipfile
import zlib
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Viewer

MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
Row = dict[str, Any]


def as_text(value: object) -> str:
    """A value as a sheet or a line of text shows it."""
    if value is None:
        return ""
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def csv_rows(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline="")))


def xlsx_rows(data: bytes) -> list[list[str]]:
    with zipfile.ZipFile(io.BytesIO(data)) as book:
        root = ElementTree.fromstring(book.read("xl/worksheets/sheet1.xml"))
    return [
        ["".join(cell.itertext()) for cell in row.iter(f"{MAIN}c")]
        for row in root.iter(f"{MAIN}row")
    ]


def pdf_texts(data: bytes) -> list[str]:
    """Every text that is drawn, in order."""
    found: list[str] = []
    for stream in re.findall(rb"stream\r?\n(.*?)endstream", data, re.DOTALL):
        try:
            content = zlib.decompress(base64.a85decode(stream.strip(), adobe=False))
        except ValueError:
            content = zlib.decompress(base64.a85decode(b"<~" + stream.strip(), adobe=True))
        texts = re.findall(rb"\(((?:[^()\\]|\\.)*)\) Tj", content)
        found += [re.sub(rb"\\(.)", rb"\1", text).decode("latin-1") for text in texts]
    return found


def download(page: Page, viewer: Viewer, view: str, caption: str, label: str) -> bytes:
    page.goto(viewer.address(view=view))
    region = page.get_by_role("region", name=caption, exact=True)
    expect(region.locator("tbody tr").first).to_be_visible()
    region.get_by_role("button", name="Export", exact=True).click()
    with page.expect_download() as downloading:
        region.get_by_role("link", name=label, exact=True).click()
    # A CSV file has no place for a heading that programs would not stumble over.
    assert downloading.value.suggested_filename.startswith("ResNet-50")
    return downloading.value.path().read_bytes()


def names_of(rows: list[Row]) -> list[str]:
    return list(rows[0])


def check_csv(data: bytes, rows: list[Row]) -> None:
    names, *lines = csv_rows(data)
    assert names == names_of(rows)
    for line, row in zip(lines, rows, strict=True):
        for cell, value in zip(line, row.values(), strict=True):
            assert _same(cell, value), (cell, value)


def check_json(data: bytes, rows: list[Row]) -> None:
    written = json.loads(data)
    assert written["profile"] == "ResNet-50, AMP"
    assert written["results"] == rows


def check_xlsx(data: bytes, rows: list[Row]) -> None:
    heading, names, *cells = xlsx_rows(data)
    assert "ResNet-50, AMP" in heading[0]
    assert names == names_of(rows)
    assert len(cells) == len(rows)
    for line, row in zip(cells, rows, strict=True):
        known = [value for value in row.values() if value is not None and value != ""]
        shown = [cell for cell in line if cell != ""]
        assert len(shown) == len(known)
        for cell, value in zip(shown, known, strict=True):
            assert _same(cell, value), (cell, value)


def check_pdf(data: bytes, rows: list[Row]) -> None:
    texts = pdf_texts(data)
    assert any("ResNet-50, AMP" in text for text in texts)
    drawn = set(texts)
    for row in rows:
        for name in ("gpu_time_ns", "duration_ns"):
            if name in row:
                assert any(_is_cut_of(text, str(row[name])) for text in drawn), row


def _is_cut_of(text: str, whole: str) -> bool:
    """A cell is cut in its middle where it does not fit."""
    head, dots, tail = text.partition("..")
    return text == whole or bool(dots and whole.startswith(head) and whole.endswith(tail))


def _same(cell: str, value: object) -> bool:
    if isinstance(value, float):
        return float(cell) == pytest.approx(value, rel=1e-9)
    text = as_text(value)
    return cell.removeprefix("'") == text.removeprefix("'")


CHECKS: dict[str, Callable[[bytes, list[Row]], None]] = {
    "CSV": check_csv,
    "JSON": check_json,
    "Excel": check_xlsx,
    "PDF": check_pdf,
}
TABLES = [
    ("op-types", "Op types", "op-types", "-gpu_time_ns"),
    ("ops", "Ops", "ops", "-gpu_time_ns"),
    ("iterations", "Iterations", "iterations", "iteration_index"),
    ("gpus", "GPUs", "gpus", "device_id"),
]
