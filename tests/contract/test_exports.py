"""Exports: text from a profile is data, whatever it looks like."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from viewer.exports.formats import FORMATS, ExportHeader, write_csv, write_json

HEADER = ExportHeader("run 1/ä", "ops", "Ops", 1, "default-domain", ("op_name", "gpu_time_ns"))


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_a_spreadsheet_does_not_take_a_name_for_a_formula(start: str) -> None:
    name = f"{start}HYPERLINK(1)"

    data = b"".join(write_csv(HEADER, [(name, -5)])).decode()

    _, row = csv.reader(io.StringIO(data, newline=""))
    # A number may be negative; only text is quoted.
    assert row == [f"'{name}", "-5"]


def test_names_survive_csv_and_json() -> None:
    names = ['a "quoted" name', "comma, here", "two\nlines", "ünïcode ✓", "<b>", "\ud800 broken"]
    rows = [(name, place) for place, name in enumerate(names)]

    from_csv = list(csv.reader(io.StringIO(b"".join(write_csv(HEADER, rows)).decode(), newline="")))
    from_json = json.loads(b"".join(write_json(HEADER, rows)))

    expected = [name.encode(errors="replace").decode() for name in names]
    assert [row[0] for row in from_csv[1:]] == expected
    assert [row["op_name"] for row in from_json["results"]] == expected
    assert from_json["profile"] == "run 1/ä"


def test_a_file_name_holds_nothing_that_a_header_stumbles_over() -> None:
    assert HEADER.file_stem == "run_1_ops_aggregation1"


@pytest.mark.parametrize("name", FORMATS)
def test_rows_are_written_as_they_come(name: str) -> None:
    taken = 0

    def endless() -> Iterator[tuple[Any, ...]]:
        nonlocal taken
        while True:
            taken += 1
            yield "name", taken

    chunks = FORMATS[name].write(HEADER, endless())
    for _ in range(3):
        next(chunks)

    assert taken < 5_000


@pytest.mark.parametrize("name", FORMATS)
def test_no_rows_make_a_file_too(name: str) -> None:
    data = b"".join(FORMATS[name].write(HEADER, [])).decode()

    assert data.strip()
    assert "op_name" in data
