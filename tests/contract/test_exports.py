"""Exports: text from a profile is data, whatever it looks like."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.contract.client import ApiClient, Served
from viewer.exports import pdf, xlsx
from viewer.exports.formats import FORMATS
from viewer.exports.header import ExportHeader
from viewer.state.models import StoredProfile

HEADER = ExportHeader("run 1/ä", "ops", "Ops", 1, "default-domain", ("op_name", "gpu_time_ns"))
MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


def _written(name: str, rows: Iterable[tuple[Any, ...]]) -> bytes:
    file = io.BytesIO()
    FORMATS[name].write(HEADER, rows, file)
    return file.getvalue()


def _csv_rows(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode(), newline="")))


def _sheet_rows(data: bytes, sheet: int = 1) -> list[list[str]]:
    """Cells of a sheet as texts; a formula would show up as one."""
    with zipfile.ZipFile(io.BytesIO(data)) as book:
        root = ElementTree.fromstring(book.read(f"xl/worksheets/sheet{sheet}.xml"))
    assert not list(root.iter(f"{MAIN}f"))
    return [
        ["".join(cell.itertext()) for cell in row.iter(f"{MAIN}c")]
        for row in root.iter(f"{MAIN}row")
    ]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_a_spreadsheet_does_not_take_a_name_for_a_formula(start: str) -> None:
    name = f"{start}HYPERLINK(1)"

    _, row = _csv_rows(_written("csv", [(name, -5)]))
    cells = _sheet_rows(_written("xlsx", [(name, -5)]))[-1]

    # A number may be negative; only text is quoted.
    assert row == [f"'{name}", "-5"]
    assert cells[0].startswith("'")
    assert cells[1] == "-5"


def test_names_survive_csv_and_json() -> None:
    names = ['a "quoted" name', "comma, here", "two\nlines", "ünïcode ✓", "<b>", "\ud800 broken"]
    rows = [(name, place) for place, name in enumerate(names)]

    from_csv = _csv_rows(_written("csv", rows))
    from_json = json.loads(_written("json", rows))

    expected = [name.encode(errors="replace").decode() for name in names]
    assert [row[0] for row in from_csv[1:]] == expected
    assert [row["op_name"] for row in from_json["results"]] == expected
    assert from_json["profile"] == "run 1/ä"


def test_a_workbook_holds_the_rows_below_its_heading() -> None:
    rows = [("conv2d <&> ✓", 5), (None, None), (True, 1.5), ("x" * 40_000, 2**53)]

    heading, names, *cells = _sheet_rows(_written("xlsx", rows))

    assert heading == ["run 1/ä: Ops (aggregation 1, default-domain)"]
    assert names == ["op_name", "gpu_time_ns"]
    assert cells[:2] == [["conv2d <&> ✓", "5"], ["yes", "1.5"]]
    assert len(cells[2][0]) == 32_767


def test_a_workbook_goes_on_to_a_further_sheet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xlsx, "MAX_ROWS", 13)

    data = _written("xlsx", [(f"op {place}", place) for place in range(25)])

    names = [row[0] for sheet in (1, 2, 3) for row in _sheet_rows(data, sheet)[2:]]
    assert names == [f"op {place}" for place in range(25)]


def test_a_pdf_is_one_and_says_where_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("/module/conv2d ✓ " * 9, place) for place in range(300)]

    whole = _written("pdf", rows)
    monkeypatch.setattr(pdf, "MAX_ROWS", 100)
    cut = _written("pdf", rows)

    for data in (whole, cut):
        assert data.startswith(b"%PDF-")
        assert data.rstrip().endswith(b"%%EOF")
    assert whole.count(b"/Type /Page\n") == 6
    assert cut.count(b"/Type /Page\n") == 3


def test_a_file_name_holds_nothing_that_a_header_stumbles_over() -> None:
    assert HEADER.file_stem == "run_1_ops_aggregation1"


@pytest.mark.parametrize("name", ["csv", "json", "xlsx"])
def test_rows_are_written_as_they_come(name: str) -> None:
    held: list[int] = []
    alive = 0

    class Tracked(str):
        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    def rows() -> Iterator[tuple[Any, ...]]:
        nonlocal alive
        for place in range(3_000):
            alive += 1
            held.append(alive)
            yield Tracked(f"op {place}"), place

    _written(name, rows())

    assert max(held) < 10


@pytest.mark.parametrize("name", FORMATS)
def test_no_rows_make_a_file_too(name: str) -> None:
    assert len(_written(name, [])) > 10


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_served(api: ApiClient, served: Served, name: str) -> None:
    reply = api.get(served.at("ops/export/"), format=name, ordering="op_id")

    assert reply.status == 200
    assert reply.headers["Content-Type"] == FORMATS[name].content_type
    assert reply.headers["Content-Disposition"].endswith(f'_ops_aggregation1.{name}"')
    assert int(reply.headers["Content-Length"]) == len(reply.body) > 0


@pytest.mark.parametrize("name", list(FORMATS))
def test_a_full_temporary_folder_is_an_error_before_the_headers(
    api: ApiClient, ours: Served, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(FORMATS, name, replace(FORMATS[name], write=full))

    reply = api.get(ours.at("ops/export/"), format=name)

    assert (reply.status, reply.json["error"]["code"]) == (507, "STORAGE_FULL")


def test_a_renamed_profile_is_exported_under_its_new_name(api: ApiClient, ours: Served) -> None:
    StoredProfile.objects.create(id=ours.id, path=str(ours.path), name="My run")

    for address in ("ops/export/", "report/"):
        disposition = api.get(ours.at(address)).headers["Content-Disposition"]
        assert 'filename="My_run_' in disposition, address
